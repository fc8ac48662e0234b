"""Partition a graph for a backend: each part becomes one ``hybrid.subgraph`` operation with the part in its region.

A part grows from a seed that the partitioner selects, along operands and uses, as far as it selects the
neighbours. It must be *convex*: no path may leave it and come back, because a part runs as one operation. So
operations that depend on it through others are cut off, and may form another part. Finished parts
count as one operation. Constants are copied to their users; every other operand from outside is an argument, parameters
too, and every value that is used outside is a result.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, UnrankedTensorType
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from hybridc.dialects.body import Body, BodyStep
from hybridc.dialects.control.inner_graph import InnerGraphs
from hybridc.dialects.error_context import user_code
from hybridc.dialects.mlir.erase import erase_op
from hybridc.dialects.mlir.graph_notes import SYMBOL, TRAINING
from hybridc.dialects.mlir.hybrid import HybridOp, hybrid_dtype, hybrid_shape, location_of, tensor_type
from hybridc.dialects.stateful import CELL
from hybridc.errors import MXNetError
from hybridc.ground.records import dataclass
from hybridc.ir.values import functions, hybrid_ops, is_constant
from hybridc.subgraph import Part, Partitioner, backend_steps, partitioner
from hybridc.subgraph.subgraph_operator import Subgraph


@dataclass(frozen=True)
class PartitionGraph(ModulePass):
    """Apply a backend's partitioners and passes, in the order of their registration."""

    name = "partition-graph"

    backend: str = ""
    options: Mapping[str, Any] | None = None
    arrays: Mapping[str, Any] | None = None  # known values of arguments, by name

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for name, step in backend_steps(self.backend):
            self.apply_step(ctx, op, name, step)

    def apply_step(self, ctx: Context, op: ModuleOp, name: str, step: Any) -> None:
        """Apply one partitioner or pass of the backend."""
        options = dict(self.options or {})
        if isinstance(step, type) and issubclass(step, Partitioner):
            _partition(op, self.backend, name, options, dict(self.arrays or {}))
        else:
            _run_pass(ctx, op, self.backend, name, step, options)


def _run_pass(ctx: Context, module: ModuleOp, backend: str, name: str, step: Any, options: dict[str, Any]) -> None:
    where = f"backend {backend!r}: pass {name}"
    with user_code(where):
        if isinstance(step, type) and issubclass(step, ModulePass):
            result: Any = step(**options).apply(ctx, module)
        else:
            result = step(module, **options)
    if result is not None:
        raise MXNetError(f"{where} returned a {type(result).__name__}; a pass changes the module it gets in place")
    try:
        module.verify()
    except VerifyException as error:
        raise MXNetError(f"{where} left a graph that is not valid: {error}") from error


def _partition(module: ModuleOp, backend: str, name: str, options: dict[str, Any], arrays: dict[str, Any]) -> None:
    runner = partitioner(backend, name, options)
    runner.arrays = arrays
    with user_code(f"backend {backend!r}: {name}.begin"):
        runner.begin(module)
    for function in functions(module):
        attributes = {
            "backend": backend,
            "partitioner": name,
            "options": tuple(options.items()),
            "train": None if SYMBOL.of(function) else TRAINING.of(function),
        }
        parts = _Growth(function, runner, f"backend {backend!r}: {name}").parts()
        results = _results(function, parts)
        names = _free_names(function, runner.prefix or backend)
        accepted: list[_Outline] = []
        label = next(names)
        for ops, outputs in zip(parts, results, strict=True):
            outline = _Outline(ops, outputs, {"name": label, **attributes})
            if outline.reviewed(runner):
                accepted.append(outline)
                label = next(names)
        _put_together(function, [outline.ops for outline in accepted])
        replaced: dict[SSAValue, SSAValue] = {}
        for outline in accepted:
            outline.replace(replaced)


