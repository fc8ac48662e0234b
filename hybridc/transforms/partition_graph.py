"""Let a backend have its parts of the graph: each becomes one ``hybrid.subgraph`` with the part in its region.

A part grows from an operation that the partitioner selects, along operands and uses, as far as it selects the
neighbours. It must be *convex*: no path may leave it and come back, because a part runs as one operation. So what
comes after an operation that lies between is cut off, and may become a part of its own. Parts that are formed already
count as one operation. Numbers belong to whoever uses them; everything else that flows in is an argument, parameters
too, and everything that is used outside is a result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, UnrankedTensorType
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from hybridc.dialects.body import Body, Step
from hybridc.dialects.hybrid import HybridOp, dtype_of, location_of, shape_of, tensor_type
from hybridc.dialects.stateful import CELL
from hybridc.dialects.subgraph import Subgraph
from hybridc.errors import MXNetError
from hybridc.runtime.custom_call import user_code
from hybridc.subgraph import Part, Partitioner, backend_steps, partitioner
from hybridc.transforms.values import functions, hybrid_ops, is_constant


@dataclass(frozen=True)
class PartitionGraph(ModulePass):
    """Apply a backend's partitioners and passes, in the order of their registration."""

    name = "partition-graph"

    backend: str = ""
    options: Mapping[str, Any] | None = None
    arrays: Mapping[str, Any] | None = None  # what is known of the arguments' values, by name

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
        parts = _Growth(function, runner, f"backend {backend!r}: {name}").parts()
        taken = {op.operator.attrs["name"] for op in hybrid_ops(function) if isinstance(op.operator, Subgraph)}
        for ops in parts:
            prefix = runner.prefix or backend
            number = next(n for n in range(len(taken) + 1) if f"{prefix}{n}" not in taken)
            attributes = {
                "name": f"{prefix}{number}",
                "backend": backend,
                "partitioner": name,
                "options": tuple(options.items()),
                "train": None if "hybrid.symbol" in function.attributes else "hybrid.training" in function.attributes,
            }
            if _replace(ops, attributes, runner):
                taken.add(attributes["name"])


class _Growth:
    """The parts of a function while they are being found."""

    def __init__(self, function: func.FuncOp, runner: Partitioner, who: str) -> None:
        self.runner = runner
        self.who = who
        self.ops = [op for op in hybrid_ops(function) if not is_constant(op)]
        self.order: dict[Operation, int] = {op: i for i, op in enumerate(self.ops)}
        self.part: dict[Operation, list[HybridOp]] = {}

    def parts(self) -> list[list[HybridOp]]:
        """All parts, each with its operations in order."""
        found: list[list[HybridOp]] = []
        for seed in self.ops:
            while seed not in self.part and self._selects("select", seed):
                part = self._convex(self._filtered(self._grown(seed)))
                if not part:
                    break
                self.part |= dict.fromkeys(part, part)
                found.append(part)
        return found

    def _selects(self, method: str, *ops: HybridOp) -> bool:
        with user_code(f"{self.who}.{method}"):
            return bool(getattr(self.runner, method)(*ops))

    def _grown(self, seed: HybridOp) -> list[HybridOp]:
        """The operations that can be reached from the seed through neighbours that the partitioner selects."""
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
        if any(op not in ops for op in kept):
            raise MXNetError(f"{self.who}.filter returned an operation that it was not given")
        return kept

    def _producers(self, op: HybridOp) -> list[HybridOp]:
        owners = dict.fromkeys(v.owner for v in op.operands)
        return [o for o in owners if isinstance(o, HybridOp) and o in self.order]

    def _users(self, op: HybridOp) -> list[HybridOp]:
        users = dict.fromkeys(u.operation for r in op.results for u in r.uses)
        return sorted((u for u in users if isinstance(u, HybridOp)), key=self.order.__getitem__)

    def _convex(self, ops: Sequence[HybridOp]) -> list[HybridOp]:
        """The connected operations around the first that no path leaves and comes back to."""
        if not ops:
            return []
        inside = set[Operation](ops)
        after = self._reached(ops, inside, self._users)
        between = after & self._reached(ops, inside, self._producers)
        cut = self._reached(between, set(), self._users)
        kept = [op for op in ops if op not in cut]
        first = min(kept, key=self.order.__getitem__)
        return sorted(self._connected(first, set(kept)), key=self.order.__getitem__)

    def _reached(self, starts: Iterable[Operation], inside: set[Operation], step: Any) -> set[Operation]:
        """The operations outside that a path from the starts leads to; a part that is met is left by all its ways."""
        reached: set[Operation] = set()
        work = list(starts)
        while work:
            for other in step(work.pop()):
                for each in self.part.get(other, [other]):
                    if each not in reached and each not in inside:
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


