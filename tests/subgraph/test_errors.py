"""Every error of backends, with its text."""

from __future__ import annotations

import pathlib
import re

import pytest
from backends import Function, partitioned, partitioner, values

import hybridc as mx
from hybridc import autograd, nd
from hybridc.errors import CustomOpError, MXNetError
from hybridc.gluon import nn
from hybridc.ground.display.tracebacks import own_notes

HERE = str(pathlib.Path(__file__).resolve())


def line_of(text):
    """Where a line of this file is, as errors tell it."""
    lines = pathlib.Path(HERE).read_text().splitlines()
    (number,) = [i for i, line in enumerate(lines, 1) if text in line and "line_of" not in line]
    return f"{HERE}:{number}"


def raised(kind, call):
    """The text of the error; the network's line, which may stand before it, is a line of this file."""
    with pytest.raises(kind) as caught:
        call()
    return re.sub(rf"^{re.escape(HERE)}:\d+ \(in \w+\): ", "", str(caught.value))


def exp_net(**options):
    net = Function(lambda F, x: F.exp(x))
    net.hybridize(backend="taken", **options)
    return net


def test_an_unknown_backend():
    partitioner("taken", {"exp"})
    for call in (
        lambda: nn.Dense(2).hybridize(backend="takn"),
        lambda: nn.Dense(2).optimize_for(nd.ones((1, 2)), backend="takn"),
        lambda: mx.gluon.nn.Sequential().hybridize(backend="takn"),
    ):
        assert raised(MXNetError, call) == (
            "Error optimizing for backend 'takn': it cannot be found (registered: 'taken'); load its library with "
            "mx.library.load(…), or register it with @mx.subgraph.register_partitioner or register_pass"
        )


def test_optimize_for_nothing():
    with pytest.raises(ValueError, match='Must specify "backend" to optimize_for; to compile without, call hybr'):
        nn.Dense(2).optimize_for(nd.ones((1, 2)))


def test_what_cannot_be_registered():
    assert raised(MXNetError, lambda: mx.subgraph.register_partitioner("b")(int)) == (
        "register_partitioner('b') takes a subclass of mx.subgraph.Partitioner, got <class 'int'>"
    )
    assert raised(MXNetError, lambda: mx.subgraph.register_pass("b")(3)) == (
        "register_pass('b') takes a function of the module or a ModulePass class, got 3"
    )


def test_two_of_one_name():
    def once():
        class Mine(mx.subgraph.Partitioner):
            ops = ("exp",)

        return Mine

    def twice():
        class Mine(mx.subgraph.Partitioner):
            ops = ("log",)

        return Mine

    mx.subgraph.register_partitioner("both")(once())
    mx.subgraph.register_partitioner("both")(once())  # read again, as in a notebook
    mx.subgraph.register_partitioner("other")(twice())
    place = "test_errors.test_two_of_one_name.<locals>.once.<locals>.Mine"
    assert raised(MXNetError, lambda: mx.subgraph.register_partitioner("both")(twice())) == (
        f"backend 'both' has 'Mine' already, from {place}; give one of the two another name or backend"
    )
    assert mx.subgraph.list_backends() == ["both", "other"]


def test_unknown_operators():
    partitioner("taken", {"exq"})
    assert raised(MXNetError, lambda: exp_net()(values(2))) == (
        "no operator is called 'exq'; a partitioner's ops are names such as 'exp'"
    )


def test_an_option_that_the_partitioner_does_not_take():
    def init(self, *, scale=1):
        self.scale = scale

    partitioner("taken", {"exp"}, __init__=init)
    text = raised(CustomOpError, lambda: exp_net(scal=2)(values(2)))
    assert text.startswith(
        "backend 'taken': Taken.__init__ with options {'scal': 2} raised TypeError: "
        "test_an_option_that_the_partitioner_does_not_take.<locals>.init() got an unexpected keyword argument 'scal'"
    )


@pytest.mark.parametrize("method", ["select", "select_input", "select_output", "filter", "review", "create", "begin"])
def test_a_method_that_raises(method):
    def broken(self, *args):
        return 1 / 0  # in a method

    partitioner("taken", {"exp", "log", "add"}, **{method: broken})
    net = Function(lambda F, x: F.exp(x) + F.log(x))
    net.hybridize(backend="taken")
    of = " of taken0" if method == "create" else ""
    assert raised(CustomOpError, lambda: net(values(2))) == (
        f"backend 'taken': Taken.{method}{of} raised ZeroDivisionError: division by zero "
        f"({line_of('# in a method')} in broken)"
    )


