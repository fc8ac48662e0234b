"""NDArrays, parameters and networks on GPUs: on the interpreter, and on a simulated card with memory of its own."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd, gluon, nd
from hybridc.errors import DeviceError, DeviceMemoryError, MXNetError, UnsupportedError
from hybridc.gluon import nn
from hybridc.runtime.devices import choose
from tests.runtime.devices.simulated import simulated_gpu

pytestmark = pytest.mark.triton


GPU = mx.gpu(0)


@pytest.fixture(params=["interpreter", "card"], autouse=True)
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each test runs on both."""
    if request.param == "interpreter":
        choose.device.cache_clear()
        yield request.param
        return
    with simulated_gpu():
        yield request.param


def numbers(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


# --- arrays -------------------------------------------------------------------------------------------------


def test_an_array_is_where_it_was_put() -> None:
    x = nd.array(numbers(2, 3), ctx=GPU)
    assert x.context == x.ctx == x.device == GPU
    assert (x.shape, x.dtype, x.size, x.ndim) == ((2, 3), np.float32, 6, 2)
    np.testing.assert_array_equal(x.asnumpy(), numbers(2, 3))
    assert "@gpu(0)" in repr(x)
    assert mx.num_gpus() == 1


def test_the_memory_of_a_gpu() -> None:
    """The interpreter's is the host's, as Linux tells it; the card's is the stub's."""
    kept = nd.zeros((64,), ctx=GPU)
    free, whole = mx.context.gpu_memory_info(kept.context.device_id)
    told = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    assert whole == (int(told["MemTotal"].split()[0]) << 10 if choose.device(0).is_host else 1 << 26)
    assert 0 < free < whole
    with pytest.raises(mx.MXNetError, match=r"gpu\(1\)"):
        mx.context.gpu_memory_info(1)


def test_copies_there_and_back() -> None:
    x = nd.array(numbers(4))
    there = x.as_in_context(GPU)
    assert there.context == GPU
    assert there.as_in_context(GPU) is there
    back = there.as_in_context(mx.cpu())
    assert back.context == mx.cpu()
    x[:] = 9
    there[1:3] = 7
    np.testing.assert_array_equal(back.asnumpy(), numbers(4))
    np.testing.assert_array_equal(there.asnumpy(), [0, 7, 7, 3])
    there.copyto(x)
    np.testing.assert_array_equal(x.asnumpy(), [0, 7, 7, 3])
    nd.ones((4,)).copyto(there)
    np.testing.assert_array_equal(there.asnumpy(), [1, 1, 1, 1])
    other = there.copyto(GPU)
    other[:] = 5
    np.testing.assert_array_equal(there.asnumpy(), [1, 1, 1, 1])


def test_what_asnumpy_gives_is_a_copy() -> None:
    x = nd.zeros((3,), ctx=GPU)
    x.asnumpy()[:] = 1
    np.testing.assert_array_equal(x.asnumpy(), [0, 0, 0])


@pytest.mark.parametrize(
    "make",
    [
        lambda: nd.zeros((2, 2), ctx=GPU),
        lambda: nd.ones((2, 2), ctx=GPU),
        lambda: nd.full((2, 2), 3, ctx=GPU),
        lambda: nd.arange(5, ctx=GPU),
        lambda: nd.eye(3, ctx=GPU),
        lambda: nd.empty((2, 2), ctx=GPU) * 0,
        lambda: nd.random.uniform(shape=(3,), ctx=GPU),
    ],
)
def test_arrays_are_made_there(make) -> None:
    assert make().context == GPU
    with GPU:
        assert nd.ones((1,)).context == GPU
    assert nd.ones((1,)).context == mx.cpu()


def test_random_numbers_are_those_of_the_cpu() -> None:
    mx.random.seed(3)
    here = nd.random.normal(shape=(4,)).asnumpy()
    mx.random.seed(3)
    np.testing.assert_array_equal(nd.random.normal(shape=(4,), ctx=GPU).asnumpy(), here)


def test_a_device_that_is_told_goes_before_the_current_one() -> None:
    with GPU:
        made = [nd.arange(3, ctx=mx.cpu()), nd.zeros((2,), ctx=mx.cpu()), nd.random.uniform(shape=(2,), ctx=mx.cpu())]
        assert [x.context for x in made] == [mx.cpu()] * 3


def test_values_of_other_shapes_are_repeated() -> None:
    """What is written has the elements that NumPy's assignment gives, wherever the value is."""
    for there in (lambda y: nd.array(y, ctx=GPU), lambda y: nd.array(y), lambda y: y):
        for key, value in [
            (slice(1, 3), numbers(1, 3)),
            (slice(None), numbers(3) + 7),
            (slice(None), np.float32([5])),
            (1, numbers(1, 3)),
            ((slice(None), 1), numbers(4)),
            ((slice(None), slice(1, 3)), numbers(1, 2)),
        ]:
            x, want = nd.array(-numbers(4, 3), ctx=GPU), -numbers(4, 3)
            want[key] = value
            x[key] = there(value)
            np.testing.assert_array_equal(x.asnumpy(), want)
    x = nd.zeros((4, 3), ctx=GPU)
    x[:, 1] += 2
    np.testing.assert_array_equal(x.asnumpy(), [[0, 2, 0]] * 4)
    with pytest.raises(ValueError, match=r"\(3,3\)"):
        x[1:3] = nd.ones((3, 3), ctx=GPU)


def test_views_share_memory_as_in_mxnet() -> None:
    x = nd.array(numbers(3, 4), ctx=GPU)
    row, flat, element = x[1], x.reshape((12,)), x[2, 3]
    row[:] = -1
    assert element.shape == (1,)
    np.testing.assert_array_equal(flat.asnumpy(), [0, 1, 2, 3, -1, -1, -1, -1, 8, 9, 10, 11])
    column = x[:, 1]  # a copy: its elements do not follow each other
    column[:] = 5
    np.testing.assert_array_equal(x[:, 1].asnumpy(), [1, -1, 9])
    x[:, 2] = 0
    x[0, 0] = nd.array([8], ctx=GPU)
    np.testing.assert_array_equal(x.asnumpy(), [[8, 1, 0, 3], [-1, -1, 0, -1], [8, 9, 0, 11]])
    np.testing.assert_array_equal(x[-1:].asnumpy(), [[8, 9, 0, 11]])
    np.testing.assert_array_equal(x[nd.array([2, 0], ctx=GPU)].asnumpy(), x.asnumpy()[[2, 0]])


def test_values_of_one_element() -> None:
    x = nd.array([2.5], ctx=GPU)
    assert (x.asscalar(), float(x), int(x), bool(x), x.tolist()) == (2.5, 2.5, 2, True, [2.5])
    assert np.asarray(nd.array([1, 2], ctx=GPU)).tolist() == [1, 2]


def test_copies_and_pickles_stay_there() -> None:
    x = nd.array(numbers(3), ctx=GPU)
    restore, values = x.__reduce__()
    for y in (copy.copy(x), copy.deepcopy(x), restore(*values), x.copy()):
        assert y.context == GPU
        y[:] = 0
    np.testing.assert_array_equal(x.asnumpy(), numbers(3))


def test_files(tmp_path) -> None:
    nd.save(str(tmp_path / "x"), {"x": nd.array(numbers(2, 2), ctx=GPU)})
    np.testing.assert_array_equal(nd.load(str(tmp_path / "x"))["x"].asnumpy(), numbers(2, 2))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool"])
def test_arrays_of_zeros_and_ones(dtype: str) -> None:
    x = nd.array([3, 1, 0], ctx=GPU, dtype=dtype)
    np.testing.assert_array_equal(np.zeros_like(x._data).host(), np.zeros(3, dtype))
    np.testing.assert_array_equal(np.ones_like(x._data).host(), np.ones(3, dtype))
    assert np.ones_like(x._data).dtype == dtype
    x[:] = 1
    np.testing.assert_array_equal(x.asnumpy(), np.ones(3, dtype))
    x[:] = 2.5
    np.testing.assert_array_equal(x.asnumpy(), np.full(3, 2.5).astype(dtype))


def test_no_memory_left_leaves_arrays_as_they_were() -> None:
    x = nd.array(numbers(3), ctx=GPU)
    with pytest.raises(DeviceMemoryError, match=f"no {4 << 58} bytes of memory"):
        choose.device(0).empty((1 << 58,), np.float32)
    np.testing.assert_array_equal(x.asnumpy(), numbers(3))


def test_the_memory_of_a_card_is_not_numpys(kind: str) -> None:
    x = nd.array(numbers(3), ctx=GPU)
    if kind == "interpreter":
        x.asnative()[0] = 5
        np.testing.assert_array_equal(x.asnumpy(), [5, 1, 2])
        return
    with pytest.raises(UnsupportedError, match=r"memory of an array on gpu\(0\).*x.asnumpy\(\)"):
        x.asnative()


# --- operators ----------------------------------------------------------------------------------------------


def test_operators_run_there() -> None:
    x, y = numbers(2, 3), numbers(2, 3) + 1
    a, b = nd.array(x, ctx=GPU), nd.array(y, ctx=GPU)
    for got, expected in [
        (a + b, x + y),
        (2 * a - 1, 2 * x - 1),
        (nd.dot(a, b.T), x @ y.T),
        (a.sum(axis=1), x.sum(axis=1)),
        (nd.concat(a, b, dim=0), np.concatenate([x, y])),
        (a.transpose(), x.T),
        (nd.softmax(a), np.exp(x) / np.exp(x).sum(1, keepdims=True)),
    ]:
        assert got.context == GPU
        np.testing.assert_allclose(got.asnumpy(), expected, rtol=1e-5)
    parts = nd.split(a, 3, axis=1)
    np.testing.assert_array_equal(parts[2].asnumpy(), x[:, 2:])
    a += b
    a *= 2
    np.testing.assert_array_equal(a.asnumpy(), (x + y) * 2)
    out = nd.zeros((2, 3), ctx=GPU)
    nd.broadcast_add(b, nd.ones((1, 3), ctx=GPU), out=out)
    np.testing.assert_array_equal(out.asnumpy(), y + 1)


def test_arrays_of_two_devices_do_not_mix() -> None:
    with pytest.raises(MXNetError, match=r"add: its inputs are on gpu\(0\) and cpu\(0\); copy them to one device"):
        nd.ones((2,), ctx=GPU) + nd.ones((2,))


def test_gradients() -> None:
    x = nd.array(numbers(2, 2), ctx=GPU)
    x.attach_grad("add")
    for _ in range(2):
        with autograd.record():
            y = (x * x + x).sum()
        y.backward()
    assert x.grad.context == GPU
    np.testing.assert_array_equal(x.grad.asnumpy(), 2 * (2 * numbers(2, 2) + 1))


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: nd.Pooling(x, kernel=(3, 3), pad=(1, 1), pool_type="avg", count_include_pad=False), (1, 2, 4, 3)),
        (lambda x: nd.Pooling(x, kernel=(4, 3), global_pool=True), (1, 2, 4, 3)),
        (lambda x: nd.SequenceLast(x, nd.array([1, 2], ctx=x.context), use_sequence_length=True), (3, 2, 2)),
        (lambda x: nd.image.normalize(x, mean=0.5, std=(1, 2)), (2, 2, 2)),
        (lambda x: nd.contrib.boolean_mask(x, nd.array([1, 0, 1], ctx=x.context)), (3, 2)),
        (lambda x: nd.contrib.AdaptiveAvgPooling2D(x, output_size=(2, 3)), (1, 2, 4, 5)),
    ],
)
def test_what_gradients_make_is_there(function: Any, shape: tuple[int, ...]) -> None:
    """Whatever device is the current one, rules make their arrays beside what they are gradients of."""
    found = []
    for current, place in [(mx.cpu(), mx.cpu()), (mx.cpu(), GPU), (GPU, GPU), (GPU, mx.cpu())]:
        x = nd.array(numbers(*shape), ctx=place)
        x.attach_grad()
        with current:
            with autograd.record():
                y = function(x)
            y.backward()
        assert y.context == x.grad.context == place
        found.append((y.asnumpy(), x.grad.asnumpy()))
    for results in found[1:]:
        for got, want in zip(results, found[0], strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6)


