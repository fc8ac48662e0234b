"""Native code reads objects only where they are laid out as declared."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from hybridc.lower.llvm.executor import structures as layout
from hybridc.runtime.native import NativeProgram, probe
from hybridc.runtime.native.native_program import Tables, native_entry
from tests.runtime.native.native_programs import add_plan


@pytest.fixture(autouse=True)
def asked_anew():
    probe.objects_are_as_declared.cache_clear()
    yield
    probe.objects_are_as_declared.cache_clear()


def moved(struct, field):
    """The declaration with one field more before ``field``."""
    fields = list(struct._fields_)
    at = [name for name, _ in fields].index(field)
    fields.insert(at, ("moved", fields[at][1]))
    return type(struct.__name__, (ctypes.Structure,), {"_fields_": fields})


def test_objects_of_this_interpreter():
    assert probe.objects_are_as_declared()


@pytest.mark.parametrize("field", ["type", "data", "rank", "shape", "descr", "flags"])
def test_arrays_that_lie_otherwise_are_noticed(monkeypatch, field):
    monkeypatch.setattr(probe, "ArrayObject", moved(layout.ArrayObject, field))
    assert not probe.objects_are_as_declared()


@pytest.mark.parametrize("field", ["byteorder", "type_num"])
def test_element_types_that_lie_otherwise_are_noticed(monkeypatch, field):
    monkeypatch.setattr(probe, "DescrObject", moved(layout.DescrObject, field))
    assert not probe.objects_are_as_declared()


def test_then_the_entry_is_in_python_and_means_the_same(monkeypatch):
    monkeypatch.setattr(probe, "ArrayObject", moved(layout.ArrayObject, "data"))
    x = np.arange(10, dtype=np.float32)
    program, native = NativeProgram(add_plan(10)), native_entry(Tables(add_plan(10)))
    assert type(program.entry) is not type(native)
    workspace = program.workspace()
    np.testing.assert_array_equal(program.entry(workspace, None, x), native(workspace, None, x))
    assert program.entry(workspace, None, x[::2]) is NotImplemented
