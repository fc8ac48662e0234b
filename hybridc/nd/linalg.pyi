# Written by python -m hybridc.stubs; do not edit.
# pyright: reportUnusedImport=false
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

from numpy.typing import DTypeLike

from hybridc.array.fluent import Fluent
from hybridc.context import Context

_A = TypeVar("_A", bound=Fluent)

from hybridc.nd.namespace import lookup as lookup

def det(
    A: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The determinant of each square matrix; the gradient of a singular one is 0"""
    ...

def extractdiag(
    A: _A,
    offset: int = 0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """A diagonal of each square matrix, along the last axis."""
    ...

def extracttrian(
    A: _A,
    offset: int = 0,
    lower: bool | int = True,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The elements of a triangle of each square matrix along the last axis."""
    ...

def gelqf(
    A: Fluent,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """The LQ factorization of each matrix with at least as many columns as rows: Q and L, where A = L Q"""
    ...

def gemm(
    A: _A,
    B: _A | None = None,
    C: _A | None = None,
    transpose_a: bool | int = False,
    transpose_b: bool | int = False,
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
    transpose_a: bool | int = False,
    transpose_b: bool | int = False,
    alpha: float = 1.0,
    axis: int = -2,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """alpha * op(A) @ op(B), where op transposes or not"""
    ...

def inverse(
    A: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The inverse of each square matrix"""
    ...

def makediag(
    A: _A,
    offset: int = 0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Square matrices with the elements of the last axis on a diagonal; 0 elsewhere."""
    ...

def maketrian(
    A: _A,
    offset: int = 0,
    lower: bool | int = True,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Square matrices with the elements of the last axis as a triangle; 0 elsewhere."""
    ...

def potrf(
    A: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The Cholesky factor of each symmetric positive definite matrix: the lower triangular L with A = L Lᵀ"""
    ...

def potri(
    A: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The inverse of L Lᵀ, given its Cholesky factor, the lower triangular L"""
    ...

def slogdet(
    A: Fluent,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """The sign of each square matrix's determinant, and the logarithm of its absolute value"""
    ...

def sumlogdiag(
    A: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The sum of the logarithms of each square matrix's diagonal: half the log-determinant of L Lᵀ, given L."""
    ...

def syevd(
    A: Fluent,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> Any:
    """The eigenvectors of each symmetric matrix, as the rows of U, and its eigenvalues, in ascending order"""
    ...

def syrk(
    A: _A,
    transpose: bool | int = False,
    alpha: float = 1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """alpha * A @ A.T, or alpha * A.T @ A with ``transpose``"""
    ...

def trmm(
    A: _A,
    B: _A | None = None,
    transpose: bool | int = False,
    rightside: bool | int = False,
    lower: bool | int = True,
    alpha: float = 1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """alpha * op(A) @ B, or alpha * B @ op(A) with ``rightside``, where A is triangular and op transposes or not"""
    ...

def trsm(
    A: _A,
    B: _A | None = None,
    transpose: bool | int = False,
    rightside: bool | int = False,
    lower: bool | int = True,
    alpha: float = 1.0,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The solution X of op(A) @ X = alpha * B, or of X @ op(A) = alpha * B with ``rightside``, by BLAS"""
    ...