def test_a_histogram() -> None:
    counts, edges = nd.histogram(nd.array([0, 1, 1, 3], ctx=GPU), bins=3, range=(0, 3))
    assert counts.context == edges.context == GPU
    np.testing.assert_array_equal(counts.asnumpy(), [1, 2, 1])


def test_running_statistics_are_updated_there() -> None:
    x, running = nd.array(numbers(8, 2), ctx=GPU), nd.zeros((2,), ctx=GPU)
    one, zero, variance = nd.ones((2,), ctx=GPU), nd.zeros((2,), ctx=GPU), nd.ones((2,), ctx=GPU)
    with autograd.train_mode():
        nd.BatchNorm(x, one, zero, running, variance, momentum=0.5, fix_gamma=False)
    np.testing.assert_allclose(running.asnumpy(), numbers(8, 2).mean(0) / 2, rtol=1e-6)


# --- networks -----------------------------------------------------------------------------------------------


def network() -> gluon.HybridBlock:
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="relu"), nn.BatchNorm(), nn.Dropout(0.5), nn.Dense(3))
    return net


def trained(context: mx.Context, hybridize: bool) -> tuple[list[float], list[np.ndarray]]:
    """Losses and weights of a few steps."""
    mx.random.seed(1)
    net, loss = network(), gluon.loss.SoftmaxCrossEntropyLoss()
    net.initialize(mx.init.Xavier())
    net(nd.ones((2, 5)))
    net.collect_params().reset_ctx(context)
    if hybridize:
        net.hybridize()
        loss.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    x, y = nd.array(numbers(4, 5) / 10, ctx=context), nd.array([0, 1, 2, 1], ctx=context)
    losses: list[float] = []
    for _ in range(2):
        with autograd.record():
            out = loss(net(x), y)
        out.backward()
        trainer.step(4)
        assert out.context == context
        losses.append(float(out.mean().asscalar()))
    return losses, [p.data().asnumpy() for p in net.collect_params().values()]


