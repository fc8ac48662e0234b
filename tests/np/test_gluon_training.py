"""Training in Gluon with arrays of ``mx.np``: trainers, data sets, files, custom blocks, image functions."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as onp
import pytest

import hybridc as mx
from hybridc import autograd, gluon, image, np, npx
from hybridc.gluon import nn
from hybridc.gluon.contrib import estimator
from hybridc.gluon.data.vision import transforms

IMAGES = Path(__file__).parents[1] / "golden" / "images"


@pytest.fixture(autouse=True)
def numpy_semantics():
    npx.set_np()
    yield
    npx.reset_np()


def data(*shape, seed=0):
    return onp.random.default_rng(seed).normal(size=shape).astype("float32")


# --- training ----------------------------------------------------------------------------------------------------


def _trained(array, optimizer, hybridize, batches=3):
    """The parameters after some steps."""
    mx.random.seed(1)
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(4, activation="tanh", in_units=3), nn.Dense(1, in_units=4))
    net.initialize(mx.init.Xavier())
    if hybridize:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), optimizer)
    loss_of = gluon.loss.L2Loss()
    for i in range(batches):
        x, y = array(data(8, 3, seed=i)), array(data(8, 1, seed=i + 9))
        with autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        trainer.step(8)
    return {name: p.data().asnumpy() for name, p in net.collect_params().items()}


OPTIMIZERS = (
    "sgd", "nag", "signum", "adam", "adamw", "adamax", "nadam", "adagrad", "adadelta", "rmsprop", "ftrl", "ftml",
    "lamb", "lars", "lbsgd", "dcasgd",
)  # fmt: skip


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizers_train_as_with_nd(optimizer):
    with mx.util.np_array(False), mx.util.np_shape(False):
        wanted = _trained(mx.nd.array, optimizer, False)
    for hybridize in (False, True):
        found = _trained(np.array, optimizer, hybridize)
        for name, value in wanted.items():
            onp.testing.assert_allclose(found[name], value, rtol=2e-5, atol=2e-6, err_msg=name)


def test_sgld_draws_noise():
    assert all(onp.isfinite(v).all() for v in _trained(np.array, "sgld", False).values())


INITIALIZERS = (
    mx.init.Zero(), mx.init.One(), mx.init.Constant(2), mx.init.Uniform(), mx.init.Normal(), mx.init.Orthogonal(),
    mx.init.Xavier(), mx.init.MSRAPrelu(), mx.init.LSTMBias(),
)  # fmt: skip


@pytest.mark.parametrize("initializer", INITIALIZERS, ids=lambda i: type(i).__name__)
def test_initializers(initializer):
    def values():
        mx.random.seed(4)
        parameter = gluon.Parameter("weight", shape=(8, 4))
        parameter.initialize(initializer)
        return parameter.data()

    found = values()
    assert type(found) is np.ndarray
    with mx.util.np_array(False):
        onp.testing.assert_array_equal(found.asnumpy(), values().asnumpy())


def test_a_callable_initializer_gets_arrays_that_it_can_fill():
    class Mine(mx.init.Initializer):
        def _init_weight(self, name, arr):
            arr[:] = np.random.uniform(-10, 10, arr.shape)
            arr *= np.abs(arr) >= 5

    parameter = gluon.Parameter("weight", shape=(50, 4))
    parameter.initialize(Mine())
    values = onp.abs(parameter.data().asnumpy())
    assert ((values == 0) | (values >= 5)).all()
    assert (values == 0).any()
    assert (values >= 5).any()


def test_weights_can_be_set_in_place():
    net = nn.Dense(2, in_units=3)
    net.initialize()
    net.weight.data()[:] += 1
    net.weight.data()[0, 0] = 42
    assert net.weight.data()[0, 0] == 42
    net.weight.set_data(np.ones((2, 3)))
    net.bias.set_data(onp.zeros(2))
    assert net(np.ones((1, 3))).tolist() == [[3, 3]]


def test_save_and_load(tmp_path):
    net, other = nn.Dense(2, in_units=3), nn.Dense(2, in_units=3)
    net.initialize()
    file = str(tmp_path / "net.params")
    net.save_parameters(file)
    other.load_parameters(file)
    assert type(other.weight.data()) is np.ndarray
    onp.testing.assert_array_equal(other.weight.data().asnumpy(), net.weight.data().asnumpy())
    npx.save(str(tmp_path / "arrays"), {"a": np.ones((2,)), "b": np.array(3.0)})
    found = npx.load(str(tmp_path / "arrays"))
    assert {name: x.tolist() for name, x in found.items()} == {"a": [1, 1], "b": 3}


def test_fused_training_step():
    net = nn.Dense(1, in_units=3)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    x, y = np.array(data(8, 3)), np.array(data(8, 1))
    losses = []
    for _ in range(20):
        with autograd.record():
            loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        trainer.step(1)
        losses.append(float(loss))
    assert losses[-1] < losses[0]


def test_estimator():
    net = nn.Dense(2, in_units=3)
    net.initialize()
    x = data(12, 3)
    loader = gluon.data.DataLoader(gluon.data.ArrayDataset(x, (x.sum(1) > 0).astype("float32")), 4)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    made = estimator.Estimator(net, gluon.loss.SoftmaxCELoss(), mx.metric.Accuracy(), trainer=trainer, context=mx.cpu())
    made.logger.handlers = [logging.NullHandler()]
    made.fit(loader, epochs=8)
    assert made.train_metrics[0].get()[1] > 0.9


@pytest.mark.parametrize("name", ["resnet18_v1", "mobilenet0_25", "mobilenet_v2_0_25"])
def test_model_zoo(name):
    net = getattr(gluon.model_zoo.vision, name)(classes=5)
    net.initialize()
    x = np.array(data(1, 3, 64, 64))
    eager = net(x)
    net.hybridize()
    assert type(eager) is type(net(x)) is np.ndarray
    onp.testing.assert_allclose(net(x).asnumpy(), eager.asnumpy(), rtol=1e-3, atol=1e-4)


OPTIONS = {"top_k_accuracy": {"top_k": 2}, "perplexity": {"ignore_label": None}}
METRICS = {
    "acc": ([1, 0, 1], [[0.2, 0.8], [0.9, 0.1], [0.7, 0.3]]),
    "top_k_accuracy": ([1, 0, 1], [[0.2, 0.8], [0.9, 0.1], [0.7, 0.3]]),
    "f1": ([1, 0, 1], [[0.2, 0.8], [0.9, 0.1], [0.7, 0.3]]),
    "mcc": ([1, 0, 1], [[0.2, 0.8], [0.9, 0.1], [0.7, 0.3]]),
    "perplexity": ([1, 0, 1], [[0.2, 0.8], [0.9, 0.1], [0.7, 0.3]]),
    "ce": ([1, 0, 1], [[0.2, 0.8], [0.9, 0.1], [0.7, 0.3]]),
    "nll_loss": ([1, 0, 1], [[0.2, 0.8], [0.9, 0.1], [0.7, 0.3]]),
    "mae": ([1, 0, 1], [0.2, 0.8, 0.9]),
    "mse": ([1, 0, 1], [0.2, 0.8, 0.9]),
    "rmse": ([1, 0, 1], [0.2, 0.8, 0.9]),
    "pearsonr": ([1, 0, 1], [0.2, 0.8, 0.9]),
    "pcc": ([1, 0, 1], [[0.2, 0.8], [0.9, 0.1], [0.7, 0.3]]),
    "loss": ([1, 0, 1], [0.2, 0.8, 0.9]),
}


@pytest.mark.parametrize("name", METRICS)
def test_metrics(name):
    found = []
    for array in (mx.nd.array, np.array):
        metric = mx.metric.create(name, **OPTIONS.get(name, {}))
        label, pred = METRICS[name]
        metric.update([array(label)], [array(pred)])
        found.append(metric.get())
    onp.testing.assert_equal(*found)


def test_loss_metric_of_a_number():
    metric = mx.metric.Loss()
    metric.update(None, np.array(2.5))
    assert metric.get()[1] == 2.5


# --- blocks of users -----------------------------------------------------------------------------------------------


class OfF(gluon.HybridBlock):
    """By F's functions: those of NumPy, of networks, and of ``mx.nd``."""

    def __init__(self):
        super().__init__()
        self.weight = self.params.get("weight", shape=(3,), init="ones")
        self.scale = self.params.get_constant("scale", np.array([1.0, 2.0, 3.0]))

    def hybrid_forward(self, F, x, weight, scale):
        y = F.np.tanh(x * weight) + F.npx.relu(x) * scale
        kept = F.FullyConnected(y, F.np.ones((2, 3)), no_bias=True, num_hidden=2)
        return F.np.concatenate([y.reshape(-1), kept.reshape((-1,))]), F.np.sum(y), (y > 0).sum(axis=0)


