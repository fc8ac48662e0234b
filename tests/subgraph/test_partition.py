"""Which operators become a subgraph, and that the graph still computes the same."""

from __future__ import annotations

import numpy as np
import pytest
from backends import RAN, Function, numeric_gradient, partitioned, partitioner, parts, run, values

import hybridc as mx

pytestmark = pytest.mark.usefixtures("by_numpy")


def chain(F, x):
    return F.log(F.exp(x) + 1) * F.sqrt(x)


def diamond(F, x):
    a = F.exp(x)
    return F.sqrt(a) + F.sin(a)  # sin lies between exp and the sum


def two_results(F, x, y):
    a = F.exp(x)
    b = F.sqrt(a)
    return F.sin(a), F.cos(b), b * y


def shared_input(F, x, y):
    return F.exp(x) * F.exp(y) + F.sqrt(x)


def crossing(F, x, y):
    # a1 → s1 → b2 → … and b1 → s2 → a2: two parts that would wait for each other if all were taken at once
    a1, b1 = F.exp(x), F.exp(y)
    s1, s2 = F.sin(a1), F.sin(b1)
    a2, b2 = a1 * s2, b1 * s1
    return a2 - b2


NUMPY = {
    chain: lambda x: np.log(np.exp(x) + 1) * np.sqrt(x),
    diamond: lambda x: np.sqrt(np.exp(x)) + np.sin(np.exp(x)),
    two_results: lambda x, y: (np.sin(np.exp(x)), np.cos(np.exp(x / 2)), np.exp(x / 2) * y),
    shared_input: lambda x, y: np.exp(x + y) + np.sqrt(x),
    crossing: lambda x, y: np.exp(x) * np.sin(np.exp(y)) - np.exp(y) * np.sin(np.exp(x)),
}
CASES = [
    (chain, {"exp", "log"}, [["exp"], ["log"]]),
    (chain, {"exp", "log", "add"}, [["exp", "add", "log"]]),
    (chain, {"exp", "log", "add", "multiply", "sqrt"}, [["exp", "add", "log", "sqrt", "multiply"]]),
    (diamond, {"exp", "sqrt", "add"}, [["exp", "sqrt"], ["add"]]),
    (diamond, {"sqrt", "add"}, [["sqrt", "add"]]),
    (two_results, {"exp", "sqrt"}, [["exp", "sqrt"]]),
    (two_results, {"exp", "sqrt", "sin", "multiply"}, [["exp", "sqrt", "sin", "multiply"]]),
    (shared_input, {"exp", "multiply"}, [["exp", "exp", "multiply"]]),
    (crossing, {"exp", "multiply"}, None),
    (crossing, {"exp", "multiply", "subtract"}, None),
    (chain, {"tan"}, []),
]


def shapes_of(function):
    return [values(2, 3), values(2, 3) + 0.25][: NUMPY[function].__code__.co_argcount]


@pytest.mark.parametrize(("function", "wanted", "expected"), CASES)
def test_parts_compute_the_same(function, wanted, expected):
    partitioner("taken", wanted)
    inputs = shapes_of(function)
    arrays = [x.asnumpy() for x in inputs]
    found = parts(partitioned(Function(function), *inputs, backend="taken"))
    assert expected is None or sorted(found) == sorted(expected)

    outs, grads = run(Function(function), *inputs, backend="taken")
    wanted_outs = NUMPY[function](*arrays)
    wanted_outs = wanted_outs if isinstance(wanted_outs, tuple) else (wanted_outs,)
    for got, reference in zip(outs, wanted_outs, strict=True):
        np.testing.assert_allclose(got, reference, rtol=1e-12)

    def loss(*given):
        result = NUMPY[function](*given)
        return sum((r * r).sum() for r in (result if isinstance(result, tuple) else (result,)))

    for got, reference in zip(grads, numeric_gradient(loss, arrays), strict=True):
        np.testing.assert_allclose(got, reference, rtol=1e-6, atol=1e-6)
    assert bool(RAN) == bool(found)


