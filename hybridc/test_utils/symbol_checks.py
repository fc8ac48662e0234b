"""Checks of symbols: values and gradients against those expected, against finite differences, and of two devices."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from hybridc import nd, symbol
from hybridc.array.ndarray import NDArray
from hybridc.context import Context
from hybridc.errors import AttributeValueError, CheckError, UnsupportedError
from hybridc.symbol import var
from hybridc.test_utils.comparisons import assert_almost_equal
from hybridc.test_utils.differences import differences, units
from hybridc.test_utils.tolerances import (
    Tolerance,
    default_context,
    default_numeric_eps,
    get_tolerance,
    get_tols,
)
from hybridc.trace.traced import Symbol

if TYPE_CHECKING:
    from hybridc.executor import Executor

Array = npt.NDArray[Any]
Arrays = Sequence[Any] | Mapping[str, Any]

_FLOATS = (np.float16, np.float32, np.float64)
# The step below which finite differences of float32 are of rounding errors only.
_SMALLEST_STEP = 1e-5


def simple_forward(sym: Any, ctx: Context | None = None, is_train: bool = False, **inputs: Any) -> Any:
    """The values of a symbol for arrays of NumPy by name: one array, or a list of several.

    Parameters
    ----------
    sym:
        The symbol.
    ctx:
        The device; None is the default one.
    is_train:
        Whether operators run as in training.
    """
    device = ctx or default_context()
    given = {name: nd.array(value, ctx=device) for name, value in inputs.items()}
    outputs = [x.asnumpy() for x in sym.bind(device, args=given).forward(is_train=is_train)]
    return outputs[0] if len(outputs) == 1 else outputs


# --- inputs ----------------------------------------------------------------------------------------------------


def _check_dtype(dtype: Any, by_array: bool = True) -> None:
    """Raise unless it is a dtype of floats, or "asnumpy": that of each array."""
    if not ((by_array and isinstance(dtype, str) and dtype == "asnumpy") or dtype in _FLOATS):
        raise CheckError(f"dtype must be {'asnumpy, ' * by_array}np.float16, np.float32 or np.float64, got {dtype!r}")


def _put(value: Any, ctx: Context, dtype: Any) -> Any:
    """An array of NumPy as an NDArray; others as they are."""
    if not isinstance(value, np.ndarray):
        return value
    array = cast("Array", value)
    return nd.array(array, ctx=ctx, dtype=array.dtype if isinstance(dtype, str) else dtype)


def _named(what: str, names: Sequence[str], given: Any, all_of_them: bool = True) -> dict[str, Any]:
    """Values by name, from a dict or in the order of the names."""
    if isinstance(given, Mapping):
        if all_of_them and {*given} != {*names}:
            raise AttributeValueError(
                f"Symbol {what} and keys of the given location do not match: the symbol has {', '.join(names)}, "
                f"got {', '.join(cast('list[str]', given))}"
            )
        return dict(given)  # pyright: ignore[reportUnknownArgumentType]
    if not isinstance(given, list | tuple):
        raise CheckError(f"{what} must be a list or a dict of arrays, got {type(given).__name__}")
    return dict(zip(names, given, strict=False))  # pyright: ignore[reportUnknownArgumentType]


def _arguments(sym: Any, location: Any, ctx: Context, dtype: Any) -> dict[str, NDArray]:
    given = _named("arguments", sym.list_arguments(), location)
    return {name: _put(given[name], ctx, dtype) for name in sorted(given)}


def _states(sym: Any, aux_states: Any, ctx: Context, dtype: Any) -> dict[str, NDArray] | None:
    if aux_states is None:
        return None
    given = _named("auxiliary states", sym.list_auxiliary_states(), aux_states)
    return {name: _put(np.asarray(value), ctx, dtype) for name, value in given.items()}


def _dense(stypes: Mapping[str, str | None] | None) -> None:
    """Raise if an array of gradients is to be sparse."""
    for name, stype in (stypes or {}).items():
        if stype not in (None, "default"):
            raise UnsupportedError(f"the gradient of {name}: stype {stype!r} is not supported; use 'default'")


def _changed(
    name: str, req: str, want: Any, got: NDArray, before: Array, rtol: Tolerance, atol: Tolerance, **options: Any
) -> None:
    """Compare a gradient with what its request makes of the expected one."""
    found = got.asnumpy()
    if req == "add":
        found = found - before
    elif req == "null":
        want = before
    elif req != "write":
        raise AttributeValueError(f"Invalid grad_req {req} for argument {name}; there are write, add and null")
    assert_almost_equal(want, found, rtol, atol, **options)


# --- against what is expected ----------------------------------------------------------------------------------


def check_symbolic_forward(
    sym: Any,
    location: Arrays,
    expected: Arrays,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    aux_states: Arrays | None = None,
    ctx: Context | None = None,
    equal_nan: bool = False,
    dtype: Any = np.float32,
) -> list[NDArray]:
    """Raise an AssertionError unless a symbol's values at ``location`` are those expected; its values.

    Parameters
    ----------
    sym:
        The symbol.
    location:
        The arrays of the arguments, in their order or by name.
    expected:
        The results in their order, or some by name.
    rtol, atol:
        The relative and the absolute tolerance: a number, or a dict of one for each dtype; None is what
        :func:`default_rtols` and :func:`default_atols` say of the coarser dtype of both.
    aux_states:
        The arrays of the auxiliary states, in their order or by name; None for none.
    ctx:
        The device; None is the default one.
    equal_nan:
        Whether two NaNs are equal.
    dtype:
        The dtype in which it is computed: float16, float32 or float64. ``"asnumpy"`` leaves arrays their own.
    """
    _check_dtype(dtype)
    ctx = ctx or default_context()
    arguments = _arguments(sym, location, ctx, dtype)
    names: list[str] = sym.list_outputs()
    wanted = _named("outputs", names, expected, all_of_them=False)
    executor = sym.bind(ctx=ctx, args=arguments, aux_states=_states(sym, aux_states, ctx, dtype))
    outputs = executor.forward(is_train=False)
    for name, output in zip(names, outputs, strict=True):
        if name in wanted:
            both = (f"EXPECTED_{name}", f"FORWARD_{name}")
            assert_almost_equal(wanted[name], output, rtol, atol, both, equal_nan=equal_nan)
    return outputs


def check_symbolic_backward(
    sym: Any,
    location: Arrays,
    out_grads: Arrays | None,
    expected: Arrays,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    aux_states: Arrays | None = None,
    grad_req: str | Sequence[str] | Mapping[str, str] = "write",
    ctx: Context | None = None,
    grad_stypes: Mapping[str, str | None] | None = None,
    equal_nan: bool = False,
    dtype: Any = np.float32,
) -> dict[str, NDArray]:
    """Raise an AssertionError unless a symbol's gradients at ``location`` are those expected; its gradients.

    The arrays of gradients hold random numbers before, so that 'add' and 'null' of ``grad_req`` show.

    Parameters
    ----------
    sym:
        The symbol.
    location:
        The arrays of the arguments, in their order or by name.
    out_grads:
        The gradients of the results, in their order or by name; None for those of losses.
    expected:
        The gradients of the arguments in their order, or some by name.
    rtol, atol:
        The relative and the absolute tolerance: a number, or a dict of one for each dtype; None is what
        :func:`default_rtols` and :func:`default_atols` say of the coarser dtype of both.
    aux_states:
        The arrays of the auxiliary states, in their order or by name; None for none.
    grad_req:
        ``"write"``, ``"add"`` or ``"null"``, for all arguments, or for each.
    ctx:
        The device; None is the default one.
    grad_stypes:
        Storage types of gradients by name: others than ``"default"`` are an UnsupportedError.
    equal_nan:
        Whether two NaNs are equal.
    dtype:
        The dtype in which it is computed: float16, float32 or float64. ``"asnumpy"`` leaves arrays their own.
    """
    _check_dtype(dtype)
    _dense(grad_stypes)
    ctx = ctx or default_context()
    arguments = _arguments(sym, location, ctx, dtype)
    names: list[str] = sym.list_arguments()
    wanted = _named("arguments", names, expected, all_of_them=False)
    before = {name: np.random.normal(size=np.shape(wanted[name])) for name in sorted(wanted)}
    kinds = {name: np.asarray(wanted[name]).dtype if isinstance(dtype, str) else dtype for name in before}
    grads = {name: nd.array(value, ctx=ctx, dtype=kinds[name]) for name, value in before.items()}
    reqs = dict.fromkeys(names, grad_req) if isinstance(grad_req, str) else _named("grad_req", names, grad_req, False)
    executor = sym.bind(
        ctx=ctx,
        args=arguments,
        args_grad=grads,
        aux_states=_states(sym, aux_states, ctx, dtype),
        grad_req={name: req for name, req in reqs.items() if name in grads},
    )
    executor.forward(is_train=True)
    executor.backward(_head_gradients(out_grads, ctx, dtype))
    for name, want in wanted.items():
        both = (f"EXPECTED_{name}", f"BACKWARD_{name}")
        _changed(name, reqs[name], want, grads[name], before[name], rtol, atol, names=both, equal_nan=equal_nan)
    return grads


def _head_gradients(out_grads: Any, ctx: Context, dtype: Any) -> Any:
    if isinstance(out_grads, Mapping):
        given: Mapping[str, Any] = out_grads  # pyright: ignore[reportUnknownVariableType]
        return {name: _put(grad, ctx, dtype) for name, grad in given.items()}
    if isinstance(out_grads, list | tuple):
        return [_put(grad, ctx, dtype) for grad in out_grads]  # pyright: ignore[reportUnknownVariableType]
    if out_grads is not None:
        raise CheckError(f"out_grads must be a list or a dict of arrays, or None, got {type(out_grads).__name__}")
    return None


# --- against finite differences --------------------------------------------------------------------------------


def numeric_grad(
    executor: Executor,
    location: dict[str, Any],
    aux_states: Mapping[str, Any] | None = None,
    eps: float = 1e-4,
    use_forward_train: bool = True,
    dtype: Any = np.float32,
) -> dict[str, Array]:
    """The slopes of the sum of an executor's first result in each element of its arguments of floats.

    They are differences of values half of ``eps`` above and below; the arguments are as before afterwards.

    Parameters
    ----------
    executor:
        The executor.
    location:
        The arrays of the arguments by name.
    aux_states:
        The arrays of the auxiliary states, in their order or by name; None for none.
    eps:
        The step.
    use_forward_train:
        Whether operators run as in training.
    dtype:
        The dtype in which it is computed: float16, float32 or float64.
    """
    _check_dtype(dtype, by_array=False)
    names = list(location)
    arrays = [np.array(location[name], order="C") for name in names]

    def total(moved: Sequence[Array]) -> float:
        for name, value in zip(names, moved, strict=True):
            executor.arg_dict[name][:] = value.astype(dtype)
        for name, value in (aux_states or {}).items():
            executor.aux_dict[name][:] = value
        (first, *_) = executor.forward(is_train=use_forward_train)
        return float(first.asnumpy().sum(dtype=np.float64))

    slopes: dict[str, Array] = {}
    for i, (name, x) in enumerate(zip(names, arrays, strict=True)):
        slopes[name] = np.zeros(x.shape, dtype)
        if x.dtype.kind == "f":
            slopes[name].reshape(-1)[:] = differences(total, arrays, i, units(x.shape, x.dtype), eps / 2)
    for name, x in zip(names, arrays, strict=True):
        executor.arg_dict[name][:] = x
    return slopes


def check_numeric_gradient(
    sym: Any,
    location: Arrays,
    aux_states: Arrays | None = None,
    numeric_eps: Tolerance = None,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    grad_nodes: Sequence[str] | Mapping[str, str] | None = None,
    use_forward_train: bool = True,
    ctx: Context | None = None,
    grad_stype_dict: Mapping[str, str] | None = None,
    dtype: Any = np.float32,
) -> None:
    """Raise an AssertionError unless a symbol's gradients at ``location`` are its slopes by finite differences.

    The symbol has one result, of which a random projection is differentiated.

    Parameters
    ----------
    sym:
        The symbol.
    location:
        The arrays of the arguments, in their order or by name.
    aux_states:
        The arrays of the auxiliary states, in their order or by name; None for none.
    numeric_eps:
        The step, a number or a dict by dtype; None is what :func:`default_numeric_eps` says.
    rtol, atol:
        The relative and the absolute tolerance: a number, or a dict of one for each dtype; None is what
        :func:`default_rtols` and :func:`default_atols` say of the coarser dtype of both.
    grad_nodes:
        The names of the arguments that are checked, or a dict of their ``grad_req``; None for all.
    use_forward_train:
        Whether operators run as in training for the differences.
    ctx:
        The device; None is the default one.
    grad_stype_dict:
        Storage types of gradients by name: others than ``"default"`` are an UnsupportedError.
    dtype:
        The dtype in which it is computed: float16, float32 or float64.
    """
    _check_dtype(dtype, by_array=False)
    _dense(grad_stype_dict)
    ctx = ctx or default_context()
    arguments = _arguments(sym, location, ctx, dtype)
    states = _states(sym, aux_states, ctx, dtype)
    reqs = _requests(sym.list_arguments() if grad_nodes is None else grad_nodes)
    if len(sym.list_outputs()) != 1:
        raise CheckError(f"check_numeric_gradient: a symbol of one result, got {', '.join(sym.list_outputs())}")
    _, (shape,), _ = sym.infer_shape(**{name: x.shape for name, x in arguments.items()})

    projection = "__random_proj"
    weights = np.random.rand(*shape) + 0.1  # small ones would lose digits in differences
    arguments[projection] = nd.array(weights, ctx=ctx, dtype=dtype)
    before = {name: np.random.normal(0, 0.01, size=arguments[name].shape) for name in [*reqs, projection]}
    grads = {name: nd.array(value, ctx=ctx, dtype=dtype) for name, value in before.items()}
    loss = symbol.make_loss(sym * var(projection))
    executor = loss.bind(ctx, args=arguments, args_grad=grads, grad_req=reqs, aux_states=states)
    values = {name: x.asnumpy() for name, x in arguments.items()}
    aux = None if states is None else {name: x.asnumpy() for name, x in states.items()}
    executor.forward(is_train=True)
    eps = get_tolerance(executor.outputs[0], numeric_eps, default_numeric_eps())
    if dtype is not np.float64 and eps < _SMALLEST_STEP:
        raise CheckError(f"numeric_eps must be at least {_SMALLEST_STEP} in {np.dtype(dtype).name}, got {eps}")
    executor.backward()
    slopes = numeric_grad(executor, values, aux, eps, use_forward_train, dtype)
    for name, req in reqs.items():
        both = (f"NUMERICAL_{name}", f"BACKWARD_{name}")
        _changed(name, req, slopes[name], grads[name], before[name], rtol, atol, names=both)


def _requests(grad_nodes: Any) -> dict[str, str]:
    """The ``grad_req`` of each argument that is checked."""
    if isinstance(grad_nodes, Mapping):
        return dict(grad_nodes)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(grad_nodes, list | tuple):
        return dict.fromkeys(grad_nodes, "write")  # pyright: ignore[reportUnknownArgumentType]
    raise AttributeValueError(f"grad_nodes must be names, or requests by name, got {grad_nodes!r}")


# --- against another device ------------------------------------------------------------------------------------


def check_consistency(
    sym: Any,
    ctx_list: Sequence[Mapping[str, Any]],
    scale: float = 1.0,
    grad_req: Any = "write",
    arg_params: dict[str, Any] | None = None,
    aux_params: dict[str, Any] | None = None,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    raise_on_err: bool = True,
    ground_truth: Mapping[str, Any] | None = None,
    equal_nan: bool = False,
    use_uniform: bool = False,
    rand_type: Any = np.float64,
) -> dict[str, Any]:
    """Raise an AssertionError unless a symbol has the same values and gradients on several devices and dtypes.

    What is compared with is the first of the finest dtype, or ``ground_truth``; it is returned.

    Parameters
    ----------
    sym:
        The symbol, or a list of one for each entry of ``ctx_list``.
    ctx_list:
        Dicts of the arguments of ``simple_bind``: ``{"ctx": mx.cpu(), "data": (2, 3), "type_dict": {"data":
        np.float64}}``; two at least.
    scale:
        The scale of random arguments.
    grad_req:
        ``"write"``, ``"add"`` or ``"null"``, which compares no gradients.
    arg_params, aux_params:
        Arguments and auxiliary states by name; None for random arguments, and states of 0.
    rtol, atol:
        The relative and the absolute tolerance: a number, or a dict of one for each dtype; None is what
        :func:`default_rtols` and :func:`default_atols` say of the coarser dtype of both.
    raise_on_err:
        Whether differences raise; else they are printed.
    ground_truth:
        What is compared with: arrays by name.
    equal_nan:
        Whether two NaNs are equal.
    use_uniform:
        Whether random arguments are uniform; else they are of the normal distribution.
    rand_type:
        The dtype to which random arguments are rounded.
    """
    symbols: list[Any] = [sym] * len(ctx_list) if isinstance(sym, Symbol) else list(sym)
    if len(ctx_list) < 2 or len(symbols) != len(ctx_list):
        raise CheckError(f"check_consistency: two devices or more, each with a symbol, got {len(ctx_list)}")
    names, outputs = symbols[0].list_arguments(), symbols[0].list_outputs()
    if any(s.list_arguments() != names or s.list_outputs() != outputs for s in symbols):
        raise CheckError("check_consistency: all symbols must have the same arguments and results")
    executors: list[Executor] = [s.simple_bind(grad_req=grad_req, **c) for s, c in zip(symbols, ctx_list, strict=True)]
    _fill(executors, arg_params, aux_params, scale, use_uniform, rand_type, grad_req)
    dtypes = [np.dtype(e.outputs[0].dtype) for e in executors]
    finest = max(range(len(dtypes)), key=lambda i: dtypes[i].itemsize)  # the first of several

    def compare(what: str, i: int, found: Mapping[str, Any], truth: Mapping[str, Any]) -> None:
        for name, value in found.items():
            want = truth[name]
            if want is None or value is None:
                continue
            try:
                assert_almost_equal(value, want, *_both(value, want, dtypes[i], dtypes[finest]), equal_nan=equal_nan)
            except AssertionError as error:
                text = f"{what} Err: {ctx_list[i]} vs {ctx_list[finest]} at {name}: {error}"
                if raise_on_err:
                    raise AssertionError(text) from None
                print(text)  # noqa: T201

    def _both(value: Any, want: Any, dtype: Any, best: Any) -> tuple[Tolerance, Tolerance]:
        """The tolerances; those of float16 where either symbol has results of float16, whatever its gradients are."""
        least = [min(np.dtype(v.dtype), d, key=lambda t: t.itemsize) for v, d in ((value, dtype), (want, best))]
        if [np.dtype(v.dtype) for v in (value, want)] == least:
            return rtol, atol
        return get_tols(np.zeros(1, least[0]), np.zeros(1, least[1]), rtol, atol)

    for executor in executors:
        executor.forward(is_train=False)
    truth = dict(ground_truth or executors[finest].output_dict)
    if grad_req != "null":
        truth = {**executors[finest].grad_dict, **truth}
    others = [i for i in range(len(executors)) if i != finest]
    for i in others:
        compare("Predict", i, executors[i].output_dict, truth)
    if grad_req == "null":
        return truth
    for executor in executors:
        executor.forward(is_train=True)
    heads = _common_heads(executors)
    for executor in executors:
        pairs = zip(heads, executor.outputs, strict=True)
        executor.backward([nd.array(head, ctx=executor._ctx, dtype=out.dtype) for head, out in pairs])
    for i in others:
        compare("Train", i, {**executors[i].output_dict, **executors[i].grad_dict}, truth)
    return truth


def _fill(
    executors: Sequence[Executor], arguments: Any, states: Any, scale: float, uniform: bool, kind: Any, grad_req: Any
) -> None:
    """The same random arguments for all executors, and states of 0, where they are not given; gradients of 0."""
    given: dict[str, Any] = {} if arguments is None else arguments
    known: dict[str, Any] = states or {}
    for name, x in sorted(executors[0].arg_dict.items()):
        if name not in given:
            if uniform:
                values = np.random.uniform(low=-0.92 * scale, high=0.92 * scale, size=x.shape)
            else:
                values = np.random.normal(size=x.shape, scale=scale)
            given[name] = np.asarray(values).astype(kind)
    for executor in executors:
        for name, x in executor.arg_dict.items():
            x[:] = given[name]
        for name, x in executor.aux_dict.items():
            x[:] = known.get(name, 0)
        for x in executor.grad_arrays if grad_req == "add" else ():
            if x is not None:
                x[:] = 0


def _common_heads(executors: Sequence[Executor]) -> list[Array]:
    """The results of the first executor, rounded as the coarsest of all: gradients for each of them."""
    heads: list[Array] = []
    for i, output in enumerate(executors[0].outputs):
        coarsest = min((np.dtype(e.outputs[i].dtype) for e in executors), key=lambda d: d.itemsize)
        heads.append(output.asnumpy().astype(coarsest))
    return heads


# --- speed, optimizers, structure ------------------------------------------------------------------------------


def check_speed(
    sym: Any,
    location: Mapping[str, Any] | None = None,
    ctx: Context | None = None,
    N: int = 20,
    grad_req: Any = None,
    typ: str = "whole",
    **kwargs: Any,
) -> float:
    """The seconds of a forward and a backward of a symbol, the mean of some runs after a first one.

    Parameters
    ----------
    sym:
        The symbol.
    location:
        The arguments by name; None for random ones, of shapes that are given by name.
    ctx:
        The device; None is the default one.
    N:
        How many runs.
    grad_req:
        As for ``simple_bind``; None is ``"write"``.
    typ:
        ``"whole"``, or ``"forward"`` for a forward alone.
    """
    if typ not in ("whole", "forward"):
        raise AttributeValueError(f'typ can only be "whole" or "forward", got {typ!r}')
    if location is not None and not isinstance(location, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise CheckError(f'Expect dict, get "location"={location!r}')
    shapes = kwargs if location is None else {name: x.shape for name, x in location.items()}
    executor = sym.simple_bind(grad_req=grad_req or "write", ctx=ctx or default_context(), **shapes)
    for name, x in executor.arg_dict.items():
        x[:] = np.random.normal(size=x.shape, scale=1.0) if location is None else location[name]

    def once() -> None:
        outputs = executor.forward(is_train=typ == "whole")
        if typ == "whole":
            executor.backward(out_grads=outputs)
        nd.waitall()

    return _seconds(once, N)


def _seconds(once: Callable[[], None], times: int) -> float:
    once()
    start = time.perf_counter()
    for _ in range(times):
        once()
    return (time.perf_counter() - start) / times


def same_symbol_structure(sym1: Any, sym2: Any) -> bool:
    """Whether the symbols ``sym1`` and ``sym2`` have the same operators in the same order."""
    first, second = ([node["op"] for node in json.loads(s.tojson())["nodes"]] for s in (sym1, sym2))
    return all(a == b for a, b in zip(first, second, strict=False))
