"""Undefined symbols of object files: the external functions that machine code calls.

Code generation calls functions that no LLVM IR names (conversions of half precision, ``memset``, ``fmaf``), so the
symbols to be resolved are read from the object itself. Formats: ELF (Linux), Mach-O (macOS) and COFF
(Windows), all little-endian, 64 bits, as in their specifications.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_ELF, _MACH_O = b"\x7fELF\x02\x01", b"\xcf\xfa\xed\xfe"
_COFF_MACHINES = (0x8664, 0xAA64)  # x86-64, and ARM of 64 bits
# Symbols that the linker defines.
_OF_LINKERS = {"", "_GLOBAL_OFFSET_TABLE_", "_fltused"}


def undefined_symbols(code: bytes) -> tuple[str, ...]:
    """The undefined symbols of an object, in order; ValueError if the format is unknown."""
    if code.startswith(_ELF):
        symbols = _of_elf(code)
    elif code.startswith(_MACH_O):
        symbols = _of_mach_o(code)
    elif len(code) > 20 and struct.unpack_from("<H", code)[0] in _COFF_MACHINES:
        symbols = _of_coff(code)
    else:
        raise ValueError(f"no object file of ELF, Mach-O or COFF begins with {code[:8].hex()}")
    return tuple(sorted(set(symbols) - _OF_LINKERS))


def _of_elf(code: bytes) -> Iterator[str]:
    (first,) = struct.unpack_from("<Q", code, 40)
    size, count = struct.unpack_from("<HH", code, 58)
    # Of a section: name, type, flags, address, offset, size, link, further fields.
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, first + i * size) for i in range(count)]
    for section in sections:
        _, kind, _, _, at, length, names, *_, entry_size = section
        if kind != 2:  # SHT_SYMTAB
            continue
        for place in range(at, at + length, entry_size):
            name, _, _, defined_in = struct.unpack_from("<IBBH", code, place)
            if not defined_in:
                yield _text(code, sections[names][4] + name)


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
