"""Operators of compiled libraries as operators of ours: results, gradients, state, updates and random numbers."""

import inspect
import json

import numpy as np
import pytest
from libraries import Function

import hybridc as mx
from hybridc import autograd


def random(*shapes):
    rng = np.random.default_rng(3)
    return [rng.uniform(-1, 1, s).astype(np.float32) for s in shapes]


def numeric(function, arrays, weights):
    """Gradients of the weighted results by central differences, in float64."""
    arrays = [a.astype(np.float64) for a in arrays]

    def total():
        return sum((w * r).sum() for w, r in zip(weights, function(*arrays), strict=True))

    grads = [np.zeros_like(a) for a in arrays]
    for a, g in zip(arrays, grads, strict=True):
        for i in np.ndindex(a.shape):
            before = a[i]
            a[i] = before + 1e-5
            above = total()
            a[i] = before - 1e-5
            g[i] = (above - total()) / 2e-5
            a[i] = before
    return grads


def sums(F, x, y, z):
    s, q = F.lib_sums(x, y, z, num=3)
    return s * q


def network(F, a, b, c):
    h = F.lib_gemm(a, b)
    s, q = F.lib_sums(F.tanh(h), c)
    return F.lib_scale(s, scale=-2.5) + q * h, F.lib_gemm(q, F.lib_gemm(s, c))


