"""A planned program as one Python module: functions for its kernels, ``workspace(arena)`` and the program itself.

``workspace`` makes what lies in an arena, once for many calls; the program takes that and the inputs. Kernels
whose Python is the same, apart from their names and what their docstrings tell, share one function.
"""

from __future__ import annotations

import ast
import keyword
import re
from dataclasses import field
from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from hybridc.dialects.mlir.graph_notes import INTO, UPDATES
from hybridc.dialects.mlir.hybrid import hybrid_dtype, hybrid_shape, location_of
from hybridc.dialects.mlir.hybrid_rt import (
    AliasOp,
    AllocOp,
    ArenaOp,
    ConstantOp,
    CopyOp,
    DonatedOp,
    LaunchOp,
    StateOp,
    ViewOp,
)
from hybridc.dialects.operator import Operator
from hybridc.dtypes import kind_of
from hybridc.ground.buffers import SMALLEST
from hybridc.ground.location import Location
from hybridc.ground.quoting import one_line, required_name
from hybridc.ground.records import dataclass
from hybridc.ir.kernels.kernel_module import KernelFunction
from hybridc.ir.kernels.kernel_notes import STRIDED
from hybridc.ir.planned import Program
from hybridc.ir.structured import arrays_of, handwritten_kernel, numbers_in
from hybridc.ir.values import volume
from hybridc.lower.emit_planned import ProgramEmitter, check_launch, comment, written_over
from hybridc.lower.numpy.grid_printer import printer_of
from hybridc.lower.numpy.kernel_printer import KernelPrinter
from hybridc.lower.poison import Bytes
from hybridc.options import OPTIONS
from hybridc.trace.trace_to_graph import identifier
from hybridc.transforms.code.array_code import ArrayCodes

_CALLS = ("call_out", "run_kernel")  # the methods of operators that a program calls
_OURS = re.compile(r"[acsvy]\d+|\w+_\d+")  # names that the emitter makes


@dataclass
class PythonProgram(Program):
    """A Python module; ``scope`` holds what its source names besides."""

    suffix = "py"

    scope: dict[str, Any] = field(default_factory=lambda: dict[str, Any]())

    def launched(self) -> list[tuple[str, str]]:
        """For each launch its line, and the function of its kernel."""
        parts = {f.name: f for f in ast.parse(self.source).body if isinstance(f, ast.FunctionDef)}
        lines = self.source.splitlines()
        calls = [s.value for s in parts[self.name].body if isinstance(s, ast.Expr) and self.is_launch(s)]
        launched: list[tuple[str, str]] = []
        for name, call in zip(self.launches, calls, strict=True):
            part = parts.get(self.functions.get(name, ""))
            text = "" if part is None else "\n".join(lines[part.lineno - 1 : part.end_lineno])
            launched.append((lines[call.lineno - 1].strip(), text))
        return launched

    @staticmethod
    def is_launch(statement: ast.stmt) -> bool:
        """Whether a line of a program runs a kernel or the host."""
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call):
            return False
        return isinstance(call.func, ast.Name) or (isinstance(call.func, ast.Attribute) and call.func.attr in _CALLS)


def emit_python_program(module: ModuleOp, name: str, codes: ArrayCodes, poison: bool = OPTIONS.poison) -> PythonProgram:
    """The Python program of the planned function ``name``; with ``poison``, memory that holds nothing holds NaN.

    ``codes`` has the code of the module's kernels, or chooses it.
    """
    return _ModuleEmitter(module, name, codes, poison).run()