def _free_names(function: func.FuncOp, prefix: str) -> Iterator[str]:
    taken = {op.operator.attrs["name"] for op in hybrid_ops(function) if isinstance(op.operator, Subgraph)}
    return (name for name in (f"{prefix}{i}" for i in itertools.count()) if name not in taken)


class _Growth:
    """The parts of a function under construction."""

    def __init__(self, function: func.FuncOp, runner: Partitioner, who: str) -> None:
        self.runner = runner
        self.who = who
        # Loops of a symbol have no train mode before they run: a part, which has graphs of its own, cannot run them.
        undecided = InnerGraphs if SYMBOL.of(function) else ()
        self.ops = [op for op in hybrid_ops(function) if not is_constant(op) and not isinstance(op.operator, undecided)]
        self.order: dict[Operation, int] = {op: i for i, op in enumerate(self.ops)}
        self.part: dict[Operation, list[HybridOp]] = {}
        self.spans: list[tuple[int, int]] = []  # the first and last position of each part so far

    def parts(self) -> list[list[HybridOp]]:
        """All parts, each with its operations in order."""
        found: list[list[HybridOp]] = []
        for seed in self.ops:
            while seed not in self.part and self._selects("select", seed):
                part = self._convex(self._filtered(self._grown(seed)))
                if not part:
                    break
                self.part |= dict.fromkeys(part, part)
                self.spans.append((self.order[part[0]], self.order[part[-1]]))
                found.append(part)
        return found

    def _selects(self, method: str, *ops: HybridOp) -> bool:
        with user_code(f"{self.who}.{method}"):
            return bool(getattr(self.runner, method)(*ops))

    def _grown(self, seed: HybridOp) -> list[HybridOp]:
        """The operations reachable from the seed through neighbours that the partitioner selects."""
        found, work = {seed: None}, [seed]
        while work:
            op = work.pop(0)
            for method, neighbours in (("select_input", self._producers(op)), ("select_output", self._users(op))):
                for other in neighbours:
                    if other not in found and other not in self.part and self._selects(method, op, other):
                        found[other] = None
                        work.append(other)
        return list(found)

    def _filtered(self, ops: list[HybridOp]) -> list[HybridOp]:
        with user_code(f"{self.who}.filter"):
            kept = list(self.runner.filter(sorted(ops, key=self.order.__getitem__)))
        if not set(kept) <= set(ops):
            raise MXNetError(f"{self.who}.filter returned an operation that it was not given")
        return kept

    def _producers(self, op: HybridOp) -> list[HybridOp]:
        owners = dict.fromkeys(v.owner for v in op.operands)
        return [o for o in owners if isinstance(o, HybridOp) and o in self.order]

    def _users(self, op: HybridOp) -> list[HybridOp]:
        users = dict.fromkeys(u.operation for r in op.results for u in r.uses)
        return sorted((u for u in users if isinstance(u, HybridOp) and u in self.order), key=self.order.__getitem__)

    def _convex(self, ops: Sequence[HybridOp]) -> list[HybridOp]:
        """The connected operations around the first that form a convex part."""
        if not ops:
            return []
        inside = set[Operation](ops)
        span = self._span([self.order[op] for op in ops])
        after = self._reached(ops, inside, self._users, span)
        between = after & self._reached(ops, inside, self._producers, span)
        cut = self._reached(between, set(), self._users, span)
        kept = [op for op in ops if op not in cut]
        first = min(kept, key=self.order.__getitem__)
        return sorted(self._connected(first, set(kept)), key=self.order.__getitem__)

    def _span(self, places: Sequence[int]) -> tuple[int, int]:
        """The range of positions in which a path can leave these and come back, with parts that reach beyond it."""
        low, high = min(places), max(places)
        wider = True
        while wider:
            overlapping = [(b, e) for b, e in self.spans if b < high and e > low]
            wide = min([low, *[b for b, _ in overlapping]]), max([high, *[e for _, e in overlapping]])
            wider = wide != (low, high)
            low, high = wide
        return low, high

    def _reached(
        self, starts: Iterable[Operation], inside: set[Operation], step: Any, span: tuple[int, int]
    ) -> set[Operation]:
        """The operations outside that are reachable from the starts; finished parts are passed through."""
        reached: set[Operation] = set()
        work = list(starts)
        while work:
            for other in step(work.pop()):
                for each in self.part.get(other, [other]):
                    if each not in reached and each not in inside and span[0] <= self.order[each] <= span[1]:
                        reached.add(each)
                        work.append(each)
        return reached

    def _connected(self, first: HybridOp, kept: set[HybridOp]) -> set[HybridOp]:
        found, work = {first}, [first]
        while work:
            op = work.pop()
            near = [o for o in (*self._producers(op), *self._users(op)) if o in kept and o not in found]
            found |= set(near)
            work += near
        return found


