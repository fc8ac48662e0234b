"""The callable of a hybridized block with a hook for its operators: they run one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybridc.array.ndarray import NDArray
from hybridc.gluon.export import symbol_with_values
from hybridc.gluon.hybridize.cached_graph import CachedGraph, Signature
from hybridc.ground.nesting import flatten, regroup
from hybridc.symbol.graph import SymbolNode
from hybridc.symbol.running.bind import evaluate


class MonitoredGraph(CachedGraph):
    """Calls ``callback(name, operator, array)`` with every operator's results, and inputs with ``monitor_all``."""

    def __init__(self, block: Any, callback: Callable[[str, str, NDArray], Any], monitor_all: bool) -> None:
        super().__init__(block)
        self._callback = callback
        self._monitor_all = monitor_all

    def _run(self, key: Signature, arrays: tuple[NDArray, ...], args: tuple[Any, ...]) -> Any:
        entry = self._entry(key, args)
        structure = flatten(list(args), NDArray, "the arguments")[1]
        symbol, values = symbol_with_values(self._block(), entry.trace, structure, arrays)
        internals = symbol.get_internals()
        results = evaluate(internals.entries, values)
        found = {(id(node), i): value for (node, i), value in zip(internals.entries, results, strict=True)}
        for node in {id(node): node for node, _ in internals.entries}.values():
            self._show(node, found)
        outputs = [found[id(node), i] for node, i in symbol.entries]
        return outputs[0] if type(entry.trace.structure) is int else regroup(outputs, entry.trace.structure)

    def _show(self, node: SymbolNode, found: dict[tuple[int, int], NDArray]) -> None:
        """Call the hook for one operator."""
        if node.op is None:
            return
        operator = node.op.nnvm_name()
        if self._monitor_all:
            for name, (source, i) in zip(node.op.input_names(), node.inputs, strict=False):
                if (id(source), i) in found:  # numbers are none
                    self._callback(f"{node.name}_{name}", operator, found[id(source), i])
        for i, name in enumerate(node.output_names()):
            self._callback(name, operator, found[id(node), i])