@pytest.mark.long
def test_training_there_is_training_here() -> None:
    losses, weights = trained(mx.cpu(), True)
    there, moved = trained(GPU, True)
    np.testing.assert_allclose(there, losses, rtol=1e-5)
    for a, b in zip(moved, weights, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_training_operator_by_operator(kind: str) -> None:
    if kind == "card":
        losses, _ = trained(mx.cpu(), False)
        np.testing.assert_allclose(trained(GPU, False)[0], losses, rtol=1e-5)


def test_parameters_are_where_they_are_told() -> None:
    net = nn.Dense(3, in_units=2)
    net.initialize(ctx=GPU)
    assert net.weight.data().context == net.weight.grad().context == net.weight.list_ctx()[0] == GPU
    net.weight.set_data(nd.ones((3, 2)))
    net.weight.zero_grad()
    np.testing.assert_array_equal(net.weight.data(GPU).asnumpy(), np.ones((3, 2)))
    with pytest.raises(RuntimeError, match=r"not initialized on context cpu\(0\). It was only initialized on \[gpu"):
        net.weight.data(mx.cpu())
    net.cast("float64")
    assert (net.weight.data().dtype, net.weight.data().context) == (np.float64, GPU)
    net.collect_params().reset_ctx(mx.cpu())
    assert net.weight.data().context == mx.cpu()


def test_a_network_and_its_arguments_are_on_one_device() -> None:
    net = nn.Dense(3, in_units=2)
    net.initialize(ctx=GPU)
    net.hybridize()
    net(nd.ones((1, 2), ctx=GPU))
    with pytest.raises(RuntimeError, match=r"was not initialized on context cpu\(0\)"):
        net(nd.ones((1, 2)))
    net.collect_params().reset_ctx(mx.cpu())
    np.testing.assert_allclose(net(nd.ones((1, 2))).asnumpy(), net.weight.data().asnumpy().sum(1)[None], rtol=1e-5)
    with pytest.raises(RuntimeError, match=r"was not initialized on context gpu\(0\)"):
        net(nd.ones((1, 2), ctx=GPU))


class Mixed(nn.HybridBlock):
    def hybrid_forward(self, F, x, y):
        return x + y


def test_arguments_of_two_devices() -> None:
    net = Mixed()
    net.hybridize()
    with pytest.raises(MXNetError, match=r"the arguments are on gpu\(0\) and cpu\(0\)"):
        net(nd.ones((2,), ctx=GPU), nd.ones((2,)))
    with pytest.raises(MXNetError, match=r"the arguments are on cpu\(0\) and gpu\(0\)"):
        net(nd.ones((2,)), nd.ones((2,), ctx=GPU))


class Transposed(nn.HybridBlock):
    def hybrid_forward(self, F, x):
        return F.transpose(x), x.reshape((-1,)), x


def test_results_that_are_views() -> None:
    net = Transposed()
    net.hybridize()
    x = nd.array(numbers(2, 3), ctx=GPU)
    for got, expected in zip(net(x), (numbers(2, 3).T, numbers(6), numbers(2, 3)), strict=True):
        assert got.context == GPU
        np.testing.assert_array_equal(got.asnumpy(), expected)


class OnHost(nn.HybridBlock):
    def hybrid_forward(self, F, x):
        return F.exp(F.topk(F.transpose(x * 2), k=2, ret_typ="value"))


def test_calls_of_the_host_amid_kernels() -> None:
    net = OnHost()
    net.hybridize()
    x = np.array([[3, 1, 2], [0, 5, 4]], np.float32)
    got = net(nd.array(x, ctx=GPU)).asnumpy()
    np.testing.assert_allclose(got, np.exp(np.sort(2 * x.T, axis=1)[:, ::-1]), rtol=1e-5)


def test_arrays_of_the_host_by_way_of_the_device() -> None:
    net = network()
    net.initialize()
    x = nd.array(numbers(4, 5) / 10)
    expected = net(x).asnumpy()
    graph = net.trace(x).optimize().lower("triton").compile()
    np.testing.assert_allclose(graph(x).asnumpy(), expected, rtol=1e-5)
    strided = nd.from_numpy(np.ascontiguousarray(x.asnumpy().T)).transpose()
    np.testing.assert_allclose(graph(strided).asnumpy(), expected, rtol=1e-5)


def test_a_training_step_in_one_graph() -> None:
    def losses(context: mx.Context) -> list[float]:
        mx.random.seed(2)
        net = nn.Dense(3, in_units=5)
        net.initialize(ctx=context)
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})
        step = gluon.TrainStep(net, gluon.loss.L2Loss(), trainer)
        x, y = nd.array(numbers(4, 5) / 10, ctx=context), nd.ones((4, 3), ctx=context)
        found = [step(x, y) for _ in range(3)]
        assert all(loss.context == context for loss in found)
        return [float(loss.mean().asscalar()) for loss in found]

    np.testing.assert_allclose(losses(GPU), losses(mx.cpu()), rtol=1e-5)


