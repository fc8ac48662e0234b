"""Programs as a course of deep learning has them, by ``mx.np``, ``mx.npx`` and Gluon: each learns within seconds."""

from __future__ import annotations

import collections
import math
import random

import numpy as onp
import pytest

import hybridc as mx
from hybridc import autograd, gluon, init, np, npx
from hybridc.gluon import nn, rnn


@pytest.fixture(autouse=True)
def numpy_semantics():
    npx.set_np()
    mx.random.seed(0)
    random.seed(0)
    onp.random.seed(0)
    yield
    npx.reset_np()


def minibatches(size, *arrays):
    """The rows of arrays in random order, so many at once."""
    order = list(range(len(arrays[0])))
    random.shuffle(order)
    for start in range(0, len(order), size):
        rows = np.array(order[start : start + size], dtype="int32")
        yield tuple(a[rows] for a in arrays)


def sgd(parameters, lr, size):
    """A step of gradient descent, in place."""
    for p in parameters:
        p[:] = p - lr * p.grad / size


def linear_data(w, b, count):
    x = np.random.normal(0, 1, (count, len(w)))
    y = np.dot(x, w) + b
    return x, (y + np.random.normal(0, 0.01, y.shape)).reshape((-1, 1))


SIDE, CLASSES = 12, 4


def images(count, side=SIDE, classes=CLASSES):
    """Gray images, each class with a bright patch elsewhere, and their classes."""
    labels = onp.random.randint(0, classes, count)
    x = onp.random.uniform(0, 0.4, (count, 1, side, side)).astype("float32")
    half = side // 2
    for i, label in enumerate(labels):
        row, column = divmod(int(label), 2)
        x[i, 0, row * half : (row + 1) * half, column * half : (column + 1) * half] += 0.6
    return x, labels.astype("int32")


def accuracy(y_hat, y):
    return float((y_hat.argmax(axis=1).astype("int32") == y.astype("int32")).sum()) / len(y)


def trained(net, loader, epochs=3, optimizer="adam", **options):
    """The mean losses of the epochs."""
    trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.01, **options})
    loss_of, means = gluon.loss.SoftmaxCrossEntropyLoss(), []
    for _ in range(epochs):
        total, count = 0.0, 0
        for x, y in loader:
            with autograd.record():
                loss = loss_of(net(x), y)
            loss.backward()
            trainer.step(x.shape[0])
            total += float(loss.sum())
            count += loss.size
        means.append(total / count)
    return means


def image_loader(count=96, **kwargs):
    return gluon.data.DataLoader(gluon.data.ArrayDataset(*images(count, **kwargs)), 16, shuffle=True)


# --- linear networks -----------------------------------------------------------------------------------------------


def test_linear_regression_from_scratch():
    true_w, true_b = np.array([2, -3.4]), 4.2
    x, y = linear_data(true_w, true_b, 200)
    w, b = np.random.normal(0, 0.01, (2, 1)), np.zeros(1)
    w.attach_grad()
    b.attach_grad()
    for _ in range(4):
        for some_x, some_y in minibatches(10, x, y):
            with autograd.record():
                y_hat = np.dot(some_x, w) + b
                loss = (y_hat - some_y.reshape(y_hat.shape)) ** 2 / 2
            loss.backward()
            sgd([w, b], 0.1, 10)
    assert float(np.abs(true_w - w.reshape(true_w.shape)).max()) < 0.05
    assert abs(float(true_b - b)) < 0.05


def test_linear_regression_concisely():
    true_w = np.array([2, -3.4])
    dataset = gluon.data.ArrayDataset(*linear_data(true_w, 4.2, 200))
    loader = gluon.data.DataLoader(dataset, 10, shuffle=True)
    net = nn.Sequential()
    net.add(nn.Dense(1))
    net.initialize(init.Normal(sigma=0.01))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    loss_of = gluon.loss.L2Loss()
    for _ in range(4):
        for x, y in loader:
            with autograd.record():
                loss = loss_of(net(x), y)
            loss.backward()
            trainer.step(10)
    w = net[0].weight.data()
    assert float(np.abs(true_w - w.reshape(true_w.shape)).max()) < 0.05