def _replace(ops: list[HybridOp], attributes: dict[str, Any], runner: Partitioner) -> bool:
    """Put the operations into one, if the review takes them."""
    inside = set[Operation](ops)
    inputs, body, outputs, updates = _outline(ops, inside)
    names = tuple(_input_name(v, i) for i, v in enumerate(inputs))
    op = Subgraph.bind(body=body, arguments=names, updates=updates, **attributes)
    assert isinstance(op, Subgraph)
    shapes = [None if isinstance(v.type, UnrankedTensorType) else shape_of(v) for v in inputs]
    part = Part(op, shapes, [dtype_of(v) for v in inputs])
    where = f"backend {op.backend!r}: {op.partitioner}.review"
    with user_code(where):
        said: Any = runner.review(part)
    if isinstance(said, bool | np.bool_) and not said:
        return False
    if not isinstance(said, bool | np.bool_):
        op = Subgraph.bind(**{**op.attrs, "properties": _properties(where, said)})
    _gather(ops, inside)
    types = [v.type for v in outputs]
    types.insert(op.num_visible_outputs(), tensor_type((1,), CELL))
    made = HybridOp.build_op(op, inputs, location_of(ops[0]), types)
    Rewriter.insert_op(made, InsertPoint.after(ops[-1]))
    # The state of the operation lies between its results and the new values of inputs.
    places = [r for i, r in enumerate(made.results) if i != op.num_visible_outputs()]
    for old, new in zip(outputs, places, strict=True):
        new.name_hint = old.name_hint
        old.replace_uses_with_if(new, lambda use: use.operation not in inside)
    numbers = [v.owner for op in ops for v in op.operands if _is_number(v)]
    for each in reversed(ops):
        Rewriter.erase_op(each)
    for number in dict.fromkeys(numbers):
        if isinstance(number, Operation) and not number.results[0].uses:
            Rewriter.erase_op(number)
    return True


def _properties(where: str, said: Any) -> tuple[tuple[str, Any], ...]:
    if not hasattr(said, "items"):
        raise MXNetError(f"{where} returned {said!r}; return True, False, or a dict of properties")
    return tuple((str(k), v) for k, v in said.items())


def _outline(ops: list[HybridOp], inside: set[Operation]) -> tuple[list[SSAValue], Body, list[SSAValue], Any]:
    """What flows in, the body, what flows out, and the inputs whose new values come last there."""
    inputs = _inputs(ops, inside)
    numbers: dict[SSAValue, int] = {v: i for i, v in enumerate(inputs)}
    steps: list[Step] = []
    constants = dict.fromkeys(v.owner for op in ops for v in op.operands if _is_number(v))
    for op in (*constants, *ops):
        assert isinstance(op, HybridOp)
        hint = op.results[0].name_hint or ""
        step = Step(op.operator, [numbers[v] for v in op.operands], len(numbers), location_of(op), hint)
        steps.append(step)
        numbers |= dict(zip(op.results, step.outputs, strict=True))
    latest = Body(len(inputs), steps, ()).updated()
    values = list(numbers)
    changed = [values[i] for i in latest.values()]
    outputs = [r for r in _used_outside(ops, inside) if r not in changed] + changed
    return inputs, Body(len(inputs), steps, [numbers[r] for r in outputs]), outputs, tuple(latest)


def _used_outside(ops: list[HybridOp], inside: set[Operation]) -> list[SSAValue]:
    """The results that others use, in the order in which the graph needs them, as MXNet orders them."""
    block = ops[0].parent
    assert block is not None
    assert block.last_op is not None
    found = [v for op, v in _needed([block.last_op]) if v.owner in inside and op not in inside]
    # Some may be used by nothing that the graph returns.
    others = [v for op in block.ops if op not in inside for v in op.operands if v.owner in inside]
    return list(dict.fromkeys([*found, *others]))


def _needed(ends: Sequence[Operation], inside: Collection[Operation] | None = None) -> Iterator[tuple[Operation, Any]]:
    """Every use of a value that the ends depend on (through operations inside): after all uses that it depends on."""
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


def _inputs(ops: list[HybridOp], inside: set[Operation]) -> list[SSAValue]:
    """What flows in, in the order in which the results need it, as the variables of a symbol are; random keys last."""
    ends = [v.owner for v in _used_outside(ops, inside) if isinstance(v.owner, Operation)]
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


def _gather(ops: list[HybridOp], inside: set[Operation]) -> None:
    """Move what depends on the part, and stands between its operations, behind the last of them."""
    dependent = set(inside)
    place: Operation = ops[-1]
    block = place.parent
    assert block is not None
    all_ops = list(block.ops)
    for op in all_ops[all_ops.index(ops[0]) : all_ops.index(ops[-1])]:
        if op not in inside and any(v.owner in dependent for v in op.operands):
            dependent.add(op)
            op.detach()
            Rewriter.insert_op(op, InsertPoint.after(place))
            place = op
