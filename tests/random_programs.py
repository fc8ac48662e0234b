"""Random straight-line programs, each step with what it means in NumPy: the oracle shares no code with the library."""

from __future__ import annotations

import contextlib
from collections import namedtuple
from random import Random

import numpy as np
from hypothesis import strategies as st

from hybridc.gluon import HybridBlock
from hybridc.transforms.schedules.arrays import schedule_arrays
from hybridc.transforms.schedules.arrays.schedule_arrays import ArrayMachine

SIZES = (0, 1, 1, 2, 3, 5, 7, 17)
LARGEST = 20000
FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "uint8", "int32", "int64")

Step = namedtuple("Step", "label ours reference operands dtype")


@contextlib.contextmanager
def tiles(elements, parallel):
    """Kernels tiled as larger arrays are: loops, partial tiles, worker threads."""
    before = schedule_arrays.MACHINE
    schedule_arrays.MACHINE = ArrayMachine(elements, elements, parallel_elements=parallel)
    try:
        yield
    finally:
        schedule_arrays.MACHINE = before


class Program:
    """The inputs (shape and dtype), the steps, and which values are returned."""

    def __init__(self, inputs, steps, outputs):
        self.inputs = inputs
        self.steps = steps
        self.outputs = outputs

    def __repr__(self):
        steps = [
            f"v{len(self.inputs) + n} = {s.label}({', '.join(f'v{i}' for i in s.operands)})"
            for n, s in enumerate(self.steps)
        ]
        return f"inputs {self.inputs}; {'; '.join(steps)}; return {self.outputs}"

    def run(self, F, inputs):
        """The outputs by the library's operators."""
        values = list(inputs)
        for step in self.steps:
            values.append(step.ours(F, *[values[i] for i in step.operands]))
        return [values[i] for i in self.outputs]

    def reference(self, inputs):
        """All values by NumPy: in float64 (or complex), and in int64 that wraps around as the dtype does."""
        values = list(inputs)
        for step in self.steps:
            with np.errstate(all="ignore"):
                found = step.reference(*[values[i] for i in step.operands])
            values.append(wrapped(found, step.dtype))
        return values


def wrapped(value, dtype):
    """An int64 array as the dtype would hold it; others stay."""
    return value.astype(dtype).astype(np.int64) if np.dtype(dtype).kind in "iu" else value


class Net(HybridBlock):
    """A random program as a block."""

    def __init__(self, program):
        super().__init__()
        self.program = program

    def hybrid_forward(self, F, *inputs):
        return self.program.run(F, inputs)


# --- the vocabulary: ours, and NumPy's -----------------------------------------------------------------------


