"""Checks of optimizers, and of hybridized networks against the same ones as they are."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from hybridc import autograd, nd
from hybridc.array.ndarray import NDArray
from hybridc.errors import CheckError, UnsupportedError
from hybridc.test_utils.comparisons import assert_almost_equal, compare_ndarray_tuple
from hybridc.test_utils.tolerances import Tolerance, default_context


def compare_optimizer(
    opt1: Any,
    opt2: Any,
    shape: Any,
    dtype: Any,
    w_stype: str = "default",
    g_stype: str = "default",
    rtol: Tolerance = 1e-4,
    atol: Tolerance = 1e-5,
    compare_states: bool = True,
    ntensors: int = 1,
) -> None:
    """Raise an AssertionError unless two optimizers make the same of random weights, gradients and their states.

    Parameters
    ----------
    opt1, opt2:
        The optimizers.
    shape:
        The shape of a weight, or a list of shapes: then the second updates all weights at once.
    dtype:
        The dtype of weights and gradients.
    w_stype, g_stype:
        Their storage types: others than ``"default"`` are an UnsupportedError.
    rtol, atol:
        The relative and the absolute tolerance: a number, or a dict of one for each dtype; None is what
        :func:`default_rtols` and :func:`default_atols` say of the coarser dtype of both.
    compare_states:
        Whether the states are compared, too.
    ntensors:
        How many shapes there are.
    """
    for stype in (w_stype, g_stype):
        if stype != "default":
            raise UnsupportedError(f"compare_optimizer: storage type {stype!r} is not supported; use 'default'")
    together = isinstance(shape, list)
    shapes: list[Any] = list(shape) if together else [shape]  # pyright: ignore[reportUnknownArgumentType]
    if len(shapes) != ntensors:
        raise CheckError(f"compare_optimizer: ntensors is {ntensors}, and there are {len(shapes)} shapes")
    weights, grads = (
        [nd.random.uniform(shape=s, dtype=dtype, ctx=default_context()) for s in shapes] for _ in range(2)
    )
    weights2, grads2 = copy.deepcopy(weights), copy.deepcopy(grads)
    states = [opt1.create_state_multi_precision(i, w) for i, w in enumerate(weights)]
    states2 = [opt2.create_state_multi_precision(i, w) for i, w in enumerate(weights2)]
    if compare_states:
        compare_ndarray_tuple(tuple(states), tuple(states2))
    for i, (w, g, state) in enumerate(zip(weights, grads, states, strict=True)):
        opt1.update_multi_precision(i, w, g, state)
    if together:
        opt2.update_multi_precision(list(range(ntensors)), weights2, grads2, states2)
    else:
        opt2.update_multi_precision(0, weights2[0], grads2[0], states2[0])
    if compare_states:
        compare_ndarray_tuple(tuple(states), tuple(states2), rtol, atol)
    compare_ndarray_tuple(tuple(weights), tuple(weights2), rtol, atol)


def check_gluon_hybridize_consistency(
    net_builder: Callable[..., Any],
    data_l: Sequence[NDArray],
    numpy_func: Callable[..., Any] | None = None,
    test_grad: bool = True,
    rtol: Tolerance = 1e-4,
    atol: Tolerance = 1e-4,
) -> None:
    """Raise an AssertionError unless a network gives the same hybridized and not, alone and under ``autograd.record``.

    Parameters
    ----------
    net_builder:
        A function that is called with ``prefix="net_"`` and makes the network, which draws no random numbers.
    data_l:
        The inputs, a list of arrays.
    numpy_func:
        The network as a function of arrays of NumPy; None compares with none.
    test_grad:
        Whether the gradients of the inputs are compared, too.
    rtol, atol:
        The relative and the absolute tolerance: a number, or a dict of one for each dtype; None is what
        :func:`default_rtols` and :func:`default_atols` say of the coarser dtype of both.
    """
    results: list[Any] = []
    gradients: list[list[Any]] = []
    parameters: dict[str, Any] = {}
    for hybridize in (False, True):
        for recorded in (False, True) if test_grad else (False,):
            net = net_builder(prefix="net_")
            net.initialize()
            inputs = [x.copy() for x in data_l]
            if parameters:
                net(*inputs)  # gives parameters their shapes
            for name, parameter in net.collect_params().items() if parameters else ():
                parameter.set_data(parameters[name])
            if hybridize:
                net.hybridize()
            result = _recorded(net, inputs) if recorded else net(*inputs)
            parameters = parameters or {name: p.data().copy() for name, p in net.collect_params().items()}
            results.append(result.asnumpy())
            if recorded:
                gradients.append([x.grad.asnumpy() for x in inputs])
    for result in results[1:]:
        assert_almost_equal(result, results[0], rtol=rtol, atol=atol)
    for found in gradients[1:]:
        for got, want in zip(found, gradients[0], strict=True):
            assert_almost_equal(got, want, rtol=rtol, atol=atol)
    if numpy_func is not None:
        assert_almost_equal(results[0], numpy_func(*[x.asnumpy() for x in data_l]), rtol=rtol, atol=atol)


def _recorded(net: Any, inputs: Sequence[NDArray]) -> Any:
    """The network's value, after its gradient, for which the gradient of its value is the value itself."""
    for x in inputs:
        x.attach_grad()
    with autograd.record():
        result = net(*inputs)
    result.backward(result)
    return result
