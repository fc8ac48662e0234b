"""Apache MXNet 1.9.1, hybridized: it runs the very networks of ``benchmarks/workloads.py``.

They are Gluon code, so MXNet takes the place of hybridc when that file is imported. Only the user's operator differs:
hybridc's is written once and compiled, MXNet's is a CustomOp.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import mxnet as mx  # noqa: TID251 - a peer, in an environment of its own  # pyright: ignore[reportMissingImports]
import numpy as np

from benchmarks.peers.peer import Peer, Program, Task

warnings.filterwarnings("ignore")  # of NumPy's deprecated names
sys.modules |= {"hybridc": mx, "hybridc.gluon": mx.gluon}


class UserSigmoid(mx.operator.CustomOp):
    """1 / (1 + exp(-x)), in NumPy."""

    def forward(self, is_train: Any, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        self.assign(out_data[0], req[0], mx.nd.array(1 / (1 + np.exp(-in_data[0].asnumpy()))))

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        y = out_data[0].asnumpy()
        self.assign(in_grad[0], req[0], mx.nd.array(out_grad[0].asnumpy() * y * (1 - y)))


@mx.operator.register("user_sigmoid")
class UserSigmoidProp(mx.operator.CustomOpProp):
    """What the graph knows of it: one input, one output of the same shape."""

    def infer_shape(self, in_shape: Any) -> Any:
        return in_shape, [in_shape[0]], []

    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> UserSigmoid:
        return UserSigmoid()


class MXNet(Peer):
    """Our networks, on MXNet."""

    def __init__(self) -> None:
        from benchmarks import workloads

        self.version = mx.__version__
        workloads.user_sigmoid = lambda F, x: F.Custom(x, op_type="user_sigmoid")

    def array(self, value: np.ndarray) -> Any:
        return mx.nd.array(value, dtype="float32")

    def program(self, task: Task) -> Program:
        arrays = {name: self.array(value) for name, value in task.arrays.items()}
        made = self.workload(task.name).network(arrays, True)
        for block in made.blocks:  # the fastest that MXNet offers
            block.hybridize(static_alloc=True, static_shape=True)
        mx.nd.waitall()

        def call(*data: Any) -> Any:
            result = made.call(*data)
            mx.nd.waitall()  # it computes in the background
            return result

        return Program(call, made.fetch)


def open_peer(mode: str, threads: int) -> Peer:
    return MXNet()
