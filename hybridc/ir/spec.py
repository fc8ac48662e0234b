"""The IR spec: the operations that each level allows, checked after every pass with ``HYBRIDC_VERIFY=1``.

A level is a function of a module: :func:`check_graph`, :func:`check_primitive`, :func:`check_structured`,
:func:`check_kernels`, :func:`check_planned`.
Each raises :class:`~hybridc.errors.VerifyError` at the first operation that does not belong, with the pass after which
the error context: pass, operation, user's line. Operand and result types are the operations' own verifiers' affair.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, cast

from xdsl.dialects import arith, func, tensor
from xdsl.dialects.builtin import (
    ModuleOp,
    TensorType,
)
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.passes import ModulePass

from hybridc.dialects.mlir import hybrid_rt
from hybridc.dialects.mlir.graph_notes import OPERATOR
from hybridc.dialects.mlir.hybrid import SIGNLESS, HybridOp, is_open, location_of
from hybridc.errors import VerifyError
from hybridc.ground.sizes import AffineIndex
from hybridc.ir import spec
from hybridc.ir.attention import attention_of
from hybridc.ir.concatenated import strides_in_whole
from hybridc.ir.kernels.kernel_module import KernelFunction
from hybridc.ir.kernels.kernel_notes import AXES, DOMAINS, GRID, LOOP_NEST
from hybridc.ir.structured import (
    VIEWS,
    affine_operands,
    body_fault,
    indirect_operands,
    loop_sizes,
    places_of,
    root,
    shape_of,
    slice_fault,
)
from hybridc.ir.values import functions, result_count

ELEMENTS = tuple(SIGNLESS.values())

TENSOR_OPERATIONS = (
    arith.ConstantOp,
    hybrid_rt.SizeOp,
    tensor.EmptyOp,
    tensor.CollapseShapeOp,
    tensor.ExpandShapeOp,
    tensor.ExtractSliceOp,
    tensor.InsertSliceOp,
    tensor.ConcatOp,
    linalg.FillOp,
    linalg.GenericOp,
    linalg.MatmulOp,
    linalg.TransposeOp,
    func.CallOp,
    func.ReturnOp,
)
IN_BODIES = (linalg.IndexOp, linalg.YieldOp, tensor.ExtractOp)  # in addition to all of arith and math
AROUND_KERNELS = (
    arith.ConstantOp,
    hybrid_rt.SizeOp,
    tensor.EmptyOp,
    tensor.CollapseShapeOp,
    tensor.ExpandShapeOp,
    tensor.ExtractSliceOp,
    tensor.ConcatOp,
    linalg.TransposeOp,
    func.CallOp,
    func.ReturnOp,
)
IN_KERNELS = (
    arith.ConstantOp,
    tensor.EmptyOp,
    linalg.FillOp,
    linalg.GenericOp,
    linalg.MatmulOp,
    func.ReturnOp,
)
PLANNED = (
    hybrid_rt.ArenaOp,
    hybrid_rt.KeptOp,
    hybrid_rt.ViewOp,
    hybrid_rt.AllocOp,
    hybrid_rt.StateOp,
    hybrid_rt.ConstantOp,
    hybrid_rt.AliasOp,
    hybrid_rt.DonatedOp,
    hybrid_rt.CopyOp,
    hybrid_rt.LaunchOp,
    func.ReturnOp,
)


def check_level(module: ModuleOp, level: str, after: str) -> None:
    """Raise unless the module is of that level; ``after`` is the pass that ran last."""
    _Check(level, after).run(module)


def level_after(name: str, before: str) -> str:
    """The level after a pass; most passes keep the level."""
    return REACHED.get(name, before)


# The passes that change the level (lowerings).
REACHED = {
    "decompose": "primitive",
    "hybrid-to-linalg": "structured",
    "fuse-kernels": "kernels",
    "plan-memory": "plan",
}


class _Check:
    def __init__(self, level: str, after: str) -> None:
        self.level = level
        self.after = after

    def run(self, module: ModuleOp) -> None:
        for op in module.ops:
            if not isinstance(op, func.FuncOp):
                self.fail(op, "a module holds functions only")
        LEVELS[self.level](self, module)

    def fail(self, op: Operation, why: str) -> NoReturn:
        """Name the pass, the operation, the user's line."""
        where = location_of(op)
        name = f"{op.name} at {where}" if where else op.name
        raise VerifyError(f"after {self.after}: {name} is not allowed on the {self.level} level: {why}")

    def only(self, function: func.FuncOp, allowed: Sequence[type[Operation]], what: str) -> None:
        """Check that every operation of the function is of one of these classes."""
        for op in function.body.block.ops:
            if not isinstance(op, tuple(allowed)):
                self.fail(op, f"a function holds {what}")