class _Outline:
    """A part that becomes one operation: its operands, its body, its results."""

    def __init__(self, ops: list[HybridOp], results: Sequence[SSAValue], attributes: dict[str, Any]) -> None:
        self.ops = ops
        self.inside = set[Operation](ops)
        self.inputs = _inputs(ops, self.inside, results)
        numbers: dict[SSAValue, int] = {v: i for i, v in enumerate(self.inputs)}
        steps: list[BodyStep] = []
        self.constants = list(dict.fromkeys(v.owner for op in ops for v in op.operands if _is_number(v)))
        for op in (*self.constants, *ops):
            assert isinstance(op, HybridOp)
            hint = op.results[0].name_hint or ""
            step = BodyStep(op.operator, [numbers[v] for v in op.operands], len(numbers), location_of(op), hint)
            steps.append(step)
            numbers |= dict(zip(op.results, step.outputs, strict=True))
        # New values of inputs come last.
        updated = Body(len(self.inputs), steps, ()).updated()
        values = list(numbers)
        changed = [values[i] for i in updated.values()]
        self.outputs = [r for r in results if r not in changed] + changed
        body = Body(len(self.inputs), steps, [numbers[r] for r in self.outputs])
        names = tuple(_input_name(v, i) for i, v in enumerate(self.inputs))
        self.attributes = {"body": body, "arguments": names, "updates": tuple(updated), **attributes}

    def reviewed(self, runner: Partitioner) -> bool:
        """Whether the partitioner accepts it."""
        op = Subgraph.bind(**self.attributes)
        assert isinstance(op, Subgraph)
        shapes = [None if isinstance(v.type, UnrankedTensorType) else hybrid_shape(v) for v in self.inputs]
        part = Part(op, shapes, [hybrid_dtype(v) for v in self.inputs])
        where = f"backend {op.backend!r}: {op.partitioner}.review"
        with user_code(where):
            said: Any = runner.review(part)
        if said is True or said is False or said.__class__ is np.bool_:
            return bool(said)
        if not hasattr(said, "items"):
            raise MXNetError(f"{where} returned {said!r}; return True, False, or a dict of properties")
        self.attributes["properties"] = tuple((str(k), v) for k, v in said.items())
        return True

    def replace(self, replaced: dict[SSAValue, SSAValue]) -> None:
        """Replace the part by one operation; results of earlier parts have been replaced."""
        op = Subgraph.bind(**self.attributes)
        types = [v.type for v in self.outputs]
        types.insert(op.num_visible_outputs(), tensor_type((1,), CELL))
        inputs = [replaced.get(v, v) for v in self.inputs]
        made = HybridOp.build_op(op, inputs, location_of(self.ops[0]), types)
        Rewriter.insert_op(made, InsertPoint.after(self.ops[-1]))
        # The state of the operation lies between its results and the new values of inputs.
        places = [r for i, r in enumerate(made.results) if i != op.num_visible_outputs()]
        for old, new in zip(self.outputs, places, strict=True):
            new.name_hint = old.name_hint
            replaced[old] = new
            old.replace_uses_with_if(new, lambda use: use.operation not in self.inside)
        for each in reversed(self.ops):
            erase_op(each)
        for number in self.constants:
            if isinstance(number, Operation) and not number.results[0].uses:
                erase_op(number)


