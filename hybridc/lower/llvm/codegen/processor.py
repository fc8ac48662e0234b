"""The target processor: the host's, or with ``HYBRIDC_CPU`` a level of its architecture or of another.

Every choice for a processor (vector width, register tiles, gemm algorithm) follows from
:func:`features`, never from the host, so that code for a level is the same wherever it is compiled. A level has an
architecture; where that is not the host's, LLVM compiles for :func:`triple`, which is Linux's.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from hybridc.errors import OptionError
from hybridc.lower.llvm.codegen.host import host
from hybridc.options import OPTIONS

# The levels of architectures in ascending order, and the features that each adds, by LLVM's names. Those of x86-64 are
# its psABI's.
_LEVELS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "x86_64": {
        "x86-64": ("sse2",),
        "x86-64-v2": ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"),
        "x86-64-v3": ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"),
        "x86-64-v4": ("avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"),
    },
    "aarch64": {"aarch64": ("neon",)},
}
_ARCHITECTURES = {level: architecture for architecture, levels in _LEVELS.items() for level in levels}
# The levels whose CPU LLVM calls otherwise.
_CPUS: Mapping[str, str] = {"aarch64": "generic"}

# LLVM's triples of the architectures that a package has objects for.
TRIPLES: Mapping[str, str] = {"x86_64": "x86_64-unknown-linux-gnu", "aarch64": "aarch64-unknown-linux-gnu"}


def name(cpu: str | None = None) -> str:
    """LLVM's name of the target CPU, or of a level."""
    level = _level(cpu or OPTIONS.cpu)
    return host().name if level == "host" else _CPUS.get(level, level)


def architecture(cpu: str | None = None) -> str:
    """The architecture of the target CPU, or of a level, by Linux's name."""
    level = _level(cpu or OPTIONS.cpu)
    return _ARCHITECTURES[level] if level in _ARCHITECTURES else host().architecture


def triple(cpu: str | None = None) -> str:
    """LLVM's triple where the target CPU, or a level, is not of the host's architecture; else "" for the host's."""
    target = architecture(cpu)
    return "" if target == host().architecture else TRIPLES[target]


def system(cpu: str | None = None) -> str:
    """The system that runs the target's code, or a level's, by Python's name; it decides the format of objects."""
    return "linux" if triple(cpu) else host().system


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
    known = _LEVELS.get(architecture(), {})
    levels = [level for level in known if all(has.get(feature, False) for feature in _features(level))]
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
    if level not in _ARCHITECTURES:
        return {}
    known = _LEVELS[_ARCHITECTURES[level]]
    levels = list(known)
    return dict.fromkeys((f for x in levels[: levels.index(level) + 1] for f in known[x]), True)


def _level(cpu: str) -> str:
    """The requested level: "generic" is the lowest of the host's architecture, if that has levels."""
    return next(iter(_LEVELS.get(host().architecture, {})), cpu) if cpu == "generic" else cpu
