"""A loss as a custom operator: softmax whose backward needs the labels and no gradient from above.

It trains a small network on three noisy spirals. Run it with ``python examples/custom_softmax.py``.
"""

import numpy as np

import hybridc as mx
from hybridc import autograd, gluon, nd
from hybridc.gluon import nn

# %% [markdown]
# ## The operator
#
# A loss starts the backward, so it needs no gradient from above: `need_top_grad=False`.


# %%
class Softmax(mx.operator.CustomOp):
    """Probabilities on the way forward; on the way back their difference from the labels (cross entropy)."""

    def forward(self, is_train, req, in_data, out_data, aux):
        x = in_data[0].asnumpy()
        y = np.exp(x - x.max(axis=1, keepdims=True))
        self.assign(out_data[0], req[0], nd.array(y / y.sum(axis=1, keepdims=True)))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        label = in_data[1].asnumpy().ravel().astype(int)
        y = out_data[0].asnumpy()
        y[np.arange(len(label)), label] -= 1.0
        self.assign(in_grad[0], req[0], nd.array(y))


@mx.operator.register("softmax")
class SoftmaxProp(mx.operator.CustomOpProp):
    """Inputs ``data`` (batch, classes) and ``label`` (batch,); the output has the shape of the data."""

    def __init__(self):
        super().__init__(need_top_grad=False)  # a loss starts the backward: nothing comes from above

    def list_arguments(self):
        return ["data", "label"]

    def infer_shape(self, in_shape):
        data = in_shape[0]
        return [data, (data[0],)], [data], []

    def infer_type(self, in_type):
        return [in_type[0], in_type[0]], [in_type[0]], []

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Softmax()


if __name__ == "__main__":
    logits = nd.array([[1, 2, 3], [3, 1, 0]])
    logits.attach_grad()
    with autograd.record():
        y = nd.Custom(data=logits, label=nd.array([2, 1]), op_type="softmax")
    y.backward()
    print("probabilities", y.asnumpy(), "gradient", logits.grad.asnumpy(), sep="\n")

# %% [markdown]
# ## Data and a network


# %%
def spirals(points, random):
    """Three interleaved arms: points of shape (3·points, 2) and their arm's number."""
    t = np.linspace(0.1, 1, points)
    xs, labels = [], []
    for arm in range(3):
        angle = 4 * t + 2 * np.pi * arm / 3 + random.normal(0, 0.1, points)
        xs.append(np.stack([t * np.cos(angle), t * np.sin(angle)], axis=1))
        labels.append(np.full(points, arm))
    return np.concatenate(xs).astype("float32"), np.concatenate(labels).astype("float32")


class Classifier(gluon.HybridBlock):
    """A network with the custom softmax at its end, all of it hybridizable."""

    def __init__(self, classes, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.body = nn.HybridSequential()
            with self.body.name_scope():
                self.body.add(nn.Dense(64, activation="relu"), nn.Dense(64, activation="relu"), nn.Dense(classes))

    def hybrid_forward(self, F, x, label):
        return F.Custom(self.body(x), label, name="softmax", op_type="softmax")


# %% [markdown]
# ## Training
#
# The gradients of the loss are those that the operator's `backward` gives.

# %%
if __name__ == "__main__":
    mx.random.seed(7)
    xs, labels = spirals(200, np.random.default_rng(7))
    net = Classifier(3)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    loader = gluon.data.DataLoader(gluon.data.ArrayDataset(xs, labels), batch_size=100, shuffle=True)
    for epoch in range(40):
        right = 0
        for x, label in loader:
            with autograd.record():
                probabilities = net(x, label)
            probabilities.backward()
            trainer.step(x.shape[0])
            right += int((probabilities.argmax(axis=1) == label).sum().asscalar())
        if epoch % 8 == 7:
            print(f"epoch {epoch + 1}: accuracy {right / len(labels):.3f}")
    print("the compiled network calls back into Python where the custom operator is:")
    print("\n".join(line for line in net.explain().splitlines() if "host call" in line))
