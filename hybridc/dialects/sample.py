"""Sample calls of operators with reference results, from which tests are generated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

# A bad call: inputs, attributes, the error's text.
Bad = tuple[tuple[Any, ...], dict[str, Any], str]
# One Protocol per number of arguments, so that pyright knows the types of a lambda's parameters.
Reference = (
    Callable[[], Any]
    | Callable[[Any], Any]
    | Callable[[Any, Any], Any]
    | Callable[[Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any, Any], Any]
)


class Sample:
    """A valid call of an operator with an independent NumPy reference.

    ``Sample((x, y), axis=1, reference=lambda x, y: …)``: ``inputs`` are arrays (or shapes, filled from a fixed seed),
    ``reference`` maps float64 arrays to the result or a tuple of results. ``grad=False`` where there is no gradient to
    test; ``low``/``high`` bound the random values of shapes.
    """

    __slots__ = ("attrs", "dtypes", "grad", "high", "inputs", "low", "reference")

    def __init__(
        self,
        inputs: Sequence[Any],
        reference: Reference,
        *,
        grad: bool = True,
        low: float = -2.0,
        high: float = 2.0,
        dtypes: tuple[str, ...] = ("float32", "float64"),
        **attrs: Any,
    ) -> None:
        self.inputs = tuple(inputs)
        self.reference: Callable[..., Any] = reference
        self.grad = grad
        self.low = low
        self.high = high
        self.dtypes = dtypes
        self.attrs = attrs