def test_softmax_regression_from_scratch():
    x, labels = images(200)
    x, y = np.array(x.reshape(200, -1)), np.array(labels)
    w, b = np.random.normal(0, 0.01, (x.shape[1], CLASSES)), np.zeros(CLASSES)
    w.attach_grad()
    b.attach_grad()

    def softmax(scores):
        e = np.exp(scores - scores.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def cross_entropy(y_hat, y):
        return -np.log(y_hat[np.arange(len(y_hat), dtype="int32"), y])

    losses = []
    for _ in range(3):
        for some_x, some_y in minibatches(20, x, y):
            with autograd.record():
                loss = cross_entropy(softmax(np.dot(some_x, w) + b), some_y)
            loss.backward()
            sgd([w, b], 0.1, 20)
            losses.append(float(loss.mean()))
    assert losses[-1] < losses[0] / 2
    assert accuracy(softmax(np.dot(x, w) + b), y) > 0.95


def test_multilayer_perceptron_with_dropout_and_weight_decay():
    x, labels = images(160)
    net = nn.HybridSequential()
    net.add(nn.Dense(32, activation="relu"), nn.Dropout(0.3), nn.Dense(CLASSES))
    net.initialize(init.Normal(sigma=0.05))
    net.hybridize()
    loader = gluon.data.DataLoader(gluon.data.ArrayDataset(x, labels), 16, shuffle=True)
    losses = trained(net, loader, wd=1e-3)
    assert losses[-1] < losses[0] / 2
    assert accuracy(net(np.array(x)), np.array(labels)) > 0.95
    assert (net(np.array(x)) == net(np.array(x))).all()


def test_multilayer_perceptron_from_scratch():
    def relu(x):
        return np.maximum(x, 0)

    def dropout(x, p):
        mask = np.random.uniform(0, 1, x.shape) > p
        return mask.astype(np.float32) * x / (1.0 - p)

    x, labels = images(160)
    x, y = np.array(x.reshape(160, -1)), np.array(labels)
    w1, b1 = np.random.normal(scale=0.05, size=(x.shape[1], 16)), np.zeros(16)
    w2, b2 = np.random.normal(scale=0.05, size=(16, CLASSES)), np.zeros(CLASSES)
    parameters = [w1, b1, w2, b2]
    for p in parameters:
        p.attach_grad()
    loss_of, losses = gluon.loss.SoftmaxCrossEntropyLoss(), []
    for _ in range(6):
        for some_x, some_y in minibatches(16, x, y):
            with autograd.record():
                hidden = dropout(relu(np.dot(some_x, w1) + b1), 0.2)
                penalty = (w1**2).sum() / 2
                loss = loss_of(np.dot(hidden, w2) + b2, some_y) + 1e-3 * penalty
            loss.backward()
            sgd(parameters, 0.2, 16)
            losses.append(float(loss.mean()))
    assert losses[-1] < losses[0] / 2


# --- blocks ----------------------------------------------------------------------------------------------------------


def test_custom_blocks_with_parameters_of_their_own():
    class Centered(nn.Block):
        def forward(self, x):
            return x - x.mean()

    class MyDense(nn.Block):
        def __init__(self, units, in_units, **kwargs):
            super().__init__(**kwargs)
            self.weight = self.params.get("weight", shape=(in_units, units))
            self.bias = self.params.get("bias", shape=(units,))

        def forward(self, x):
            return npx.relu(np.dot(x, self.weight.data(ctx=x.ctx)) + self.bias.data(ctx=x.ctx))

    class Fancy(nn.Block):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.rand_weight = self.params.get_constant("rand_weight", np.random.uniform(size=(20, 20)))
            self.dense = nn.Dense(20, activation="relu")

        def forward(self, x):
            x = self.dense(x)
            x = npx.relu(np.dot(x, self.rand_weight.data()) + 1)
            x = self.dense(x)
            while np.abs(x).sum() > 1:
                x = x / 2
            return x.sum()

    net = nn.Sequential()
    net.add(MyDense(8, in_units=20), Centered(), MyDense(1, in_units=8))
    net.initialize()
    assert net(np.random.uniform(size=(2, 20))).shape == (2, 1)
    net = Fancy()
    net.initialize()
    assert net(np.random.uniform(size=(2, 20))).shape == ()


def test_convolution_learns_an_edge():
    def correlated(x, k):
        height, width = k.shape
        y = np.zeros((x.shape[0] - height + 1, x.shape[1] - width + 1))
        for i in range(y.shape[0]):
            for j in range(y.shape[1]):
                y[i, j] = (x[i : i + height, j : j + width] * k).sum()
        return y

    x = np.ones((6, 8))
    x[:, 2:6] = 0
    y = correlated(x, np.array([[1, -1]]))
    layer = nn.Conv2D(1, kernel_size=(1, 2), use_bias=False)
    layer.initialize()
    x, y = x.reshape(1, 1, 6, 8), y.reshape(1, 1, 6, 7)
    losses = []
    for _ in range(10):
        with autograd.record():
            loss = (layer(x) - y) ** 2
        loss.backward()
        layer.weight.data()[:] -= 3e-2 * layer.weight.grad()
        losses.append(float(loss.sum()))
    assert losses[-1] < losses[0] / 10


@pytest.mark.parametrize("hybridize", [False, True])
def test_lenet(hybridize):
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(channels=6, kernel_size=5, padding=2, activation="sigmoid"),
        nn.AvgPool2D(pool_size=2, strides=2),
        nn.Conv2D(channels=8, kernel_size=3, activation="relu"),
        nn.AvgPool2D(pool_size=2, strides=2),
        nn.Dense(16, activation="relu"),
        nn.Dense(CLASSES),
    )
    net.initialize(init=init.Xavier())
    if hybridize:
        net.hybridize()
    losses = trained(net, image_loader())
    assert losses[-1] < losses[0]


