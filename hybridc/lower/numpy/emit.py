"""A planned program as one Python module: a function for every kernel, ``workspace()`` and the program itself.

``workspace()`` makes the arena and everything in it, once for many calls; the program takes it and the inputs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import SSAValue

from hybridc.dialects import registry
from hybridc.dialects.hybrid import dtype_of, element_dtype, from_attribute, location_of, shape_of
from hybridc.dialects.hybrid_rt import AliasOp, AllocOp, ArenaOp, CellOp, ConstantOp, LaunchOp, ViewOp
from hybridc.dialects.operator import Opaque, Operator
from hybridc.lower.numpy.emit_kernel import KernelEmitter
from hybridc.lower.numpy.schedule import is_fused
from hybridc.runtime.buffers import SMALLEST
from hybridc.trace.location import Location
from hybridc.transforms.tile_kernels import aligned
from hybridc.transforms.values import constant_value, functions, hybrid_ops, is_constant, volume


@dataclass
class Program:
    """Generated source and what running it needs."""

    name: str
    source: str
    scope: dict[str, Any]
    arena: int
    launches: list[str] = field(default_factory=lambda: list[str]())
    host_calls: list[str] = field(default_factory=lambda: list[str]())


def emit(module: ModuleOp, name: str, threads: int) -> Program:
    """The Python program of the planned function ``name``."""
    return _ProgramEmitter(module, name, threads).run()


class _ProgramEmitter:
    def __init__(self, module: ModuleOp, name: str, threads: int) -> None:
        self.kernels = {f.sym_name.data: f for f in functions(module) if f.sym_visibility is not None}
        self.function = next(f for f in functions(module) if f.sym_name.data == name)
        self.threads = threads
        self.program = Program(name, "", {"np": np}, 0)
        self.emitters: dict[str, KernelEmitter] = {}
        self.names: dict[SSAValue, str] = {}
        self.static: set[SSAValue] = set()  # values of the arena, made once with the workspace
        self.setup: list[str] = []
        self.body: list[str] = []
        self.kept: list[str] = []

    def run(self) -> Program:
        block = self.function.body.block
        for i, arg in enumerate(block.args):
            self.names[arg] = f"{arg.name_hint}" if arg.name_hint else f"arg{i}"
        self._unique([*block.args])
        for op in block.ops:
            match op:
                case ArenaOp():
                    self.program.arena = op.size
                    self.names[op.memory] = "arena"
                    self.static.add(op.memory)
                case ViewOp():
                    self._view(op)
                case AllocOp():
                    self._alloc(op)
                case CellOp():
                    self._define_static(op.array, f"np.empty({_shape(op.array)}, object)")
                case ConstantOp():
                    number = np.asarray(from_attribute(op.value), _dtype(op.array))
                    self.names[op.array] = self._bind(number, "c")
                case AliasOp():
                    self._alias(op)
                case LaunchOp():
                    self._launch(op)
                case func.ReturnOp():
                    results = "".join(f"{self.names[v]}, " for v in op.arguments)
                    self.body.append(f"return ({results})")
                case _:
                    raise TypeError(f"{op.name} in a planned program")
        self.program.source = self._source([self.names[a] for a in block.args])
        return self.program

    def _unique(self, values: list[SSAValue]) -> None:
        taken = {"np", "special", "parallel", "arena", "empty", "into", "ws"}
        for value in values:
            name, number = self.names[value], 1
            while self.names[value] in taken:
                self.names[value] = f"{name}_{number}"
                number += 1
            taken.add(self.names[value])

    def _source(self, args: list[str]) -> str:
        parts: list[str] = []
        header = ["import numpy as np"]
        kernels = [e.source() for e in self.emitters.values()]
        text = "\n".join(kernels)
        if "special." in text:
            header.append("from hybridc.runtime import special")
        if any(" = empty(" in line for line in self.body):
            header.append("from hybridc.runtime.buffers import empty")
        if "parallel(" in text:
            header.append("from hybridc.runtime.threads import parallel")
        header += [f"# {n} = {v!r}" for n, v in self.program.scope.items() if isinstance(v, Operator)]
        parts.append("\n".join(header) + "\n")
        parts += kernels
        kept = "".join(f"{n}, " for n in self.kept)
        setup = [f"arena = np.empty({self.program.arena}, np.uint8)", *self.setup, f"return ({kept})"]
        parts.append("def workspace():\n" + "".join(f"    {line}\n" for line in setup))
        unpack = [f"({kept}) = ws"] if self.kept else []
        into = ["into"] if "hybrid.into" in self.function.attributes else []
        parameters = ", ".join(["ws", *into, *args])
        parts.append(
            f"def {self.program.name}({parameters}):\n" + "".join(f"    {line}\n" for line in [*unpack, *self.body])
        )
        return "\n\n".join(parts)

    # --- values --------------------------------------------------------------------------------------------

    def _bind(self, value: Any, prefix: str) -> str:
        """A name of the module for an object that has no source form."""
        for name, known in self.program.scope.items():
            if known is value:
                return name
        number = 0
        while f"{prefix}{number}" in self.program.scope:
            number += 1
        self.program.scope[f"{prefix}{number}"] = value
        return f"{prefix}{number}"

    def _operator(self, operator: Operator) -> str:
        return self._bind(operator, f"{operator.NAME.rpartition('.')[2]}_")

    def _define(self, value: SSAValue, expression: str, prefix: str) -> str:
        name = self.names[value] = f"{prefix}{len(self.names)}"
        self.body.append(f"{name} = {expression}")
        return name

    def _define_static(self, value: SSAValue, expression: str) -> None:
        name = self.names[value] = f"v{len(self.names)}"
        self.static.add(value)
        self.setup.append(f"{name} = {expression}")
        self.kept.append(name)

    def _alloc(self, op: AllocOp) -> None:
        shape, dtype = _shape(op.array), _dtype(op.array)
        large = volume(shape) * dtype.itemsize >= SMALLEST
        fresh = f"{'' if large else 'np.'}empty({shape}, {dtype.name!r})"
        place = self._place(op)
        self._define(op.array, f"{fresh} if {place} is None else {place}" if place else fresh, "y")

    def _place(self, op: AllocOp) -> str | None:
        """Where the caller may want this result: it is one of the program's results, as it is."""
        end = self.function.body.block.last_op
        if "hybrid.into" not in self.function.attributes or end is None or op.array not in end.operands:
            return None
        return f"into[{list(end.operands).index(op.array)}]"

    def _view(self, op: ViewOp) -> None:
        if all(isinstance(u.operation, LaunchOp) and u.operation.scratch is op.array for u in op.array.uses):
            return  # scratch is cut up where its kernel is known
        self._define_static(op.array, _array(op.offset.value.data, _dtype(op.array), _shape(op.array)))

    def _alias(self, op: AliasOp) -> None:
        attributes = {k: from_attribute(a) for k, a in op.attributes.items()}
        operator = registry.operator(op.view.data).bind(**attributes)
        expression = f"{self._operator(operator)}.eager({self.names[op.array]})"
        if op.array in self.static:
            self._define_static(op.result, expression)
        else:
            self._define(op.result, expression, "a")

    # --- launches ------------------------------------------------------------------------------------------

    def _launch(self, op: LaunchOp) -> None:
        name = op.kernel.string_value()
        kernel = self.kernels[name]
        ins = [self.names[v] for v in op.ins]
        outs = [self.names[v] for v in op.outs]
        self.program.launches.append(name)
        if not is_fused(kernel):
            self._single(kernel, ins, outs, location_of(op))
            return
        if name not in self.emitters:
            self.emitters[name] = KernelEmitter(kernel, self.threads, self._operator)
        scratch = [self._scratch(op, self.emitters[name])] if op.scratch is not None else []
        if not scratch and self.emitters[name].loops.threads > 1:
            scratch = [repr(((),) * self.emitters[name].loops.threads)]
        self.body.append(f"{name}({', '.join([*ins, *outs, *scratch])})")

    def _scratch(self, op: LaunchOp, emitter: KernelEmitter) -> str:
        """The scratch of a launch: a tuple of arrays, or one such tuple for every thread."""
        assert op.scratch is not None
        assert isinstance(op.scratch.owner, ViewOp)
        offset = op.scratch.owner.offset.value.data
        threads: list[str] = []
        for _ in range(emitter.loops.threads):
            arrays: list[str] = []
            for dtype, shape in emitter.scratch_shapes():
                arrays.append(_array(offset, dtype, shape))
                offset += aligned(volume(shape) * dtype.itemsize)
            threads.append(f"({', '.join(arrays)},)")
        name = f"s{len(self.kept)}"
        self.setup.append(f"{name} = {threads[0] if len(threads) == 1 else '(' + ', '.join(threads) + ')'}")
        self.kept.append(name)
        return name

    def _single(self, kernel: func.FuncOp, ins: list[str], outs: list[str], launched: Location | None) -> None:
        """A kernel of one operator that NumPy or the host computes: a bound ``eager_out``."""
        (op,) = [o for o in hybrid_ops(kernel) if not is_constant(o)]
        given: dict[SSAValue, str] = dict(zip(kernel.body.block.args, ins, strict=True))
        operands: list[str] = []
        for value in op.operands:
            number = constant_value(value)
            operands.append(given[value] if number is None else self._constant(value, number))
        operator = op.operator
        where = launched or location_of(op)  # a shared kernel knows the line of its first launch only
        if isinstance(operator, Opaque):
            self.program.host_calls.append(f"{operator!r}" + (f" at {where}" if where else ""))
        end = kernel.body.block.last_op
        assert end is not None
        results = [outs[list(end.operands).index(r)] if r in list(end.operands) else None for r in op.results]
        given_outs = "".join(
            f"{r if r is not None else f'np.empty({shape_of(v)}, {dtype_of(v).name!r})'}, "
            for r, v in zip(results, op.results, strict=True)
        )
        comment = f"  # {where}" if where else ""
        self.body.append(f"{self._operator(operator)}.eager_out({', '.join([f'({given_outs})', *operands])}){comment}")

    def _constant(self, value: SSAValue, number: Any) -> str:
        return self._bind(np.asarray(number, dtype_of(value)), "c")


def _shape(value: SSAValue) -> tuple[int, ...]:
    return tuple(cast(MemRefType[Any], value.type).get_shape())


def _dtype(value: SSAValue) -> np.dtype[Any]:
    return element_dtype(cast(MemRefType[Any], value.type).element_type)


def _array(offset: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    size = volume(shape) * dtype.itemsize
    return f"arena[{offset}:{offset + size}].view({dtype.name!r}).reshape({shape})"
