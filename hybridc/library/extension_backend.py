"""Partitioners and graph passes of libraries as backends: what is between the dialect and nnvm's JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation

from hybridc.array.ndarray import NDArray
from hybridc.dialects import operator_registry
from hybridc.dialects.mlir.graph_notes import TRAINING, UPDATES
from hybridc.dialects.mlir.hybrid import HybridOp, hybrid_dtype, hybrid_element_dtype, hybrid_shape
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.errors import MXNetError
from hybridc.ir.values import functions, result_count
from hybridc.library.extension import LibraryOp
from hybridc.library.extension_call import Call, ExtensionState
from hybridc.library.extension_compute import Plan
from hybridc.library.extension_graph import LibraryPass, Selector, Strategy
from hybridc.library.extension_json import types_text, without_types, write
from hybridc.library.extension_operator import Held
from hybridc.subgraph import Part, Partitioner, register_partitioner, register_pass
from hybridc.symbol.composed import load_json
from hybridc.symbol.graph import topological
from hybridc.symbol.running.bind import evaluate
from hybridc.symbol.symbol_to_graph import function_nodes, roles_of
from hybridc.trace.trace_to_graph import trace_to_graph
from hybridc.trace.tracer import Trace

_JSON = "subgraph_sym_json"
# What MXNet itself runs when a strategy names it: here the part is computed as hybridc would.
_CACHED_OP = "_CachedOp"
# What a library says of a node that it does not support, and of one that may join any subgraph.
_UNSUPPORTED, _ANY = -2, -1


def _texts(options: Mapping[str, Any]) -> dict[str, str]:
    return {k: str(v) for k, v in options.items()}


# --- partitioners ------------------------------------------------------------------------------------------


class LibraryPartitioner(Partitioner):
    """One strategy of a library's partitioner: its operator runs the parts that its functions choose."""

    STRATEGY: ClassVar[Strategy]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._texts = _texts(options)
        self._numbers: dict[Operation, int] = {}
        self._groups: list[int] = []
        self._selector: Selector | None = None
        self._arguments: dict[str, bool] = {}  # names of the graph's inputs, and whether operators update them
        self._reviewed = 0

    # --- which operations --------------------------------------------------------------------------------

    def begin(self, module: ModuleOp) -> None:
        """Let the library look at the graph as a whole."""
        function = functions(module)[0]
        made = function_nodes(function)
        written = write(function, made)
        self._numbers = written.numbers
        states = {
            id(node.inputs[i][0]) for node in made.nodes.values() if node.op is not None for i in node.op.auxiliary()
        }
        self._arguments = {n.name: id(n) in states for n in made.arguments if n is not None}
        if self.STRATEGY.create_selector:
            self._selector = self.STRATEGY.selector(written.text, self._texts)
        else:
            self._groups = self.STRATEGY.supported(written.text, len(written.graph["nodes"]), self._texts)

    def match(self, op: HybridOp) -> bool:
        """Whether the operation is in a subgraph of the library's."""
        return op in self._numbers and self._groups[self._numbers[op]] != _UNSUPPORTED

    def select(self, op: HybridOp) -> bool:
        """Whether a part may start here."""
        if self._selector is None:
            return self.match(op)
        return op in self._numbers and self._selector.select(self._numbers[op])

    def _joins(self, op: HybridOp, other: HybridOp) -> bool:
        """Whether the other operation is in the same subgraph, or may join any."""
        if not self.match(other):
            return False
        group = self._groups[self._numbers[other]]
        return group in (_ANY, self._groups[self._numbers[op]])

    def select_input(self, op: HybridOp, producer: HybridOp) -> bool:
        """Whether the part may take what gives one of the inputs."""
        if self._selector is None:
            return self._joins(op, producer)
        known = op in self._numbers and producer in self._numbers
        return known and self._selector.select_input(self._numbers[op], self._numbers[producer])

    def select_output(self, op: HybridOp, user: HybridOp) -> bool:
        """Whether the part may take what uses a result."""
        if self._selector is None:
            return self._joins(op, user)
        known = op in self._numbers and user in self._numbers
        return known and self._selector.select_output(self._numbers[op], self._numbers[user])

    def filter(self, ops: Sequence[HybridOp]) -> Sequence[HybridOp]:
        """The library's copy of them."""
        if self._selector is None:
            return ops
        kept = set(self._selector.filter([self._numbers[op] for op in ops]))
        self._selector.reset()
        return [op for op in ops if self._numbers[op] in kept]

    def review(self, part: Part) -> bool | Mapping[str, Any]:
        """Whether the library accepts the partition; its answer goes to its operator, with the partition as JSON."""
        function = functions(part.module)[0]
        made = function_nodes(function)
        for node, name in zip(made.arguments, part.arguments, strict=True):
            if node is None:
                continue
            is_argument = name in self._arguments
            is_state = is_argument and self._arguments[name]
            node.name = f"{name}0" if is_argument else f"{name}_output0"
            node.attrs = {"isArg": str(is_argument and not is_state), "isAux": str(is_state)}
            if is_argument:
                node.attrs["argName"] = name
        text = write(function, made).text
        number, self._reviewed = self._reviewed, self._reviewed + 1
        # The arrays under the names of the graph, and under those of the part.
        groups: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        for name in part.arguments:
            if name in self.arrays and name in self._arguments:
                array = self.arrays[name].asnative()
                groups[self._arguments[name]].update({name: array, f"{name}0": array})
        said = self.STRATEGY.accepts(text, number, self._texts, *groups)
        return False if said is None else {**said, _JSON: text}

    # --- running -------------------------------------------------------------------------------------------

    def _operator(self) -> LibraryOp | None:
        """The operator that runs parts; None if hybridc shall."""
        strategy = self.STRATEGY
        if strategy.op == _CACHED_OP:
            return None
        for op in strategy.library.ops:
            if op.name == strategy.op and op.is_subgraph:
                return op
        raise MXNetError(
            f"partitioner '{strategy.partitioner}' strategy '{strategy.name}' wants the operator '{strategy.op}' to "
            "run subgraphs, but its library has no subgraph operator of this name (setIsSubgraphOp)"
        )

    # COMPAT(mxnet): there an array that a part uses twice is two inputs of it, unless dedup_subgraph=True; here one.
    def create(self, part: Part) -> _Runner | None:
        """The library's operator for one use of the part."""
        op = self._operator()
        return None if op is None else _Runner(op, part)

    def run(self, part: Part, *arrays: NDArray) -> Any:
        """The results of the library's operator."""
        return part(*arrays) if part.state is None else part.state.run(arrays)