def softmax(x, axis):
    e = np.exp(x - x.real.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def normalized(x):
    d = x - x.mean(axis=-1, keepdims=True)
    return d / np.sqrt((d * d).mean(axis=-1, keepdims=True) + 1e-5)


# Analytic almost everywhere: their references take complex numbers, too.
SMOOTH = {
    "exp": (lambda F, x: F.exp(x * 0.25), lambda x: np.exp(x / 4)),
    "tanh": (lambda F, x: F.tanh(x), np.tanh),
    "sin": (lambda F, x: F.sin(x), np.sin),
    "sigmoid": (lambda F, x: F.sigmoid(x), lambda x: 1 / (1 + np.exp(-x))),
    "square": (lambda F, x: F.square(x * 0.5), lambda x: x * x / 4),
    "negative": (lambda F, x: -x, lambda x: -x),
    "scale": (lambda F, x: 2 * x - 1.5, lambda x: 2 * x - 1.5),
    "inverse": (lambda F, x: 1 / (F.square(x) + 1), lambda x: 1 / (x * x + 1)),
    "root": (lambda F, x: F.sqrt(F.square(x) + 1), lambda x: np.sqrt(x * x + 1)),
    "leaky": (lambda F, x: F.LeakyReLU(x, slope=0.25), lambda x: np.where(x.real > 0, x, x / 4)),
    "abs": (lambda F, x: F.abs(x), lambda x: np.where(x.real > 0, x, -x)),
    "stopped": (lambda F, x: F.BlockGrad(x) * x, lambda x: x.real * x),
    "softmax": (lambda F, x: F.softmax(x, axis=-1), lambda x: softmax(x, -1)),
    "softmax0": (lambda F, x: F.softmax(x, axis=0), lambda x: softmax(x, 0)),
    "log_softmax": (lambda F, x: F.log_softmax(x, axis=-1), lambda x: np.log(softmax(x, -1))),
    "normalized": (
        lambda F, x: F.LayerNorm(x, *[F.ones((x.shape[-1],), dtype=x.dtype) * n for n in (1, 0)]),
        normalized,
    ),
}
NEEDS_ELEMENTS = ("softmax", "softmax0", "log_softmax", "normalized")
KINKED = {
    "relu": (lambda F, x: F.relu(x), lambda x: np.maximum(x, 0)),
    "clip": (lambda F, x: F.clip(x, 1, 5), lambda x: np.clip(x, 1, 5)),
    "copy": (lambda F, x: F.identity(x), lambda x: x),
}
WHOLE = {
    "negative": SMOOTH["negative"],
    "square": (lambda F, x: F.square(x), lambda x: x * x),
    "increment": (lambda F, x: x + 3, lambda x: x + 3),
    "where": (lambda F, x: F.where(x > 2, x, x * 2), lambda x: np.where(x > 2, x, x * 2)),
    **KINKED,
}
BINARY = {
    "add": (lambda F, x, y: F.broadcast_add(x, y), lambda x, y: x + y),
    "sub": (lambda F, x, y: x - y, lambda x, y: x - y),
    "mul": (lambda F, x, y: x * y, lambda x, y: x * y),
    "div": (lambda F, x, y: x / (F.square(y) + 1), lambda x, y: x / (y * y + 1)),
}
CHOICE = {
    "maximum": (lambda F, x, y: F.broadcast_maximum(x, y), np.maximum),
    "minimum": (lambda F, x, y: F.broadcast_minimum(x, y), np.minimum),
}
COMPARISON = {
    "greater": (lambda F, x, y: F.broadcast_greater(x, y), lambda x, y: (x > y) * 1),
    "equal": (lambda F, x, y: F.broadcast_equal(x, y), lambda x, y: (x == y) * 1),
}
REDUCE = {
    "sum": (lambda F, x, **how: F.sum(x, **how), np.sum),
    "mean": (lambda F, x, **how: F.mean(x, **how), np.mean),
    "max": (lambda F, x, **how: F.max(x, **how), np.max),
    "min": (lambda F, x, **how: F.min(x, **how), np.min),
}


def reduction(name, axes, keepdims):
    """A reduction; where no axis is left the library gives an array of one element."""
    ours, reference = REDUCE[name]

    def numpy(x):
        found = reference(x, axis=axes, keepdims=keepdims)
        return found if np.ndim(found) else np.reshape(found, (1,))

    return lambda F, x: ours(F, x, axis=axes, keepdims=keepdims), numpy


@st.composite
def moves(draw, shape, kind):
    """A step that moves elements: label, ours, NumPy's."""
    rank, axis = len(shape), draw(st.integers(0, len(shape) - 1))
    size = shape[axis]
    if kind == "transpose":
        axes = tuple(draw(st.permutations(range(rank))))
        return f"{kind}{axes}", lambda F, x: F.transpose(x, axes=axes), lambda x: x.transpose(axes)
    if kind == "slice":
        begin = draw(st.integers(0, size))
        end = draw(st.integers(begin, size))
        ours = lambda F, x: F.slice_axis(x, axis=axis, begin=begin, end=end)  # noqa: E731
        return f"{kind}{axis}:{begin}:{end}", ours, lambda x: x.take(range(begin, end), axis=axis)
    if kind == "stride":
        step = draw(st.sampled_from([2, 3, -1, -2]))
        index = (slice(None),) * axis + (slice(None, None, step),)
        return f"{kind}{axis}::{step}", lambda F, x: x[index], lambda x: x[index]
    if kind == "expand":
        return f"{kind}{axis}", lambda F, x: F.expand_dims(x, axis=axis), lambda x: np.expand_dims(x, axis)
    if kind == "swap":
        return f"{kind}{axis}", lambda F, x: F.swapaxes(x, 0, axis), lambda x: np.swapaxes(x, 0, axis)
    if kind == "flip":
        return f"{kind}{axis}", lambda F, x: F.flip(x, axis=axis), lambda x: np.flip(x, axis)
    if kind == "concat":
        return f"{kind}{axis}", lambda F, x: F.concat(x, -x, dim=axis), lambda x: np.concatenate([x, -x], axis)
    if kind == "stack":
        return f"{kind}{axis}", lambda F, x: F.stack(x, x * 2, axis=axis), lambda x: np.stack([x, x * 2], axis)
    if kind == "repeat":
        return f"{kind}{axis}", lambda F, x: F.repeat(x, repeats=2, axis=axis), lambda x: np.repeat(x, 2, axis)
    if kind == "tile":
        return kind, lambda F, x: F.tile(x, reps=(2,)), lambda x: np.tile(x, 2)
    if kind == "broadcast":
        new = (3, *shape)
        ours = lambda F, x: F.broadcast_to(F.expand_dims(x, 0), shape=new)  # noqa: E731
        return kind, ours, lambda x: np.broadcast_to(x, new)
    new = draw(reshapes(shape))
    return f"reshape{new}", lambda F, x: F.reshape(x, new), lambda x: x.reshape(new)


MOVES = ("transpose", "slice", "stride", "expand", "swap", "flip", "concat", "stack")
MOVES += ("repeat", "tile", "broadcast", "reshape", "reshape")


@st.composite
def reshapes(draw, shape):
    """Another shape of as many elements: axes joined, split, dropped."""
    sizes = list(shape)
    for _ in range(draw(st.integers(1, 2))):
        axis = draw(st.integers(0, len(sizes) - 1))
        factor = draw(st.sampled_from([n for n in (1, 2, 3, 5) if sizes[axis] % n == 0]))
        if axis and draw(st.booleans()):
            sizes[axis - 1 : axis + 1] = [sizes[axis - 1] * sizes[axis]]
        elif len(sizes) < 4:
            sizes[axis : axis + 1] = [factor, sizes[axis] // factor]
    return tuple(sizes)


def broadcasts(a, b):
    """Whether two shapes broadcast."""
    try:
        return len(np.broadcast_shapes(a, b)) <= 4
    except ValueError:
        return False


class _Writer:
    """A program while it is drawn: what is known of each value."""

    def __init__(self, inputs, random):
        self.inputs = inputs
        self.steps = []
        self.shapes = [shape for shape, _ in inputs]
        self.dtypes = [dtype for _, dtype in inputs]
        self.random = random

    def pick(self, names):
        """One of them, all equally often: hypothesis prefers the first of what it samples from."""
        return self.random.choice(sorted(names))

    def add(self, label, ours, reference, operands, dtype=None):
        """A step, unless its result is too large; its shape is NumPy's."""
        probe = reference(*[np.zeros(self.shapes[i], np.int64) for i in operands])
        if probe.ndim > 4 or probe.size > LARGEST:
            return
        self.steps.append(Step(label, ours, reference, operands, dtype or self.dtypes[operands[0]]))
        self.shapes.append(probe.shape)
        self.dtypes.append(self.steps[-1].dtype)


@st.composite
def programs(draw, dtypes=FLOATS + INTEGERS, smooth=False, sizes=SIZES):
    """A program on inputs of these dtypes; a smooth one can be differentiated everywhere."""
    rank = draw(st.integers(1, 4))
    full = tuple(draw(st.sampled_from(sizes)) for _ in range(rank))
    if np.prod(full) > 2000:
        full = full[:2]
    random = Random(draw(st.integers(0, 2**32)))
    dtype = random.choice(dtypes)
    inputs = [(full, dtype)]
    for _ in range(draw(st.integers(0, 2))):  # inputs that broadcast against the first
        some = tuple(n if draw(st.booleans()) else 1 for n in full)
        inputs.append((some[draw(st.integers(0, len(full) - 1)) :], dtype))
    writer = _Writer(inputs, random)
    for _ in range(draw(st.integers(1, 9))):
        draw(_step(writer, smooth))
    last = len(writer.shapes) - 1
    return Program(inputs, writer.steps, [last, *draw(st.lists(st.integers(0, last), max_size=3))])


@st.composite
def _step(draw, writer, smooth):
    last = len(writer.shapes) - 1
    i = draw(st.integers(max(0, last - 3), last))
    shape, dtype = writer.shapes[i], writer.dtypes[i]
    whole = np.dtype(dtype).kind in "iu"
    kinds = ["unary", "unary", "binary", "binary", "reduce", "move", "move", "matmul", "cast"]
    match writer.pick(kinds):
        case "unary":
            table = WHOLE if whole else SMOOTH if smooth else SMOOTH | KINKED
            name = writer.pick(table)
            if 0 not in shape or name not in NEEDS_ELEMENTS:
                writer.add(name, *table[name], [i])
        case "binary":
            table = dict(BINARY) if smooth else BINARY | CHOICE
            if whole:
                table = table | COMPARISON
                del table["div"]
            alike = [j for j in range(last + 1) if writer.dtypes[j] == dtype and broadcasts(shape, writer.shapes[j])]
            pair = draw(st.permutations([i, draw(st.sampled_from(alike))]))
            name = writer.pick(table)
            writer.add(name, *table[name], pair)
        case "reduce":
            axes = tuple(sorted(draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))))
            empty = any(shape[axis] == 0 for axis in axes)
            names = ["sum"] if empty or (whole and smooth) else ["sum", "mean"] if smooth else sorted(REDUCE)
            name = writer.pick(n for n in names if not (whole and n == "mean"))
            keep = draw(st.booleans())
            writer.add(f"{name}{axes}{'keep' * keep}", *reduction(name, axes, keep), [i])
        case "move":
            writer.add(*draw(moves(shape, writer.pick(MOVES if 0 not in shape else MOVES[:8]))), [i])
        case "cast" if not smooth:
            new = writer.pick(d for d in FLOATS + INTEGERS if whole or np.dtype(d).kind == "f")
            if np.dtype(new).kind == "f":  # what integers hold may be too much for a float16
                writer.add(
                    f"cast_{new}",
                    lambda F, x, d=new: F.cast(F.clip(x, -50, 50) if whole else x, d),
                    lambda x: np.clip(x, -50, 50) if whole else x,
                    [i],
                    new,
                )
            else:
                writer.add(f"cast_{new}", lambda F, x, d=new: F.cast(x, d), lambda x: x, [i], new)
        case "matmul" if not whole and len(shape) in (2, 3):
            rows = "dot" if len(shape) == 2 else "batch_dot"
            writer.add(
                rows,
                lambda F, x: getattr(F, rows)(x, x, transpose_b=True) * 0.25,
                lambda x: x @ np.swapaxes(x, -1, -2) / 4,
                [i],
            )
