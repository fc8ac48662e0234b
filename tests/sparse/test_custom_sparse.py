"""Custom operators on sparse arrays: their Prop says what they take and give."""

import numpy as np
import pytest

import hybridc as mx


class Scale(mx.operator.CustomOp):
    """Twice the values, at the same places."""

    def forward(self, is_train, req, in_data, out_data, aux):
        (x,) = in_data
        assert x.stype == "csr"
        self.assign(out_data[0], req[0], mx.nd.sparse.csr_matrix((x.data * 2, x.indices, x.indptr), shape=x.shape))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        assert in_grad[0].stype == "csr"
        self.assign(in_grad[0], req[0], out_grad[0] * (in_data[0] != 0) * 2)


@mx.operator.register("sparse_scale")
class ScaleProp(mx.operator.CustomOpProp):
    """Of a csr matrix, with a gradient that is csr, too."""

    def infer_storage_type(self, in_stype):
        return ["csr"], ["csr"], []

    def infer_storage_type_backward(self, ograd_stype, in_stype, out_stype, igrad_stype, aux_stype):
        return ograd_stype, in_stype, out_stype, ["csr"], aux_stype

    def create_operator(self, ctx, shapes, dtypes):
        return Scale()


@mx.operator.register("dense_scale")
class DenseProp(mx.operator.CustomOpProp):
    """Of dense arrays: its Prop says nothing of storage."""

    def create_operator(self, ctx, shapes, dtypes):
        class Op(mx.operator.CustomOp):
            def forward(self, is_train, req, in_data, out_data, aux):
                assert in_data[0].stype == "default"
                self.assign(out_data[0], req[0], in_data[0] * 3)

        return Op()


VALUES = np.array([[0, 2, 0], [1, 0, 3]], "float32")


def test_csr_goes_in_and_out_and_its_gradient_back():
    x = mx.nd.array(VALUES).tostype("csr")
    x.attach_grad()
    assert x.grad.stype == "csr"
    with mx.autograd.record():
        y = mx.nd.Custom(x, op_type="sparse_scale")
        z = y * y
    assert (y.stype, z.stype) == ("csr", "csr")
    np.testing.assert_array_equal(y.asnumpy(), VALUES * 2)
    z.backward()
    assert x.grad.stype == "csr"
    np.testing.assert_allclose(x.grad.asnumpy(), 8 * VALUES)


@pytest.mark.filterwarnings("error")
def test_an_operator_of_dense_arrays_gets_dense_copies():
    x = mx.nd.array(VALUES).tostype("csr")
    with pytest.warns(UserWarning, match="dense copies"):
        y = mx.nd.Custom(x, op_type="dense_scale")
    assert y.stype == "default"
    np.testing.assert_array_equal(y.asnumpy(), VALUES * 3)
