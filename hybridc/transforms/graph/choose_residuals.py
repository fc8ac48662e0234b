"""Rematerialisation: which values a forward saves for its backward, and which the backward computes again.

After differentiation a forward returns every value of its own that its backward uses. This pass walks these in program
order and rematerialises a value in the backward, instead of saving it, if it can be computed

* from what is available anyway: the forward's arguments, its visible results, constants, and saved values; or also from
  values of an eighth of its size or less, which are saved instead (a mean of each row for a whole array), or from one
  value that is saved instead of several;
* by elementwise operators that together cost at most the cost model's ``REMATERIALIZED`` additions an element of it,
  and by views and concatenations;
* unless a kernel of its own would do that: for contractions alone, from what nothing else reads. So small values are
  saved, which fit the second-level cache.

A backward from some results only (``hybrid.heads``) uses what the forward saves for the one from all, and
rematerialises the rest at any cost.

A part of a concatenation that is there or saved (the steps that a loop of Python stacks) is a slice of it. So a choice
saves few bytes, and what is expensive (contractions, reductions, ``exp``), random or operator state is never
computed twice. The operators are copied to the first use in the backward, so that lifetimes stay short.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from hybridc.dialects.mlir.erase import erase_op, replace_op
from hybridc.dialects.mlir.graph_notes import SAVED, TRAINING, UPDATES
from hybridc.dialects.mlir.hybrid import HybridOp, hybrid_dtype, hybrid_shape
from hybridc.dialects.operator import Contraction, Elementwise, Movement
from hybridc.dialects.scalar import record
from hybridc.dialects.scalar.table import STEPS
from hybridc.ground.hooks import HOOKS
from hybridc.ground.machine import NOMINAL
from hybridc.ground.nesting import as_list
from hybridc.ground.records import dataclass
from hybridc.ir.costs import REMATERIALIZED
from hybridc.ir.facts import Fact, Needs
from hybridc.ir.values import byte_size, functions, is_constant, operands_first, result_count, volume
from hybridc.trace.traced import TracedSymbol
from hybridc.transforms.graph.differentiate import OF_HEADS
from hybridc.transforms.graph.splice import Splicer

# How much smaller than a value those must be that are saved instead of it.
SMALLER = 8


@dataclass(frozen=True)
class ChooseResiduals(ModulePass):
    """Choose the values that a forward saves for its backward."""

    name = "choose-residuals"
    needs: ClassVar[Needs] = frozenset((Fact.GRADIENTS,))

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        named = {f.sym_name.data: f for f in functions(op)}
        backward = named.get("backward")
        if backward is None or not SAVED.is_on(backward):
            return
        choice = _Choice(named["forward"], backward)
        if OF_HEADS not in named:
            choice.apply()
            return
        other = _Choice(named["forward"], named[OF_HEADS])  # made before the forward's results change
        end = choice.apply()
        other.follow(end)
        erase_op(backward)
        named[OF_HEADS].sym_name = StringAttr("backward")


class _Choice:
    """The choice for one forward and its backward."""

    def __init__(self, forward: func.FuncOp, backward: func.FuncOp) -> None:
        self.forward = forward
        self.backward = backward.body.block
        end = forward.body.block.last_op
        assert isinstance(end, func.ReturnOp)
        self.end = end
        self.results = result_count(forward) + len(UPDATES.of(forward))
        values = [*forward.body.block.args, *end.arguments]
        own = values[: len(forward.body.block.args) + self.results]
        # Available anyway: inputs and results, with the indices by which ``hybrid.saved`` names them.
        self.free = {value: index for index, value in reversed([*enumerate(own)])}
        self.saved = {arg: values[i] for i, arg in zip(SAVED.of(backward), self.backward.args, strict=False)}
        self.residuals: dict[SSAValue, None] = {}
        self.recomputed: set[Operation] = set()  # what is computed again in any case
        # Values of the forward in the backward: arguments, and rematerialised ones.
        self.available: dict[SSAValue, SSAValue] = {}
        self.holders: dict[SSAValue, HybridOp] = {}  # whose results, which are kept, contain these values
        self.splicer = Splicer(TRAINING.of(forward))
        self.parts_of: dict[HybridOp, dict[SSAValue, TracedSymbol]] = {}  # operands, taken out of the results
        self.cost_again = cache(cost_again)  # of one value asked as often as values follow from it
        self.volume = cache(_elements)

    def apply(self) -> func.ReturnOp:
        """Choose, and rewrite both functions; the forward's new return."""
        order = {op: index for index, op in enumerate(self.forward.body.block.ops)}
        residuals = _undivided(dict.fromkeys(v for v in self.saved.values() if v not in self.free))
        self._find_held(residuals, {*residuals, *self.free})
        self._choose(sorted(residuals, key=lambda v: order[_maker(v)] if v not in self.free else -1))
        self._share()
        self._make_again(order)
        return self._note(self._of_backward())

    def follow(self, end: func.ReturnOp) -> None:
        """Use the forward's results as they are, and rewrite the backward alone."""
        residuals = end.arguments[self.results :]
        self.end = end
        self.residuals = dict.fromkeys(residuals)
        self._find_held(self.saved.values(), {*residuals, *self.free})
        self._make_again({op: index for index, op in enumerate(self.forward.body.block.ops)})
        self._note(residuals)

    def _find_held(self, values: Iterable[SSAValue], kept: Collection[SSAValue]) -> None:
        """Note the operations that put values into concatenations that may be kept, which are saved for that then."""
        for value in values:
            if not self._is_there(value):
                self._is_held(value, kept)

    def _is_held(self, value: SSAValue, kept: Collection[SSAValue]) -> bool:
        for use in value.uses:
            op = use.operation
            if value in self.holders or not isinstance(op, HybridOp):
                continue
            operator, result = op.operator, op.results[0]
            if isinstance(operator, Movement) and operator.REARRANGES:
                joined = not shows(op) and result in kept
                if joined or self._is_held(result, kept):
                    self.holders[value] = op
                    if joined and not self._is_there(result):
                        self.residuals[result] = None
        return value in self.holders

    def _choose(self, values: Iterable[SSAValue], shared: bool = False) -> None:
        """Save those values, in program order, that cannot be rematerialised from available or small ones.

        ``shared``: from one that is saved in their place.
        """
        for value in values:
            if self._is_there(value):
                continue
            operators: set[HybridOp] = set()
            needed = self._needed(value, operators=operators)
            if SMALLER * _bytes(needed) > byte_size(value) or (not shared and self._is_apart(value, operators)):
                needed = [value]
            else:
                self.recomputed |= operators
            self.residuals |= dict.fromkeys(needed)

    def _is_apart(self, value: SSAValue, operators: Collection[HybridOp]) -> bool:
        """Whether a small value would be computed again by a kernel of its own.

        It is if in the backward only contractions read it, and what it is computed from.
        """
        if all(map(shows, operators)) or byte_size(value) > NOMINAL.second:
            return False
        size = self.volume(value)
        read = (v for op in operators for v in (*op.operands, *op.results) if self.volume(v) >= size)
        return all(map(self._is_multiplied, read))

    def _is_multiplied(self, value: SSAValue) -> bool:
        """Whether only contractions read a value in the backward."""
        work: list[SSAValue] = [arg for arg, saved in self.saved.items() if saved is value]
        while work:
            for use in work.pop().uses:
                op = use.operation
                if not isinstance(op, HybridOp) or not (shows(op) or isinstance(op.operator, Contraction)):
                    return False
                work += op.results if shows(op) else ()
        return True

    def _share(self) -> None:
        """Save one value instead of several that follow from it, if it is smaller, or these would be copied."""
        made_of: dict[SSAValue, list[SSAValue]] = {}
        for value in self.residuals:
            for source in self._needed(value, anew=True):
                made_of.setdefault(source, []).append(value)
        for source, values in made_of.items():
            before = self.residuals
            # A value from which others are taken out cannot be rematerialised from these.
            holding = {op.results[0] for op in self.holders.values()}
            if source in before or len(values) < 2 or not holding.isdisjoint(values):
                continue
            self.residuals = {value: None for value in (*before, source) if value not in values}
            self._choose(values, shared=True)
            more = _bytes(self.residuals) - _bytes(before)
            if more > 0 or (more == 0 and not any(isinstance(v.owner, HybridOp) and shows(v.owner) for v in values)):
                self.residuals = before

    def _is_there(self, value: SSAValue) -> bool:
        return value in self.free or value in self.residuals or value in self.holders

    def _needed(self, value: SSAValue, anew: bool = False, operators: set[HybridOp] | None = None) -> list[SSAValue]:
        """The values that must be saved to rematerialise ``value``; ``[value]`` if that costs too much.

        The operators that are then computed again are added to ``operators``. With ``anew`` the value itself is,
        even if it would be saved.
        """
        cost, size = 0, self.volume(value)
        operators = set() if operators is None else operators
        needed: dict[SSAValue, None] = {}
        work = [value]
        while work:
            current = work.pop()
            if current.owner in operators or (self._is_there(current) and not (anew and current is value)):
                continue
            steps = self.cost_again(current)
            if steps is None:
                needed[current] = None
                continue
            operators.add(_maker(current))
            work += _maker(current).operands
            if _maker(current) not in self.recomputed:
                cost += steps * min(self.volume(current), size)
            if cost > REMATERIALIZED * size:
                operators.clear()
                return [value]
        return list(needed)

    def _make_again(self, order: dict[Operation, int]) -> None:
        """Rematerialise values that are not saved at their first use in the backward; drop those arguments."""
        at = {op: index for index, op in enumerate(self.backward.ops)}
        users = list(self.backward.ops)
        later: list[tuple[int, int, BlockArgument]] = []
        for arg, value in self.saved.items():
            if self._is_there(value) and value not in self.holders:
                self.available.setdefault(value, arg)
            elif arg.first_use is not None:
                later.append((min(at[use.operation] for use in arg.uses), order[_maker(value)], arg))
        for first, _, arg in sorted(later, key=lambda entry: entry[:2]):
            self._again(self.saved[arg], users[first])
        for arg, value in self.saved.items():
            if value in self.available and self.available[value] is not arg:
                arg.replace_all_uses_with(self.available[value])
            if self.available.get(value) is not arg:
                self.backward.erase_arg(arg)

    def _again(self, value: SSAValue, before: Operation) -> SSAValue:
        """A forward value inside the backward: an argument, or rematerialised before the operation that uses it."""
        for maker in operands_first(value, self._known):
            if maker.results[0] in self.available:  # what rearranges took it out meanwhile
                continue
            operands = dict.fromkeys(maker.operands)
            copy = maker.clone({v: self._argument(v, before) for v in operands})
            copy.location = maker.location
            Rewriter.insert_op(copy, InsertPoint.before(before))
            self.available.update(zip(maker.results, copy.results, strict=True))
        return self._argument(value, before)

    def _known(self, value: SSAValue) -> bool:
        """Whether a value is not rematerialised by its operation."""
        return value in self.available or self._is_there(value)

    def _argument(self, value: SSAValue, before: Operation) -> SSAValue:
        """A value inside the backward that is there, or saved."""
        if value not in self.available and value in self.holders:
            self.available[value] = self._taken_out(value, self.holders[value], before)
        elif value not in self.available:
            arg = self.backward.insert_arg(value.type, 0)
            arg.name_hint = value.name_hint
            self.available[value] = arg
        return self.available[value]

    def _taken_out(self, value: SSAValue, joined: HybridOp, before: Operation) -> SSAValue:
        """An operand of an operation that rearranges its operands, from the result: as its gradient would be."""
        whole = self.splicer.symbol(self._again(joined.results[0], before))
        if joined not in self.parts_of:
            self.parts_of[joined] = self._parts(joined, whole)
        part = self.parts_of[joined][value]
        self.splicer.splice_for(part, before)
        return self.splicer.value(part)

    def _parts(self, joined: HybridOp, whole: TracedSymbol) -> dict[SSAValue, TracedSymbol]:
        """Each operand of an operation that rearranges its operands, recorded from the result."""
        F, trace = HOOKS.symbols(), self.splicer.trace
        inputs = [trace.leaf("input", hybrid_shape(v), hybrid_dtype(v), "value") for v in joined.operands]
        with trace.active():
            parts = as_list(joined.operator.gradient(F, whole, *inputs, whole))
        return dict(reversed([*zip(joined.operands, parts, strict=True)]))  # of equal operands the first

    def _of_backward(self) -> list[SSAValue]:
        """The forward value of each argument of the backward, in order."""
        values = {arg: value for value, arg in self.available.items()}
        return [values[arg] for arg in self.backward.args if arg in values]

    def _note(self, returned: Iterable[SSAValue]) -> func.ReturnOp:
        """Let the forward return the saved ones of these values; update ``hybrid.saved``."""
        saved = self._of_backward()
        residuals = [value for value in returned if value not in self.free]
        first = len(self.forward.body.block.args) + self.results
        index_of = self.free | {value: first + i for i, value in enumerate(residuals)}
        end = func.ReturnOp(*self.end.arguments[: self.results], *residuals)
        replace_op(self.end, end)
        for block in (self.forward.body.block, self.backward):
            function, last = block.parent_op(), block.last_op
            assert isinstance(function, func.FuncOp)
            assert last is not None
            function.function_type = FunctionType.from_lists(block.arg_types, [v.type for v in last.operands])
        saved_by = self.backward.parent_op()
        assert saved_by is not None
        SAVED.put(saved_by, [index_of[v] for v in saved])
        self.splicer.release()
        return end


