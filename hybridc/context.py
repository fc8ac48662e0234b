"""Devices: ``mx.cpu()``, ``mx.gpu(i)`` and the current default."""

from __future__ import annotations

import threading
import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, cast

from hybridc.errors import ArgumentTypeError, UnknownNameError
from hybridc.ground.class_property import HasClassProperties, classproperty
from hybridc.ground.hooks import HOOKS

__all__ = ["Context", "cpu", "cpu_pinned", "current_context", "gpu", "gpu_memory_info", "num_gpus"]


class Context(metaclass=HasClassProperties):
    """A device, as ``cpu(0)``; also a context manager that makes it the default for new arrays.

    Parameters
    ----------
    device_type:
        ``"cpu"``, ``"gpu"``, ``"cpu_pinned"`` or ``"cpu_shared"``, or a Context; others are an UnknownNameError.
    device_id:
        Its number.

    Examples
    --------
    >>> with mx.cpu(1):
    ...     x = mx.nd.zeros(2)
    >>> x.context, mx.current_context()
    (cpu(1), cpu(0))
    """

    devtype2str: ClassVar[dict[int, str]] = {1: "cpu", 2: "gpu", 3: "cpu_pinned", 5: "cpu_shared"}
    devstr2type: ClassVar[dict[str, int]] = {name: code for code, name in devtype2str.items()}
    #: The default of each thread, as its ``value``.
    _default_ctx: ClassVar[_CurrentDevice]

    __slots__ = ("_previous", "device_id", "device_type")
    device_type: str
    device_id: int

    def __init__(self, device_type: str | Context, device_id: int = 0) -> None:
        if isinstance(device_type, Context):
            device_type, device_id = device_type.device_type, device_type.device_id
        if device_type not in self.devstr2type:
            raise UnknownNameError(f"unknown device type {device_type!r}; use one of {sorted(self.devstr2type)}")
        self.device_type = device_type
        self.device_id = device_id
        self._previous: list[Context] = []

    def __setstate__(self, state: Any) -> None:
        """The state of a pickle: that of this class, or MXNet's, in which a number names the device type."""
        own = cast("dict[str, Any]", state[1] if isinstance(state, tuple) else state)
        named = "device_type" in own
        self.__init__(own["device_type"] if named else self.devtype2str[own["device_typeid"]], own["device_id"])

    @property
    def device_typeid(self) -> int:
        """MXNet's number for the device type: 1 is cpu, 2 is gpu."""
        return self.devstr2type[self.device_type]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Context) and self.device_type == other.device_type and self.device_id == other.device_id
        )

    def __hash__(self) -> int:
        return hash((self.device_type, self.device_id))

    def __repr__(self) -> str:
        return f"{self.device_type}({self.device_id})"

    __str__ = __repr__

    def __enter__(self) -> Context:
        self._previous.append(current_context())
        _LOCAL.value = self
        return self

    def __exit__(self, *exc: object) -> None:
        _LOCAL.value = self._previous.pop()

    @classproperty
    def default_ctx(cls) -> Context:  # pyright: ignore[reportRedeclaration]
        """Deprecated, as in MXNet: :func:`current_context`; to set it, ``mx.test_utils.set_default_context``."""
        _warn_of_default_ctx(4)
        return current_context()

    @default_ctx.setter
    def default_ctx(cls, val: Context) -> None:
        _warn_of_default_ctx(5)
        _LOCAL.value = val

    def empty_cache(self) -> None:
        """Nothing to free on the CPU; there for MXNet's API."""


#: The device of arrays that were given none; contexts of arrays and defaults are this very object.
CPU = Context("cpu", 0)


def _warn_of_default_ctx(frames: int) -> None:
    warnings.warn(
        "Context.default_ctx has been deprecated: use mx.current_context(), and mx.test_utils.set_default_context "
        "to set a default context",
        DeprecationWarning,
        stacklevel=frames,
    )


class _CurrentDevice(threading.local):
    value = CPU


_LOCAL = Context._default_ctx = _CurrentDevice()


def cpu(device_id: int = 0) -> Context:
    """The CPU.

    Parameters
    ----------
    device_id:
        A number of the user's: all are the host's memory.
    """
    return Context("cpu", device_id)


def cpu_pinned(device_id: int = 0) -> Context:
    """Pinned host memory; on this version the same as :func:`cpu`.

    Parameters
    ----------
    device_id:
        A number of the user's.
    """
    return Context("cpu_pinned", device_id)


def gpu(device_id: int = 0) -> Context:
    """A GPU; naming one is fine, putting an array there needs one: see docs/gpu.md.

    Parameters
    ----------
    device_id:
        Its number, from 0 on.
    """
    return Context("gpu", device_id)


def num_gpus() -> int:
    """Number of GPUs on which arrays can be."""
    return HOOKS.devices().count()


def gpu_memory_info(device_id: int = 0) -> tuple[int, int]:
    """The free bytes and all bytes of a GPU's memory; memory cached by a pool is not free.

    Parameters
    ----------
    device_id:
        The number of the GPU; an MXNetError is raised if there is none.
    """
    return HOOKS.devices().device(device_id).memory()


def current_context() -> Context:
    """The device on which new arrays are made."""
    return _LOCAL.value


def working_device(context: Context) -> Context:
    """The device of an operator's results for arrays on ``context``.

    Memory that is only shared or pinned, ``cpu_pinned``, is none: results are on the CPU.
    """
    return CPU if context.device_type in ("cpu_pinned", "cpu_shared") else context


_NOTHING = nullcontext()


def working_on(context: Context) -> AbstractContextManager[Any]:
    """A context manager that makes ``context`` the current device, if it is not."""
    return _NOTHING if context == _LOCAL.value else Context(context)


def check_device(ctx: Context | None) -> Context:
    """The device ``ctx``, or the default for None, once it is sure that arrays can live there."""
    ctx = current_context() if ctx is None else ctx
    if not isinstance(ctx, Context):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentTypeError(f"Context type error: expected a Context such as mx.cpu(), got {ctx!r}")
    if ctx.device_type == "gpu":
        HOOKS.devices().device(ctx.device_id)
    return ctx
