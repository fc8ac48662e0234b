"""``b``, the builder of native loops written by hand (:class:`~hybridc.dialects.handwritten.LoopKernel`)."""

from __future__ import annotations

import functools
import hashlib
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, i64
from xdsl.ir import Attribute, Operation

from hybridc.dialects.handwritten import ArraySpec, LoopKernel
from hybridc.dialects.operator_attribute import Shape
from hybridc.dtypes import DType
from hybridc.errors import CustomOpError
from hybridc.ground import __version__
from hybridc.ground.machine import CHUNKS, machine
from hybridc.ground.nesting import as_list
from hybridc.ir.costs import copy_time, sharing
from hybridc.ir.structured_builder import Element, ScalarSteps, number_attribute, signless
from hybridc.lower.llvm.codegen.function_text import LLVMValue, ModuleText
from hybridc.lower.llvm.codegen.native_function import NativeFunction
from hybridc.lower.llvm.loops.loop_builder import BYTES, INDEX, LoopBuilder, array_type
from hybridc.transforms.code.parallel_regions import ParallelRegion

INT64, UINT64 = np.dtype("int64"), np.dtype("uint64")
_WIDE = IntegerType(128)
_KEY_BITS = 256  # the width of vectors in the text that is hashed: that of the processor is in the key of its code
_Element = Element[LLVMValue]
_Spec = tuple[Shape | None, DType]


@dataclass(frozen=True, eq=False)
class KernelArray:
    """A contiguous array that a kernel reads or writes: ``x[i, j]`` loads, ``x[i, j] = value`` stores."""

    builder: KernelBuilder
    value: LLVMValue
    shape: Shape
    dtype: DType

    __iter__ = None

    def __getitem__(self, index: Any) -> _Element:
        return self.builder.load(self, *(index if isinstance(index, tuple) else (index,)))

    def __setitem__(self, index: Any, value: Any) -> None:
        self.builder.store(value, self, *(index if isinstance(index, tuple) else (index,)))


class KernelBuilder(ScalarSteps[LLVMValue]):
    """Writes loads, stores, arithmetic and loops in their order; LLVM hoists loop invariants."""

    def __init__(self, text: LoopBuilder) -> None:
        super().__init__()
        self.text = text

    def add_op(
        self,
        cls: type[Operation],
        operands: Sequence[LLVMValue],
        kind: Attribute,
        properties: dict[str, Attribute] | None = None,
    ) -> LLVMValue:
        return self.text.result(cls, operands, kind, properties, self.text.depth)

    def constant(self, value: Any, dtype: DType) -> Element[LLVMValue]:
        """A constant."""
        constant = self.text.constant(number_attribute(value, dtype), signless(dtype))
        return Element(self, constant, dtype, constant=value)

    # --- bits ----------------------------------------------------------------------------------------------

    def xor(self, x: _Element, y: _Element) -> _Element:
        """Bitwise exclusive or of two integers of one dtype."""
        return Element(self, self.add_op(arith.XOrIOp, [x.value, y.value], signless(x.dtype)), x.dtype)

    def shift_right(self, x: _Element, count: Any) -> _Element:
        """Logical right shift of an integer."""
        by = self.convert(count, x.dtype)
        return Element(self, self.add_op(arith.ShRUIOp, [x.value, by.value], signless(x.dtype)), x.dtype)

    def wide_product(self, x: _Element, y: _Element) -> tuple[_Element, _Element]:
        """The high and the low 64 bits of the product of two uint64."""
        product = self._named("arith.muli", [self.add_op(arith.ExtUIOp, [v.value], _WIDE) for v in (x, y)], _WIDE)
        half = self.add_op(arith.ExtUIOp, [self.constant(64, UINT64).value], _WIDE)
        parts = [self.add_op(arith.ShRUIOp, [product, half], _WIDE), product]
        upper, lower = [Element(self, self.add_op(arith.TruncIOp, [v], i64), UINT64) for v in parts]
        return upper, lower

    # --- memory --------------------------------------------------------------------------------------------

    def load(self, array: Any, *index: Any) -> _Element:
        """Load the element at indices, or at one index in C order."""
        return Element(self, self.text.load_element(array.value, self._at(array, index), self.text.depth), array.dtype)

    def store(self, value: Any, array: Any, *index: Any) -> None:
        """Store an element, converted to the array's dtype, at indices, or at one index in C order."""
        self.text.store_element(self.convert(value, array.dtype).value, array.value, self._at(array, index))

    def _at(self, array: KernelArray, index: Sequence[Any]) -> LLVMValue:
        if len(index) not in (1, len(array.shape)):
            raise IndexError(f"an array of shape {array.shape} is indexed by {len(index)} indices")
        at = index[0] if index else 0
        for size, i in zip(array.shape[1:], index[1:], strict=False):
            at = self.add(self.mul(at, size), i)
        return self._place(at)

    # --- loops ---------------------------------------------------------------------------------------------

    def index_element(self, value: LLVMValue) -> _Element:
        """An index as an element."""
        return Element(self, self.add_op(arith.IndexCastOp, [value], i64), INT64, value)

    def loop(self, low: Any, high: Any, body: Callable[..., Any], *starts: _Element) -> Any:
        """A loop of ``body(i, *carried)``; returns the final carried values, one value or a tuple."""
        dtypes = [s.dtype for s in starts]

        def inside(index: LLVMValue, carried: list[LLVMValue]) -> list[LLVMValue]:
            elements = [Element(self, v, d) for v, d in zip(carried, dtypes, strict=True)]
            ends = body(self.index_element(index), *elements)
            values = [] if ends is None else as_list(ends)
            if len(values) != len(dtypes):
                raise ValueError(f"a loop that carries {len(dtypes)} values has a body that gives {len(values)}")
            return [self.convert(x, d).value for x, d in zip(values, dtypes, strict=True)]

        low, high = self._place(low), self._place(high)
        values = self.text.loop(low, high, self.text.index(1), inside, [s.value for s in starts])
        results = [Element(self, v, d) for v, d in zip(values, dtypes, strict=True)]
        return (results[0] if len(results) == 1 else tuple(results)) if results else None


