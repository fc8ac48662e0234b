"""Random numbers that a softmax's kernel is given, such as those of a dropout of weights: made there, from their key.

A draw of the host's, or its library's, is an array of the size of scores. An attention makes each number where it needs
it, forward and backward. Draws of one key that have different numbers get keys of their own first, so that equal layers
share one kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    TensorType,
    i64,
)
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from hybridc.dialects.kernels.philox import signed
from hybridc.dialects.mlir.hybrid_rt import UniformOp
from hybridc.dialects.nn.dropout import UniformDraw
from hybridc.ir.host import operator_of
from hybridc.ir.joined import RESHAPES
from hybridc.ir.kernel import Axes, analyse
from hybridc.ir.scalar_builder import Element, signless
from hybridc.ir.structured import DType, function_called, is_host, note_dtype, note_dtypes, shape_of
from hybridc.ir.tensor_builder import Builder, Tensor
from hybridc.ir.values import functions, put
from hybridc.transforms.kernels.kept_values import unshaped

UINT64 = DType("uint64")
# A key has two words: that of the generator, and the number of the first of its draws.
KEY: TensorType[Any] = TensorType(i64, [2])


@dataclass(frozen=True)
class Drawn:
    """Numbers that are made of a key, the value in the kernel, instead of being read."""

    key: SSAValue


def key_of(value: SSAValue) -> SSAValue | None:
    """The key whose first draw an array is, in any shape; None if it is no such array."""
    call = _draw(unshaped(value))
    return None if call is None or _number(call) else call.arguments[0]


def draws_of(call: func.CallOp, arguments: Sequence[SSAValue | None]) -> dict[int, SSAValue]:
    """Which arguments of a call can be drawn where they are read, and from which keys."""
    keys = {i: key_of(v) for i, v in enumerate(arguments) if v is not None}
    found = {i: key for i, key in keys.items() if key is not None}
    kernel = analyse(function_called(call)) if found else None
    if kernel is None or any(s.kind == "product" for s in kernel.stages):
        return {}
    kept = {*kernel.results, *(v for s in kernel.stages for v in s.anywhere)}
    return {i: key for i, key in found.items() if kernel.arguments[i] not in kept}


def _draw(value: SSAValue) -> func.CallOp | None:
    call = value.owner
    if not isinstance(call, func.CallOp) or not is_host(function_called(call)):
        return None
    return call if isinstance(operator_of(function_called(call)), UniformDraw) else None


def _number(call: func.CallOp) -> int:
    operator = operator_of(function_called(call))
    assert isinstance(operator, UniformDraw)
    return operator.draw


# --- keys of their own -------------------------------------------------------------------------------------


def give_keys(module: ModuleOp) -> None:
    """Let each draw that a softmax reads be the first one of a key."""
    made: dict[str, str] = {}
    for function in [f for f in functions(module) if f.sym_visibility is None]:
        for call in [c for c in function.body.block.ops if isinstance(c, func.CallOp)]:
            draw = _draw(call.results[0]) if len(call.results) == 1 else None
            number = 0 if draw is None else _number(draw)
            if draw is not None and number and _is_for_softmax(draw):
                _give_key(module, draw, number, made)


def _is_for_softmax(draw: func.CallOp) -> bool:
    """Whether a kernel that has the maximum of rows, and another reduction, reads the numbers."""
    users = [use.operation for use in draw.results[0].uses]
    users += [use.operation for u in users if isinstance(u, RESHAPES) for use in u.results[0].uses]
    called = [function_called(u) for u in users if isinstance(u, func.CallOp)]
    kernels = [analyse(f) for f in called if not is_host(f)]
    sums = [[s.combine for s in k.stages if s.kind == "row"] for k in kernels]
    return any(len(each) > 1 and any(isinstance(op, arith.MaximumfOp) for op in each) for each in sums)


def _give_key(module: ModuleOp, draw: func.CallOp, number: int, made: dict[str, str]) -> None:
    """Let a draw be the first one of the key that comes so many later."""
    attribute = DenseIntOrFPElementsAttr.from_list(KEY, [0, signed(number)])
    plus = arith.ConstantOp(attribute, KEY)
    note_dtype(plus, UINT64)
    if "" not in made:
        own = _sum_of_keys()
        put(module, own)
        made[""] = own.sym_name.data
    key = func.CallOp(made[""], [draw.arguments[0], plus.result], [KEY])
    for op in (plus, key):
        op.location = draw.location
        Rewriter.insert_op(op, InsertPoint.before(draw))
    old = function_called(draw)
    name = old.sym_name.data
    if name not in made:
        first = old.clone()
        attributes = dict(cast(Any, first.attributes["hybrid.attributes"]).data)
        attributes["draw"] = IntegerAttr(0, i64)
        first.attributes["hybrid.attributes"] = type(cast(Any, old.attributes["hybrid.attributes"]))(attributes)
        put(module, first)
        made[name] = first.sym_name.data
    drawn = func.CallOp(made[name], [key.results[0]], [draw.results[0].type])
    drawn.location = draw.location
    drawn.results[0].name_hint = draw.results[0].name_hint
    Rewriter.replace_op(draw, drawn)


def _sum_of_keys() -> func.FuncOp:
    """The kernel that adds to the words of a key."""
    block = Block(arg_types=[KEY, KEY])
    builder = Builder(block)
    builder.operator = "key"
    given = [(v, (0,), UINT64) for v in block.args]
    made = builder.generic(given, Tensor((2,), UINT64, builder), _add).value
    cast(Any, made.owner).attributes["hybrid.axes"] = DenseArrayBase.from_list(i64, [0])
    block.add_op(func.ReturnOp(made))
    kernel = func.FuncOp("k_key", FunctionType.from_lists([KEY, KEY], [KEY]), Region(block), visibility="private")
    kernel.attributes["hybrid.domains"] = ArrayAttr([DenseArrayBase.from_list(i64, [2])])
    note_dtypes(kernel, [UINT64] * 3)
    return kernel


def _add(b: Any, x: Any, y: Any, _: Any) -> Any:
    return b.add(x, y)


# --- in a kernel -------------------------------------------------------------------------------------------


def draw_in(block: Block, nest: int, axes: Axes, like: SSAValue, dtype: DType, key: SSAValue) -> SSAValue:
    """Write, into a nest, the array that the first draw of a key gives, whose dimensions follow these axes."""
    builder = Builder(block)
    builder.operator = "uniform_draw"
    shape = shape_of(like)

    def body(b: Any, _: Any) -> Any:
        places = [b.index_of(loop).index for loop in range(len(shape))]
        properties = {"shape": DenseArrayBase.from_list(i64, shape)}
        return Element(b.add_op(UniformOp, [key, *places], signless(dtype), properties), dtype)

    made = builder.generic([], Tensor(shape, dtype, builder), body).value
    owner = cast(Any, made.owner)
    owner.attributes["hybrid.axes"] = DenseArrayBase.from_list(i64, list(axes))
    if nest:
        owner.attributes["hybrid.nest"] = IntegerAttr(nest, i64)
    return made


def erase_draws(module: ModuleOp) -> None:
    """Erase draws, their shapes, and what was called for their keys, that nobody needs any more."""
    for function in [f for f in functions(module) if f.sym_visibility is None]:
        for op in reversed(list(function.body.block.ops)):
            if not any(r.uses for r in op.results) and _is_for_draw(op):
                Rewriter.erase_op(op)
    called = {c.callee.string_value() for f in functions(module) for c in f.walk() if isinstance(c, func.CallOp)}
    for declared in [f for f in functions(module) if is_host(f) and f.sym_name.data not in called]:
        if isinstance(operator_of(declared), UniformDraw):
            Rewriter.erase_op(declared)


def _is_for_draw(op: Operation) -> bool:
    """Whether an operation draws numbers, shows an array in another shape, or makes a key."""
    if isinstance(op, RESHAPES):
        return True
    if not isinstance(op, func.CallOp) or not op.results:
        return False
    is_key = not is_host(function_called(op)) and [r.type for r in op.results] == [KEY]
    return is_key or _draw(op.results[0]) is not None
