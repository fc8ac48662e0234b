"""Reverse-mode differentiation: a forward becomes one that also returns residuals, and a backward.

``@forward(x…) -> y…`` with the attribute ``hybrid.grads`` (indices of the inputs to differentiate) becomes
``@forward(x…) -> (y…, residuals…)`` and ``@backward(used x…, used y and residuals…, dy…) -> dx…``. The attribute
``hybrid.saved`` of ``@backward`` lists what its first arguments are: indices into the inputs of the forward and then
its results.

The attribute ``hybrid.heads`` of the forward lists the results from which gradients start, if these are not all: then
there is another function, ``@backward_of_heads(…, dy of these…) -> dx…``. What the forward saves is chosen for
``@backward`` alone, so it is the same forward whatever the heads are. A result whose gradient cannot be computed is
an error only where a gradient starts from it: ``@backward`` starts from the others, which its ``hybrid.heads`` lists.

The gradient of a table of which rows alone were taken is two results, rows and their numbers, in any order and with
repetitions; ``hybrid.rows`` of the backward lists these inputs. So its cost does not grow with the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass

from hybridc.dialects.error_context import raise_located
from hybridc.dialects.gradient import vjp
from hybridc.dialects.mlir.erase import replace_op
from hybridc.dialects.mlir.graph_notes import GRADS, HEADS, INTO, OUTPUTS, ROWS, SAVED, TRAINING
from hybridc.dialects.mlir.hybrid import HybridOp, hybrid_dtype, hybrid_shape, location_of
from hybridc.errors import MXNetError
from hybridc.ground.hooks import HOOKS
from hybridc.ground.records import dataclass
from hybridc.ir.facts import Fact, Needs
from hybridc.ir.values import constant_value, functions, graph_root, hybrid_ops, operands_first, result_count
from hybridc.trace.trace_to_graph import operations
from hybridc.trace.traced import TracedSymbol
from hybridc.trace.tracer import live_nodes
from hybridc.transforms.graph.splice import Splicer
from hybridc.transforms.graph.sum_gradients import sum_gradients

# Name of the backward from some results only, beside that from all.
OF_HEADS = "backward_of_heads"


@dataclass(frozen=True)
class Differentiate(ModulePass):
    """Reverse-mode differentiation by the operators' gradient rules."""

    name = "differentiate"
    needs: ClassVar[Needs] = frozenset((Fact.GRADIENTS,))

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            if GRADS.is_on(function):
                heads = HEADS.of(function)
                op.body.block.add_op(_from_all(function).build("backward"))
                if heads is not None:
                    op.body.block.add_op(_Backward(function, heads).build(OF_HEADS))


def _from_all(forward: func.FuncOp) -> _Backward:
    """The backward from all results that have a gradient."""
    every = range(result_count(forward))
    try:
        return _Backward(forward, every)
    except MXNetError:
        return _Backward(forward, [i for i in every if _has_gradient(forward, i)])


def _has_gradient(forward: func.FuncOp, head: int) -> bool:
    """Whether every operator between the inputs and a result has a gradient."""
    try:
        _Backward(forward, [head])
    except MXNetError:
        return False
    return True


