"""Libraries of compiled operators (MXNet 1.9's extension libraries, ABI version 11), loaded by ctypes.

A library exports C functions, *thunks*, which take C arrays, build the C++ objects that its author's functions want,
and call these. Here the author's functions are addresses that are handed back to the library's own thunks.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_void_p
from pathlib import Path
from typing import Any

from hybridc.errors import MXNetError
from hybridc.ground import MXNET_VERSION
from hybridc.ground.cached import cached_property
from hybridc.ground.locks import ForkLock
from hybridc.ground.records import dataclass
from hybridc.library.extension_compile import shim

ABI = 11  # MX_LIBRARY_VERSION of MXNet's lib_api.h

# The thunks that every library has, in the order in which MXNet looks them up.
_NEEDED = (
    "_opVersion", "initialize", "_msgSize", "_msgGet", "_opRegSize", "_opRegGet", "_opCallFree", "_opCallParseAttrs",
    "_opCallInferType", "_opCallInferSType", "_opCallInferShape", "_opCallFCompute", "_opCallMutateInputs",
    "_opCallCreateOpState", "_opCallDestroyOpState", "_opCallFStatefulCompute",
)  # fmt: skip
# The thunks that run an author's code, and the function of the shim that calls each and catches exceptions.
_SHIM = {
    "initialize": "shim_call_initialize",
    "_opCallParseAttrs": "shim_call_parse_attrs",
    "_opCallInferType": "shim_call_infer_type",
    "_opCallInferSType": "shim_call_infer_type",
    "_opCallInferShape": "shim_call_infer_shape",
    "_opCallMutateInputs": "shim_call_mutate_inputs",
    "_opCallCreateOpState": "shim_call_create_op_state",
    "_opCallDestroyOpState": "shim_call_destroy_op_state",
    "_opCallFCompute": "shim_call_fcompute",
    "_opCallFStatefulCompute": "shim_call_fstateful_compute",
    "_partCallSupportedOps": "shim_call_supported_ops",
    "_partCallCreateSelector": "shim_call_create_selector",
    "_partCallSelect": "shim_call_select",
    "_partCallSelectInput": "shim_call_select_neighbour",
    "_partCallSelectOutput": "shim_call_select_neighbour",
    "_partCallFilter": "shim_call_filter",
    "_partCallReset": "shim_call_reset",
    "_partCallReviewSubgraph": "shim_call_review_subgraph",
    "_passCallGraphPass": "shim_call_graph_pass",
}
_VOID = (
    "_msgGet", "_opRegGet", "_opCallFree", "_opCallDestroyOpState", "_partCallSelect", "_partCallSelectInput",
    "_partCallSelectOutput", "_partCallFilter", "_partCallReset", "_partRegGet", "_passRegGet",
)  # fmt: skip


@dataclass(frozen=True)
class LibraryOp:
    """An operator as its library registered it: addresses of the author's functions, by device where they differ."""

    library: ExtensionLibrary
    name: str
    is_subgraph: bool
    forward: dict[str, int]
    backward: dict[str, int]
    create: dict[str, int]
    parse: int | None
    infer_type: int | None
    infer_storage: int | None
    infer_shape: int | None
    mutate: int | None

    def check(self) -> None:
        """Raise unless everything that an operator must have is there."""
        if self.is_subgraph:
            needed: tuple[tuple[str, Any], ...] = (("CreateOpState", self.create),)
            kind = "custom subgraph op"
        else:
            needed = (
                ("ParseAttrs", self.parse),
                ("Forward or CreateOpState", self.forward or self.create),
                ("InferType", self.infer_type),
                ("InferShape", self.infer_shape),
            )
            kind = "custom op"
        for what, function in needed:
            if not function:
                raise MXNetError(f"Error loading '{self.name}' {kind}, {what} function was not set.")

    @property
    def stateful(self) -> bool:
        """Whether it owns state, which its forward and backward share."""
        return bool(self.create)


