"""Namespaces of ``mx.nd``: ``nd.linalg.gemm2`` is the operator with the alias "linalg.gemm2"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybridc.array.functions import function
from hybridc.dialects import operator_registry
from hybridc.ground.absent import absent as _absent


def lookup(namespace: str, *prefixes: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of the module of a namespace.

    ``prefixes`` are other spellings: MXNet's ``nd.linalg_gemm2`` for ``nd.linalg.gemm2``.
    """
    starts = (f"{namespace}.", *prefixes)

    def getattr_(name: str) -> Any:
        if name.startswith("__"):  # import asks for __path__
            raise _absent(f"mx.nd.{namespace}", name, "operator", ())
        for start in starts:
            if operator_registry.has_function(start + name):
                return function(start + name)
        raise _absent(f"mx.nd.{namespace}", name, "operator", dir_())

    def dir_() -> list[str]:
        found = {n.removeprefix(s) for n in operator_registry.functions() for s in starts if n.startswith(s)}
        return sorted(n for n in found if n.isidentifier())

    return getattr_, dir_
