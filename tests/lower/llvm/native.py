"""Parallel regions called by ctypes, each of their arrays between two pages that nobody may touch."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import itertools
import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from hybridc.dialects.mlir.arith import Arith
from hybridc.lower.llvm.codegen.function_text import ModuleText
from hybridc.lower.llvm.codegen.native_function import LoadedCode, NativeFunction, load_functions
from hybridc.tools.loop_form import loop_form

_PAGE = mmap.PAGESIZE
_PHASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
_LIBC = ctypes.CDLL(None, use_errno=True)


def context() -> Context:
    """All dialects that loop form needs."""
    made = Context()
    for name, dialect in get_all_dialects().items():
        if name != "arith":
            made.register_dialect(name, dialect)
    made.load_dialect(Arith)
    return made


def parse(text: str) -> ModuleOp:
    """A module in loop form, written out; its functions may stand alone."""
    return Parser(context(), text).parse_module()


def llvm_ir(*sources: str) -> str:
    """The LLVM IR of parallel regions in loop form, for vectors of 256 bits; ``symbol0`` and so on in one module."""
    module = ModuleText(256)
    for i, source in enumerate(sources):
        loop_form(functools.partial(parse, source))(module, f"symbol{i}")
    return str(module)


def compiled(source: ModuleOp | str) -> LoadedCode:
    """The code of a parallel region. The key is its text."""
    text = str(source)
    (code,) = load_functions(
        [NativeFunction(f"test {hashlib.sha256(text.encode()).hexdigest()}", loop_form(lambda: parse(text)))]
    )
    return code


def call(
    code: LoadedCode, arrays: Sequence[int], numbers: Sequence[int | np.generic], lo: int, hi: int, scratch: int = 0
) -> None:
    """One call at these addresses; a number is a Python integer or a NumPy scalar of the parallel region's type."""
    states = b"".join(np.asarray(n).tobytes().ljust(8, b"\0") for n in numbers)
    _PHASE(code.address)((ctypes.c_void_p * len(arrays))(*arrays), ctypes.create_string_buffer(states), lo, hi, scratch)


def run(
    source: ModuleOp | str,
    arrays: Sequence[np.ndarray[Any, Any]],
    numbers: Sequence[int | np.generic] = (),
    extent: int = 1,
    cuts: Sequence[int] = (),
    scratch: int = 0,
) -> list[np.ndarray[Any, Any]]:
    """The arrays after a parallel region has run over [0, extent), cut at ``cuts``; what is given is not changed.

    It runs twice: with every array ending where a forbidden page begins, and beginning where one ends. Both must agree.
    """
    code = compiled(source)
    ends = [_run(code, arrays, numbers, [0, *cuts, extent], scratch, at_end) for at_end in (True, False)]
    for one, other in zip(*ends):
        np.testing.assert_array_equal(one, other)
    return ends[0]


def _run(
    code: LoadedCode, arrays: Sequence[Any], numbers: Sequence[Any], bounds: list[int], scratch: int, at_end: bool
) -> list[np.ndarray[Any, Any]]:
    guarded = [Guarded(a.nbytes, at_end) for a in arrays]
    own = Guarded(-(-scratch // 64) * 64, at_end)
    for place, array in zip(guarded, arrays):
        ctypes.memmove(place.address, np.ascontiguousarray(array).ctypes.data, array.nbytes)
    for lo, hi in itertools.pairwise(bounds):
        call(code, [g.address for g in guarded], numbers, lo, hi, own.address)
    return [np.frombuffer(g.bytes(), a.dtype).reshape(a.shape) for g, a in zip(guarded, arrays)]


class Guarded:
    """Memory full of NaN between two pages that cannot be read or written; it touches one of them."""

    def __init__(self, size: int, at_end: bool) -> None:
        self.size = size
        room = -(-max(size, 1) // _PAGE) * _PAGE
        self.memory = mmap.mmap(-1, room + 2 * _PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        for page in (start, start + _PAGE + room):
            if _LIBC.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(_PAGE), 0):
                raise OSError(ctypes.get_errno(), "mprotect")
        self.address = start + _PAGE + (room - size if at_end else 0)
        ctypes.memset(self.address, 0xFF, size)

    def bytes(self) -> bytes:
        """What is in it."""
        return ctypes.string_at(self.address, self.size)
