"""The native runtime as an object: the package's, one of the cache folder, or compiled.

It computes nothing itself, so it needs no wide vectors: one object serves all processors of an architecture, whatever
``HYBRIDC_CPU`` says, and any LLVM may have compiled it. A wheel has it for the architectures of
``processor.TRIPLES``, of Linux (``python -m hybridc.tools.ship_objects`` makes the objects). Its key holds the content
of the sources that write it, so an object of other sources is never found.
"""

from __future__ import annotations

import functools
import hashlib
import platform
import sys
from pathlib import Path

from hybridc.ground.store import keep, kept, shipped
from hybridc.lower.llvm.codegen import native_function as codegen

# The files that decide its code: what writes the IR, and where the numbers in it come from.
_PACKAGE = Path(__file__).parents[3]
_SOURCES = ("lower/llvm/executor/*.py", "lower/llvm/codegen/ir_text.py", "ground/buffers.py", "ground/machine.py")


def runtime_object(records: bool) -> bytes:
    """The object for this computer, or that of the variant that records events."""
    architecture = platform.machine()
    key = runtime_key(sys.platform, architecture, records)
    code = shipped(key, bytes) or kept(key, bytes, codegen.target_key())
    if code is None:
        code = compiled_runtime(architecture, records)
        keep(key, code, codegen.target_key())
    return code


def keep_runtime() -> None:
    """Put it into the cache as well where it is of the package: what has the cache's entries needs no package's."""
    keep(runtime_key(sys.platform, platform.machine(), False), runtime_object(False), codegen.target_key())


def runtime_key(system: str, architecture: str, records: bool) -> str:
    """The key of an object, in the package and in the cache folder."""
    return f"native runtime{' that records' * records} {system} {architecture} {_sources_hash()}"


def compiled_runtime(architecture: str, records: bool, triple: str = "") -> bytes:
    """The object, compiled for any processor of an architecture: this computer's, or that of a triple."""
    # Imported late: who finds the object writes no IR.
    from hybridc.lower.llvm.executor.emit_runtime import runtime_text

    machine = codegen.generic_machine(triple)
    return machine.object(codegen.optimised(runtime_text(architecture, records), machine))


@functools.cache
def _sources_hash() -> str:
    content = hashlib.sha256()
    for path in sorted(path for pattern in _SOURCES for path in _PACKAGE.glob(pattern)):
        text = path.read_bytes()
        content.update(f"{path.name} {len(text)}\n".encode() + text)
    return content.hexdigest()
