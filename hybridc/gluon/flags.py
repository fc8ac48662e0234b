"""The keywords of ``hybridize``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hybridc.errors import AttributeValueError

FLAGS: dict[str, Any] = {
    "backend": None,
    "backend_opts": None,
    "clear": True,
    "static_alloc": False,
    "static_shape": False,
    "inline_limit": 2,
    "forward_bulk_size": None,
    "backward_bulk_size": None,
}


def check_flags(flags: Mapping[str, Any]) -> None:
    """Raise if ``hybridize`` does not know a keyword."""
    # COMPAT(mxnet): there a misspelt keyword becomes an option of the backend, and nothing happens.
    unknown = sorted(flags.keys() - FLAGS.keys())
    if unknown:
        raise AttributeValueError(
            f"hybridize() got an unexpected keyword {unknown[0]!r}; it takes active, {', '.join(FLAGS)}"
        )
