"""What a compiled graph depends on, as a key: of a trace, of what users' operators gave, of all versions.

Equal keys are equal graphs, in any process of any time. Names, the users' lines and their source are no part of it.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridc.compile.definitions import Definitions, changed_operators
from hybridc.ground.serialize import NotWritable, dtype_name
from hybridc.ground.store import compiler_version
from hybridc.lower.llvm.codegen import native_function as codegen
from hybridc.options import OPTIONS
from hybridc.trace.tracer import Trace

if TYPE_CHECKING:
    from hybridc.compile.stages import Traced

# Packages whose own files are part of what the compiler is, beside our own.
_PACKAGES = ("xdsl", "llvmlite", "scipy_openblas32")
# Integers of what is written of a trace, but for those that are a part of a word.
_INTEGER = re.compile(r"(?<![\w.'\"])-?\d+(?![\w.'\"])")


def key_of(traced: Traced) -> str:
    """The key of the graph that is made of a trace; NotWritable if none tells it from all others."""
    target = target_of(traced.trace)
    made_for = (OPTIONS.tf32, compiler_version()) if target == "triton" else (OPTIONS.num_threads, codegen.target_key())
    if changed_operators():
        raise NotWritable("an operator of hybridc's own that was changed")
    parts = (
        traced.written.text,
        traced.grads,
        traced.heads,
        traced.donated,
        target,
        *made_for,
        _versions(),
    )
    return "graph " + hashlib.sha256(repr(parts).encode()).hexdigest()


def target_of(trace: Trace) -> str:
    """What a trace is compiled for."""
    return "triton" if trace.context.device_type == "gpu" else OPTIONS.target


@dataclass(frozen=True)
class WrittenTrace:
    """A trace as text, and the classes of the users' operators that it uses, whose ``eager`` programs may call."""

    text: str
    classes: tuple[type, ...]


def without_sizes(traced: Traced) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """The key of a trace but for its integers, such as sizes, in this process; and these.

    NotWritable if none tells it from all others.
    """
    text, classes = traced.written.text, traced.written.classes
    numbers = tuple(map(int, _INTEGER.findall(text)))
    kind = hashlib.sha256(_INTEGER.sub("#", text).encode()).hexdigest()
    return (kind, classes, changed_operators(), traced.grads, traced.heads, traced.donated, OPTIONS.target), numbers


def written_of(traced: Traced) -> WrittenTrace:
    """A trace as text; NotWritable if that does not tell it from all others."""
    if traced.backends:
        raise NotWritable("a backend of the user's")
    definitions = Definitions()
    structured = structure(traced.trace, definitions, traced.grads)
    return WrittenTrace(repr((structured, definitions.found)), tuple(definitions.classes))


def structure(trace: Trace, definitions: Definitions, grads: tuple[int, ...] = ()) -> list[Any]:
    """The nodes of a trace, its inputs and its results, by numbers; users' operators by their definitions."""
    if "value" in trace.roles:
        raise NotWritable("a value of another graph")
    number = {id(symbol): i for i, symbol in enumerate(trace.leaves)}
    nodes = definitions.nodes(trace, number, {id(trace.leaves[i]) for i in grads})
    leaves = [(s.shape, dtype_name(s._dtype)) for s in trace.leaves]
    results = [number[id(s)] for s in trace.outputs]
    return [trace.training, trace.roles, leaves, nodes, results, trace.updates]


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
