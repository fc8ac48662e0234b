"""Collectives on GPUs by NCCL, if the library is there: with PyTorch, with CuPy, or in a package of NVIDIA's.

They run on a stream of their own, in the order in which they begin: beside the kernels that come after, and before
those that wait for them. The host waits for nothing; a thread does, so that a rank that never comes is noticed.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import warnings
import weakref
from collections.abc import Iterator, Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from hybridc.communication.communicator import Collective, Communicator, bounds
from hybridc.dtypes import wide
from hybridc.errors import DeviceError
from hybridc.runtime.devices.array import DeviceArray
from hybridc.runtime.devices.nvidia.driver import NON_BLOCKING
from hybridc.runtime.devices.nvidia.library_files import loaded

if TYPE_CHECKING:
    from hybridc.runtime.devices.nvidia.cuda import Cuda, CudaEvent


class UniqueId(ctypes.Structure):
    """``ncclUniqueId``: by what ranks find each other; rank 0 makes it."""

    _fields_ = (("bytes", ctypes.c_byte * 128),)


_END = (c_void_p, c_void_p)  # communicator, stream
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "ncclGetUniqueId": (POINTER(UniqueId),),
    "ncclCommInitRank": (POINTER(c_void_p), c_int, UniqueId, c_int),  # result, ranks, id, rank
    # From, to, count, dtype; then the operation, or the rank that gets or gives it, or both.
    "ncclAllReduce": (c_void_p, c_void_p, c_size_t, c_int, c_int, *_END),
    "ncclReduce": (c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, *_END),
    "ncclBroadcast": (c_void_p, c_void_p, c_size_t, c_int, c_int, *_END),
    "ncclGroupStart": (),
    "ncclGroupEnd": (),
    "ncclCommDestroy": (c_void_p,),
    "ncclGetErrorString": (c_int,),
    "ncclGetVersion": (POINTER(c_int),),
}
# Constants of nccl.h: data types, the sum.
_NAMES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16")
KINDS = {name: code for code, name in enumerate(_NAMES)}
BYTES, SUM = KINDS["uint8"], 0


class Nccl:
    """NCCL on one GPU, for the communicators whose ranks have a GPU each."""

    def __init__(self, gpu: Cuda, library: Any) -> None:
        self._card, self._library = gpu, library
        self._stream = 0
        self._of: WeakKeyDictionary[Communicator, _NcclRanks | None] = WeakKeyDictionary()

    def begin(self, ranks: Communicator, collective: Collective, array: DeviceArray) -> _OnStream | None:
        """Begin a collective once all that the current stream was given is done; None if NCCL cannot.

        All ranks call this, and all get the same answer.
        """
        if ranks not in self._of:
            self._of[ranks] = self._joined(ranks)
        joined = self._of[ranks]
        if joined is None or not joined.has(collective, array.dtype):
            return None
        before, after = self._card.event(), self._card.event()
        if array.size:
            before.record()
            before.hold(self._stream)
            collective(joined, array)
        after.record(self._stream)
        name = f"{collective} of {array.size} {array.dtype} by NCCL"
        ranks.start(functools.partial(ranks.watched, name, after.wait))
        return _OnStream(self._card, after, array)

    def _joined(self, ranks: Communicator) -> _NcclRanks | None:
        """These ranks, if each of them has the library and a GPU of its own."""
        states = ranks.gather_objects((self._library is not None, self._card.uuid))
        missing = next((rank for rank, (has_it, _) in enumerate(states) if not has_it), None)
        gpus = [gpu for _, gpu in states]
        shared = next(((gpus.index(gpu), rank) for rank, gpu in enumerate(gpus) if gpus.index(gpu) < rank), None)
        if missing is None and shared is None:
            self._stream = self._stream or self._card.pointer("cuStreamCreate", NON_BLOCKING)
            return _NcclRanks(self._card, self._library, ranks, self._stream)
        if ranks.rank == 0:
            why = f"rank {missing} finds no libnccl.so.2; PyTorch has it, and NVIDIA's package nvidia-nccl-cu12"
            if shared is not None:
                why = f"ranks {shared[0]} and {shared[1]} have the same GPU; give each its own, by its local_rank"
            warnings.warn(f"arrays on GPUs are summed in the memory of the host, by MPI: {why}", stacklevel=2)
        return None


class _NcclRanks:
    """The ranks of a communicator; the methods are those of :class:`Communicator`."""

    def __init__(self, gpu: Cuda, library: Any, ranks: Communicator, stream: int) -> None:
        self._card, self._stream = gpu, stream
        self._functions: dict[str, Any] = {}
        for name, types in FUNCTIONS.items():
            function = getattr(library, name)
            function.argtypes = types
            function.restype = c_char_p if name == "ncclGetErrorString" else c_int
            self._functions[name] = function
        identity = UniqueId()
        if ranks.rank == 0:
            self._call("ncclGetUniqueId", byref(identity))
        identity = UniqueId.from_buffer_copy(ranks.broadcast_object(bytes(identity)))
        self._comm = c_void_p()
        join = functools.partial(self._call, "ncclCommInitRank", byref(self._comm), ranks.size, identity, ranks.rank)
        ranks.watched("set-up of NCCL", join)
        weakref.finalize(self, _leave, gpu, self._functions["ncclCommDestroy"], self._comm).atexit = False

    @staticmethod
    def has(collective: Collective, dtype: np.dtype[Any]) -> bool:
        """Whether NCCL supports a collective on a dtype without rounding partial sums to 16 bits."""
        return collective.method == "allgather" or (dtype.name in KINDS and wide(dtype) == dtype)

    def allreduce(self, array: DeviceArray) -> None:
        """Sum the arrays of all ranks."""
        self._enqueue("ncclAllReduce", array.pointer, array.pointer, array.size, KINDS[array.dtype.name], SUM)

    def reduce_scatter(self, array: DeviceArray, counts: Sequence[int]) -> None:
        """Sum one-dimensional arrays; each rank gets its part of the sum."""
        kind = KINDS[array.dtype.name]
        self._together(("ncclReduce", at, at, count, kind, SUM, rank) for rank, at, count in _parts(array, counts))

    def allgather(self, array: DeviceArray, counts: Sequence[int]) -> None:
        """Put the parts of all ranks into all arrays."""
        size = array.dtype.itemsize
        self._together(
            ("ncclBroadcast", at, at, count * size, BYTES, rank) for rank, at, count in _parts(array, counts)
        )

    def _together(self, calls: Iterator[tuple[Any, ...]]) -> None:
        """Make calls that NCCL carries out at once."""
        self._call("ncclGroupStart")
        try:
            for call in calls:
                self._enqueue(*call)
        finally:
            self._call("ncclGroupEnd")

    def _enqueue(self, name: str, *arguments: Any) -> None:
        self._call(name, *arguments, self._comm, self._stream)
        self._card.asked.of[self._stream].append(f"{name} of {arguments[2]} elements")

    def _call(self, name: str, *arguments: Any) -> None:
        with self._card.current:
            error = self._functions[name](*arguments)
        if error:
            words = (self._functions["ncclGetErrorString"](error) or b"unknown error").decode()
            raise DeviceError(f"{name}: {words} (error {error} of NCCL; NCCL_DEBUG=WARN shows more)")


def _leave(gpu: Cuda, destroy: Any, comm: c_void_p) -> None:
    if gpu.driver.may_free():
        with gpu.current:
            destroy(comm)


class _OnStream:
    """A collective on NCCL's stream."""

    seconds = 0.0

    def __init__(self, gpu: Cuda, after: CudaEvent, array: DeviceArray) -> None:
        self._card, self._after, self._array = gpu, after, array

    def wait(self) -> None:
        """Let the current stream wait."""
        self._after.hold(self._card.stream)


def _parts(array: DeviceArray, counts: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """The rank, address and count of each part that has elements."""
    size = array.dtype.itemsize
    for rank, (start, end) in enumerate(itertools.pairwise(bounds(counts))):
        if end > start:
            yield rank, array.pointer + start * size, end - start


def nccl_version() -> int:
    """The version of the library, as 22803 for 2.28.3; 0 if there is none."""
    library, version = nccl_library(), c_int()
    return 0 if library is None or library.ncclGetVersion(byref(version)) else version.value


@functools.cache
def nccl_library() -> Any:
    """The NCCL library; None if there is none."""
    return loaded(["libnccl.so.2"], FUNCTIONS)
