"""What a compiled graph depends on, as a key: of a trace, of the operators that users wrote, of all versions.

Equal keys are equal graphs, in any process of any time. Names and the users' lines are no part of it.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridc.lower.llvm import codegen
from hybridc.options import OPTIONS
from hybridc.runtime.op_sources import changes, operators_of_users
from hybridc.runtime.plan_bytes import NotWritable, dtype_name, operator_written
from hybridc.runtime.store import compiler_version
from hybridc.trace.tracer import Trace

if TYPE_CHECKING:
    from hybridc.stages import Traced

# Packages whose own files are part of what the compiler is, beside our own.
_PACKAGES = ("xdsl", "llvmlite", "scipy_openblas32")
# Integers of what is written of a trace, but for those that are a part of a word.
_INTEGER = re.compile(r"(?<![\w.'\"])-?\d+(?![\w.'\"])")


def key_of(traced: Traced) -> str:
    """The key of the graph that is made of a trace; NotWritable if none tells it from all others."""
    target = target_of(traced.trace)
    made_for = (OPTIONS.tf32, compiler_version()) if target == "triton" else (OPTIONS.num_threads, codegen.target_key())
    parts = (
        traced.written,
        operators_of_users(),
        traced.grads,
        traced.donated,
        target,
        *made_for,
        _versions(),
    )
    return "graph " + hashlib.sha256(repr(parts).encode()).hexdigest()


def target_of(trace: Trace) -> str:
    """What a trace is compiled for."""
    return "triton" if trace.context.device_type == "gpu" else OPTIONS.target


def without_sizes(traced: Traced) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """The key of a trace but for its integers, such as sizes, in this process; and these.

    NotWritable if none tells it from all others. Here, operators are told by their classes, as long as nothing is
    attached to one.
    """
    classes = tuple(dict.fromkeys(type(node.op) for node in traced.trace.nodes))
    numbers = tuple(map(int, _INTEGER.findall(traced.written)))
    kind = hashlib.sha256(_INTEGER.sub("#", traced.written).encode()).hexdigest()
    return (kind, classes, changes(), traced.grads, traced.donated, OPTIONS.target), numbers


def written_of(traced: Traced) -> str:
    """A trace as text; NotWritable if that does not tell it from all others with the same operators."""
    if traced.backends:
        raise NotWritable("a backend of the user's")
    return repr(structure(traced.trace))


def structure(trace: Trace) -> list[Any]:
    """The nodes of a trace, its inputs and its results, by numbers."""
    if "value" in trace.roles:
        raise NotWritable("a value of another graph")
    number: dict[int, int] = {}
    for symbol in trace.leaves:
        number[id(symbol)] = len(number)
    operators: dict[int, str] = {}  # equal operators are mostly one object
    nodes: list[Any] = []
    for node in trace.nodes:
        op = operators.get(id(node.op))
        if op is None:
            op = operators[id(node.op)] = repr(operator_written(node.op))
        nodes.append((op, [number[id(s)] for s in node.inputs], _arrays(node.outputs)))
        for symbol in node.outputs:
            number[id(symbol)] = len(number)
    results = [number[id(s)] for s in trace.outputs]
    return [trace.training, trace.roles, _arrays(trace.leaves), nodes, results, trace.updates]


def _arrays(symbols: Sequence[Any]) -> list[Any]:
    return [(s.shape, dtype_name(s._dtype)) for s in symbols]


@functools.cache
def _versions() -> tuple[Any, ...]:
    """Python, NumPy, and the packages that make code: when and how large their main files were written."""
    found: list[Any] = [sys.version, np.__version__]
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            found.append(None)
            continue
        file = os.stat(spec.origin)
        found.append((file.st_size, file.st_mtime_ns))
    return tuple(found)
