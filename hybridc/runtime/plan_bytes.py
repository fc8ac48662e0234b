"""Compiled graphs as bytes: a length, a header in JSON, the constants' bytes. Nothing in them is executed when read.

What is written has few kinds of values (:func:`written`); what has others, such as an operator that holds a function,
is :class:`NotWritable`. Machine code is not among the bytes: native functions are named by their keys, Triton's are
there as text.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any, cast

import numpy as np

from hybridc.dialects import registry
from hybridc.dialects.operator import Operator
from hybridc.dtypes import kind_of
from hybridc.ir.native_plan import Host, Phase, PlainArray, Position
from hybridc.ir.planned import Cell, HostCall, PlannedProgram, SlotView
from hybridc.lower.llvm.codegen.native_function import NativeFunction
from hybridc.lower.llvm.native_source import NativeSource, built_before
from hybridc.lower.triton.launches import Alternative, Launch, LibraryProduct, Matrix, TritonProgram
from hybridc.lower.triton.triton_function import Config, TritonFunction
from hybridc.nesting import as_list

_LENGTH = 8


class NotWritable(Exception):
    """A value that has no form as bytes, by which another process could know it."""


@dataclass
class KeptGraph:
    """What is kept of a compiled graph: its programs, and what a CompiledGraph is told.

    ``lines`` are the users' lines that its host calls name, each with the numbers of the trace's nodes that are there.
    """

    programs: Mapping[str, PlannedProgram]
    saved: tuple[int, ...]
    grads: tuple[int, ...]
    kept: int
    heads: tuple[int, ...] = ()
    lines: dict[str, list[int]] = field(default_factory=lambda: dict[str, list[int]]())


# --- values ---------------------------------------------------------------------------------------------------


def written(value: Any) -> Any:
    """A value of an attribute in JSON's kinds, so that :func:`read` gives an equal one of the same type."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return {"float": value.hex()}
    if type(value) is tuple:
        return {"tuple": [written(v) for v in as_list(value)]}
    if type(value) is list:
        return [written(v) for v in as_list(value)]
    if isinstance(value, np.dtype):
        return {"dtype": dtype_name(cast("np.dtype[Any]", value))}
    if isinstance(value, np.generic):
        number = cast(Any, value)
        return {"number": [dtype_name(number.dtype), number.tobytes().hex()]}
    raise NotWritable(f"a {type(value).__name__}")


def read(value: Any) -> Any:
    """The value that was written."""
    if isinstance(value, list):
        return [read(v) for v in as_list(value)]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = cast("dict[str, Any]", value).items()
    if kind == "float":
        return float.fromhex(content)
    if kind == "tuple":
        return tuple(read(v) for v in content)
    if kind == "dtype":
        return np.dtype(content)
    if kind == "number":
        return np.frombuffer(bytes.fromhex(content[1]), np.dtype(content[0]))[0]
    raise ValueError(f"a value of the kind {kind!r}")


@functools.lru_cache(64)  # NumPy takes its time to make a name
def dtype_name(dtype: np.dtype[Any]) -> str:
    """The name of a dtype, if that says all of it."""
    if kind_of(dtype) not in "biufc" or np.dtype(dtype.name) != dtype:
        raise NotWritable(f"the dtype {dtype}")
    return dtype.name


def operator_written(op: Operator) -> list[Any]:
    """An operator by its name and its attributes."""
    return [op.NAME, {name: written(value) for name, value in op.attrs.items()}]


# --- graphs ---------------------------------------------------------------------------------------------------


