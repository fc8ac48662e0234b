"""The kernels that ``torch.compile`` calls of a counted network, and what it saves for the backward."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch._inductor import config  # pyright: ignore[reportMissingImports]
from torch._inductor.utils import run_and_get_code  # pyright: ignore[reportMissingImports]
from torch.nn import functional as F  # pyright: ignore[reportMissingImports]

from benchmarks.counted_networks import COUNTED, EPSILON, HEAD
from benchmarks.peers.peer import Counts, Task

# A call of a kernel in the code of Inductor's wrapper: its own functions, libraries, operators that it has no code of.
CALL = re.compile(r"^\s*(?:\w+ = )?(cpp_fused\w*|extern_kernels\.\w+|torch\.ops\.[\w.]+|aten\.[\w.]+)\(", re.MULTILINE)
TOLERANCE = 1e-4  # of the norm of each result of compiled code, beside the eager one in float64


class CountedBuilder:
    """Functions of PyTorch."""

    def __init__(self, training: bool) -> None:
        self.relu, self.sigmoid, self.tanh, self.exp, self.log = (
            torch.relu,
            torch.sigmoid,
            torch.tanh,
            torch.exp,
            torch.log,
        )
        self.sqrt, self.square, self.abs, self.matmul = torch.sqrt, torch.square, torch.abs, torch.matmul
        self.add, self.mul, self.div = torch.add, torch.mul, torch.div
        self.concat, self.stack = torch.cat, torch.stack
        self.linear, self.gelu = F.linear, F.gelu
        self.training = training

    def row(self, x: Any, t: int) -> Any:
        return x[t]

    def rows(self, x: Any) -> Any:
        return x.unbind(0)

    def parts(self, x: Any, count: int, axis: int) -> Any:
        return x.chunk(count, axis)

    def slice(self, x: Any, axis: int, begin: int, end: int) -> Any:
        return x.narrow(axis, begin, end - begin)

    def reshape(self, x: Any, *shape: int) -> Any:
        return x.reshape(shape)

    def transpose(self, x: Any, *axes: int) -> Any:
        return x.permute(axes)

    def sum(self, x: Any, axis: int, keep: bool = True) -> Any:
        return x.sum(axis, keepdim=keep)

    def mean(self, x: Any, axis: int) -> Any:
        return x.mean(axis, keepdim=True)

    def softmax(self, x: Any) -> Any:
        return torch.softmax(x, -1)

    def log_softmax(self, x: Any) -> Any:
        return torch.log_softmax(x, -1)

    def argmax(self, x: Any) -> Any:
        return x.argmax(-1)

    def one_hot(self, x: Any, count: int) -> Any:
        return (x[:, None] == torch.arange(count)).to(torch.float32)

    def pick(self, x: Any, labels: Any) -> Any:
        return x.gather(1, labels[:, None]).squeeze(1)

    def embedding(self, x: Any, table: Any) -> Any:
        return F.embedding(x, table)

    def layer_norm(self, x: Any, g: Any, h: Any) -> Any:
        return F.layer_norm(x, x.shape[-1:], g, h, EPSILON)

    def group_norm(self, x: Any, g: Any, h: Any, groups: int) -> Any:
        return F.group_norm(x, groups, g, h, EPSILON)

    def instance_norm(self, x: Any, g: Any, h: Any) -> Any:
        return F.instance_norm(x, weight=g, bias=h, eps=EPSILON)

    def batch_norm(self, x: Any, g: Any, h: Any, mean: Any, variance: Any) -> Any:
        return F.batch_norm(x, mean, variance, g, h, training=self.training, eps=EPSILON)


class FusedNodes:
    """Counts what Inductor's scheduler makes a kernel of each, before it puts several into a function."""

    def __init__(self) -> None:
        self.found: list[int] = []

    def __call__(self, nodes: Sequence[Any]) -> Sequence[Any]:
        names = [type(n).__name__ for n in nodes]
        alone = [type(n.node).__name__ for n in nodes]
        self.found.append(sum("Nop" not in a and b != "MultiOutput" for a, b in zip(names, alone, strict=True)))
        return nodes

    def uuid(self) -> None:
        """The graph is not to be cached."""


def calls(code: str) -> int:
    """Kernel calls in the code of one graph."""
    body = code[code.index("def call(") :]
    return len(CALL.findall(body[: body.index("return (")]))


def counted(task: Task) -> Counts:
    """The counts; the outputs are eager ones in float64, which those of the compiled code are compared with."""
    network = COUNTED[task.name]
    names = network.differentiated(task.arrays)
    head = torch.from_numpy(task.arrays[HEAD])

    def tensors(wide: bool = False) -> dict[str, Any]:
        made = {name: torch.from_numpy(x.copy()) for name, x in task.arrays.items() if name != HEAD}
        if wide:
            made = {name: x.double() if x.is_floating_point() else x for name, x in made.items()}
        return {name: x.requires_grad_(name in names) for name, x in made.items()}

    def function(training: bool) -> Callable[[Any], Any]:
        return lambda arrays: network.function(CountedBuilder(training), arrays)

    def results(y: Any, arrays: dict[str, Any]) -> dict[str, Any]:
        return {"result": y.detach().numpy(), **{name: arrays[name].grad.numpy() for name in names}}

    arrays = tensors(wide=True)
    y = function(True)(arrays)
    y.backward(head.double())
    wanted = results(y, arrays)

    torch.compiler.reset()
    nodes = FusedNodes()
    arrays = tensors()
    saved: list[Any] = []

    def step() -> Any:
        y = torch.compile(function(True), dynamic=False)(arrays)
        saved.extend(y.grad_fn.saved_tensors)
        y.backward(head)
        return y

    def predict() -> Any:
        with torch.no_grad():
            return torch.compile(function(False), dynamic=False)(arrays)

    with config.patch(force_disable_caches=True, _post_fusion_custom_pass=nodes):
        y, codes = run_and_get_code(step)
        _, more = run_and_get_code(predict)
    for name, found in results(y, arrays).items():
        error = abs(found - wanted[name]).max() / max(abs(wanted[name]).max(), 1e-30)
        if error > TOLERANCE:
            raise RuntimeError(f"{name} of compiled code is off by {error:.1e}")
    own = {x.untyped_storage().data_ptr() for x in (*arrays.values(), y)}
    storages = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in saved}
    kept = sum(size for place, size in storages.items() if place not in own)
    forward, backward, inference = map(calls, (*codes, *more))
    return Counts(forward, backward, inference, kept, wanted, otherwise="+".join(map(str, nodes.found[:2])))
