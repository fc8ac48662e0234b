"""``mx.test_utils``: comparing arrays in tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hybridc import random
from hybridc.array.ndarray import NDArray
from hybridc.context import Context, current_context

__all__ = [
    "almost_equal",
    "assert_almost_equal",
    "check_op",
    "default_context",
    "default_dtype",
    "rand_ndarray",
    "rand_shape_2d",
    "rand_shape_3d",
    "rand_shape_nd",
    "same",
]

# Relative and absolute tolerances by dtype, as MXNet has them; wider where there are fewer digits than MXNet knows.
_TOLERANCES = {
    "bfloat16": (8e-2, 1e-1),
    "float16": (1e-2, 1e-1), "float32": (1e-4, 1e-3), "float64": (1e-5, 1e-20),
}  # fmt: skip


def default_context() -> Context:
    """The device of tests."""
    return current_context()


def default_dtype() -> Any:
    """The dtype of tests."""
    return np.float32


def _numpy(x: Any) -> npt.NDArray[Any]:
    return x.asnumpy() if hasattr(x, "asnumpy") else np.asarray(x)


def _tolerances(a: Any, b: Any, rtol: float | None, atol: float | None) -> tuple[float, float]:
    """The given tolerances, or those of the coarser of both dtypes."""
    found = [_TOLERANCES.get(x.dtype.name, (0.0, 0.0)) for x in (a, b)]
    return (
        max(r for r, _ in found) if rtol is None else rtol,
        max(t for _, t in found) if atol is None else atol,
    )


def same(a: Any, b: Any) -> bool:
    """Whether two arrays are equal in every element."""
    return np.array_equal(_numpy(a), _numpy(b))


def almost_equal(a: Any, b: Any, rtol: float | None = None, atol: float | None = None, equal_nan: bool = False) -> bool:
    """Whether |a - b| <= atol + rtol * |b| everywhere."""
    x, y = _numpy(a), _numpy(b)
    rtol, atol = _tolerances(x, y, rtol, atol)
    return np.allclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan)


def assert_almost_equal(
    a: Any,
    b: Any,
    rtol: float | None = None,
    atol: float | None = None,
    names: tuple[str, str] = ("a", "b"),
    equal_nan: bool = False,
) -> None:
    """Raise AssertionError, with the largest differences, unless |a - b| <= atol + rtol * |b| everywhere."""
    x, y = _numpy(a), _numpy(b)
    rtol, atol = _tolerances(x, y, rtol, atol)
    np.testing.assert_allclose(
        x, y, rtol=rtol, atol=atol, equal_nan=equal_nan, err_msg=f"{names[0]} and {names[1]} differ"
    )


def check_op(name: str) -> None:
    """Raise an AssertionError that says what is wrong, unless an operator does what its class and its samples say.

    ``check_op("mylib.swish")`` is ``python -m hybridc.tools.check_op mylib.swish``, inside a test.
    """
    from hybridc.tools.check_op import check_op as check

    check(name)


def rand_ndarray(shape: tuple[int, ...], dtype: Any = "float32") -> Any:
    """An array of uniform random numbers from [-1, 1)."""
    values = random.generator(random.next_key()).random(shape) * 2 - 1
    return NDArray(values.astype(dtype))


def rand_shape_nd(num_dim: int, dim: int = 10, allow_zero_size: bool = False) -> tuple[int, ...]:
    """A random shape of ``num_dim`` sizes from 1 (or 0) to ``dim``."""
    sizes = np.random.randint(0 if allow_zero_size else 1, dim + 1, size=num_dim)
    return tuple(int(n) for n in sizes)


def rand_shape_2d(dim0: int = 10, dim1: int = 10, allow_zero_size: bool = False) -> tuple[int, ...]:
    """A random shape of two sizes, up to ``dim0`` and ``dim1``."""
    return tuple(rand_shape_nd(1, d, allow_zero_size)[0] for d in (dim0, dim1))


def rand_shape_3d(dim0: int = 10, dim1: int = 10, dim2: int = 10, allow_zero_size: bool = False) -> tuple[int, ...]:
    """A random shape of three sizes, up to ``dim0``, ``dim1`` and ``dim2``."""
    return tuple(rand_shape_nd(1, d, allow_zero_size)[0] for d in (dim0, dim1, dim2))