def to_bytes(graph: KeptGraph) -> bytes:
    """A compiled graph as bytes."""
    blobs: list[bytes] = []
    header = {
        "programs": {name: _program(program, blobs) for name, program in graph.programs.items()},
        "saved": graph.saved,
        "grads": graph.grads,
        "kept": graph.kept,
        "heads": graph.heads,
        "lines": graph.lines,
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    return b"".join([len(text).to_bytes(_LENGTH, "little"), text, *blobs])


def from_bytes(data: bytes) -> KeptGraph:
    """The graph of what :func:`to_bytes` made; ValueError, LookupError or TypeError if it is anything else."""
    end = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    header = json.loads(data[_LENGTH:end])
    blobs = _Blobs(data, end)
    programs = {name: _program_of(given, blobs) for name, given in header["programs"].items()}
    if blobs.position != len(data):
        raise ValueError("there is more than the header tells of")
    saved, grads, heads = (tuple(header[name]) for name in ("saved", "grads", "heads"))
    return KeptGraph(programs, saved, grads, header["kept"], heads, header["lines"])


class _Blobs:
    """Takes the constants' bytes one after the other."""

    def __init__(self, data: bytes, position: int) -> None:
        self.data = data
        self.position = position

    def array(self, given: PlainArray) -> Any:
        """The next constant: an array of its own, which is aligned."""
        start, self.position = self.position, self.position + given.nbytes
        return np.frombuffer(self.data[start : self.position], given.dtype).reshape(given.shape).copy()


def _program(program: PlannedProgram, blobs: list[bytes]) -> dict[str, Any]:
    blobs += [np.ascontiguousarray(c).tobytes() for c in program.constants]
    if isinstance(program, TritonProgram):
        called = program.functions_called()
        number = {function: i for i, function in enumerate(called)}
        steps = [_host(s) if isinstance(s, Host) else _launch(s, number[s.function]) for s in program.steps]
        more = {
            "sources": [_function(function) for function in called],
            "alternatives": [_alternative(a, number) for a in program.alternatives],
        }
    elif isinstance(program, NativeSource):
        steps = [_host(s) if isinstance(s, Host) else _phase(*s) for s in program.steps]
        more = {"threads": program.threads, "work": program.work}
    else:
        raise NotWritable(f"a {type(program).__name__}")
    return {
        "name": program.name,
        "source": program.source,
        "arena": program.arena,
        "live": program.live,
        "functions": program.functions,
        "launches": program.launches,
        "host_calls": program.host_calls,
        "host_launches": program.host_launches,
        "inputs": [_array(a) for a in program.inputs],
        "fresh": [_array(a) for a in program.fresh],
        "constants": [_array(c) for c in program.constants],
        "steps": steps,
        "outputs": [_value(v) for v in program.outputs],
        "into": program.into,
        "takes_into": program.takes_into,
        "donated": sorted(program.donated),
        **more,
    }


def _program_of(given: dict[str, Any], blobs: _Blobs) -> PlannedProgram:
    constants = [blobs.array(_array_of(c)) for c in given["constants"]]
    inputs = [_array_of(a) for a in given["inputs"]]
    described = ("name", "source", "arena", "live", "functions", "launches", "host_calls", "host_launches")
    known = {key: given[key] for key in (*described, "into", "takes_into")}
    known |= {
        "inputs": inputs,
        "fresh": [_array_of(a) for a in given["fresh"]],
        "constants": constants,
        "outputs": [_value_of(v) for v in given["outputs"]],
        "donated": set(given["donated"]),
    }
    if "sources" in given:
        functions = [_function_of(f) for f in given["sources"]]
        steps = [_host_of(s, len(inputs), constants) or _launch_of(s, functions) for s in given["steps"]]
        alternatives = [_alternative_of(a, functions) for a in given["alternatives"]]
        return TritonProgram(**known, steps=steps, alternatives=alternatives)
    steps = [_host_of(s, len(inputs), constants) or _phase_of(s) for s in given["steps"]]
    return NativeSource(**known, steps=steps, threads=given["threads"], work=given["work"])


# --- steps ----------------------------------------------------------------------------------------------------


def _phase(function: NativeFunction, phase: Phase) -> dict[str, Any]:
    return {
        "function": function.key,
        "buffers": [[p.slot, p.offset] for p in phase.buffers],
        "numbers": phase.numbers.hex(),
        "range": [phase.extent, phase.grain, phase.least],
        "scratch": None if phase.scratch is None else [phase.scratch.slot, phase.scratch.offset],
        "each": phase.scratch_stride,
        "name": phase.name,
    }


def _host(host: Host) -> dict[str, Any]:
    call = host.call
    if not isinstance(call, HostCall):
        raise NotWritable(f"a call of {call!r}")
    return {
        "operator": operator_written(call.operator),
        "ins": [_value(v) for v in call.ins],
        "outs": [_value(v) for v in call.outs],
        "where": call.where,
        "name": host.name,
    }


def _host_of(given: dict[str, Any], inputs: int, constants: Sequence[Any]) -> Host | None:
    """The call of the host that a step is, if it is one."""
    if "operator" not in given:
        return None
    name, attributes = given["operator"]
    op = registry.operator(name).bind(**{key: read(value) for key, value in attributes.items()})
    ins, outs = (tuple(_value_of(v) for v in given[key]) for key in ("ins", "outs"))
    return Host(HostCall(op, ins, outs, inputs, tuple(constants), given["where"]), given["name"])


def _phase_of(given: dict[str, Any]) -> tuple[NativeFunction, Phase]:
    extent, grain, least = given["range"]
    scratch = None if given["scratch"] is None else Position(*given["scratch"])
    phase: Any = Phase(
        None,  # pyright: ignore[reportArgumentType]  (its code is still to be loaded)
        tuple(Position(*p) for p in given["buffers"]),
        bytes.fromhex(given["numbers"]),
        extent,
        grain,
        scratch,
        given["each"],
        given["name"],
        least,
    )
    return NativeFunction(given["function"], built_before), phase


def _launch(launch: Launch, function: int) -> dict[str, Any]:
    return {
        "function": function,
        "buffers": [[p.slot, p.offset] for p in launch.buffers],
        "numbers": launch.numbers,
        "configs": [astuple(c) for c in launch.configs],
        "name": launch.name,
    }


def _launch_of(given: dict[str, Any], functions: Sequence[TritonFunction]) -> Launch:
    configs = [Config(tuple((n, v) for n, v in c), (x, y, z), *more) for c, (x, y, z), *more in given["configs"]]
    buffers = tuple(Position(*p) for p in given["buffers"])
    return Launch(functions[given["function"]], buffers, tuple(given["numbers"]), tuple(configs), given["name"])


def _function(function: TritonFunction) -> list[Any]:
    pointers = [dtype_name(dtype) for dtype in function.pointers]
    return [function.name, function.source, pointers, function.numbers, function.constants]


def _function_of(given: list[Any]) -> TritonFunction:
    name, source, pointers, numbers, constants = given
    return TritonFunction(name, source, tuple(np.dtype(p) for p in pointers), tuple(numbers), tuple(constants))


def _alternative(alternative: Alternative, number: Mapping[TritonFunction, int]) -> list[Any]:
    start, count, product, places, after = alternative
    written = product._replace(dtypes=tuple(map(dtype_name, product.dtypes)))
    return [start, count, written, places, [_launch(each, number[each.function]) for each in after]]


def _alternative_of(given: list[Any], functions: Sequence[TritonFunction]) -> Alternative:
    start, count, (m, n, k, batches, matrices, buffers, dtypes, tf32), places, after = given
    a, b, c = [Matrix(*x) for x in matrices]
    first, second, result = [Position(*x) for x in places]
    kinds = (np.dtype(dtypes[0]), np.dtype(dtypes[1]))
    product = LibraryProduct(m, n, k, batches, (a, b, c), (buffers[0], buffers[1], buffers[2]), kinds, tf32)
    launches = tuple(_launch_of(each, functions) for each in after)
    return Alternative(start, count, product, (first, second, result), launches)


def _array(array: Any) -> list[Any]:
    return [list(array.shape), dtype_name(np.dtype(array.dtype))]


def _array_of(given: list[Any]) -> PlainArray:
    return PlainArray(tuple(given[0]), np.dtype(given[1]))


def _view(view: SlotView) -> list[Any]:
    return [view.slot, view.offset, dtype_name(view.dtype), list(view.shape), list(view.strides)]


def _view_of(given: list[Any]) -> SlotView:
    slot, offset, dtype, shape, strides = given
    return SlotView(slot, offset, np.dtype(dtype), tuple(shape), tuple(strides))


def _value(value: SlotView | Cell) -> list[Any]:
    """A value of the program: a view, or the number and the shape of a cell."""
    return _view(value) if isinstance(value, SlotView) else [value.number, list(value.shape)]


def _value_of(given: list[Any]) -> SlotView | Cell:
    return Cell(given[0], tuple(given[1])) if len(given) == 2 else _view_of(given)
