"""Arrays made of arrays inside ``autograd.record``: the gradient is MXNet's, or the array cannot be made there."""

from __future__ import annotations

import json
import sys
import types
import weakref
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd, nd, random
from hybridc.array.dispatch import invoke
from hybridc.array.ndarray import NDArray
from hybridc.dialects.operator_registry import functions
from hybridc.errors import MXNetError
from hybridc.ground.nesting import as_list
from hybridc.tools.check_op.case import each_gradient, heads_of, ndarrays, weights_of
from tests.ops.samples import each

GOLDEN = Path(__file__).parents[1] / "golden"
sys.path.insert(0, str(GOLDEN))

import tape_cases  # noqa: E402

MXNET = json.loads((GOLDEN / "tape.json").read_text())

# What MXNet's arrays cannot do, or not there, is as another case.
AS = {
    "NDArray.as_in_ctx": "NDArray.copyto to a device",
    "NDArray.to_device": "NDArray.copyto to a device",
    "NDArray.item": "NDArray.asscalar",
    "NDArray.__float__": "NDArray.asscalar",
    "NDArray.tolist": "NDArray.asscalar",
    "nd.array of a list": "nd.array of NumPy's",
    "nd.concatenate": "nd.concat",
}
WEIGHTS = np.arange(1, 7).reshape(2, 3)
X = WEIGHTS / 4 + 1
CONSTANT = 2 * X
OURS = {
    "NDArray.__int__": CONSTANT + WEIGHTS * int(X[0, 0]),
    "nd.histogram": CONSTANT,
    "nd.add with a number into an array": CONSTANT + WEIGHTS,
    "nd.power into an array": CONSTANT + WEIGHTS * np.log(2) * 2**X,
    "nd.onehot_encode": CONSTANT,
    # What NumPy computes raises; in MXNet the first writes into the image, which raises too.
    **dict.fromkeys(("image.color_normalize", "image.fixed_crop", "image.center_crop"), "other error: MXNetError"),
}
# Only where both devices are the host's can an operator write to the other.
FAILS_THERE = {"nd.exp into an array there"}
# A random permutation.
RANDOM = {"nd.random.shuffle"}


def expected(case):
    want = MXNET[AS.get(case, case)]
    if case in OURS:
        return OURS[case], None
    return (want, None) if isinstance(want, str) else (np.array(want["gradient"]), want["dtype"])


DEVICES = {
    "cpu(0) and cpu(1)": (mx.cpu(0), mx.cpu(1)),
    "cpu(1) and cpu(0)": (mx.cpu(1), mx.cpu(0)),
    "gpu(0) and cpu(0)": (mx.gpu(0), mx.cpu(0)),
    "cpu(0) and gpu(0)": (mx.cpu(0), mx.gpu(0)),
}


@pytest.mark.parametrize("devices", DEVICES)
def test_gradients_are_those_of_mxnet(devices):
    here, there = DEVICES[devices]
    wrong = {}
    for case in tape_cases.CASES:
        if case in RANDOM or (case in FAILS_THERE and "gpu" in devices):
            continue
        found, (want, dtype) = tape_cases.run(mx, case, here, there), expected(case)
        if isinstance(found, str) or isinstance(want, str):
            good = isinstance(found, str) and isinstance(want, str) and found == want
        else:
            good = dtype in (None, found["dtype"]) and np.allclose(found["gradient"], want, rtol=1e-4, atol=1e-3)
        if not good:
            wrong[case] = found, want
    assert wrong == {}


# --- every function of arrays has a case, or is an operator -----------------------------------------------------------

# Of graphs, without gradients: tests/sparse has them.
GRAPHS = "dgl_csr_neighbor_non_uniform_sample dgl_csr_neighbor_uniform_sample dgl_graph_compact dgl_subgraph"
WITHOUT_CASE = {
    NDArray: """as_np_ndarray asnative attach_grad backward context ctx device drop_grad dtype grad handle mish ndim
        shape size stype wait_to_read wait_to_write writable""",
    # They make arrays without arrays, save none, or only say what an operator is.
    nd: f"""{GRAPHS} Custom CustomOp NDArray arange cond custom empty linspace load_frombuffer load_metadata loop
        subgraph waitall while_loop""",
    nd.contrib: f"rand_zipfian uniform {GRAPHS}",
    nd.random: "exponential gamma generalized_negative_binomial multinomial negative_binomial normal poisson randint",
    mx.gluon.utils: "HookHandle check_sha1 download replace_file shape_is_known",
}
UPDATES = "adamw_update mp_adamw_update multi_adamw_update multi_lamb_update multi_mp_adamw_update multi_mp_lamb_update"


def is_operator(value):
    """Whether it is a function that was made from an operator's class, which puts itself on the tape."""
    code = getattr(value, "__code__", None)
    return code is not None and code.co_filename.startswith("<function of")