def check_graph(check: _Check, module: ModuleOp) -> None:
    """Operators in functions; arguments and results are tensors of static shape."""
    for function in functions(module):
        check.only(function, (HybridOp, func.ReturnOp), "operators and func.return")
        for value in function.body.block.args:
            _shape(check, function, value)
        for op in function.body.block.ops:
            for value in op.results:
                _shape(check, op, value)


def _shape(check: _Check, op: Operation, value: SSAValue) -> None:
    kind: Attribute = value.type
    if not isinstance(kind, TensorType) or is_open(value):
        check.fail(op, f"{kind!s} is not a tensor of static shape")


def check_primitive(check: _Check, module: ModuleOp) -> None:
    """As the graph level, without composite operators."""
    check_graph(check, module)
    for function in functions(module):
        for op in function.body.block.ops:
            if isinstance(op, HybridOp) and op.operator.decomposes():
                check.fail(op, "it is a composite operator; decompose replaces it by primitive ones")


# --- structured -------------------------------------------------------------------------------------------


def check_structured(check: _Check, module: ModuleOp) -> None:
    """Upstream's dialects: ``linalg`` on tensors, bodies in ``arith`` and ``math``, declared host functions.

    Shapes are static, integers signless. An indexing map is a projected permutation, or of affine sums of loops that
    stay inside their operand; the result's is the former.
    """
    called = {f.sym_name.data for f in functions(module) if isinstance(f, KernelFunction) or not f.body.blocks}
    for function in functions(module):
        if isinstance(function, KernelFunction):  # made earlier
            continue
        if not function.body.blocks:
            _host(check, function)
            continue
        for value in function.body.block.args:
            _type(check, function, value)
        for op in function.body.block.ops:
            if not isinstance(op, TENSOR_OPERATIONS):
                check.fail(op, "a function holds linalg, tensor, constants, func.call and func.return")
            if isinstance(op, func.CallOp) and op.callee.string_value() not in called:
                check.fail(op, f"@{op.callee.string_value()} is not a declared host function")
            for value in op.results:
                _type(check, op, value)
            if isinstance(op, linalg.GenericOp):
                _generic(check, op)
            _slice(check, op)


def _affine_reads(check: _Check, op: linalg.GenericOp) -> Mapping[int, tuple[AffineIndex, ...]]:
    try:
        return affine_operands(op)
    except ValueError as error:
        check.fail(op, str(error))


def _host(check: _Check, function: func.FuncOp) -> None:
    if function.sym_visibility is None or not OPERATOR.is_on(function):
        check.fail(function, "a function without a body is private and says in hybrid.operator what the host computes")


def _type(check: _Check, op: Operation, value: SSAValue) -> None:
    kind: Attribute = value.type
    if isinstance(kind, TensorType):
        shaped = cast(TensorType[Any], kind)
        if any(n < 0 for n in shaped.get_shape()):
            check.fail(op, f"{kind} has a dynamic shape")
        kind = shaped.get_element_type()
    if kind not in ELEMENTS:
        check.fail(op, f"{kind} is neither a float nor a signless integer of 1, 8, 32 or 64 bits")


def _slice(check: _Check, op: Operation) -> None:
    if (why := slice_fault(op)) is not None:
        check.fail(op, why)