def test_batch_norm_from_scratch():
    def batch_norm(x, gamma, beta, moving_mean, moving_var, eps, momentum):
        if not autograd.is_training():
            x_hat = (x - moving_mean) / np.sqrt(moving_var + eps)
        else:
            if len(x.shape) == 2:
                mean = x.mean(axis=0)
                var = ((x - mean) ** 2).mean(axis=0)
            else:
                mean = x.mean(axis=(0, 2, 3), keepdims=True)
                var = ((x - mean) ** 2).mean(axis=(0, 2, 3), keepdims=True)
            x_hat = (x - mean) / np.sqrt(var + eps)
            moving_mean = momentum * moving_mean + (1.0 - momentum) * mean
            moving_var = momentum * moving_var + (1.0 - momentum) * var
        return gamma * x_hat + beta, moving_mean, moving_var

    class BatchNorm(nn.Block):
        def __init__(self, features, rank, **kwargs):
            super().__init__(**kwargs)
            shape = (1, features) if rank == 2 else (1, features, 1, 1)
            self.gamma = self.params.get("gamma", shape=shape, init=init.One())
            self.beta = self.params.get("beta", shape=shape, init=init.Zero())
            self.moving_mean, self.moving_var = np.zeros(shape), np.ones(shape)

        def forward(self, x):
            if self.moving_mean.ctx != x.ctx:
                self.moving_mean = self.moving_mean.copyto(x.ctx)
                self.moving_var = self.moving_var.copyto(x.ctx)
            y, self.moving_mean, self.moving_var = batch_norm(
                x, self.gamma.data(), self.beta.data(), self.moving_mean, self.moving_var, 1e-12, 0.9
            )
            return y

    net = nn.Sequential()
    net.add(nn.Conv2D(4, kernel_size=3), BatchNorm(4, 4), nn.Activation("relu"), nn.MaxPool2D(2))
    net.add(nn.Dense(8), BatchNorm(8, 2), nn.Activation("relu"), nn.Dense(CLASSES))
    net.initialize(init.Xavier())
    losses = trained(net, image_loader())
    assert losses[-1] < losses[0]
    own, theirs = BatchNorm(3, 4), nn.BatchNorm(epsilon=1e-12)
    own.initialize()
    theirs.initialize()
    x = np.random.normal(size=(4, 3, 5, 5))
    with autograd.record():
        mx.test_utils.assert_almost_equal(own(x), theirs(x), rtol=1e-4, atol=1e-5)


class Residual(nn.HybridBlock):
    """Two convolutions, and the input beside them."""

    def __init__(self, channels, use_1x1=False, strides=1, **kwargs):
        super().__init__(**kwargs)
        self.conv1 = nn.Conv2D(channels, kernel_size=3, padding=1, strides=strides)
        self.conv2 = nn.Conv2D(channels, kernel_size=3, padding=1)
        self.conv3 = nn.Conv2D(channels, kernel_size=1, strides=strides) if use_1x1 else None
        self.bn1, self.bn2 = nn.BatchNorm(), nn.BatchNorm()

    def forward(self, x):
        y = npx.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return npx.relu(y + (self.conv3(x) if self.conv3 else x))


@pytest.mark.parametrize("hybridize", [False, True])
def test_residual_network(hybridize):
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, kernel_size=3, padding=1), nn.BatchNorm(), nn.Activation("relu"))
    net.add(Residual(4), Residual(8, use_1x1=True, strides=2), nn.GlobalAvgPool2D(), nn.Dense(CLASSES))
    net.initialize(init.Xavier())
    if hybridize:
        net.hybridize()
    losses = trained(net, image_loader())
    assert losses[-1] < losses[0] * 0.8


def test_dense_and_inception_blocks():
    class DenseBlock(nn.Block):
        def __init__(self, count, channels, **kwargs):
            super().__init__(**kwargs)
            self.net = nn.Sequential()
            for _ in range(count):
                part = nn.Sequential()
                part.add(nn.BatchNorm(), nn.Activation("relu"), nn.Conv2D(channels, kernel_size=3, padding=1))
                self.net.add(part)

        def forward(self, x):
            for block in self.net:
                x = np.concatenate((x, block(x)), axis=1)
            return x

    class Inception(nn.Block):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.p1 = nn.Conv2D(2, kernel_size=1, activation="relu")
            self.p2 = nn.Conv2D(3, kernel_size=3, padding=1, activation="relu")
            self.p3 = nn.MaxPool2D(pool_size=3, strides=1, padding=1)

        def forward(self, x):
            return np.concatenate((self.p1(x), self.p2(x), self.p3(x)), axis=1)

    net = nn.Sequential()
    net.add(DenseBlock(2, 3), Inception())
    net.initialize()
    assert net(np.random.uniform(size=(2, 3, 8, 8))).shape == (2, 14, 8, 8)


# --- sequences -------------------------------------------------------------------------------------------------------

TEXT = "the time traveller for so it will be convenient to speak of him was expounding a recondite matter to us " * 4


