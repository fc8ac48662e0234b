"""Arrays on GPUs, and operators that are applied to them at once.

On the interpreter, whose memory is the host's, an operator's ``eager`` runs on that memory. On a GPU, one operator is
a compiled graph of one node, as a hybridized block is one of many: there is no other implementation.
"""

# pyright: reportIncompatibleMethodOverride=false
# Methods of arrays of mx.np have NumPy's arguments for MXNet's.

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from hybridc import autograd
from hybridc.array import indexing
from hybridc.array.dispatch import as_ndarray, before, check_out, explain, in_context, own, record, write_out
from hybridc.array.functions import function
from hybridc.array.ndarray import NDArray, wrap
from hybridc.array.numpy_array import NUMPY_CLASSES, as_numpy, ndarray
from hybridc.compile.stages import Traced
from hybridc.context import Context
from hybridc.dialects.checked import evaluated
from hybridc.errors import MXNetError
from hybridc.ground.locks import ForkLock
from hybridc.ground.state import STATE
from hybridc.runtime.devices.array import DeviceArray
from hybridc.runtime.devices.choose import device
from hybridc.runtime.devices.device import Device
from hybridc.runtime.devices.dlpack import array_of, capsule_of, device_of, gpu_of
from hybridc.trace.tracer import Trace

if TYPE_CHECKING:
    from hybridc.compile.compiled_graph import CompiledGraph
    from hybridc.dialects.operator import Operator

# The most cached graphs of one operator.
_KEPT = 256
# What a library says of the order of its work, by DLPack's protocol.
_ANY_STREAM, _DEFAULT_STREAM = -1, 1


class DeviceNDArray(NDArray):
    """An NDArray whose buffer is a device's."""

    __slots__ = ()
    _data: DeviceArray

    @property
    def context(self) -> Context:
        """The device that holds the array."""
        return Context("gpu", self._data.device.index)

    ctx = context
    device = context

    def asnumpy(self) -> npt.NDArray[Any]:
        """A NumPy copy of the values, made when they are there."""
        values = self._data.host()
        return values.copy() if self._data.device.is_host else values

    def asnative(self) -> npt.NDArray[Any]:
        """The NumPy buffer itself, where the device's memory is the host's."""
        return self._data.memory()

    def asscalar(self) -> Any:
        """The value of an array of one element."""
        return wrap(self.asnumpy()).asscalar()

    item = asscalar

    def tolist(self) -> list[Any]:
        """The values as nested lists."""
        return self.asnumpy().tolist()

    @property
    def writable(self) -> bool:
        """Whether the values can be assigned."""
        return True

    def __bool__(self) -> bool:
        return bool(wrap(self.asnumpy()))

    def __index__(self) -> int:
        return wrap(self.asnumpy()).__index__()

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return self.asnumpy() if dtype is None else self.asnumpy().astype(dtype)

    def __dlpack__(self, *, stream: int | None = None, **_: Any) -> Any:
        if stream != _ANY_STREAM and stream != (self._data.device.stream or _DEFAULT_STREAM):
            self._data.device.synchronise()  # another order of work: nothing may be left to do in ours
        return capsule_of(self._data)

    def __dlpack_device__(self) -> tuple[int, int]:
        return device_of(self._data)

    def to_dlpack_for_read(self) -> Any:
        """A DLPack capsule that shares memory."""
        return self.__dlpack__()

    to_dlpack_for_write = to_dlpack_for_read

    def wait_to_read(self) -> None:
        """Return when the values are there."""
        self._data.device.synchronise()

    wait_to_write = wait_to_read

    def as_in_context(self, context: Context) -> NDArray:
        """This array if it is on that device, else a copy there."""
        return self if context == self.context else self.copyto(context)

    as_in_ctx = as_in_context
    to_device = as_in_context

    def __getitem__(self, key: Any) -> Any:
        if STATE.trace is None and not (STATE.recording and self._entry is not None):
            part = _part(self._data, key)
            if part is not None:
                return DeviceNDArray(cast("Any", part))
        return indexing.getitem(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        if STATE.recording and indexing.assign_recorded(self, key, value):
            return
        part = _part(self._data, key)
        if part is not None:
            part.write(_values(value))
            return
        values = wrap(self._data.host())
        values[key] = wrap(value.asnumpy()) if isinstance(value, NDArray) else value
        self._data.write(values._data)

    def _inplace(self, name: str, ufunc: Any, other: Any) -> NDArray:
        return super()._inplace(name, None, other)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.asnumpy(), self.context.device_id)


