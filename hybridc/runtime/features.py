"""``mx.runtime.Features``: which of MXNet's features of compilation this installation has, by MXNet's names.

A feature is on if programs that ask for it find here what they expect: GPUs for ``CUDA``, images of files for
``OPENCV``, and so on, whichever library does it.
"""

from __future__ import annotations

import platform
from collections import OrderedDict
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, ClassVar

from hybridc.ground.hooks import HOOKS

__all__ = ["Feature", "Features", "feature_list"]


class Feature:
    """A feature: its ``name``, and whether it is ``enabled``."""

    def __init__(self, name: str, enabled: bool) -> None:
        self._name = name
        self._enabled = enabled

    @property
    def name(self) -> str:
        """MXNet's name of the feature."""
        return self._name

    @property
    def enabled(self) -> bool:
        """Whether it is here."""
        return self._enabled

    def __repr__(self) -> str:
        return f"{'✔' if self.enabled else '✖'} {self.name}"


def _gpus() -> bool:
    return HOOKS.devices().count() > 0


def _installed(module: str) -> Callable[[], bool]:
    return lambda: find_spec(module) is not None


def _always() -> bool:
    return True


def _never() -> bool:
    return False


def _on_x86() -> bool:
    """SSE2 and SSE3 are on every processor of 64 bits that NumPy runs on; what is newer is found when code is made."""
    return platform.machine().lower() in ("x86_64", "amd64")


# In MXNet's order. What is off is no part of hybridc: its own compiler stands for cuDNN, TensorRT, MKL-DNN and TVM.
_FEATURES: tuple[tuple[str, Callable[[], bool]], ...] = (
    ("CUDA", _gpus),
    ("CUDNN", _never),
    ("NCCL", _never),
    ("CUDA_RTC", _never),
    ("TENSORRT", _never),
    ("CPU_SSE", _on_x86),
    ("CPU_SSE2", _on_x86),
    ("CPU_SSE3", _on_x86),
    ("CPU_SSE4_1", _never),
    ("CPU_SSE4_2", _never),
    ("CPU_SSE4A", _never),
    ("CPU_AVX", _never),
    ("CPU_AVX2", _never),
    ("OPENMP", _never),
    ("SSE", _never),
    ("F16C", _never),
    ("JEMALLOC", _never),
    ("BLAS_OPEN", _always),
    ("BLAS_ATLAS", _never),
    ("BLAS_MKL", _never),
    ("BLAS_APPLE", _never),
    ("LAPACK", _always),
    ("MKLDNN", _never),
    ("OPENCV", _installed("cv2")),
    ("CAFFE", _never),
    ("PROFILER", _never),
    ("DIST_KVSTORE", _never),
    ("CXX14", _never),
    ("INT64_TENSOR_SIZE", _always),
    ("SIGNAL_HANDLER", _never),
    ("DEBUG", _never),
    ("TVM_OP", _never),
)


def feature_list() -> list[Feature]:
    """All features, in MXNet's order."""
    return [Feature(name, enabled()) for name, enabled in _FEATURES]


class Features(OrderedDict[str, Feature]):
    """The features by name; there is one object, which is made when it is first asked for."""

    instance: ClassVar[Features | None] = None

    def __new__(cls) -> Features:
        """The object."""
        if cls.instance is None:
            features = cls.instance = super().__new__(cls)
            super(Features, features).__init__([(f.name, f) for f in feature_list()])
        return cls.instance

    def __init__(self) -> None:
        """Made already."""

    def __repr__(self) -> str:
        return str(list(self.values()))

    def is_enabled(self, feature_name: str) -> bool:
        """Whether the feature ``feature_name`` is on; a RuntimeError that lists all, if there is none of this name."""
        feature: Any = self.get(feature_name.upper())
        if feature is None:
            raise RuntimeError(f"Feature '{feature_name.upper()}' is unknown, known features are: {list(self)}")
        return feature.enabled