class _Backward:
    """Builds the backward of one function from results of given indices."""

    def __init__(self, forward: func.FuncOp, chosen: Sequence[int]) -> None:
        self.forward = forward
        self.chosen = list(chosen)
        self.splicer = Splicer(TRAINING.of(forward))
        self.trace = self.splicer.trace
        self.grads: dict[SSAValue, list[TracedSymbol]] = {}  # of each value, to be added up
        self.locations: dict[int, Any] = {}
        self.wanted = GRADS.of(forward)
        self.rows: list[int] = []  # those of the wanted whose gradient is rows
        end = forward.body.block.last_op
        assert isinstance(end, func.ReturnOp)
        self.heads = [end.arguments[i] for i in self.chosen]
        self.ograds: list[TracedSymbol] = []
        self.results = self._gradients()

    def _gradients(self) -> list[TracedSymbol]:
        """The gradients of the inputs, as symbols of the trace: one each, or two where they are rows."""
        F = HOOKS.symbols()
        active = self._active()
        with self.trace.active():
            for i, head in enumerate(self.heads):
                self.ograds.append(self.trace.leaf(f"ograd{i}", hybrid_shape(head), hybrid_dtype(head), "value"))
                self._add(head, self.ograds[-1])
            for op in reversed(hybrid_ops(self.forward)):
                if any(r in self.grads for r in op.results) and any(v in active for v in op.operands):
                    self._differentiate(F, op, active)
            results: list[TracedSymbol] = []
            for i in self.wanted:
                value = self.forward.body.block.args[i]
                rows = self._rows(F, self.grads.get(value, ()))
                self.rows += [i] * bool(rows)
                results += rows or [self._sum(F, value)]
            return results

    def _active(self) -> set[SSAValue]:
        """The values that depend on an input to differentiate."""
        active: set[SSAValue] = {self.forward.body.block.args[i] for i in self.wanted}
        for op in hybrid_ops(self.forward):
            if any(v in active for v in op.operands):
                active.update(op.results)
        return active

    def _add(self, value: SSAValue, grad: TracedSymbol) -> None:
        self.grads.setdefault(value, []).append(grad)

    def _sum(self, F: Any, value: SSAValue) -> TracedSymbol:
        """The gradient of a value."""
        if value not in self.grads:
            return F.zeros(shape=hybrid_shape(value), dtype=hybrid_dtype(value))
        grads, start = self.grads[value], len(self.trace.nodes)
        self.grads[value] = [sum_gradients(F, grads)]
        for node in self.trace.nodes[start:]:  # where the last one comes from
            self.locations[id(node)] = self.locations.get(id(grads[-1].node))
        return self.grads[value][0]

    def _rows(self, F: Any, grads: Sequence[TracedSymbol]) -> list[TracedSymbol]:
        """The rows that are a gradient, and their numbers; nothing if it is not made of rows alone."""
        parts: list[tuple[TracedSymbol, TracedSymbol]] = []
        start = len(self.trace.nodes)
        for grad in grads:
            part = None if grad.node is None else grad.node.op.rows_added(F, *grad.node.inputs)
            if part is None:
                return []
            parts.append(part)
            for node in self.trace.nodes[start:]:
                self.locations[id(node)] = self.locations.get(id(grad.node))
            start = len(self.trace.nodes)
        if len(parts) < 2:
            return [*parts[0]] if parts else []
        return [F.concat(*several, dim=0) for several in zip(*parts, strict=True)]

    def _differentiate(self, F: Any, op: HybridOp, active: set[SSAValue]) -> None:
        operator = op.operator
        visible = op.results[: operator.num_visible_outputs()]
        ograds = [self._sum(F, r) for r in visible]
        inputs = [self.splicer.symbol(v) for v in op.operands]
        outputs = [self.splicer.symbol(r) for r in op.results]
        start = len(self.trace.nodes)
        try:
            grads = vjp(operator, F, ograds, inputs, outputs, [v in active for v in op.operands])
        except MXNetError as error:
            raise_located(error, location_of(op))
        for value, grad in zip(op.operands, grads, strict=True):
            if grad is not None:
                self._add(value, grad)
        for node in self.trace.nodes[start:]:
            self.locations[id(node)] = op.location

    def build(self, name: str) -> func.FuncOp:
        """The backward function; the forward returns what it needs."""
        visible = result_count(self.forward)
        nodes = live_nodes(self.trace.nodes, self.results)
        used = {id(s) for n in nodes for s in n.inputs} | {id(s) for s in self.results}
        wanted = [v for v, s in self.splicer.symbols.items() if id(s) in used]
        saved = list(dict.fromkeys(r for v in wanted if constant_value(r := graph_root(v)) is None))
        block = Block(arg_types=[v.type for v in saved] + [h.type for h in self.heads])
        known: dict[SSAValue, SSAValue] = {}
        for value, arg in zip(saved, block.args, strict=False):
            known[value] = arg
            arg.name_hint = value.name_hint
        values: dict[int, SSAValue] = {}
        for symbol, arg in zip(self.ograds, block.args[len(saved) :], strict=True):
            values[id(symbol)] = arg
            arg.name_hint = symbol.name
        for value in wanted:
            values[id(self.splicer.symbols[value])] = _again(value, known, block)
        for node, op in zip(nodes, operations(nodes, values), strict=True):
            op.location = self.locations.get(id(node)) or op.location
            block.add_op(op)
        outs = [values[id(s)] for s in self.results]
        block.add_op(func.ReturnOp(*outs))
        kind = FunctionType.from_lists([a.type for a in block.args], [o.type for o in outs])
        backward = func.FuncOp(name, kind, Region(block))
        INTO.put(backward, True)
        if self.rows:
            ROWS.put(backward, self.rows)
        SAVED.put(backward, self._return_saved(saved, visible))
        if len(self.chosen) < visible:
            HEADS.put(backward, self.chosen)
        if self.trace.training:
            TRAINING.put(backward, True)
        self.splicer.release()
        return backward

    def _return_saved(self, saved: list[SSAValue], visible: int) -> list[int]:
        """Let the forward return the intermediate values that the backward uses; their indices for ``hybrid.saved``."""
        block = self.forward.body.block
        args: list[SSAValue] = list(block.args)
        end = block.last_op
        assert isinstance(end, func.ReturnOp)
        returned = list(end.arguments)
        place = {value: i for i, value in reversed([*enumerate([*args, *returned])])}
        for value in saved:
            if value not in place:
                place[value] = len(args) + len(returned)
                returned.append(value)
        replace_op(end, func.ReturnOp(*returned))
        self.forward.function_type = FunctionType.from_lists([a.type for a in args], [r.type for r in returned])
        OUTPUTS.put(self.forward, visible)
        return [place[value] for value in saved]


def _again(value: SSAValue, known: dict[SSAValue, SSAValue], block: Block) -> SSAValue:
    """A forward value inside the backward: views and constants are cheaper to rematerialise than to save."""
    for op in operands_first(value, known.__contains__):
        copy = op.clone({v: known[v] for v in op.operands})
        block.add_op(copy)
        known[op.results[0]] = copy.results[0]
    return known[value]
