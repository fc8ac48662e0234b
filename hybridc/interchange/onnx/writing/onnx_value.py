"""Values of an ONNX graph that is written: results of nodes, inputs, and arrays that are known."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dialects.scalar import Arithmetic

BOOL, INT64 = np.dtype(bool), np.dtype(np.int64)


class OnnxValue(Arithmetic):
    """A value with its shape and dtype; Python's operators on it are scalar steps of its ``builder``.

    A ``known`` array has no name until a node reads it: then it becomes an initializer. ``real`` are the numbers for
    which integers stand, if they have been computed.
    """

    __slots__ = ("builder", "dtype", "known", "name", "real", "shape")

    def __init__(self, builder: Any, name: str, shape: Shape, dtype: DType, known: Any = None) -> None:
        self.builder = builder
        self.name = name
        self.shape = tuple(shape)
        self.dtype = dtype
        self.known = known
        self.real: OnnxValue | None = None

    def __repr__(self) -> str:
        return f"<{self.name or 'constant'} {self.dtype}{list(self.shape)}>"

    @property
    def is_predicate(self) -> bool:
        """Whether it is a boolean."""
        return self.dtype == BOOL

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __getitem__(self, index: Any) -> OnnxValue:
        return self.builder.load(self, *(index if isinstance(index, tuple) else (index,)))