class OfModules(gluon.HybridBlock):
    """By the functions of the modules, in ``forward``."""

    def __init__(self):
        super().__init__()
        self.weight = self.params.get("weight", shape=(3,), init="ones")
        self.scale = self.params.get_constant("scale", np.array([1.0, 2.0, 3.0]))

    def forward(self, x):
        y = np.tanh(x * self.weight.data()) + npx.relu(x) * self.scale.data()
        kept = np.dot(y, np.ones((2, 3)).T)
        return np.concatenate([y.reshape(-1), kept.reshape((-1,))]), np.sum(y), (y > 0).sum(axis=0)


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("kind", [OfF, OfModules])
def test_blocks_of_users(kind, hybridize):
    block = kind()
    block.initialize()
    if hybridize:
        block.hybridize()
    x = data(2, 3)
    given = np.array(x)
    given.attach_grad()
    with autograd.record():
        flat, total, count = block(given)
    flat.backward()
    y = onp.tanh(x) + onp.maximum(x, 0) * onp.array([1, 2, 3])
    onp.testing.assert_allclose(flat.asnumpy(), onp.concatenate([y.ravel(), (y @ onp.ones((3, 2))).ravel()]), 1e-5)
    onp.testing.assert_allclose(total.asnumpy(), y.sum(), 1e-5)
    assert total.shape == ()
    assert count.dtype == onp.int64
    assert type(given.grad) is np.ndarray
    slope = 1 - onp.tanh(x) ** 2
    onp.testing.assert_allclose(given.grad.asnumpy(), 3 * (slope + (x > 0) * onp.array([1, 2, 3])), 1e-4)
    onp.testing.assert_allclose(block.weight.grad().asnumpy(), 3 * (slope * x).sum(0), 1e-4, 1e-5)


