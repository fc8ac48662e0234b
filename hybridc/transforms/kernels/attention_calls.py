"""Calls of kernels that become the call of one: what they are given, and the kernel that does what they do."""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, cast

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FunctionType,
    IntegerAttr,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from hybridc.dialects.mlir.hybrid import fused_location
from hybridc.ir.kernel import Axes, Stage, analyse
from hybridc.ir.structured import (
    DType,
    Shape,
    dtype_of,
    element_dtype,
    function_called,
    is_host,
    note_dtypes,
    places_of,
    shape_of,
)
from hybridc.ir.tensor_builder import Builder, Tensor
from hybridc.transforms.kernels.attention_draws import Drawn, draw_in, draws_of

# What each axis of a kernel is in another.
AxisMap = dict[int, int]
# A mask is computed again if it has so many times the elements of what it is made of.
MANY = 16


def has_one_nest(call: func.CallOp) -> bool:
    """Whether a call is that of a kernel with one nest."""
    callee = function_called(call)
    return not is_host(callee) and len(cast("ArrayAttr[Any]", callee.attributes["hybrid.domains"])) == 1


def masks_of(softmax: func.CallOp) -> dict[func.CallOp, AxisMap]:
    """The calls that make arguments from little, with what each of their axes is in the kernel that reads them."""
    reads = analyse(function_called(softmax))
    found: dict[func.CallOp, AxisMap] = {}
    for value, argument in zip(softmax.arguments, reads.arguments, strict=True):
        call = value.owner
        if not isinstance(call, func.CallOp) or len(call.results) != 1 or not has_one_nest(call):
            continue
        kernel = analyse(function_called(call))
        followed = {r.axes for s in reads.stages for r in s.reads if r.value is argument}
        given = sum(math.prod(shape_of(v)) for v in call.arguments)
        if kernel.fills or len(followed) != 1 or any(argument in s.anywhere for s in reads.stages):
            continue
        if any(s.kind != "map" or s.anywhere for s in kernel.stages) or given * MANY > math.prod(shape_of(value)):
            continue
        axes = dict(zip(kernel.stages[-1].axes, followed.pop(), strict=True))
        if kernel.stages[-1].result is kernel.results[0] and all(a in axes for s in kernel.stages for a in s.axes):
            found[call] = axes
    return found


def given_to(calls: Sequence[func.CallOp]) -> list[SSAValue]:
    """What calls are given that they do not make themselves, each once.

    Counters are made where they are read, and so are random numbers, of which the keys are given.
    """
    made = {r for c in calls for r in c.results}
    given: dict[SSAValue, None] = {}
    for call in calls:
        counters, draws = counters_of(call, call.arguments), draws_of(call, call.arguments)
        given |= {draws.get(i, v): None for i, v in enumerate(call.arguments) if i not in counters}
    return [v for v in given if v not in made]


def counters_of(call: func.CallOp, arguments: Sequence[SSAValue | None]) -> dict[int, int]:
    """Which arguments of a call of maps can be counted instead of read, and from where."""
    starts = {i: start_of(v) for i, v in enumerate(arguments) if v is not None}
    counting = {i: start for i, start in starts.items() if start is not None}
    kernel = analyse(function_called(call)) if counting else None
    if kernel is None or any(s.kind == "product" for s in kernel.stages):
        return {}
    kept = {*kernel.results, *(v for s in kernel.stages for v in s.anywhere)}
    return {i: start for i, start in counting.items() if kernel.arguments[i] not in kept}


def start_of(value: SSAValue) -> int | None:
    """The whole number from which a known array of one dimension counts; None if it is no such array."""
    op, shape = value.owner, shape_of(value)
    if not isinstance(op, arith.ConstantOp) or len(shape) != 1 or shape[0] < 2:
        return None
    found = op.value
    if not isinstance(found, DenseIntOrFPElementsAttr) or found.is_splat():
        return None
    numbers: list[Any] = list(found.get_values())
    start = int(numbers[0]) if math.isfinite(numbers[0]) else 0
    return start if numbers == list(range(start, start + shape[0])) else None


