"""What a trace holds: inputs and their roles, structures, captured arrays, modes, shapes that are inferred."""

from __future__ import annotations

import abc

import numpy as np
import pytest

import hybridc as mx
from hybridc.errors import TraceError
from hybridc.gluon import HybridBlock, nn
from tests.function_blocks import Lambda, hybrid


def traced(net):
    return len(net._cached_graph._history)


def test_length_iteration_and_attributes():
    seen = {}

    def forward(F, x):
        seen.update(len=len(x), shape=x.shape, ndim=x.ndim, size=x.size, dtype=x.dtype, ctx=x.context, repr=repr(x))
        assert x is not None
        assert x != None  # noqa: E711  what Gluon code does
        rows = list(x)
        assert [r.shape for r in rows] == [(4,)] * 3
        a, b, c = x
        return a + b * rows[2] - c

    x = mx.nd.array(np.arange(12).reshape(3, 4))
    np.testing.assert_array_equal(hybrid(forward)(x).asnumpy(), Lambda(forward)(x).asnumpy())
    hybrid(forward)(x)
    assert seen == {
        "len": 3,
        "shape": (3, 4),
        "ndim": 2,
        "size": 12,
        "dtype": np.float32,
        "ctx": mx.cpu(),
        "repr": "<Symbol data0 float32[3, 4]>",
    }


def test_python_control_flow_on_shapes_and_modes():
    def forward(F, x):
        for _ in range(x.shape[0]):
            x = x * 2
        return x if x.ndim == 1 else x.sum(axis=1)

    net = hybrid(forward)
    for shape in ((1,), (3,), (2, 2)):
        x = mx.nd.ones(shape)
        np.testing.assert_array_equal(net(x).asnumpy(), Lambda(forward)(x).asnumpy())


def test_captured_arrays_are_read_again_at_each_call():
    mask = mx.nd.array([1.0, 0.0])
    table = np.array([10.0, 20.0], "float32")
    net = hybrid(lambda F, x: x * mask + table)
    x = mx.nd.array([3.0, 4.0])
    assert net(x).asnumpy().tolist() == [13, 20]
    mask[:] = mx.nd.array([0.0, 1.0])
    table[:] = 0
    assert net(x).asnumpy().tolist() == [0, 4]
    assert traced(net) == 1
    trace = net.trace(x).trace
    assert trace.roles.count("capture") == 2


def test_a_captured_array_used_twice_is_one_input():
    mask = mx.nd.array([1.0, 0.0])
    trace = Lambda(lambda F, x: x * mask + mask).trace(mx.nd.ones((2,))).trace
    assert trace.roles == ["data", "capture"]


def test_an_argument_that_is_also_captured():
    x = mx.nd.array([2.0])
    net = hybrid(lambda F, y: y * x)
    assert net(x).asscalar() == 4
    assert net(mx.nd.array([5.0])).asscalar() == 10


def test_same_array_as_two_arguments():
    net = hybrid(lambda F, x, y: x - y)
    x, y = mx.nd.array([2.0]), mx.nd.array([5.0])
    assert net(x, x).asscalar() == 0
    assert net(x, y).asscalar() == -3
    assert traced(net) == 1


def test_arrays_made_inside():
    def forward(F, x):
        return x + F.ones((2,)) * F.arange(2) + mx.nd.array([10.0, 20.0]) + mx.nd.full((2,), 100)

    x = mx.nd.zeros((2,))
    net = hybrid(forward)
    assert net(x).asnumpy().tolist() == Lambda(forward)(x).asnumpy().tolist() == [110, 121]


def test_nested_inputs_and_outputs():
    def forward(F, a, bc, d):
        b, (c,) = bc
        return a + b, [(c, None), {}.get("x"), [d[0] * 2]]

    one = [mx.nd.array([float(i)]) for i in range(4)]
    net = hybrid(forward)
    for _ in range(2):
        first, second = net(one[0], (one[1], [one[2]]), [one[3]])
        assert first.asscalar() == 1
        assert type(second) is list
        assert type(second[0]) is tuple
        assert second[0][0].asscalar() == 2
        assert second[0][1] is None
        assert second[1] is None
        assert second[2][0].asscalar() == 6
    assert traced(net) == 1


@pytest.mark.parametrize(
    ("result", "check"),
    [
        (lambda x: x, lambda r: r.shape == (2,)),
        (lambda x: [x], lambda r: type(r) is list and len(r) == 1),
        (lambda x: (x,), lambda r: type(r) is tuple and len(r) == 1),
        (lambda x: (x, x + 1), lambda r: type(r) is tuple and len(r) == 2),
        (lambda x: [], lambda r: r == []),
        (lambda x: [[], (x,)], lambda r: r[0] == [] and r[1][0].shape == (2,)),
        pytest.param(
            *(lambda x: None, lambda r: r is None),
            marks=pytest.mark.filterwarnings("ignore:.*hybrid_forward returned None"),
        ),
    ],
)
def test_structure_of_the_result(result, check):
    x = mx.nd.ones((2,))
    net = hybrid(lambda F, x: result(x))
    assert check(net(x))
    x.attach_grad()
    with mx.autograd.record():
        assert check(net(x))


