"""``mx.debug.detect_anomaly``: the operator, the line and the inputs of the first NaN or infinity."""

import inspect
import threading

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd
from hybridc.errors import AnomalyError
from hybridc.gluon import nn
from hybridc.ground.events import RECORDER


class Net(mx.gluon.HybridBlock):
    """A logarithm of something that may be negative, between layers that make no NaN of their own."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.first, self.last = nn.Dense(3, use_bias=False, in_units=2), nn.Dense(2, in_units=3)

    def hybrid_forward(self, F, x):
        y = self.first(x)
        return self.last(F.sqrt(F.abs(F.log(y))))  # the line


LINE = inspect.getsourcelines(Net)[1] + inspect.getsourcelines(Net)[0].index(
    "        return self.last(F.sqrt(F.abs(F.log(y))))  # the line\n"
)


@pytest.fixture(params=[False, True], ids=["eager", "hybridized"])
def net(request):
    made = Net(prefix="net_")
    made.initialize(mx.init.One())
    made.hybridize(request.param)
    return made


def test_a_forward_names_operator_line_block_and_inputs(net):
    x = mx.nd.array([[1.0, -3], [2, 1]])
    net(x)
    with mx.debug.detect_anomaly():
        net(mx.nd.abs(x))
        with pytest.raises(AnomalyError) as error:
            net(x)
    text = str(error.value)
    assert text.splitlines()[0] == f"{__file__}:{LINE} (in net): NaN in the result of log"
    assert text.splitlines()[1] == "  data: float32[2, 3], from -2 to 3"
    assert np.isnan(net(x).asnumpy()).any()  # nothing is looked at any more


def test_a_backward_names_the_operator_of_the_forward(net):
    x = mx.nd.array([[1.0, 1], [2, 1]])
    x = x / net.first(x)[:, :1]  # so that the logarithm is 0, and its root has no derivative
    x.attach_grad()
    with mx.debug.detect_anomaly():
        with autograd.record():
            loss = net(x).sum()
        with pytest.raises(AnomalyError) as error:
            loss.backward()
    first, *others = str(error.value).splitlines()
    assert first == f"{__file__}:{LINE} (in net): infinity in the gradient of input 0 of sqrt"
    assert others == ["  gradient of result 0: float32[2, 3], from 2 to 2", "  input 0: float32[2, 3], from 0 to 0"]


def test_nan_in_the_data_is_told_where_it_is_met(net):
    with mx.debug.detect_anomaly(), pytest.raises(AnomalyError) as error:
        net(mx.nd.array([[1.0, np.nan], [2, 1]]))
    assert "NaN in the result of FullyConnected" in str(error.value).splitlines()[0]
    assert "  data: float32[2, 2], from 1 to 2, 1 of 4 NaN" in str(error.value)


def test_infinities_that_are_meant():
    """A mask of -inf is made without inputs, or given; what has it among its inputs may have it in its result."""
    x = mx.nd.array([[1.0, 2, 3]])
    with mx.debug.detect_anomaly():
        mask = mx.nd.full((1, 3), -np.inf)
        assert mx.nd.softmax(mx.nd.where(x > 2, x, mask)).asnumpy().tolist() == [[0, 0, 1]]
        assert np.isinf((x + mask).asnumpy()).all()
        assert np.isinf(mx.nd.maximum(x, np.inf).asnumpy()).all()
        with pytest.raises(AnomalyError, match="infinity in the result of exp"):
            mx.nd.exp(x * 100)
        with pytest.raises(AnomalyError, match=r"infinity in the result of .*div"):
            x / mx.nd.zeros((1, 3))


@pytest.mark.parametrize("dtype", ["float16", "float64", "bfloat16"])
def test_dtypes(dtype):
    with mx.debug.detect_anomaly(), pytest.raises(AnomalyError, match=f"data: {dtype}"):
        mx.nd.log(mx.nd.array([-1], dtype=dtype))


def test_integers_empty_arrays_and_arrays_of_np():
    with mx.debug.detect_anomaly():
        mx.nd.broadcast_div(mx.nd.array([1], dtype="int32"), mx.nd.array([0], dtype="int32"))
        mx.nd.log(mx.nd.zeros((0, 3)))
        with pytest.raises(AnomalyError, match="NaN in the result"):
            mx.np.log(mx.np.array([-1.0]))
        with pytest.raises(AnomalyError, match="NaN in the result"):
            mx.np.array([0.0]) / 0


def test_sparse_arrays():
    x = mx.nd.array([[0, 4.0], [0, 0]]).tostype("csr")
    with mx.debug.detect_anomaly():
        mx.nd.sqrt(x)
        with pytest.raises(AnomalyError, match="NaN in the result of sqrt"):
            mx.nd.sqrt(x * -1)


@pytest.mark.parametrize("of_rows", [False, True])
def test_a_training_step(of_rows):
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Embedding(4, 2, sparse_grad=of_rows), nn.Dense(1))
    net.initialize(mx.init.One())
    net.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    step = mx.gluon.TrainStep(net, mx.gluon.nn.HybridLambda(lambda F, out, label: F.log(out - label)), trainer)
    x = mx.nd.array([[1, 2]])
    with mx.debug.detect_anomaly():
        step(x, mx.nd.array([[0]]))
        with pytest.raises(AnomalyError, match="NaN in the result of log"):
            step(x, mx.nd.array([[99]]))


def test_executors_and_other_threads():
    executor = mx.sym.log(mx.sym.var("x") + 1, name="l").bind(mx.cpu(), {"x": mx.nd.array([-2.0])})
    errors = []

    def work():
        with pytest.raises(AnomalyError) as error:
            executor.forward()
        errors.append(str(error.value))

    executor.forward()
    with mx.debug.detect_anomaly():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert "NaN in the result of log" in errors[0]


def test_nested_and_left_by_an_error():
    plain = mx.nd.log.__code__
    with mx.debug.detect_anomaly():
        with pytest.raises(AnomalyError), mx.debug.detect_anomaly():
            mx.nd.log(mx.nd.array([-1]))
        assert mx.nd.log.__code__ is not plain
        with pytest.raises(AnomalyError):
            mx.nd.log(mx.nd.array([-1]))
    assert mx.nd.log.__code__ is plain
    assert RECORDER.detector is None
    assert not RECORDER.operators
    mx.nd.log(mx.nd.array([-1]))


def test_beside_the_profiler(tmp_path):
    mx.profiler.set_config(filename=str(tmp_path / "trace.json"), profile_imperative=True)
    mx.profiler.set_state("run")
    try:
        with mx.debug.detect_anomaly():
            mx.nd.exp(mx.nd.ones((2,)))
        mx.nd.exp(mx.nd.ones((2,)))
    finally:
        mx.profiler.set_state("stop")
    assert mx.profiler.dumps(reset=True).count("exp") >= 1
    with mx.debug.detect_anomaly():
        mx.nd.exp(mx.nd.ones((2,)))
    assert "exp" not in mx.profiler.dumps(reset=True)


def test_a_monitor_looks_at_a_block():
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(2, in_units=3, prefix="d_"))
    net.initialize(mx.init.One())
    net.hybridize()
    monitor = mx.monitor.Monitor(1, stat_func=lambda x: x.sum(), pattern="net_d.*(fwd|weight)")
    monitor.install(net)
    monitor.tic()
    net(mx.nd.ones((1, 3)))
    found = {name: float(text) for _, name, text in monitor.toc()}
    assert found == {"net_d_fwd_output": 6.0, "net_d_weight": 6.0}


# --- indices -----------------------------------------------------------------------------------------------------


class Words(mx.gluon.HybridBlock):
    """Word vectors and a loss over three classes."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.words = nn.Embedding(5, 3)
            self.loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def hybrid_forward(self, F, words, labels):
        scores = self.words(words)
        return self.loss(scores, labels)


