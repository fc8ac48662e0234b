"""Random networks as data: layers and functions as lines of Python, and what is done with the network.

What runs is the text that :func:`network_source` gives, so a failure is printed as what ran.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hybridc.dialects.operator_attribute import Shape
from hybridc.gluon.nn import HybridLambda
from hybridc.ground.records import dataclass

Array = npt.NDArray[Any]

BATCH = 2  # examples of the calls that decide whether a network is one

# The operators of users that networks may call, by the words that show their use.
OPERATORS: Mapping[str, str] = {
    "fuzz_scale": """
@mx.operator.register("fuzz_scale")
class ScaleProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Scale()


class Scale(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] * 0.5)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] * 0.5)
""",
    "fuzz_gate": '''
@mx.op.register("fuzzlib.fuzz_gate", override=True)
class Gate(mx.op.Elementwise):
    """x / (1 + |x|)"""

    def scalar(self, b, x):
        return x / (1.0 + b.abs(x))

    def gradient(self, F, dy, x, y):
        return dy / F.square(1 + F.abs(x))
''',
}


@dataclass(frozen=True)
class NetworkNode:
    """One value of a network: ``call`` has ``{0}``, ``{1}`` for the operands, ``{b}`` for a block, ``{w}`` a weight."""

    call: str
    operands: tuple[int, ...]
    block: str | NetworkBody | None = None  # a constructor's call, or a network of its own
    same_as: int | None = None  # the node whose block this is once more
    weight: Shape | None = None  # of a parameter of the network's own


@dataclass(frozen=True)
class NetworkBody:
    """A HybridBlock: the values of its forward, inputs first, and which are returned."""

    inputs: int
    nodes: tuple[NetworkNode, ...]
    outputs: tuple[int, ...]
    style: str = "hybrid_forward"  # or forward

    def read_inputs(self) -> list[int]:
        """The inputs that an output depends on."""
        needed = {*self.outputs}
        for n in reversed(range(len(self.nodes))):
            if self.inputs + n in needed:
                needed.update(self.nodes[n].operands)
        return sorted(i for i in needed if i < self.inputs)

    def walk(self) -> Iterator[NetworkNode]:
        """All nodes, those of nested networks too."""
        for node in self.nodes:
            yield node
            if isinstance(node.block, NetworkBody):
                yield from node.block.walk()


@dataclass(frozen=True)
class NetworkInput:
    """An argument: its shape behind the axis of examples, and the integers below ``classes``, or normal values.

    ``grows`` are the axes of ``shape`` that are longer by one in events of larger arrays.
    """

    shape: Shape
    classes: int | None = None
    grows: tuple[int, ...] = ()

    def shape_of(self, batch: int, larger: bool) -> Shape:
        """The shape of the array with so many examples."""
        return (batch, *(size + (larger and axis in self.grows) for axis, size in enumerate(self.shape)))

    def array(self, batch: int, seed: int, larger: bool = False) -> Array:
        """Values for so many examples."""
        rng = np.random.default_rng(seed)
        shape = self.shape_of(batch, larger)
        if self.classes is not None:
            return rng.integers(0, self.classes, shape).astype(np.float32)
        return rng.normal(size=shape).astype(np.float32)


@dataclass(frozen=True)
class RandomNetwork:
    """A network, its inputs, and what happens to it.

    An event is a word and a number: "predict" and "train" (forward and backward) with so many examples, "loop" and
    "step" (three updates by a Trainer, and by TrainStep), "write" (a parameter, by its number), "save", "export",
    "threads"; a word that ends in "+" is the same with larger arrays.
    """

    network: NetworkBody
    inputs: tuple[NetworkInput, ...]
    events: tuple[tuple[str, int], ...]
    dtype: str = "float32"
    parts: tuple[int, ...] | None = None  # the nodes whose blocks are hybridized; None: the whole network is
    flags: tuple[str, ...] = ()  # of hybridize: static_alloc, static_shape
    optimizer: str = "'sgd', {'learning_rate': 0.1}"
    grad_reqs: tuple[tuple[int, str], ...] = ()  # of parameters, by their number
    loss: str = "(o - y) ** 2"
    seed: int = 0

    @property
    def draws(self) -> bool:
        """Whether the network uses random numbers."""
        words = ("Dropout", "dropout=", "Zoneout", "random")
        texts = [f"{node.call} {node.block}" for node in self.network.walk()]
        return any(word in text for word in words for text in texts)

    def names(self) -> list[str]:
        """What the network is made of: names of layers and functions."""
        texts = [n.block if isinstance(n.block, str) else n.call for n in self.network.walk()]
        return [text.partition("(")[0] for text in texts]

    def size(self) -> int:
        """The number of nodes."""
        return len(self.names())

    def arrays(self, batch: int, seed: int, larger: bool = False) -> list[Array]:
        """The arguments of a call."""
        return [x.array(batch, seed + i, larger) for i, x in enumerate(self.inputs)]

    def to_json(self) -> str:
        """The network as text."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> RandomNetwork:
        """The network that a text says."""
        given: dict[str, Any] = json.loads(text)
        given["network"] = _network(given["network"])
        given["inputs"] = tuple(
            NetworkInput(tuple(x["shape"]), x["classes"], tuple(x["grows"])) for x in given["inputs"]
        )
        for name in ("events", "grad_reqs"):
            given[name] = tuple((first, second) for first, second in given[name])
        given["flags"] = tuple(given["flags"])
        given["parts"] = None if given["parts"] is None else tuple(given["parts"])
        return RandomNetwork(**given)