def _generic(check: _Check, op: linalg.GenericOp) -> None:
    if (why := body_fault(op)) is not None:
        check.fail(op, why)
    loops = len(op.iterator_types)
    places = places_of(op)
    if {loop for place in places for loop in place} != set(range(loops)):
        check.fail(op, "no operand bounds the range of one of its loops")
    sizes = loop_sizes(op, places)
    for position, index in _affine_reads(check, op).items():
        for axis, (affine, size) in enumerate(zip(index, shape_of(op.operands[position]), strict=True)):
            low, high = affine.ends(sizes)
            if 0 not in sizes and not 0 <= low <= high < size:
                check.fail(op, f"operand {position} is read from {low} to {high} along axis {axis}, of {size} elements")
    (out,) = [m.data for m in op.indexing_maps.data[len(op.inputs) :]]
    parallel = {i for i, kind in enumerate(op.iterator_types.data) if kind.data is IteratorType.PARALLEL}
    if parallel != {e.position for e in out.results if isinstance(e, AffineDimExpr)}:
        check.fail(op, "its parallel loops are not those of its result")
    for inner in op.body.block.ops:
        if not isinstance(inner, IN_BODIES) and inner.name.partition(".")[0] not in ("arith", "math"):
            check.fail(inner, "a body holds arith, math, linalg.index, tensor.extract and linalg.yield")


# --- kernels and plan -------------------------------------------------------------------------------------


def check_kernels(check: _Check, module: ModuleOp) -> None:
    """Functions that call kernels and the host, views and constants; kernels have loops, and no views.

    A function returns fresh arrays, each once: no argument, no constant, no view of these.
    """
    private = _kernels(check, module)
    for function in functions(module):
        if function.sym_visibility is not None:
            continue
        check.only(function, AROUND_KERNELS, "calls of kernels and of the host, views, concatenation and constants")
        for op in function.body.block.ops:
            if isinstance(op, func.CallOp) and op.callee.string_value() not in private:
                check.fail(op, f"@{op.callee.string_value()} is neither a kernel nor a declared host function")
            if isinstance(op, tensor.EmptyOp) and not all(isinstance(u.operation, VIEWS) for u in op.tensor.uses):
                check.fail(op, "outside of kernels an empty tensor may only be the result of a transpose")
            for value in op.operands if isinstance(op, tensor.ConcatOp) else ():
                if not isinstance(root(value).owner, func.CallOp | tensor.ConcatOp) or strides_in_whole(value) is None:
                    check.fail(op, "an operand is not the result of a kernel for this concatenation alone")
            for value in op.results:
                _type(check, op, value)
            _slice(check, op)
        _returned(check, function)


def _returned(check: _Check, function: func.FuncOp) -> None:
    end = function.body.block.last_op
    assert end is not None
    arrays: set[SSAValue] = set()
    for position, value in enumerate(end.operands):
        while isinstance(value.owner, VIEWS):
            value = value.owner.operands[0]
        visible = position < result_count(function)
        if visible and (value in arrays or not isinstance(value.owner, func.CallOp | tensor.ConcatOp)):
            check.fail(end, f"result {position} is not a fresh array")
        arrays.add(value)


def check_planned(check: _Check, module: ModuleOp) -> None:
    """Memory and launches in public functions; kernels as on the level above."""
    _kernels(check, module)
    for function in functions(module):
        if function.sym_visibility is None:
            check.only(function, PLANNED, "memory, launches and func.return")


def _kernels(check: _Check, module: ModuleOp) -> set[str]:
    """The names of the private functions: kernels and host functions."""
    names: set[str] = set()
    for function in functions(module):
        if function.sym_visibility is None:
            continue
        names.add(function.sym_name.data)
        if not function.body.blocks:
            _host(check, function)
            continue
        check.only(function, IN_KERNELS, "linalg ops, constants and empty tensors")
        contractions: list[int] = []
        for op in function.body.block.ops:
            for value in op.results:
                _type(check, op, value)
            if isinstance(op, linalg.GenericOp):
                _generic(check, op)
                for value in indirect_operands(op):
                    if value.owner is not function.body.block:
                        check.fail(op, "its body reads at computed indices an array that is no argument of the kernel")
            if isinstance(op, linalg.GenericOp | linalg.MatmulOp) and _loops(check, function, op):
                contractions.append(LOOP_NEST.of(op))
        if len(set(contractions)) < len(contractions):
            check.fail(function, "a loop nest has more than one contraction")
        _grid(check, function)
        if not isinstance(function, KernelFunction):
            check.fail(function, "a function with a body is a kernel, whose iteration spaces are in hybrid.domains")
        if function.kernel.attention and attention_of(function.kernel) is None:
            check.fail(function, "it is no attention, nor its backward, of the rows and keys in hybrid.attention")
    return names


