"""Calls of kernels with several results become two, where one result is needed for what another is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, StringAttr
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from hybridc.ir.kernel import analyse
from hybridc.ir.structured import function_called
from hybridc.transforms.kernels.attention_calls import has_one_nest


def untangle(
    ops: Iterable[Operation],
    start: SSAValue,
    users: Sequence[Operation],
    stored: Callable[[func.FuncOp], func.FuncOp],
) -> bool:
    """Split calls that need what is made of ``start``, and also make, of other things, what one of ``users`` needs.

    ``stored`` puts a kernel into the module, or finds one that does the same. Whether there was something to split.
    """
    behind: set[SSAValue] = {start}
    found = False
    for op in list(ops):
        if not any(v in behind for v in op.operands):
            continue
        apart = [i for i, n in enumerate(_needed(op)) if not any(op.operands[a] in behind for a in n)]
        wanted = any(use.operation in users for i in apart for use in op.results[i].uses)
        if wanted and isinstance(op, func.CallOp) and len(apart) < len(op.results):
            made = [*_split(op, apart, stored)]
            found = found or bool(made)
            behind |= {r for call in made[1:] for r in call.results}
            if made:
                continue
        behind |= {*op.results}
    return found


def _needed(op: Operation) -> list[set[int]]:
    """For each result of a call of a kernel the numbers of the arguments that it is made of."""
    if not isinstance(op, func.CallOp) or not has_one_nest(op):
        return []
    end = function_called(op).body.block.last_op
    assert isinstance(end, func.ReturnOp)
    return [_arguments(v) for v in end.arguments]


def _arguments(value: SSAValue) -> set[int]:
    """The numbers of the arguments of its function that a value is made of."""
    found: set[int] = set()
    seen: set[SSAValue] = set()
    work = [value]
    while work:
        each = work.pop()
        if each in seen:
            continue
        seen.add(each)
        if isinstance(each, BlockArgument):
            found.add(each.index)
            continue
        op = each.owner
        assert isinstance(op, Operation)
        inside = (v for inner in op.walk() for v in inner.operands)
        work += [v for v in inside if not isinstance(v, BlockArgument) or v.owner.parent_op() is op.parent_op()]
    return found


def _split(call: func.CallOp, apart: Sequence[int], stored: Callable[[func.FuncOp], func.FuncOp]) -> list[func.CallOp]:
    """A call for these results, and one for the others, in the place of one; none if a part would walk too far."""
    rest = [i for i in range(len(call.results)) if i not in apart]
    parts = [_part(function_called(call), numbers) for numbers in (apart, rest)]
    if any(part is None for part in parts):
        return []
    made: list[func.CallOp] = []
    for part, numbers in zip(parts, (apart, rest), strict=True):
        assert part is not None
        kernel, arguments = part
        types = [call.results[i].type for i in numbers]
        new = func.CallOp(stored(kernel).sym_name.data, [call.arguments[i] for i in arguments], types)
        new.location = call.location
        Rewriter.insert_op(new, InsertPoint.before(call))
        for i, result in zip(numbers, new.results, strict=True):
            result.name_hint = call.results[i].name_hint
            call.results[i].replace_all_uses_with(result)
        made.append(new)
    Rewriter.erase_op(call)
    return made


def _part(function: func.FuncOp, results: Sequence[int]) -> tuple[func.FuncOp, list[int]] | None:
    """A kernel that makes some results of another, and which arguments it takes; None if it has idle loops."""
    if "hybrid.dtypes" in function.attributes:
        return None
    made = function.clone()
    for own, theirs in zip(made.walk(), function.walk(), strict=True):
        own.location = theirs.location
    block = made.body.block
    end = block.last_op
    assert isinstance(end, func.ReturnOp)
    Rewriter.replace_op(end, func.ReturnOp(*[end.arguments[i] for i in results]))
    for op in reversed(list(block.ops)):
        if op.results and not any(r.uses for r in op.results):
            Rewriter.erase_op(op)
    used = [arg.index for arg in block.args if arg.uses]
    for arg in reversed(block.args):
        if not arg.uses:
            block.erase_arg(arg)
    last = block.last_op
    assert last is not None
    made.function_type = FunctionType.from_lists(block.arg_types, [v.type for v in last.operands])
    made.sym_name = StringAttr(f"{function.sym_name.data}_part")
    (nest,) = analyse(made).nests
    walked = {a for s in nest.stages for a in (*s.axes, *s.reduced)}
    return (made, used) if all(a in walked or n == 1 for a, n in enumerate(nest.domain)) else None