class DeviceNumpyArray(ndarray, DeviceNDArray):
    """An array of ``mx.np`` whose buffer is a device's."""

    __slots__ = ()

    def item(self, *args: Any) -> Any:
        """An element as a Python number: the only one, or that at an index."""
        return self.asnumpy().item(*args)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.asnumpy(), self.context.device_id, True)


NUMPY_CLASSES[DeviceNDArray] = DeviceNumpyArray


def _restored(values: Any, index: int, numpy: bool = False) -> NDArray:
    """An array that was pickled."""
    made = to_device(values, index)
    return as_numpy(made) if numpy else made


def to_device(values: npt.NDArray[Any], index: int) -> NDArray:
    """A copy of NumPy's values on ``mx.gpu(index)``."""
    made = device(index).empty(values.shape, values.dtype)
    made.write(values)
    return DeviceNDArray(cast("Any", made))


def from_dlpack(dlpack: Any, index: int) -> NDArray:
    """An array on ``mx.gpu(index)`` that shares the memory of another library's, by DLPack's protocol."""
    return wrap(array_of(dlpack, device(index)))


def from_capsule(capsule: Any) -> NDArray | None:
    """The same of a DLPack capsule; None if its memory is no GPU's."""
    number = gpu_of(capsule)
    return None if number is None else from_dlpack(capsule, number)


def _values(value: Any) -> Any:
    """The value of an assignment, for NumPy or the device."""
    return value._data if isinstance(value, NDArray) else value


