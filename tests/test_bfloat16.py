"""bfloat16: values are kept in 16 bits; every operator computes in float32, or wider, and rounds once."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from xdsl.dialects.builtin import f32
from xdsl.dialects.linalg.ops import GenericOp

import hybridc as mx
from hybridc.compile import pipeline
from hybridc.compile.stages import Traced
from hybridc.dialects import operator_registry
from hybridc.dialects.updates.layerwise_updates import LambUpdatePhase2
from hybridc.dialects.updates.update import MultiUpdate, Update
from hybridc.dtypes import BFLOAT16
from hybridc.errors import DTypeError, MXNetError
from hybridc.gluon import nn
from hybridc.gluon.nn import HybridLambda
from hybridc.ir.kernels.kernel_text import read_kernel
from hybridc.ir.structured import kernels
from hybridc.runtime.devices.dlpack import array_of, capsule_of
from hybridc.runtime.devices.interpreter import Interpreter
from hybridc.tools.check_op import case as check
from hybridc.tools.triton_report import NVIDIA_A100, NVIDIA_H100, report
from hybridc.trace.tracer import trace_call
from tests.lower.llvm.guarded import run_passes
from tests.lower.triton.printed import launches_of_attention, launches_of_matmul
from tests.lower.triton.test_attention import fused, lowered, plain

pytestmark = pytest.mark.triton


TARGETS = ("numpy", "llvm", "triton")
RNG = np.random.default_rng(16)
EPS = 2.0**-8  # half of the distance between two numbers, relative
INF, NAN = float("inf"), float("nan")


def rounded(x):
    """float64 to the nearest bfloat16, ties to even, in integers alone; as float64."""
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16
    made = bits.astype(np.uint32).view(np.float32).astype(np.float64)
    return np.where(np.isnan(x), np.nan, made)


def array(values):
    return mx.nd.array(np.asarray(values), dtype="bfloat16")


def numbers(x):
    """What an array holds, in float64, once it is clear that it is of bfloat16."""
    assert x.dtype is BFLOAT16.type
    return x.asnumpy().astype(np.float64)


def on(target, function, *arrays, grads=()):
    """A function of arrays compiled for a target."""
    traced = Traced(trace_call(HybridLambda(function), list(arrays), training=False), tuple(grads))
    return traced.optimize().lower(target).compile()


def near(got, want, scale=1.0):
    """Equal but for a few roundings of the largest numbers."""
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= 4 * EPS * scale * max(1e-3, np.abs(want).max())


# --- values -------------------------------------------------------------------------------------------------

HARD = np.array(
    [1.0, 1.00390625, 1.01171875, 1.0039063, -3.14159, 65504, 3.3895314e38, 3.4e38, 1e-40, 0.0, -0.0, INF, -INF, NAN],
    np.float32,
)


def test_rounding_is_to_even_and_nan_stays():
    want = rounded(HARD)
    x = mx.nd.array(HARD)
    np.testing.assert_array_equal(numbers(x.astype("bfloat16")), want)
    for target in TARGETS:
        got = on(target, lambda F, x: F.cast(x, dtype="bfloat16"), x)(x)
        np.testing.assert_array_equal(numbers(got), want)
        assert np.array_equal(np.signbit(numbers(got)), np.signbit(want)) or target == "triton"


def test_every_number_returns_from_float32():
    """All 65536 of them, on each target and eagerly."""
    every = np.arange(1 << 16, dtype=np.uint32)
    x = mx.nd.from_numpy(every.astype(np.uint16).view(BFLOAT16))
    want = (every << 16).view(np.float32)
    for run in [lambda x: x.astype("float32"), *(on(t, lambda F, x: F.cast(x, dtype="float32"), x) for t in TARGETS)]:
        y = run(x)
        np.testing.assert_array_equal(y.asnumpy(), want)
        assert np.array_equal(numbers(y.astype("bfloat16")), want, equal_nan=True)


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "int8", "uint8", "bool"])
def test_casts(dtype):
    values = np.array([-3, -1, 0, 1, 2, 100]) if dtype[0] != "u" and dtype != "bool" else np.array([0, 1, 1, 0, 1, 1])
    there = mx.nd.array(values, dtype=dtype)
    x = array(values)
    for target in TARGETS:
        got = on(target, lambda F, x: F.cast(x, dtype="bfloat16"), there)(there)
        np.testing.assert_array_equal(numbers(got), rounded(values.astype(dtype).astype(np.float64)))
        back = on(target, lambda F, x: F.cast(x, dtype=dtype), x)(x)
        assert np.dtype(back.dtype) == dtype
        np.testing.assert_array_equal(back.asnumpy(), values.astype(dtype))


# --- operators ----------------------------------------------------------------------------------------------


# LAPACK has no half precision, as MXNet says too.
LAPACK = {"trsm", "potrf", "potri", "gelqf", "syevd", "inverse", "det", "slogdet"}
LAPACK |= {"_eig", "_svd", "_solve", "_pinv", "_lstsq"}


def samples():
    for name, cls in sorted(operator_registry.operators().items()):
        if name.startswith("hybrid.") and not cls.DRAWS:
            yield from (
                (call, check.Case(cls, call, found.sample, "bfloat16")) for call, found in check.each_sample(cls)
            )


def types_of_update(op, count):
    """The dtypes of an update operator's inputs for weights of bfloat16."""
    step, weights = (op.stride(), op.count()) if isinstance(op, MultiUpdate) else (count, 1)
    return op.complete_types([BFLOAT16 if i % step == 0 and i < step * weights else None for i in range(count)])


