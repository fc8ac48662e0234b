"""Products of float8 on the GPU: casts to wider dtypes are a part of the product, tensor cores multiply eight bits."""

from __future__ import annotations

import math

import numpy as np
import pytest

import hybridc as mx
from hybridc.compile.stages import Traced
from hybridc.dtypes import FLOAT8
from hybridc.gluon.nn import HybridLambda
from hybridc.ir.kernel import analyse
from hybridc.ir.structured import dtype_of, kernels
from hybridc.lower.triton.nests import phases_of
from hybridc.lower.triton.products.product_phases import phases_of_product
from hybridc.tools.triton_report import AMD_MI300, NVIDIA_A100, NVIDIA_H100, fitting, report
from hybridc.trace.tracer import trace_call

pytestmark = pytest.mark.triton


E4M3FN, E5M2 = "float8_e4m3fn", "float8_e5m2"
RNG = np.random.default_rng(4)
ERROR = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 1e-6}


def array(shape, dtype):
    return mx.nd.array(RNG.normal(size=shape), dtype=dtype)


def numbers(x):
    return x.asnumpy().astype(np.float64)


def traced(function, *arrays, grads=()):
    return Traced(trace_call(HybridLambda(function), list(arrays), training=False), tuple(grads)).optimize()


def found_kernels(stage):
    return list(kernels(stage.form("triton").module).values())


def checked(function, arrays, want, error, count=1):
    """Run on Triton's interpreter, where it is so many kernels; near what is known to be right."""
    stage = traced(function, *arrays)
    assert len(found_kernels(stage)) == count
    got = numbers(stage.lower("triton").compile()(*arrays))
    assert got.shape == want.shape
    assert np.abs(got - want).max(initial=0) <= 8 * error * max(1.0, np.abs(want).max(initial=0))


# --- casts are a part of products ---------------------------------------------------------------------------

SHAPES = [(1, 1, 1), (1, 33, 70), (5, 1, 3), (17, 40, 64), (33, 65, 31), (16, 16, 300)]


@pytest.mark.parametrize("wide", ERROR)
@pytest.mark.parametrize(
    "given", [(E4M3FN, E4M3FN), (E5M2, E5M2), (E4M3FN, E5M2), (E5M2, None), (None, E4M3FN)], ids=str
)
def test_products_widen_what_they_multiply(given, wide):
    """A matrix by another, as it is or transposed, of every shape; None is an operand that is wide already."""
    for i, (m, n, k) in enumerate(SHAPES):
        turned = bool(i % 2)
        x, y = array((m, k), given[0] or wide), array((n, k) if turned else (k, n), given[1] or wide)

        def function(F, x, y, turned=turned):
            x, y = (F.cast(a, dtype=wide) if of else a for a, of in zip((x, y), given, strict=True))
            return F.dot(x, y, transpose_b=turned)

        b = numbers(y).T if turned else numbers(y)
        checked(function, [x, y], numbers(x) @ b, ERROR[wide] * math.sqrt(k))


def test_nothing_is_multiplied_or_summed():
    for m, n, k in ((0, 3, 4), (3, 0, 4), (3, 4, 0)):
        x, y = array((m, k), E4M3FN), array((k, n), E4M3FN)
        stage = traced(lambda F, x, y: F.dot(F.cast(x, dtype="float16"), F.cast(y, dtype="float16")), x, y)
        np.testing.assert_array_equal(stage.lower("triton").compile()(x, y).asnumpy(), np.zeros((m, n)))


def test_batches_views_and_slices():
    """What lies between a cast and a product, or before it, moves eight bits."""
    q, k = array((2, 9, 3, 16), E4M3FN), array((2, 11, 3, 16), E4M3FN)

    def function(F, q, k):
        q, k = (F.transpose(F.cast(x, dtype="float16"), axes=(0, 2, 1, 3)) for x in (q, k))
        return F.batch_dot(F.reshape(q, shape=(6, 9, 16)), F.reshape(k, shape=(6, 11, 16)), transpose_b=True)

    want = np.einsum("bihd,bjhd->bhij", numbers(q), numbers(k)).reshape(6, 9, 11)
    checked(function, [q, k], want, ERROR["float16"])
    x, w = array((8, 40), E5M2), array((6, 20), E5M2)

    def sliced(F, x, w):
        return F.dot(F.cast(x[1::2, 3:23], dtype="float32"), F.cast(w, dtype="float32"), transpose_b=True)

    checked(sliced, [x, w], numbers(x)[1::2, 3:23] @ numbers(w).T, ERROR["float32"])
    checked(
        lambda F, x: F.dot(F.cast(x, dtype="float32"), F.cast(x, dtype="float32"), transpose_b=True),
        [x],
        numbers(x) @ numbers(x).T,
        ERROR["float32"],
    )


