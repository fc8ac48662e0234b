"""Random networks whose tile programs hold to the specification."""

from __future__ import annotations

import pytest
from hypothesis import given

import hybridc as mx
from hybridc.ir.tiles.tile_parser import parse
from hybridc.ir.tiles.tile_spec import faults
from tests.lower.write_kernel import examples
from tests.random_programs import Net, programs


def hold_to_specification(dtypes, made):
    """Assert that tile programs are right and parsed as printed; ``made(monkeypatch, net, *inputs)`` gives those."""

    @examples(40)
    @given(program=programs(dtypes=dtypes))
    def hold(program):
        with pytest.MonkeyPatch.context() as patch:
            inputs = [mx.nd.zeros(shape, dtype=dtype) for shape, dtype in program.inputs]
            for each in made(patch, Net(program), *inputs):
                assert faults(each) == []
                assert repr(parse(str(each))) == repr(each)  # as text, since nan is not nan

    hold()
