"""The instructions that XLA makes of a counted network, and what JAX saves for the backward."""

from __future__ import annotations

import math
import re
from typing import Any

import jax  # pyright: ignore[reportMissingImports]
import numpy as np
from jax import numpy as jnp  # pyright: ignore[reportMissingImports]

from benchmarks.counted_networks import COUNTED, EPSILON, HEAD
from benchmarks.peers.peer import Counts, Task

# Instructions that compute nothing and move nothing.
FREE = ("parameter", "constant", "tuple", "get-tuple-element", "bitcast")
COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.-]+) .*\{$")
INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?[\w.-]+ = (?:\(.*?\)|\S+) ([\w-]+)\(")
CALLED = re.compile(r"(?:to_apply|body)=%?([\w.-]+)")


class CountedBuilder:
    """Functions of JAX; ``moved`` are the running means and variances."""

    def __init__(self, training: bool) -> None:
        self.relu, self.sigmoid, self.tanh, self.exp, self.log = jax.nn.relu, jax.nn.sigmoid, jnp.tanh, jnp.exp, jnp.log
        self.sqrt, self.square, self.abs, self.matmul = jnp.sqrt, jnp.square, jnp.abs, jnp.matmul
        self.add, self.mul, self.div = jnp.add, jnp.multiply, jnp.divide
        self.concat, self.stack = jnp.concatenate, jnp.stack
        self.softmax, self.log_softmax, self.one_hot = jax.nn.softmax, jax.nn.log_softmax, jax.nn.one_hot
        self.training = training
        self.moved: list[Any] = []

    def linear(self, x: Any, w: Any, b: Any) -> Any:
        return jax.lax.dot_general(x, w, (((x.ndim - 1,), (1,)), ((), ()))) + b

    def gelu(self, x: Any) -> Any:
        return jax.nn.gelu(x, approximate=False)

    def row(self, x: Any, t: int) -> Any:
        return x[t]

    def rows(self, x: Any) -> Any:
        return list(x)

    def parts(self, x: Any, count: int, axis: int) -> Any:
        return jnp.split(x, count, axis)

    def slice(self, x: Any, axis: int, begin: int, end: int) -> Any:
        return jax.lax.slice_in_dim(x, begin, end, axis=axis)

    def reshape(self, x: Any, *shape: int) -> Any:
        return x.reshape(shape)

    def transpose(self, x: Any, *axes: int) -> Any:
        return x.transpose(axes)

    def sum(self, x: Any, axis: int, keep: bool = True) -> Any:
        return x.sum(axis, keepdims=keep)

    def mean(self, x: Any, axis: Any) -> Any:
        return x.mean(axis, keepdims=True)

    def argmax(self, x: Any) -> Any:
        return x.argmax(-1)

    def pick(self, x: Any, labels: Any) -> Any:
        return jnp.take_along_axis(x, labels[:, None], axis=1)[:, 0]

    def embedding(self, x: Any, table: Any) -> Any:
        return jnp.take(table, x, axis=0)

    def normalized(self, x: Any, axes: Any) -> Any:
        d = x - self.mean(x, axes)
        return d * jax.lax.rsqrt(self.mean(d * d, axes) + EPSILON)

    def layer_norm(self, x: Any, g: Any, h: Any) -> Any:
        return self.normalized(x, -1) * g + h

    def group_norm(self, x: Any, g: Any, h: Any, groups: int) -> Any:
        parts = self.normalized(x.reshape(len(x), groups, -1), -1)
        return parts.reshape(x.shape) * g[:, None, None] + h[:, None, None]

    def instance_norm(self, x: Any, g: Any, h: Any) -> Any:
        return self.normalized(x, (2, 3)) * g[:, None, None] + h[:, None, None]

    def batch_norm(self, x: Any, g: Any, h: Any, mean: Any, variance: Any) -> Any:
        if self.training:
            old, mean = mean, x.mean((0, 2, 3))
            self.moved.append(0.9 * old + 0.1 * mean)
            old, variance = variance, jnp.square(x - mean[:, None, None]).mean((0, 2, 3))
            self.moved.append(0.9 * old + 0.1 * variance)
        factor = g * jax.lax.rsqrt(variance + EPSILON)
        return (x - mean[:, None, None]) * factor[:, None, None] + h[:, None, None]


def instructions(text: str) -> int:
    """Instructions of the entry computation that are not free; those of loops and calls once for each place."""
    own: dict[str, int] = {}
    called: dict[str, list[str]] = {}
    name = entry = ""
    for line in text.splitlines():
        head, found = COMPUTATION.match(line), INSTRUCTION.match(line)
        if head is not None and found is None:
            name = head[2]
            own[name], called[name] = 0, []
            entry = name if head[1] else entry
        elif found is not None and found[1] in ("call", "while"):
            called[name] += CALLED.findall(line)
        elif found is not None and found[1] not in FREE:
            own[name] += 1

    def total(name: str) -> int:
        return own[name] + sum(map(total, called[name]))

    return total(entry)


def instructions_of(function: Any, *given: Any) -> int:
    return instructions(jax.jit(function).lower(*given).compile().as_text())


def counted(task: Task) -> Counts:
    """The counts: of the forward with all that the backward needs, of the backward, of inference."""
    network = COUNTED[task.name]
    arrays = {name: jnp.array(x) for name, x in task.arrays.items()}
    head = arrays.pop(HEAD)
    towards = {name: arrays.pop(name) for name in network.differentiated(task.arrays)}
    trees: list[Any] = []

    def forward(towards: Any, others: Any) -> list[Any]:
        def function(towards: Any) -> Any:
            builder = CountedBuilder(True)
            y = network.function(builder, {**towards, **others})
            return y, builder.moved

        y, pull, moved = jax.vjp(function, towards, has_aux=True)
        leaves, tree = jax.tree.flatten(pull)
        trees.append((tree, leaves))
        return [y, *moved, *leaves]

    closed = jax.make_jaxpr(forward)(towards, arrays)
    tree, leaves = trees[0]
    given = jax.tree.leaves((towards, arrays))
    outs = closed.jaxpr.outvars
    first = len(outs) - len(leaves)
    # What is an input, a scalar in the code or the result is no array of its own: it is neither copied nor counted.
    known = {id(v): x for v, x in zip(closed.jaxpr.invars, given, strict=True)}
    known |= {id(v): x for v, x in zip(closed.jaxpr.constvars, closed.consts, strict=True)}
    made = [*dict.fromkeys(v for v in outs if not hasattr(v, "val") and id(v) not in known)]
    kept = [v for v in dict.fromkeys(v for v in outs[first:] if v in made) if v not in outs[:first]]
    program = closed.jaxpr.replace(outvars=made)

    def needed(*given: Any) -> list[Any]:
        return jax.core.eval_jaxpr(program, closed.consts, *given)

    values = known | {id(v): x for v, x in zip(made, jax.jit(needed)(*given), strict=True)}

    def leaf(v: Any, values: Any) -> Any:
        return v.val if hasattr(v, "val") else values[id(v)]

    saved = {id(v): leaf(v, values) for v in outs[first:] if not hasattr(v, "val")}

    def backward(saved: Any, head: Any) -> Any:
        pull = jax.tree.unflatten(tree, [leaf(v, saved) for v in outs[first:]])
        return pull(head)[0]

    def inference(towards: Any, others: Any) -> Any:
        return network.function(CountedBuilder(False), {**towards, **others})

    result = np.array(leaf(outs[0], values))
    outputs = {"result": result, **{k: np.array(x) for k, x in jax.jit(backward)(saved, head).items()}}
    return Counts(
        instructions_of(needed, *given),
        instructions_of(backward, saved, head),
        instructions_of(inference, towards, arrays),
        sum(math.prod(v.aval.shape) * v.aval.dtype.itemsize for v in kept),
        outputs,
    )