def test_run_that_raises():
    def run(self, part, x):
        return x.reshape((-7, 3))  # in run

    partitioner("taken", {"exp"}, run=run)
    with pytest.raises(MXNetError) as caught:
        exp_net()(values(2))
    assert own_notes(caught.value) == [f"raised in backend 'taken': Taken.run of taken0, {line_of('# in run')} in run"]


WRONG_RESULTS = [
    (lambda x: [x, x], "gave 2 arrays, expected 1 results"),
    (lambda x: None, "gave a NoneType as number 0; return NDArrays"),
    (lambda x: 3.0, "gave a float as number 0; return NDArrays"),
    (lambda x: x.reshape((2, 1)), "gave float64[2, 1] as number 0, expected float64[2]"),
    (lambda x: x.astype("float32"), "gave float32[2] as number 0, expected float64[2]"),
]


@pytest.mark.parametrize(("give", "text"), WRONG_RESULTS)
def test_results_are_checked(give, text):
    partitioner("taken", {"exp"}, run=lambda self, part, x: give(x))
    assert raised(MXNetError, lambda: exp_net()(values(2))) == f"backend 'taken': Taken.run of taken0 {text}"


def test_gradients_are_checked():
    for give, text in (
        (lambda g: [g, g], "gave 2 arrays, expected 1 gradients, one for each input"),
        (lambda g: [g.sum()], "gave float64[1] as number 0, expected float64[2]"),
    ):
        backward = lambda self, part, ograds, inputs, outputs, give=give: give(ograds[0])  # noqa: E731
        partitioner("taken", {"exp"}, backward=backward)
        net = exp_net()
        x = values(2)
        x.attach_grad()
        with autograd.record():
            y = net(x)
        assert raised(MXNetError, y.backward) == f"backend 'taken': Taken.backward of taken0 {text}"


def test_a_review_that_answers_neither():
    partitioner("taken", {"exp"}, review=lambda self, part: None)
    assert raised(MXNetError, lambda: exp_net()(values(2))) == (
        "backend 'taken': Taken.review returned None; return True, False, or a dict of properties"
    )


def test_a_filter_that_invents():
    partitioner("taken", {"exp"}, filter=lambda self, ops: [*ops, ops[0].parent])
    assert raised(MXNetError, lambda: exp_net()(values(2))) == (
        "backend 'taken': Taken.filter returned an operation that it was not given"
    )


def test_passes():
    def fails(module):
        raise KeyError("here")  # in a pass

    def swaps(module):
        return module.clone()

    def breaks(module):
        from xdsl.dialects.builtin import f16

        for op in module.walk():
            if op.name == "hybrid.exp":
                from hybridc.dialects.mlir.hybrid import tensor_type

                object.__setattr__(op.results[0], "_type", tensor_type((9,), "float32"))
        assert f16

    for each, text in (
        (fails, f"raised KeyError: 'here' ({line_of('# in a pass')} in fails)"),
        (swaps, "returned a ModuleOp; a pass changes the module it gets in place"),
        (breaks, "left a graph that is not valid: "),
    ):
        mx.subgraph.register_pass(each.__name__)(each)
        net = Function(lambda F, x: F.exp(x))
        message = raised(MXNetError, lambda net=net, each=each: partitioned(net, values(2), backend=each.__name__))
        assert message.startswith(f"backend {each.__name__!r}: pass {each.__name__} {text}")


def test_a_subgraph_cannot_be_made_directly():
    assert raised(MXNetError, lambda: nd.subgraph(nd.ones((2,)), body=3)) == (
        "hybrid.subgraph cannot be made directly; use optimize_for(…) or hybridize(backend=…)"
    )


def test_a_part_without_its_backend():
    partitioner("taken", {"exp"})
    net = exp_net()
    net.optimize_for(values(2), backend="taken")
    mx.subgraph._BACKENDS.pop("taken")
    partitioner("other", {"exp"})
    assert raised(MXNetError, lambda: net(values(2))).startswith("Error optimizing for backend 'taken': it cannot be")
