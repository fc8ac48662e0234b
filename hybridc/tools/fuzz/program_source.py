"""A program as Python source that runs by itself and shows what is wrong."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import Any

import numpy as np

from hybridc.array.functions import function
from hybridc.dialects import operator_registry
from hybridc.tools.fuzz.random_program import Input, ProgramStep, RandomProgram

# The results of a call, or its error, as text.
_SHOWN = """
def shown(net, *case):
    try:
        return [repr(y.asnumpy()) for y in run(net, *case)]
    except Exception as error:
        return [repr(error)]


"""
_RUN = """\
net = Net()
net.initialize()
eager = [shown(net, *case) for case in CASES]
net.hybridize()
for repetition in range(2):
    for case, wanted in zip(CASES, eager):
        for got, want in zip(shown(net, *case), wanted):
            print("compiled", got, "eager", want)
"""
_WRITES = """
xs = CASES[0][0]
for y in net(*xs):
    y[:] = 1
print("inputs after a write to the results", xs)
print("another call", ys := net(*xs))
for x in xs:
    x[:] = 1
print("results after a write to the inputs", ys)
"""
_THREADS = """
threads = [threading.Thread(target=lambda: print("beside others", shown(net, *CASES[0]))) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def python(program: RandomProgram, target: str, kind: str) -> str:
    """The program's network, its inputs, and calls that compare what is compiled with what runs eagerly."""
    imports = ["import threading", ""] if "threads" in program.tries else []
    lines = [f"# HYBRIDC_TARGET={target} python this_file.py    ({kind})", *imports, "import numpy as np", ""]
    lines += ["import hybridc as mx", "from hybridc.dialects.operator import invoke_bound"]
    main = _RUN + _WRITES * ("writes" in program.tries) + _THREADS * ("threads" in program.tries)
    if program.elements is not None:  # kernels are tiled, and shared by threads, as larger arrays are
        lines.append("from hybridc.tools.fuzz.check_program import small_tiles")
        main = f"with small_tiles({program.elements}):\n{textwrap.indent(main, '    ')}"
    return "\n".join([*lines, *_network(program), *_cases(program), *_called(program)]) + _SHOWN + main


def _network(program: RandomProgram) -> list[str]:
    names = [f"v{i}" for i in range(program.starts()[-1])]
    given = [f"v{i}" for i, x in enumerate(program.inputs) if not x.parameter]
    parameters = [i for i, x in enumerate(program.inputs) if x.parameter]
    lines = ["", "", "class Net(mx.gluon.HybridBlock):"]
    if parameters:
        lines += ["    def __init__(self):", "        super().__init__()", "        with self.name_scope():"]
        for i in parameters:
            x = program.inputs[i]
            made = f"self.params.get('v{i}', shape={x.shape}, dtype={x.dtype!r}, grad_req={x.req!r}, init='zeros')"
            lines.append(f"            self.v{i} = {made}")
        lines.append("")
    last = ["*", *(f"v{i}" for i in parameters)] if parameters else []
    lines.append(f"    def hybrid_forward({', '.join(['self', 'F', *given, *last])}):")
    starts = program.starts()
    for n, step in enumerate(program.steps):
        results = ", ".join(names[starts[n] : starts[n + 1]])
        lines.append(f"        {results} = {_call(step)}")
    return [*lines, f"        return [{', '.join(names[i] for i in program.outputs)}]"]


def _cases(program: RandomProgram) -> list[str]:
    """The arguments, and the values of parameters, of each call: other sizes and other values are further cases."""
    cases = [program, *(program.resized({old: new}) for old, new in program.sizes)]
    if "parameters" in program.tries:
        cases.append(replace(program, inputs=tuple(replace(x, seed=x.seed + 1) for x in program.inputs)))
    lines = ["", "", "CASES = []"]
    for case in cases:
        own = [i for i, x in enumerate(case.inputs) if x.same_as is None and not x.parameter]
        lines += [f"v{i} = {_input(case.inputs[i])}" for i in own]
        arguments = [f"v{i if x.same_as is None else x.same_as}" for i, x in enumerate(case.inputs) if not x.parameter]
        values = [f"'v{i}': {_input(x)}" for i, x in enumerate(case.inputs) if x.parameter]
        lines.append(f"CASES.append(([{', '.join(arguments)}], {{{', '.join(values)}}}))")
    return lines


def _called(program: RandomProgram) -> list[str]:
    lines = ["", "", "def run(net, xs, values):", f"    mx.random.seed({program.seed})"]
    lines += ["    for name, value in values.items():", "        getattr(net, name).set_data(value)"]
    if not program.heads:
        return [*lines, "    return net(*xs)", ""]
    places = [i for i, x in enumerate(program.inputs) if not x.parameter]
    wanted = [(n, program.inputs[i]) for n, i in enumerate(places)]
    wanted = [(n, x) for n, x in wanted if x.req != "null" and x.same_as is None]
    parameters = [i for i, x in enumerate(program.inputs) if x.parameter and x.req != "null"]
    lines += [f"    xs[{n}].attach_grad({x.req!r})" for n, x in wanted]
    lines += [f"    with mx.autograd.record(train_mode={program.training}):", "        ys = net(*xs)"]
    heads = ", ".join(f"ys[{i}]" for i in program.heads)
    lines += [f"    mx.autograd.backward([{heads}], train_mode={program.training})"]
    grads = [f"xs[{n}].grad" for n, _ in wanted] + [f"net.v{i}.grad()" for i in parameters]
    return [*lines, f"    return ys + [{', '.join(grads)}]", ""]


def _call(step: ProgramStep) -> str:
    """An operator's call by the function that users know; by the registry, where that takes other arguments."""
    cls = operator_registry.operator(step.op)
    operands = [f"v{i}" for i in step.operands]
    attrs = [f"{k}={_value(v)}" for k, v in step.attrs.items()]
    name = step.op.partition(".")[2]
    if operands and cls.function() is None and function(name) is not None:
        return f"F.{name}({', '.join([*operands, *attrs])})"
    bound = f"mx.op.get({step.op!r}).bind({', '.join(attrs)})"
    return f"invoke_bound({', '.join([bound, *operands])})"


def _value(value: Any) -> str:
    return repr(value) if not isinstance(value, float) or np.isfinite(value) else f"float('{value}')"


def _input(given: Input) -> str:
    """An input as an expression; a random array by its numbers, if they are few."""
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
    return _laid_out(f"mx.nd.array({text}, dtype={given.dtype!r})", given, data.ndim, len(data) if data.ndim else 0)


def _laid_out(made: str, given: Input, rank: int, rows: int) -> str:
    """The array where :meth:`Input.placed` lays it."""
    if given.layout == "transposed" and rank > 1:
        return f"mx.nd.NDArray(np.ascontiguousarray({made}.asnumpy().T).T)"
    if given.layout == "rows" and rows:
        return f"(lambda x: mx.nd.concat(x[:1], x, x[:1], dim=0)[1 : {rows + 1}])({made})"
    if given.layout == "columns" and rank > 1:
        return f"(lambda x: mx.nd.concat(x, x, dim=1)[:, x.shape[1] :])({made})"
    return made
