"""The values of a forward in its backward, on the structured level."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import FunctionType
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.tensor import CollapseShapeOp, EmptyOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from hybridc.dialects.mlir.erase import erase_op, replace_op
from hybridc.dialects.mlir.graph_notes import DTYPES, SAVED, UPDATES
from hybridc.dialects.mlir.hybrid_rt import SizeOp
from hybridc.dialects.mlir.tensor import ExpandShapeOp
from hybridc.dtypes import DType
from hybridc.ir.concatenated import RESHAPES, unshaped
from hybridc.ir.structured import VIEWS, dtype_of, note_dtypes, shape_of
from hybridc.ir.values import result_count

_COMPUTED = (arith.ConstantOp, SizeOp, EmptyOp, linalg.FillOp, linalg.GenericOp, linalg.MatmulOp, *VIEWS)


def _is_number(value: SSAValue) -> bool:
    """Whether a value is a constant of a function, not of a body."""
    op = value.owner
    return isinstance(op, arith.ConstantOp) and isinstance(op.parent_op(), func.FuncOp)


class SavedValues:
    """A forward's values in its backward: ``own_of`` maps them to the backward's.

    Both may be one function, as where a training step is one program: then a value is itself.
    """

    def __init__(self, forward: func.FuncOp, backward: func.FuncOp) -> None:
        self.forward, self.backward, self.together = forward, backward, forward is backward
        end = forward.body.block.last_op
        assert isinstance(end, func.ReturnOp)
        self.end = end
        self.visible = result_count(forward) + len(UPDATES.of(forward))
        saved = () if self.together else SAVED.of(backward)
        values = [*forward.body.block.args, *end.arguments]
        self.source: dict[SSAValue, SSAValue] = {
            arg: values[n] for arg, n in zip(backward.body.block.args, saved, strict=False)
        }
        self.own_of = {value: arg for arg, value in reversed(self.source.items())}
        self.dtypes: dict[SSAValue, DType] = {arg: dtype_of(arg) for arg in backward.body.block.args}

    def find(self, value: SSAValue) -> SSAValue | None:
        """The backward's value that computes the same as this one of the forward, if there is one."""
        if self.together:
            return value
        if value not in self.own_of and isinstance(value.owner, _COMPUTED):
            operands = [self.find(v) for v in value.owner.operands]
            own = None if None in operands else self._equal(value.owner, operands)
            if own is None:
                return None
            self.own_of[value] = own
        return self.own_of.get(value)

    def get(self, value: SSAValue) -> SSAValue:
        """The same, or views of such values; else a new saved value."""
        own = self.find(value)
        if own is not None:
            return own
        like = next((v for v in self._whole() if unshaped(v) is unshaped(value)), None)
        if like is not None:
            self.own_of[unshaped(value)] = self._undone(like, self.own_of[like])
        if value in self.own_of:
            return self.own_of[value]
        if isinstance(value.owner, (arith.ConstantOp, SizeOp, *VIEWS)):
            copy = value.owner.clone({v: self.get(v) for v in value.owner.operands})
            self.own_of[value] = self._insert(copy)
            return self.own_of[value]
        return self._argument(value)

    def _equal(self, op: Operation, operands: Sequence[SSAValue | None]) -> SSAValue | None:
        """The backward's result of an operation equal to this one on these operands, if there is one."""
        first = operands[0] if operands else None
        alike = self.backward.body.block.ops if first is None else [use.operation for use in first.uses]
        for other in alike:
            if type(other) is not type(op) or other.properties != op.properties or [*other.operands] != [*operands]:
                continue
            if other.result_types != op.result_types or other.parent is not self.backward.body.block:
                continue
            outer = {v: self.find(v) for inner in op.walk() for v in inner.operands if _is_number(v)}
            known: Any = {v: own for v, own in outer.items() if own is not None}
            if all(a.is_structurally_equivalent(b, known) for a, b in zip(op.regions, other.regions, strict=True)):
                return other.results[0]
        return None

    def _whole(self) -> Iterator[SSAValue]:
        """The arguments of the backward, and values that may be added for free."""
        yield from [*self.source.values()]
        for value in (*self.forward.body.block.args, *self.end.arguments[: self.visible]):
            if value not in self.own_of:
                self._argument(value)
            yield value

    def _argument(self, value: SSAValue) -> SSAValue:
        """A new argument of the backward; it is removed if nothing uses it."""
        arg = self.backward.body.block.insert_arg(value.type, len(self.source))
        arg.name_hint = value.name_hint
        self.source[arg], self.own_of[value], self.dtypes[arg] = value, arg, dtype_of(value)
        return arg

    def _undone(self, value: SSAValue, own: SSAValue) -> SSAValue:
        """An argument reshaped to what it was before the forward reshaped it."""
        while isinstance(value.owner, RESHAPES):
            op = value.owner
            source = op.operands[0]
            if isinstance(op, CollapseShapeOp):
                view: Operation = ExpandShapeOp(own, (), op.reassociation, shape_of(source), source.type)  # pyright: ignore[reportArgumentType]
            else:
                view = CollapseShapeOp.create(
                    operands=[own], result_types=[source.type], properties={"reassociation": op.reassociation}
                )
            view.attributes |= op.attributes
            view.location = op.location
            value, own = source, self._insert(view)
        return own

    def _insert(self, op: Operation) -> SSAValue:
        """Clone a view or a constant into the backward, after its operands, unless it is there already."""
        equal = self._equal(op, [*op.operands])
        if equal is not None:
            erase_op(op)
            return equal
        owner = op.operands[0].owner if op.operands else None
        at = InsertPoint.at_start(self.backward.body.block)
        Rewriter.insert_op(op, InsertPoint.after(owner) if isinstance(owner, Operation) else at)
        return op.results[0]

    def note(self) -> None:
        """Let the forward return the values that the backward still uses, and update ``hybrid.saved``."""
        if self.together:
            return
        block = self.backward.body.block
        for arg in [a for a in self.source if not a.uses]:
            del self.source[arg]
            assert isinstance(arg, BlockArgument)
            block.erase_arg(arg)
        own = [*self.forward.body.block.args, *self.end.arguments[: self.visible]]
        kept = list(dict.fromkeys(v for v in self.source.values() if v not in own))
        returned = [*own, *kept]
        replace_op(self.end, func.ReturnOp(*self.end.arguments[: self.visible], *kept))
        saved = [returned.index(self.source[arg]) for arg in block.args if arg in self.source]
        SAVED.put(self.backward, saved)
        for function in (self.forward, self.backward):
            last = function.body.block.last_op
            assert last is not None
            values = (*function.body.block.args, *last.operands)
            dtypes = [self.dtypes[v] if v in self.dtypes else dtype_of(v) for v in values]
            kinds = [v.type for v in last.operands]
            function.function_type = FunctionType.from_lists(function.body.block.arg_types, kinds)
            DTYPES.drop(function)
            note_dtypes(function, dtypes)
