"""Application of an operator to its inputs: run it now on arrays, or record it in the trace."""

from __future__ import annotations

from collections.abc import Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridc import random
from hybridc.array.autocast import AUTOCAST
from hybridc.array.fluent import Fluent
from hybridc.array.ndarray import (
    NDArray,
    NumberedNDArray,
    at,
    check_unrecorded,
    plain,
    recorded_copy,
    recorded_inplace,
)
from hybridc.array.numpy_array import as_numpy, legacy, ndarray
from hybridc.autograd import record_operator
from hybridc.context import CPU, Context, current_context, working_device
from hybridc.dialects import checked
from hybridc.dialects.checked import wrong_results
from hybridc.dialects.error_context import raise_in_context
from hybridc.dialects.operator import Elementwise, Movement
from hybridc.errors import ArgumentTypeError, AttributeValueError, MXNetError
from hybridc.ground.events import RECORDER, now
from hybridc.ground.hooks import HOOKS
from hybridc.ground.locks import UPDATES
from hybridc.ground.state import STATE
from hybridc.ground.watches import written
from hybridc.sparse_storage import SparseStorage

if TYPE_CHECKING:
    from hybridc.dialects.operator import Operator


def invoke(op: Operator, inputs: Sequence[Any], out: Any = None) -> Any:
    """Apply an operator: to NDArrays at once, to Symbols by recording it in their graph.

    Python numbers take the dtype of the first array. Returns one value, or a list for several visible
    outputs; arrays of ``mx.np``, if one of the inputs is.
    """
    if AUTOCAST.rules:
        op, inputs = AUTOCAST.applied(op, inputs)
    if STATE.trace is not None:
        return STATE.trace.invoke(op, inputs, out)
    arrays: list[Any] = []
    dtype = None
    mixed = False
    kind: type[NDArray] = NDArray
    for x in inputs:
        if type(x) is not NDArray:
            if type(x) is not ndarray:
                return _invoke_converted(op, inputs, out)
            kind = ndarray
        data = x._data
        if data.dtype is not dtype:
            mixed = dtype is not None
            dtype = data.dtype
        arrays.append(data)
    return run(op, inputs, arrays, mixed, out, kind)


def _invoke_converted(op: Operator, inputs: Sequence[Any], out: Any) -> Any:
    """Inputs that are not all NDArrays: numbers and NumPy arrays are converted, Symbols are traced."""
    for x in inputs:
        if is_symbol(x):
            return x.trace.invoke(op, inputs, out)
    kinds = {type(x) for x in inputs if isinstance(x, NDArray)}
    if any(isinstance(x, NDArray) and x.stype != "default" for x in inputs):
        return HOOKS.invoke_sparse(op, inputs, out)
    if any(issubclass(kind, ndarray) for kind in kinds) and kinds - {NDArray, ndarray}:
        operands = [legacy(x) for x in inputs]
        target: Any = legacy(out) if out.__class__ is not list else [legacy(y) for y in out]
        result = invoke(op, operands, target)
        _note_readers(inputs, operands)
        return out if out is not None else as_numpy(result)
    if kinds - {NDArray, ndarray, NumberedNDArray}:
        return HOOKS.on_device().invoke(op, inputs, out)
    if NumberedNDArray in kinds:
        context = working_device(next(x.context for x in inputs if isinstance(x, NDArray)))
        operands = [plain(x) for x in inputs]
        result = invoke(op, operands, out)
        _note_readers(inputs, operands)
        return result if out is not None else at(context, result)
    first = next((x for x in inputs if isinstance(x, NDArray)), None)
    if first is None and len(inputs) == 2 and all(isinstance(x, int | float) for x in inputs):
        return _of_numbers(op, inputs)
    dtype = np.dtype("float32") if first is None else first._data.dtype
    converted = [as_ndarray(op, x, dtype) for x in inputs]
    arrays = [x._data for x in converted]
    kind = ndarray if ndarray in kinds else NDArray
    return run(op, converted, arrays, len({a.dtype for a in arrays}) > 1, out, kind)


def _note_readers(inputs: Sequence[Any], operands: Sequence[Any]) -> None:
    """Note on the inputs whether the tape reads the arrays that were operands in their place."""
    if STATE.recording:
        for x, y in zip(inputs, operands, strict=True):
            if y is not x:
                x._tape = y._tape


def is_symbol(x: Any) -> bool:
    """Whether this is a value of a trace."""
    return isinstance(x, Fluent) and not isinstance(x, NDArray)


def _of_numbers(op: Operator, inputs: Sequence[Any]) -> Any:
    """``nd.maximum(2, 3)`` is 3, as in MXNet: numbers alone give a number."""
    if not isinstance(op, Elementwise):
        raise MXNetError(f"{op.title()}: inputs must be NDArrays, got numbers alone; use mx.nd.array(…)")
    number = op.eager(*[np.float64(x) for x in inputs]).item()
    return int(number) if number.is_integer() and all(isinstance(x, int) for x in inputs) else number


