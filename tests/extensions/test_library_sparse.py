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