class Text:
    """Characters as numbers, and batches of subsequences."""

    def __init__(self, text=TEXT):
        self.characters = sorted(set(text))
        self.numbers = {c: i for i, c in enumerate(self.characters)}
        self.corpus = [self.numbers[c] for c in text]

    def __len__(self):
        return len(self.characters)

    def batches(self, size, steps):
        rows = (len(self.corpus) - 1) // size * size
        xs = np.array(self.corpus[:rows], dtype="int32").reshape(size, -1)
        ys = np.array(self.corpus[1 : rows + 1], dtype="int32").reshape(size, -1)
        for i in range(0, xs.shape[1] // steps * steps, steps):
            yield xs[:, i : i + steps], ys[:, i : i + steps]


def clip(grads, theta):
    norm = math.sqrt(sum((g**2).sum() for g in grads).item())
    if norm > theta:
        for g in grads:
            g[:] *= theta / norm


GATES = {"rnn": 1, "gru": 3, "lstm": 4}


@pytest.mark.parametrize("kind", GATES)
def test_recurrent_networks_from_scratch(kind):
    text, size, hidden = Text(), 4, 16
    words = len(text)

    def normal(*shape):
        return np.random.normal(scale=0.1, size=shape)

    gates = [(normal(words, hidden), normal(hidden, hidden), np.zeros(hidden)) for _ in range(GATES[kind])]
    w_hq, b_q = 5 * normal(hidden, words), np.zeros(words)
    parameters = [p for gate in gates for p in gate] + [w_hq, b_q]
    for p in parameters:
        p.attach_grad()

    def gate(i, x, h):
        w_x, w_h, b = gates[i]
        return np.dot(x, w_x) + np.dot(h, w_h) + b

    def step(x, state):
        if kind == "rnn":
            return (np.tanh(gate(0, x, state[0])),)
        if kind == "gru":
            (h,) = state
            z, r = npx.sigmoid(gate(0, x, h)), npx.sigmoid(gate(1, x, h))
            candidate = np.tanh(gate(2, x, r * h))
            return (z * h + (1 - z) * candidate,)
        h, c = state
        i, f, o = (npx.sigmoid(gate(k, x, h)) for k in range(3))
        c = f * c + i * np.tanh(gate(3, x, h))
        return o * np.tanh(c), c

    loss_of, losses = gluon.loss.SoftmaxCrossEntropyLoss(), []
    for _ in range(10 if kind == "lstm" else 6):
        state = (np.zeros((size, hidden)),) * (2 if kind == "lstm" else 1)
        for x, y in text.batches(size, 8):
            state = tuple(s.detach() for s in state)
            with autograd.record():
                outputs = []
                for row in npx.one_hot(x.T, words):
                    state = step(row, state)
                    outputs.append(np.dot(state[0], w_hq) + b_q)
                loss = loss_of(np.concatenate(outputs, axis=0), y.T.reshape(-1)).mean()
            loss.backward()
            clip([p.grad for p in parameters], 1)
            sgd(parameters, 2, 1)
            losses.append(float(loss))
    assert onp.mean(losses[-5:]) < onp.mean(losses[:5]) - 0.2


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("layer", [rnn.RNN, rnn.GRU, rnn.LSTM])
def test_recurrent_networks_concisely(layer, hybridize):
    class Model(nn.HybridBlock):
        def __init__(self, words, **kwargs):
            super().__init__(**kwargs)
            self.rnn, self.words = layer(16), words
            self.dense = nn.Dense(words)

        def forward(self, inputs, state):
            x = npx.one_hot(inputs.T, self.words)
            y, state = self.rnn(x, state)
            return self.dense(y.reshape(-1, y.shape[-1])), state

        def begin_state(self, *args, **kwargs):
            return self.rnn.begin_state(*args, **kwargs)

    text = Text()
    model = Model(len(text))
    model.initialize(init.Normal(0.1))
    if hybridize:
        model.hybridize()
    trainer = gluon.Trainer(model.collect_params(), "adam", {"learning_rate": 0.02})
    loss_of, losses = gluon.loss.SoftmaxCrossEntropyLoss(), []
    for _ in range(3):
        state = model.begin_state(batch_size=4, ctx=mx.cpu())
        assert all(type(s) is np.ndarray for s in state)
        for x, y in text.batches(4, 8):
            state = [s.detach() for s in state]
            with autograd.record():
                y_hat, state = model(x, state)
                loss = loss_of(y_hat, y.T.reshape(-1)).mean()
            loss.backward()
            gluon.utils.clip_global_norm([p.grad() for p in model.collect_params().values()], 1.0)
            trainer.step(1)
            losses.append(float(loss))
    assert onp.mean(losses[-5:]) < onp.mean(losses[:5]) - 0.2


# --- attention -------------------------------------------------------------------------------------------------------


def masked_softmax(scores, lengths):
    """Softmax over the keys before the end of each row."""
    if lengths is None:
        return npx.softmax(scores)
    shape = scores.shape
    lengths = lengths.repeat(shape[1]) if lengths.ndim == 1 else lengths.reshape(-1)
    flat = npx.sequence_mask(scores.reshape(-1, shape[-1]), lengths, True, value=-1e6, axis=1)
    return npx.softmax(flat).reshape(shape)


def test_masked_softmax():
    weights = masked_softmax(np.random.uniform(size=(2, 2, 4)), np.array([2, 3]))
    assert (weights[0, :, 2:] == 0).all()
    assert (weights[1, :, 3:] == 0).all()
    onp.testing.assert_allclose(weights.sum(-1).asnumpy(), onp.ones((2, 2)), rtol=1e-6)
    weights = masked_softmax(np.random.uniform(size=(2, 2, 4)), np.array([[1, 3], [2, 4]]))
    assert (weights[0, 0, 1:] == 0).all()


class DotProductAttention(nn.Block):
    """Values by the products of queries and keys."""

    def __init__(self, dropout, **kwargs):
        super().__init__(**kwargs)
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries, keys, values, lengths=None):
        scores = npx.batch_dot(queries, keys, transpose_b=True) / math.sqrt(queries.shape[-1])
        self.weights = masked_softmax(scores, lengths)
        return npx.batch_dot(self.dropout(self.weights), values)