class ExtensionLibrary:
    """A loaded library: its thunks, its operators, and the messages in which it says what went wrong."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self.handle: Any = ctypes.CDLL(path)
        except OSError as error:
            raise MXNetError(f"Error loading library: '{path}'\n{error}") from None
        self._file = _identity(path)
        self._lock = ForkLock()
        self._seen = 0
        self.require(_NEEDED[:1])
        version = self.handle._opVersion()
        if version != ABI:
            raise MXNetError(
                f"Library version ({version}) does not match MXNet version ({ABI}): {path} was compiled for another "
                "MXNet; compile it again with the headers of MXNet 1.9 or of hybridc (mx.library.include_path())"
            )
        self.require(_NEEDED)
        self.shim: Any = shim()
        self.initialize()
        self.ops = [self._op(i) for i in range(self.handle._opRegSize())]

    def changed(self) -> bool:
        """Whether the file is another one than what was loaded."""
        return _identity(self.path) != self._file

    def require(self, names: Sequence[str]) -> None:
        """Look these functions up, or raise."""
        for name in names:
            if not self.has(name):
                raise MXNetError(f"Error getting function '{name}' from library\n{self._lacks(name)}")

    def has(self, name: str) -> bool:
        """Whether the library exports a function."""
        found = hasattr(self.handle, name)
        if found and name in _VOID:
            getattr(self.handle, name).restype = None
        return found

    def _lacks(self, name: str) -> str:
        try:
            return str(getattr(self.handle, name))
        except AttributeError as error:
            return str(error)

    def initialize(self) -> None:
        """Initialise the library, which checks the given version."""
        done = self.call("initialize", c_int(MXNET_VERSION))
        if done != 1:
            raise MXNetError(f"Library failed to initialize{self.why(done)}")

    # --- calls ---------------------------------------------------------------------------------------------

    @cached_property
    def _addresses(self) -> dict[str, Any]:
        return {n: ctypes.cast(getattr(self.handle, n), c_void_p) for n in _SHIM if self.has(n)}

    def call(self, name: str, *args: Any) -> int:
        """Call a thunk: 1 is success, 0 failure, -1 an exception; see :meth:`why`."""
        if self.shim is not None:
            return getattr(self.shim, _SHIM[name])(self._addresses[name], *args)
        returned = getattr(self.handle, name)(*args)
        return 1 if name in _VOID else returned

    def caller(self, name: str, *args: Any) -> functools.partial[int]:
        """As :meth:`call`, to be called many times with the same arguments; for a shim that takes them as a struct."""
        return functools.partial(getattr(self.shim, _SHIM[name]), self._addresses[name], *args)

    def free(self, pointer: Any) -> None:
        """Free what the library allocated and gave away."""
        self.handle._opCallFree(ctypes.cast(pointer, c_void_p))

    def why(self, returned: int) -> str:
        """The error of a failed call: the exception, and the library's messages since the last failure.

        Messages stay in the library for ever.
        """
        # COMPAT(mxnet): there every error repeats all messages of all earlier ones.
        with self._lock.current:
            count = self.handle._msgSize()
            texts = [self._message(i) for i in range(self._seen, count)]
            self._seen = count
        if returned == -1:
            texts.append(f"C++ exception: {self.shim.shim_error().decode(errors='replace')}")
        if not texts:
            return ""
        return "\nExtension Traceback:\n" + "".join(f"\t[{i}] {t}\n" for i, t in enumerate(texts))

    def _message(self, number: int) -> str:
        text = c_char_p()
        self.handle._msgGet(c_int(number), byref(text))
        return (text.value or b"").decode(errors="replace").rstrip("\n")

    # --- registration --------------------------------------------------------------------------------------

    def _op(self, number: int) -> LibraryOp:
        """The entry that the library registered at an index; cached, because reading it changes it."""
        name, is_subgraph = c_char_p(), c_int()
        by_device = [(POINTER(c_char_p)(), POINTER(c_void_p)(), c_int()) for _ in range(3)]
        functions = [c_void_p() for _ in range(5)]
        outs = [byref(x) for group in by_device for x in group] + [byref(f) for f in functions]
        self.handle._opRegGet(c_int(number), byref(name), byref(is_subgraph), *outs)
        forward, backward, create = (
            {_text(devices[i]): found[i] for i in range(count.value)} for devices, found, count in by_device
        )
        parse, infer_type, infer_storage, infer_shape, mutate = (f.value for f in functions)
        return LibraryOp(
            self,
            _text(name.value),
            bool(is_subgraph.value),
            forward,
            backward,
            create,
            parse,
            infer_type,
            infer_storage,
            infer_shape,
            mutate,
        )


def _identity(path: str) -> tuple[int, ...]:
    stat = Path(path).stat()
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _text(value: bytes | None) -> str:
    return (value or b"").decode(errors="replace")
