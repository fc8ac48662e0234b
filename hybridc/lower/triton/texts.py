"""Modules with one kernel, and the kernels that fill and copy arrays."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.ground.quoting import required_name
from hybridc.lower.triton.source_writer import SourceWriter
from hybridc.lower.triton.triton_function import Config, TritonFunction, TritonLaunch

# A GPU fills and copies arrays also where the compiler is not needed.
if TYPE_CHECKING:
    from hybridc.ir.kernels.kernel import Kernel
    from hybridc.ir.tiles.block_code import CopyLoops, PaddedCopy

# Elements that a program fills or copies.
BLOCK = 1024
LINES, ELEMENTS = 8, 128  # of lines that are filled up


def module(
    name: str, pointers: Sequence[str], numbers: Sequence[str], constants: Sequence[str], doc: str, body: SourceWriter
) -> str:
    """The text of a module with one kernel: its parameters are pointers, scalars, then constants."""
    parameters = [*pointers, *numbers, *(f"{c}: tl.constexpr" for c in constants)]
    w = SourceWriter()
    w.helpers |= body.helpers
    w.line("@triton.jit")
    w.line(f"def {required_name(name)}({', '.join(parameters)}):")
    with w.indented():
        for line in body.lines:
            w.line(line)
    return w.module(doc)


def title(kernel: Kernel, what: str) -> str:
    """A description of a kernel: what it is and where it comes from."""
    where = ", ".join(map(str, kernel.locations))
    names = ", ".join(dict.fromkeys(kernel.operators))
    return f"{what}: {names}{f' ({where})' if where else ''}."


def fill_launch(dtype: DType, size: int, scalar: str, target: int) -> TritonLaunch:
    """The launch that fills a contiguous array with a scalar, given as source."""
    return TritonLaunch(_fill(dtype, scalar), (target,), (size,), (_config(size),))


@functools.lru_cache(256)
def _fill(dtype: DType, scalar: str) -> TritonFunction:
    """The function that fills an array with a scalar; cached, as arrays are filled again and again."""
    w = SourceWriter()
    w.line("i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)")
    w.line(f"tl.store(y0 + i, {scalar}, mask=i < size)")
    source = module("fill", ("y0",), ("size",), ("BLOCK",), f"every element is {scalar}.", w)
    return TritonFunction("fill", source, (dtype,), ("i64",), ("BLOCK",))


def copy_launch(dtype: DType, shape: Shape, strides: Sequence[int], source: int, target: int) -> TritonLaunch:
    """The launch that copies a strided array into a contiguous one."""
    axes = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    size = math.prod(shape)
    numbers = (size, *(n for n, _ in axes), *(s for _, s in axes))
    return TritonLaunch(_copy(dtype, len(axes)), (source, target), numbers, (_config(size),))


@functools.lru_cache(256)
def _copy(dtype: DType, rank: int) -> TritonFunction:
    """The function that copies a strided array of so many axes into a contiguous one."""
    w = SourceWriter()
    w.line("i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)")
    terms: list[str] = []
    rest = "i"
    for axis in reversed(range(rank)):
        index = rest if axis == 0 else w.let(f"i{axis}", f"{rest} % n{axis}")
        rest = rest if axis == 0 else w.let("rest", f"{rest} // n{axis}")
        terms.insert(0, f"{index} * s{axis}")
    w.line(f"x = tl.load(x0 + {' + '.join(terms) or 'i'}, mask=i < size)")
    w.line("tl.store(y0 + i, x, mask=i < size)")
    names = ("size", *(f"n{k}" for k in range(rank)), *(f"s{k}" for k in range(rank)))
    text = module("copy", ("x0", "y0"), names, ("BLOCK",), "a strided array put into a plain one.", w)
    return TritonFunction("copy", text, (dtype, dtype), ("i64",) * len(names), ("BLOCK",))


def padded_copy_launch(name: str, copy: PaddedCopy, numbers: Mapping[str, int]) -> TritonLaunch:
    """The launch that fills lines up with zeros; ``numbers`` are the indices of the kernel's buffers."""
    w = SourceWriter()
    across, outer = -(-copy.filled // ELEMENTS), "kept" if copy.inner == "terms" else "terms"
    w.line(f"program = tl.program_id(0){'.to(tl.int64)' if copy.wide else ''}")
    w.line(f"line = program // {across} * {LINES} + tl.arange(0, {LINES})[:, None]")
    w.line(f"element = program % {across} * {ELEMENTS} + tl.arange(0, {ELEMENTS})[None, :]")
    w.line(f"batch = line // {copy.per_batch}")
    w.line(f"{outer} = line % {copy.per_batch}")
    w.line(f"{copy.inner} = element")
    terms = [*_along("batch", copy.batch), *_along("kept", copy.kept), *_along("terms", copy.terms)]
    w.line(f"x = tl.load(x0 + {' + '.join(terms)}, mask=(line < {copy.lines}) & (element < {copy.size}), other=0)")
    place = f"w0 + line * {copy.filled} + element"
    w.line(f"tl.store({place}, x, mask=(line < {copy.lines}) & (element < {copy.filled}))")
    doc = f"{copy.lines} lines of {copy.size} elements, filled up to {copy.filled}."
    function = TritonFunction(name, module(name, ("x0", "w0"), (), (), doc, w), (copy.dtype, copy.dtype))
    config = Config((), (-(-copy.lines // LINES) * across, 1, 1))
    return TritonLaunch(function, (numbers[copy.source], numbers[copy.target]), (), (config,))


def _along(counter: str, loops: CopyLoops) -> list[str]:
    """The terms of an offset along loops that are counted as one."""
    terms: list[str] = []
    for i, (size, stride) in enumerate(loops):
        inner = math.prod(n for n, _ in loops[i + 1 :])
        index = counter if inner == 1 else f"{counter} // {inner}"
        index = index if i == 0 else f"{index} % {size}"
        terms.append(index if stride == 1 else f"{index} * {stride}")
    return terms


def _config(size: int) -> Config:
    return Config((("BLOCK", BLOCK),), (-(-size // BLOCK), 1, 1), 4)
