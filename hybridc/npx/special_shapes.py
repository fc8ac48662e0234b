"""Functions of ``mx.npx`` that are no operators of ``mx.nd``."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnnecessaryIsInstance=false
# Arguments are whatever NumPy takes: numbers, lists, arrays, symbols.

from __future__ import annotations

from typing import Any

from hybridc.array.dispatch import is_symbol
from hybridc.np.reducing import all as all_of
from hybridc.np.reducing import given
from hybridc.np.selection import nonzero as indices_of
from hybridc.np.shaping import reshape as reshape_to
from hybridc.np.shaping import stack


def nonzero(a: Any) -> Any:
    """The indices of the elements of ``a`` that are not 0, a row for each; int64."""
    return stack(indices_of(a), 1)


def constraint_check(x: Any, msg: str = "Constraint violated.") -> Any:
    """True if all elements of ``x`` are not 0; else a ValueError with the message ``msg``."""
    result = all_of(x)
    if not is_symbol(result) and not bool(result):
        raise ValueError(msg)
    return result


def reshape(a: Any, newshape: Any, reverse: bool = False, order: str = "C") -> Any:
    """The same elements in another shape, which may contain special numbers.

    -1 is what is left; -2 copies a size; -3 drops a size of 1; -4 copies all that remain; -5 multiplies two sizes; -6
    splits a size into the two that follow.

    Parameters
    ----------
    a:
        The array.
    newshape:
        A tuple of sizes and special numbers, or one of them.
    reverse:
        Whether sizes are matched from the right.
    order:
        ``"C"``: arrays are in row-major order; others are a NotImplementedError.
    """
    a = given(a)
    wanted = (newshape,) if isinstance(newshape, int) else tuple(newshape)
    if reverse:
        wanted = _resolved(a.shape[::-1], wanted[::-1])[::-1]
    else:
        wanted = _resolved(a.shape, wanted)
    return reshape_to(a, wanted, order=order)


def _resolved(shape: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...]:
    """The new shape with its special numbers replaced, except -1."""
    found: list[int] = []
    sizes = list(shape)
    parts = list(wanted)
    while parts:
        part = parts.pop(0)
        if part == -2:
            found.append(sizes.pop(0))
        elif part == -3:
            if sizes.pop(0) != 1:
                raise ValueError(f"mx.npx.reshape: -3 in {wanted} drops a size that is not 1 of shape {shape}")
        elif part == -4:
            found += sizes
            sizes = []
        elif part == -5:
            found.append(sizes.pop(0) * sizes.pop(0))
        elif part == -6:
            size, first, second = sizes.pop(0), parts.pop(0), parts.pop(0)
            first = size // second if first == -1 else first
            second = size // first if second == -1 else second
            if first * second != size:
                raise ValueError(f"mx.npx.reshape: -6 in {wanted} cannot split {size} into {first} and {second}")
            found += [first, second]
        else:
            found.append(part)
            if sizes:
                sizes.pop(0)
    return tuple(found)
