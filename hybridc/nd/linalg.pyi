# Written by python -m hybridc.tools.stubs; do not edit.
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

from numpy.typing import DTypeLike

from hybridc.array.fluent import Fluent
from hybridc.context import Context

_A = TypeVar("_A", bound=Fluent)

from hybridc.nd.namespace import lookup as lookup

def gemm(
    A: _A,
    B: _A | None = None,
    C: _A | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    alpha: float = 1.0,
    beta: float = 1.0,
    axis: int = -2,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """alpha * op(A) @ op(B) + beta * C, where op transposes or not"""
    ...

def gemm2(
    A: _A,
    B: _A | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    alpha: float = 1.0,
    axis: int = -2,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """alpha * op(A) @ op(B), where op transposes or not"""
    ...

def syrk(
    A: _A,
    transpose: bool = False,
    alpha: float = 1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """alpha * A @ A.T, or alpha * A.T @ A with ``transpose``"""
    ...
