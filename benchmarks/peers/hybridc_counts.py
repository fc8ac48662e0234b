"""The launches that hybridc makes of a counted network, and what it saves for the backward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import hybridc as mx
from benchmarks.counted_networks import COUNTED, EPSILON, HEAD, CountedNetwork
from benchmarks.peers.peer import Counts, Task
from benchmarks.workloads import WithParameters
from hybridc.compile.explanation.launch_groups import Naming, launches

if TYPE_CHECKING:
    from hybridc.compile.compiled_graph import CompiledGraph


class CountedBuilder:
    """Operators of ``F``."""

    def __init__(self, F: Any) -> None:
        self.F = F
        self.relu, self.sigmoid, self.tanh = F.relu, F.sigmoid, F.tanh
        self.exp, self.log, self.sqrt, self.square, self.abs = F.exp, F.log, F.sqrt, F.square, F.abs
        self.add, self.mul, self.div = F.broadcast_add, F.broadcast_mul, F.broadcast_div
        self.pick = F.pick

    def linear(self, x: Any, w: Any, b: Any) -> Any:
        return self.F.FullyConnected(x, w, b, num_hidden=w.shape[0], flatten=False)

    def matmul(self, x: Any, y: Any) -> Any:
        return self.F.batch_dot(x, y) if len(x.shape) == 3 else self.F.dot(x, y)

    def row(self, x: Any, t: int) -> Any:
        return x[t]

    def rows(self, x: Any) -> Any:
        return self.F.split(x, num_outputs=x.shape[0], axis=0, squeeze_axis=True)

    def parts(self, x: Any, count: int, axis: int) -> Any:
        return self.F.split(x, num_outputs=count, axis=axis)

    def slice(self, x: Any, axis: int, begin: int, end: int) -> Any:
        return self.F.slice_axis(x, axis=axis, begin=begin, end=end)

    def concat(self, xs: Sequence[Any], axis: int) -> Any:
        return self.F.concat(*xs, dim=axis)

    def stack(self, xs: Sequence[Any]) -> Any:
        return self.F.stack(*xs, axis=0)

    def reshape(self, x: Any, *shape: int) -> Any:
        return self.F.reshape(x, shape=shape)

    def transpose(self, x: Any, *axes: int) -> Any:
        return self.F.transpose(x, axes=axes)

    def sum(self, x: Any, axis: int, keep: bool = True) -> Any:
        return self.F.sum(x, axis=axis, keepdims=keep)

    def mean(self, x: Any, axis: int) -> Any:
        return self.F.mean(x, axis=axis, keepdims=True)

    def gelu(self, x: Any) -> Any:
        return self.F.LeakyReLU(x, act_type="gelu")

    def softmax(self, x: Any) -> Any:
        return self.F.softmax(x, axis=-1)

    def log_softmax(self, x: Any) -> Any:
        return self.F.log_softmax(x, axis=-1)

    def argmax(self, x: Any) -> Any:
        return self.F.argmax(x, axis=-1)

    def one_hot(self, x: Any, count: int) -> Any:
        return self.F.one_hot(x, depth=count)

    def embedding(self, x: Any, table: Any) -> Any:
        return self.F.Embedding(x, table, input_dim=table.shape[0], output_dim=table.shape[1])

    def layer_norm(self, x: Any, g: Any, h: Any) -> Any:
        return self.F.LayerNorm(x, g, h, eps=EPSILON)

    def group_norm(self, x: Any, g: Any, h: Any, groups: int) -> Any:
        return self.F.GroupNorm(x, g, h, num_groups=groups, eps=EPSILON)

    def instance_norm(self, x: Any, g: Any, h: Any) -> Any:
        return self.F.InstanceNorm(x, g, h, eps=EPSILON)

    def batch_norm(self, x: Any, g: Any, h: Any, mean: Any, variance: Any) -> Any:
        return self.F.BatchNorm(x, g, h, mean, variance, fix_gamma=False, eps=EPSILON)


class CountedNet(WithParameters):
    """A counted network; its arguments are the inputs and constants, in this order."""

    def __init__(self, network: CountedNetwork, arrays: Mapping[str, Any]) -> None:
        self.given = (*network.inputs, *network.constants)
        super().__init__({name: arrays[name] for name in (*network.parameters(arrays), *network.moved)})
        self.network = network
        for name in network.moved:
            getattr(self, name).grad_req = "null"

    def hybrid_forward(self, F: Any, *given: Any, **parameters: Any) -> Any:
        named = dict(zip(self.given, given, strict=True))
        return self.network.function(CountedBuilder(F), {**named, **parameters})


def counted(task: Task) -> tuple[Counts, list[CompiledGraph]]:
    """The counts, and the graphs that were compiled."""
    network = COUNTED[task.name]
    arrays = {name: mx.nd.array(value, dtype="float32") for name, value in task.arrays.items()}
    head = arrays.pop(HEAD)
    net = CountedNet(network, arrays)
    net.hybridize()
    given = [arrays[name] for name in net.given]
    net(*given).wait_to_read()
    for name in network.inputs:
        arrays[name].attach_grad()
    with mx.autograd.record():
        y = net(*given)
    y.backward(head)
    outputs = {"result": y.asnumpy()}
    for name in network.differentiated(task.arrays):
        grad: Any = arrays[name].grad if name in network.inputs else getattr(net, name).grad()
        outputs[name] = grad.asnumpy()
    graphs: list[CompiledGraph] = net._cached_graph.graphs()
    (plain,) = [graph for graph in graphs if graph.backward is None]
    (recorded,) = [graph for graph in graphs if graph.backward is not None]
    assert recorded.backward is not None
    programs = recorded.forward.program, recorded.backward.program, plain.forward.program
    forward, backward, inference = (len(steps(program)) for program in programs)
    host = sum(len(program.host_calls) for program in programs)
    note = f"{host} host calls" if host else ""
    others = "+".join(str(sum(PACKING not in name for name in steps(program))) for program in programs[:2])
    return Counts(forward, backward, inference, recorded.saved_bytes, outputs, others, note), graphs


PACKING = "k_panels"  # kernels that write an operand of a matmul in the order in which it is read


def steps(program: Any) -> list[str]:
    """What each call runs: launches, and copies of whole arrays. Inference prepares weights once, before all calls."""
    copies = [line for line in program.source.splitlines() if line == "copy"]
    return [*(name for name in program.launches if not program.preparation or PACKING not in name), *copies]


def explained(graphs: Sequence[CompiledGraph]) -> Iterator[str]:
    """Each launch of each program by its kernel, the bytes that it reads and writes, and its operators."""
    for graph in graphs:
        assert graph.traced is not None
        lowered = graph.traced.optimize().lower()
        for name, program in lowered.programs.items():
            rows = launches(program, name, Naming())
            yield f"{name if graph.backward is not None else 'inference'}: {len(rows)} launches"
            for row in rows:
                yield f"{row.note.bytes:>10} bytes  {row.note.name}"
                yield f"{'':10}        {'; '.join(row.note.operators)}"