class _Runner:
    """A library's operator that runs one part of a graph, with its state."""

    def __init__(self, op: LibraryOp, part: Part) -> None:
        function = functions(part.module)[0]
        made = function_nodes(function)
        results = function.function_type.outputs.data[: result_count(function)]
        outs = [_described(t) for t in results]
        # The operator gets its inputs in the order of the variables in the JSON.
        places = {id(node): i for i, node in enumerate(made.arguments) if node is not None}
        self._order = [places[id(n)] for n in topological(made.entries) if n.is_variable]
        types = [_described(a.type) for a in function.body.block.args]
        ins = [types[i] for i in self._order]
        attributes = {**types_text(outs), **part.properties}
        if _JSON not in attributes:  # the part comes from a file
            attributes[_JSON] = write(function, made).text
        self._call = Call(op, sorted(attributes.items()), (len(ins), len(outs)))
        self._state: ExtensionState = self._call.create_state([s for s, _ in ins], [d for _, d in ins])
        self._plan = Plan(self._call, None, tuple(ins), tuple(outs), "FStatefulCompute")

    def run(self, arrays: Sequence[NDArray]) -> list[NDArray]:
        """The results of a forward."""
        results = self._plan.results()
        self._plan.run([arrays[i].asnative() for i in self._order], results, self._state.forward, self._state.pointer)
        return [NDArray(r) for r in results]


def _described(kind: Any) -> tuple[Shape, DType]:
    tensor = cast(TensorType[Any], kind)
    return tuple(tensor.get_shape()), hybrid_element_dtype(tensor.element_type)


# --- graph passes ------------------------------------------------------------------------------------------


class PassOfLibrary:
    """A graph pass of a library: as a function of the module, or of a symbol and its arrays."""

    def __init__(self, graph_pass: LibraryPass) -> None:
        self._pass = graph_pass
        self.__name__ = graph_pass.name

    def symbol(self, symbol: Any, options: Mapping[str, Any], arguments: Any, states: Any) -> Any:
        """The new symbol; arrays that the pass makes are added to the dicts of arguments and auxiliary states."""
        known = [_natives(arguments), _natives(states)]
        text, *made = self._pass.run(symbol.tojson(), _texts(options), *known)
        for target, arrays in zip((arguments, states), made, strict=True):
            if target is not None:
                target.update({name: NDArray(array) for name, array in arrays.items()})
        return load_json(text)

    def __call__(self, module: ModuleOp, **options: Any) -> None:
        """Rewrite the module; arrays that the pass makes become constants of it."""
        function = functions(module)[0]
        made = function_nodes(function)
        text, arguments, states = self._pass.run(write(function, made).text, _texts(options), {}, {})
        symbol = load_json(without_types(text))
        trace = Trace(TRAINING.of(function))
        trace.track_locations = False
        values: dict[str, Any] = {}
        for node, argument, role in zip(made.arguments, function.body.block.args, roles_of(function), strict=True):
            if node is None:
                trace.key()
                continue
            leaf = trace.leaf(argument.name_hint or node.name, hybrid_shape(argument), hybrid_dtype(argument), role)
            values[node.name] = leaf
        constant = operator_registry.operator("extension.array")
        for name, array in {**arguments, **states}.items():
            values[name] = trace.emit(constant.bind(held=Held(array)), [], None)[0]
        with trace.active():
            results = evaluate(symbol.entries, values)
        trace.finish(results)
        self._replace(function, functions(trace_to_graph(trace))[0])

    def _replace(self, function: func.FuncOp, new: func.FuncOp) -> None:
        """Put the new body into the function, whose inputs, results and updates must be the same."""
        before, after = function.function_type, new.function_type
        if before != after or UPDATES.of(function) != UPDATES.of(new):
            raise MXNetError(
                f"graph pass '{self._pass.name}' made {after} of {before}; in a block a pass must keep the number and "
                "types of inputs and results, and which inputs are updated"
            )
        old, block = function.body.block, new.body.block
        function.body.detach_block(old)
        new.body.detach_block(block)
        function.body.add_block(block)
        old.erase()


def _natives(arrays: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: x.asnative() for name, x in (arrays or {}).items()}


# --- the registry ------------------------------------------------------------------------------------------


def define(partitioners: Mapping[str, Sequence[Strategy]], passes: Sequence[LibraryPass]) -> None:
    """Enter the backends of a library."""
    for backend, strategies in partitioners.items():
        for strategy in strategies:
            strategy.check()
            body = {
                "STRATEGY": strategy,
                "prefix": "_op",
                "operator": "" if strategy.op == _CACHED_OP else strategy.op,
                "__module__": __name__,
                "__doc__": f"Strategy of {strategy.library.path}.",
            }
            register_partitioner(backend)(type(strategy.name, (LibraryPartitioner,), body))
    for graph_pass in passes:
        register_pass(graph_pass.name)(PassOfLibrary(graph_pass))
