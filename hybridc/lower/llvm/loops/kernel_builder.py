"""``b``, the builder of native loops written by hand (:class:`~hybridc.dialects.handwritten.LoopKernel`)."""

from __future__ import annotations

import functools
import hashlib
import inspect
import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import UNKNOWN_LOC, FunctionType, IntegerType, ModuleOp, UnitAttr, i64
from xdsl.ir import Block, Operation, Region, SSAValue

from hybridc.dialects.handwritten import ArraySpec, LoopKernel
from hybridc.dialects.operator_attribute import Shape
from hybridc.dtypes import DType
from hybridc.errors import CustomOpError
from hybridc.ground import __version__
from hybridc.ground.machine import CHUNKS, machine
from hybridc.ground.nesting import as_list
from hybridc.ir.costs import copy_time, sharing
from hybridc.ir.structured_builder import Element, ScalarBuilder, number_attribute, signless
from hybridc.lower.llvm.codegen.loops_to_text import REGION_ATTRIBUTE, loop_form
from hybridc.lower.llvm.codegen.native_function import NativeFunction
from hybridc.lower.llvm.loops.loop_builder import BYTES, INDEX, array_type
from hybridc.lower.llvm.loops.parallel_regions import ParallelRegion

INT64, UINT64 = np.dtype("int64"), np.dtype("uint64")
_WIDE = IntegerType(128)
_Spec = tuple[Shape | None, DType]


@dataclass(frozen=True, eq=False)
class KernelArray:
    """A contiguous array that a kernel reads or writes: ``x[i, j]`` loads, ``x[i, j] = value`` stores."""

    builder: KernelBuilder
    value: SSAValue
    shape: Shape
    dtype: DType

    __iter__ = None

    def __getitem__(self, index: Any) -> Element:
        return self.builder.load(self, *(index if isinstance(index, tuple) else (index,)))

    def __setitem__(self, index: Any, value: Any) -> None:
        self.builder.store(value, self, *(index if isinstance(index, tuple) else (index,)))


