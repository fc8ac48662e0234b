"""Classes of kernels by element types and shapes on ``mx.gpu(0)``, each against NumPy in float64."""

# The tables are of functions of any F and arrays.
# pyright: reportUnknownLambdaType=none, reportUnknownMemberType=none, reportUnknownArgumentType=none
# pyright: reportUnknownVariableType=none

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import hybridc as mx
from hybridc.dtypes import is_float
from hybridc.gluon import nn

EPS = {"float16": 1e-3, "float32": 1.2e-7, "float64": 2.3e-16}
FLOATS = ("float32", "float16", "float64")
INTEGERS = ("int32", "int64", "int8", "uint8")
Shape = tuple[int, ...]
Function = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """A function of F and arrays, and the same of arrays in float64; ``ulps`` are of the largest number of a result."""

    name: str
    ours: Function
    reference: Function
    shapes: tuple[Shape, ...]
    dtype: str = "float32"
    ulps: float = 16
    change: Callable[[list[np.ndarray]], list[np.ndarray]] = lambda arrays: arrays

    @property
    def label(self) -> str:
        """The class, the element type and the shapes."""
        return f"{self.name}, {self.dtype}, {' '.join('x'.join(map(str, s)) or '()' for s in self.shapes)}"

    @property
    def size(self) -> int:
        """Elements of the largest argument."""
        return max(math.prod(s) for s in self.shapes)

    def run(self) -> None:
        """Raise AssertionError unless the results are right."""
        rng = np.random.default_rng(1)
        arrays = self.change([numbers(rng, s, self.dtype) for s in self.shapes])
        net = nn.HybridLambda(self.ours)
        net.hybridize()
        result = net(*[mx.nd.array(a, ctx=mx.gpu(0), dtype=a.dtype) for a in arrays])
        got = result if isinstance(result, list | tuple) else [result]
        with np.errstate(all="ignore"):
            want = self.reference(*[a.astype(np.float64) if is_float(a.dtype) else a for a in arrays])
        want = want if isinstance(want, tuple) else (want,)
        assert len(got) == len(want), f"{len(got)} results, expected {len(want)}"
        for y, w in zip(got, want):
            assert y.context == mx.gpu(0), f"the result is on {y.context}"
            agree(y.asnumpy(), np.asarray(w), self.ulps)


def numbers(rng: np.random.Generator, shape: Shape, dtype: str) -> np.ndarray:
    """Random elements, of both signs."""
    if np.dtype(dtype).kind == "f":
        return rng.uniform(-2, 2, shape).astype(dtype)
    return rng.integers(0 if dtype.startswith("u") else -9, 9, shape).astype(dtype)


def agree(got: np.ndarray, want: np.ndarray, ulps: float) -> None:
    """Raise AssertionError unless both are equal but for rounding."""
    assert got.shape == want.shape or got.size == want.size == 1, f"shape {got.shape}, expected {want.shape}"
    want = want.reshape(got.shape)
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, want.astype(got.dtype))
        return
    scale = max(1.0, float(np.max(np.abs(want[np.isfinite(want)]), initial=0.0)))
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=0, atol=ulps * EPS[got.dtype.name] * scale)


# --- references -----------------------------------------------------------------------------------------------


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def log_softmax(x: np.ndarray) -> np.ndarray:
    return np.log(softmax(x))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def layer_norm(x: np.ndarray, g: np.ndarray, b: np.ndarray) -> np.ndarray:
    d = x - x.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * g + b


def gelu(x: np.ndarray) -> np.ndarray:
    erf: Any = np.vectorize(math.erf, otypes=[np.float64])
    return x * 0.5 * (1 + erf(x / math.sqrt(2)))


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    return softmax(q @ k.swapaxes(1, 2) * 0.3) @ v


def attention(F: Any, q: Any, k: Any, v: Any) -> Any:
    return F.batch_dot(F.softmax(F.batch_dot(q, k, transpose_b=True) * 0.3), v)


def causal(n: int) -> np.ndarray:
    """1 where a query sees a key."""
    return np.tril(np.ones((n, n)))


