"""Partitioners and graph passes of compiled libraries: which parts they get, what they are told, and what they fail on.

The expected parts are those of MXNet 1.9.1 with the same libraries (with ``dedup_subgraph=True``: an array that a part
uses twice is one input of it).
"""

import re
from pathlib import Path

import numpy as np
import pytest
from libraries import Function, compiled

import hybridc as mx
from hybridc import autograd
from hybridc.errors import MXNetError
from tests import built

sym = mx.sym
A = np.arange(4, dtype=np.float32).reshape(2, 2) / 10 + 1
C = A + 1
LINE = re.compile(r"[^\s]*\.cc\[\d+\]")


@pytest.fixture(scope="module", autouse=True)
def libraries():
    examples = built.example("lib_subgraph", "subgraph_lib"), built.example("lib_pass", "pass_lib")
    for path in (compiled("library_graph.cc"), *examples):
        mx.library.load(path, verbose=False)


def optimized(backend, symbol, args=None, **options):
    """How many parts the backend took, the operators that are left, and the results."""
    arrays = {"a": mx.nd.array(A), "c": mx.nd.array(C)} if args is None else args
    given = {name: arrays[name] for name in symbol.list_arguments()}
    made = symbol.optimize_for(backend, given, **options)
    ops = [node.op.title() for node in _nodes(made)]
    results = made.bind(mx.cpu(), given).forward()
    return ops.count("subgraph"), [op for op in ops if op != "subgraph"], [y.asnumpy() for y in results]


def _nodes(symbol):
    from hybridc.symbol.graph import topological

    return [node for node in topological(symbol.entries) if not node.is_variable]


def variables(*names):
    return [sym.var(n) for n in names]


def ordered():
    a, c = variables("a", "c")
    return sym.elemwise_mul(c, sym.exp(a))


def exp_plus_itself():
    a = sym.var("a")
    return sym.elemwise_add(sym.exp(a), a)


def exp_of_twice():
    a = sym.var("a")
    return sym.exp(sym.elemwise_add(a, a))


def exp_then_both():
    e = sym.exp(sym.var("a"))
    return sym.elemwise_add(sym.cos(e), e)


def two_results():
    e = sym.exp(sym.var("a"))
    return sym.Group([sym.log(e), e])


# --- parts -----------------------------------------------------------------------------------------------------

# The graph, how many parts there are, the other operators, the results. The operator that runs a part gives the sum
# of its inputs, the first once, the second twice, …
PARTS = {
    "inputs in the order of the JSON": (ordered, 1, [], [C + 2 * A]),
    "two subgraphs": (lambda: sym.sin(sym.exp(sym.var("a"))), 2, [], [A]),
    "a node for any subgraph joins": (exp_plus_itself, 1, [], [A]),
    "but does not lead on": (exp_of_twice, 2, [], [A]),
    "no path leaves and comes back": (exp_then_both, 2, ["cos"], [np.cos(A) + 2 * A]),
    "several results": (two_results, 1, [], [A, A]),
}


@pytest.mark.parametrize("case", PARTS)
def test_parts(case):
    build, parts, others, expected = PARTS[case]
    found = optimized("graph_groups", build())
    assert found[:2] == (parts, others)
    for result, value in zip(found[2], expected, strict=True):
        np.testing.assert_allclose(result, value, rtol=1e-6)


def test_parts_of_unknown_shape():
    """Without arrays a library is not told shapes; what runs knows them."""
    made = ordered().optimize_for("my_partitioner")
    executor = made.bind(mx.cpu(), {"a": mx.nd.array(A), "c": mx.nd.array(C)})
    assert [node.op.title() for node in _nodes(made)] in (["subgraph"], ["subgraph", "elemwise_mul"])
    np.testing.assert_allclose(executor.forward()[0].asnumpy(), C * np.exp(A), rtol=1e-6)


def test_review_refuses_one():
    parts, others, (result,) = optimized("graph_groups", sym.sin(sym.exp(sym.var("a"))), reject=0)
    assert (parts, others) == (1, ["exp"])
    np.testing.assert_allclose(result, np.exp(A), rtol=1e-6)


def test_review_sees_arrays():
    """The library adds the first elements of the arrays it was given: those of ``a`` and ``c``."""
    _, _, (result,) = optimized("graph_groups", ordered(), sum="arrays")
    np.testing.assert_allclose(result, C + 2 * A + 3, rtol=1e-6)