def test_every_operator_against_its_reference():
    """float64 of the same rounded inputs, and the dtypes that were promised."""
    seen = 0
    for call, case in samples():
        op, arrays = case.operator(), case.arrays()
        if call.startswith(("batch_norm", "sync_batch_norm")):  # everything but the data is float32
            arrays = [arrays[0], *(x.astype(np.float32) for x in arrays[1:])]
        if isinstance(op, Update | MultiUpdate | LambUpdatePhase2):  # float32 copies, their states, some scalars
            arrays = [x.astype(t) for x, t in zip(arrays, types_of_update(op, len(arrays)), strict=True)]
        of_integers = ("hybridc.dialects.quantized", "hybridc.dialects.elements.bits")
        if call == "amp_cast-1" or type(op).__module__.startswith(of_integers):
            continue
        if op.title().removeprefix("linalg_") in LAPACK or call.startswith("_inverse"):
            with pytest.raises(mx.MXNetError, match="inputs must be float32 or float64, got bfloat16"):
                check.eager(op, arrays)
            continue
        got = check.eager(op, arrays)
        assert [y.dtype for y in got] == op.infer_type([x.dtype for x in arrays])[1], call
        check.all_close(got[: op.num_visible_outputs()], case.reference(arrays), "bfloat16", 2, call)
        seen += 1
    assert seen > 500