def as_ndarray(op: Operator, x: Any, dtype: Any) -> NDArray:
    """An input of an operator as an array: numbers take this dtype."""
    if isinstance(x, NDArray):
        return x
    if isinstance(x, bool | int | float | np.generic):
        return NDArray(np.asarray(as_scalar(x, dtype)))
    if x.__class__ is np.ndarray:
        return NDArray(x)
    raise ArgumentTypeError(
        f"{op.title()}: inputs must be NDArrays or numbers, got {type(x).__name__}; convert it with mx.nd.array(…)"
    )


def as_scalar(x: Any, dtype: Any) -> Any:
    """A number in the dtype of the array beside it; integers truncate and wrap, as in MXNet."""
    try:
        if dtype.kind in "iu":
            return dtype.type(int(x))
        return dtype.type(x if dtype.kind in "fb" else float(x))  # bfloat16 takes no size that may be another later
    except (OverflowError, ValueError) as error:
        if dtype.kind in "iu" and (isinstance(x, int) or np.isfinite(x)):
            return np.uint64(int(x) & (2**64 - 1)).astype(dtype)
        shown = f"an integer of {x.bit_length()} bits" if isinstance(x, int) else str(x)
        raise AttributeValueError(
            f"{shown} is no number of {dtype}, the dtype of the array beside it; cast the array with .astype"
        ) from error


def in_context(op: Operator, inputs: Sequence[Any]) -> tuple[Operator, list[Any], list[Any]]:
    """Bind the attributes and inputs that depend on the call: train mode and the random key."""
    if op.TRAIN_MODE and op.attrs["train"] is None:
        op = op.bind(**{**op.attrs, "train": STATE.training})
    if not op.DRAWS:
        return op, list(inputs), []
    key = NDArray(random.next_key(op.num_samples()))
    return op, [*inputs, key], [key._data]


def run(
    op: Operator, inputs: Sequence[Any], arrays: list[Any], mixed: bool, out: Any, kind: type[NDArray] = NDArray
) -> Any:
    """Run an operator eagerly on NumPy arrays and put it on the tape if recording."""
    if op.TRAIN_MODE or op.DRAWS:
        op, inputs, keys = in_context(op, inputs)
        arrays = [*arrays, *keys]
    if op.mutated:
        if len(arrays) <= op.mutated[-1]:
            op.infer_shape([a.shape for a in arrays])  # which says how many inputs are missing
        with UPDATES.held([arrays[i] for i in op.mutated]):
            return _run(op, inputs, arrays, mixed, out, kind)
    return _run(op, inputs, arrays, mixed, out, kind)


def _run(op: Operator, inputs: Sequence[Any], arrays: list[Any], mixed: bool, out: Any, kind: type[NDArray]) -> Any:
    if out is not None and STATE.recording:
        check_out(inputs, out)
    try:
        if mixed and op.SAME_DTYPE:
            op.infer_type([a.dtype for a in arrays])
        result: Any = evaluated(op, arrays) if op.foreign or RECORDER.operators else op.evaluate(*arrays)
    except Exception as error:
        explain(op, arrays, error)
        raise
    if out is None:
        return finish(op, inputs, arrays, result, kind)
    results: tuple[Any, ...] = result if result.__class__ is tuple else (result,)
    saved = before(op, arrays)
    write_back(op, arrays, results)
    ys = [NDArray(own(op, arrays, r) if STATE.recording else np.asarray(r)) for r in results]
    return write_out(op, inputs, saved, ys, out)


def evaluated(op: Operator, arrays: Sequence[Any]) -> Any:
    """The results of an operator that is a user's, or observed."""
    if not RECORDER.operators:
        return checked.evaluated(op, arrays)
    begin = now()
    result: Any = checked.evaluated(op, arrays) if op.foreign else op.evaluate(*arrays)
    ran(op, arrays, begin, result)
    return result


def ran(op: Operator, arrays: Sequence[Any], begin: int, result: Any) -> None:
    """Observe an operator that has just run: record it, and let the detector look at its results."""
    if RECORDER.records_operators:
        RECORDER.append(("operator", type(op), begin, now(), get_ident(), [(x.dtype, x.shape) for x in arrays]))
    if RECORDER.detector is not None:
        RECORDER.detector.operator(op, arrays, result)


def finish(
    op: Operator, inputs: Sequence[Any], arrays: Sequence[Any], result: Any, kind: type[NDArray] = NDArray
) -> Any:
    """Wrap the results of ``eager`` in arrays of a class, and put the operator on the tape if recording."""
    if result.__class__ is not tuple:
        if result.__class__ is list or op.results != 1:
            raise wrong_results(op, "eager", result)
        data = own(op, arrays, result)
        y = kind(data) if data.__class__ is np.ndarray else HOOKS.wrap_sparse(data)
        if STATE.recording:
            record_operator(op, inputs, arrays, [y])
        return y
    parts: tuple[Any, ...] = result
    if len(parts) != op.results:
        raise wrong_results(op, "eager", result)
    ys = [kind(own(op, arrays, r)) for r in parts]
    if op.mutated:
        saved = before(op, arrays)
        write_back(op, arrays, parts)
        arrays = saved
    if STATE.recording:
        record_operator(op, inputs, arrays, ys)
    visible = op.num_visible_outputs()
    return ys[0] if visible == 1 else ys[:visible]


