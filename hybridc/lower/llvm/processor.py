"""The processor that native code is for: this computer's, or with ``HYBRIDC_CPU=generic`` any of its architecture."""

from __future__ import annotations

import functools
import platform
from collections.abc import Mapping

from hybridc.lower.llvm import llvm_c
from hybridc.options import OPTIONS

# Processors that every other of their architecture can stand in for, and what they have.
_GENERIC: dict[str, tuple[str, tuple[str, ...]]] = {
    "x86_64": ("x86-64", ("sse2",)),
    "AMD64": ("x86-64", ("sse2",)),
    "aarch64": ("generic", ("neon",)),
    "arm64": ("generic", ("neon",)),
}


@functools.cache
def name() -> str:
    """What LLVM calls it."""
    if OPTIONS.cpu == "generic":
        return _generic()[0]
    return llvm_c.host_name()


@functools.cache
def features() -> Mapping[str, bool]:
    """What it has, and has not, by LLVM's names."""
    if OPTIONS.cpu == "generic":
        return dict.fromkeys(_generic()[1], True)
    return llvm_c.host_features()


@functools.cache
def features_text() -> str:
    """What it has, and has not, as LLVM wants to be told."""
    return ",".join(f"{'+' if has else '-'}{feature}" for feature, has in sorted(features().items()))


@functools.cache
def vector_bits() -> int:
    """How wide vectors are: 512 bits since the generation that does not slow down for them."""
    has = features()
    return 512 if has.get("avx512vbmi2") else 256 if has.get("avx") else 128


def converts_halves() -> bool:
    """Whether it has instructions that read and write half precision."""
    return "sse2" not in features() or features().get("f16c", False)


def _generic() -> tuple[str, tuple[str, ...]]:
    return _GENERIC.get(platform.machine(), ("generic", ()))
