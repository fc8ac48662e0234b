"""``mx.base``: what MXNet's own modules share, and programs import.

MXNet calls a library in C, whose name is ``_LIB`` here; hybridc has none. The helpers that make values of C from those
of Python are here nonetheless: they need no library, and extensions call libraries of their own with them.
"""

from __future__ import annotations

import ctypes
import inspect
import os
import platform
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, cast

import numpy as np
import numpy.typing as npt

from hybridc.errors import (
    AbsentError,
    ArgumentTypeError,
    InternalError,
    MXNetError,
    NotImplementedForSymbol,
    NotSupportedForSparseNDArray,
)
from hybridc.ground import NULL, NullType, mxnet_version
from hybridc.ground.class_property import classproperty

__all__ = [
    "MXCallbackList",
    "MXNetError",
    "NotImplementedForSymbol",
    "NotSupportedForSparseNDArray",
    "add_fileline_to_docstring",
    "build_param_doc",
    "c2pyerror",
    "c_array",
    "c_array_buf",
    "c_handle_array",
    "c_str",
    "c_str_array",
    "check_call",
    "classproperty",
    "ctypes2buffer",
    "ctypes2numpy_shared",
    "data_dir",
    "data_dir_default",
    "error_types",
    "get_last_ffi_error",
    "integer_types",
    "mx_real_t",
    "numeric_types",
    "py_str",
    "register_error",
    "string_types",
    "with_metaclass",
]

__version__ = mxnet_version

mx_real_t = np.float32
basestring = str
long = int
string_types = (str,)
numeric_types = (float, int, np.generic)
integer_types = (int, np.integer)

# --- MXNet's types of C ----------------------------------------------------------------------------------------

mx_int = ctypes.c_int
mx_uint = ctypes.c_uint
mx_int64 = ctypes.c_int64
mx_float = ctypes.c_float
mx_float_p = ctypes.POINTER(mx_float)
NDArrayHandle = FunctionHandle = OpHandle = CachedOpHandle = SymbolHandle = ExecutorHandle = ctypes.c_void_p
DataIterCreatorHandle = DataIterHandle = KVStoreHandle = RecordIOHandle = ProfileHandle = ctypes.c_void_p
RtcHandle = CudaModuleHandle = CudaKernelHandle = DLPackHandle = ctypes.c_void_p


class MXCallbackList(ctypes.Structure):
    """MXNet's structure of callbacks: their number, their functions, their contexts."""

    _fields_ = (
        ("num_callbacks", ctypes.c_int),
        ("callbacks", ctypes.POINTER(ctypes.CFUNCTYPE(ctypes.c_int))),
        ("contexts", ctypes.POINTER(ctypes.c_void_p)),
    )


class _NoLibrary:
    """Stands for MXNet's library in C; whatever is looked up in it raises."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AbsentError(
            f"mx.base._LIB.{name}: hybridc has no library in C; its functions are those of mx.nd, mx.sym and mx.gluon, "
            "and mx.library.load loads operators from a library of yours"
        )

    def __repr__(self) -> str:
        return "<no library: hybridc has none in C>"


_LIB = _NoLibrary()
_NullType, _Null = NullType, NULL


# --- folders ---------------------------------------------------------------------------------------------------


def data_dir_default() -> str:
    """The folder of data sets and models unless ``MXNET_HOME`` is set: ``.mxnet`` in the user's own."""
    if platform.system() == "Windows":
        return os.path.join(os.environ.get("APPDATA", os.path.expanduser("~")), "mxnet")
    return os.path.join(os.path.expanduser("~"), ".mxnet")


def data_dir() -> str:
    """The folder of data sets and models: ``MXNET_HOME``, or :func:`data_dir_default`."""
    return os.environ.get("MXNET_HOME", data_dir_default())


# --- errors ----------------------------------------------------------------------------------------------------

#: Classes of errors by the names with which texts of errors begin, see :func:`register_error`.
error_types: dict[str, Any] = {}


def register_error(func_name: Any = None, cls: Any = None) -> Any:
    """Register a class of errors under a name: ``@register_error`` or ``register_error("Name", cls)``.

    Parameters
    ----------
    func_name:
        The name; or the class, whose own name it has. Without the class ``cls`` it is a decorator.
    """
    if callable(func_name):
        func_name, cls = getattr(func_name, "__name__", None), func_name

    def register(mycls: Any) -> Any:
        error_types[func_name if isinstance(func_name, str) else mycls.__name__] = mycls
        return mycls

    return register if cls is None else register(cls)


register_error(NotImplementedForSymbol)
register_error(InternalError)
for _kind in (ValueError, TypeError, AttributeError, IndexError, NotImplementedError):
    register_error(_kind.__name__, _kind)


def c2pyerror(err_msg: str) -> tuple[str, str | None]:
    """The text of an error of C++, its stack trace first and in Python's order; and the name that it begins with.

    Parameters
    ----------
    err_msg:
        The error's text as C++ has it.
    """
    lines = err_msg.removesuffix("\n").split("\n")
    name = lines[0].partition(":")[0] if ":" in lines[0] else None
    if name is not None and not all(c.isalnum() or c in "_." for c in name):
        name = None
    trace: list[str] = []
    text: list[str] = []
    inside = False
    for line in lines:
        inside = line.startswith("Stack trace") or (inside and line.startswith("  "))
        if not inside:
            text.append(line)
        elif line.startswith("  "):
            trace.insert(0, line)
    head = ["Traceback (most recent call last):", *trace] if trace else []
    return "\n".join([*head, *text]), name


