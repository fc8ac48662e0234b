"""Einstein sums: contractions of two operands at a time are batched matrix products."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnnecessaryIsInstance=false
# Arguments are whatever NumPy takes: numbers, lists, arrays, symbols.

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as onp

from hybridc.array.functions import function
from hybridc.dialects.numpy_rules import BOOL
from hybridc.np.apply import cast, dtype_of, into, reshaped
from hybridc.np.reducing import sum
from hybridc.np.shaping import promoted, reshape, transpose
from hybridc.np.sums_of_products import product_of_matrices

__all__ = ["einsum"]

Labels = tuple[Any, ...]


def einsum(subscripts: Any, *operands: Any, optimize: Any = False, out: Any = None) -> Any:
    """The sum of products over the labels of axes that ``subscripts`` names: ``einsum("ij,jk->ik", a, b)``.

    With more than two operands, ``optimize`` says which pairs are contracted first: by NumPy's greedy search unless
    it is a path of ``numpy.einsum_path``.
    """
    terms, result, arrays = _parsed((subscripts, *operands))
    arrays = promoted(arrays)
    is_bool = dtype_of(arrays[0]) == BOOL
    if is_bool:
        arrays = [cast(a, "float32") for a in arrays]
    terms = [
        _with_dots(term, a.ndim, len([x for x in term if x is not Ellipsis]))
        for term, a in zip(terms, arrays, strict=True)
    ]
    result = _output(terms, result)
    sizes = _sizes(terms, [a.shape for a in arrays])
    if any(label not in sizes for label in result):
        raise ValueError(f"einsum: the output has a label that no operand has; labels are {list(sizes)}")
    values = [_plain_axes(a, term, sizes) for a, term in zip(arrays, terms, strict=True)]
    for pair in _path(terms, result, sizes, optimize):
        taken = [values[i] for i in pair]
        values = [v for i, v in enumerate(values) if i not in pair]
        needed = set(result).union(*[labels for _, labels in values])
        value = taken[0]
        for other in taken[1:-1]:
            value = _contracted(value, other, needed.union(*[labels for _, labels in taken]))
        values.append(_contracted(value, taken[-1], needed) if len(taken) > 1 else value)
    a, labels = values[0]
    a, labels = _summed(a, labels, set(result))
    a = _ordered(a, labels, result, sizes)
    return into(cast(a, BOOL) if is_bool else a, out)


def _parsed(operands: Sequence[Any]) -> tuple[list[Labels], Labels | None, list[Any]]:
    """The labels of each operand, those of the result if they are named, and the operands."""
    first, *rest = operands
    if not isinstance(first, str):  # einsum(a, [0, 1], b, [1, 2], [0, 2])
        result = tuple(operands[-1]) if len(operands) % 2 else None
        pairs = len(operands) // 2
        return [tuple(operands[2 * i + 1]) for i in range(pairs)], result, [operands[2 * i] for i in range(pairs)]
    text = first.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    terms = [_labels(term) for term in inputs.split(",")]
    if len(terms) != len(rest):
        raise ValueError(f"einsum: subscripts {first!r} are for {len(terms)} operands, there are {len(rest)}")
    return terms, _labels(output) if arrow else None, rest


def _labels(term: str) -> Labels:
    """The letters of a term, and ``...`` as Ellipsis."""
    before, dots, after = term.partition("...")
    letters = before + after
    if not all(letter.isalpha() for letter in letters):
        raise ValueError(f"einsum: {term!r} has what is neither a letter nor '...'")
    return (*before, *([Ellipsis] if dots else []), *after)


def _with_dots(term: Labels, rank: int, named: int) -> Labels:
    """The labels of all axes; those of an ellipsis are numbers below 0, counted from the right."""
    if Ellipsis in term:
        place, rest = term.index(Ellipsis), rank - named
        if rest >= 0:
            return (*term[:place], *[("...", i) for i in range(-rest, 0)], *term[place + 1 :])
    if named != rank or Ellipsis in term:
        raise ValueError(f"einsum: {named} subscripts do not fit an operand of {rank} dimensions")
    return term


def _output(terms: list[Labels], result: Labels | None) -> Labels:
    """The labels of the result: without ``->`` those that come once, in order."""
    every = [label for term in terms for label in term]
    dots = sorted({label for label in every if label.__class__ is tuple}, key=lambda label: label[1])
    if result is None:
        named = [label for label in every if label.__class__ is not tuple]
        return (*dots, *sorted(label for label in set(named) if named.count(label) == 1))
    if len(set(result)) != len(result):
        raise ValueError(f"einsum: the output {result} has a label twice")
    if Ellipsis in result:
        place = result.index(Ellipsis)
        return (*result[:place], *dots, *result[place + 1 :])
    return result


def _sizes(terms: list[Labels], shapes: list[tuple[int, ...]]) -> dict[Any, int]:
    """The size of each label; an axis of size 1 broadcasts."""
    sizes: dict[Any, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for label, n in zip(term, shape, strict=True):
            known = sizes.setdefault(label, n)
            if known != n and 1 not in (known, n):
                raise ValueError(f"einsum: label {label!r} has size {known} and size {n}")
            sizes[label] = n if known == 1 else known
    return sizes


def _plain_axes(a: Any, term: Labels, sizes: dict[Any, int]) -> tuple[Any, Labels]:
    """An operand whose labels differ: diagonals where one comes twice; axes that broadcast are left out."""
    labels = list(term)
    kept = [i for i, label in enumerate(labels) if a.shape[i] == sizes[label]]
    if len(kept) < len(labels):
        a, labels = reshape(a, tuple(a.shape[i] for i in kept)), [labels[i] for i in kept]
    while len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        first = labels.index(twice)
        second = labels.index(twice, first + 1)
        a = function("diag")(a, k=0, axis1=first, axis2=second)
        labels = [label for i, label in enumerate(labels) if i not in (first, second)] + [twice]
    return a, tuple(labels)


def _path(terms: list[Labels], result: Labels, sizes: dict[Any, int], optimize: Any) -> list[tuple[int, ...]]:
    """Which operands are contracted one after the other; each result is put at the end."""
    if len(terms) == 1:
        return []
    if len(terms) == 2:
        return [(0, 1)]
    number = {label: i for i, label in enumerate(sizes)}
    args: list[Any] = []
    for term in terms:
        labels = list(dict.fromkeys(term))
        args += [onp.broadcast_to(onp.float32(0), [sizes[label] for label in labels]), [number[x] for x in labels]]
    how = "greedy" if isinstance(optimize, bool) else list(optimize) if isinstance(optimize, tuple) else optimize
    found = onp.einsum_path(*args, [number[label] for label in result], optimize=how)[0]
    return [tuple(int(i) for i in step) for step in found[1:]]


def _summed(a: Any, labels: Labels, needed: set[Any]) -> tuple[Any, Labels]:
    """The sum over the labels that nothing else has."""
    alone = tuple(i for i, label in enumerate(labels) if label not in needed)
    if not alone:
        return a, labels
    return sum(a, alone, dtype=a.dtype), tuple(label for label in labels if label in needed)


def _ordered(a: Any, labels: Labels, result: Labels, sizes: dict[Any, int]) -> Any:
    """The axes in the order of the result; a label that only broadcasts has size 1."""
    order = [labels.index(label) for label in result if label in labels]
    a = a if order == list(range(len(order))) else transpose(a, order)
    return reshaped(a, tuple(sizes[label] for label in result))


def _contracted(first: tuple[Any, Labels], second: tuple[Any, Labels], needed: set[Any]) -> tuple[Any, Labels]:
    """The sum of products of two operands over the labels that are not needed later."""
    a, of_a = _summed(*first, needed.union(second[1]))
    b, of_b = _summed(*second, needed.union(first[1]))
    shared = [label for label in of_a if label in of_b]
    batch = [label for label in shared if label in needed]
    inner = [label for label in shared if label not in needed]
    left = [label for label in of_a if label not in shared]
    right = [label for label in of_b if label not in shared]
    size = {**dict(zip(of_a, a.shape, strict=True)), **dict(zip(of_b, b.shape, strict=True))}

    def folded(x: Any, labels: Labels, groups: list[list[Any]]) -> Any:
        order = [labels.index(label) for group in groups for label in group]
        x = x if order == list(range(len(order))) else transpose(x, order)
        return x, [math.prod(size[label] for label in group) for group in groups]

    labels = (*batch, *left, *right)
    shape = tuple(size[label] for label in labels)
    x, (n, rows, depth) = folded(a, of_a, [batch, left, inner])
    y, (_, _, columns) = folded(b, of_b, [batch, inner, right])
    if not inner:  # an outer product, or one by elements
        x, y = reshape(x, (n, rows, 1)), reshape(y, (n, 1, columns))
        return reshape(x * y, shape), labels
    if not batch:
        x, y = reshape(x, (rows, depth)), reshape(y, (depth, columns))
    else:
        x, y = reshape(x, (n, rows, depth)), reshape(y, (n, depth, columns))
    return reshape(product_of_matrices(x, y), shape), labels
