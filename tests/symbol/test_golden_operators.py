"""MXNet's operator cases with ``mx.sym`` in the place of ``mx.nd``, run as a SymbolBlock."""

from __future__ import annotations

import ast
from types import SimpleNamespace

import pytest

import hybridc as mx
from tests.slices import alone_if_wrong, each_in, in_groups, named_groups
from tests.test_golden_ops import CASES, check

# A missing input is no error here: it becomes a variable.
MISSING = (
    "nd.broadcast_add(x)", "nd.LayerNorm(x)", "nd.sum()", "nd.dot(x)", "nd.contrib.BilinearResize2D(x, mode='like')",
    "nd.UpSampling(x, scale=2, sample_type='bilinear')",
)  # fmt: skip


def indexes(code):
    """Whether the code indexes something: a symbol's results, but an array's elements."""
    return any(isinstance(node, ast.Subscript) for node in ast.walk(ast.parse(code)))


def different(case):
    """What means something else for symbols: indexing, missing inputs, and what asks for shapes."""
    return indexes(case.code) or case.code in MISSING or "moveaxis" in case.code


def composed(cases):
    """The cases on variables, as a block of all."""

    def run(inputs):
        variables = [[mx.sym.var(f"in_{i}_{name}") for name in case.inputs] for i, case in enumerate(cases)]
        made = [case.fn(SimpleNamespace(nd=mx.sym), *given) for case, given in zip(cases, variables, strict=True)]
        symbols = [mx.sym.Group(list(m)) if isinstance(m, list | tuple) else m for m in made]
        arrays = [x for given in inputs for x in given]
        names = [v for given in variables for v in given]
        whole = mx.sym.Group(symbols)
        results = mx.gluon.SymbolBlock(whole, names)(*arrays) if arrays else whole.eval()
        results = iter(results if isinstance(results, list | tuple) else [results])
        outputs = [[next(results) for _ in symbol.list_outputs()] for symbol in symbols]
        return [outs if len(outs) > 1 else outs[0] for outs in outputs]

    return run


COMPOSED = [case for case in CASES.values() if case.trace and not different(case)]


@pytest.mark.parametrize(
    "cases", in_groups([c for c in COMPOSED if not c.raises], 32), ids=lambda cases: f"from {cases[0].name}"
)
def test_composed(cases):
    alone_if_wrong(cases, lambda part: check(part, composed), lambda case: case.name)


@each_in("case", named_groups({case.name: case for case in COMPOSED if case.raises}, 32))
def test_errors_of_composed_operators(case):
    check([case], composed)