def scaled(F, x, w, sx, sw, bias):
    """A layer of eight bits: a scale for the whole of one operand, and for each column of the other."""
    y = F.dot(F.cast(x, dtype="float32"), F.cast(w, dtype="float32"), transpose_b=True)
    y = F.broadcast_add(F.broadcast_mul(F.broadcast_mul(y, sx), sw), bias)
    return F.cast(F.LeakyReLU(y, act_type="gelu"), dtype="float16")


def layer(m, n, k, dtype=E4M3FN):
    shapes = [((m, k), dtype), ((n, k), dtype), ((1, 1), "float32"), ((1, n), "float32"), ((1, n), "float32")]
    return [array(shape, kind) for shape, kind in shapes]


def test_scales_bias_and_activation_are_one_kernel():
    arrays = layer(20, 48, 96)
    x, w, sx, sw, bias = map(numbers, arrays)
    y = x @ w.T * sx * sw + bias
    want = y * 0.5 * (1 + np.vectorize(math.erf)(y / math.sqrt(2)))
    checked(scaled, arrays, want, ERROR["float16"])
    (function,) = found_kernels(traced(scaled, *arrays))
    assert [dtype_of(v) in FLOAT8 for v in function.body.block.args] == [True, True, False, False, False]


def test_sums_may_be_larger_than_half_precision():
    """448 * 448 * 4 passes 65504: sums of a cast to float32 are kept in it."""
    x = mx.nd.array(np.full((16, 32), 448.0), dtype=E4M3FN)
    checked(
        lambda F, x: F.dot(F.cast(x, dtype="float32"), F.cast(x, dtype="float32"), transpose_b=True),
        [x],
        np.full((16, 16), 448.0 * 448 * 32),
        ERROR["float32"],
    )


def test_what_others_read_is_widened_once():
    """A cast whose result is returned, too, stays a kernel; so does one that attention reads."""
    x, w = array((8, 16), E4M3FN), array((16, 4), "float16")
    arrays = [x, w]
    stage = traced(lambda F, x, w: (F.dot(F.cast(x, dtype="float16"), w), F.cast(x, dtype="float16")), *arrays)
    names = [f.sym_name.data for f in found_kernels(stage)]
    assert len(names) == 2
    product, wide = stage.lower("triton").compile()(*arrays)
    np.testing.assert_array_equal(numbers(wide), numbers(x))
    assert np.abs(numbers(product) - numbers(x) @ numbers(w)).max() <= 0.02

    def attention(F, q, k, v):
        q, k, v = (F.cast(a, dtype="float16") for a in (q, k, v))
        return F.batch_dot(F.softmax(F.batch_dot(q, k, transpose_b=True) * 0.25), v)

    given = [array((2, 20, 16), E4M3FN) for _ in range(3)]
    stage = traced(attention, *given)
    found = [analyse(f) for f in found_kernels(stage)]
    assert sorted(len(kernel.nests) for kernel in found)[-1] == 3
    q, k, v = map(numbers, given)
    weights = np.exp(q @ k.swapaxes(1, 2) * 0.25)
    want = weights / weights.sum(-1, keepdims=True) @ v
    assert np.abs(numbers(stage.lower("triton").compile()(*given)) - want).max() <= 0.01


def test_attention_of_eight_bits():
    """Of float8 itself: each operator rounds, as eagerly."""
    given = [array((2, 20, 16), E4M3FN) for _ in range(3)]

    def attention(F, q, k, v):
        return F.batch_dot(F.softmax(F.batch_dot(q, k, transpose_b=True) * 0.25), v)

    want = numbers(attention(mx.nd, *given))
    got = numbers(traced(attention, *given).lower("triton").compile()(*given))
    assert np.abs(got - want).max() <= 0.13 * np.abs(want).max()


