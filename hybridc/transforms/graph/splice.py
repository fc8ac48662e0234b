"""Rewriting with ``F``: passes record operators on symbols of IR values, as a forward function does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from hybridc.dialects.mlir.erase import replace_op
from hybridc.dialects.mlir.graph_notes import TRAINING
from hybridc.dialects.mlir.hybrid import HybridOp, hybrid_dtype, hybrid_shape
from hybridc.ground.hooks import HOOKS
from hybridc.ground.nesting import as_list
from hybridc.ir.values import constant_value, functions, hybrid_ops
from hybridc.trace.trace_to_graph import operations
from hybridc.trace.traced import TracedSymbol
from hybridc.trace.tracer import Trace, TraceNode


def rewrite(module: ModuleOp, step: Callable[[Splicer, HybridOp], list[Operation] | None]) -> None:
    """Apply ``step`` to every operation of every function, and to its replacements, to a fixed point."""
    for function in functions(module):
        splicer = Splicer(TRAINING.of(function))
        work = hybrid_ops(function)[::-1]
        while work:
            ops = step(splicer, work.pop())
            work += [op for op in reversed(ops or []) if isinstance(op, HybridOp)]
        splicer.release()


class Splicer:
    """Maps IR values to symbols, and inserts the operators recorded on these into the IR."""

    def __init__(self, training: bool = False) -> None:
        self.trace = Trace(training)
        self.trace.track_locations = False
        self.symbols: dict[SSAValue, TracedSymbol] = {}
        self._values: dict[int, SSAValue] = {}  # by the identities of symbols, which live as long as this object
        self._past: list[TraceNode] = []  # what was recorded before

    def release(self) -> None:
        """Forget all symbols."""
        self.trace.nodes += self._past
        self.trace.release()

    def symbol(self, value: SSAValue) -> TracedSymbol:
        """The symbol of an IR value."""
        if value not in self.symbols:
            symbol = self.trace.leaf("value", hybrid_shape(value), hybrid_dtype(value), "value", constant_value(value))
            self.symbols[value] = symbol
            self._values[id(symbol)] = value
        return self.symbols[value]

    def value(self, symbol: TracedSymbol) -> SSAValue:
        """The IR value of a symbol that was inserted already."""
        return self._values[id(symbol)]

    def splice(self, before: Operation) -> list[Operation]:
        """Insert all that was recorded since the last time before ``before``, with its location."""
        self.trace.constants.clear()  # constants here need not dominate later uses
        ops = operations(self._recorded(), self._values)
        for op in ops:
            op.location = before.location
        Rewriter.insert_op(ops, InsertPoint.before(before))
        return ops

    def _recorded(self) -> list[TraceNode]:
        """All that was recorded since the last time."""
        nodes, self.trace.nodes = self.trace.nodes, []
        self._past += nodes
        return nodes

    def splice_for(self, symbol: TracedSymbol, before: Operation) -> None:
        """Insert what a recorded symbol needs, as :meth:`splice` does; the rest may be inserted later."""
        wanted = {id(symbol)}
        needed: list[TraceNode] = []
        rest: list[TraceNode] = []
        for node in reversed(self.trace.nodes):
            if any(id(s) in wanted for s in node.outputs):
                wanted.update(id(s) for s in node.inputs)
                needed.append(node)
            else:
                rest.append(node)
        self.trace.nodes = needed[::-1]
        self.splice(before)
        self.trace.nodes = rest[::-1]

    def replace(self, op: HybridOp, build: Callable[[Any, Sequence[TracedSymbol]], Any]) -> list[Operation] | None:
        """Replace an operation by what ``build(F, inputs)`` records; None, and no change, if it returns None."""
        F = HOOKS.symbols()
        with self.trace.active():
            new = build(F, [self.symbol(v) for v in op.operands])
        if new is None:
            self._recorded()
            return None
        symbols = as_list(new)
        if any(not isinstance(s, TracedSymbol) for s in symbols):
            with self.trace.active():
                symbols = [
                    s if isinstance(s, TracedSymbol) else self.trace.constant(s, hybrid_dtype(r))
                    for s, r in zip(symbols, op.results, strict=True)
                ]
        if [(s.shape, s._dtype) for s in symbols] != [(hybrid_shape(r), hybrid_dtype(r)) for r in op.results]:
            self._recorded()
            return None
        ops = self.splice(op)
        replace_op(op, [], [self.value(s) for s in symbols])
        return ops