CASES = {
    "gemm": (lambda F, a, b: F.lib_gemm(a, b), [(3, 4), (4, 2)], lambda a, b: [a @ b]),
    "gemm with itself": (lambda F, a: F.lib_gemm(a, a), [(3, 3)], lambda a: [a @ a]),
    "scale": (lambda F, x: F.lib_scale(x, scale=2.5), [(2, 3, 4)], lambda x: [2.5 * x]),
    "sums": (sums, [(2, 3)] * 3, lambda x, y, z: [(x + y + z) * (x**2 + y**2 + z**2)]),
    "two results": (
        lambda F, x, y: F.lib_sums(x, y),
        [(5,), (5,)],
        lambda x, y: [x + y, x**2 + y**2],
    ),
    "network": (
        network,
        [(3, 4), (4, 3), (3, 3)],
        lambda a, b, c: [
            -2.5 * (np.tanh(a @ b) + c) + (np.tanh(a @ b) ** 2 + c**2) * (a @ b),
            (np.tanh(a @ b) ** 2 + c**2) @ ((np.tanh(a @ b) + c) @ c),
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_results_and_gradients(run, case):
    function, shapes, reference = CASES[case]
    arrays = random(*shapes)
    expected = reference(*[a.astype(np.float64) for a in arrays])
    weights = random(*[e.shape for e in expected])
    results, grads, _ = run(function, arrays, weights)
    for result, value in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, value, rtol=1e-5, atol=1e-5)
    for grad, value in zip(grads, numeric(reference, arrays, weights), strict=True):
        np.testing.assert_allclose(grad, value, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_dtypes(run, dtype):
    x = np.arange(-3, 3).astype(dtype)
    (y,), _, _ = run(lambda F, x: F.lib_scale(x, scale=3), [x])
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, 3 * x)


@pytest.mark.parametrize("hybridize", [False, True])
def test_no_element(loaded, hybridize):
    block = Function(lambda F, x: F.lib_scale(x, scale=2))
    block.hybridize(hybridize)
    assert block(mx.nd.zeros((0, 3))).shape == (0, 3)


def test_result_of_another_dtype(run):
    (y,), _, _ = run(lambda F, x: F.lib_count(x), random((4, 5)))
    assert y.dtype == np.int64
    assert y.tolist() == [20]


def test_gradients_are_added(loaded):
    a, b = [mx.nd.array(x) for x in random((3, 4), (4, 2))]
    a.attach_grad(grad_req="add")
    a.grad[:] = 10
    for _ in range(2):
        with autograd.record():
            y = mx.nd.lib_gemm(a, b)
        y.backward()
    expected = 10 + 2 * np.ones((3, 2)) @ b.asnumpy().T
    np.testing.assert_allclose(a.grad.asnumpy(), expected, rtol=1e-5)


def test_gradients_are_added_in_an_executor(loaded):
    a, b = [mx.nd.array(x) for x in random((3, 4), (4, 2))]
    grad = mx.nd.full((3, 4), 10)
    symbol = mx.sym.lib_gemm(mx.sym.var("a"), mx.sym.var("b"))
    executor = symbol.bind(mx.cpu(), {"a": a, "b": b}, {"a": grad}, grad_req={"a": "add", "b": "null"})
    executor.forward(is_train=True)
    executor.backward([mx.nd.ones((3, 2))])
    np.testing.assert_allclose(grad.asnumpy(), 10 + np.ones((3, 2)) @ b.asnumpy().T, rtol=1e-5)


def test_inputs_that_are_not_contiguous(loaded):
    a, b = random((4, 3), (6, 4))
    y = mx.nd.lib_gemm(mx.nd.array(a).T, mx.nd.array(b)[1:5])
    np.testing.assert_allclose(y.asnumpy(), a.T @ b[1:5], rtol=1e-5)


def test_out(loaded):
    a, b = random((3, 4), (4, 2))
    out = mx.nd.zeros((3, 2))
    assert mx.nd.lib_gemm(mx.nd.array(a), mx.nd.array(b), out=out) is out
    np.testing.assert_allclose(out.asnumpy(), a @ b, rtol=1e-5)


def test_many_signatures(loaded):
    rng = np.random.default_rng(0)
    for _ in range(60):
        n, k, m = rng.integers(1, 30, 3)
        a, b = rng.normal(size=(n, k)).astype(np.float32), rng.normal(size=(k, m)).astype(np.float32)
        y = mx.nd.lib_gemm(mx.nd.array(a), mx.nd.array(b))
        np.testing.assert_allclose(y.asnumpy(), a.astype(np.float64) @ b, rtol=1e-3, atol=1e-4)


def test_large_arrays(loaded):
    (x,) = random((300, 400))
    for _ in range(3):  # results come from a pool of buffers
        np.testing.assert_allclose(mx.nd.lib_scale(mx.nd.array(x), scale=3).asnumpy(), 3 * x, rtol=1e-6)


# --- state ---------------------------------------------------------------------------------------------------


def count_of(y, a, b):
    """How often the operator's state ran before, which it adds to each element."""
    return round(float((y.asnumpy() - a.asnumpy() @ b.asnumpy()).mean()))


def test_state_of_one_eager_call(loaded):
    a, b = [mx.nd.array(x) for x in random((3, 4), (4, 2))]
    assert [count_of(mx.nd.lib_state_gemm(a, b, start=5), a, b) for _ in range(3)] == [5, 5, 5]


def test_state_of_an_executor(loaded):
    """MXNet 1.9.1: one state for each executor, which counts its forwards."""
    a, b = [mx.nd.array(x) for x in random((3, 4), (4, 2))]
    symbol = mx.sym.lib_state_gemm(mx.sym.var("a"), mx.sym.var("b"), start=200)
    executor = symbol.bind(mx.cpu(), {"a": a, "b": b})
    assert [count_of(executor.forward()[0], a, b) for _ in range(3)] == [200, 201, 202]


def test_state_of_a_hybridized_block(loaded):
    a, b = [mx.nd.array(x) for x in random((3, 4), (4, 2))]
    block = Function(lambda F, a, b: F.lib_state_gemm(a, b))
    block.hybridize()
    assert [count_of(block(a, b), a, b) for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("hybridize", [False, True])
def test_backward_meets_the_state_of_its_forward(loaded, hybridize):
    """The backward adds to the gradient of A how often the state's forward ran."""
    a, b = [mx.nd.array(x) for x in random((3, 4), (4, 2))]
    a.attach_grad()
    block = Function(lambda F, a, b: F.lib_state_gemm(a, b, start=5))
    block.hybridize(hybridize)
    with autograd.record():
        first = block(a, b)
        block(a, b)
    first.backward()
    np.testing.assert_allclose(a.grad.asnumpy(), np.ones((3, 2)) @ b.asnumpy().T + 6, rtol=1e-5)


def test_states_are_deleted(loaded):
    import gc

    from hybridc.library.extension_call import ExtensionState

    def alive():
        gc.collect()
        return sum(isinstance(x, ExtensionState) for x in gc.get_objects())

    a, b = [mx.nd.array(x) for x in random((3, 4), (4, 2))]
    before = alive()
    for _ in range(10):
        mx.nd.lib_state_gemm(a, b)
    assert alive() == before


# --- inputs that are updated ---------------------------------------------------------------------------------


def test_mutated_input(run):
    x, seen = np.ones((2, 2), np.float32), np.full(1, 4, np.float32)
    (y,), (grad, _), inputs = run(lambda F, x, seen: F.lib_seen(x, seen), [x, seen], [2 * x])
    np.testing.assert_array_equal(y, x + 4)
    np.testing.assert_array_equal(grad, 2 * x)
    np.testing.assert_array_equal(inputs[1].asnumpy(), [5])


def test_mutated_twice(run):
    x, seen = np.ones((2, 2), np.float32), np.zeros(1, np.float32)
    (y,), _, inputs = run(lambda F, x, seen: F.lib_seen(F.lib_seen(x, seen), seen), [x, seen])
    np.testing.assert_array_equal(y, x + 1)
    np.testing.assert_array_equal(inputs[1].asnumpy(), [2])


def test_mutated_inputs_are_auxiliary_states(loaded):
    symbol = mx.sym.lib_seen(mx.sym.var("x"), mx.sym.var("seen"))
    assert symbol.list_arguments() == ["x"]
    assert symbol.list_auxiliary_states() == ["seen"]
    assert symbol.infer_shape(x=(2, 3)) == ([(2, 3)], [(2, 3)], [(1,)])


# --- random numbers ------------------------------------------------------------------------------------------

# MXNet 1.9.1: mx.random.seed(7); two times mx.nd.lib_noise(mx.nd.zeros(4)).
NOISE = [[0.80284, -0.13737269, -0.96490157, -0.09913114], [-0.83998173, 1.0147312, -1.4922465, -1.5534844]]


@pytest.mark.parametrize("hybridize", [False, True])
def test_random_numbers_are_those_of_mxnet(loaded, hybridize):
    block = Function(lambda F, x: F.lib_noise(x))
    block.hybridize(hybridize)
    mx.random.seed(7)
    found = [block(mx.nd.zeros(4)).asnumpy() for _ in range(2)]
    np.testing.assert_allclose(found, NOISE, rtol=1e-5)
    mx.random.seed(7)
    np.testing.assert_allclose(block(mx.nd.zeros(4)).asnumpy(), NOISE[0], rtol=1e-5)


# --- inference -----------------------------------------------------------------------------------------------


def test_inference_from_some_inputs(loaded):
    symbol = mx.sym.lib_sums(mx.sym.var("x"), mx.sym.var("y"))
    assert symbol.infer_shape(y=(2, 3)) == ([(2, 3)] * 2, [(2, 3)] * 2, [])
    assert symbol.infer_type(y="float32")[0] == [np.float32] * 2
    named = mx.sym.lib_sums(mx.sym.var("x"), mx.sym.var("y"), name="sums")
    assert named.list_outputs() == ["sums_output0", "sums_output1"]


def test_types_that_the_library_chooses(loaded):
    symbol = mx.sym.lib_gemm(mx.sym.var("a"), mx.sym.var("b"))
    assert symbol.infer_type() == ([np.float32] * 2, [np.float32], [])


def test_parameter_of_unknown_shape(loaded):
    class Add(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.weight = self.params.get("weight", shape=(0, 0), init="ones", allow_deferred_init=True)

        def hybrid_forward(self, F, x, weight):
            return F.lib_sums(x, weight)[0]

    block = Add()
    block.initialize()
    np.testing.assert_array_equal(block(mx.nd.ones((2, 3))).asnumpy(), np.full((2, 3), 2))
    assert block.weight.shape == (2, 3)


# --- as functions --------------------------------------------------------------------------------------------


def test_where_the_functions_are(loaded):
    x = mx.nd.array([1.0, 2.0])
    for function in (mx.nd.lib_scale, mx.nd.op.lib_scale, mx.nd.contrib.lib_scale):
        np.testing.assert_array_equal(function(x, scale="3").asnumpy(), [3, 6])
    assert "lib_scale" in dir(mx.nd)
    assert "lib_scale" in dir(mx.sym)
    assert "lib_scale" in mx.operator.get_all_registered_operators()


def test_signature_and_help(loaded):
    parameters = inspect.signature(mx.nd.lib_scale).parameters
    assert list(parameters) == ["data", "out", "name", "ctx", "attributes"]
    assert mx.nd.lib_scale.__name__ == "lib_scale"
    assert mx.nd.lib_scale.__doc__.startswith(f"The operator ``lib_scale`` of the library {loaded}.")


def test_any_value_is_an_attribute_as_its_string(loaded):
    symbol = mx.sym.lib_scale(mx.sym.var("x"), scale=2, other=(1, 2), flag=True, nothing=None, name="mine")
    expected = {"scale": "2", "other": "(1, 2)", "flag": "True", "nothing": "None"}
    assert symbol.attr_dict()["mine"] == expected


def test_generic_call(loaded):
    x = mx.nd.array([1.0, 2.0])
    np.testing.assert_array_equal(mx.nd.CustomOp(x, op_type="lib_scale", scale="2").asnumpy(), [2, 4])
    symbol = mx.sym.CustomOp(mx.sym.var("x"), op_type="lib_scale", scale="2", name="twice")
    assert symbol.list_outputs() == ["twice_output"]
    np.testing.assert_array_equal(symbol.bind(mx.cpu(), {"x": x}).forward()[0].asnumpy(), [2, 4])


def test_no_input(loaded):
    assert mx.nd.lib_iota(size=4).asnumpy().tolist() == [0, 1, 2, 3]
    block = Function(lambda F, x: x + F.lib_iota(size=3))
    block.hybridize()
    assert block(mx.nd.ones(3)).asnumpy().tolist() == [1, 2, 3]
    executor = (mx.sym.var("x") * mx.sym.lib_iota()).bind(mx.cpu(), {"x": mx.nd.full(3, 5)})
    assert executor.forward()[0].asnumpy().tolist() == [0, 5, 10]


def test_symbol_files(loaded, tmp_path):
    """The JSON is what MXNet 1.9.1 writes for the same symbol, but for white space."""
    x = mx.sym.var("x")
    symbol = mx.sym.contrib.lib_scale(mx.sym.lib_seen(x, mx.sym.var("seen"), name="first"), scale=2, name="second")
    written = json.loads(symbol.tojson())
    assert written["nodes"][2:] == [
        {"op": "lib_seen", "name": "first", "inputs": [[0, 0, 0], [1, 0, 1]]},
        {"op": "_contrib_lib_scale", "name": "second", "attrs": {"scale": "2"}, "inputs": [[2, 0, 0]]},
    ]
    symbol.save(str(tmp_path / "symbol.json"))
    again = mx.sym.load(str(tmp_path / "symbol.json"))
    assert again.tojson() == symbol.tojson()
    states = {"seen": mx.nd.full(1, 3)}
    result = again.bind(mx.cpu(), {"x": mx.nd.ones(2)}, aux_states=states).forward()[0]
    assert (result.asnumpy().tolist(), states["seen"].asnumpy().tolist()) == ([8, 8], [4])


def test_exported_network(loaded, tmp_path):
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(3), mx.gluon.nn.HybridLambda(lambda F, x: F.lib_scale(x, scale=2)))
    net.initialize()
    net.hybridize()
    x = mx.nd.array(random((2, 4))[0])
    before = net(x).asnumpy()
    net.export(str(tmp_path / "net"))
    again = mx.gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    np.testing.assert_array_equal(again(x).asnumpy(), before)


def test_graph_prints_and_parses(loaded):
    from xdsl.context import Context
    from xdsl.dialects import builtin, func
    from xdsl.parser import Parser

    from hybridc.compile.lowering_stages import mlir_text
    from hybridc.dialects.mlir.hybrid import dialects

    block = Function(lambda F, x: F.lib_scale(F.lib_gemm(x, x), scale=2))
    printed = mlir_text(block.trace(mx.nd.ones((2, 2))).module)
    assert '%1 = extension.lib_scale %0 {scale = "2"} : (tensor<2x2xf32>) -> tensor<2x2xf32>' in printed
    context = Context()
    for name, dialect in {"builtin": builtin.Builtin, "func": func.Func, **dialects()}.items():
        context.register_dialect(name, lambda dialect=dialect: dialect)
    module = Parser(context, printed).parse_module()
    module.verify()
    assert mlir_text(module) == printed
