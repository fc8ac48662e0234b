"""``mx.np``: can be imported and asked for, and has none of MXNet's functions: arrays are those of ``mx.nd``."""

from __future__ import annotations

from typing import Any, NoReturn

from hybridc import nd
from hybridc.array.ndarray import NDArray
from hybridc.errors import UnsupportedError
from hybridc.ground.absent import absent as _absent

__all__ = ["ndarray"]

# ``from … import name`` asks for names as it asks a package, so that what there is not is told in our words.
__path__: list[str] = []

_WHAT = "the mx.np interface"


class ndarray(NDArray):
    """The class of arrays of ``mx.np``, for ``isinstance``: no array is one."""

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises; use ``mx.nd.array``."""
        raise UnsupportedError(f"mx.np.ndarray: this version of hybridc does not have {_WHAT}; use mx.nd.array")


def __getattr__(name: str) -> Any:
    instead = f"mx.nd.{name}" if not name.startswith("_") and hasattr(nd, name) else "mx.nd"
    raise _absent("mx.np", name, "attribute", __all__, (_WHAT, f"; use {instead}"))
