"""The configuration that is the fastest, found once: by the interpreter, whose time is the number of programs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from hybridc.errors import DeviceError
from hybridc.ground.store import store
from hybridc.lower.triton.texts import fill_launch
from hybridc.lower.triton.triton_function import Config
from hybridc.runtime.devices.interpreter import Interpreter
from hybridc.runtime.devices.tuning import fastest

pytestmark = pytest.mark.triton


SIZE = 2048
QUOTES = '"""\n'
MANY, FEW = Config((("BLOCK", 16),), (SIZE // 16, 1, 1)), Config((("BLOCK", SIZE),), (1, 1, 1))


@pytest.fixture
def given(monkeypatch, tmp_path):
    """A function, and an array to fill; nothing is known of them."""
    from hybridc.ground.store import Store

    own = Store(tmp_path)
    monkeypatch.setattr("hybridc.ground.store.store", lambda: own)
    assert store() is not own
    return fill_launch(np.dtype(np.float32), SIZE, "3.0", 0).function, np.zeros(SIZE, np.float32)


class Impossible(Interpreter):
    """Runs nothing of more than one program."""

    def prepare(self, function, config):
        if config.grid != (1, 1, 1):
            raise DeviceError("out of resources")
        return super().prepare(function, config)


class Forbidden(Interpreter):
    def prepare(self, function, config):
        raise AssertionError("what is known is not asked again")


@pytest.mark.parametrize("configs", [(MANY, FEW), (FEW, MANY)])
def test_the_fastest_is_chosen_once(given, configs):
    function, array = given
    assert fastest(Interpreter(), function, configs, [array.ctypes.data], [SIZE]) == FEW
    np.testing.assert_array_equal(array, 3)
    assert fastest(Forbidden(), function, configs, [array.ctypes.data], [SIZE]) == FEW
    assert fastest(Forbidden(), function, configs, [array.ctypes.data], [SIZE - 1 + SIZE // 2]) == FEW
    with pytest.raises(AssertionError, match="known"):
        fastest(Forbidden(), function, configs, [array.ctypes.data], [SIZE // 2])


def test_what_a_card_cannot_run_is_left_out(given):
    function, array = given
    assert fastest(Impossible(), function, (MANY, FEW), [array.ctypes.data], [SIZE]) == FEW


def test_functions_that_differ_in_their_description_are_one(given):
    """Where in a network a function is from changes as the user's file does, its code does not."""
    function, array = given
    fastest(Interpreter(), function, (MANY, FEW), [array.ctypes.data], [SIZE])
    moved = dataclasses.replace(function, source=f'"""elsewhere.py:7"""\n{function.source.partition(QUOTES)[2]}')
    assert moved.key != function.key
    assert fastest(Forbidden(), moved, (MANY, FEW), [array.ctypes.data], [SIZE]) == FEW
    other = dataclasses.replace(function, source=function.source.replace("tl.store", " tl.store", 1))
    with pytest.raises(AssertionError, match="known"):
        fastest(Forbidden(), other, (MANY, FEW), [array.ctypes.data], [SIZE])
