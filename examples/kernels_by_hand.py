"""An operator with kernels written by hand: rows divided by their root mean square.

On a CPU its native loops run amid the kernels that are generated, on a GPU, or by Triton's interpreter, its Triton
function; the target ``numpy`` calls its definition in NumPy::

    HYBRIDC_TARGET=triton HYBRIDC_GPU=interpreter python examples/kernels_by_hand.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import hybridc as mx

if TYPE_CHECKING:  # kernels see triton and tl anyway; without a GPU nobody needs them
    import triton.language as tl

# %% [markdown]
# ## The kernel for GPUs
#
# It is a function of Triton, which reads a row once.


# %%
def rms_kernel(x_ptr, y_ptr, columns, eps_millionths, BLOCK: tl.constexpr):
    """One program for each row, which it reads once."""
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + j, mask=j < columns, other=0.0)
    mean = tl.sum(x * x, axis=0) / columns
    tl.store(y_ptr + row * columns + j, x * tl.rsqrt(mean + eps_millionths * 1e-6), mask=j < columns)


# %% [markdown]
# ## The operator
#
# `kernel` names the kernel of each target, `eager` is the definition in NumPy, and `samples` are test cases.


# %%
@mx.op.register("examples.rms_norm")
class RMSNorm(mx.op.Opaque):
    """x / sqrt(mean(x**2, axis=-1) + 1e-6)"""

    gradient = mx.op.no_gradient

    def infer_shape(self, shapes):
        return shapes, shapes

    def eager(self, x):
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6)

    def kernel(self, target, inputs, outputs):
        (x,) = inputs
        columns = x.shape[-1]
        rows = x.size // columns
        if target == "triton":
            block = 1 << (columns - 1).bit_length()
            return mx.op.TritonKernel(rms_kernel, (rows,), (columns, 1), {"BLOCK": block})
        if target == "llvm":
            return mx.op.LoopKernel(rms_loops, rows, (columns,), flat=True)
        return None

    @classmethod
    def samples(cls):
        return [mx.op.Sample([(6, 100)], lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6), grad=False)]


# %% [markdown]
# ## The loops for CPUs
#
# `b` writes native code: a loop, loads and stores, and arithmetic on what they load.


# %%
def rms_loops(b, low, high, x, y, columns):
    """Native loops over a range of rows."""

    def row(i):
        first = i * columns

        def add_square(j, total):
            return total + b.square(x[first + j])

        mean = b.loop(0, columns, add_square, b.constant(0, x.dtype)) / b.cast(columns, x.dtype)
        scale = 1 / b.sqrt(mean + 1e-6)

        def scaled(j):
            at = first + j
            y[at] = x[at] * scale

        b.loop(0, columns, scaled)

    b.loop(low, high, row)


# %% [markdown]
# ## The operator in a network


# %%
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
