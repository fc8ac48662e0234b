"""Recurrent layers: a loop over time, whose steps are compiled once."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false
# Inputs are arrays or symbols.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hybridc import np as mnp
from hybridc import npx
from hybridc.interchange.onnx.reading.onnx_rules import OnnxCall, onnx_op
from hybridc.interchange.onnx.reading.size_limits import check_size
from hybridc.nd.control_flow import foreach

Function = Callable[[Any], Any]
#: A step: the input's product, the states, to the new states; the first of them is what the layer gives.
Step = Callable[[Any, list[Any]], list[Any]]


def _function(name: str, alpha: float | None, beta: float | None) -> Function:
    """An activation, by ONNX's name in any case."""
    a = (
        {
            "leakyrelu": 0.01,
            "elu": 1.0,
            "hardsigmoid": 0.2,
            "thresholdedrelu": 1.0,
            "scaledtanh": 1.0,
            "affine": 1.0,
        }.get(name.lower(), 0.0)
        if alpha is None
        else alpha
    )
    b = {"hardsigmoid": 0.5, "scaledtanh": 1.0}.get(name.lower(), 0.0) if beta is None else beta
    return {
        "relu": npx.relu,
        "tanh": mnp.tanh,
        "sigmoid": npx.sigmoid,
        "affine": lambda x: a * x + b,
        "leakyrelu": lambda x: mnp.where(x < 0, a * x, x),
        "thresholdedrelu": lambda x: mnp.where(x > a, x, mnp.zeros_like(x)),
        "scaledtanh": lambda x: a * mnp.tanh(b * x),
        "hardsigmoid": lambda x: mnp.clip(a * x + b, 0, 1),
        "elu": lambda x: mnp.where(x < 0, a * (mnp.exp(x) - 1), x),
        "softsign": lambda x: x / (1 + mnp.abs(x)),
        "softplus": npx.softrelu,
    }[name.lower()]


def _functions(call: OnnxCall, default: tuple[str, ...], direction: int) -> list[Function]:
    """The activations of a direction; numbers for them are given to those that take some, in turn."""
    names = call["activations"] or default * 2
    alphas, betas = list(call["activation_alpha"] or ()), list(call["activation_beta"] or ())
    made: list[Function] = []
    for name in names:
        takes_alpha = name.lower() in ("leakyrelu", "elu", "hardsigmoid", "thresholdedrelu", "scaledtanh", "affine")
        takes_beta = name.lower() in ("hardsigmoid", "scaledtanh", "affine")
        alpha = alphas.pop(0) if takes_alpha and alphas else None
        made.append(_function(name, alpha, betas.pop(0) if takes_beta and betas else None))
    return made[direction * len(default) : (direction + 1) * len(default)]


def _clipped(call: OnnxCall, x: Any) -> Any:
    return x if call["clip"] is None else mnp.clip(x, -call["clip"], call["clip"])


def _recurrent(
    call: OnnxCall, x: Any, w: Any, lengths: Any, states: list[Any], step_of: Callable[[int], tuple[Step, Any]]
) -> tuple[Any, ...]:
    """The results of all steps, and the last states, of one direction or both.

    ``step_of`` gives a direction's step, and the bias of its inputs.
    """
    batch_first = bool(call["layout"])
    x = mnp.swapaxes(x, 0, 1) if batch_first else x
    batch = x.shape[1]
    hidden = call["hidden_size"] or w.shape[0]
    check_size((batch, hidden))
    which = {"forward": (0,), "reverse": (0,), "bidirectional": (0, 1)}[call["direction"]]
    begun = [
        mnp.zeros((len(which), batch, hidden), dtype=x.dtype)
        if s is None
        else mnp.swapaxes(s, 0, 1)
        if batch_first
        else s
        for s in states
    ]
    outputs: list[Any] = []
    last: list[list[Any]] = []
    for d in which:
        backwards = d == 1 or call["direction"] == "reverse"
        step, bias = step_of(d)
        projected = _product(x, w[d])
        projected = projected if bias is None else projected + bias
        y, ends = _looped(projected, [s[d] for s in begun], step, lengths, backwards)
        outputs.append(y)
        last.append(ends)
    y = mnp.stack(outputs, 1)
    ends = [mnp.stack(list(column), 0) for column in zip(*last, strict=True)]
    if batch_first:
        y, ends = mnp.transpose(y, (2, 0, 1, 3)), [mnp.swapaxes(e, 0, 1) for e in ends]
    return y, *ends


