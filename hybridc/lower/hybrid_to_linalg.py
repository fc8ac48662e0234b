"""From the graph of primitive operators to the structured form: ``linalg``, ``tensor``, ``arith``, ``math``, ``func``.

Every operator is asked for what it is, by its kind:

* ``Elementwise``: a ``linalg.generic`` whose body is the ``scalar`` body; operands broadcast by their indexing maps;
* ``Reduction``: a ``linalg.generic`` with reduction loops, from the neutral element of ``COMBINE``;
* ``Contraction``: ``linalg.matmul`` where ``loops`` say so, else the ``linalg.generic`` that they say;
* any other with a ``move``: reshapes, slices, transposes, gathers;
* the rest, and steps that upstream lacks: ``func.call`` of a private function without a body. This is a call of the
  host; the function's attributes say of what.

Upstream integers have no sign, so unsigned arrays are passed as signless ones and read by unsigned operations.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
)
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.passes import ModulePass

from hybridc.dialects.body import Body
from hybridc.dialects.hybrid import HandleAttr, HybridOp, dtype_of, location_of, shape_of
from hybridc.dialects.operator import Contraction, Elementwise, Operator, Reduction
from hybridc.dialects.scalar import Recorder, Scalar
from hybridc.dialects.upstream import HOST
from hybridc.errors import VerifyError
from hybridc.lower.hybrid_to_linalg_body import HALF, SINGLE, Element
from hybridc.lower.hybrid_to_linalg_tensor import Builder, Tensor, first, maps, segments, structured_type
from hybridc.trace.structure import as_list
from hybridc.transforms.values import constant_value, functions

MATMUL = ((0, 2), (2, 1), (0, 1))  # the loops of linalg.matmul


@dataclass(frozen=True)
class HybridToLinalg(ModulePass):
    """See the module's docstring."""

    name = "hybrid-to-linalg"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        hosts = _Hosts({f.sym_name.data for f in functions(op)})
        for function in functions(op):
            if function.body.blocks:
                _Structure(function, hosts).run()
        op.body.block.add_ops(hosts.declarations.values())


@dataclass
class _Hosts:
    """The functions of the host that are called, each declared once."""

    taken: set[str]
    declarations: dict[Any, func.FuncOp] = field(default_factory=lambda: dict[Any, func.FuncOp]())

    def declare(self, op: HybridOp, kind: FunctionType) -> func.FuncOp:
        """The declaration of the function that computes this operation."""
        attributes = DictionaryAttr(op.attributes)
        key = (op.name, attributes, kind)
        if op.regions or key not in self.declarations:
            key = (key, op) if op.regions else key
            self.declarations[key] = self._declaration(op, attributes, kind)
        return self.declarations[key]

    def _declaration(self, op: HybridOp, attributes: DictionaryAttr, kind: FunctionType) -> func.FuncOp:
        base = f"host_{op.name.replace('.', '_').removeprefix('hybrid_')}"
        name, number = base, 0
        while name in self.taken:
            number += 1
            name = f"{base}_{number}"
        self.taken.add(name)
        declared = func.FuncOp(name, kind, Region(), "private")
        declared.attributes["hybrid.operator"] = StringAttr(op.name)
        bodies = {k: HandleAttr(v) for k, v in op.operator.attrs.items() if isinstance(v, Body)}
        declared.attributes["hybrid.attributes"] = DictionaryAttr({**attributes.data, **bodies})
        declared.attributes |= _hidden_dtypes([*op.operands, *op.results])
        declared.location = op.location
        return declared