class KernelBuilder(ScalarBuilder):
    """Emits loads, stores, arithmetic and loops; LLVM hoists loop invariants."""

    def __init__(self, block: Block) -> None:
        super().__init__(block, UNKNOWN_LOC)
        self._function = block

    def constant(self, value: Any, dtype: DType) -> Element:
        """A constant, in the entry block, which dominates every loop."""
        key = (repr(value), dtype)
        if key not in self.constants:
            with self._inside(self._function):
                made = arith.ConstantOp.create(
                    result_types=[signless(dtype)], properties={"value": number_attribute(value, dtype)}
                )
                first = self._function.first_op
                if first is None:
                    self._function.add_op(made)
                else:
                    self._function.insert_op_before(made, first)
            self.constants[key] = made.results[0]
        return Element(self, self.constants[key], dtype)

    # --- bits ----------------------------------------------------------------------------------------------

    def xor(self, x: Element, y: Element) -> Element:
        """Bitwise exclusive or of two integers of one dtype."""
        return Element(self, self.add_op(arith.XOrIOp, [x.value, y.value], x.value.type), x.dtype)

    def shift_right(self, x: Element, count: Any) -> Element:
        """Logical right shift of an integer."""
        by = self.convert(count, x.dtype)
        return Element(self, self.add_op(arith.ShRUIOp, [x.value, by.value], x.value.type), x.dtype)

    def wide_product(self, x: Element, y: Element) -> tuple[Element, Element]:
        """The high and the low 64 bits of the product of two uint64."""
        product = self._named("arith.muli", [self.add_op(arith.ExtUIOp, [v.value], _WIDE) for v in (x, y)], _WIDE)
        half = self.add_op(arith.ExtUIOp, [self.constant(64, UINT64).value], _WIDE)
        parts = [self.add_op(arith.ShRUIOp, [product, half], _WIDE), product]
        upper, lower = [Element(self, self.add_op(arith.TruncIOp, [v], i64), UINT64) for v in parts]
        return upper, lower

    # --- memory --------------------------------------------------------------------------------------------

    def load(self, array: Any, *index: Any) -> Element:
        """Load the element at indices, or at one index in C order."""
        value = self.add_op(memref.LoadOp, [array.value, self._at(array, index)], signless(array.dtype))
        return Element(self, value, array.dtype)

    def store(self, value: Any, array: Any, *index: Any) -> None:
        """Store an element, converted to the array's dtype, at indices, or at one index in C order."""
        given = self.convert(value, array.dtype).value
        self._write(memref.StoreOp.create(operands=[given, array.value, self._at(array, index)]))

    def _at(self, array: KernelArray, index: Sequence[Any]) -> SSAValue:
        if len(index) not in (1, len(array.shape)):
            raise IndexError(f"an array of shape {array.shape} is indexed by {len(index)} indices")
        at = index[0] if index else 0
        for size, i in zip(array.shape[1:], index[1:], strict=False):
            at = self.add(self.mul(at, size), i)
        return self._place(at)

    # --- loops ---------------------------------------------------------------------------------------------

    def loop(self, low: Any, high: Any, body: Callable[..., Any], *starts: Element) -> Any:
        """A loop of ``body(i, *carried)``; returns the final carried values, one value or a tuple."""
        block = Block(arg_types=[INDEX, *[s.value.type for s in starts]])
        bounds = [self._place(low), self._place(high), self._place(1)]
        with self._inside(block):
            index = Element(self, self.add_op(arith.IndexCastOp, [block.args[0]], i64), INT64, block.args[0])
            carried = [Element(self, a, s.dtype) for a, s in zip(block.args[1:], starts, strict=True)]
            made = body(index, *carried)
            given = [] if made is None else as_list(made)
            if len(given) != len(starts):
                raise ValueError(f"a loop that carries {len(starts)} values has a body that gives {len(given)}")
            ends = [self.convert(x, s.dtype).value for x, s in zip(given, starts, strict=True)]
            self._write(scf.YieldOp.create(operands=ends))
        loop = scf.ForOp.create(
            operands=[*bounds, *[s.value for s in starts]],
            result_types=[s.value.type for s in starts],
            regions=[Region(block)],
        )
        self._write(loop)
        results = [Element(self, r, s.dtype) for r, s in zip(loop.results, starts, strict=True)]
        return (results[0] if len(results) == 1 else tuple(results)) if results else None

    @contextmanager
    def _inside(self, block: Block) -> Generator[None]:
        before, self.block = self.block, block
        yield
        self.block = before

    def _write(self, op: Operation) -> None:
        self.block.add_op(op)


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
    build = functools.partial(_module, body, numbers, arrays)
    return NativeFunction(hashlib.sha256(f"{__version__} {build()}".encode()).hexdigest(), loop_form(build))


def _module(body: Callable[..., Any], numbers: int, arrays: Sequence[_Spec]) -> ModuleOp:
    """The module of the function: buffers, scalars, a range."""
    kinds = [array_type(signless(dtype)) for _, dtype in arrays]
    block = Block(arg_types=[*kinds, *[INDEX] * numbers, INDEX, INDEX, BYTES])
    b = KernelBuilder(block)
    shapes = [(-1,) if shape is None else shape for shape, _ in arrays]
    given = [KernelArray(b, v, s, dtype) for v, s, (_, dtype) in zip(block.args, shapes, arrays, strict=False)]
    indices = [Element(b, b.add_op(arith.IndexCastOp, [v], i64), INT64, v) for v in block.args[len(arrays) : -1]]
    low, high = indices[numbers:]
    arguments = (b, low, high, *given, *indices[:numbers])
    _require_parameters(body, arguments, len(arrays), numbers)
    made: Any = body(*arguments)
    if made is not None:
        raise CustomOpError(f"the body of a LoopKernel writes by b.store and returns nothing; it returned {made!r}")
    block.add_op(func.ReturnOp())
    function = func.FuncOp("region", FunctionType.from_lists([a.type for a in block.args], []), Region(block))
    function.attributes[REGION_ATTRIBUTE] = UnitAttr()
    return ModuleOp([function])


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
