"""``b``, the builder of loops written by hand (:class:`~hybridc.dialects.handwritten.LoopKernel`): a tile program."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType, i64
from xdsl.ir import Attribute

from hybridc.dialects.handwritten import ArraySpec, LoopKernel
from hybridc.dialects.operator_attribute import Shape
from hybridc.dtypes import DType, element_kind
from hybridc.errors import CustomOpError
from hybridc.ground.machine import CHUNKS, machine
from hybridc.ground.nesting import as_list
from hybridc.ground.records import dataclass
from hybridc.ir.costs import copy_time, sharing
from hybridc.ir.structured import scalar_of
from hybridc.ir.structured_builder import Element, ScalarSteps, signless
from hybridc.ir.tiles.tile_program import (
    Factor,
    Statement,
    TileBuffer,
    TileCarried,
    TileConstant,
    TileGather,
    TileLoop,
    TileMap,
    TileNumber,
    TileProgram,
    TileRange,
    TileScatter,
    TileSweep,
)
from hybridc.ir.tiles.tile_spec import verify
from hybridc.options import OPTIONS
from hybridc.transforms.code.loop_target import Function, LoopTarget, Printer
from hybridc.transforms.code.parallel_regions import ParallelRegion

INT64, UINT64 = np.dtype("int64"), np.dtype("uint64")
_WIDE = IntegerType(128)
_Element = Element[str]
_Spec = tuple[Shape | None, DType]


@dataclass(frozen=True, eq=False)
class KernelArray:
    """A contiguous array that a kernel reads or writes: ``x[i, j]`` loads, ``x[i, j] = value`` stores."""

    builder: KernelBuilder
    name: str
    shape: Shape
    dtype: DType

    __iter__ = None

    def __getitem__(self, index: Any) -> _Element:
        return self.builder.load(self, *(index if isinstance(index, tuple) else (index,)))

    def __setitem__(self, index: Any, value: Any) -> None:
        self.builder.store(value, self, *(index if isinstance(index, tuple) else (index,)))


class KernelBuilder(ScalarSteps[str]):
    """Appends loads, stores, arithmetic and loops in their order, as statements on values that have names."""

    def __init__(self) -> None:
        super().__init__()
        self.statements: list[Statement] = []
        self.first: list[Statement] = []  # constants, which all loops may use
        self._names = 0

    def name(self) -> str:
        """A name for a value."""
        self._names += 1
        return str(self._names - 1)

    def value(self, cls: Any, *fields: Any) -> str:
        """Append a statement that makes a value; its name."""
        name = self.name()
        self.statements.append(cls(name, *fields))
        return name

    def named(self, op: str, operands: Sequence[str], kind: Attribute) -> str:
        return self.value(TileMap, op, tuple(operands), _text(kind))

    def number(self, attribute: Attribute, kind: Attribute) -> str:
        name = self.name()
        self.first.append(TileConstant(name, scalar_of(attribute), _text(kind)))
        return name

    # --- bits ----------------------------------------------------------------------------------------------

    def xor(self, x: _Element, y: _Element) -> _Element:
        """Bitwise exclusive or of two integers of one dtype."""
        return Element(self, self.named("arith.xori", [x.value, y.value], signless(x.dtype)), x.dtype)

    def shift_right(self, x: _Element, count: Any) -> _Element:
        """Logical right shift of an integer."""
        by = self.convert(count, x.dtype)
        return Element(self, self.named("arith.shrui", [x.value, by.value], signless(x.dtype)), x.dtype)

    def wide_product(self, x: _Element, y: _Element) -> tuple[_Element, _Element]:
        """The high and the low 64 bits of the product of two uint64."""
        product = self.named("arith.muli", [self.named("arith.extui", [v.value], _WIDE) for v in (x, y)], _WIDE)
        half = self.named("arith.extui", [self.constant(64, UINT64).value], _WIDE)
        parts = [self.named("arith.shrui", [product, half], _WIDE), product]
        upper, lower = [Element(self, self.named("arith.trunci", [v], i64), UINT64) for v in parts]
        return upper, lower

    # --- memory --------------------------------------------------------------------------------------------

    def load(self, array: Any, *index: Any) -> _Element:
        """Load the element at indices, or at one index in C order."""
        terms = ((self._at(array, index), Factor()),)
        return Element(self, self.value(TileGather, array.name, terms, element_kind(array.dtype)), array.dtype)

    def store(self, value: Any, array: Any, *index: Any) -> None:
        """Store an element, converted to the array's dtype, at indices, or at one index in C order."""
        element = self.convert(value, array.dtype)
        self.statements.append(TileScatter(element.value, array.name, ((self._at(array, index), Factor()),)))

    def _at(self, array: KernelArray, index: Sequence[Any]) -> str:
        if len(index) not in (1, len(array.shape)):
            raise IndexError(f"an array of shape {array.shape} is indexed by {len(index)} indices")
        at = index[0] if index else 0
        for size, i in zip(array.shape[1:], index[1:], strict=False):
            at = self.add(self.mul(at, size), i)
        return self._place(at)

    # --- loops ---------------------------------------------------------------------------------------------

    def index_element(self, name: str) -> _Element:
        """An index as an element."""
        return Element(self, self.named("arith.index_cast", [name], i64), INT64, name)

    def loop(self, low: Any, high: Any, body: Callable[..., Any], *starts: _Element) -> Any:
        """A loop of ``body(i, *carried)``; returns the final carried values, one value or a tuple."""
        bounds = self._place(low), self._place(high)
        before, self.statements = self.statements, []
        index, names = self.name(), [self.name() for _ in starts]
        elements = [Element(self, name, s.dtype) for name, s in zip(names, starts, strict=True)]
        ends = body(self.index_element(index), *elements)
        values = [] if ends is None else as_list(ends)
        if len(values) != len(starts):
            raise ValueError(f"a loop that carries {len(starts)} values has a body that gives {len(values)}")
        following = [self.convert(x, s.dtype).value for x, s in zip(values, starts, strict=True)]
        results = [Element(self, self.name(), s.dtype) for s in starts]
        carried = [
            TileCarried(name, s.value, end, result.value, element_kind(s.dtype))
            for name, s, end, result in zip(names, starts, following, results, strict=True)
        ]
        loop = TileLoop(index, *bounds, tuple(carried), tuple(self.statements))
        self.statements = [*before, loop]
        return (results[0] if len(results) == 1 else tuple(results)) if results else None


