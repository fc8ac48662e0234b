"""A program as Python source that runs by itself and shows what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridc.dialects import registry
from hybridc.nd.functions import function
from hybridc.tools.fuzz.program import Input, Program, Step


def python(program: Program, target: str, kind: str) -> str:
    """The program's network, its inputs, and calls that compare what is compiled with what runs eagerly."""
    names = [f"v{i}" for i in range(program.starts()[-1])]
    distinct = [i for i, x in enumerate(program.inputs) if x.same_as is None]
    lines = [
        f"# HYBRIDC_TARGET={target} python this_file.py    ({kind})",
        "import numpy as np",
        "",
        "import hybridc as mx",
    ]
    lines += ["", "", "class Net(mx.gluon.HybridBlock):", f"    def hybrid_forward(self, F, {_names(program)}):"]
    starts = program.starts()
    for n, step in enumerate(program.steps):
        results = ", ".join(names[starts[n] : starts[n + 1]])
        lines.append(f"        {results} = {_call(step)}")
    lines += [f"        return [{', '.join(names[i] for i in program.outputs)}]", "", ""]
    lines += ["def inputs():", f"    mx.random.seed({program.seed})"]
    lines += [f"    v{i} = {_input(program.inputs[i])}" for i in distinct]
    lines += [f"    return [{_arguments(program)}]", "", ""]
    lines += ["def run(net):", "    xs = inputs()"]
    if program.heads:
        wanted = [i for i in distinct if program.inputs[i].req != "null"]
        lines += [f"    xs[{i}].attach_grad({program.inputs[i].req!r})" for i in wanted]
        lines += [f"    with mx.autograd.record(train_mode={program.training}):", "        ys = net(*xs)"]
        heads = ", ".join(f"ys[{i}]" for i in program.heads)
        lines += [f"    mx.autograd.backward([{heads}], train_mode={program.training})"]
        lines += [f"    return ys + [{', '.join(f'xs[{i}].grad' for i in wanted)}]"]
    else:
        lines += ["    return net(*xs)"]
    lines += ["", "", "net = Net()", "eager = run(net)", "net.hybridize()", "for _ in range(2):"]
    lines += ["    for got, want in zip(run(net), eager):"]
    lines += ['        print("compiled", got.asnumpy().tolist(), "eager", want.asnumpy().tolist())']
    extra = _remarks(program)
    return "\n".join([*lines, *extra, ""])


def _names(program: Program) -> str:
    return ", ".join(f"v{i}" for i in range(len(program.inputs)))


def _arguments(program: Program) -> str:
    return ", ".join(f"v{i if x.same_as is None else x.same_as}" for i, x in enumerate(program.inputs))


def _call(step: Step) -> str:
    """An operator's call by the function that users know; by the registry, where that takes other arguments."""
    cls = registry.operator(step.op)
    operands = [f"v{i}" for i in step.operands]
    attrs = [f"{k}={_value(v)}" for k, v in step.attrs.items()]
    name = step.op.partition(".")[2]
    if cls.function() is None and function(name) is not None:
        return f"F.{name}({', '.join([*operands, *attrs])})"
    return f"mx.dispatch.invoke(mx.op.get({step.op!r}).bind({', '.join(attrs)}), [{', '.join(operands)}])"


def _value(value: Any) -> str:
    return repr(value) if not isinstance(value, float) or np.isfinite(value) else f"float('{value}')"


def _input(given: Input) -> str:
    """An input's values as an expression; a random array by its numbers, if they are few."""
    data = given.array()
    if data.size <= 60:
        numbers = np.array2string(
            data.astype(np.float64) if data.dtype.kind not in "iu" else data,
            separator=", ",
            threshold=100,
            max_line_width=10**6,
            floatmode="unique",
        ).replace("\n", "")
        numbers = numbers.replace("nan", "np.nan").replace("inf", "np.inf")
        text = f"np.array({numbers})" if data.size else f"np.zeros({given.shape})"
    elif given.fill == "normal":
        text = f"np.random.default_rng({given.seed}).normal(size={given.shape})"
    elif given.fill == "constant":
        text = f"np.full({given.shape}, {given.low})"
    else:
        text = f"np.random.default_rng({given.seed}).uniform({given.low}, {given.high}, {given.shape})"
    made = f"mx.nd.array({text}, dtype={given.dtype!r})"
    if given.layout == "transposed" and data.ndim > 1:
        return f"mx.nd.NDArray(np.ascontiguousarray({made}.asnumpy().T).T)"
    return made


def _remarks(program: Program) -> list[str]:
    """What the lines above do not show, but the program as JSON has."""
    left = [f"sizes {program.sizes}"] if program.sizes else []
    left += [f"tries {program.tries}"] if program.tries else []
    left += [f"elements {program.elements}"] if program.elements is not None else []
    left += [f"v{i} is a parameter" for i, x in enumerate(program.inputs) if x.parameter]
    left += [f"v{i} is laid out as {x.layout}" for i, x in enumerate(program.inputs) if x.layout in ("rows", "columns")]
    return [f"# The program also has: {'; '.join(left)}."] if left else []