def test_every_operator_alone():
    """Parts of one operator: wherever parts are cut, the order of the graph stays one in which it can run."""
    rng = np.random.RandomState(0)
    names = ["exp", "log", "sqrt", "sin", "add", "multiply", "subtract"]
    for function in NUMPY:
        for _ in range(3):
            wanted = {n for n in names if rng.rand() < 0.5} or {"exp"}
            partitioner("taken", wanted)
            outs, _ = run(Function(function), *shapes_of(function), backend="taken")
            reference = NUMPY[function](*[x.asnumpy() for x in shapes_of(function)])
            for got, expected in zip(outs, reference if isinstance(reference, tuple) else (reference,), strict=True):
                np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_random_graphs(seed):
    """Random graphs and random tastes: valid after partition, equal to the graph without."""
    rng = np.random.RandomState(seed)
    program = []
    for i in range(24):
        program.append((rng.choice(["exp", "sqrt", "sin", "add", "multiply"]), rng.randint(0, i + 1, 2)))
    taken = set(rng.choice(["exp", "sqrt", "sin", "add", "multiply"], 3, replace=False))

    def forward(F, x):
        known = [x]
        for name, (i, j) in program:
            given = [known[i], known[j]] if name in ("add", "multiply") else [known[i]]
            known.append(getattr(F, name)(*given) * 0.1 + 0.5)
        return known[-1], known[-2], known[12]

    def reference(x):
        known = [x]
        for name, (i, j) in program:
            given = [known[i], known[j]] if name in ("add", "multiply") else [known[i]]
            known.append(getattr(np, name)(*given) * 0.1 + 0.5)
        return known[-1], known[-2], known[12]

    partitioner("taken", taken)
    x = values(2, 2)
    module = partitioned(Function(forward), x, backend="taken")
    assert parts(module)
    outs, grads = run(Function(forward), x, backend="taken")
    for got, expected in zip(outs, reference(x.asnumpy()), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12)
    (numeric,) = numeric_gradient(lambda a: sum((r * r).sum() for r in reference(a)), [x.asnumpy()])
    np.testing.assert_allclose(grads[0], numeric, rtol=1e-5, atol=1e-7)


def test_selectors_say_which_neighbours_join():
    class Pairs(mx.subgraph.Partitioner):
        """exp, and what takes its result, but nothing before it."""

        def select(self, op):
            return op.name == "hybrid.exp"

        def select_input(self, op, producer):
            return False

        def select_output(self, op, user):
            return op.name == "hybrid.exp"

        def filter(self, ops):
            return ops if len(ops) > 1 else []

    mx.subgraph.register_partitioner("pairs")(Pairs)
    net = Function(lambda F, x: F.exp(F.log(F.sqrt(F.exp(F.sin(x))))))
    assert parts(partitioned(net, values(3), backend="pairs")) == [["exp", "sqrt"]]


def test_review_rejects_or_attaches_properties():
    def review(self, part):
        inside = [op.title() for op in part.operators]
        return {"count": len(inside), "named": inside[0]} if len(inside) > 1 else False

    def execute(self, part, x):
        assert part.properties == {"count": 2, "named": "exp"}
        return part(x) + 1

    partitioner("taken", {"exp", "log"}, review=review, run=execute)
    net = Function(lambda F, x: F.sin(F.exp(x)) + F.log(F.exp(F.cos(x))))
    module = partitioned(net, values(3), backend="taken")
    assert parts(module) == [["exp", "log"]]
    assert 'properties = [["count", 2 : i64], ["named", "exp"]]' in str(module)
    net.hybridize(backend="taken")
    x = values(3)
    expected = np.sin(np.exp(x.asnumpy())) + np.cos(x.asnumpy()) + 1
    np.testing.assert_allclose(net(x).asnumpy(), expected, rtol=1e-12)


def test_names_in_one_graph_are_unique():
    partitioner("taken", {"exp"})
    net = Function(lambda F, x: F.exp(F.sin(F.exp(x))) + F.exp(F.cos(x)))
    text = str(partitioned(net, values(3), backend="taken"))
    assert [f'name = "taken{i}"' in text for i in range(4)] == [True, True, True, False]


def test_numbers_are_inside_and_parameters_are_arguments():
    seen = {}

    def review(self, part):
        seen[part.name] = part.arguments, part.shapes, sorted(self.arrays)
        return True

    partitioner("taken", {"FullyConnected", "multiply"}, review=review)
    net = mx.gluon.nn.Dense(3, in_units=2, prefix="d_")
    net.initialize()
    outer = mx.gluon.nn.HybridSequential()
    outer.add(net, Function(lambda F, x: x * 3))
    outer.optimize_for(values(4, 2, dtype="float32"), backend="taken")
    assert seen == {"taken0": (("data0", "d_weight", "d_bias"), [(4, 2), (3, 2), (3,)], ["d_bias", "d_weight"])}