def call_instead(
    calls: Sequence[func.CallOp], masks: Mapping[func.CallOp, AxisMap], kernel: func.FuncOp
) -> func.CallOp:
    """Call a kernel before the last of several calls, and use its first results instead of that call's."""
    last = calls[-1]
    types = kernel.function_type.outputs.data
    call = func.CallOp(kernel.sym_name.data, given_to([*masks, *calls]), types)
    call.location = fused_location(calls)
    Rewriter.insert_op(call, InsertPoint.before(last))
    for old, new in zip(last.results, call.results, strict=False):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    return call


def erase_unused(calls: Sequence[func.CallOp]) -> None:
    """Erase calls, of which later ones use what earlier ones make, if nobody uses that."""
    for each in reversed(calls):
        if not any(r.uses for r in each.results):
            Rewriter.erase_op(each)


def joined(calls: Sequence[func.CallOp], masks: Mapping[func.CallOp, AxisMap]) -> func.FuncOp:
    """The kernel that does what these calls do: a nest for each, with masks in that of the second."""
    given = given_to([*masks, *calls])
    body = KernelBody()
    values: dict[SSAValue, SSAValue] = {v: body.given(v, v.type, dtype_of(v)) for v in given}
    parts = [*((m, 1) for m in masks), *((c, number) for number, c in enumerate(calls))]
    for call, number in parts:
        counters = counters_of(call, call.arguments)
        drawn = {i: Drawn(values[key]) for i, key in draws_of(call, call.arguments).items()}
        arguments = [counters.get(i, drawn.get(i, values.get(v))) for i, v in enumerate(call.arguments)]
        results = body.copy(function_called(call), arguments, number, masks.get(call))
        values.update(zip(call.results, results, strict=True))
    bodies = [function_called(c) for c in calls]
    domains = [
        cast("DenseArrayBase[Any]", d) for f in bodies for d in cast("ArrayAttr[Any]", f.attributes["hybrid.domains"])
    ]
    made = body.function("fused_attention", [values[r] for r in calls[-1].results], [d.get_values() for d in domains])
    made.location = fused_location(bodies)
    return made


