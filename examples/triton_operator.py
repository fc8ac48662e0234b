"""An operator with a GPU kernel written by hand: rows divided by their root mean square.

Everywhere but on GPUs the host calls its definition in NumPy; on a GPU, or by Triton's interpreter, its own kernel runs
amid the kernels that are generated::

    HYBRIDC_TARGET=triton HYBRIDC_GPU=interpreter python examples/triton_operator.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import hybridc as mx

if TYPE_CHECKING:  # kernels see triton and tl anyway; without a GPU nobody needs them
    import triton.language as tl


def rms_kernel(x_ptr, y_ptr, columns, eps_millionths, BLOCK: tl.constexpr):
    """One program for each row, which it reads once."""
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + j, mask=j < columns, other=0.0)
    mean = tl.sum(x * x, axis=0) / columns
    tl.store(y_ptr + row * columns + j, x * tl.rsqrt(mean + eps_millionths * 1e-6), mask=j < columns)


@mx.op.register("examples.rms_norm")
class RMSNorm(mx.op.Opaque, mx.op.HasGPUKernel):
    """x / sqrt(mean(x**2, axis=-1) + 1e-6)"""

    def infer_shape(self, shapes):
        return shapes, shapes

    def eager(self, x):
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6)

    def gpu(self, inputs, outputs):
        (x,) = inputs
        columns = x.shape[-1]
        block = 1 << (columns - 1).bit_length()
        return mx.op.GPUKernel(rms_kernel, (x.size // columns,), (columns, 1), {"BLOCK": block})


class Net(mx.gluon.HybridBlock):
    """The operator between generated kernels."""

    def forward(self, x):
        return mx.nd.tanh(mx.nd.rms_norm(x * 2)) + 1


if __name__ == "__main__":
    net = Net()
    x = mx.nd.array(np.random.default_rng(0).normal(size=(6, 100)), dtype="float32")
    eager = net(x).asnumpy()
    net.hybridize()
    print("largest difference to eager:", np.abs(net(x).asnumpy() - eager).max())
    print(net.explain())