def _part(data: DeviceArray, key: Any) -> DeviceArray | None:
    """``data[key]`` where that is elements that follow each other: a view of the same memory, as in MXNet."""
    parts: tuple[Any, ...] = key if key.__class__ is tuple else (key,)
    if not all(p is Ellipsis or p is None or type(p) in (int, slice) for p in parts):
        return None
    # Indexing a NumPy array with these strides and no memory gives the elements' positions.
    like = np.lib.stride_tricks.as_strided(np.empty(0, data.dtype), data.shape, _strides(data))
    found: Any = like[key]
    if type(found) is not np.ndarray:  # one element
        found = like[(*parts, None) if data.ndim else (*parts, Ellipsis)]
    start = found.__array_interface__["data"][0] - like.__array_interface__["data"][0]
    if not found.flags.c_contiguous:
        return None
    return data.part(start // data.dtype.itemsize, found.shape)


def _strides(data: DeviceArray) -> tuple[int, ...]:
    strides: list[int] = []
    step = data.dtype.itemsize
    for size in reversed(data.shape):
        strides.insert(0, step)
        step *= max(1, size)
    return tuple(strides)


# --- operators ----------------------------------------------------------------------------------------------


def invoke(op: Operator, inputs: Sequence[Any], out: Any = None) -> Any:
    """Apply an operator to arrays of one device, and numbers."""
    device = _device_of(op, inputs)
    dtype = next(x._data.dtype for x in inputs if isinstance(x, NDArray))
    given = [_there(device, x if isinstance(x, NDArray) else as_ndarray(op, x, dtype)) for x in inputs]
    if op.TRAIN_MODE or op.DRAWS:
        op, given, _ = in_context(op, given)
        given = [_there(device, x) for x in given]
    arrays: list[Any] = [x._data for x in given]
    if out is not None and STATE.recording:
        check_out(given, out)
    if op.SAME_DTYPE:
        op.infer_type([a.dtype for a in arrays])
    results = execute(op, arrays, device)
    saved = before(op, arrays)
    for i, value in zip(op.mutated, results[len(results) - len(op.mutated) :], strict=True):
        arrays[i].write(value)
    ys = [wrap(r) for r in results]
    if out is not None:
        return write_out(op, given, saved, ys, out)
    record(op, given, saved, ys)
    visible = op.num_visible_outputs()
    return ys[0] if visible == 1 else ys[:visible]


def executed(op: Operator, inputs: Sequence[NDArray]) -> list[NDArray]:
    """All results of a bound operator, on the tape if recording."""
    device = next(x._data.device for x in inputs if isinstance(x, DeviceNDArray))
    given = [_there(device, x) for x in inputs]
    arrays = [x._data for x in given]
    ys = [wrap(r) for r in execute(op, arrays, device)]
    record(op, given, arrays, ys)
    return ys


def execute(op: Operator, arrays: Sequence[Any], device: Device) -> list[Any]:
    """All results of a bound operator (train mode, counter, key), hidden ones included."""
    if not device.is_host and op.SHAPES_ARE_KNOWN:
        graph = _graph(op, arrays, device)
        return list(graph.forward(*arrays))
    hosts = [a.host() for a in arrays]
    try:
        result: Any = evaluated(op, hosts) if op.foreign else op.evaluate(*hosts)
    except Exception as error:
        explain(op, hosts, error)
        raise
    results: tuple[Any, ...] = result if result.__class__ is tuple else (result,)
    return [device.put(np.asarray(own(op, hosts, r), order="C")) for r in results]


def calculate(ufunc: Any, inputs: Sequence[Any], out: Any) -> Any:
    """A ufunc of NumPy's that is an operator, too: the sums of gradients."""
    found = {np.add: "broadcast_add", np.multiply: "broadcast_mul"}.get(ufunc)
    if found is None:
        return NotImplemented
    with _not_recording():
        result = function(found)(*[wrap(x) if isinstance(x, DeviceArray) else x for x in inputs])
    if out is None:
        return result._data
    out.write(result._data)
    return out


def _not_recording() -> Any:
    return autograd.pause(STATE.training)


def _device_of(op: Operator, inputs: Sequence[Any]) -> Device:
    """The one device of an operator's inputs."""
    contexts = dict.fromkeys(x.context for x in inputs if isinstance(x, NDArray))
    if len(contexts) > 1:
        where = " and ".join(map(str, contexts))
        raise MXNetError(f"{op.title()}: its inputs are on {where}; copy them to one device with x.as_in_context(…)")
    return next(x._data.device for x in inputs if isinstance(x, DeviceNDArray))


def _there(device: Device, x: NDArray) -> NDArray:
    """An input as one of the device."""
    if isinstance(x, DeviceNDArray):
        return x
    made = DeviceNDArray(cast("Any", device.put(np.asarray(x._data, order="C"))))
    made._entry = x._entry
    return made


_GRAPHS: OrderedDict[Any, tuple[Operator, CompiledGraph]] = OrderedDict()
_LOCK = ForkLock()


def _graph(op: Operator, arrays: Sequence[Any], device: Device) -> CompiledGraph:
    """The compiled graph of one operator for these shapes; made once, as long as it is among those used last."""
    key = (id(op), device, *((a.shape, a.dtype) for a in arrays))
    with _LOCK.current:
        if key not in _GRAPHS:
            trace = Trace(STATE.training)
            trace.name = op.NAME.rpartition(".")[2]
            trace.context = Context("gpu", device.index)
            leaves = [trace.leaf(f"data{i}", a.shape, a.dtype.type, "data") for i, a in enumerate(arrays)]
            with trace.active():
                outputs = trace.emit(op, leaves, None)
            trace.finish(outputs)
            trace.structure = [0] * len(outputs)
            _GRAPHS[key] = op, Traced(trace).graph()
            if len(_GRAPHS) > _KEPT:
                _GRAPHS.popitem(last=False)
        _GRAPHS.move_to_end(key)
        return _GRAPHS[key][1]