def _network(given: dict[str, Any]) -> NetworkBody:
    nodes: list[NetworkNode] = []
    for node in given["nodes"]:
        block = _network(node["block"]) if isinstance(node["block"], dict) else node["block"]
        weight = None if node["weight"] is None else tuple(node["weight"])
        nodes.append(NetworkNode(node["call"], tuple(node["operands"]), block, node["same_as"], weight))
    return NetworkBody(given["inputs"], tuple(nodes), tuple(given["outputs"]), given["style"])


# --- text -----------------------------------------------------------------------------------------------------

IMPORTS = """\
import numpy as np
import hybridc as mx
from hybridc import autograd, gluon
from hybridc.gluon import nn, rnn
from hybridc.gluon.contrib import nn as contrib_nn
from hybridc.gluon.contrib import rnn as contrib_rnn


def sequence(*layers):
    block = nn.HybridSequential()
    block.add(*layers)
    return block


def beside(axis, *layers):
    block = contrib_nn.HybridConcurrent(axis=axis)
    block.add(*layers)
    return block
"""


def operators_source(network: NetworkBody) -> str:
    """The definitions of the users' operators that a network calls."""
    calls = [node.call for node in network.walk()]
    return "\n".join(text for name, text in OPERATORS.items() if any(name in call for call in calls))


def network_source(network: NetworkBody, noise: bool = False, name: str = "Net") -> str:
    """The classes of a network; with ``noise``, every value passes through the function of this name."""
    nested, own = "", ""
    lines: list[str] = []
    weights: list[str] = []
    values = [f"v{i}" for i in range(network.inputs)]
    if noise:
        lines += [f"{v} = noise({v})" for v in values]
    for n, node in enumerate(network.nodes):
        block = f"self.b{n if node.same_as is None else node.same_as}"
        weight = f"w{n}" if network.style == "hybrid_forward" else f"self.w{n}.data()"
        if isinstance(node.block, NetworkBody):
            nested += network_source(node.block, noise, f"{name}_{n}")
            own += f"            self.b{n} = {name}_{n}()\n"
        elif node.block is not None:
            own += f"            self.b{n} = {node.block}\n"
        if node.weight is not None:
            own += f"            self.w{n} = self.params.get('w{n}', shape={node.weight}, init=mx.init.Uniform(1))\n"
            weights.append(f"w{n}")
        call = node.call.format(*(f"v{i}" for i in node.operands), b=block, w=weight)
        lines.append(f"v{network.inputs + n} = {f'noise({call})' if noise else call}")
    returned = ", ".join(f"v{i}" for i in network.outputs)
    if network.style == "hybrid_forward":
        head = f"    def hybrid_forward(self, {', '.join(['F', *values, *weights])}):"
    else:
        head = f"    def forward(self, {', '.join(values)}):\n        F = mx.nd"
    own = own or "            pass\n"
    return (
        f"{nested}\n\nclass {name}(gluon.HybridBlock):\n    def __init__(self, **kwargs):\n"
        f"        super().__init__(**kwargs)\n        with self.name_scope():\n{own}\n{head}\n"
        + "".join(f"        {line}\n" for line in lines)
        + f"        return {returned}\n"
    )


@functools.cache
def _defined(text: str) -> Mapping[str, Any]:
    """What a text defines, once in a process: operators have one definition each."""
    namespace: dict[str, Any] = {"__name__": "fuzzed_network"}
    exec(compile(IMPORTS + text, "<operators of a network>", "exec"), namespace)
    return namespace