class _ModuleEmitter(ProgramEmitter):
    def __init__(self, module: ModuleOp, name: str, codes: ArrayCodes, poison: bool) -> None:
        self.program = PythonProgram(required_name(name), "", 0, scope={"np": np})
        super().__init__(module, self.program, poison)
        self.codes = codes
        self.printers: dict[str, KernelPrinter] = {}
        self.written: dict[tuple[Any, ...], str] = {}  # the functions, by their parameters and lines
        self.sources: list[str] = []
        end = self.function.body.block.last_op
        self.results = list(end.operands) if end is not None else []
        self.places = _places(self.results) if INTO.of(self.function) else {}
        self.names: dict[SSAValue, str] = {}
        self.static: set[SSAValue] = set()  # values of the arena, made once with the workspace
        self.setup: list[str] = []
        self.body: list[str] = []
        self.kept: list[str] = []

    def run(self) -> PythonProgram:
        block = self.function.body.block
        for i, arg in enumerate(block.args):
            self.names[arg] = identifier(arg.name_hint) if arg.name_hint else f"arg{i}"
        self._unique([*block.args])
        for op in block.ops:
            self._operation(op)
        self.program.source = self._source([self.names[a] for a in block.args])
        return self.program

    def _operation(self, op: Operation) -> None:
        match op:
            case ArenaOp():
                self._arena(op)
            case ViewOp():
                self._view(op)
            case AllocOp():
                self._alloc(op)
            case StateOp():
                self._define_static(op.array, f"np.empty({hybrid_shape(op.array)}, object)")
                self.program.is_stateful = True
            case DonatedOp():
                self.names[op.array] = self.names[op.argument]
            case ConstantOp():
                self.names[op.array] = self._bind(
                    numbers_in(op.value, hybrid_shape(op.array), hybrid_dtype(op.array)), "c"
                )
            case AliasOp():
                self._alias(op)
            case CopyOp():
                self.body.append(f"np.copyto({self.names[op.target]}, {self.names[op.source]})")
            case LaunchOp():
                self.launch(op)
            case func.ReturnOp():
                results = "".join(f"{self.names[v]}, " for v in op.arguments)
                self.body.append(f"return ({results})")
            case _:
                raise TypeError(f"{op.name} in a planned program")

    def _unique(self, values: list[SSAValue]) -> None:
        """Arguments keep their names; an underscore is appended where something else has that name or may get it."""
        reserved = {"np", "special", "parallel", "arena", "empty", "into", "ws", *keyword.kwlist, *self.kernels}
        for value in values:
            while self.names[value] in reserved or _OURS.fullmatch(self.names[value]):
                self.names[value] += "_"
            reserved.add(self.names[value])

    def _source(self, args: list[str]) -> str:
        parts: list[str] = []
        header = ["import numpy as np"]
        text = "\n".join(self.sources)
        if "special." in text:
            header.append("from hybridc.dialects import special")
        if any(" = empty(" in line for line in self.body):
            header.append("from hybridc.ground.buffers import empty")
        if "parallel(" in text:
            header.append("from hybridc.lower.numpy.tile_threads import parallel")
        header += [f"# {n} = {one_line(repr(v))}" for n, v in self.program.scope.items() if isinstance(v, Operator)]
        parts.append("\n".join(header) + "\n")
        parts += self.sources
        kept = "".join(f"{n}, " for n in self.kept)
        setup = [*self.setup, f"return ({kept})"]
        parts.append("def workspace(arena):\n" + "".join(f"    {line}\n" for line in setup))
        unpack = [f"({kept}) = ws"] if self.kept else []
        into = ["into"] if INTO.of(self.function) else []
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
        suffix = 0
        while f"{prefix}{suffix}" in self.program.scope:
            suffix += 1
        self.program.scope[f"{prefix}{suffix}"] = value
        return f"{prefix}{suffix}"

    def _operator(self, operator: Operator) -> str:
        return self._bind(operator, f"{identifier(operator.NAME.rpartition('.')[2])}_")

    def _define(self, value: SSAValue, expression: str, prefix: str) -> str:
        name = self.names[value] = f"{prefix}{len(self.names)}"
        self.body.append(f"{name} = {expression}")
        return name

    def _define_static(self, value: SSAValue, expression: str) -> None:
        name = self.names[value] = f"v{len(self.names)}"
        self.static.add(value)
        self.setup.append(f"{name} = {expression}")
        self.kept.append(name)

    def _arena(self, op: ArenaOp) -> None:
        self.program.arena = op.size
        self.names[op.memory] = "arena"
        self.static.add(op.memory)
        if self.poison is not None:
            self.program.is_stateful = True  # nobody else writes there
            self.setup.append("arena[:] = 255")
            self.kept.append("arena")

    def _alloc(self, op: AllocOp) -> None:
        shape, dtype = hybrid_shape(op.array), hybrid_dtype(op.array)
        large = volume(shape) * dtype.itemsize >= SMALLEST
        fresh = f"{'' if large else 'np.'}empty({shape}, {dtype.name!r})"
        index = self.places.get(op.array)
        if index is not None:
            reshaped = "" if op.array is self.results[index] else f".reshape({shape})"
            fresh = f"{fresh} if into[{index}] is None else into[{index}]{reshaped}"
        self._define(op.array, fresh, "y")
        if self.poison is not None:
            self.body.append(_poison_array(self.names[op.array], dtype))

    def _view(self, op: ViewOp) -> None:
        if all(isinstance(u.operation, LaunchOp) and u.operation.scratch is op.array for u in op.array.uses):
            return  # scratch is cut up where its kernel is known
        self._define_static(op.array, _array(op.offset.value.data, hybrid_dtype(op.array), hybrid_shape(op.array)))

    def _alias(self, op: AliasOp) -> None:
        expression = f"{self.names[op.array]}{_movement(op)}"
        if op.array in self.static:
            self._define_static(op.result, expression)
            return
        index = self.places.get(op.result)
        if index is not None:
            expression = f"{expression} if into[{index}] is None else into[{index}]"
        self._define(op.result, expression, "a")

    # --- launches ------------------------------------------------------------------------------------------

    def poisoned(self, place: Bytes) -> None:
        self.body.append(f"arena[{place[0]}:{place[1]}] = 255")

    def kernel(self, op: LaunchOp, function: KernelFunction) -> None:
        name = function.sym_name.data
        if name not in self.printers:
            code = self.codes.of(function.kernel, STRIDED.of(function), UPDATES.of(function))
            self.printers[name] = printer_of(code)
            self.program.functions[name] = self._function(name, self.printers[name])
        available = 0 if op.scratch is None else volume(hybrid_shape(op.scratch))
        printer = self.printers[name]
        check_launch(name, available, printer.code.bytes, written_over(op.ins, op.outs), printer.code.inplace_pairs)
        arguments = [self.names[v] for v in (*op.ins, *op.outs)]
        if op.scratch is not None:
            arguments.append(self._scratch(op.scratch, printer))
        called = self.program.functions[name]
        where = location_of(op) if called != name else None  # else the function itself tells
        self.body.append(f"{called}({', '.join(arguments)}){comment(where)}")

    def _function(self, name: str, printer: KernelPrinter) -> str:
        """The name of the function of a kernel: another kernel's, if that does the same."""
        key = (len(printer.kernel.arguments), len(printer.kernel.results), *printer.body())
        if key not in self.written:
            self.written[key] = name
            self.sources.append(printer.source())
        return self.written[key]

    def _scratch(self, memory: SSAValue, printer: KernelPrinter) -> str:
        """The scratch of a launch, cut up as its kernel needs it."""
        view = memory.owner
        assert isinstance(view, ViewOp)
        start = view.offset.value.data
        source = printer.scratch(lambda offset, dtype, shape: _array(start + offset, dtype, shape))
        name = f"s{len(self.kept)}"
        self.setup.append(f"{name} = {source}")
        self.kept.append(name)
        return name

    def host(self, op: LaunchOp, name: str, operator: Operator, where: Location | None) -> None:
        """A step that NumPy or the host computes: a bound ``call_out``."""
        self.body.append(f"{self._operator(operator)}.call_out({self._given(op)}){comment(where)}")

    def by_hand(self, op: LaunchOp, name: str, operator: Operator, where: Location | None) -> None:
        kernel = handwritten_kernel(operator, "numpy", arrays_of(op.ins), arrays_of(op.outs))
        called = f"{self._operator(operator)}.run_kernel({self._bind(kernel, 'kernel_')}, {self._given(op)})"
        self.body.append(f"{called}{comment(where)}")

    def _given(self, op: LaunchOp) -> str:
        """The results of an operator, then its inputs."""
        outs = "".join(f"{self.names[v]}, " for v in op.outs)
        return ", ".join([f"({outs})", *[self.names[v] for v in op.ins]])