def test_constants_keep_their_shape():
    block = gluon.Constant("c", np.array([[1.0, 2.0]]))
    block.initialize()
    assert type(block.data()) is np.ndarray
    assert block.data().tolist() == [[1, 2]]


def test_gradients_of_functions_of_users():
    classes = []

    class Square(autograd.Function):
        def forward(self, x):
            self.save_for_backward(x)
            return x * x

        def backward(self, dy):
            (x,) = self.saved_tensors
            classes.extend([type(x), type(dy)])
            return 2 * x * dy

    x = np.array([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        y = Square()(x)
    assert type(y) is np.ndarray
    y.backward()
    assert classes == [np.ndarray, np.ndarray]
    assert x.grad.tolist() == [2, 4]


def test_gradients_as_results():
    x = np.array([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        y = (x**3).sum()
        (slope,) = autograd.grad(y, [x], create_graph=True)
        total = slope.sum()
    assert type(slope) is np.ndarray
    total.backward()
    assert x.grad.tolist() == [6, 12]


# --- data ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("workers", "threads"), [(0, False), (2, True), (2, False)])
def test_loaders_give_arrays_of_np(workers, threads):
    x, y = data(6, 2), onp.arange(6, dtype="int32")
    for dataset in (gluon.data.ArrayDataset(np.array(x), y), list(zip(x, y.tolist(), strict=True))):
        loader = gluon.data.DataLoader(dataset, 3, num_workers=workers, thread_pool=threads)
        batches = list(loader)
        assert all(type(part) is np.ndarray for batch in batches for part in batch)
        onp.testing.assert_array_equal(np.concatenate([b[0] for b in batches]).asnumpy(), x)
        onp.testing.assert_array_equal(np.concatenate([b[1] for b in batches]).asnumpy(), y)


@pytest.mark.parametrize("workers", [0, 2])
def test_the_thread_that_makes_a_loader_decides(workers):
    dataset = gluon.data.ArrayDataset(data(4, 2)).transform(lambda x: (type(np.array(x)).__name__ and x, 1))
    with mx.util.np_array(False):
        loader = gluon.data.DataLoader(dataset, 2, num_workers=workers)
    assert all(type(part) is mx.nd.NDArray for batch in loader for part in batch)


def test_loaders_of_sequences():
    batchify = gluon.data.batchify.Group(gluon.data.batchify.Pad(), gluon.data.batchify.Stack())
    loader = gluon.data.DataLoader([(onp.ones(n), n) for n in (1, 3)], 2, batchify_fn=batchify)
    ((padded, lengths),) = loader
    assert type(padded) is type(lengths) is np.ndarray
    assert padded.tolist() == [[1, 0, 0], [1, 1, 1]]


TRANSFORMS = (
    transforms.ToTensor(), transforms.Resize(4), transforms.CenterCrop(4), transforms.RandomCrop(4),
    transforms.CropResize(0, 0, 3, 3), transforms.RandomResizedCrop(4), transforms.RandomFlipLeftRight(),
    transforms.RandomFlipTopBottom(), transforms.RandomBrightness(0.1), transforms.RandomContrast(0.1),
    transforms.RandomSaturation(0.1), transforms.RandomHue(0.1), transforms.RandomColorJitter(0.1, 0.1, 0.1, 0.1),
    transforms.RandomLighting(0.1), transforms.RandomGray(0.5), transforms.Cast("float32"),
    transforms.Compose([transforms.Resize(5), transforms.ToTensor(), transforms.Normalize(0.1, 0.2)]),
    transforms.Compose([transforms.ToTensor(), transforms.Rotate(30)]),
)  # fmt: skip


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda t: type(t).__name__)
def test_transforms(transform):
    pixels = onp.random.default_rng(2).integers(0, 256, (8, 9, 3)).astype("uint8")
    found = []
    for x in (mx.nd.array(pixels, dtype="uint8"), np.array(pixels)):
        mx.random.seed(5)
        found.append(transform(x))
    assert [type(y) for y in found] == [mx.nd.NDArray, np.ndarray]
    onp.testing.assert_array_equal(found[1].asnumpy(), found[0].asnumpy())
    assert type(transform(pixels)) is np.ndarray


def test_images():
    file = IMAGES / "colour.png"
    pixels = image.imread(str(file))
    assert type(pixels) is np.ndarray
    onp.testing.assert_array_equal(pixels.asnumpy(), image.imdecode(file.read_bytes()).asnumpy())
    made = [
        image.imresize(pixels, 5, 4),
        image.resize_short(pixels, 5),
        image.center_crop(pixels, (4, 4))[0],
        image.random_crop(pixels, (4, 4))[0],
        image.fixed_crop(pixels, 0, 0, 4, 4),
        image.color_normalize(pixels, np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 2.0])),
        *[augment(pixels) for augment in image.CreateAugmenter((3, 4, 4), rand_mirror=True, brightness=0.1, hue=0.1)],
    ]
    assert all(type(x) is np.ndarray for x in made)


def test_split_and_clip():
    contexts = [mx.cpu(0), mx.cpu(1)]
    first, second = gluon.utils.split_and_load(onp.arange(8).reshape(4, 2), contexts)
    assert isinstance(first, np.ndarray)
    assert isinstance(second, np.ndarray)
    assert second.context == mx.cpu(1)
    assert [part.shape for part in gluon.utils.split_data(np.ones((4, 2)), 2)] == [(2, 2)] * 2
    grads = [np.ones((4,)), np.ones((3, 4))]
    assert gluon.utils.clip_global_norm(grads, 1.0) == 4
    onp.testing.assert_allclose(grads[0].asnumpy(), onp.full(4, 0.25))
    mx.nd.waitall()
    npx.waitall()


def test_test_utils():
    mx.test_utils.assert_almost_equal(np.ones((2,)), onp.ones(2))
    assert mx.test_utils.same(np.ones((2,)), np.ones((2,)))


class Cubed(mx.operator.CustomOp):
    """x³, of arrays of the class that is the default."""

    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], np.power(in_data[0], 3))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        assert type(out_grad[0]) is type(in_data[0]) is np.ndarray
        self.assign(in_grad[0], req[0], 3 * out_grad[0] * in_data[0] ** 2)