@pytest.mark.parametrize("where", [NDArray, nd, nd.contrib, nd.linalg, nd.image, nd.random, mx.gluon.utils])
def test_every_function_of_arrays_has_a_case(where):
    prefix = "NDArray" if where is NDArray else where.__name__.removeprefix("hybridc.")
    known = {
        case.split()[0].rpartition(".")[2] for case in tape_cases.CASES if case.split()[0].startswith(prefix + ".")
    }
    known |= {*WITHOUT_CASE.get(where, "").split(), *UPDATES.split()}
    known |= {name for name, cls in functions().items() if not cls.NAME.startswith("hybrid.")}  # of other tests
    left = []
    for name in dir(where) if where is not mx.gluon.utils else where.__all__:
        # What other libraries have there is an error: hybridc/ground/absent.py.
        value = None if name.startswith("_") or name in known else getattr(where, name, None)
        if isinstance(value, types.ModuleType) or not (callable(value) or isinstance(value, property)):
            continue
        if not is_operator(value) and getattr(value, "__module__", prefix).startswith("hybridc"):
            left.append(name)
    assert left == []


def first_with_gradient(cls):
    return list(each_gradient(cls))[:1]


def gradients(case, into):
    """The gradients of all inputs of an operator, whose results are written into arrays, or new ones."""
    op, arrays = case.operator(), case.arrays()
    inputs = ndarrays(arrays)
    for x in inputs:
        x.attach_grad()
    with random.isolated(11), np.errstate(all="ignore"):
        like = as_list(invoke(op, ndarrays(arrays)))
    outs = [nd.zeros(y.shape, dtype=y.dtype) for y in like] if into else None
    with random.isolated(11), np.errstate(all="ignore"):
        with autograd.record(train_mode=False):
            found = as_list(invoke(op, inputs, outs))
        heads = heads_of(found, weights_of(found))
        if not into:
            assert len(heads) == len(found)
        if heads:
            autograd.backward(*zip(*heads, strict=True), train_mode=False)
    return [y.asnumpy() for y in found] + [x.grad.asnumpy() for x in inputs]


@each(first_with_gradient)
def test_an_operator_that_writes_into_arrays_has_its_gradient(case):
    for new, written in zip(gradients(case, False), gradients(case, True), strict=True):
        np.testing.assert_array_equal(new, written)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_written_later_is_not_what_the_tape_read(dtype):
    x, y = nd.array([1.0, 2.0]), nd.zeros(2, dtype=dtype)
    x.attach_grad()
    with autograd.record():
        nd.exp(x, out=y)
        z = (y * 3).sum()
    y[:] = 7
    z.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), 3 * np.exp([1, 2]), rtol=1e-6)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: mx.image.imresize(x, 2, 2),
        lambda x: mx.image.copyMakeBorder(x, 1, 1, 1, 1),
        lambda x: mx.image.imrotate(x, 30),
        lambda x: mx.image.HorizontalFlipAug(1.0)(x),
        lambda x: mx.image.BrightnessJitterAug(0.5)(x),
        lambda x: mx.image.CastAug()(x),
        lambda x: mx.gluon.data.vision.transforms.Rotate(30)(x),
        lambda x: mx.gluon.data.batchify.Stack()([x, x]),
        lambda x: mx.gluon.data.batchify.Pad()([x, x]),
        lambda x: next(iter(mx.gluon.data.DataLoader(mx.gluon.data.ArrayDataset(x), 2))),
        lambda x: next(iter(mx.io.NDArrayIter(x, batch_size=2))).data[0],
    ],
)
def test_what_numpy_computes_cannot_depend_on_a_variable(function):
    x = nd.ones((3, 3, 3))
    x.attach_grad()
    with autograd.record():
        y = x * 2
        with pytest.raises(MXNetError, match=r"depends on a variable .*; give it x\.detach\(\), or call it outside"):
            function(y)
        assert isinstance(function(y.detach()), NDArray)
    assert isinstance(function(y), NDArray)


def test_a_store_of_arrays_keeps_no_graph():
    x = nd.ones(3)
    x.attach_grad()
    store = mx.kv.create("local")
    out = nd.zeros(3)
    store.init(0, out)
    with autograd.record():
        y = x * 2
        store.push(0, [y, y])
        store.pull(0, out=out)
        z = (out * x).sum()
    z.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [4, 4, 4])


def test_a_parameter_that_the_tape_read_is_not_set():
    net = mx.gluon.nn.Dense(1, in_units=2)
    net.initialize()
    with autograd.record():
        y = net(nd.ones((1, 2)))
        with pytest.raises(MXNetError, match="inplace operations"):
            net.weight.set_data(nd.zeros((1, 2)))
        with autograd.pause():
            net.bias.set_data(nd.zeros(1))
    y.backward()
    net.weight.set_data(nd.zeros((1, 2)))
    assert not net.weight.data().asnumpy().any()


# --- graphs that are freed --------------------------------------------------------------------------------------------