FUNCTIONS = {
    "arithmetic": lambda F, x, y: (x * y + 1.3) / (F.abs(y) + 0.7) - 2 * x,
    "functions": lambda F, x, y: F.tanh(x) * F.exp(y) + F.erf(x) + F.sigmoid(y),
    "gelu": lambda F, x, y: F.LeakyReLU(x, act_type="gelu") + F.relu(y),
    "softmax": lambda F, x, y: F.log_softmax(x) + F.softmax(y, axis=0),
    "sums": lambda F, x, y: F.mean(x, axis=1) + F.sum(y, axis=1),
    "extremes": lambda F, x, y: F.max(x, axis=1) + F.min(y, axis=1) * F.norm(x, axis=1),
    "product": lambda F, x, y: F.dot(x, y, transpose_b=True),
    "batches": lambda F, x, y: F.batch_dot(F.expand_dims(x, 0), F.expand_dims(y, 0), transpose_a=True),
    "places": lambda F, x, y: F.where(x > y, F.concat(x, y, dim=0)[3:12], F.flip(y, axis=1)),
    "rows": lambda F, x, y: F.take(x, F.argmax(y, axis=1)) * F.Embedding(F.argmax(x, axis=0), y, 9, 33)[:9],
    "norm": lambda F, x, y: F.LayerNorm(x, F.ones((33,), dtype="bfloat16") * 2, F.zeros((33,), dtype="bfloat16")) + y,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_targets_agree_with_eager_and_with_float64(name):
    """The targets of processors to the last bit; forward, and the gradient."""
    function = FUNCTIONS[name]
    x, y = (array(RNG.normal(size=(9, 33))) for _ in range(2))
    wide = [mx.nd.array(numbers(a), dtype="float64") for a in (x, y)]

    def differentiated(arrays, run):
        for a in arrays:
            a.attach_grad()
        with mx.autograd.record(train_mode=False):
            result = run(*arrays)
        head = np.cos(np.arange(result.size)).reshape(result.shape)
        result.backward(mx.nd.array(head, dtype="bfloat16").astype(result.dtype))
        return [result, *(a.grad for a in arrays)]

    def in_float64(*arrays):
        return function(_Float64, *arrays)

    want = [a.asnumpy() for a in differentiated(wide, in_float64)]
    eager = differentiated([x.copy(), y.copy()], lambda *a: function(mx.nd, *a))
    for got, exact in zip(eager, want, strict=True):
        near(numbers(got), exact, 4)
    for target in TARGETS:
        compiled = on(target, function, x, y, grads=(0, 1))
        found = differentiated([x.copy(), y.copy()], compiled)
        for got, exact in zip(found, want, strict=True):
            near(numbers(got), exact, 4)


class _Float64:
    """``mx.nd`` where bfloat16 is asked for and float64 is meant."""

    def __getattr__(self, name):
        found = getattr(mx.nd, name)
        if name in ("ones", "zeros"):
            return lambda shape, dtype: found(shape, dtype="float64")
        return found


_Float64 = _Float64()


def test_an_operator_rounds_once():
    """Not after each of its steps."""
    x = array(RNG.normal(size=200))
    want = rounded(1 / (1 + np.exp(-numbers(x))))
    for run in [mx.nd.sigmoid, *(on(t, lambda F, x: F.sigmoid(x), x) for t in TARGETS)]:
        np.testing.assert_array_equal(numbers(run(x)), want)
    ones = array(np.ones((1, 4096)))  # in bfloat16, 256 + 1 is 256
    for run in [mx.nd.sum, *(on(t, lambda F, x: F.sum(x), ones) for t in TARGETS)]:
        assert numbers(run(ones)).tolist() == [4096.0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_processors_multiply_matrices_of_float32(dtype):
    """Half precision that is read often is widened once; what is read once, where it is read."""
    for rows, widened in ((64, True), (1, False)):
        arrays = [mx.nd.array(RNG.normal(size=s), dtype=dtype) for s in ((rows, 48), (48, 32))]
        traced = Traced(trace_call(HybridLambda(lambda F, x, y: F.dot(x, y)), arrays, training=False))
        lowered = traced.optimize().lower("llvm")
        (contraction,) = [op for op in lowered.module.walk() if isinstance(op, GenericOp) and len(op.inputs) == 2]
        assert all(v.type.get_element_type() == f32 for v in contraction.inputs) == widened
        want = arrays[0].asnumpy().astype(float) @ arrays[1].asnumpy().astype(float)
        near(lowered.compile()(*arrays).asnumpy().astype(float), want)


@pytest.mark.parametrize("target", [None, *TARGETS])
def test_many_summands(target):
    """Gradients of rows that are read often, and running sums: in bfloat16, 256 + 1 is 256."""
    ones = array(np.ones((1024, 2)))
    assert numbers(mx.nd.cumsum(ones, axis=0))[-1].tolist() == [1024, 1024]
    indices, weight = mx.nd.zeros((1024,), dtype="int32"), array(np.ones((3, 2)))

    def rows(F, i, w):
        return F.take(w, i) + F.gather_nd(w, F.expand_dims(i, 0)) + F.Embedding(i, w, 3, 2)

    run = (lambda i, w: rows(mx.nd, i, w)) if target is None else on(target, rows, indices, weight, grads=(1,))
    weight.attach_grad()
    with mx.autograd.record(train_mode=False):
        y = run(indices, weight)
    y.backward()
    assert numbers(weight.grad).tolist() == [[3072.0, 3072.0], [0.0, 0.0], [0.0, 0.0]]


def test_dtypes_do_not_mix():
    x = array([1.0, 2.0])
    for other in ("float32", "float16"):
        with pytest.raises(DTypeError, match=r"lhs is bfloat16, rhs is .*use \.astype\('bfloat16'\)"):
            x + x.astype(other)
    assert numbers(x + 1).tolist() == [2.0, 3.0]
    assert numbers(2.5 * x).tolist() == [2.5, 5.0]


def test_in_place_and_indexing():
    x = array([[1.0, 2.0], [3.0, 4.0]])
    x += 1
    x *= x
    x[0] = 7
    assert numbers(x).tolist() == [[7.0, 7.0], [16.0, 25.0]]
    assert numbers(x[1, ::-1]).tolist() == [25.0, 16.0]
    assert (x > 10).asnumpy().astype(bool).tolist() == [[False, False], [True, True]]
    assert "16 25" in repr(x)
    assert float(x[0, 0]) == 7.0


# --- networks -----------------------------------------------------------------------------------------------


def network():
    net = nn.HybridSequential()
    net.add(nn.Dense(24, in_units=10, activation="relu"), nn.BatchNorm(in_channels=24))
    net.add(nn.Dense(16, in_units=24, activation="tanh"), nn.LayerNorm(in_channels=16), nn.Dense(4, in_units=16))
    net.initialize(mx.init.Xavier())
    return net


def test_attention():
    """One kernel on cards, forward and backward; softmax is computed in float32 everywhere."""

    def attention(F, q, k, v):
        return F.batch_dot(F.softmax(F.batch_dot(q, k, transpose_b=True) * 0.25), v)

    given = [array(RNG.normal(size=(2, 40, 16))) for _ in range(3)]
    q, k, v = map(numbers, given)
    scores = q @ k.swapaxes(1, 2) * 0.25
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    dy = numbers(array(np.cos(np.arange(v.size)).reshape(v.shape)))
    dweights = dy @ v.swapaxes(1, 2)
    dscores = weights * (dweights - (dweights * weights).sum(-1, keepdims=True)) * 0.25
    want = [weights @ v, dscores @ k, dscores.swapaxes(1, 2) @ q, weights.swapaxes(1, 2) @ dy]
    for target in TARGETS:
        compiled = on(target, attention, *given, grads=(0, 1, 2))
        for x in given:
            x.attach_grad()
        with mx.autograd.record(train_mode=False):
            y = compiled(*given)
        y.backward(array(dy))
        for got, exact in zip([y, *(x.grad for x in given)], want, strict=True):
            near(numbers(got), exact, 2)


def test_a_network_is_cast():
    """Batch normalization keeps its statistics in float32; results are those of float32, rounded."""
    mx.random.seed(3)
    net = network()
    x = mx.nd.array(RNG.normal(size=(5, 10)))
    net.cast("bfloat16")
    dtypes = {np.dtype(p.dtype).name for p in net.collect_params().values()}
    assert dtypes == {"bfloat16", "float32"}
    assert np.dtype(net[1].gamma.dtype) == np.float32
    y = net(x.astype("bfloat16"))
    net.hybridize()
    np.testing.assert_array_equal(numbers(net(x.astype("bfloat16"))), numbers(y))
    net.cast("float32")
    near(numbers(y), net(x.astype("bfloat16").astype("float32")).asnumpy(), 2)


def test_a_compiled_gradient_divides_by_a_size():
    """Kernels take sizes as arguments, also for those by which a gradient divides; against float64."""
    data, head = RNG.normal(size=(2, 2, 3, 5)).astype(np.float32)
    grads = {}
    for dtype in ("bfloat16", "float64"):
        net = nn.GroupNorm(1)
        net.initialize()
        net.cast(dtype)
        net.hybridize()
        x = mx.nd.array(mx.nd.array(data, dtype="bfloat16"), dtype=dtype)
        x.attach_grad()
        with mx.autograd.record():
            y = net(x)
        y.backward(mx.nd.array(mx.nd.array(head, dtype="bfloat16"), dtype=dtype))
        grads[dtype] = x.grad
    near(numbers(grads["bfloat16"]), grads["float64"].asnumpy())


@pytest.mark.filterwarnings("ignore:accumulating in bfloat16 can lead to poor accuracy")
@pytest.mark.parametrize("hybridize", [False, True])
def test_multi_precision_keeps_small_updates(hybridize):
    """Steps of 1/1000 of a weight are lost in bfloat16, and are not in its float32 copy."""
    steps, lr = 20, 1e-3
    final = {}
    for precise in (False, True):
        net = nn.Dense(1, in_units=4, use_bias=False, weight_initializer=mx.init.One())
        net.initialize()
        net.cast("bfloat16")
        if hybridize:
            net.hybridize()
        trainer = mx.gluon.Trainer(
            net.collect_params(), "sgd", {"learning_rate": lr, "multi_precision": precise, "wd": 0}, kvstore=None
        )
        x = array(np.ones((1, 4)))
        for _ in range(steps):
            with mx.autograd.record():
                loss = net(x).sum()
            loss.backward()
            trainer.step(1)
        final[precise] = numbers(net.weight.data())
    np.testing.assert_array_equal(final[False], np.ones((1, 4)))
    np.testing.assert_array_equal(final[True], rounded(np.full((1, 4), 1 - steps * lr)))


@pytest.mark.parametrize("optimizer", ["sgd", "nag"])  # others enlarge small gradients, and their roundings
def test_a_training_step_is_the_loop_and_near_float32(optimizer):
    """Weights of bfloat16 with float32 copies: one program, the loop, and a network of float32 from the same start."""
    batches = [(RNG.normal(size=(8, 10)), RNG.normal(size=(8, 4))) for _ in range(4)]
    loss = mx.gluon.loss.L2Loss()
    found = []
    for dtype, whole in (("float32", False), ("bfloat16", False), ("bfloat16", True)):
        mx.random.seed(5)
        net = nn.HybridSequential()
        net.add(nn.Dense(16, in_units=10, activation="tanh"), nn.Dense(4, in_units=16))
        net.initialize(mx.init.Xavier())
        for p in net.collect_params().values():  # the same numbers for all
            p.set_data(p.data().astype("bfloat16").astype("float32"))
        net.cast(dtype)
        options = {"learning_rate": 0.05, "momentum": 0.9, "multi_precision": True}
        trainer = mx.gluon.Trainer(net.collect_params(), optimizer, options, kvstore=None)
        step = mx.gluon.TrainStep(net, loss, trainer) if whole else None
        for x, y in batches:
            x, y = mx.nd.array(x, dtype="bfloat16").astype(dtype), mx.nd.array(y, dtype="bfloat16").astype(dtype)
            if step is not None:
                step(x, y)
                continue
            with mx.autograd.record():
                out = loss(net(x), y)
            out.backward()
            trainer.step(len(x))
        found.append([p.data().asnumpy().astype(np.float64) for p in net.collect_params().values()])
    for single, loop, one in zip(*found, strict=True):
        near(loop, single, 2)
        near(one, loop)


def test_metrics_and_tolerances():
    loss = mx.metric.Loss()
    loss.update(None, [array(np.ones(2000))])
    assert loss.get() == ("loss", 1.0)
    mx.test_utils.assert_almost_equal(array([1.0, 2.0]), array([1.0078125, 2.0]))


def test_data_is_batched():
    batches = mx.gluon.data.DataLoader(mx.gluon.data.ArrayDataset(array(np.arange(6.0))), batch_size=4)
    assert [numbers(b).tolist() for b in batches] == [[0, 1, 2, 3], [4, 5]]


def test_files(tmp_path):
    values = array(HARD)
    mx.nd.save(str(tmp_path / "a.params"), {"x": values})
    back = mx.nd.load(str(tmp_path / "a.params"))["x"]
    assert back.asnumpy().view(np.uint16).tolist() == values.asnumpy().view(np.uint16).tolist()
    net = network()
    net.cast("bfloat16")
    net.save_parameters(str(tmp_path / "net.params"))
    other = network()
    other.cast("bfloat16")
    other.load_parameters(str(tmp_path / "net.params"))
    x = array(RNG.normal(size=(5, 10)))
    np.testing.assert_array_equal(numbers(net(x)), numbers(other(x)))


def test_memory_is_shared_on_devices_and_refused_on_processors():
    with pytest.raises(MXNetError, match=r"share x\.astype\('float32'\)"):
        array([1.0]).__dlpack__()
    x = Interpreter().put(array([1.0, 2.5]).asnumpy())
    other = array_of(capsule_of(x), Interpreter())
    x.host()[0] = 3
    assert other.dtype is BFLOAT16
    assert other.host().tolist() == [3.0, 2.5]


WITHOUT = """
import sys
sys.modules["ml_dtypes"] = None
import hybridc as mx
net = mx.gluon.nn.Dense(2, in_units=3)
net.initialize()
net.hybridize()
print(net(mx.nd.ones((1, 3))).shape, mx.nd.ones((2,), dtype="float16").sum().dtype.__name__)
try:
    mx.nd.ones((2,)).astype("bfloat16")
except mx.MXNetError as error:
    print(error)
"""


def test_without_ml_dtypes_only_bfloat16_is_missing():
    """As on a machine with a GPU where nothing was installed."""
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "(1, 2) float16",
        "arrays of bfloat16 need the package ml_dtypes: pip install ml_dtypes",
    ]


# --- cards --------------------------------------------------------------------------------------------------


def dense(F, x, w, b):
    return F.LeakyReLU(F.FullyConnected(x, w, b, num_hidden=w.shape[0]), act_type="gelu")


@pytest.mark.long
def test_tensor_cores_multiply():
    """Products and attention of bfloat16, compiled for cards: no operand is made single, nothing spills."""
    module = HybridLambda(dense).trace(*map(array, (np.ones((512, 256)), np.ones((512, 256)), np.ones(512))))
    module = module.optimize().module.clone()
    run_passes(module, pipeline.triton_kernels())
    (function,) = kernels(module).values()
    (contraction,) = launches_of_matmul(read_kernel(function), {}).kernel_launches
    (kernel,) = fused(lowered(plain, *[np.ones((64, 2048, 64), BFLOAT16)] * 3))
    (attention,) = launches_of_attention(kernel, {}).kernel_launches
    for kernel_launch in (contraction, attention):
        for made in report(
            [(kernel_launch.function, kernel_launch.configs[0], kernel_launch.numbers)], [NVIDIA_A100, NVIDIA_H100]
        ):
            assert made.tensor > 0, made
            assert made.spilled == 0, made