def test_one_state_for_each_executor():
    made = ordered().optimize_for("graph_groups", {"a": mx.nd.array(A), "c": mx.nd.array(C)})
    executor = made.bind(mx.cpu(), {"a": mx.nd.array(A), "c": mx.nd.array(C)})
    for count in range(3):
        np.testing.assert_allclose(executor.forward()[0].asnumpy(), C + 2 * A + 100 * count, rtol=1e-6)


def test_selector():
    """It grows along first inputs, and its filter drops the last node."""
    chain = sym.cos(sym.log(sym.sin(sym.exp(sym.var("a")))))
    parts, others, (result,) = optimized("graph_chain", chain)
    assert (parts, others) == (1, ["cos"])
    np.testing.assert_allclose(result, np.cos(A), rtol=1e-6)
    a, b = variables("a", "c")
    parts, others, (result,) = optimized("graph_chain", sym.elemwise_add(b, sym.cos(sym.exp(a))))
    assert (parts, others) == (1, ["cos", "elemwise_add"])
    np.testing.assert_allclose(result, np.cos(A) + C, rtol=1e-6)


def test_operator_that_hybridc_runs():
    """A strategy that names _CachedOp leaves running its parts to us."""
    parts, _, (result,) = optimized("graph_cached_op", ordered())
    assert parts == 1
    np.testing.assert_allclose(result, C * np.exp(A), rtol=1e-6)


# --- in blocks, with gradients -----------------------------------------------------------------------------------


def example(F, a, b):
    h = F.exp(a) * b
    return F.log(F.exp(F.sin(h + a))) + F.sqrt(h)


@pytest.mark.parametrize("backend", ["my_partitioner", "my_selector", "my_simplify"])
def test_block_and_its_gradients(backend):
    a, b = mx.nd.array(A), mx.nd.array(C)
    for x in (a, b):
        x.attach_grad()
    block, plain = Function(example), Function(example)
    block.hybridize(backend=backend)
    found = []
    for each in (plain, block):
        with autograd.record():
            y = each(a, b)
        y.backward()
        found.append([y.asnumpy(), a.grad.asnumpy(), b.grad.asnumpy()])
    h = np.exp(A.astype(np.float64)) * C
    np.testing.assert_allclose(found[1][0], np.sin(h + A) + np.sqrt(h), rtol=1e-5)
    np.testing.assert_allclose(found[1][1], np.cos(h + A) * (h + 1) + h / (2 * np.sqrt(h)), rtol=1e-4)
    for ours, expected in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-4)
    assert ("host call hybrid.subgraph" in block.explain()) == (backend != "my_simplify")


def test_option_that_refuses_all():
    block = Function(example)
    block.hybridize(backend="my_partitioner", backend_opts={"reject": True})
    block(mx.nd.array(A), mx.nd.array(C))
    assert "host call hybrid" not in block.explain()


def test_network_with_parameters_and_random_numbers():
    """Operators that a library does not take go on as they were."""
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(4), mx.gluon.nn.Dropout(0.5), mx.gluon.nn.BatchNorm(), mx.gluon.nn.HybridLambda("exp"))
    net.initialize()
    x = mx.nd.array(A)
    before = net(x).asnumpy()
    for backend in ("my_partitioner", "my_simplify"):
        net.hybridize(backend=backend)
        np.testing.assert_allclose(net(x).asnumpy(), before, rtol=1e-5)
        mean = net[2].running_mean.data().asnumpy()
        with autograd.record():
            net(x)
        assert not np.array_equal(net[2].running_mean.data().asnumpy(), mean)
        before = net(x).asnumpy()


# --- graph passes --------------------------------------------------------------------------------------------------


def test_pass_on_a_symbol():
    parts, others, (result,) = optimized("graph_swap", ordered())
    assert (parts, others) == (0, ["sin", "elemwise_mul"])
    np.testing.assert_allclose(result, C * np.sin(A), rtol=1e-6)


def test_pass_changes_arrays_in_place():
    args = {"a": mx.nd.array(A), "c": mx.nd.array(C)}
    ordered().optimize_for("graph_swap", args, double="c")
    np.testing.assert_array_equal(args["c"].asnumpy(), 2 * C)
    np.testing.assert_array_equal(args["a"].asnumpy(), A)


def test_pass_makes_an_argument():
    args = {"a": mx.nd.array(A)}
    made = sym.exp(sym.var("a")).optimize_for("my_shift", args, shift=2.5)
    assert made.list_arguments() == ["a", "shift_amount"]
    np.testing.assert_array_equal(args["shift_amount"].asnumpy(), [2.5])
    np.testing.assert_allclose(made.bind(mx.cpu(), args).forward()[0].asnumpy(), np.exp(A) + 2.5, rtol=1e-6)


