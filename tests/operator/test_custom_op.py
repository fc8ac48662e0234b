"""mx.operator: what custom operators in Python compute, eagerly and in a hybridized network."""

import numpy as np
import pytest
from custom_ops import array, declare, double_backward, double_forward

from hybridc import autograd, gluon, nd
from hybridc.errors import MXNetError


def test_forward_and_backward(apply, double):
    x = array([[1, 2], [3, 4]], grad="write")
    f = lambda F, x: F.Custom(x, op_type="double") + 1  # noqa: E731
    with autograd.record():
        y = apply(f, x)
    y.backward(array([[1, 10], [100, 1000]]))
    np.testing.assert_array_equal(y.asnumpy(), [[3, 5], [7, 9]])
    np.testing.assert_array_equal(x.grad.asnumpy(), [[2, 20], [200, 2000]])
    np.testing.assert_array_equal(apply(f, x).asnumpy(), [[3, 5], [7, 9]])


def test_gradient_requests_are_honoured(apply):
    seen = []

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        seen.append(list(req))
        for i in range(2):
            self.assign(in_grad[i], req[i], out_grad[0] * (i + 3))

    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], 1)

    declare("weigh", forward, backward, arguments=("a", "b"))
    a, b = array([1, 2], grad="add"), array([5, 6])
    f = lambda F, a, b: F.Custom(a, b, op_type="weigh")  # noqa: E731
    for _ in range(2):
        with autograd.record():
            y = apply(f, a, b)
        y.backward()
    np.testing.assert_array_equal(a.grad.asnumpy(), [6, 6])
    assert seen == [["write", "null"]] * 2
    b.attach_grad()
    a.attach_grad("null")
    with autograd.record():
        y = apply(f, a, b)
    y.backward()
    np.testing.assert_array_equal(b.grad.asnumpy(), [4, 4])
    assert seen[-1] == ["null", "write"]


def test_train_mode_reaches_the_operator(apply):
    seen = []

    def forward(self, is_train, req, in_data, out_data, aux):
        seen.append((is_train, autograd.is_training(), autograd.is_recording()))
        self.assign(out_data[0], req[0], in_data[0])

    declare("look", forward, double_backward)
    x = array([1.0], grad="write")
    f = lambda F, x: F.Custom(x, op_type="look")  # noqa: E731
    apply(f, x)
    with autograd.record():
        apply(f, x)
    with autograd.record(train_mode=False):
        apply(f, x)
    assert seen == [(False, False, False), (True, True, False), (False, False, False)]


def test_several_outputs(apply):
    def forward(self, is_train, req, in_data, out_data, aux):
        x = in_data[0].asnumpy()
        self.assign(out_data[0], req[0], x.sum(axis=1))
        self.assign(out_data[1], req[1], nd.array(x**2))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        x = in_data[0].asnumpy()
        dsum, dsquare = out_grad[0].asnumpy(), out_grad[1].asnumpy()
        self.assign(in_grad[0], req[0], dsum[:, None] + 2 * x * dsquare)

    declare("moments", forward, backward, outputs=("sum", "square"),
            infer_shape=lambda s, i: (i, [[i[0][0]], i[0]], []))  # fmt: skip
    x = array([[1, 2], [3, 4]], grad="write")

    def both(F, x):
        total, square = F.Custom(x, op_type="moments")
        return total, square * 10

    with autograd.record():
        total, square = apply(both, x)
        head = total.sum() + square.sum()
    head.backward()
    np.testing.assert_array_equal(total.asnumpy(), [3, 7])
    np.testing.assert_array_equal(square.asnumpy(), [[10, 40], [90, 160]])
    np.testing.assert_array_equal(x.grad.asnumpy(), [[21, 41], [61, 81]])
    with autograd.record():
        head = apply(lambda F, x: F.Custom(x, op_type="moments")[1], x)
    head.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [[2, 4], [6, 8]])


def test_auxiliary_states_are_changed_in_place(apply):
    def forward(self, is_train, req, in_data, out_data, aux):
        if is_train:
            aux[0][:] = aux[0] * 0.5 + in_data[0].mean(axis=0) * 0.5
        self.assign(out_data[0], req[0], in_data[0] - aux[0].reshape((1, -1)))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] + aux[0].reshape((1, -1)))

    declare("center", forward, backward, auxiliary=("mean",), infer_shape=lambda s, i: (i, [i[0]], [[i[0][1]]]))
    x, mean = array([[1, 2], [3, 4]], grad="write"), array([0, 8])
    f = lambda F, x, mean: F.Custom(x, mean, op_type="center")  # noqa: E731
    with autograd.record():
        y = apply(f, x, mean)
    y.backward()
    np.testing.assert_array_equal(mean.asnumpy(), [1, 5.5])
    np.testing.assert_array_equal(y.asnumpy(), [[0, -3.5], [2, -1.5]])
    np.testing.assert_array_equal(x.grad.asnumpy(), [[2, 6.5], [2, 6.5]])
    np.testing.assert_array_equal(apply(f, x, mean).asnumpy(), [[0, -3.5], [2, -1.5]])
    np.testing.assert_array_equal(mean.asnumpy(), [1, 5.5])


