"""Cache keys of compiled graphs: the trace and the definitions of users' operators; all versions, target and options.

Equal keys mean equal graphs, in any process at any time. Names, source locations and source text are no part of them.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import sys
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridc.compile.definitions import Definitions, changed_operators
from hybridc.ground.machine import machine
from hybridc.ground.records import dataclass
from hybridc.ground.serialize import NotWritable, dtype_name, without_integers
from hybridc.ground.store import compiler_version
from hybridc.lower.llvm.codegen import native_function as codegen
from hybridc.options import OPTIONS
from hybridc.trace.tracer import Trace

if TYPE_CHECKING:
    from hybridc.compile.stages import Traced

# How the keys of graphs begin.
GRAPH = "graph "
# Packages whose versions are part of the key, beside our own files.
_PACKAGES = ("xdsl", "llvmlite", "scipy_openblas32")


def key_of(traced: Traced) -> str:
    """The cache key of a trace's graph, given :func:`made_for`; NotWritable if it has none that identifies it."""
    if traced.written.changed:
        raise NotWritable("an operator of hybridc's own that was changed")
    parts = (
        traced.written.kind,
        traced.written.integers,
        traced.grads,
        traced.heads,
        traced.donated,
        target_of(traced.trace),
    )
    return GRAPH + hashlib.sha256(repr(parts).encode()).hexdigest()


def made_for(target: str) -> str:
    """What graphs depend on beside their traces: versions, options, and the computer."""
    parts: tuple[Any, ...] = (OPTIONS.tf32, compiler_version())
    if target != "triton":
        parts = (OPTIONS.num_threads, OPTIONS.winograd, codegen.target_key(), machine().key())
    return "graphs " + hashlib.sha256(repr((target, *parts, _versions())).encode()).hexdigest()


def target_of(trace: Trace) -> str:
    """The target that a trace is compiled for."""
    return "triton" if trace.context.device_type == "gpu" else OPTIONS.target


@dataclass(frozen=True)
class WrittenTrace:
    """A trace as data, and the classes of users' operators whose ``Operator.eager`` its programs may call.

    The data is names and flags, nested, with ``...`` in the place of each integer (the ``kind``), and the
    ``integers``, of which some may be symbolic sizes. ``changed`` lists hybridc's own operators that were
    replaced after import.
    """

    kind: Hashable
    integers: tuple[int, ...]
    classes: tuple[type, ...]
    changed: tuple[Any, ...]


def without_sizes(traced: Traced) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """In-process key of a family of sizes: the data of a trace without its integers; and these.

    NotWritable if the trace has no data that identifies it.
    """
    written = traced.written
    return (
        written.kind,
        written.classes,
        written.changed,
        traced.grads,
        traced.heads,
        traced.donated,
        OPTIONS.target,
        OPTIONS.winograd,
        machine(),
    ), written.integers


def written_of(traced: Traced) -> WrittenTrace:
    """A trace as data; NotWritable if that does not identify it."""
    if traced.backends:
        raise NotWritable("a backend of the user's")
    definitions = Definitions()
    structured = structure(traced.trace, definitions, traced.grads)
    kind, integers = without_integers((structured, definitions.entries))
    return WrittenTrace(kind, integers, tuple(definitions.classes), changed_operators())


def structure(trace: Trace, definitions: Definitions, grads: tuple[int, ...] = ()) -> list[Any]:
    """The nodes of a trace, its inputs and its results, by indices; users' operators by their definitions."""
    if "value" in trace.roles:
        raise NotWritable("a value of another graph")
    index_of = {id(symbol): i for i, symbol in enumerate(trace.leaves)}
    nodes = definitions.nodes(trace, index_of, {id(trace.leaves[i]) for i in grads})
    leaves = [(s.shape, dtype_name(s._dtype)) for s in trace.leaves]
    results = [index_of[id(s)] for s in trace.outputs]
    return [trace.training, trace.roles, leaves, nodes, results, trace.updates]


@functools.cache
def _versions() -> tuple[Any, ...]:
    """Versions of Python, NumPy and the code generators: modification time and size of their main files."""
    versions: list[Any] = [sys.version, np.__version__]
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            versions.append(None)
            continue
        file = os.stat(spec.origin)
        versions.append((file.st_size, file.st_mtime_ns))
    return tuple(versions)