def test_pass_makes_an_array_in_a_block():
    block = Function(lambda F, a: F.exp(a))
    block.hybridize(backend="my_shift", backend_opts={"shift": 2.5})
    a = mx.nd.array(A)
    a.attach_grad()
    with autograd.record():
        y = block(a)
    y.backward()
    np.testing.assert_allclose(y.asnumpy(), np.exp(A) + 2.5, rtol=1e-6)
    np.testing.assert_allclose(a.grad.asnumpy(), np.exp(A), rtol=1e-6)


def test_more_results():
    _, _, results = optimized("graph_swap", ordered(), to="two results")
    assert len(results) == 2


# --- failures ------------------------------------------------------------------------------------------------------


def place(statement):
    """The file and line of this statement, as errors tell them before their text."""
    (number,) = (i for i, line in enumerate(Path(__file__).read_text().splitlines(), 1) if line.strip() == statement)
    return f"{__file__}:{number}: "


COMPOSED = place("return sym.elemwise_mul(c, sym.exp(a))")  # the part's last operator
# What runs a part is made when the graph is compiled: the graph's line is known then.
WHERE = {
    "supported": ("graph_groups", "Error calling SupportedOps for partitioner 'graph_groups' strategy 'by_group'"),
    "review": ("graph_groups", "Error calling ReviewSubgraph for partitioner 'graph_groups' strategy 'by_group'"),
    "create": ("graph_groups", f"{COMPOSED}Error calling CreateOpState CPU for custom operator 'graph_sum'"),
    "selector": ("graph_chain", "Error calling CreateSelector for partitioner 'graph_chain' strategy 'chains'"),
    "pass": ("graph_swap", "Error calling GraphPass for 'graph_swap'"),
}


def error(call):
    with pytest.raises(MXNetError) as info:
        call()
    return LINE.sub("….cc[…]", str(info.value))


@pytest.mark.parametrize("where", WHERE)
def test_failures(where):
    backend, text = WHERE[where]
    said = f"\nExtension Traceback:\n\t[0] ….cc[…]: told to fail in {where}\n"
    assert error(lambda: optimized(backend, ordered(), where=where)) == text + said


@pytest.mark.parametrize("where", [w for w in WHERE if w != "create"])
def test_exceptions(where):
    backend, text = WHERE[where]
    said = f"\nExtension Traceback:\n\t[0] C++ exception: thrown in {where}\n"
    assert error(lambda: optimized(backend, ordered(), where=f"throw {where}")) == text + said


def test_no_selector():
    assert error(lambda: optimized("graph_chain", ordered(), where="nothing")).startswith(
        "Error calling CreateSelector for partitioner 'graph_chain' strategy 'chains'"
    )


def test_operator_that_no_library_has():
    assert error(lambda: optimized("graph_wrong_op", ordered())) == COMPOSED + (
        "partitioner 'graph_wrong_op' strategy 'wrong' wants the operator 'no_such_op' to run subgraphs, but its "
        "library has no subgraph operator of this name (setIsSubgraphOp)"
    )


def test_pass_that_names_no_operator():
    text = error(lambda: optimized("graph_swap", sym.exp(sym.var("a")), to="nonsense"))
    assert "(no_such_op): no operator 'no_such_op' is registered" in text


def test_pass_that_changes_the_results_of_a_block():
    block = Function(lambda F, a: F.exp(a))
    block.hybridize(backend="graph_swap", backend_opts={"to": "two results"})
    text = error(lambda: block(mx.nd.array(A)))
    assert text.startswith("graph pass 'graph_swap' made (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) of ")
    assert text.endswith("a pass must keep the number and types of inputs and results, and which inputs are updated")


def test_what_is_printed(capfd):
    mx.library.load(compiled("library_graph.cc"))
    assert capfd.readouterr().err.splitlines() == [
        "Found 1 operators in library",
        "\tOp[0] graph_sum",
        "\t\tisSubgraphOp",
        "Found 4 partitioners in library",
        "\tPartitioner[0] graph_groups",
        "\t\tStrategy[0] by_group subgraphOp: 'graph_sum'",
        "\tPartitioner[1] graph_wrong_op",
        "\t\tStrategy[0] wrong subgraphOp: 'no_such_op'",
        "\tPartitioner[2] graph_cached_op",
        "\t\tStrategy[0] cached subgraphOp: '_CachedOp'",
        "\tPartitioner[3] graph_chain",
        "\t\tStrategy[0] chains subgraphOp: 'graph_sum'",
        "Found 1 graph passes in library",
        "\tGraph Pass [0] graph_swap",
    ]
