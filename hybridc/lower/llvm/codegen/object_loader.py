"""Load ELF objects on Linux and x86-64: place their sections, resolve symbols, apply relocations.

    code = LoadedObjects([object, ...]);  code.address("f")

It takes less time than LLVM's execution engine, and a process whose programs are all in the cache never maps LLVM's
library. Objects have position-independent code of the small model, as :mod:`hybridc.lower.llvm.codegen.llvm_c` emits.
One mapping holds all of them: code and constants, a table of addresses and jumps, and from the next page on what is
written. The table is for functions of other libraries, which may be further away than a displacement of 32 bits
reaches. Memory is filled before it becomes executable, and is read-only then. Frame tables (``.eh_frame``) are left
out, as no exception passes through this code. Formats and relocations are those of the psABI of x86-64.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
import os
import platform
import struct
import sys
from collections.abc import Iterator, Sequence
from ctypes import c_int, c_long, c_size_t, c_void_p
from typing import Any, NamedTuple

from hybridc.errors import LimitError
from hybridc.lower.llvm.codegen.object_file import ElfObject, ElfSymbol

_HEADER, _MACHINE = b"\x7fELF\x02\x01", b"\x01\x00\x3e\x00"  # of 64 bits; relocatable, x86-64
# Kinds and flags of sections; the section of a symbol whose value is its address; bindings of symbols.
_RELA, _NOBITS, _UNWIND = 4, 8, 0x70000001
_WRITE, _ALLOC = 1, 2
_ABSOLUTE = 0xFFF1
_GLOBAL, _WEAK = 1, 2

# Relocations by number, and what they store: an address, or its distance from the relocated bytes.
_PLT32 = 4
_ADDRESSES = {1: "<Q", 10: "<I", 11: "<i"}  # 64, 32, 32S
_DISTANCES = {2: "<i", _PLT32: "<i", 9: "<i", 24: "<q", 41: "<i", 42: "<i"}  # PC32, GOTPCREL, PC64, relaxable ones
_OF_ENTRIES = (9, 41, 42)  # GOTPCREL, GOTPCRELX, REX_GOTPCRELX: the distance of an entry that has the address
_STORED = _ADDRESSES | _DISTANCES

# An entry of the table: an address, and the jump to it, ``jmp *-14(%rip)``.
_ENTRY = struct.Struct("<Q8s")
_JUMP, _JUMP_AT = bytes.fromhex("ff25f2ffffff0000"), 8
_LINE = 64  # sections begin at cache lines: code is as fast whatever lies before it

_REMEDY = "raise the limit (ulimit -v), or compile no native code (HYBRIDC_TARGET=numpy)"


def runs_here() -> bool:
    """Whether this process can run what is loaded here."""
    return sys.platform == "linux" and platform.machine() == "x86_64" and sys.maxsize > 1 << 32


# --- symbols of other libraries --------------------------------------------------------------------------------


_DECLARED: dict[str, int] = {}


def declare_address(name: str, address: int) -> None:
    """Make an external function callable by name."""
    _DECLARED[name] = address


def is_defined(name: str) -> bool:
    """Whether a name resolves to a function."""
    return _external(name) is not None


def _external(name: str) -> int | None:
    """The address of a declared symbol, else of one of the process or of the C library's functions; None without."""
    if name in _DECLARED:
        return _DECLARED[name]
    for library in (None, "libm.so.6"):
        with contextlib.suppress(AttributeError, OSError):
            return ctypes.cast(_library(library)[name], c_void_p).value
    return None


@functools.cache
def _library(name: str | None) -> ctypes.CDLL:
    return ctypes.CDLL(name, use_errno=True)


# --- loaded objects --------------------------------------------------------------------------------------------


class LoadedObjects:
    """Object files in executable memory, until they are closed; LookupError if a symbol is undefined."""

    __slots__ = ("_size", "_start", "_symbols")

    def __init__(self, objects: Sequence[bytes]) -> None:
        layout = _Layout([_PlacedObject(code) for code in objects])
        self._size = layout.size
        self._start: int | None = _mapped(layout.size)
        try:
            linker = _Linker(layout, self._start)
            content = linker.linked()
            ctypes.memmove(self._start, bytes(content), layout.size)
            _make_executable(self._start + layout.fixed, layout.size - layout.fixed)
        except BaseException:
            self.close()
            raise
        self._symbols = linker.symbols

    @property
    def closed(self) -> bool:
        """Whether the code is freed."""
        return self._start is None

    def address(self, name: str) -> int:
        """The address of a function, which must exist."""
        return self._symbols[name]

    def close(self) -> None:
        """Free the code."""
        if self._start is not None:
            _system("munmap")(self._start, self._size)
            self._start = None


class _PlacedObject:
    """An object, and the offsets in memory of its sections that are loaded, by their indices."""

    def __init__(self, code: bytes) -> None:
        if not code.startswith(_HEADER) or code[16:20] != _MACHINE:
            raise ValueError(f"no relocatable ELF object of x86-64 begins with {code[:20].hex()}")
        self.elf = ElfObject.of(code)
        self.offsets: dict[int, int] = {}

    def place(self, at: int, flags: int) -> int:
        """Place the sections of these flags from an offset on; returns where they end."""
        for index, section in enumerate(self.elf.sections):
            if section.flags & (_ALLOC | _WRITE) != flags or section.kind == _UNWIND:
                continue
            if section.alignment > mmap.PAGESIZE:
                raise ValueError(f"an object's section is aligned to {section.alignment} bytes, more than a page has")
            self.offsets[index] = _aligned(at, max(section.alignment, _LINE))
            at = self.offsets[index] + section.size
        return at

    def relocations(self) -> Iterator[_Relocation]:
        """The relocations of what is loaded."""
        for section in self.elf.sections:
            begin = self.offsets.get(section.info)
            if section.kind != _RELA or begin is None:
                continue
            for at, info, addend in struct.iter_unpack("<QQq", self.elf.content(section)):
                symbol = self.elf.symbols[info >> 32]
                yield _Relocation(begin + at, info & 0xFFFFFFFF, symbol, addend, self)