def loop_kernel_region(kernel: LoopKernel, arrays: Sequence[ArraySpec], threads: int) -> ParallelRegion:
    """The parallel region of a kernel; its buffers: the inputs, the results. Equal code has one key."""
    specs = tuple((None if kernel.flat else a.shape, a.dtype) for a in arrays)
    bytes_moved = sum(a.size * a.dtype.itemsize for a in arrays)
    elements = sum(a.size for a in arrays)
    guess = copy_time(bytes_moved) + elements * machine().costs.function
    work = guess if kernel.work is None else kernel.work
    grain, least = sharing(work, kernel.extent, setup=kernel.setup)
    if kernel.setup:
        grain = max(grain, math.ceil(kernel.extent / (CHUNKS * threads)))
    buffers = tuple(range(len(arrays)))
    function = _function(kernel.body, len(kernel.numbers), specs)
    return ParallelRegion(function, buffers, tuple(kernel.numbers), kernel.extent, grain, 0, work, least)


@functools.lru_cache(256)
def _function(body: Callable[..., Any], numbers: int, arrays: Sequence[_Spec]) -> NativeFunction:
    text = ModuleText(_KEY_BITS)
    _write(body, numbers, arrays, text, "region")
    key = hashlib.sha256(f"{__version__} {text}".encode()).hexdigest()
    return NativeFunction(key, functools.partial(_write, body, numbers, arrays))


def _write(body: Callable[..., Any], numbers: int, arrays: Sequence[_Spec], module: ModuleText, symbol: str) -> None:
    """Write the function: of buffers, scalars, a range."""
    kinds = [array_type(signless(dtype)) for _, dtype in arrays]
    text = LoopBuilder(module, [*kinds, *[INDEX] * numbers, INDEX, INDEX, BYTES])
    b = KernelBuilder(text)
    buffers = [
        KernelArray(b, v, (-1,) if shape is None else shape, dtype)
        for v, (shape, dtype) in zip(text.arguments, arrays, strict=False)
    ]
    *scalars, low, high = [b.index_element(v) for v in text.arguments[len(arrays) : -1]]
    arguments = (b, low, high, *buffers, *scalars)
    _require_parameters(body, arguments, len(arrays), numbers)
    result: Any = body(*arguments)
    if result is not None:
        raise CustomOpError(f"the body of a LoopKernel writes by b.store and returns nothing; it returned {result!r}")
    text.write_region(symbol)


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
