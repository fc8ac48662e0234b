"""Making a network that fails smaller, as long as it fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from hybridc.tools.fuzz.networks.random_network import NetworkBody, NetworkNode, RandomNetwork


def shrink_network(given: RandomNetwork, fails: Callable[[RandomNetwork], bool], seconds: float) -> RandomNetwork:
    """The smallest network found within so many seconds that ``fails``."""
    until = time.monotonic() + seconds
    tried: set[RandomNetwork] = {given}
    while True:
        for smaller in _candidates(given):
            if time.monotonic() > until:
                return given
            if smaller in tried:
                continue
            tried.add(smaller)
            if fails(smaller):
                given = smaller
                break
        else:
            return given


def _candidates(given: RandomNetwork) -> Iterator[RandomNetwork]:
    """Smaller networks, those that are smaller by most first."""
    events = given.events
    for i in range(len(events)):
        yield replace(given, events=(events[i],))
    for i in range(len(events)):
        yield replace(given, events=events[:i] + events[i + 1 :] or events)
    for network in _networks(given.network):
        inputs = given.inputs[: network.inputs]
        used = given.parts and tuple(i for i in given.parts if i < len(network.nodes) and network.nodes[i].block)
        yield replace(given, network=network, inputs=inputs, parts=used)
    simpler = (
        {"parts": None},
        {"flags": ()},
        {"dtype": "float32", "optimizer": given.optimizer.replace("'multi_precision': True, ", "")},
        {"grad_reqs": ()},
        {"optimizer": "'sgd', {'learning_rate': 0.1}"},
        {"loss": "(o - y) ** 2"},
        {"seed": 0},
        {"events": tuple((word.removesuffix("+"), count) for word, count in events)},
        {"events": tuple((word, 1 if word not in ("write",) else 0) for word, _ in events)},
        {"events": tuple((word, 2 if word not in ("write",) else 0) for word, _ in events)},
    )
    for change in simpler:
        yield replace(given, **change)  # pyright: ignore[reportArgumentType]
    for i, x in enumerate(given.inputs):
        for axis, size in enumerate(x.shape):
            for n in {1, 2, size // 2} - {0, size}:
                shape = (*x.shape[:axis], n, *x.shape[axis + 1 :])
                if n < size:
                    yield replace(given, inputs=(*given.inputs[:i], replace(x, shape=shape), *given.inputs[i + 1 :]))


def _networks(network: NetworkBody) -> Iterator[NetworkBody]:
    """The network up to one of its values; with one output; with one node replaced by its operand."""
    count = network.inputs
    for i in range(len(network.nodes) // 2, len(network.nodes)):
        yield _trimmed(replace(network, outputs=(count + i,)))
    if len(network.outputs) > 1:
        for i in network.outputs:
            yield _trimmed(replace(network, outputs=(i,)))
    for n, node in enumerate(network.nodes):
        for operand in dict.fromkeys(node.operands):
            yield _trimmed(_without(network, n, operand))
        if isinstance(node.block, NetworkBody):
            for inner in _networks(node.block):
                if inner.inputs == node.block.inputs:
                    yield _with(network, n, replace(node, block=inner))
        if node.same_as is not None:
            yield _with(network, n, replace(node, block=network.nodes[node.same_as].block, same_as=None))
    if network.style != "hybrid_forward":
        yield replace(network, style="hybrid_forward")


def _with(network: NetworkBody, n: int, node: NetworkNode) -> NetworkBody:
    return replace(network, nodes=(*network.nodes[:n], node, *network.nodes[n + 1 :]))


def _without(network: NetworkBody, n: int, operand: int) -> NetworkBody:
    """One of a node's operands in place of its value."""
    old = network.inputs + n
    nodes = [replace(x, operands=tuple(operand if i == old else i for i in x.operands)) for x in network.nodes]
    return replace(network, nodes=tuple(nodes), outputs=tuple(operand if i == old else i for i in network.outputs))


def _trimmed(network: NetworkBody) -> NetworkBody:
    """The network without nodes that no output needs; inputs stay."""
    first = network.inputs
    needed = {i - first for i in network.outputs}
    kept: list[int] = []
    for n in reversed(range(len(network.nodes))):
        if n in needed:
            node = network.nodes[n]
            kept.append(n)
            needed |= {i - first for i in node.operands} | ({node.same_as} if node.same_as is not None else set())
    kept.reverse()
    number = {old: new for new, old in enumerate(kept)}

    def moved(i: int) -> int:
        return i if i < first else first + number[i - first]

    nodes = [
        replace(
            node,
            operands=tuple(moved(i) for i in node.operands),
            same_as=None if node.same_as is None else number[node.same_as],
        )
        for node in (network.nodes[n] for n in kept)
    ]
    return replace(network, nodes=tuple(nodes), outputs=tuple(moved(i) for i in network.outputs))