class _Relocation(NamedTuple):
    """Bytes at an offset in memory that depend on the address of a symbol."""

    at: int
    kind: int
    symbol: ElfSymbol
    addend: int
    owner: _PlacedObject

    @property
    def needs_entry(self) -> bool:
        """Whether it may need an entry of the table."""
        return self.kind == _PLT32 or self.kind in _OF_ENTRIES


class _Layout:
    """Where objects lie in memory: what is written, from ``fixed`` on the rest, from ``entries`` on the table."""

    def __init__(self, objects: Sequence[_PlacedObject]) -> None:
        self.objects = objects
        self.fixed = _aligned(self._place(0, _ALLOC | _WRITE), mmap.PAGESIZE)
        self.entries = _aligned(self._place(self.fixed, _ALLOC), _ENTRY.size)
        self.relocations = [relocation for placed in objects for relocation in placed.relocations()]
        needed = {(id(r.owner), r.symbol) for r in self.relocations if r.needs_entry}
        self.size = max(self.entries + _ENTRY.size * len(needed), 1)

    def _place(self, at: int, flags: int) -> int:
        for placed in self.objects:
            at = placed.place(at, flags)
        return at


class _Linker:
    """The content of memory that begins at an address, and the addresses of global symbols."""

    def __init__(self, layout: _Layout, start: int) -> None:
        self._layout = layout
        self._start = start
        self._content = bytearray(layout.size)
        self._entries: dict[int, int] = {}  # the offset of the entry of an address
        self.symbols: dict[str, int] = {}
        for binding in (_WEAK, _GLOBAL):  # the latter win
            for placed in layout.objects:
                for symbol in placed.elf.symbols:
                    if symbol.binding == binding and symbol.section:
                        self.symbols[symbol.name] = self._address(symbol, placed)

    def linked(self) -> bytearray:
        """The content, relocated."""
        for placed in self._layout.objects:
            for index, at in placed.offsets.items():
                section = placed.elf.sections[index]
                if section.kind != _NOBITS:
                    self._content[at : at + section.size] = placed.elf.content(section)
        for relocation in self._layout.relocations:
            self._relocate(relocation)
        return self._content

    def _relocate(self, relocation: _Relocation) -> None:
        at, kind, symbol, addend, owner = relocation
        if not kind:  # NONE
            return
        if kind not in _STORED:
            raise ValueError(f"relocation {kind} of {symbol.name or 'a section'} is none of those that are known here")
        value = self._address(symbol, owner)
        if kind in _OF_ENTRIES:
            value = self._start + self._entry(value)
        elif kind == _PLT32 and not self._start <= value < self._start + self._layout.size:
            value = self._start + self._entry(value) + _JUMP_AT
        value += addend - (self._start + at if kind in _DISTANCES else 0)
        try:
            struct.pack_into(_STORED[kind], self._content, at, value)
        except struct.error as error:
            raise ValueError(f"relocation {kind} of {symbol.name} has no room for {value:#x}") from error

    def _entry(self, address: int) -> int:
        """The offset of the table's entry that has an address."""
        at = self._layout.entries + _ENTRY.size * len(self._entries)
        at = self._entries.setdefault(address, at)
        _ENTRY.pack_into(self._content, at, address, _JUMP)
        return at

    def _address(self, symbol: ElfSymbol, owner: _PlacedObject) -> int:
        if symbol.section in owner.offsets:
            return self._start + owner.offsets[symbol.section] + symbol.value
        if symbol.section == _ABSOLUTE:
            return symbol.value
        if symbol.section:
            raise ValueError(f"the section of symbol {symbol.name} is not loaded")
        return self._undefined(symbol)

    def _undefined(self, symbol: ElfSymbol) -> int:
        address = self.symbols.get(symbol.name)
        if address is None and symbol.name:  # the symbol without a name is 0
            address = _external(symbol.name)
        if address is None and symbol.name and symbol.binding != _WEAK:
            raise LookupError(f"undefined symbol {symbol.name} in native functions")
        return address or 0


def _aligned(at: int, alignment: int) -> int:
    return -(-at // alignment) * alignment


# --- memory ----------------------------------------------------------------------------------------------------


_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "mmap": (c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, c_long),
    "mprotect": (c_int, c_void_p, c_size_t, c_int),
    "munmap": (c_int, c_void_p, c_size_t),
}


@functools.cache
def _system(name: str) -> Any:
    function = _library(None)[name]
    function.restype, *function.argtypes = _SIGNATURES[name]
    return function


def _mapped(size: int) -> int:
    """The address of new memory, which can be written; LimitError if there is none."""
    protection, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    address = _system("mmap")(None, size, protection, flags, -1, 0)
    if address == c_void_p(-1).value:
        raise _refused(f"{size} bytes of memory for machine code")
    return address


def _make_executable(address: int, size: int) -> None:
    """Make pages executable, which cannot be written then; LimitError if the system allows none."""
    if _system("mprotect")(address, size, mmap.PROT_READ | mmap.PROT_EXEC):
        raise _refused("executable memory for machine code")


def _refused(what: str) -> LimitError:
    return LimitError(f"the system refuses {what}: {os.strerror(ctypes.get_errno())}; {_REMEDY}")