def get_last_ffi_error() -> MXNetError:
    """The last error of MXNet's library in C: none, as there is no such library; the text says so."""
    return MXNetError("there is no last error: hybridc has no library in C, and raises its errors where they happen")


def check_call(ret: int) -> None:
    """Raise an MXNetError unless ``ret``, what a function of C returned, is 0."""
    if ret != 0:
        raise MXNetError(f"a function of C returned {ret}, which means that it failed; 0 would be success")


# --- values of C -----------------------------------------------------------------------------------------------


def py_str(x: bytes) -> str:
    """The text of ``x``, bytes in UTF-8."""
    return x.decode("utf-8")


def c_str(string: str) -> ctypes.c_char_p:
    """A ``char *`` to the text ``string`` in UTF-8."""
    return ctypes.c_char_p(string.encode("utf-8"))


def c_str_array(strings: Sequence[str]) -> Any:
    """A ``char *[]`` of the texts ``strings`` in UTF-8."""
    return c_array(ctypes.c_char_p, [s.encode("utf-8") for s in strings])


def c_array(ctype: Any, values: Sequence[Any]) -> Any:
    """An array of C, with copies of values.

    Parameters
    ----------
    ctype:
        The type of C, such as ``ctypes.c_int``.
    values:
        The values.
    """
    out = (ctype * len(values))()
    out[:] = values
    return out


def c_array_buf(ctype: Any, buf: Any) -> Any:
    """An array of C in the memory of a buffer, of as many elements as that has.

    Parameters
    ----------
    ctype:
        The type of C, as large as an element of the buffer.
    buf:
        The buffer, such as an ``array.array``.
    """
    return (ctype * len(buf)).from_buffer(buf)


def c_handle_array(objs: Sequence[Any]) -> Any:
    """A ``void *[]`` of the handles of ``objs``, objects that have such."""
    return c_array(ctypes.c_void_p, [o.handle for o in objs])


def ctypes2buffer(cptr: Any, length: int) -> bytearray:
    """A copy of ``length`` bytes at ``cptr``, a ``char *``; another pointer is an ArgumentTypeError."""
    if not isinstance(cptr, ctypes.POINTER(ctypes.c_char)):
        raise ArgumentTypeError(f"ctypes2buffer: expected char pointer, got {type(cptr).__name__}")
    return bytearray(ctypes.string_at(cast("Any", cptr), length))


def ctypes2numpy_shared(cptr: Any, shape: Sequence[int]) -> npt.NDArray[np.float32]:
    """The array of ``shape`` in the memory at ``cptr``, a ``float *``; another pointer is an ArgumentTypeError."""
    if not isinstance(cptr, mx_float_p):
        raise ArgumentTypeError(f"ctypes2numpy_shared: expected float pointer, got {type(cptr).__name__}")
    return np.ctypeslib.as_array(cast("Any", cptr), tuple(shape))


# --- classes and docstrings ------------------------------------------------------------------------------------


def with_metaclass(meta: Any, *bases: type) -> Any:
    """A base class by which a class gets the metaclass ``meta``: ``class A(with_metaclass(Meta, Base))``."""

    class Temporary(type):  # replaces itself: the class that is derived from its instance is made by ``meta``
        def __new__(cls, name: str, this_bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
            return meta(name, bases, namespace)

        @classmethod
        def __prepare__(cls, name: str, bases: tuple[type, ...], /, **kwargs: Any) -> Any:
            return meta.__prepare__(name, bases)

    return type.__new__(Temporary, "temporary_class", (), {})


def build_param_doc(
    arg_names: Sequence[str], arg_types: Sequence[str], arg_descs: Sequence[str], remove_dup: bool = True
) -> str:
    """The section "Parameters" of a docstring; a name that comes again is left out.

    Parameters
    ----------
    arg_names, arg_types, arg_descs:
        The names of parameters, their types, and what they are, in one order.
    remove_dup:
        Whether a name that comes again is left out.
    """
    lines = ["Parameters", "----------"]
    seen = {"num_args"}
    for name, kind, text in zip(arg_names, arg_types, arg_descs, strict=False):
        if name == "num_args" or (remove_dup and name in seen):
            continue
        seen.add(name)
        lines.append(f"{name} : {kind}")
        if text:
            lines.append(f"    {text}")
    return "\n".join([*lines, ""])


def add_fileline_to_docstring(module: Any, incursive: bool = True) -> None:
    """Add to the docstrings of the functions of a module, and of its classes, where they are defined.

    Parameters
    ----------
    module:
        The module, or its name.
    incursive:
        Whether the methods of its classes are treated, too.
    """
    module = sys.modules[module] if isinstance(module, str) else module
    for _, found in inspect.getmembers(module):
        if inspect.isfunction(found) or inspect.ismethod(found):
            _add_fileline(getattr(found, "__func__", found))
        elif inspect.isclass(found) and incursive:
            add_fileline_to_docstring(found, False)


def _add_fileline(function: Callable[..., Any]) -> None:
    if function.__doc__ is None or "From:" in function.__doc__:
        return
    code: Any = getattr(function, "__code__", None)
    if code is not None:
        function.__doc__ += f"\n\nFrom:{code.co_filename}:{code.co_firstlineno}"


def _as_list(obj: Any) -> Any:  # pyright: ignore[reportUnusedFunction]  (programs import it)
    """A list or tuple as it is; anything else in a list."""
    several: Any = obj
    return several if isinstance(obj, list | tuple) else [obj]
