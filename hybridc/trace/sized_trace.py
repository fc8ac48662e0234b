"""A trace whose sizes are symbolic: kernels compiled from it hold for other sizes, too."""

from __future__ import annotations

import copy
import itertools
import operator
from collections.abc import Callable
from typing import Any, cast

from hybridc.dialects.operator import Operator
from hybridc.errors import ShapeError
from hybridc.ground.sizes import Sizes, is_size, keep_loop, value_of
from hybridc.trace.traced import TracedSymbol
from hybridc.trace.tracer import Trace

# Axes of an image: channels, height and width.
IMAGES = 3


def with_free_sizes(trace: Trace, sizes: Sizes, batches: bool = False) -> Trace:
    """The trace again, with free sizes of its arguments, and of attributes that users computed from them.

    They do that with plain integers. So indices are free sizes, too: how they relate to others is recorded when they
    meet. An integer of a shape that is as large as a size before is taken for that size, which is checked of other
    traces.

    A size of one is free only where ``batches`` are, and only if it leads a shape: its axis has a loop like those of
    greater batches. ShapeError, or another, if operators take it for something else: they broadcast it, or drop it.
    """
    seen: dict[int, Any] = {}  # the sizes so far, by their values

    def sized(op: Operator, inputs: list[TracedSymbol]) -> Operator:
        known = (sizes.known(n) for s in inputs for n in s.shape)
        seen.update((n.value, n) for n in known if is_size(n) and n.value not in seen)
        return _changed(op, lambda value, kind: _attribute(value, kind, sizes, seen))

    def leaf(symbol: TracedSymbol, role: str) -> Any:
        return _leaf(symbol.shape, sizes, batches) if role == "data" else symbol.shape

    resized = _again(trace, leaf, sized)
    if batches and _values(trace) != _values(resized):
        raise ShapeError("a batch of one is no batch to some operator")
    return resized


def is_one_image(trace: Trace) -> bool:
    """Whether an argument is a batch of one image: its first axis has size one, three or more follow."""
    data = [leaf.shape for leaf, role in zip(trace.leaves, trace.roles, strict=True) if role == "data"]
    return any(len(shape) > IMAGES and shape[0] == 1 for shape in data)


def with_known_sizes(trace: Trace, sizes: Sizes) -> Trace:
    """The trace with symbolic sizes again, where inference finds which equal others, or those of weights."""

    def known(values: Any) -> Any:
        if not isinstance(values, tuple):
            return sizes.known(values)
        inner = cast("tuple[Any, ...]", values)
        return tuple(map(sizes.known, inner)) if any(map(is_size, inner)) else inner

    return _again(trace, lambda leaf, _: known(leaf.shape), lambda op, _: _changed(op, lambda value, _: known(value)))


def sizes_of_arguments(trace: Trace) -> set[int]:
    """The atoms of the sizes of arguments: of batches, images and sequences."""
    data = [leaf.shape for leaf, role in zip(trace.leaves, trace.roles, strict=True) if role == "data"]
    return {atom for n in itertools.chain(*data) if is_size(n) for monomial, _ in n.terms for atom in monomial}


def _again(
    trace: Trace,
    shape_of: Callable[[TracedSymbol, str], Any],
    operator_of: Callable[[Operator, list[TracedSymbol]], Operator],
) -> Trace:
    """A trace with other shapes of its inputs and attributes of its operators, from which all shapes are inferred."""
    resized = copy.copy(trace)
    resized.is_symbolic = True
    resized.nodes, resized.leaves, resized.roles, resized.sources = [], [], [], []
    symbols: dict[int, Any] = {}
    for leaf, role, source in zip(trace.leaves, trace.roles, trace.sources, strict=True):
        symbols[id(leaf)] = resized.leaf(leaf.name, shape_of(leaf, role), leaf._dtype, role, source)
    for node in trace.nodes:
        inputs = [symbols[id(s)] for s in node.inputs]
        outputs = resized.emit(operator_of(node.op, inputs), inputs, node.location)
        for old, new in zip(node.outputs, outputs, strict=True):
            new.name = old.name
            symbols[id(old)] = new
    resized.outputs = [symbols[id(s)] for s in trace.outputs]
    return resized


def _changed(op: Operator, change: Callable[[Any, str], Any]) -> Operator:
    """An operator with other attributes."""
    values = [change(value, a.kind) for a, value in zip(op.ATTRIBUTES.values(), op.key[1:], strict=True)]
    return op if all(map(operator.is_, values, op.key[1:])) else op.bind_values(tuple(values))


def _leaf(shape: tuple[int, ...], sizes: Sizes, batches: bool) -> tuple[int, ...]:
    first = [keep_loop(sizes.free(1))] if batches and shape[:1] == (1,) else []
    return (*first, *[_free(n, sizes) if n > 1 else n for n in shape[len(first) :]])


def _values(trace: Trace) -> list[tuple[float, ...]]:
    """The shapes of all that a trace makes, with the values of their sizes."""
    return [tuple(map(value_of, symbol.shape)) for node in trace.nodes for symbol in node.outputs]


def _attribute(value: Any, kind: str, sizes: Sizes, seen: dict[int, int]) -> Any:
    if kind not in ("Shape", "Slice", "Index"):
        return value
    if not isinstance(value, tuple):
        return _integer(value, kind, sizes, seen)
    values = cast("tuple[Any, ...]", value)
    replaced = tuple([_integer(n, kind, sizes, seen) for n in values])
    return values if all(map(operator.is_, replaced, values)) else replaced


def _integer(value: Any, kind: str, sizes: Sizes, seen: dict[int, int]) -> Any:
    if type(value) is not int or value < 2:
        return value
    if kind != "Shape":
        return _free(value, sizes)
    if value in seen:
        return seen[value]
    for size in seen.values():
        assert size != value, "the value is that of no size"
    return value


def _free(value: int, sizes: Sizes) -> int:
    """A free size. Below two it would be none: it means something else to operators, and no loop walks such an axis."""
    size = sizes.free(value)
    assert size >= 2, "smaller integers are no sizes"
    return size