@pytest.mark.parametrize("target", ["numpy", "llvm", "triton"])
def test_gradients_of_a_layer(target):
    """Those of what was cast are rounded to eight bits; those of scales are sums of single precision."""
    arrays = layer(12, 24, 32)
    stage = traced(scaled, *arrays, grads=(0, 1, 2, 3, 4))
    for a in arrays:
        a.attach_grad()
    with mx.autograd.record(train_mode=False):
        y = stage.lower(target).compile()(*arrays)
    head = np.cos(np.arange(y.size)).reshape(y.shape)
    y.backward(mx.nd.array(head, dtype="float16"))
    x, w, sx, sw, bias = map(numbers, arrays)
    sums = x @ w.T
    z = sums * sx * sw + bias
    density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    dz = numbers(mx.nd.array(head, dtype="float16")) * (
        0.5 * (1 + np.vectorize(math.erf)(z / math.sqrt(2))) + z * density
    )
    dy = dz * sx * sw
    for i, want in enumerate([dy @ w, dy.T @ x, (dz * sums * sw).sum((0, 1), keepdims=True)]):
        got = arrays[i].grad
        assert got.dtype == arrays[i].dtype
        error = 2.0**-4 if i < 2 else 2e-3
        assert np.abs(numbers(got) - want).max() <= 2 * error * np.abs(want).max()


@pytest.mark.parametrize("target", ["numpy", "llvm"])
def test_processors_multiply_single_precision(target):
    arrays = layer(33, 40, 65)
    want = numbers(scaled(mx.nd, *arrays))
    got = numbers(traced(scaled, *arrays).lower(target).compile()(*arrays))
    assert np.abs(got - want).max() <= 4 * ERROR["float16"] * np.abs(want).max()


# --- what cards make of it ----------------------------------------------------------------------------------


def phase_of(function, *arrays):
    (kernel,) = found_kernels(traced(function, *arrays))
    (phase,) = phases_of_product(analyse(kernel), {}).phases
    return phase


@pytest.mark.long
def test_tensor_cores():
    """Eight bits on sm_90, half precision on sm_80 and gfx942; nothing spills, memory is read 16 bytes at a time."""
    phase = phase_of(scaled, *[mx.nd.zeros(x.shape, dtype=x.dtype) for x in layer(1024, 1024, 256)])
    other = phase_of(scaled, *[mx.nd.zeros(x.shape, dtype=x.dtype) for x in layer(1024, 1024, 256, E5M2)])
    work = [(p.function, fitting(p.configs, AMD_MI300), p.numbers) for p in (phase, other)]
    found = report(work[:1], [NVIDIA_A100, NVIDIA_H100, AMD_MI300]) + report(work[1:], [NVIDIA_H100])
    assert [made.factors for made in found] == ["f16", "e4m3", "f16", "e5m2"]
    for made in found:
        assert made.tensor > 0, made
        assert made.spilled == 0, made
        assert made.wide > 0, made


def test_maps_move_vectors():
    """Casts there and back, on cards with instructions for it and without: one load and one store of eight numbers."""
    x = mx.nd.zeros((64, 1024), dtype=E4M3FN)
    (kernel,) = found_kernels(traced(lambda F, x: F.cast(F.cast(x, dtype="float32") * 2, dtype=E5M2), x))
    (phase,) = phases_of(analyse(kernel), {}).phases
    for made in report([(phase.function, phase.configs[0], phase.numbers)], [NVIDIA_A100, NVIDIA_H100, AMD_MI300]):
        assert made.spilled == 0, made
        assert (made.wide, made.narrow) == (0, 2), made


def test_two_formats_and_half_precision():
    """What tensor cores cannot multiply together is multiplied in half precision."""
    for given in ((E4M3FN, E5M2), (E4M3FN, "float16")):
        x, w = (mx.nd.zeros((64, 64), dtype=d) for d in given)
        as_half = [lambda F, a: F.cast(a, dtype="float16"), lambda F, a: a]

        def function(F, x, w, half=as_half[given[1] == "float16"]):
            return F.dot(F.cast(x, dtype="float16"), half(F, w), transpose_b=True)

        phase = phase_of(function, x, w)
        (made,) = report([(phase.function, phase.configs[0], phase.numbers)], [NVIDIA_H100])
        assert made.factors == "f16"