def _results(function: func.FuncOp, parts: list[list[HybridOp]]) -> list[list[SSAValue]]:
    """The results of each part that are used outside, in the order in which the graph needs them, as in MXNet."""
    owner: dict[Operation, int] = {op: i for i, part in enumerate(parts) for op in part}
    found: list[dict[SSAValue, None]] = [{} for _ in parts]
    block = function.body.block
    assert block.last_op is not None
    # Results that the graph's outputs do not depend on come last.
    uses = itertools.chain(_needed([block.last_op]), ((op, v) for op in block.ops for v in op.operands))
    for op, value in uses:
        part = owner.get(value.owner) if isinstance(value.owner, Operation) else None
        if part is not None and owner.get(op) != part:
            found[part][value] = None
    return [list(values) for values in found]


def _needed(ends: Sequence[Operation], inside: Collection[Operation] | None = None) -> Iterator[tuple[Operation, Any]]:
    """All uses of values that the ends depend on (through operations inside), in topological order."""
    seen: set[Operation] = set()
    for end in ends:
        stack = [(end, 0)]
        while stack:
            op, number = stack.pop()
            if number:
                yield op, op.operands[number - 1]
            elif op in seen:
                continue
            seen.add(op)
            if number < len(op.operands):
                stack.append((op, number + 1))
                source = op.operands[number].owner
                if isinstance(source, HybridOp) and (inside is None or source in inside):
                    stack.append((source, 0))


# COMPAT(mxnet): there an array that a part uses twice is two inputs of it, unless dedup_subgraph=True is given, and a
# result that is used inside the graph and is a result of the graph, too, may be taken for another one.
def _inputs(ops: list[HybridOp], inside: set[Operation], results: Sequence[SSAValue]) -> list[SSAValue]:
    """The operands, in the order in which the results need them, like a symbol's variables; random keys last."""
    ends = [v.owner for v in results if isinstance(v.owner, Operation)]
    uses = _needed([*ends, *ops], inside)
    found = dict.fromkeys(v for _, v in uses if v.owner not in inside and not _is_number(v))
    keys = {op.operands[-1] for op in ops if op.operator.DRAWS}
    return [v for v in found if v not in keys] + [v for v in found if v in keys]


def _is_number(value: SSAValue) -> bool:
    return isinstance(value.owner, HybridOp) and is_constant(value.owner)


def _input_name(value: SSAValue, number: int) -> str:
    if isinstance(value, BlockArgument) or value.name_hint:
        return value.name_hint or f"arg{value.index if isinstance(value, BlockArgument) else number}"
    assert isinstance(value.owner, HybridOp)
    return f"{value.owner.name.rpartition('.')[2]}{number}"


def _put_together(function: func.FuncOp, parts: list[list[HybridOp]]) -> None:
    """Topologically sort the operations so that those of a part are contiguous; stable otherwise."""
    block = function.body.block
    end = block.last_op
    assert end is not None
    unit: dict[Operation, list[Any]] = {op: [op] for op in block.ops if op is not end}
    unit |= {op: part for part in parts for op in part}
    ordered: dict[Operation, None] = {}
    for op in unit:
        stack = [(unit[op], False)]
        while stack:
            current, ready = stack.pop()
            if current[0] in ordered:
                continue
            if ready:
                ordered |= dict.fromkeys(current)
                continue
            stack.append((current, True))
            before = [unit[v.owner] for o in current for v in o.operands if v.owner in unit]
            stack += [(u, False) for u in reversed(before) if u is not current and u[0] not in ordered]
    for op in ordered:
        op.detach()
    block.insert_ops_before(list(ordered), end)