def test_none_and_missing_arguments():
    def forward(F, x, mask=None, states=None):
        y = x if mask is None else x * mask
        return y if not states else y + states[0]

    net = hybrid(forward)
    x, m, s = mx.nd.array([2.0]), mx.nd.array([3.0]), mx.nd.array([10.0])
    assert net(x).asscalar() == 2
    assert net(x, None).asscalar() == 2
    assert net(x, m).asscalar() == 6
    assert net(x, None, [s]).asscalar() == 12
    assert net(x, m, [s]).asscalar() == 16
    assert net(x, m, []).asscalar() == 6
    assert traced(net) == 6
    net(x, None, [s])
    assert traced(net) == 6


def test_train_and_predict_mode():
    net = hybrid(lambda F, x: x * (2.0 if mx.autograd.is_training() else 1.0))
    x = mx.nd.ones((1,))
    assert net(x).asscalar() == 1
    with mx.autograd.record():
        assert net(x).asscalar() == 2
    with mx.autograd.record(train_mode=False):
        assert net(x).asscalar() == 1
    with mx.autograd.train_mode():
        assert net(x).asscalar() == 2
    assert traced(net) == 2


def test_nothing_is_recorded_on_the_tape_while_tracing():
    seen = []
    net = hybrid(lambda F, x: seen.append(mx.autograd.is_recording()) or F.exp(x))
    x = mx.nd.ones((1,))
    x.attach_grad()
    with mx.autograd.record():
        net(x)
    assert seen == [True]  # as the user's code would find it, called eagerly
    assert not mx.autograd.is_recording()


def test_dropout_follows_the_mode_and_draws_anew():
    net = nn.Dropout(0.5)
    net.hybridize()
    x = mx.nd.ones((1000,))
    np.testing.assert_array_equal(net(x).asnumpy(), x.asnumpy())
    with mx.autograd.train_mode():
        a, b = net(x).asnumpy(), net(x).asnumpy()
    assert set(np.unique(a)) == {0, 2}
    assert (a != b).any()


def test_random_numbers_eager_and_hybridized():
    def forward(F, x):
        a = F.random.uniform(0, 1, shape=(50,))
        return a, F.random.normal(0, 1, shape=(50,)) + x, a - F.random.uniform(0, 1, shape=(50,))

    net = hybrid(forward)
    x = mx.nd.zeros((50,))
    mx.random.seed(7)
    first = [y.asnumpy() for y in net(x)]
    second = [y.asnumpy() for y in net(x)]
    assert all((a != b).any() for a, b in zip(first, second, strict=True))
    assert (first[2] != 0).any()
    mx.random.seed(7)
    for a, b in zip(first, net(x), strict=True):
        np.testing.assert_array_equal(a, b.asnumpy())


def test_deferred_shapes():
    net = nn.HybridSequential()
    net.add(nn.Dense(4, activation="relu"), nn.Dense(3, flatten=False), nn.LayerNorm())
    net.initialize()
    net.hybridize()
    assert net(mx.nd.ones((5, 2, 3))).shape == (5, 3)
    assert [p.shape for p in net.collect_params().values()] == [(4, 6), (4,), (3, 4), (3,), (3,), (3,)]


def test_shape_that_follows_in_two_steps():
    """The weight's shape follows from a value whose own shape follows from a parameter found later."""

    class Net(HybridBlock):
        def __init__(self):
            super().__init__(prefix="net_")
            with self.name_scope():
                self.a = self.params.get("a", shape=(0,), allow_deferred_init=True)
                self.w = self.params.get("w", shape=(2, 0), allow_deferred_init=True)

        def hybrid_forward(self, F, x, a, w):
            early = F.exp(a)  # not known yet
            y = x + a
            return F.FullyConnected(early.reshape((1, -1)), w, no_bias=True, num_hidden=2), y

    net = Net()
    net.initialize()
    net.hybridize()
    one, two = net(mx.nd.ones((3,)))
    assert (net.a.shape, net.w.shape) == ((3,), (2, 3))
    assert (one.shape, two.shape) == ((1, 2), (3,))


