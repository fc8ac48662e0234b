"""Compiled graphs in a file: what a process that did not compile them needs to run them.

The entries of the cache on the disk (:mod:`hybridc.compile.warm_start`) that graphs need, the machine code of their
functions and of the native runtime among them, with what they were made for (:class:`MadeFor`). A process that reads
the file looks its graphs up there before it looks into its cache folder, in which nothing is written.

Machine code is code: a file is read only where the user names it, as a shared library would be. Its checksum tells
damage, not who wrote it. Where the process would compile other code than the file has, it is refused.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from hybridc.compile.trace_key import GRAPH, made_for
from hybridc.errors import CompiledFileError
from hybridc.ground.records import dataclass
from hybridc.ground.serialize import from_bytes, to_bytes
from hybridc.ground.store import EntrySet, adopt, collecting, source_version
from hybridc.ground.whole_files import write_whole
from hybridc.lower.llvm.codegen import native_function as codegen
from hybridc.lower.llvm.codegen import object_loader, processor
from hybridc.lower.llvm.codegen.host import HostProcessor, adopt_host, described_processor, host
from hybridc.lower.llvm.executor.runtime_object import keep_runtime
from hybridc.options import OPTIONS

_MAGIC = b"hybridc compiled 1\n"
_DIGEST = hashlib.sha256().digest_size
_MAKE = "export(…, compiled=True) of a network or `python -m hybridc compile` makes it"
_AGAIN = f"Compile it again on such a computer as this: {_MAKE}"


@dataclass(frozen=True, eq=False)
class MadeFor:
    """What compiled entries depend on, beside their keys.

    ``sources`` is a hash of hybridc's sources, ``winograd`` an option that changes results. The ``processor`` is that
    of the code, with its ``features`` and the bits of its vectors; ``host`` is what LLVM said of the computer that
    compiled, and ``described`` what Linux did.
    """

    sources: str
    python: str
    numpy: str
    system: str
    winograd: bool
    processor: str
    features: str
    vector_bits: int
    host: HostProcessor
    described: dict[str, str]

    @property
    def code(self) -> tuple[str, str, int]:
        """What machine code depends on."""
        return self.processor, self.features, self.vector_bits


@dataclass(frozen=True, eq=False)
class _Content:
    """The content of a file: entries by their keys, and what they are made for."""

    made_for: MadeFor
    entries: dict[str, bytes]


@contextmanager
def compiled_into(path: str | os.PathLike[str], graphs: int) -> Generator[None]:
    """Write what is compiled meanwhile, or found in the cache, into a file; CompiledFileError for fewer graphs."""
    _check_target(path)
    with collecting() as entries:
        yield
        keep_runtime()
    stored = sum(key.startswith(GRAPH) for key in entries)
    if stored < graphs:
        raise CompiledFileError(
            f"{path}: {graphs - stored} of {graphs} graphs cannot be stored. A graph is kept neither if a part of it "
            "is your own code that cannot be recorded, as a CustomOp or a backend, nor with settings that show the "
            "compiler's work, as HYBRIDC_VERIFY and HYBRIDC_DUMP"
        )
    content = to_bytes(_Content(_here(), entries))
    write_whole(path, _MAGIC + hashlib.sha256(content).digest() + content)


def adopted(path: str | os.PathLike[str]) -> EntrySet:
    """The entries of a file, which are found while the result lives; CompiledFileError if they cannot be used here."""
    _check_target(path)
    content = _read(path)
    origin = content.made_for
    adopt_host(origin.host, origin.described)
    if differences := list(_differences(origin, _here())):
        raise CompiledFileError(f"{path} was compiled {'; '.join(differences)}. {_AGAIN}")
    entries = EntrySet(content.entries, frozenset((codegen.target_key(), made_for("llvm"))))
    adopt(entries)
    return entries


def _check_target(path: str | os.PathLike[str]) -> None:
    """CompiledFileError if this process does not run native code."""
    if OPTIONS.target != "llvm":
        raise CompiledFileError(f"{path}: such a file has native code, but HYBRIDC_TARGET={OPTIONS.target}; unset it")


def _read(path: str | os.PathLike[str]) -> _Content:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise CompiledFileError(f"{path} cannot be read: {error.strerror}; {_MAKE}") from error
    content = data[len(_MAGIC) + _DIGEST :]
    if not data.startswith(_MAGIC):
        raise CompiledFileError(f"{path} is no file of compiled graphs, or one of another version of hybridc. {_AGAIN}")
    if hashlib.sha256(content).digest() != data[len(_MAGIC) : len(_MAGIC) + _DIGEST]:
        raise CompiledFileError(f"{path} is damaged: its checksum is wrong. Copy it again. {_AGAIN}")
    try:
        return from_bytes(_Content, content)
    except (ValueError, LookupError, TypeError) as error:
        raise CompiledFileError(f"{path} was written by another version of hybridc. {_AGAIN}") from error


def _here() -> MadeFor:
    """What this process compiles for."""
    return MadeFor(
        source_version(),
        f"{sys.implementation.name} {sys.version_info[0]}.{sys.version_info[1]}",
        np.__version__,
        f"{sys.platform} {platform.machine()}",
        OPTIONS.winograd,
        processor.name(),
        processor.features_text(),
        processor.vector_bits(),
        host(),
        described_processor() if object_loader.runs_here() else {},
    )


def _differences(origin: MadeFor, process: MadeFor) -> Iterator[str]:
    """Why what is made for one is of no use for the other."""
    if origin.sources != process.sources:
        yield "by another version of hybridc"
    if origin.python != process.python:
        yield f"for {origin.python}, and this is {process.python}"
    if origin.numpy != process.numpy:
        yield f"for NumPy {origin.numpy}, and this is {process.numpy}"
    if origin.winograd != process.winograd:
        yield f"with HYBRIDC_WINOGRAD={int(origin.winograd)}, and here it is {int(process.winograd)}"
    if origin.system != process.system:
        yield f"for {origin.system}, and this is {process.system}"
    elif (origin.processor, origin.features, origin.vector_bits) != (
        process.processor,
        process.features,
        process.vector_bits,
    ):
        yield (
            f"for the processor {origin.processor}, and this process compiles for {_named(process)}; with "
            "HYBRIDC_CPU=x86-64-v3, there and here, it is for all processors that have AVX2"
        )
    elif origin.host.llvm != process.host.llvm and process.host.llvm != "none":
        yield f"by {origin.host.llvm}, and here {process.host.llvm} compiles"


def _named(process: MadeFor) -> str:
    return process.processor or process.described.get("model name") or "an unknown one"