def _loops(check: _Check, kernel: func.FuncOp, op: linalg.GenericOp | linalg.MatmulOp) -> bool:
    """Check that each loop is summed, or an axis of its nest's iteration space; True if the op is a contraction."""
    domains, nest = [*map(list, DOMAINS.of(kernel))], LOOP_NEST.of(op)
    if nest >= len(domains):
        check.fail(op, f"@{kernel.sym_name.data} has {len(domains)} iteration spaces, but this op is of nest {nest}")
    axes, domain = [*AXES.of(op)], domains[nest]
    maps = places_of(op)
    sizes = loop_sizes(op, maps)
    contracts = len(op.inputs) > 1 and len(sizes) > len(maps[-1])
    if len(axes) != len(sizes):
        check.fail(op, f"it has {len(sizes)} loops, but hybrid.axes is {axes}")
    for loop, axis in enumerate(axes):
        summed = contracts and loop not in maps[-1]
        if summed != (axis < 0) or axis >= len(domain) or (axis >= 0 and sizes[loop] != domain[axis]):
            check.fail(op, f"loop {loop} of size {sizes[loop]} is not axis {axis} of the iteration space {domain}")
    if len({a for a in axes if a >= 0}) < sum(a >= 0 for a in axes):
        check.fail(op, f"two loops have the same axis: hybrid.axes is {axes}")
    return contracts


def _grid(check: _Check, kernel: func.FuncOp) -> None:
    """Check that the parallel axes of a grid have the same sizes in all loop nests of a kernel."""
    if not GRID.is_on(kernel):
        return
    domains, axes = [[*map(list, note.of(kernel))] for note in (DOMAINS, GRID)]
    sizes = {tuple(domain[a] for a in own) for domain, own in zip(domains, axes, strict=False)}
    if len(axes) != len(domains) or len(sizes) > 1:
        check.fail(kernel, f"hybrid.grid {axes} does not name axes of equal sizes in the iteration spaces {domains}")


LEVELS: dict[str, Callable[[_Check, ModuleOp], None]] = {
    "graph": check_graph,
    "primitive": check_primitive,
    "structured": check_structured,
    "kernels": check_kernels,
    "plan": check_planned,
}


# --- verification after each pass -------------------------------------------------------------------------------------


class Verifier:
    """Verifies the functions of a module that changed since the last time; checks the level of all if any did.

    ``passes`` are those that were run on it before.
    """

    def __init__(self, module: ModuleOp, passes: Sequence[ModulePass]) -> None:
        self._module = module
        self._level = functools.reduce(lambda level, step: spec.level_after(step.name, level), passes, "graph")
        self._known: dict[Operation, list[Any]] = {}

    def verify(self, after: str) -> None:
        """Raise unless the module is valid on the level to which the pass ``after`` brings it."""
        level = spec.level_after(after, self._level)
        snapshots = {function: _parts(function) for function in self._module.ops}
        changed = [f for f, parts in snapshots.items() if not _are(parts, self._known.get(f, ()))]
        if level == self._level and not changed and len(snapshots) == len(self._known):
            return
        for function in changed:
            function.verify()
        self._module.verify(verify_nested_ops=False)
        spec.check_level(self._module, level, after)
        self._level, self._known = level, snapshots


def _parts(function: Operation) -> list[Any]:
    """A snapshot of everything in a function, in order. Attributes and types are immutable."""
    parts: list[Any] = []
    for op in function.walk():
        parts += (op, op.parent, *op.operands, *op.successors)
        parts += (*op.attributes, *op.attributes.values(), *op.properties, *op.properties.values())
        parts += [result.type for result in op.results]
        for region in op.regions:
            parts.append(region)
            for block in region.blocks:
                parts += (block, *(argument.type for argument in block.args))
    return parts


def _are(parts: Sequence[Any], known: Sequence[Any]) -> bool:
    """Whether two snapshots hold identical objects."""
    return len(parts) == len(known) and all(map(operator.is_, parts, known))
