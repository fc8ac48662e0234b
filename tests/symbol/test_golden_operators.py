"""MXNet's operator cases with ``mx.sym`` in the place of ``mx.nd``, run as a SymbolBlock."""

from __future__ import annotations

import ast
from types import SimpleNamespace

import pytest

import hybridc as mx
from tests.slices import one_in
from tests.test_golden_ops import CASES, check

# A missing input is no error here: it becomes a variable.
MISSING = ("nd.broadcast_add(x)", "nd.LayerNorm(x)", "nd.sum()", "nd.dot(x)")


def indexes(code):
    """Whether the code indexes something: a symbol's results, but an array's elements."""
    return any(isinstance(node, ast.Subscript) for node in ast.walk(ast.parse(code)))


def different(case):
    """What means something else for symbols: indexing, missing inputs, and what asks for shapes."""
    return indexes(case.code) or case.code in MISSING or "moveaxis" in case.code


def composed(case):
    """The case on variables, as a block."""

    def run(arrays):
        inputs = [mx.sym.var(f"in_{name}") for name in case.inputs]
        result = case.fn(SimpleNamespace(nd=mx.sym), *inputs)
        symbol = mx.sym.Group(result) if isinstance(result, list | tuple) else result
        if inputs:
            return mx.gluon.SymbolBlock(symbol, inputs)(*arrays)
        outputs = symbol.eval()
        return outputs if len(outputs) > 1 else outputs[0]

    return run


@pytest.mark.parametrize("name", one_in(4, [n for n, case in CASES.items() if case.trace and not different(case)]))
def test_composed(name):
    check(CASES[name], composed)