def _looped(projected: Any, states: list[Any], step: Step, lengths: Any, backwards: bool) -> tuple[Any, list[Any]]:
    count = projected.shape[0]
    times = np.arange(count, dtype=np.int32)[:, None]
    rows = [projected, mnp.array(times, dtype="int32")]
    rows = [mnp.flip(r, 0) for r in rows] if backwards else rows

    def body(row: Any, now: Any) -> Any:
        after = step(row[0], list(now))
        if lengths is None:
            return after[0], after
        inside = mnp.expand_dims(row[1] < lengths, 1)
        kept = [mnp.where(inside, a, b) for a, b in zip(after, now)]
        return mnp.where(inside, after[0], mnp.zeros_like(after[0])), kept

    y, ends = foreach(body, rows, states)
    return mnp.flip(y, 0) if backwards else y, list(ends)


def _product(x: Any, weight: Any) -> Any:
    """The product with a weight whose rows are units, as the standard stores it; so a loop prepares it once."""
    return npx.fully_connected(x, weight, no_bias=True, num_hidden=weight.shape[0], flatten=False)


def _biases(b: Any, direction: int, gates: int) -> tuple[list[Any], list[Any]]:
    """The biases of each gate: of the input, and of the state."""
    parts = mnp.split(b[direction], 2 * gates, axis=0)
    return list(parts[:gates]), list(parts[gates:])


@onnx_op("RNN", since=7)
def rnn(call: OnnxCall, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None) -> Any:
    def step_of(d: int) -> tuple[Step, Any]:
        (f,) = _functions(call, ("Tanh",), d)
        weight = r[d]
        bias = None if b is None else mnp.add(*mnp.split(b[d], 2, axis=0))
        return lambda p, now: [f(_clipped(call, p + _product(now[0], weight)))], bias

    return _recurrent(call, x, w, _int32(lengths), [h], step_of)


def _int32(lengths: Any) -> Any:
    return None if lengths is None else lengths.astype("int32")


@onnx_op("GRU", since=7)
def gru(call: OnnxCall, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None) -> Any:
    def step_of(d: int) -> tuple[Step, Any]:
        f, g = _functions(call, ("Sigmoid", "Tanh"), d)
        of_input, of_state = _biases(b, d, 3) if b is not None else ([0] * 3, [0] * 3)
        bias = None
        if b is not None:
            bias = mnp.concatenate([of_input[0] + of_state[0], of_input[1] + of_state[1], of_input[2]], 0)
        weight, hidden = r[d], r.shape[-1]
        of_gates, of_inner = weight[: 2 * hidden], weight[2 * hidden :]

        def step(p: Any, now: list[Any]) -> list[Any]:
            pz, pr, ph = mnp.split(p, 3, axis=-1)
            sz, sr = mnp.split(_product(now[0], of_gates), 2, axis=-1)
            z, reset = f(_clipped(call, pz + sz)), f(_clipped(call, pr + sr))
            if call["linear_before_reset"]:
                inner = ph + reset * (_product(now[0], of_inner) + of_state[2])
            else:
                inner = ph + _product(reset * now[0], of_inner) + of_state[2]
            return [(1 - z) * g(_clipped(call, inner)) + z * now[0]]

        return step, bias

    return _recurrent(call, x, w, _int32(lengths), [h], step_of)


@onnx_op("LSTM", since=7)
def lstm(
    call: OnnxCall,
    x: Any,
    w: Any,
    r: Any,
    b: Any = None,
    lengths: Any = None,
    h: Any = None,
    c: Any = None,
    p: Any = None,
) -> Any:
    """Gates in ONNX's order: input, output, forget, cell; ``p`` are peepholes from the cell to the gates."""

    def step_of(d: int) -> tuple[Step, Any]:
        f, g, last = _functions(call, ("Sigmoid", "Tanh", "Tanh"), d)
        bias = None if b is None else mnp.concatenate([i + s for i, s in zip(*_biases(b, d, 4))], 0)
        weight = r[d]
        peepholes = None if p is None else mnp.split(p[d], 3, axis=0)

        def gate(x: Any, cell: Any, peephole: int) -> Any:
            return f(_clipped(call, x if peepholes is None else x + peepholes[peephole] * cell))

        def step(row: Any, now: list[Any]) -> list[Any]:
            i, o, forget, cell = mnp.split(row + _product(now[0], weight), 4, axis=-1)
            i = gate(i, now[1], 0)
            forget = 1 - i if call["input_forget"] else gate(forget, now[1], 2)
            after = forget * now[1] + i * g(_clipped(call, cell))
            return [gate(o, after, 1) * last(after), after]

        return step, bias

    return _recurrent(call, x, w, _int32(lengths), [h, c], step_of)