class Step(mx.gluon.HybridBlock):
    """A recurrence of one weight, whose state is a result too."""

    def __init__(self):
        super().__init__()
        self.w = self.params.get("w", shape=(1,), init=mx.init.Constant(2.0))

    def hybrid_forward(self, F, x, s, w):
        s = F.broadcast_mul(s, w) + x
        return s * s, s


@pytest.mark.parametrize("mode", ["eager", "hybridized"])
def test_the_state_of_a_freed_graph_is_a_constant(mode):
    net = Step()
    net.initialize()
    net.hybridize(mode == "hybridized")
    state, value = nd.ones(1), 1.0
    for i in range(4):
        with autograd.record():
            y, state = net(nd.full(1, i), state)
        y.backward()
        after = 2 * value + i
        assert net.w.data().grad.asscalar() == 2 * after * value  # d(after^2)/dw with a constant state
        value = after
        assert state.asscalar() == value


@pytest.mark.parametrize("mode", ["eager", "hybridized"])
def test_the_state_of_a_graph_that_is_kept_is_none(mode):
    net = Step()
    net.initialize()
    net.hybridize(mode == "hybridized")
    with autograd.record():
        _, first = net(nd.ones(1), nd.ones(1))
    first.backward(retain_graph=True)
    with autograd.record():
        _, second = net(nd.ones(1), first)
    second.backward()  # w (w + 1) + 1
    assert net.w.data().grad.asscalar() == 5
    with pytest.raises(MXNetError, match="differentiated already"):
        first.backward()


def variables(*values):
    arrays = [nd.array([value]) for value in values]
    for x in arrays:
        x.attach_grad()
    return arrays


def test_a_part_that_two_heads_share_is_freed_with_the_first():
    x, z = variables(3.0, 5.0)
    with autograd.record():
        a = x * x
        b, c = a * 2, a * z
    b.backward()
    for head in (a, b, c):
        with pytest.raises(MXNetError, match=r"differentiated already and its buffers are freed; .*retain_graph=True"):
            head.backward()
    with autograd.record():
        d = a * x
    d.backward()
    assert x.grad.asscalar() == 9


def test_all_before_a_head_is_freed():
    x, y = variables(3.0, 5.0)
    with autograd.record():
        a = x * x
        c = nd.BlockGrad(a) * y
    c.backward()
    with autograd.record():
        d = a * x
    d.backward()
    assert x.grad.asscalar() == 9  # not 27: a is a constant, though no gradient came through it


def test_autograd_grad_frees_too():
    (x,) = variables(3.0)
    with autograd.record():
        a = x * x
        b = a * 2
    assert autograd.grad(b, [x])[0].asscalar() == 12
    with autograd.record():
        c = a * x
    c.backward()
    assert x.grad.asscalar() == 9


def test_a_freed_graph_holds_nothing():
    (x,) = variables(3.0)
    with autograd.record():
        a = x * x
        b = a * 2
    node = weakref.ref(a._entry[0])
    assert node().entries
    b.backward()
    assert node().entries == ()
    del a
    assert node() is None


def test_a_constant_may_be_written_when_the_graph_is_gone():
    (x,) = variables(3.0)
    c = nd.ones(1)
    with autograd.record():
        y = x * c
    y.backward()
    with autograd.record():
        c += 1
        y = x * c
        del y
        c += 1
    assert c.asscalar() == 3


# --- gradients that are the same everywhere ---------------------------------------------------------------------------


LINEAR = {
    "radians": nd.radians,
    "degrees": nd.degrees,
    "negative": nd.negative,
    "mul": lambda x: x * 2,
    "reflected": lambda x: 2 - x,
    "transpose": nd.transpose,
    "mean": lambda x: x.mean(),
    "floor": nd.floor,
    "sum": lambda x: x.sum(),
    "add": lambda x: x + 1,
    "concat": lambda x: nd.concat(x, x * 2, dim=0),
    "copy": lambda x: x.copyto(mx.cpu(1)),
}


@pytest.mark.parametrize("name", LINEAR)
def test_a_second_derivative_that_is_zero_everywhere(name):
    x = nd.array([0.5, 1.0])
    x.attach_grad()
    x.grad[:] = 9
    with autograd.record():
        (g,) = autograd.grad(LINEAR[name](x), x, create_graph=True)
        penalty = (g - 1) ** 2
    g.backward(retain_graph=True)
    assert x.grad.asnumpy().tolist() == [0, 0]
    x.grad[:] = 9
    penalty.backward()
    assert x.grad.asnumpy().tolist() == [0, 0]


def test_a_second_derivative_that_is_zero_of_a_hybridized_block():
    net = mx.gluon.nn.Dense(1, in_units=2, use_bias=False)
    net.initialize(mx.init.One())
    net.hybridize()
    x = nd.array([[0.5, 1.0]])
    x.attach_grad()
    with autograd.record():
        (g,) = autograd.grad(net(x), x, create_graph=True)
        norm = (g**2).sum()
    norm.backward()
    assert net.weight.data().grad.asnumpy().tolist() == [[2, 2]]
    assert x.grad.asnumpy().tolist() == [[0, 0]]
