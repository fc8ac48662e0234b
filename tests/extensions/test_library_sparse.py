"""Operators of a compiled library on sparse arrays, as MXNet's examples transposecsr and transposerowsp are."""

import numpy as np
import pytest
from libraries import compiled

import hybridc as mx
from hybridc.errors import MXNetError


@pytest.fixture(scope="module", autouse=True)
def library():
    """The operators of library_sparse.cc."""
    mx.library.load(compiled("library_sparse.cc"), verbose=False)


def matrix(stype, dtype="float32"):
    values = np.array([[0, 2, 0, 1], [0, 0, 0, 0], [3, 0, 0, 4]], dtype)
    return values, mx.nd.array(values, dtype=dtype).tostype(stype)


@pytest.mark.parametrize(("name", "stype"), [("lib_transpose_csr", "csr"), ("lib_transpose_rows", "row_sparse")])
def test_transposes(name, stype):
    values, x = matrix(stype)
    y = getattr(mx.nd, name)(x)
    assert (y.stype, y.shape) == (stype, (4, 3))
    y.check_format()
    np.testing.assert_array_equal(y.asnumpy(), values.T)
    assert len(y.data) == (4 if stype == "csr" else 3)
    none = getattr(mx.nd, name)(mx.nd.sparse.zeros(stype, (2, 5)))
    assert (none.stype, none.shape, none.asnumpy().any()) == (stype, (5, 2), False)


def test_dense_inputs_give_sparse_outputs():
    values, x = matrix("default")
    y = mx.nd.lib_first_row(x)
    assert y.stype == "row_sparse"
    expected = np.where(np.arange(3)[:, None] == 0, values, 0)
    np.testing.assert_array_equal(y.asnumpy(), expected)

    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.lib_first_row(x) + 1

    net = Net()
    net.hybridize()
    np.testing.assert_array_equal(net(x).asnumpy(), expected + 1)


def test_what_the_library_refuses():
    _, rows = matrix("row_sparse")
    with pytest.raises(MXNetError, match="takes storage type 2"):
        mx.nd.lib_transpose_csr(rows)
    with pytest.raises(MXNetError, match="did not ask for memory of output 0, which is row_sparse"):
        mx.nd.lib_first_row(rows.tostype("default"), forget=1)


@pytest.mark.parametrize("name", ["lib_transposing", "lib_transpose_csr_both"])
def test_gradients_of_sparse_arrays(name):
    values, x = matrix("csr")
    x.attach_grad(stype="csr")
    with mx.autograd.record():
        y = getattr(mx.nd, name)(x)
    head = np.arange(12, dtype="float32").reshape(4, 3) * (values.T != 0)
    y.backward(mx.nd.array(head).tostype("csr"))
    assert (y.stype, x.grad.stype) == ("csr", "csr")
    np.testing.assert_array_equal(y.asnumpy(), values.T)
    np.testing.assert_array_equal(x.grad.asnumpy(), head.T)


def test_an_executor_keeps_the_state_of_an_operator_on_sparse_arrays():
    values, x = matrix("csr")
    symbol = mx.sym.lib_transposing(mx.sym.var("x"))
    grad = mx.nd.sparse.zeros("csr", x.shape)
    executor = symbol.bind(mx.cpu(), {"x": x}, {"x": grad})
    for _ in range(2):
        (y,) = executor.forward(is_train=True)
        np.testing.assert_array_equal(y.asnumpy(), values.T)
    executor.backward(y)
    assert executor.grad_dict["x"].stype == "csr"
    np.testing.assert_array_equal(executor.grad_dict["x"].asnumpy(), values)
    executor.forward()
    with pytest.raises(MXNetError, match="called 4 times"):
        executor.forward()


def test_a_gradient_that_the_library_does_not_make_is_zero():
    _, x = matrix("csr")
    x.attach_grad(stype="csr")
    x.grad[:] = x
    with mx.autograd.record():
        y = mx.nd.lib_transposing(x, forget=1)
    y.backward(y)
    assert (x.grad.stype, len(x.grad.data)) == ("csr", 0)


def test_a_block_of_a_symbol_on_sparse_arrays():
    values, x = matrix("csr")
    symbol = mx.sym.dot(mx.sym.lib_transposing(mx.sym.var("x")), mx.sym.var("w", shape=(3, 2))) + 1
    block = mx.gluon.SymbolBlock(symbol, mx.sym.var("x"))
    block.initialize(mx.init.One())
    for hybridize in (False, True):
        block.hybridize(hybridize)
        np.testing.assert_array_equal(block(x).asnumpy(), values.T @ np.ones((3, 2)) + 1)