def test_weights_of_half_precision_with_copies_of_single() -> None:
    def weights(context: mx.Context) -> np.ndarray:
        net = nn.Dense(2, in_units=3)
        net.initialize(mx.init.One(), ctx=context)
        net.cast("float16")
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "multi_precision": True})
        with autograd.record():
            loss = net(nd.array(numbers(2, 3), ctx=context, dtype="float16")).sum()
        loss.backward()
        trainer.step(1)
        return net.weight.data().asnumpy()

    np.testing.assert_array_equal(weights(GPU), weights(mx.cpu()))


def test_metrics_and_clipping() -> None:
    accuracy = mx.metric.Accuracy()
    accuracy.update(nd.array([0, 1], ctx=GPU), nd.array([[1, 0], [1, 0]], ctx=GPU))
    assert accuracy.get()[1] == 0.5
    x = nd.array([3, 4], ctx=GPU)
    assert gluon.utils.clip_global_norm([x], 1.0) == pytest.approx(5)
    np.testing.assert_allclose(x.asnumpy(), [0.6, 0.8], rtol=1e-5)
    parts = gluon.utils.split_and_load(numbers(2, 2), [GPU])
    assert parts[0].context == GPU


def test_waiting_tells_what_went_wrong(kind: str) -> None:
    x = nd.ones((2,), ctx=GPU)
    x.wait_to_read()
    nd.waitall()
    if kind == "card":
        device: Any = choose.device(0)
        device.driver.functions["cuStreamSynchronize"] = lambda _: 700
        with pytest.raises(DeviceError, match="error 700"):
            x.wait_to_read()
        device.driver.functions["cuCtxSynchronize"] = lambda: 719
        with pytest.raises(DeviceError, match="error 719"):
            nd.waitall()
