"""Symbols on sparse arrays: operators on these run at once, the rest is compiled, with the results of dense ones."""

import numpy as np
import pytest
import scipy.sparse

import hybridc as mx
from hybridc import autograd

ROWS, COLUMNS, CLASSES, BATCH = 48, 60, 3, 16


def classifier(weight="default"):
    """A linear layer on csr data, then layers with a running mean and random numbers."""
    x = mx.sym.var("data", stype="csr")
    w = mx.sym.var("first_weight", stype=weight, shape=(COLUMNS, 4))
    h = mx.sym.broadcast_add(mx.sym.sparse.dot(x, w, name="product"), mx.sym.var("first_bias", shape=(4,)))
    h = mx.sym.Activation(mx.sym.BatchNorm(h, name="norm", fix_gamma=False), act_type="tanh")
    h = mx.sym.FullyConnected(mx.sym.Dropout(h, p=0.5), num_hidden=CLASSES, name="second")
    return mx.sym.SoftmaxOutput(h, name="softmax")


def as_dense(symbol):
    """The same graph on dense arrays."""
    text = symbol.tojson()
    for number in "12":
        text = text.replace(f'"__storage_type__": "{number}"', '"__storage_type__": "0"')
    return mx.sym.load_json(text)


def data():
    random = np.random.RandomState(1)
    x = scipy.sparse.random(ROWS, COLUMNS, 0.1, "csr", "float32", random_state=random)
    return x, random.randint(0, CLASSES, ROWS).astype("float32")


def trained(symbol, x, labels, start):
    batches = mx.io.NDArrayIter(x, labels, BATCH)
    module = mx.mod.Module(symbol)
    module.bind(batches.provide_data, batches.provide_label)
    module.init_params(mx.init.Normal(1))
    if start:
        module.set_params(*start)
    else:
        start += [{name: value.copy() for name, value in group.items()} for group in module.get_params()]
    module.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.1})
    outputs = []
    mx.random.seed(1)
    for _ in range(2):
        batches.reset()
        for batch in batches:
            module.forward(batch)
            module.backward()
            module.update()
            outputs.append(module.get_outputs()[0].asnumpy())
    args, states = module.get_params()
    return outputs, {name: value.asnumpy() for name, value in {**args, **states}.items()}, module


@pytest.mark.filterwarnings("error:.*dense copies")
@pytest.mark.parametrize("weight", ["default", "row_sparse"])
def test_a_module_trains_as_on_dense_arrays(weight):
    x, labels = data()
    start = []
    outputs, found, module = trained(classifier(weight), mx.nd.sparse.csr_matrix(x), labels, start)
    dense_outputs, dense, _ = trained(as_dense(classifier(weight)), mx.nd.array(x.toarray()), labels, start)
    np.testing.assert_allclose(outputs, dense_outputs, rtol=1e-4, atol=1e-5)
    assert found.keys() == dense.keys()
    for name, value in found.items():
        np.testing.assert_allclose(value, dense[name], rtol=1e-4, atol=1e-5, err_msg=name)
    report = module._exec_group.execs[0].debug_str()
    assert "sparse arrays: product ran at once, the rest is compiled" in report


def values():
    random = np.random.RandomState(2)
    x, _ = data()
    shapes = {"first_weight": (COLUMNS, 4), "first_bias": (4,), "norm_gamma": (4,), "norm_beta": (4,)}
    shapes |= {"second_weight": (CLASSES, 4), "second_bias": (CLASSES,)}
    given = {name: mx.nd.array(random.randn(*shape)) for name, shape in shapes.items()}
    given |= {"norm_moving_mean": mx.nd.zeros(4), "norm_moving_var": mx.nd.ones(4), "softmax_label": mx.nd.zeros(BATCH)}
    return {"data": mx.nd.sparse.csr_matrix(x[:BATCH]), **given}


def test_a_block_of_a_symbol_and_its_call():
    symbol, given = classifier(), values()
    block = mx.gluon.SymbolBlock(symbol, mx.sym.var("data"))
    for name, parameter in block.collect_params().items():
        parameter.shape = given[name].shape
    block.initialize()
    for name, parameter in block.collect_params().items():
        parameter.set_data(given[name])
    wanted = block(given["data"].tostype("default")).asnumpy()
    np.testing.assert_allclose(block(given["data"]).asnumpy(), wanted, rtol=1e-5, atol=1e-6)
    block.hybridize()
    for _ in range(2):
        np.testing.assert_allclose(block(given["data"]).asnumpy(), wanted, rtol=1e-5, atol=1e-6)
    call = mx.nd.CachedOp(symbol)
    found = call(*[given[name] for name in symbol.list_inputs()])
    np.testing.assert_allclose(found.asnumpy(), wanted, rtol=1e-5, atol=1e-6)


def test_results_that_are_sparse_inputs_or_computed_from_both_parts():
    x, w = mx.sym.var("x", stype="csr"), mx.sym.var("w")
    product = mx.sym.dot(x, w)
    late = mx.sym.dot(mx.sym.square(x), mx.sym.tanh(w))  # what the product needs runs at once, too
    group = mx.sym.Group([x * 2, product, mx.sym.sum(product * late + 1), w, late])
    random = np.random.RandomState(3)
    a = scipy.sparse.random(5, 7, 0.4, "csr", "float64", random_state=random)
    b = random.randn(7, 2)
    arrays = {"x": mx.nd.sparse.csr_matrix(a, dtype="float64"), "w": mx.nd.array(b, dtype="float64")}
    executor = group.bind(mx.cpu(), arrays, {"w": mx.nd.zeros((7, 2), dtype="float64")}, {"x": "null", "w": "write"})
    for _ in range(2):
        found = executor.forward(is_train=True)
    dense = a.toarray()
    first, second = dense @ b, dense**2 @ np.tanh(b)
    for have, want in zip(found, [dense * 2, first, (first * second + 1).sum(), b, second], strict=True):
        np.testing.assert_allclose(have.asnumpy(), np.reshape(want, have.shape), rtol=1e-12)
    assert found[0].stype == "csr"
    heads = [mx.nd.zeros(y.shape, dtype="float64") for y in found]
    heads[2][:] = 1
    executor.backward(heads)
    wanted = dense.T @ second + (1 - np.tanh(b) ** 2) * (dense.T**2 @ first)
    np.testing.assert_allclose(executor.grad_dict["w"].asnumpy(), wanted, rtol=1e-11, atol=1e-12)


def test_gradients_go_through_both_parts():
    x, w = mx.sym.var("x", stype="csr"), mx.sym.var("w")
    call = mx.nd.CachedOp(mx.sym.tanh(mx.sym.dot(x, w)))
    a = np.array([[1.0, 0, 2], [0, 0, 3]])
    b = np.array([[0.1], [0.2], [-0.3]])
    weight = mx.nd.array(b, dtype="float64")
    weight.attach_grad()
    with autograd.record():
        y = call(mx.nd.sparse.csr_matrix(a, dtype="float64"), weight)
    y.backward()
    np.testing.assert_allclose(weight.grad.asnumpy(), a.T @ (1 - np.tanh(a @ b) ** 2), rtol=1e-12)