class AdditiveAttention(nn.Block):
    """Values by a small network of queries and keys."""

    def __init__(self, hidden, dropout, **kwargs):
        super().__init__(**kwargs)
        self.w_k = nn.Dense(hidden, use_bias=False, flatten=False)
        self.w_q = nn.Dense(hidden, use_bias=False, flatten=False)
        self.w_v = nn.Dense(1, use_bias=False, flatten=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries, keys, values, lengths):
        queries, keys = self.w_q(queries), self.w_k(keys)
        features = np.tanh(np.expand_dims(queries, axis=2) + np.expand_dims(keys, axis=1))
        scores = np.squeeze(self.w_v(features), axis=-1)
        return npx.batch_dot(self.dropout(masked_softmax(scores, lengths)), values)


def test_attention_pooling():
    queries, keys = np.random.normal(0, 1, (2, 1, 20)), np.ones((2, 10, 2))
    values = np.arange(40).reshape(1, 10, 4).repeat(2, axis=0)
    attention = AdditiveAttention(8, 0.1)
    attention.initialize()
    found = attention(queries, keys, values, np.array([2, 6]))
    onp.testing.assert_allclose(found.asnumpy()[:, 0], [[2, 3, 4, 5], [10, 11, 12, 13]], rtol=1e-5)
    dot = DotProductAttention(0.5)
    dot.initialize()
    found = dot(np.random.normal(0, 1, (2, 1, 2)), keys, values, np.array([2, 6]))
    onp.testing.assert_allclose(found.asnumpy()[:, 0], [[2, 3, 4, 5], [10, 11, 12, 13]], rtol=1e-5)


class MultiHeadAttention(nn.Block):
    """Several dot products beside each other."""

    def __init__(self, hidden, heads, dropout, **kwargs):
        super().__init__(**kwargs)
        self.heads = heads
        self.attention = DotProductAttention(dropout)
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Dense(hidden, use_bias=False, flatten=False) for _ in range(4))

    def forward(self, queries, keys, values, lengths=None):
        queries, keys, values = (
            self._split(w(x)) for w, x in ((self.w_q, queries), (self.w_k, keys), (self.w_v, values))
        )
        if lengths is not None:
            lengths = lengths.repeat(self.heads, axis=0)
        return self.w_o(self._joined(self.attention(queries, keys, values, lengths)))

    def _split(self, x):
        x = x.reshape(x.shape[0], x.shape[1], self.heads, -1).transpose(0, 2, 1, 3)
        return x.reshape(-1, x.shape[2], x.shape[3])

    def _joined(self, x):
        x = x.reshape(-1, self.heads, x.shape[1], x.shape[2]).transpose(0, 2, 1, 3)
        return x.reshape(x.shape[0], x.shape[1], -1)


class PositionalEncoding(nn.Block):
    """Sines of the positions, added."""

    def __init__(self, hidden, longest=50, **kwargs):
        super().__init__(**kwargs)
        self.P = np.zeros((1, longest, hidden))
        x = np.arange(longest).reshape(-1, 1) / np.power(10000, np.arange(0, hidden, 2) / hidden)
        self.P[:, :, 0::2] = np.sin(x)
        self.P[:, :, 1::2] = np.cos(x)

    def forward(self, x):
        return x + self.P[:, : x.shape[1], :].as_in_ctx(x.ctx)


class TransformerBlock(nn.Block):
    """Attention and two dense layers, with normalized sums around them."""

    def __init__(self, hidden, heads, **kwargs):
        super().__init__(**kwargs)
        self.attention = MultiHeadAttention(hidden, heads, 0.0)
        self.norm1, self.norm2 = nn.LayerNorm(), nn.LayerNorm()
        self.dense1 = nn.Dense(2 * hidden, flatten=False, activation="relu")
        self.dense2 = nn.Dense(hidden, flatten=False)

    def forward(self, x, lengths):
        y = self.norm1(x + self.attention(x, x, x, lengths))
        return self.norm2(y + self.dense2(self.dense1(y)))


def test_multi_head_attention():
    layer = MultiHeadAttention(10, 5, 0.5)
    layer.initialize()
    x = np.ones((2, 4, 10))
    assert layer(x, x, x, np.array([2, 3])).shape == (2, 4, 10)


def test_transformer_finds_the_greatest():
    """The class of a sequence is its greatest token before its end."""

    class Model(nn.Block):
        def __init__(self, words, hidden, **kwargs):
            super().__init__(**kwargs)
            self.hidden = hidden
            self.embedding, self.position = nn.Embedding(words, hidden), PositionalEncoding(hidden)
            self.blocks = nn.Sequential()
            self.blocks.add(TransformerBlock(hidden, 2))
            self.dense = nn.Dense(words)

        def forward(self, x, lengths):
            x = self.position(self.embedding(x) * math.sqrt(self.hidden))
            for block in self.blocks:
                x = block(x, lengths)
            return self.dense(x.max(axis=1))

    x = onp.random.randint(0, 8, (64, 6)).astype("int32")
    y = x.max(1)
    model = Model(8, 16)
    model.initialize(init.Xavier())
    trainer = gluon.Trainer(model.collect_params(), "adam", {"learning_rate": 0.02})
    loss_of, losses = gluon.loss.SoftmaxCrossEntropyLoss(), []
    for _ in range(25):
        with autograd.record():
            loss = loss_of(model(np.array(x), np.full((64,), 6)), np.array(y))
        loss.backward()
        trainer.step(64)
        losses.append(float(loss.mean()))
    assert losses[-1] < losses[0] / 2