def test_shape_that_cannot_be_inferred():
    class Net(HybridBlock):
        def __init__(self):
            super().__init__(prefix="net_")
            with self.name_scope():
                self.w = self.params.get("w", shape=(0, 3), allow_deferred_init=True)

        def hybrid_forward(self, F, x, w):
            return F.sum(w) + x

    net = Net()
    net.initialize()
    net.hybridize()
    with pytest.raises(ValueError) as error:
        net(mx.nd.ones((1,)))
    assert str(error.value) == (
        "Deferred initialization failed because shape cannot be inferred. the shape of net_w cannot be inferred "
        "from the inputs; give it where the parameter is made (in_units=…, shape=…), or use it in an operator that "
        "infers it, such as F.FullyConnected"
    )


def test_parameters_used_twice_are_one_input():
    shared = nn.Dense(2, in_units=2)
    net = nn.HybridSequential()
    net.add(shared, nn.Dense(2, in_units=2, params=shared.params), shared)
    net.initialize()
    trace = net.trace(mx.nd.ones((1, 2))).trace
    assert trace.roles == ["data", "parameter", "parameter"]


def test_a_block_called_with_symbols_records_into_their_trace():
    inner = nn.Dense(2, in_units=2)
    inner.initialize()
    inner.hybridize()
    net = hybrid(lambda F, x: inner(x) + 1)
    x = mx.nd.ones((1, 2))
    np.testing.assert_allclose(net(x).asnumpy(), inner(x).asnumpy() + 1, rtol=1e-6)
    assert "_cached_graph" in inner.__dict__


def test_forward_style():
    class Net(HybridBlock):
        def __init__(self):
            super().__init__()
            self.dense = nn.Dense(3)

        def forward(self, x, scale=None):
            y = self.dense(x)
            return y if scale is None else y * scale

    net = Net()
    net.initialize()
    x = mx.nd.ones((2, 4))
    eager = net(x, mx.nd.array([2.0])).asnumpy()
    net.hybridize()
    np.testing.assert_allclose(net(x, mx.nd.array([2.0])).asnumpy(), eager, rtol=1e-6)


def test_blocks_with_metaclasses_and_class_hooks():
    """Reads are noticed by a subclass made for the time of tracing: the user's hooks must not see it."""
    made = []

    class Registered(HybridBlock, abc.ABC):
        def __init_subclass__(cls, *, tag, **kwargs):
            super().__init_subclass__(**kwargs)
            made.append(tag)

        @abc.abstractmethod
        def factor(self): ...

        def hybrid_forward(self, F, x):
            return x * self.factor() * self.scale

    class Leaf(Registered, tag="leaf"):
        def factor(self):
            return 3.0

    net = Leaf()
    net.scale = 2.0
    net.hybridize()
    assert net(mx.nd.ones((1,))).asscalar() == 6
    net.scale = 5.0
    assert net(mx.nd.ones((1,))).asscalar() == 15
    assert made == ["leaf"]
    assert Registered.__subclasses__() == [Leaf]


def test_blocks_with_properties_and_own_getattr():
    class Net(HybridBlock):
        def __init__(self):
            super().__init__()
            self.__dict__["options"] = {"scale": 2.0}
            self._shift = 1.0

        def __getattr__(self, name):
            if name in self.__dict__.get("options", {}):
                return self.options[name]
            raise AttributeError(name)

        @property
        def shift(self):
            return self._shift * 10

        def hybrid_forward(self, F, x):
            return x * self.scale + self.shift

    net = Net()
    net.hybridize()
    x = mx.nd.ones((1,))
    assert net(x).asscalar() == 12
    net._shift = 2.0
    assert net(x).asscalar() == 22
    net.options["scale"] = 3.0
    assert net(x).asscalar() == 23


def test_state_kept_on_the_block_is_refused():
    class Sum(HybridBlock):
        def __init__(self):
            super().__init__(prefix="sum_")
            self.total = None
            self.last = None

        def hybrid_forward(self, F, x):
            self.last = x * 2  # not read again by a forward: harmless
            self.total = x if self.total is None else self.total + x
            return self.total

    net = Sum()
    x = mx.nd.ones((2,))
    assert [net(x).asnumpy()[0] for _ in range(3)] == [1, 2, 3]
    net.total = None
    net.hybridize()
    with pytest.raises(TraceError) as error:
        net(x)
    assert str(error.value) == (
        "attribute sum_total carries a value from one call to the next; a compiled forward runs once for all calls, "
        "so give the value back as a result and pass it in as an argument"
    )


def test_numpy_operands():
    """NumPy numbers and arrays on either side, as for NDArrays."""
    number, array = np.float32(2), np.array([1.0, 2.0], "float32")

    def forward(F, x):
        return [number * x, x * number, array * x, x * array, array - x, array / x, number - x, array > x, number**x]

    x = mx.nd.array([3.0, 5.0])
    for got, want in zip(hybrid(forward)(x), Lambda(forward)(x), strict=True):
        np.testing.assert_allclose(got.asnumpy(), want.asnumpy())
