"""Rules for shapes, NumPy's mostly: broadcasting, the axes of a reduction, and the shape of its result."""

from __future__ import annotations

from collections.abc import Sequence

from hybridc.dialects.operator_attribute import Shape
from hybridc.errors import ShapeError


def broadcast_shapes(title: str, names: Sequence[str], shapes: Sequence[Shape]) -> Shape:
    """The shape to which all shapes broadcast by NumPy's rule, or a :class:`ShapeError` that says why not."""
    first, rank = shapes[0], max(map(len, shapes))
    if all(len(s) == rank for s in shapes) and all(s == first for s in shapes):
        return first
    out: list[int] = []
    for axis in range(-rank, 0):
        sizes = [n for s in shapes if len(s) >= -axis and (n := s[axis]) != 1]
        if any(n != sizes[0] for n in sizes):
            got = ", ".join(f"{name} {shape}" for name, shape in zip(names, shapes, strict=False))
            raise ShapeError(
                f"{title}: shapes do not broadcast: {got}; axis {axis + rank} has sizes {sorted({*sizes})}, "
                "which must be equal or 1"
            )
        out.append(sizes[0] if sizes else 1)
    return tuple(out)


def filled_shapes(shapes: list[Shape], broadcast: bool = False) -> list[Shape]:
    """The shapes, with unknown sizes (-1) taken from known ones: all are to be equal.

    Of shapes that ``broadcast``, a known 1 says nothing of the others.
    """
    known = next((s for s in shapes if -1 not in s), None)
    if known is None and len({len(s) for s in shapes}) == 1:  # each may know other sizes
        known = tuple(max(sizes) for sizes in zip(*shapes, strict=True))
    if known is None:
        return shapes
    if broadcast:
        known = tuple(-1 if n == 1 else n for n in known)
    return [
        tuple(k if n == -1 else n for n, k in zip(s, known, strict=True)) if -1 in s and len(s) == len(known) else s
        for s in shapes
    ]


def reduced_axes(title: str, axis: int | Sequence[int] | None, exclude: bool, rank: int) -> tuple[int, ...]:
    """The axes that are reduced of so many, counted from 0 and sorted: all but the given ones, to ``exclude`` these.

    No axis, or none of several, means all. A scalar has no axis, but 0 and -1 are taken for it, as by NumPy.

    Raises:
        ShapeError: there is no such axis, or one is named twice.
    """
    given = () if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    if not rank:
        given = tuple(a for a in given if a not in (0, -1))
    for a in given:
        if not -rank <= a < rank:
            raise ShapeError(
                f"{title}: axis {a} is out of range for an input of {rank} dimensions; "
                f"it must be from {-rank} to {rank - 1}"
            )
    chosen = {a % rank for a in given}
    if len(chosen) < len(given):
        raise ShapeError(f"{title}: axis {axis} names an axis twice; name each once")
    if not given or exclude:
        chosen = set(range(rank)) - chosen
    return tuple(sorted(chosen))


def reduced_shape(shape: Shape, axes: Sequence[int], keepdims: bool) -> Shape:
    """The shape without the reduced axes, or with 1 there; a full reduction gives ``(1,)``."""
    if keepdims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes) or (1,)


def is_known(shape: Shape | None) -> bool:
    """Whether all sizes are known."""
    return shape is not None and -1 not in shape


def agree(shape: Shape | None, other: Shape | None) -> bool:
    """Whether two shapes may be the same one, as far as they are known."""
    if shape is None or other is None or shape == other:
        return True
    return len(shape) == len(other) and all(n == m or -1 in (n, m) for n, m in zip(shape, other, strict=True))


def merged_shape(name: str, known: Shape | None, shape: Shape | None) -> Shape | None:
    """What two statements say of one shape; an error if they contradict each other."""
    if shape is None or known is None or known is shape:
        return known if shape is None else tuple(shape)
    if not agree(known, shape):
        raise ShapeError(f"Shape inconsistent, Provided = {known}, inferred shape={tuple(shape)} of {name}")
    return tuple([s if k == -1 else k for k, s in zip(known, shape, strict=True)])