class MaskedCrossEntropy(gluon.loss.SoftmaxCELoss):
    """The loss of the steps before the end of each row."""

    def forward(self, pred, label, lengths):
        weights = np.expand_dims(np.ones_like(label), axis=-1)
        weights = npx.sequence_mask(weights, lengths, True, axis=1)
        return super().forward(pred, label, weights)


def test_masked_cross_entropy():
    loss = MaskedCrossEntropy()(np.ones((3, 4, 10)), np.ones((3, 4)), np.array([4, 2, 0]))
    onp.testing.assert_allclose(loss.asnumpy(), [math.log(10), math.log(10) / 2, 0], rtol=1e-5)


@pytest.mark.parametrize("attention", [False, True])
def test_sequence_to_sequence(attention):
    """Sequences are reversed, by an encoder and a decoder of GRUs."""

    class Encoder(nn.Block):
        def __init__(self, words, hidden, **kwargs):
            super().__init__(**kwargs)
            self.embedding, self.rnn = nn.Embedding(words, hidden), rnn.GRU(hidden)

        def forward(self, x):
            x = self.embedding(x).swapaxes(0, 1)
            return self.rnn(x, self.rnn.begin_state(batch_size=x.shape[1], ctx=x.ctx))

    class Decoder(nn.Block):
        def __init__(self, words, hidden, **kwargs):
            super().__init__(**kwargs)
            self.attention = AdditiveAttention(hidden, 0.0) if attention else None
            self.embedding, self.rnn = nn.Embedding(words, hidden), rnn.GRU(hidden)
            self.dense = nn.Dense(words, flatten=False)

        def forward(self, x, encoded, state, lengths):
            outputs = []
            if self.attention is None:
                x = self.embedding(x).swapaxes(0, 1)
                context = np.broadcast_to(state[0][-1], (x.shape[0], x.shape[1], state[0].shape[2]))
                y, state = self.rnn(np.concatenate((x, context), 2), state)
                return self.dense(y).swapaxes(0, 1), state
            encoded = encoded.swapaxes(0, 1)
            for step in self.embedding(x).swapaxes(0, 1):
                query = np.expand_dims(state[0][-1], axis=1)
                context = self.attention(query, encoded, encoded, lengths)
                step = np.concatenate((context, np.expand_dims(step, axis=1)), axis=-1)
                y, state = self.rnn(step.swapaxes(0, 1), state)
                outputs.append(y)
            return self.dense(np.concatenate(outputs, axis=0)).swapaxes(0, 1), state

    words, start = 7, 6
    x = onp.random.randint(0, 6, (32, 4)).astype("int32")
    y = x[:, ::-1].copy()
    lengths = np.full((32,), 4)
    encoder, decoder = Encoder(words, 16), Decoder(words, 16)
    for part in (encoder, decoder):
        part.initialize(init.Xavier(), force_reinit=True)
    trainers = [gluon.Trainer(part.collect_params(), "adam", {"learning_rate": 0.02}) for part in (encoder, decoder)]
    loss_of, losses = MaskedCrossEntropy(), []
    for _ in range(15):
        source, target = np.array(x), np.array(y)
        begin = np.full((32, 1), start, dtype="int32")
        teacher = np.concatenate([begin, target[:, :-1]], 1)
        with autograd.record():
            encoded, state = encoder(source)
            y_hat, _ = decoder(teacher, encoded, state, lengths)
            loss = loss_of(y_hat, target, lengths)
        loss.backward()
        for trainer in trainers:
            trainer.step(32)
        losses.append(float(loss.mean()))
    assert losses[-1] < losses[0] * 0.8


# --- optimizers ------------------------------------------------------------------------------------------------------


def by_momentum(p, s, t):
    s[0][:] = 0.9 * s[0] + p.grad
    p[:] -= 0.02 * s[0]


def by_adagrad(p, s, t):
    s[0][:] += np.square(p.grad)
    p[:] -= 0.2 * p.grad / np.sqrt(s[0] + 1e-6)


def by_rmsprop(p, s, t):
    s[0][:] = 0.9 * s[0] + 0.1 * np.square(p.grad)
    p[:] -= 0.03 * p.grad / np.sqrt(s[0] + 1e-6)


def by_adadelta(p, s, t):
    s[0][:] = 0.9 * s[0] + 0.1 * np.square(p.grad)
    g = (np.sqrt(s[1] + 1e-3) / np.sqrt(s[0] + 1e-3)) * p.grad
    p[:] -= g
    s[1][:] = 0.9 * s[1] + 0.1 * g * g


def by_adam(p, s, t):
    s[0][:] = 0.9 * s[0] + 0.1 * p.grad
    s[1][:] = 0.999 * s[1] + 0.001 * np.square(p.grad)
    p[:] -= 0.05 * (s[0] / (1 - 0.9**t)) / (np.sqrt(s[1] / (1 - 0.999**t)) + 1e-6)


def by_descent(p, s, t):
    p[:] -= 0.1 * p.grad


@pytest.mark.parametrize("update", [by_descent, by_momentum, by_adagrad, by_rmsprop, by_adadelta, by_adam])
def test_optimizers_from_scratch(update):
    x, y = linear_data(np.array([2, -3.4, 1.0]), 0.5, 160)
    w, b = np.random.normal(scale=0.01, size=(3, 1)), np.zeros(1)
    for p in (w, b):
        p.attach_grad()
    states = {id(p): (np.zeros_like(p), np.zeros_like(p)) for p in (w, b)}
    losses, t = [], 0
    for _ in range(3):
        for some_x, some_y in minibatches(16, x, y):
            t += 1
            with autograd.record():
                loss = ((np.dot(some_x, w) + b - some_y) ** 2 / 2).mean()
            loss.backward()
            for p in (w, b):
                update(p, states[id(p)], t)
            losses.append(float(loss))
    assert losses[-1] < losses[0] / 2