def attend_causal(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return softmax(np.where(mask > 0, q @ k.swapaxes(1, 2) * 0.3, -1e4)) @ v


def causal_attention(F: Any, q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = F.batch_dot(q, k, transpose_b=True) * 0.3
    seen = F.broadcast_like(F.expand_dims(mask, axis=0), scores)
    return F.batch_dot(F.softmax(F.where(seen, scores, F.ones_like(scores) * -1e4)), v)


# --- cases ----------------------------------------------------------------------------------------------------


def cases() -> Iterator[Case]:
    """All of them, the simplest first."""
    for make in (maps, reductions, edges, rows, products, indices):
        yield from make()


def maps() -> Iterator[Case]:
    for dtype in (*FLOATS, *INTEGERS):
        pairs: Sequence[tuple[Shape, ...]] = [((1003,),) * 2, ((64, 1024),) * 2, ((5, 7, 9), (5, 7, 9))]
        for shapes in pairs:
            yield Case("x*y + x", lambda F, x, y: x * y + x, _wrapped(lambda x, y: x * y + x), shapes, dtype)
    for dtype in FLOATS:
        shapes = ((300, 257), (300, 257))
        yield Case("tanh(x)*y + x", lambda F, x, y: F.tanh(x) * y + x, lambda x, y: np.tanh(x) * y + x, shapes, dtype)
    for shapes in [((5, 7, 9), (7, 1)), ((5, 7, 9), (5, 1, 9)), ((1, 7, 1), (5, 1, 9)), ((4, 1), (1, 4))]:
        yield Case("broadcast", lambda F, x, y: F.broadcast_mul(x + 1, y), lambda x, y: (x + 1) * y, shapes)
    for shape in [(31, 33), (64, 64), (65, 1), (1, 40), (3, 64, 65)]:
        order = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
        other = (*shape[:-2], *shape[:-3:-1])
        for dtype in ("float32", "float16"):
            yield Case(
                "transpose",
                lambda F, x, y, order=order: F.transpose(x, axes=order) * 2 + y,
                lambda x, y, order=order: x.transpose(order) * 2 + y,
                (shape, other),
                dtype,
            )
    for given in ("float32", "int32", "uint8"):
        for dtype in ("float16", "float64", "int8", "int64"):
            ours: Function = lambda F, x, dtype=dtype: F.cast(abs(x), dtype)  # noqa: E731  (a table of functions)
            yield Case(f"cast to {dtype}", ours, lambda x: abs(x), ((5, 37),), given)
    yield Case("views", lambda F, x: F.exp(x * 2)[::-1, 2:-1:3], lambda x: np.exp(x * 2)[::-1, 2:-1:3], ((34, 67),))
    yield Case(
        "side by side",
        lambda F, x, y: F.concat(F.exp(x), y * 2, F.softmax(x), dim=1),
        lambda x, y: np.concatenate([np.exp(x), y * 2, softmax(x)], 1),
        ((13, 13), (13, 13)),
    )


def _wrapped(function: Function) -> Function:
    def reference(*arrays: np.ndarray) -> Any:
        with np.errstate(all="ignore"):
            return function(*arrays)

    return reference


def reductions() -> Iterator[Case]:
    axes: Sequence[Any] = [(1,), (2,), (1, 2), (0,), (0, 1), (0, 2), (0, 1, 2)]
    for axis in axes:
        for shape in [(3, 5, 7), (70, 3, 33), (300, 17, 1)]:
            yield Case(
                f"sums, smallest over {axis}",
                lambda F, x, axis=axis: (F.sum(F.square(x), axis=axis), F.min(x, axis=axis)),
                lambda x, axis=axis: ((x * x).sum(axis), x.min(axis)),
                (shape,),
            )
    for dtype in (*FLOATS, *INTEGERS):
        yield Case(
            "sum, largest, smallest",
            lambda F, x: (F.sum(x, axis=1), F.max(x, axis=1), F.min(x, axis=0)),
            lambda x: (x.sum(1, dtype=x.dtype), x.max(1), x.min(0)),
            ((33, 70),),
            dtype,
        )
    for shape in [(400, 300), (100_003,), (70_000, 1), (1, 70_000), (2048, 2048)]:
        yield Case("sum of all", lambda F, x: F.sum(x * x), lambda x: (x * x).sum(), (shape,))
        yield Case("sums of columns", lambda F, x: F.sum(F.exp(x), axis=0), lambda x: np.exp(x).sum(0), (shape,))
    yield Case(
        "not a number",
        lambda F, x: (F.max(x, axis=1), F.min(x, axis=0), F.max(x), F.maximum(x, x * 0)),
        lambda x: (x.max(1), x.min(0), x.max(), np.maximum(x, x * 0)),
        ((40, 37),),
        change=_spoilt,
    )


def _spoilt(arrays: list[np.ndarray]) -> list[np.ndarray]:
    arrays[0][3, 5] = np.nan
    return arrays


def edges() -> Iterator[Case]:
    for shape in [(0, 5), (5, 0), (0, 0), (1, 1), (1, 0, 3), (2, 1, 1)]:
        yield Case(
            "empty and single axes",
            lambda F, x, y: (F.broadcast_add(x, F.exp(y)), F.sum(x, axis=0), F.sum(x, axis=-1), F.sum(x)),
            lambda x, y: (x + np.exp(y), x.sum(0), x.sum(-1), x.sum()),
            (shape, (*[1] * (len(shape) - 1), shape[-1])),
        )


def rows() -> Iterator[Case]:
    for size in (1, 7, 33, 64, 1000, 1024, 4097, 40_000):
        for dtype in FLOATS:
            shape = (5, size)
            yield Case("softmax", lambda F, x: F.softmax(x), softmax, (shape,), dtype)
            if size == 1:
                continue
            shapes = (shape, (size,), (size,))
            yield Case("layer norm", lambda F, x, g, b: F.LayerNorm(x, g, b), layer_norm, shapes, dtype, 64)
    for dtype in FLOATS:
        yield Case("log softmax", lambda F, x: F.log_softmax(x), log_softmax, ((9, 1000),), dtype)
        yield Case(
            "cross entropy",
            lambda F, x, y: -F.pick(F.log_softmax(x), y, axis=1),
            lambda x, y: -log_softmax(x)[np.arange(len(y)), y.astype(int)],
            ((64, 1000), (64,)),
            dtype,
            change=lambda arrays: [arrays[0], np.arange(64).astype(arrays[1].dtype) * 15],
        )
    yield Case("softmax of columns", lambda F, x: F.softmax(x, axis=0), lambda x: softmax(x, 0), ((300, 70),))


def products() -> Iterator[Case]:
    sizes = [(1, 7, 5), (9, 4, 33), (33, 20, 17), (5, 0, 4), (64, 64, 64), (130, 257, 96), (512, 1024, 768)]
    for n, k, m in sizes:
        for dtype in FLOATS:
            shapes = ((n, k), (m, k), (m,))
            yield Case(
                "gelu(x w + b)",
                lambda F, x, w, b, m=m: F.LeakyReLU(F.FullyConnected(x, w, b, num_hidden=m), act_type="gelu"),
                lambda x, w, b: gelu(x @ w.T + b),
                shapes,
                dtype,
                64,
            )
    for left in (False, True):
        for right in (False, True):
            shapes = ((40, 70) if left else (70, 40), (96, 40) if right else (40, 96))
            yield Case(
                f"dot, transposed {left} {right}",
                lambda F, x, y, a=left, b=right: F.dot(x, y, transpose_a=a, transpose_b=b),
                lambda x, y, a=left, b=right: (x.T if a else x) @ (y.T if b else y),
                shapes,
                ulps=64,
            )
    for sequence, size in [(9, 8), (64, 64), (200, 64), (129, 128)]:
        for dtype in FLOATS:
            shapes = ((3, sequence, size),) * 3
            yield Case("attention", attention, attend, shapes, dtype, 256)
        masked = (*((3, sequence, size),) * 3, (sequence, sequence))
        yield Case(
            "causal attention",
            causal_attention,
            attend_causal,
            masked,
            ulps=256,
            change=lambda arrays: [*arrays[:3], causal(arrays[3].shape[0]).astype("float32")],
        )


def indices() -> Iterator[Case]:
    for dtype in FLOATS:
        yield Case(
            "embedding",
            lambda F, i, w: F.Embedding(i, w, input_dim=50, output_dim=33),
            lambda i, w: w[i.astype(int)],
            ((7, 9), (50, 33)),
            dtype,
            change=lambda arrays: [(np.arange(63) * 31 % 50).reshape(7, 9).astype("float32"), arrays[1]],
        )
    yield Case(
        "take",
        lambda F, x, i: F.take(x * 2, i, axis=1),
        lambda x, i: np.take(x * 2, i.astype(int), 1),
        ((20, 30), (11,)),
        change=lambda arrays: [arrays[0], np.arange(11).astype("float32")[::-1] * 2],
    )
    yield Case("index of the largest", lambda F, x: F.argmax(x, axis=1), lambda x: x.argmax(1), ((30, 70),))


# --- what is no function of arrays ----------------------------------------------------------------------------


def draws() -> None:
    """For a seed, random numbers are those of the CPU."""

    class Net(mx.gluon.HybridBlock):
        def forward(self, x: Any) -> Any:
            return mx.nd.Dropout(x, p=0.4)

    found: list[np.ndarray] = []
    for context in (mx.cpu(), mx.gpu(0)):
        net = Net()
        net.hybridize(context != mx.cpu())
        mx.random.seed(9)
        with mx.autograd.record():
            found.append(net(mx.nd.array(np.ones(30_001), ctx=context)).asnumpy())
    np.testing.assert_array_equal(found[0], found[1])
    assert 0.55 < np.count_nonzero(found[0]) / 30_001 < 0.65


def huge() -> None:
    """More elements than 32 bits can number."""
    size = (1 << 31) + 4099
    x = np.zeros(size, np.int8)
    x[-5:] = np.arange(5)
    net = nn.HybridLambda(lambda F, x: x + 3)
    net.hybridize()
    y = net(mx.nd.array(x, ctx=mx.gpu(0), dtype="int8")).asnumpy()
    np.testing.assert_array_equal(y[-7:], np.array([3, 3, 3, 4, 5, 6, 7]))
    assert int(y[:-5].min()) == int(y[:-5].max()) == 3