class _Structure:
    """One function, rewritten."""

    def __init__(self, function: func.FuncOp, hosts: _Hosts) -> None:
        self.function = function
        self.hosts = hosts
        self.old = function.body.block
        self.tensors: dict[SSAValue, Tensor] = {}
        self.block = Block(arg_types=[_type_of(a) for a in self.old.args])
        self.builder = Builder(self.block)

    def run(self) -> None:
        for old, new in zip(self.old.args, self.block.args, strict=True):
            new.name_hint = old.name_hint
            self.tensors[old] = self.builder.tensor(new, shape_of(old), dtype_of(old))
        for op in list(self.old.ops):
            self.builder.location = op.location
            if isinstance(op, HybridOp):
                self._operator(op)
            elif isinstance(op, func.ReturnOp):
                self.builder.add(func.ReturnOp, [self.tensors[v].value for v in op.arguments], [])
            else:
                raise VerifyError(f"hybrid-to-linalg: {op.name} is no operator of a graph")
        results = [_type_of(v) for v in self._returned()]
        self.function.attributes |= _hidden_dtypes([*self.old.args, *self._returned()])
        self.function.function_type = FunctionType.from_lists([a.type for a in self.block.args], results)
        region = self.function.body
        region.add_block(self.block)
        region.erase_block(self.old, safe_erase=False)

    def _returned(self) -> list[SSAValue]:
        end = self.old.last_op
        assert isinstance(end, func.ReturnOp)
        return list(end.arguments)

    def _operator(self, op: HybridOp) -> None:
        operator = op.operator
        number = constant_value(op.results[0]) if len(op.results) == 1 else None
        if number is not None:
            self.tensors[op.results[0]] = Tensor((), dtype_of(op.results[0]), self.builder, number=number)
            return
        if operator.decomposes():
            raise VerifyError(
                f"hybrid-to-linalg: {operator!r} ({location_of(op)}) is not primitive; run decompose before"
            )
        inputs = [self.tensors[v] for v in op.operands]
        out = Tensor(shape_of(op.results[0]), dtype_of(op.results[0]), self.builder) if op.results else None
        made = self._structured(operator, inputs, out) if out is not None else None
        for result, tensor in zip(op.results, self._call(op, inputs) if made is None else made, strict=True):
            self.tensors[result] = tensor
            if tensor.made is not None and tensor.made.name_hint is None:
                tensor.made.name_hint = result.name_hint

    def _structured(self, operator: Operator, inputs: list[Tensor], out: Tensor) -> list[Tensor] | None:
        """The results as operations on tensors; None if only the host can compute them."""
        match operator:
            case Elementwise():
                made = self._elementwise(operator, inputs, out)
            case Reduction():
                made = self._reduce(operator, inputs[0], out)
            case Contraction():
                made = self._contract(operator, inputs, out)
            case _:
                made = operator.move(self.builder, *inputs)
        return None if made is None else as_list(made)

    # --- kinds ---------------------------------------------------------------------------------------------

    def _elementwise(self, operator: Elementwise, inputs: list[Tensor], out: Tensor) -> Tensor | None:
        recorder = Recorder()
        recorded: Any = operator.scalar(recorder, *[Scalar(None, (), i) for i in range(len(inputs))])
        if any(s.step in HOST for s in recorder.steps):
            return None
        if not isinstance(recorded, Scalar):
            return self.builder.fill(out.shape, out.dtype, recorded)
        if recorded.step is None:
            same = inputs[recorded.index]
            if (same.shape, same.dtype) == (out.shape, out.dtype):
                return same
        arrays = [x for x in inputs if x.number is None]

        def body(b: Any, *elements: Element) -> Any:
            given = iter(elements)
            xs = [next(given) if x.number is None else b.constant(x.number, x.dtype) for x in inputs]
            return operator.scalar(b, *xs)

        return self.builder.generic([self.builder.read(x, out.shape) for x in arrays], out, body)

    def _reduce(self, operator: Reduction, x: Tensor, out: Tensor) -> Tensor:
        combine = operator.COMBINE
        rank = len(x.shape)
        axes = operator.axes(rank)
        kept = tuple(i for i in range(rank) if i not in axes)
        wide = SINGLE if x.dtype == HALF and combine in ("add", "mul") else x.dtype
        shape = tuple(x.shape[i] for i in kept)
        start = self.builder.fill(shape, wide, _neutral(combine, wide))

        def body(b: Any, element: Element, sofar: Element) -> Any:
            return getattr(b, combine)(sofar, b.convert(element, wide))

        given = [(x.value, tuple(range(rank)), x.dtype)]
        core = Tensor(shape, wide, self.builder)
        core = self.builder.generic(given, core, body, loops=rank, out_places=kept, init=start.value)
        core = self._cast(core, out.dtype)
        if not operator.keepdims:
            return self.builder.reshape(core, out.shape)
        return Tensor(out.shape, out.dtype, self.builder, core=core, axes=kept)

    def _cast(self, x: Tensor, dtype: Any) -> Tensor:
        if x.dtype == dtype:
            return x
        out = Tensor(x.shape, dtype, self.builder)
        return self.builder.generic([self.builder.read(x, x.shape)], out, first)

    def _contract(self, operator: Contraction, inputs: list[Tensor], out: Tensor) -> Tensor:
        left, right = inputs
        lhs, rhs, result = operator.loops(len(left.shape))
        wide = SINGLE if out.dtype == HALF else out.dtype
        start = self.builder.fill(out.shape, wide, 0)
        product = Tensor(out.shape, wide, self.builder)
        if 0 in left.shape or 0 in right.shape:  # nothing to sum
            return self._cast(start, out.dtype)

        def body(b: Any, x: Element, y: Element, sofar: Element) -> Any:
            return b.add(sofar, b.mul(b.convert(x, wide), b.convert(y, wide)))

        if (lhs, rhs, result) == MATMUL and wide == out.dtype:
            operands, dtypes = [left.value, right.value], [out.dtype] * 3
            return self.builder.named(linalg.MatmulOp, operands, dtypes, start.value, product, body, **_matmul())
        given = [(left.value, lhs, left.dtype), (right.value, rhs, right.dtype)]
        loops = 1 + max(*lhs, *rhs)
        made = self.builder.generic(given, product, body, loops=loops, out_places=result, init=start.value)
        return self._cast(made, out.dtype)

    def _call(self, op: HybridOp, inputs: list[Tensor]) -> list[Tensor]:
        """The host computes it."""
        results = [_type_of(r) for r in op.results]
        kind = FunctionType.from_lists([_type_of(v) for v in op.operands], results)
        callee = SymbolRefAttr(self.hosts.declare(op, kind).sym_name.data)
        made = self.builder.add(func.CallOp, [x.value for x in inputs], results, {"callee": callee})
        return [self.builder.tensor(v, shape_of(r), dtype_of(r)) for v, r in zip(made.results, op.results, strict=True)]


@functools.cache
def _matmul() -> dict[str, Attribute]:
    """The properties of every linalg.matmul."""
    return {"indexing_maps": maps(3, MATMUL), "operandSegmentSizes": segments(2, 1)}


def _type_of(value: SSAValue) -> Attribute:
    return structured_type(shape_of(value), dtype_of(value))


def _hidden_dtypes(values: list[SSAValue]) -> dict[str, Attribute]:
    """The dtypes of arguments and results, where upstream types do not say them: of unsigned integers and states."""
    names = [dtype_of(v).name for v in values]
    hidden = any(n == "object" or n.startswith("uint") for n in names)
    return {"hybrid.dtypes": ArrayAttr([StringAttr(n) for n in names])} if hidden else {}


def _neutral(combine: str, dtype: np.dtype[Any]) -> Any:
    """The element that combined with another gives that other."""
    if combine in ("add", "mul"):
        return 0 if combine == "add" else 1
    if dtype.kind == "f":
        return float("-inf") if combine == "max" else float("inf")
    if dtype.kind == "b":
        return int(combine == "min")
    limits = np.iinfo(dtype)
    return int(limits.min if combine == "max" else limits.max)