def _elements(value: SSAValue) -> int:
    return volume(hybrid_shape(value))


def _bytes(values: Iterable[SSAValue]) -> int:
    return sum(map(byte_size, values))


def _undivided(values: Iterable[SSAValue]) -> list[SSAValue]:
    """The values, with several views replaced by their root where it is not larger than all of them together.

    Views would be copied to be saved.
    """
    views_of: dict[SSAValue, list[SSAValue]] = {}
    for value in values:
        source = value
        while isinstance(source.owner, HybridOp) and shows(source.owner):
            source = source.owner.operands[0]
        views_of.setdefault(source, []).append(value)
    undivided: list[SSAValue] = []
    for source, several in views_of.items():
        undivided += [source] if len(several) > 1 and byte_size(source) <= _bytes(several) else several
    return undivided


def shows(op: HybridOp) -> bool:
    """Whether the operation's result is a view of its operand, or a copy in another shape or order."""
    operator = op.operator
    return isinstance(operator, Movement) and operator.is_view() and len(op.operands) == 1


def _maker(value: SSAValue) -> HybridOp:
    """The operation that defines a value which is no argument."""
    assert isinstance(value.owner, HybridOp)
    return value.owner


def cost_again(value: SSAValue) -> int | None:
    """The cost of rematerialising a value from its operands, in additions an element; None if it is too high."""
    op = value.owner
    if not isinstance(op, HybridOp):
        return None
    if is_constant(op) or shows(op):
        return 0
    operator = op.operator
    if isinstance(operator, Movement) and operator.REARRANGES:
        return STEPS["cast"].cost  # a concatenation copies
    if not op.operands and operator.PURE and not operator.DRAWS and not operator.mutated:
        return 0  # computed from attributes alone
    if not isinstance(operator, Elementwise) or not operator.PURE or operator.DRAWS or operator.mutated:
        return None
    costs = [STEPS[str(step.step)].cost for step in record(operator, len(op.operands))[1]]
    return None if None in costs else sum(c for c in costs if c is not None)
