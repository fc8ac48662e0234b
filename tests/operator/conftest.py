"""Fixtures: ``apply`` runs a function eagerly and hybridized; ``double`` registers an operator."""

import pytest
from custom_ops import Function, declare, double_backward, double_forward

import hybridc as mx


@pytest.fixture(params=["eager", "hybrid"])
def apply(request):
    """Call ``function(F, *inputs)`` eagerly, or as a hybridized block."""
    blocks = {}

    def run(function, *inputs):
        if request.param == "eager":
            return function(mx.nd, *inputs)
        if function not in blocks:
            blocks[function] = Function(function)
            blocks[function].hybridize()
        return blocks[function](*inputs)

    return run


@pytest.fixture
def double():
    declare("double", double_forward, double_backward)
