"""Fixtures: ``loaded`` loads the library of tests, ``run`` runs a function eagerly, hybridized, and by an executor."""

import numpy as np
import pytest
from libraries import Function
from libraries import loaded as load_once

import hybridc as mx


@pytest.fixture
def loaded():
    """The operators lib_… of library_ops.cc."""
    return load_once()


def _recorded(call, arrays, weights):
    inputs = [mx.nd.array(a, dtype=a.dtype) for a in arrays]
    for x in inputs:
        x.attach_grad()
    with mx.autograd.record():
        results = call(*inputs)
    results = results if isinstance(results, list | tuple) else [results]
    if weights is None:
        return [y.asnumpy() for y in results], None, inputs
    mx.autograd.backward(list(results), [mx.nd.array(w, dtype=w.dtype) for w in weights])
    return [y.asnumpy() for y in results], [x.grad.asnumpy() for x in inputs], inputs


def _bound(function, arrays, weights):
    names = [f"x{i}" for i in range(len(arrays))]
    made = function(mx.sym, *[mx.sym.var(n) for n in names])
    made = mx.sym.Group(list(made)) if isinstance(made, list | tuple) else made
    values = {n: mx.nd.array(a, dtype=a.dtype) for n, a in zip(names, arrays, strict=True)}
    states = {n: values.pop(n) for n in made.list_auxiliary_states()}
    grads = {n: mx.nd.zeros(v.shape, dtype=v.dtype) for n, v in values.items()}
    executor = made.bind(mx.cpu(), values, grads, aux_states=states)
    results = executor.forward(is_train=True)
    everything = {**values, **states}
    inputs = [everything[n] for n in names]
    found = [y.asnumpy() for y in results]
    if weights is None:
        return found, None, inputs
    executor.backward([mx.nd.array(w, dtype=w.dtype) for w in weights])
    zero = [np.zeros_like(a) for a in arrays]
    return found, [grads[n].asnumpy() if n in grads else z for n, z in zip(names, zero, strict=True)], inputs


@pytest.fixture(params=["eager", "hybridized", "executor"])
def run(request, loaded):
    """``run(function, arrays, weights)``: results and gradients of ``function(F, *inputs)``, and the inputs after."""

    def call(function, arrays, weights=None):
        if request.param == "executor":
            return _bound(function, arrays, weights)
        if request.param == "eager":
            return _recorded(lambda *inputs: function(mx.nd, *inputs), arrays, weights)
        block = Function(function)
        block.hybridize()
        found = _recorded(block, arrays, weights)
        assert "host call extension." in block.explain()
        return found

    return call