def before(op: Operator, arrays: Sequence[Any]) -> Sequence[Any]:
    """The inputs whose values the gradient rule sees, which are those that the operator saw: copies of mutated ones."""
    if not (op.mutated and STATE.recording):
        return arrays
    return [a.copy() if i in op.mutated else a for i, a in enumerate(arrays)]


def write_back(op: Operator, arrays: Sequence[Any], results: Sequence[Any]) -> None:
    """Put the new values of the inputs that an operator mutates, its last results, into their arrays."""
    for i, value in zip(op.mutated, results[len(results) - len(op.mutated) :], strict=True):
        np.copyto(arrays[i], value, casting="unsafe")
        written(arrays[i])


def own(op: Operator, arrays: Sequence[Any], result: Any) -> Any:
    """An array of its own: a view is for the compiler, never for a user who may change it in place."""
    if type(result) is not np.ndarray:
        if isinstance(result, SparseStorage):
            return result
        result = np.asarray(result)
    if isinstance(op, Elementwise) and result.dtype is not arrays[0].dtype:
        return result.astype(op.infer_type([a.dtype for a in arrays])[1][0], copy=False)
    return result.copy() if result.base is not None and isinstance(op, Movement) else result


def record(op: Operator, inputs: Sequence[Any], arrays: Sequence[Any], outputs: list[NDArray]) -> None:
    """Put an operator that ran already on the tape, if recording."""
    if STATE.recording:
        record_operator(op, inputs, arrays, outputs)


def check_out(inputs: Sequence[NDArray], out: Any) -> None:
    """Raise while autograd records, if an ``out=`` array is one of its graph, or will be as an input."""
    outs = [out] if isinstance(out, NDArray) else list(out)
    check_unrecorded(*outs)
    depends = any(x._entry is not None for x in inputs)
    if depends and any(np.may_share_memory(x._data, y._data) for x in inputs for y in outs):
        raise recorded_inplace()


def write_out(op: Operator, inputs: Sequence[Any], arrays: Sequence[Any], results: list[NDArray], out: Any) -> Any:
    """Write results into the caller's ``out=`` arrays, which are then those that the tape knows.

    ``results`` are all of the operator's.
    """
    outs = [out] if isinstance(out, NDArray) else list(out)
    for target, result in zip(outs, results[: op.num_visible_outputs()], strict=False):
        if target.shape != result.shape:
            raise MXNetError(f"out= has shape {target.shape}, but the result has shape {result.shape}")
        np.copyto(target._data, result._data, casting="unsafe")
        written(target._data)
    record(op, inputs, arrays, results)
    for target, result in zip(outs, results[: op.num_visible_outputs()], strict=False):
        recorded_copy(result, target)
    return out


def explain(op: Operator, arrays: Sequence[Any], error: Exception) -> None:
    """Raise what says more than an error of ``eager``: the operator's own words, or whose line it was; else return.

    The operator's inference explains bad inputs better than NumPy does.
    """
    kinds = ValueError, TypeError, IndexError, OverflowError
    bad_input = isinstance(error, kinds) and not isinstance(error, MXNetError)
    if bad_input:
        try:
            op.infer_shape([a.shape for a in arrays])
            op.infer_type([a.dtype for a in arrays])
        except MXNetError as better:
            raise better from error
        except Exception as worse:  # inference itself is wrong
            raise_in_context(op, "infer_shape", worse)
    raise_in_context(op, "eager", error, *arrays)
    if bad_input:
        got = ", ".join(f"{a.dtype}{list(a.shape)}" for a in arrays)
        raise MXNetError(f"{op.title()}: {error} (inputs: {got}; attributes: {op.attrs})") from error


def execute(op: Operator, inputs: Sequence[NDArray]) -> list[NDArray]:
    """Run a bound operator (train mode, counter, key); all outputs, hidden ones included."""
    if any(type(x) is not NDArray for x in inputs):
        if any(isinstance(x, ndarray) for x in inputs):
            return execute(op, [legacy(x) for x in inputs])
        if any(type(x) not in (NDArray, NumberedNDArray) for x in inputs):
            return HOOKS.on_device().executed(op, inputs)
        return at(working_device(inputs[0].context), execute(op, [plain(x) for x in inputs]))
    arrays = [x._data for x in inputs]
    result: Any = evaluated(op, arrays) if op.foreign or RECORDER.operators else op.evaluate(*arrays)
    results: tuple[Any, ...] = result if result.__class__ is tuple else (result,)
    ys = [NDArray(np.asarray(r)) for r in results]
    if STATE.recording:
        record_operator(op, inputs, arrays, ys)
    return ys if inputs else [placed(y, None) for y in ys]


def placed(made: Any, ctx: Any) -> Any:
    """An array moved from the CPU to the requested or default device."""
    ctx = ctx if isinstance(ctx, Context) else current_context()
    if ctx is CPU or not isinstance(made, NDArray):
        return made
    return made.as_in_context(ctx) if ctx.device_type == "gpu" else at(ctx, made)


HOOKS.register(invoke=invoke, execute=execute)