@pytest.fixture(params=[False, True], ids=["eager", "hybridized"])
def words(request):
    made = Words(prefix="net_")
    made.initialize()
    made.hybridize(request.param)
    return made


@pytest.mark.parametrize(
    ("inputs", "labels", "text"),
    [
        ([1, 7], [0, 1], "(in net_embedding0): Embedding: index 7 in data[1] is no integer from 0 to 4; 1 of 2"),
        ([-1, 0], [0, 1], "(in net_embedding0): Embedding: index -1 in data[0] is no integer from 0 to 4; 1 of 2"),
        ([0.7, 0.5], [0, 1], "Embedding: index 0.7 in data[0] is no integer from 0 to 4; 2 of 2"),
        ([1, 2], [0, 99], "(in net_softmaxcrossentropyloss0): pick: index 99 in index[1] is no integer from 0 to 2"),
        ([1, 2], [float("nan"), 0], "pick: index nan in index[0] is no integer from 0 to 2"),
    ],
)
def test_indices_out_of_range(words, inputs, labels, text):
    inputs, labels = mx.nd.array(inputs), mx.nd.array(labels)
    before = words(inputs, labels).asnumpy()  # clipped
    assert np.isfinite(before).all()
    with mx.debug.check_indices():
        words(mx.nd.array([0, 4]), mx.nd.array([2, 0]))
        with pytest.raises(mx.errors.IndexRangeError) as error:
            words(inputs, labels)
        with autograd.record(), pytest.raises(IndexError):
            words(inputs, labels)
    assert __file__ in str(error.value)
    assert text in str(error.value)
    np.testing.assert_array_equal(words(inputs, labels).asnumpy(), before)


@pytest.mark.parametrize(
    "call",
    [
        lambda: mx.nd.take(mx.nd.ones((3, 2)), mx.nd.array([3])),
        lambda: mx.nd.one_hot(mx.nd.array([1, -1]), 3),
        lambda: mx.nd.batch_take(mx.nd.ones((2, 3)), mx.nd.array([3, 0], dtype="int32")),
        lambda: mx.nd.pick(mx.nd.ones((2, 3)), mx.nd.array([0, 3])),
        lambda: mx.nd.softmax_cross_entropy(mx.nd.ones((2, 3)), mx.nd.array([0, 3])),
    ],
)
def test_operators_with_indices(call):
    call()
    with mx.debug.check_indices(), pytest.raises(mx.errors.IndexRangeError, match="is no integer from 0 to 2"):
        call()
    call()


def test_indices_that_wrap_are_in_range():
    with mx.debug.check_indices():
        mx.nd.take(mx.nd.ones((3, 2)), mx.nd.array([7]), mode="wrap")
        mx.nd.array([1.0, 2]) / 0  # infinities are nobody's business here


def test_labels_that_are_nan_are_anomalies(words):
    with mx.debug.detect_anomaly():
        words(mx.nd.array([1, 7]), mx.nd.array([0, 99]))  # clipped
        with pytest.raises(AnomalyError, match=r"pick: index nan in index\[1\]"):
            words(mx.nd.array([1, 7]), mx.nd.array([0, np.nan]))


def test_both_searches_together():
    with mx.debug.detect_anomaly(), mx.debug.check_indices():
        with pytest.raises(AnomalyError):
            mx.nd.log(mx.nd.array([-1.0]))
        with pytest.raises(mx.errors.IndexRangeError):
            mx.nd.one_hot(mx.nd.array([7]), 3)
    assert RECORDER.detector is None