@mx.operator.register("np_cubed")
class CubedProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Cubed()


@pytest.mark.parametrize("hybridize", [False, True])
def test_custom_operators(hybridize):
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.Custom(x, op_type="np_cubed") + 1

    net = Net()
    if hybridize:
        net.hybridize()
    x = np.array([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        y = net(x)
    y.backward()
    assert type(y) is np.ndarray
    assert y.tolist() == [2, 9]
    assert x.grad.tolist() == [3, 12]


def test_data_parallel_training():
    contexts = [mx.cpu(0), mx.cpu(1)]
    net = nn.Dense(1, in_units=3)
    net.initialize(ctx=contexts)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    parts = gluon.utils.split_and_load(data(4, 3), contexts)
    with autograd.record():
        losses = [net(x).sum() for x in parts]
    autograd.backward(losses)
    trainer.step(4)
    first, second = net.weight.list_data()
    assert isinstance(second, np.ndarray)
    assert second.context == mx.cpu(1)
    onp.testing.assert_array_equal(first.asnumpy(), second.asnumpy())


def test_export_and_import(tmp_path):
    net = nn.HybridSequential()
    net.add(nn.Conv2D(2, 3), nn.BatchNorm(), nn.Activation("relu"), nn.Dense(3))
    net.initialize()
    net.hybridize()
    x = np.array(data(2, 1, 5, 5))
    wanted = net(x)
    net.export(str(tmp_path / "net"))
    other = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    assert type(other(x)) is np.ndarray
    onp.testing.assert_allclose(other(x).asnumpy(), wanted.asnumpy(), rtol=1e-5, atol=1e-6)
