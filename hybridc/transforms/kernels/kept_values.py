"""What a backward is given of its forward, where both are calls of kernels, and views between them."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import DenseArrayBase, FunctionType, i64
from xdsl.dialects.tensor import CollapseShapeOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from hybridc.dialects.mlir.tensor import ExpandShapeOp
from hybridc.ir.joined import RESHAPES
from hybridc.ir.kernel import Kernel, analyse, yielded
from hybridc.ir.structured import VIEWS, DType, dtype_of, function_called, is_host, note_dtypes, shape_of
from hybridc.ir.values import result_count


def unshaped(value: SSAValue) -> SSAValue:
    """The value of which another shows all elements, in their order."""
    while isinstance(value.owner, RESHAPES):
        value = value.owner.operands[0]
    return value


class KeptValues:
    """A forward's values that its backward has: its arguments, and what it returns for that.

    Both may be one function, as where a training step is one program: then it has all values of its own.
    """

    def __init__(self, forward: func.FuncOp, backward: func.FuncOp) -> None:
        self.forward, self.backward, self.together = forward, backward, forward is backward
        end = forward.body.block.last_op
        assert isinstance(end, func.ReturnOp)
        self.end = end
        updates = forward.attributes.get("hybrid.updates")
        self.visible = result_count(forward) + (len(updates.get_values()) if isinstance(updates, DenseArrayBase) else 0)
        given = [*forward.body.block.args, *end.arguments]
        noted = backward.attributes.get("hybrid.saved")
        saved = noted.get_values() if isinstance(noted, DenseArrayBase) else ()
        self.source: dict[SSAValue, SSAValue] = {
            arg: given[n] for arg, n in zip(backward.body.block.args, saved, strict=False)
        }
        self.dtypes: dict[SSAValue, DType] = {arg: dtype_of(arg) for arg in backward.body.block.args}

    def same(self, theirs: SSAValue, own: SSAValue) -> bool:
        """Whether a value of the backward is surely what this one of the forward is."""
        if theirs.type != own.type:
            return False
        theirs, own = unshaped(theirs), unshaped(own)
        if theirs is own:
            return True
        if own in self.source:
            return unshaped(self.source[own]) is theirs
        one, other = theirs.owner, own.owner
        if not isinstance(one, Operation) or not isinstance(other, Operation) or type(one) is not type(other):
            return False
        if not isinstance(one, (arith.ConstantOp, func.CallOp, *VIEWS)) or one.properties != other.properties:
            return False
        if isinstance(one, func.CallOp) and is_host(function_called(one)):  # it may draw, or have a state
            return False
        number = one.results.index(theirs)  # pyright: ignore[reportArgumentType]
        if other.results[number] is not own or len(one.operands) != len(other.operands):
            return False
        return all(self.same(a, b) for a, b in zip(one.operands, other.operands, strict=True))

    def copied(self, own: SSAValue) -> SSAValue | None:
        """What the forward has of which a value of the backward is a copy; None if that is unclear."""
        theirs = self.source.get(own, own)
        while isinstance(theirs.owner, func.CallOp) and len(theirs.owner.arguments) == 1 == len(theirs.owner.results):
            function = function_called(theirs.owner)
            if is_host(function) or not _copies(analyse(function)):
                return None
            theirs = theirs.owner.arguments[0]
        return theirs

    def find(self, theirs: SSAValue, before: Operation) -> SSAValue | None:
        """A value that the backward has before an operation and that is this one of the forward."""
        block = self.backward.body.block
        values: list[SSAValue] = list(block.args)
        for op in block.ops:
            if op is before:
                break
            values += op.results
        return next((v for v in values if self.same(theirs, v)), None)

    def again(self, theirs: SSAValue, before: Operation) -> SSAValue:
        """The same, or made again of such values by views; what cannot be is returned by the forward from now on."""
        found = self.find(theirs, before)
        if found is not None:
            return found
        kept = next((arg for arg, value in self.source.items() if self._reshaped(theirs, value)), None)
        if kept is not None:
            return self._views(unshaped(theirs), theirs, self._undone(kept, before), before)
        owner = theirs.owner
        if isinstance(owner, (arith.ConstantOp, *VIEWS)):
            copy = owner.clone({v: self.again(v, before) for v in owner.operands})
            copy.location = owner.location
            Rewriter.insert_op(copy, InsertPoint.before(before))
            return copy.results[0]
        arg = self.backward.body.block.insert_arg(theirs.type, len(self.source))
        arg.name_hint = theirs.name_hint
        self.source[arg] = theirs
        self.dtypes[arg] = dtype_of(theirs)
        return arg

    def _reshaped(self, theirs: SSAValue, value: SSAValue) -> bool:
        """Whether the forward returns another shape of what this is a shape of."""
        return unshaped(value) is unshaped(theirs) and unshaped(value) is not value

    def _undone(self, kept: SSAValue, before: Operation) -> SSAValue:
        """An argument in the shape that it had before the forward reshaped it."""
        value, own = self.source[kept], kept
        while isinstance(value.owner, RESHAPES):
            op = value.owner
            source = op.operands[0]
            if isinstance(op, CollapseShapeOp):
                made: Operation = ExpandShapeOp(own, (), op.reassociation, shape_of(source), source.type)  # pyright: ignore[reportArgumentType]
            else:
                made = CollapseShapeOp.create(
                    operands=[own], result_types=[source.type], properties={"reassociation": op.reassociation}
                )
            made.attributes |= op.attributes
            made.location = op.location
            Rewriter.insert_op(made, InsertPoint.before(before))
            value, own = source, made.results[0]
        return own

    def _views(self, start: SSAValue, theirs: SSAValue, own: SSAValue, before: Operation) -> SSAValue:
        """What the forward made of a value by reshapes, made of the same value in the backward."""
        if theirs is start:
            return own
        assert isinstance(theirs.owner, Operation)
        own = self._views(start, theirs.owner.operands[0], own, before)
        copy = theirs.owner.clone({theirs.owner.operands[0]: own})
        copy.location = theirs.owner.location
        Rewriter.insert_op(copy, InsertPoint.before(before))
        return copy.results[0]

    def note(self) -> None:
        """Let the forward return what the backward still uses, and say what the backward's arguments are."""
        if self.together:
            return
        block = self.backward.body.block
        for arg in [a for a in self.source if not a.uses]:
            del self.source[arg]
            assert isinstance(arg, BlockArgument)
            block.erase_arg(arg)
        own = [*self.forward.body.block.args, *self.end.arguments[: self.visible]]
        kept = list(dict.fromkeys(v for v in self.source.values() if v not in own))
        given = [*own, *kept]
        end = func.ReturnOp(*self.end.arguments[: self.visible], *kept)
        views = [v.owner for v in self.end.arguments[self.visible :] if v not in kept]
        Rewriter.replace_op(self.end, end)
        self.end = end
        for view in views:
            _erase_unused(view)
        saved = [given.index(self.source[arg]) for arg in block.args if arg in self.source]
        self.backward.attributes["hybrid.saved"] = DenseArrayBase.from_list(i64, saved)
        for function in (self.forward, self.backward):
            last = function.body.block.last_op
            assert last is not None
            dtypes = [self.dtypes[v] if v in self.dtypes else dtype_of(v) for v in (*function.args, *last.operands)]
            function.function_type = FunctionType.from_lists(
                function.body.block.arg_types, [v.type for v in last.operands]
            )
            function.attributes.pop("hybrid.dtypes", None)
            note_dtypes(function, dtypes)


def _copies(kernel: Kernel) -> bool:
    """Whether a kernel gives its one argument as it is."""
    stage = kernel.stages[0] if len(kernel.stages) == 1 else None
    if stage is None or stage.kind != "map" or stage.anywhere or len(stage.reads) != 1:
        return False
    return stage.reads[0].axes == stage.axes and yielded(stage) is stage.op.regions[0].block.args[0]


def _erase_unused(op: Any) -> None:
    """Erase views, and copies, that nobody uses, and those of which only they were made."""
    while isinstance(op, (func.CallOp, *VIEWS)) and not any(r.uses for r in op.results):
        if isinstance(op, func.CallOp) and (is_host(function_called(op)) or len(op.arguments) != 1):
            return
        source = op.operands[0].owner
        Rewriter.erase_op(op)
        op = source