def test_an_auxiliary_parameter_of_a_block(double):
    def forward(self, is_train, req, in_data, out_data, aux):
        aux[0][:] = aux[0] + 1
        self.assign(out_data[0], req[0], in_data[0])

    declare("tick", forward, double_backward, auxiliary=("count",), infer_shape=lambda s, i: (i, [i[0]], [[1]]))

    class Counter(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.count = self.params.get("count", shape=(1,), init="zeros", differentiable=False)

        def hybrid_forward(self, F, x, count):
            return F.Custom(x * 1, count, op_type="tick")

    net = Counter()
    net.initialize()
    for expected in (1, 2, 3):
        if expected == 2:
            net.hybridize()
        net(array([1.0]))
        assert net.count.data().asscalar() == expected


def test_without_top_gradient(apply):
    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_data[0] - in_data[1])

    declare("loss", double_forward, backward, arguments=("data", "label"), top=False)
    x, label = array([1, 2], grad="write"), array([1, 1])
    f = lambda F, x, y: F.Custom(data=x, label=y, op_type="loss")  # noqa: E731
    with autograd.record():
        y = apply(f, x, label)
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [1, 3])


@pytest.mark.parametrize("read", [lambda g: g[0].asnumpy(), lambda g: g[0] * 2, lambda g: 2 * g[0], lambda g: g[0][0]])
def test_reading_an_undeclared_gradient(read):
    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], read(out_grad))

    declare("loss2", double_forward, backward, top=False)
    x = array([1, 2], grad="write")
    with autograd.record():
        y = nd.Custom(x, op_type="loss2")
    with pytest.raises(
        MXNetError, match=r"out_grad\[0\] is not available in backward: Prop was made with need_top_grad=False"
    ):
        y.backward()


def test_backward_dependencies(apply):
    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        with pytest.raises(MXNetError, match=r"in_data\[0\] is not available"):
            in_data[0].asnumpy()
        self.assign(in_grad[0], req[0], out_grad[0] * out_data[0])

    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], 3)

    declare("root", forward, backward,
            depends=lambda s, out_grad, in_data, out_data: [*out_grad, *out_data])  # fmt: skip
    x = array([1, 2], grad="write")
    with autograd.record():
        y = apply(lambda F, x: F.Custom(x, op_type="root"), x)
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [3, 3])


def test_what_forward_leaves_in_self_reaches_its_own_backward(apply):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.seen = in_data[0]
        self.assign(out_data[0], req[0], in_data[0] ** 2)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] * 2 * self.seen)

    declare("by_self", forward, backward)
    f = lambda F, x: F.Custom(F.Custom(x + 0, op_type="by_self") + 1, op_type="by_self")  # noqa: E731
    xs = [array([v, -v], grad="write") for v in (1.0, 2.0, 3.0)]
    with autograd.record():
        ys = [apply(f, x) for x in xs]
    for y in ys:
        y.backward()
    for x in xs:
        v = x.asnumpy().astype("float64")
        np.testing.assert_allclose(x.grad.asnumpy(), 4 * v * (v**2 + 1), rtol=1e-6)


def test_a_retained_graph_is_differentiated_again(apply):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.factor = 7
        self.assign(out_data[0], req[0], in_data[0] * 7)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] * self.factor)

    declare("seven", forward, backward)
    x = array([1.0], grad="add")
    with autograd.record():
        y = apply(lambda F, x: F.Custom(x, op_type="seven"), x)
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.asscalar() == 14


def test_nothing_keeps_an_eager_operator_alive():
    import gc
    import weakref

    alive = []

    def forward(self, is_train, req, in_data, out_data, aux):
        self.kept = in_data[0]
        alive.append(weakref.ref(self))

    declare("keeper", forward, double_backward)
    x = array([1.0], grad="write")
    with autograd.record():
        y = nd.Custom(x, op_type="keeper")
    assert alive[0]() is not None
    del y
    gc.collect()
    assert alive[0]() is None


def test_dtypes(apply):
    def forward(self, is_train, req, in_data, out_data, aux):
        assert [o.dtype for o in out_data] == [np.float64, np.int32]
        self.assign(out_data[0], req[0], in_data[0] * 2)
        self.assign(out_data[1], req[1], in_data[1])

    declare("mixed", forward, arguments=("data", "label"), outputs=("a", "b"),
            infer_type=lambda s, t: (t, [np.float64, t[1]], []))  # fmt: skip
    a, b = apply(lambda F, x, y: F.Custom(x, y, op_type="mixed"), array([1.5]), array([3], "int32"))
    assert (a.dtype, b.dtype) == (np.float64, np.int32)
    assert (a.asscalar(), b.asscalar()) == (3.0, 3)


def test_zero_size_and_non_contiguous_inputs(apply, double):
    f = lambda F, x: F.Custom(x, op_type="double")  # noqa: E731
    assert apply(f, array(np.zeros((0, 3)))).shape == (0, 3)
    x = array(np.arange(12.0).reshape(3, 4))
    np.testing.assert_array_equal(apply(f, x.T).asnumpy(), 2 * x.asnumpy().T)
    np.testing.assert_array_equal(apply(f, x[1:3]).asnumpy(), 2 * x.asnumpy()[1:3])


def test_out(double):
    z = nd.zeros((2,))
    assert nd.Custom(array([1, 2]), op_type="double", out=z) is z
    np.testing.assert_array_equal(z.asnumpy(), [2, 4])


def test_an_auxiliary_state_that_the_function_closes_over(apply_to_arrays):
    def forward(self, is_train, req, in_data, out_data, aux):
        aux[0][:] = aux[0] + 1
        self.assign(out_data[0], req[0], in_data[0] + aux[0])

    declare("tick", forward, double_backward, auxiliary=("count",), infer_shape=lambda s, i: (i, i, [[1]]))
    count = array([0])
    f = lambda F, x: F.Custom(x, count=count, op_type="tick")  # noqa: E731
    assert [apply_to_arrays(f, array([10.0])).asscalar() for _ in range(3)] == [11, 12, 13]
    assert count.asscalar() == 3