# --- words, boxes, images ----------------------------------------------------------------------------------------


def test_skip_gram():
    """Words that follow each other have near vectors."""
    words, pairs = 10, [(i, (i + 1) % 10) for i in range(10)] * 4
    centers = np.array([[c] for c, _ in pairs], dtype="int32")
    noise = onp.random.randint(0, words, (len(pairs), 3))
    contexts = np.array([[o, *n] for (_, o), n in zip(pairs, noise, strict=True)], dtype="int32")
    labels = np.array([[1, 0, 0, 0]] * len(pairs))
    mask = np.array([[1, 1, 1, i % 2] for i in range(len(pairs))])
    net = nn.Sequential()
    net.add(nn.Embedding(words, 8), nn.Embedding(words, 8))
    net.initialize()
    loss_of, losses = gluon.loss.SigmoidBCELoss(), []
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05})
    for _ in range(20):
        with autograd.record():
            v, u = net[0](centers), net[1](contexts)
            pred = npx.batch_dot(v, u.swapaxes(1, 2))
            loss = loss_of(pred.reshape(labels.shape), labels, mask) / mask.sum(axis=1) * mask.shape[1]
        loss.backward()
        trainer.step(len(pairs))
        losses.append(float(loss.mean()))
    assert losses[-1] < losses[0] * 0.8
    w = net[0].weight.data()
    cosines = np.dot(w, w[3]) / np.sqrt(np.sum(w * w, axis=1) * np.sum(w[3] * w[3]) + 1e-9)
    assert npx.topk(cosines, k=2, ret_typ="indices").asnumpy().astype("int32")[0] == 3


@pytest.mark.long
def test_single_shot_detection():
    class TinySSD(nn.Block):
        def __init__(self, classes, sizes, ratios, **kwargs):
            super().__init__(**kwargs)
            self.classes, self.sizes, self.ratios = classes, sizes, ratios
            anchors = len(sizes[0]) + len(ratios) - 1
            self.blocks, self.of_class, self.of_box = nn.Sequential(), nn.Sequential(), nn.Sequential()
            for channels in (8, 16):
                block = nn.Sequential()
                block.add(nn.Conv2D(channels, kernel_size=3, padding=1), nn.BatchNorm(), nn.Activation("relu"))
                block.add(nn.MaxPool2D(2))
                self.blocks.add(block)
                self.of_class.add(nn.Conv2D(anchors * (classes + 1), kernel_size=3, padding=1))
                self.of_box.add(nn.Conv2D(anchors * 4, kernel_size=3, padding=1))

        def forward(self, x):
            anchors, scores, boxes = [], [], []
            for block, sizes, of_class, of_box in zip(self.blocks, self.sizes, self.of_class, self.of_box, strict=True):
                x = block(x)
                anchors.append(npx.multibox_prior(x, sizes=sizes, ratios=self.ratios))
                scores.append(npx.batch_flatten(of_class(x).transpose(0, 2, 3, 1)))
                boxes.append(npx.batch_flatten(of_box(x).transpose(0, 2, 3, 1)))
            scores = np.concatenate(scores, axis=1)
            scores = scores.reshape(scores.shape[0], -1, self.classes + 1)
            return np.concatenate(anchors, axis=1), scores, np.concatenate(boxes, axis=1)

    net = TinySSD(1, [[0.2, 0.4], [0.5, 0.7]], [1, 2, 0.5])
    net.initialize(init=init.Xavier())
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.2, "wd": 5e-4})
    x = onp.random.uniform(0, 0.3, (8, 3, 32, 32)).astype("float32")
    x[:, :, 8:20, 8:20] += 0.7
    x, y = np.array(x), np.array([[[0, 0.25, 0.25, 0.62, 0.62]]] * 8)
    of_class, of_box = gluon.loss.SoftmaxCrossEntropyLoss(), gluon.loss.L1Loss()
    losses = []
    for _ in range(12):
        with autograd.record():
            anchors, scores, boxes = net(x)
            targets, masks, labels = npx.multibox_target(anchors, y, scores.transpose(0, 2, 1))
            loss = of_class(scores, labels) + of_box(boxes * masks, targets * masks)
        loss.backward()
        trainer.step(8)
        losses.append(float(loss.mean()))
    assert losses[-1] < losses[0] / 2
    anchors, scores, boxes = net(x)
    found = npx.multibox_detection(npx.softmax(scores).transpose(0, 2, 1), boxes, anchors)
    rows = [i for i, row in enumerate(found[0]) if row[0].item() != -1]
    assert rows
    assert type(found) is np.ndarray


