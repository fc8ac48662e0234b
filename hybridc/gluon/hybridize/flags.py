"""The keywords of ``hybridize``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from hybridc.errors import AttributeValueError
from hybridc.subgraph import backend_steps


class HybridizeOptions(TypedDict, total=False):
    """The keywords for type checkers; with a backend there are those of the backend, too."""

    backend: None
    backend_opts: dict[str, Any] | None
    clear: bool
    static_alloc: bool
    static_shape: bool
    inline_limit: int
    forward_bulk_size: int | None
    backward_bulk_size: int | None
    background: bool | None


FLAGS: dict[str, Any] = {
    "backend": None,
    "backend_opts": None,
    "clear": True,
    "static_alloc": False,
    "static_shape": False,
    "inline_limit": 2,
    "forward_bulk_size": None,
    "backward_bulk_size": None,
    "background": None,
}


def check_flags(flags: Mapping[str, Any]) -> None:
    """Raise if ``hybridize`` does not know a keyword, or the backend; what it does not know is the backend's."""
    # COMPAT(mxnet): an unknown backend is only logged there, and the network runs without it.
    if flags.get("backend") is not None:
        backend_steps(flags["backend"])
        return
    # COMPAT(mxnet): there a misspelt keyword is an option of the backend also where there is none.
    unknown = sorted(flags.keys() - FLAGS.keys())
    if unknown:
        raise AttributeValueError(
            f"hybridize() got an unexpected keyword {unknown[0]!r}; it takes active, {', '.join(FLAGS)}"
        )


def backends_of(before: tuple[Any, ...], flags: Mapping[str, Any]) -> tuple[Any, ...]:
    """The backends that apply, with their options: those before, unless they are cleared, and the new one."""
    kept = () if flags.get("clear", True) else before
    name = flags.get("backend")
    if name is None:
        return kept
    options = {k: v for k, v in flags.items() if k not in FLAGS}
    return (*kept, (name, {**(flags.get("backend_opts") or {}), **options}))