@functools.lru_cache(64)
def _text(kind: Attribute) -> str:
    return str(kind)


def loop_kernel_region(kernel: LoopKernel, arrays: Sequence[ArraySpec], target: LoopTarget) -> ParallelRegion:
    """The parallel region of a kernel; its buffers: the inputs, the results. Equal code has one key."""
    specs = tuple((None if kernel.flat else a.shape, a.dtype) for a in arrays)
    bytes_moved = sum(a.size * a.dtype.itemsize for a in arrays)
    elements = sum(a.size for a in arrays)
    guess = copy_time(bytes_moved) + elements * machine().costs.function
    work = guess if kernel.work is None else kernel.work
    grain, least = sharing(work, kernel.extent, setup=kernel.setup)
    if kernel.setup:
        grain = max(grain, math.ceil(kernel.extent / (CHUNKS * target.threads)))
    buffers = tuple(range(len(arrays)))
    function = _function(target.printer, kernel.body, len(kernel.numbers), specs)
    return ParallelRegion(function, buffers, tuple(kernel.numbers), kernel.extent, grain, 0, work, least)


@functools.lru_cache(256)
def _function(printer: Printer, body: Callable[..., Any], numbers: int, arrays: Sequence[_Spec]) -> Function:
    return printer(kernel_program(body, numbers, arrays))


def kernel_program(body: Callable[..., Any], numbers: int, arrays: Sequence[_Spec]) -> TileProgram:
    """The tile program of a body over arrays, with so many numbers as arguments."""
    b = KernelBuilder()
    kinds = [TileBuffer(f"b{i}", element_kind(dtype)) for i, (_, dtype) in enumerate(arrays)]
    buffers = [
        KernelArray(b, f"b{i}", (-1,) if shape is None else shape, dtype) for i, (shape, dtype) in enumerate(arrays)
    ]
    scalars = [b.index_element(b.value(TileNumber, Factor(stride=i))) for i in range(numbers)]
    low, high = [b.index_element(b.value(TileRange, end)) for end in (False, True)]
    arguments = (b, low, high, *buffers, *scalars)
    _require_parameters(body, arguments, len(arrays), numbers)
    result: Any = body(*arguments)
    if result is not None:
        raise CustomOpError(f"the body of a LoopKernel writes by b.store and returns nothing; it returned {result!r}")
    sweep = TileSweep((), (*b.first, *b.statements))
    program = TileProgram(tuple(kinds), (), (), (sweep,), strides=numbers, shared=True, exact=True)
    if OPTIONS.verify:
        verify(program)
    return program


def _require_parameters(body: Callable[..., Any], arguments: Sequence[Any], arrays: int, numbers: int) -> None:
    """Raise unless a body accepts its arguments."""
    signature = inspect.signature(body)
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise CustomOpError(
            f"the body of a LoopKernel takes {signature}; it is given the builder, low, high, {arrays} arrays and "
            f"{numbers} numbers"
        ) from error
