"""Fixtures: ``apply`` runs a function eagerly, hybridized and as a symbol; ``double`` registers an operator."""

import pytest
from custom_ops import Function, declare, double_backward, double_forward

import hybridc as mx


class Apply:
    """Calls ``function(F, *inputs)`` in one way: eagerly, or by a block that is made once for each function."""

    def __init__(self, way):
        self.way = way
        self.blocks = {}

    def __call__(self, function, *inputs):
        if self.way == "eager":
            return function(mx.nd, *inputs)
        if function not in self.blocks:
            self.blocks[function] = self.block(function, len(inputs))
            self.blocks[function].hybridize("hybrid" in self.way)
        return self.blocks[function](*inputs)

    def block(self, function, count):
        if "symbol" not in self.way:
            return Function(function)
        variables = [mx.sym.var(f"x{i}") for i in range(count)]
        composed = function(mx.sym, *variables)
        outputs = mx.sym.Group(list(composed)) if isinstance(composed, list | tuple) else composed
        return mx.gluon.SymbolBlock(outputs, variables)


@pytest.fixture(params=["eager", "hybrid", "symbol", "hybrid symbol"])
def apply(request):
    """Call a function eagerly, as a hybridized block, or as the block of a composed symbol."""
    return Apply(request.param)


@pytest.fixture(params=["eager", "hybrid"])
def apply_to_arrays(request):
    """As ``apply``, for what composed symbols cannot do: use arrays, run what nothing depends on."""
    return Apply(request.param)


@pytest.fixture
def double():
    declare("double", double_forward, double_backward)