def test_fine_tuning(tmp_path):
    pretrained = gluon.model_zoo.vision.mobilenet0_25(classes=10)
    pretrained.initialize(init.Xavier())
    pretrained(np.ones((1, 3, 32, 32)))
    pretrained.save_parameters(str(tmp_path / "features"))
    source = gluon.model_zoo.vision.mobilenet0_25(classes=10)
    source.load_parameters(str(tmp_path / "features"))
    net = gluon.model_zoo.vision.mobilenet0_25(classes=2)
    net.features = source.features
    net.output.initialize(init.Xavier())
    net.output.collect_params().setattr("lr_mult", 10)
    x, labels = images(8, side=32, classes=2)
    x = np.array(x.repeat(3, axis=1))
    before = net.features(x).asnumpy()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.001, "wd": 0.001})
    with autograd.record():
        loss = gluon.loss.SoftmaxCrossEntropyLoss()(net(x), np.array(labels))
    loss.backward()
    trainer.step(8)
    assert net(x).shape == (8, 2)
    assert (net.features(x).asnumpy() != before).any()


def test_adversarial_networks():
    a, b = np.array([[1, 2], [-0.1, 0.5]]), np.array([1, 2])
    real = np.dot(np.random.normal(0.0, 1, (256, 2)), a) + b
    generator, discriminator = nn.Sequential(), nn.Sequential()
    generator.add(nn.Dense(2))
    discriminator.add(nn.Dense(5, activation="tanh"), nn.Dense(3, activation="tanh"), nn.Dense(1))
    for net in (generator, discriminator):
        net.initialize(init.Normal(0.02), force_reinit=True)
    loss_of = gluon.loss.SigmoidBCELoss()
    of_d = gluon.Trainer(discriminator.collect_params(), "adam", {"learning_rate": 0.05})
    of_g = gluon.Trainer(generator.collect_params(), "adam", {"learning_rate": 0.02})
    distances = []
    for _ in range(12):
        for (x,) in minibatches(32, real):
            z = np.random.normal(0, 1, size=(x.shape[0], 2))
            ones, zeros = np.ones((x.shape[0],)), np.zeros((x.shape[0],))
            with autograd.record():
                fake = generator(z)
                loss = (loss_of(discriminator(x), ones) + loss_of(discriminator(fake.detach()), zeros)) / 2
            loss.backward()
            of_d.step(x.shape[0])
            with autograd.record():
                loss = loss_of(discriminator(generator(z)), ones)
            loss.backward()
            of_g.step(x.shape[0])
        fake = generator(np.random.normal(0, 1, (256, 2)))
        distances.append(float(np.abs(fake.mean(axis=0) - real.mean(axis=0)).sum()))
    assert distances[-1] < distances[0]


def test_matrix_factorization():
    users, items = 12, 9
    ranks = onp.outer(onp.random.uniform(1, 2, users), onp.random.uniform(1, 2, items)).astype("float32")

    class Factors(nn.Block):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.p, self.q = nn.Embedding(users, 4), nn.Embedding(items, 4)
            self.of_user, self.of_item = nn.Embedding(users, 1), nn.Embedding(items, 1)

        def forward(self, user, item):
            y = (self.p(user) * self.q(item)).sum(axis=1)
            return y + np.squeeze(self.of_user(user)) + np.squeeze(self.of_item(item))

    net = Factors()
    net.initialize(init.Normal(0.1))
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05})
    rows, columns = onp.divmod(onp.arange(users * items), items)
    losses = []
    for _ in range(30):
        with autograd.record():
            y_hat = net(np.array(rows), np.array(columns))
            loss = gluon.loss.L2Loss()(y_hat, np.array(ranks.ravel()))
        loss.backward()
        trainer.step(loss.size)
        losses.append(float(loss.mean()))
    assert losses[-1] < losses[0] / 4


# --- the start -------------------------------------------------------------------------------------------------------


def test_arrays_of_the_first_chapters():
    x = np.arange(12)
    assert x.shape == (12,)
    assert x.size == 12
    x = x.reshape(3, 4)
    y = np.array([[2, 1, 4, 3], [1, 2, 3, 4], [4, 3, 2, 1]])
    assert np.concatenate([x, y], axis=0).shape == (6, 4)
    assert (x == y).sum() == 2
    before = id(y)
    y[:] = x + y
    assert id(y) == before
    x += y
    x[0:2, :] = 12
    assert x[1, 3].item() == float(x[1, 3]) == int(x[1, 3]) == 12
    assert type(x.asnumpy()) is onp.ndarray
    a = np.arange(20).reshape(5, 4)
    assert (a == a.T.T).all()
    assert a.sum(axis=[0, 1]) == a.sum()
    assert np.linalg.norm(np.array([3, -4])) == 5
    assert np.dot(a, np.ones(4)).shape == (5,)
    x = np.arange(4)
    x.attach_grad()
    with autograd.record():
        y = x * x
        u = y.detach()
        z = u * x
    z.backward()
    assert (x.grad == u).all()
    fair = np.ones(6) / 6
    counts = np.random.multinomial(10, fair, size=500)
    estimates = counts.cumsum(axis=0) / counts.cumsum(axis=0).sum(axis=1, keepdims=True)
    assert float(np.abs(estimates[-1] - 1 / 6).max()) < 0.05
    assert collections.Counter(onp.sign(counts.asnumpy().sum(1))) == {1: 500}


def test_gradient_of_control_flow():
    def f(a):
        b = a * 2
        while np.linalg.norm(b) < 1000:
            b = b * 2
        return b if b.sum() > 0 else 100 * b

    a = np.random.normal()
    a.attach_grad()
    with autograd.record():
        d = f(a)
    d.backward()
    assert a.grad == d / a