def evaluated(text: str, **values: Any) -> Any:
    """What an expression of a network's text means, with these names beside its imports."""
    return eval(text, {**_defined(""), **values})


def _noisy(sequence: Callable[..., Any], noise: Any, *layers: Any) -> Any:
    """A sequence with noise after each layer."""

    def disturb(_: Any, x: Any) -> Any:
        return noise(x)

    return sequence(*(block for layer in layers for block in (layer, HybridLambda(disturb))))


def network_class(network: NetworkBody, noise: Any = None) -> Any:
    """The class of a network."""
    namespace = {**_defined(operators_source(network)), "noise": noise}
    if noise is not None:
        namespace["sequence"] = functools.partial(_noisy, namespace["sequence"], noise)
    text = network_source(network, noise is not None)
    exec(compile(text, "<network>", "exec"), namespace)
    return namespace["Net"]


EVENTS: Mapping[str, str] = {
    "predict": """
def happen(block):
    return block(*xs)
""",
    "train": """
def happen(block):
    for x in xs:
        x.attach_grad()
    with autograd.record():
        ys = block(*xs)
        total = sum(y.astype("float32").sum() for y in (ys if isinstance(ys, (list, tuple)) else [ys]))
    total.backward()
    grads = [p.grad() for p in block.collect_params().values() if p.grad_req != "null"]
    return ys, [x.grad for x in xs], grads
""",
    "step": """
def loss(outputs, y):
    means = [o.reshape((0, -1)).mean(axis=1, keepdims=True) for o in (
        outputs if isinstance(outputs, (list, tuple)) else [outputs])]
    return sum(LOSS for o in means)


def happen(block):
    trainer = gluon.Trainer(block.collect_params(), mx.optimizer.create(NAME, **OPTIONS))
    y = mx.nd.ones((len(xs[0]), 1), dtype=xs[0].dtype)
    if block is net and STEP:
        step = gluon.TrainStep(block, loss, trainer)
        return step(tuple(xs), y), [p.data() for p in block.collect_params().values()]
    with autograd.record():
        value = loss(block(*xs), y)
    value.backward()
    trainer.step(len(y))
    return value, [p.data() for p in block.collect_params().values()]
""",
}


def script(given: RandomNetwork, target: str, kind: str) -> str:
    """A program that shows the failure: what its last event leaves of the eager and the compiled network."""
    event_word, count = given.events[-1]
    word, larger = event_word.removesuffix("+"), event_word.endswith("+")
    event = EVENTS.get("step" if word == "loop" else word, EVENTS["predict"])
    name, _, options = given.optimizer.partition(", ")
    for placeholder, value in (("LOSS", given.loss), ("NAME", name), ("OPTIONS", options), ("STEP", word == "step")):
        event = event.replace(placeholder, str(value))
    lines = [
        f"# HYBRIDC_TARGET={target}: {kind}; events {given.events}, grad_req {given.grad_reqs}",
        IMPORTS.rstrip(),
        operators_source(given.network).rstrip(),
        network_source(given.network).rstrip(),
        "",
        event,
        "",
        "eager, net = Net(prefix='net_'), Net(prefix='net_')",
        *_hybridized(given),
        f"xs = [{', '.join(_array(x, given, count, larger) for x in given.inputs)}]",
        "for block in (eager, net):",
        "    block.initialize()",
        *([f"    block.cast({given.dtype!r})"] if given.dtype != "float32" else []),
        "    block(*xs)",
        "for a, b in zip(eager.collect_params().values(), net.collect_params().values()):",
        "    b.set_data(a.data())",
        "for block in (eager, net):",
        f"    mx.random.seed({given.seed})",
        "    print(happen(block))",
    ]
    return "\n".join(lines) + "\n"


def _hybridized(given: RandomNetwork) -> list[str]:
    flags = ", ".join(f"{name}=True" for name in given.flags)
    if given.parts is None:
        return [f"net.hybridize({flags})"]
    return [f"net.b{i}.hybridize({flags})" for i in given.parts]


def _array(x: NetworkInput, given: RandomNetwork, count: int, larger: bool) -> str:
    shape = x.shape_of(max(count, 1), larger)
    if x.classes is not None:
        return f"mx.nd.array(np.random.default_rng(0).integers(0, {x.classes}, {shape}))"
    return f"mx.nd.array(np.random.default_rng(0).normal(size={shape}), dtype={given.dtype!r})"
