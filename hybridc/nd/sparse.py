"""``mx.nd.sparse``: classes of sparse arrays, of which there are no instances; all arrays of hybridc are dense."""

from __future__ import annotations

from typing import Any, NoReturn

from hybridc.array.ndarray import NDArray
from hybridc.dialects import operator_registry
from hybridc.errors import UnsupportedError
from hybridc.ground.absent import absent as _absent

__all__ = ["BaseSparseNDArray", "CSRNDArray", "RowSparseNDArray"]


# ``from … import name`` asks for names as it asks a package, so that what there is not is told in our words.
__path__: list[str] = []


class BaseSparseNDArray(NDArray):
    """The base of sparse arrays, for ``isinstance``: no array is one."""

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises; use dense arrays."""
        raise UnsupportedError(
            f"mx.nd.sparse.{cls.__name__}: this version of hybridc does not have sparse storage; use dense arrays"
        )


class CSRNDArray(BaseSparseNDArray):
    """A matrix in compressed rows: no array is one."""


class RowSparseNDArray(BaseSparseNDArray):
    """An array of few rows that are not zero: no array is one."""


def way_out(namespace: str, name: str) -> tuple[str, str]:
    """What the names of ``mx.nd.sparse`` and ``mx.sym.sparse`` are, and what to use instead of this one."""
    dense = f"; use dense arrays and {namespace}.{name}" if operator_registry.has_function(name) else ""
    return "sparse storage", dense or "; use dense arrays"


def __getattr__(name: str) -> Any:
    raise _absent("mx.nd.sparse", name, "attribute", __all__, way_out("mx.nd", name))
