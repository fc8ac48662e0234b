"""The target processor: the host's, or with ``HYBRIDC_CPU`` a level of its architecture.

Every choice for a processor (vector width, register tiles, gemm algorithm) follows from
:func:`features`, never from the host, so that code for a level is the same wherever it is compiled.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Mapping

from hybridc.errors import OptionError
from hybridc.lower.llvm.codegen.host import host
from hybridc.options import OPTIONS

# The levels of x86-64's psABI by LLVM's names, in ascending order, and the features that each adds.
_X86_LEVELS: Mapping[str, tuple[str, ...]] = {
    "x86-64": ("sse2",),
    "x86-64-v2": ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"),
    "x86-64-v3": ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"),
    "x86-64-v4": ("avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"),
}
# The baseline of other architectures.
_LEAST: Mapping[str, tuple[str, ...]] = {"aarch64": ("neon",), "arm64": ("neon",)}


def name(cpu: str | None = None) -> str:
    """LLVM's name of the target CPU, or of a level."""
    cpu = cpu or OPTIONS.cpu
    return host().name if cpu == "host" else _level(cpu)


def features() -> Mapping[str, bool]:
    """The target CPU's features by LLVM's names, with whether it has them."""
    return _features(OPTIONS.cpu)


def features_text(cpu: str | None = None) -> str:
    """The features, or those of a level, as LLVM's feature string."""
    has = _features(cpu or OPTIONS.cpu)
    return ",".join(f"{'+' if has[feature] else '-'}{feature}" for feature in sorted(has))


def vector_bits(cpu: str | None = None) -> int:
    """The width of vectors, or that of a level: 512 bits only on generations that do not slow down for them."""
    has = features() if cpu is None else _features(cpu)
    return 512 if has.get("avx512vbmi2") else 256 if has.get("avx") else 128


def converts_halves() -> bool:
    """Whether it has instructions that convert half precision."""
    return "sse2" not in features() or features().get("f16c", False)


def lacking(level: str) -> list[str]:
    """The features of a level that the host lacks."""
    if level in ("host", "generic"):
        return []
    host_features = _features("host")
    return sorted(feature for feature, has in _features(level).items() if has and not host_features.get(feature, False))


def shared_level() -> str:
    """The CPU level for which shared functions are compiled: the target's highest; the target, if it has no levels."""
    has = features()
    levels = [level for level in _X86_LEVELS if all(has.get(feature, False) for feature in _features(level))]
    return levels[-1] if levels else OPTIONS.cpu


def check_runs_here() -> None:
    """OptionError if the host lacks a feature of the target."""
    if lacks := lacking(OPTIONS.cpu):
        raise OptionError(
            f"HYBRIDC_CPU={OPTIONS.cpu}: its code cannot run on this processor ({host().name}), which lacks "
            f"{', '.join(lacks)}; unset HYBRIDC_CPU, or choose a lower level"
        )


def _features(cpu: str) -> Mapping[str, bool]:
    return host().features if cpu == "host" else _level_features(_level(cpu))


@functools.cache
def _level_features(level: str) -> Mapping[str, bool]:
    if level not in _X86_LEVELS:
        return dict.fromkeys(_LEAST.get(platform.machine(), ()), True)
    levels = list(_X86_LEVELS)
    return dict.fromkeys((f for x in levels[: levels.index(level) + 1] for f in _X86_LEVELS[x]), True)


def _level(cpu: str) -> str:
    """LLVM's name of the requested level."""
    if cpu != "generic":
        return cpu
    return "x86-64" if platform.machine().lower() in ("x86_64", "amd64") else "generic"