class KernelBody:
    """The body of a kernel that is made of others'. ``keys`` say what it is given, in order."""

    def __init__(self) -> None:
        self.block = Block()
        self.keys: list[Hashable] = []
        self.dtypes: list[DType] = []  # of what it is given
        self.counters: dict[tuple[int, int, int, Attribute], SSAValue] = {}
        self.draws: dict[tuple[int, Axes, Attribute, SSAValue], SSAValue] = {}

    def given(self, key: Hashable, kind: Attribute, dtype: DType) -> SSAValue:
        """The argument that is known by this key."""
        if key not in self.keys:
            self.keys.append(key)
            self.dtypes.append(dtype)
            self.block.insert_arg(kind, len(self.keys) - 1)
        return self.block.args[self.keys.index(key)]

    def copy(
        self,
        function: func.FuncOp,
        arguments: Sequence[SSAValue | int | Drawn | None],
        nest: int,
        axes: Mapping[int, int] | None = None,
        known: Mapping[SSAValue, SSAValue] | None = None,
    ) -> list[SSAValue]:
        """Write what a kernel of one nest does into a nest; what it returns. What is ``known`` is not made again.

        ``axes`` says which axis of the nest each of the kernel's is, if it is another. Arguments that are whole
        numbers are arrays that count from there; others may be drawn.
        """
        known = known or {}
        given = dict(zip(function.body.block.args, arguments, strict=True))
        made: dict[SSAValue, int | Drawn] = {a: v for a, v in given.items() if isinstance(v, int | Drawn)}
        values: dict[SSAValue, SSAValue] = {**{a: v for a, v in given.items() if isinstance(v, SSAValue)}, **known}
        for op in function.body.block.ops:
            if isinstance(op, func.ReturnOp):
                return [values[v] for v in op.arguments]
            if op.results and all(r in known for r in op.results):
                continue
            copy = op.clone(values)
            copy.location = op.location
            if "hybrid.axes" in op.attributes:
                loops = [int(a) for a in cast("DenseArrayBase[Any]", op.attributes["hybrid.axes"]).get_values()]
                if axes is not None:
                    copy.attributes["hybrid.axes"] = DenseArrayBase.from_list(i64, [axes[a] for a in loops])
                    loops = [axes[a] for a in loops]
                for number, operand in enumerate(op.operands):
                    if operand in made:
                        places = cast("list[Axes]", places_of(cast(Any, op)))[number]
                        followed = tuple(loops[p] for p in places)
                        copy.operands[number] = self._made(nest, followed, operand, made[operand])
                if nest:
                    copy.attributes["hybrid.nest"] = IntegerAttr(nest, i64)
            self.block.add_op(copy)
        raise AssertionError("a kernel ends by returning")

    def _made(self, nest: int, axes: Axes, operand: SSAValue, by: int | Drawn) -> SSAValue:
        """What a nest makes instead of an operand that follows these axes."""
        if isinstance(by, int):
            return self._counter(nest, axes[0], operand.type, by)
        key = (nest, axes, operand.type, by.key)
        if key not in self.draws:
            self.draws[key] = draw_in(self.block, nest, axes, operand, dtype_of(operand), by.key)
        return self.draws[key]

    def _counter(self, nest: int, axis: int, kind: Attribute, start: int) -> SSAValue:
        """The numbers from ``start`` on along an axis of a nest."""
        key = (nest, axis, start, kind)
        if key not in self.counters:
            (size,) = cast("TensorType[Any]", kind).get_shape()
            dtype = element_dtype(kind)
            builder = Builder(self.block)
            builder.operator = "arange"
            made = builder.generic([], Tensor((size,), dtype, builder), functools.partial(_count, start)).value
            made_by = cast(Any, made.owner)
            made_by.attributes["hybrid.axes"] = DenseArrayBase.from_list(i64, [axis])
            if nest:
                made_by.attributes["hybrid.nest"] = IntegerAttr(nest, i64)
            self.counters[key] = made
        return self.counters[key]

    def row_sum(self, factors: Sequence[SSAValue], places: Sequence[Axes], like: Stage) -> SSAValue:
        """Write, as the first nest, the sum of the products of two arrays' elements, of the dtype of another sum.

        ``places`` are the axes that the arrays follow, and those of the result, which are the nest's.
        """
        used = list(dict.fromkeys(a for place in (places[-1], *places) for a in place))
        dtype = dtype_of(like.result)
        sizes: dict[int, int] = {}
        for value, place in zip(factors, places, strict=False):
            sizes |= dict(zip(place, shape_of(value), strict=True))
        builder = Builder(self.block)
        builder.location = like.op.location
        builder.operator = cast(StringAttr, like.op.attributes["hybrid.operator"]).data
        *read, kept = [tuple(used.index(a) for a in place) for place in places]
        given = [(v, p, dtype_of(v)) for v, p in zip(factors, read, strict=True)]
        shape = tuple(sizes[a] for a in places[-1])
        axes = [*range(len(shape)), *[-1] * (len(used) - len(shape))]

        def body(b: Any, x: Any, y: Any, sofar: Any) -> Any:
            return b.add(sofar, b.mul(b.convert(x, dtype), b.convert(y, dtype)))

        out = Tensor(shape, dtype, builder)
        made = builder.generic(given, out, body, len(used), kept, builder.start(shape, dtype, 0.0)).value
        cast(Any, made.owner).attributes["hybrid.axes"] = DenseArrayBase.from_list(i64, axes)
        return made

    def function(self, name: str, results: Sequence[SSAValue], domains: Sequence[Shape]) -> func.FuncOp:
        """The kernel; operations that nobody needs are left out."""
        self.block.add_op(func.ReturnOp(*results))
        for op in reversed(list(self.block.ops)):
            if op.results and not any(r.uses for r in op.results):
                Rewriter.erase_op(op)
        types = FunctionType.from_lists([a.type for a in self.block.args], [v.type for v in results])
        made = func.FuncOp(name, types, Region(self.block), visibility="private")
        made.attributes["hybrid.domains"] = ArrayAttr([DenseArrayBase.from_list(i64, list(d)) for d in domains])
        note_dtypes(made, [*self.dtypes, *map(dtype_of, results)])
        return made


def _count(start: int, b: Any, sofar: Any) -> Any:
    """The body of a counter."""
    index = b.index_of(0)
    return b.convert(index if start == 0 else b.add(index, b.constant(start, index.dtype)), sofar.dtype)
