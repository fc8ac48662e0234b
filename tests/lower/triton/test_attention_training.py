"""An encoder with masks and dropout trains on the GPU as on the CPU, and all that attention does is two kernels."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc.gluon import HybridBlock, TrainStep, nn
from hybridc.ir.attention import attention_of
from tests.lower.llvm.guarded import native_kernels

pytestmark = pytest.mark.triton


WIDTH, HEADS, LENGTH = 16, 2, 16


class Attention(HybridBlock):
    """Heads of self-attention, of which ``mask`` says, for each sequence, which places are there."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.query, self.key, self.value, self.out = (nn.Dense(WIDTH, flatten=False) for _ in range(4))
            self.dropout = nn.Dropout(0.1)

    def hybrid_forward(self, F, x, mask):
        def split(x):
            x = F.transpose(F.reshape(x, (0, 0, HEADS, -1)), axes=(0, 2, 1, 3))
            return F.reshape(x, (-1, 0, 0), reverse=True)

        q, k, v = (split(dense(x)) for dense in (self.query, self.key, self.value))
        scores = F.batch_dot(q * (WIDTH // HEADS) ** -0.5, k, transpose_b=True)
        hidden = F.reshape((1 - mask) * -1e4, (0, 1, 1, -1))
        scores = F.broadcast_add(F.reshape(scores, (-4, -1, HEADS, 0, 0)), hidden)
        weights = self.dropout(F.reshape(F.softmax(scores), (-3, 0, 0)))
        mixed = F.reshape(F.batch_dot(weights, v), (-1, HEADS, 0, 0), reverse=True)
        return self.out(F.reshape(F.transpose(mixed, axes=(0, 2, 1, 3)), (0, 0, -1)))


class Encoder(HybridBlock):
    """Two layers, and what a loss wants."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.attention, self.norm, self.wide, self.narrow = (nn.HybridSequential() for _ in range(4))
            for _ in range(2):
                self.attention.add(Attention())
                self.norm.add(nn.LayerNorm())
                self.wide.add(nn.Dense(24, flatten=False, activation="relu"))
                self.narrow.add(nn.Dense(WIDTH, flatten=False))
            self.head = nn.Dense(4, flatten=False)

    def hybrid_forward(self, F, x, mask):
        for attention, norm, wide, narrow in zip(self.attention, self.norm, self.wide, self.narrow, strict=True):
            x = norm(x + attention(x, mask))
            x = x + narrow(wide(x))
        return self.head(x)


def trained(ctx):
    """The losses of two steps, the weights after them, and the step."""
    rng = np.random.default_rng(5)
    x, labels = rng.normal(size=(2, LENGTH, WIDTH)), rng.integers(0, 4, (2, LENGTH))
    mask = np.arange(LENGTH) < np.array([LENGTH, 7])[:, None]
    mx.random.seed(3)
    net = Encoder()
    net.initialize(mx.init.Xavier(), ctx=ctx)
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    step = TrainStep(net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), trainer)
    x, mask, labels = (mx.nd.array(a, ctx=ctx, dtype="float32") for a in (x, mask, labels))
    losses = [step([x, mask], labels).asnumpy() for _ in range(2)]
    return [*losses, *(p.data().asnumpy() for p in net.collect_params().values())], step


@pytest.mark.long
def test_an_encoder_trains_as_on_the_cpu():
    (want, _), (got, step) = trained(mx.cpu()), trained(mx.gpu())
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-5 * max(1.0, np.abs(other).max()))
    assert np.abs(want[0] - want[1]).max() > 1e-2
    (traced,) = [t for _, found in step._block.compiled.compilations() for t in found]
    module = traced.optimize().form("triton").module
    kernels = native_kernels(module)
    names = [k.name for k in kernels if attention_of(k) is not None]
    assert len(names) == 2
    assert [str(module).count(f"call @{name}(") for name in names] == [2, 2]  # both layers share them
    # Each of the kernels reads one array of the size of scores, the dropout's random samples, and writes none.
    scores = 2 * HEADS * LENGTH * LENGTH
    fused = [k for k in kernels if k.name in names]
    assert [sum(v.size >= scores for v in k.arguments) for k in fused] == [1, 1]
    assert all(v.size < scores for k in fused for v in k.results)