def _poison_array(name: str, dtype: np.dtype[Any]) -> str:
    return f"{name}.fill({ {'f': 'np.nan', 'b': True, 'i': -1}.get(kind_of(dtype), 255) })"


def _places(results: list[SSAValue]) -> dict[SSAValue, int]:
    """The results that a caller may want in arrays of its own, and the fresh arrays that they reshape, by number."""
    indices: dict[SSAValue, int] = {}
    for index, result in enumerate(results):
        array = result
        while isinstance(array.owner, AliasOp) and array.owner.view.data == "reshape":
            array = array.owner.array
        if isinstance(array.owner, AllocOp):
            indices[array] = indices[result] = index
    return indices


def _movement(op: AliasOp) -> str:
    """How NumPy says a movement, as what follows the array."""
    shape = hybrid_shape(op.result)
    match op.view.data:
        case "reshape":
            return f".reshape({shape})"
        case "transpose":
            return f".transpose({op.numbers('order')})"
        case "slice":
            sources = hybrid_shape(op.array)
            parts = zip(op.numbers("begin"), op.numbers("step"), shape, sources, strict=True)
            return f"[{', '.join(_range(*bounds) for bounds in parts) or '...'}]"
        case other:
            raise TypeError(f"{other} is no movement that gives a view")


def _range(begin: int, step: int, count: int, whole: int) -> str:
    """A slice of one axis, as short as possible."""
    if (begin, step, count) == (0, 1, whole):
        return ":"
    end = begin + step * (count - 1) + 1 if count else begin
    return f"{begin}:{end}" + (f":{step}" if step != 1 else "")


def _array(offset: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    size = volume(shape) * dtype.itemsize
    return f"arena[{offset}:{offset + size}].view({dtype.name!r}).reshape({shape})"
