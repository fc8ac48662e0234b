"""Object files: undefined symbols, which are the external functions that machine code calls; and ELF's tables.

Code generation calls functions that no LLVM IR names (conversions of half precision, ``memset``, ``fmaf``), so the
symbols to be resolved are read from the object itself. Formats: ELF (Linux), Mach-O (macOS) and COFF
(Windows), all little-endian, 64 bits, as in their specifications.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from hybridc.ground.records import dataclass

_ELF, _MACH_O = b"\x7fELF\x02\x01", b"\xcf\xfa\xed\xfe"
_COFF_MACHINES = (0x8664, 0xAA64)  # x86-64, and ARM of 64 bits
# Symbols that the linker defines.
_OF_LINKERS = {"", "_GLOBAL_OFFSET_TABLE_", "_fltused"}


class ElfSection(NamedTuple):
    """A section header of ELF."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class ElfSymbol(NamedTuple):
    """A symbol of ELF; ``section`` is 0 if it is undefined."""

    name: str
    binding: int
    section: int
    value: int


@dataclass(frozen=True)
class ElfObject:
    """The sections and symbols of an ELF object, in the order of the file."""

    code: bytes
    sections: tuple[ElfSection, ...]
    symbols: tuple[ElfSymbol, ...]

    @staticmethod
    def of(code: bytes) -> ElfObject:
        """The tables of an object."""
        (first,) = struct.unpack_from("<Q", code, 40)
        size, count = struct.unpack_from("<HH", code, 58)
        headers = struct.iter_unpack("<IIQQQQIIQQ", code[first : first + count * size])
        sections = tuple(map(ElfSection._make, headers))
        return ElfObject(code, sections, tuple(_elf_symbols(code, sections)))

    def content(self, section: ElfSection) -> bytes:
        """The bytes of a section."""
        return self.code[section.offset : section.offset + section.size]


def _elf_symbols(code: bytes, sections: tuple[ElfSection, ...]) -> Iterator[ElfSymbol]:
    for table in sections:
        if table.kind != 2:  # SHT_SYMTAB
            continue
        names = sections[table.link].offset
        for name, info, _, section, value, _ in struct.iter_unpack(
            "<IBBHQQ", code[table.offset : table.offset + table.size]
        ):
            yield ElfSymbol(_text(code, names + name), info >> 4, section, value)


def undefined_symbols(code: bytes) -> tuple[str, ...]:
    """The undefined symbols of an object, in order; ValueError if the format is unknown."""
    if code.startswith(_ELF):
        symbols = (symbol.name for symbol in ElfObject.of(code).symbols if not symbol.section)
    elif code.startswith(_MACH_O):
        symbols = _of_mach_o(code)
    elif len(code) > 20 and struct.unpack_from("<H", code)[0] in _COFF_MACHINES:
        symbols = _of_coff(code)
    else:
        raise ValueError(f"no object file of ELF, Mach-O or COFF begins with {code[:8].hex()}")
    return tuple(sorted(set(symbols) - _OF_LINKERS))


def _of_mach_o(code: bytes) -> Iterator[str]:
    (commands,) = struct.unpack_from("<I", code, 16)
    at = 32
    for _ in range(commands):
        command, size = struct.unpack_from("<II", code, at)
        if command == 2:  # LC_SYMTAB
            symbols, count, names, _ = struct.unpack_from("<IIII", code, at + 8)
            for i in range(count):
                name, kind = struct.unpack_from("<IB", code, symbols + 16 * i)
                if kind & 0xEF == 1:  # N_EXT or N_PEXT, undefined; no debug symbol
                    yield _text(code, names + name).removeprefix("_")
        at += size


def _of_coff(code: bytes) -> Iterator[str]:
    symbols, count = struct.unpack_from("<II", code, 8)
    names = symbols + 18 * count
    i = 0
    while i < count:
        at = symbols + 18 * i
        zeros, offset = struct.unpack_from("<II", code, at)
        value, section, _, storage, more = struct.unpack_from("<IhHBB", code, at + 8)
        if not section and not value and storage == 2:  # IMAGE_SYM_CLASS_EXTERNAL
            yield code[at : at + 8].rstrip(b"\0").decode() if zeros else _text(code, names + offset)
        i += 1 + more


def _text(code: bytes, at: int) -> str:
    return code[at : code.index(b"\0", at)].decode()
