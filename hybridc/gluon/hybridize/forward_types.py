"""What a call of a block gives, for type checkers: what its ``forward``, or ``hybrid_forward``, says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

_Result = TypeVar("_Result", covariant=True)


class Unsaid:
    """A result that only a block can have which says nothing of its results: nothing else is of this class."""


class Forwards(Protocol[_Result]):
    """A block whose ``forward`` has a result of a type."""

    def forward(self, *args: Any, **_: Any) -> _Result:
        """The outputs."""
        ...


class HybridForwards(Protocol[_Result]):
    """A block whose ``hybrid_forward`` has a result of a type, as ``HybridBlock.forward`` needs it."""

    _reg_params: dict[str, Any]

    def hybrid_forward(self, F: Any, /, *args: Any, **kwargs: Any) -> _Result:
        """The outputs."""
        ...

    def _finish_deferred(self, params: Mapping[str, Any], args: tuple[Any, ...]) -> None: ...
