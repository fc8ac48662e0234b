"""Parameters, files, trainers and utilities beyond what MXNet's golden data covers."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest

import hybridc as mx
from hybridc.gluon import nn


def net_of(seed=0):
    net = nn.HybridSequential(prefix="n_")
    with net.name_scope():
        net.add(nn.Dense(3, in_units=4, activation="relu"), nn.Dense(2, in_units=3))
    mx.random.seed(seed)
    net.initialize(mx.init.Normal(1.0))
    return net


def arrays(net):
    return {name: p.data().asnumpy() for name, p in net.collect_params().items()}


def assert_same(net, other):
    for (_, a), (_, b) in zip(arrays(net).items(), arrays(other).items(), strict=True):
        np.testing.assert_array_equal(a, b)


# --- files ------------------------------------------------------------------------------------------------


def test_parameters_survive_a_file(tmp_path):
    file = str(tmp_path / "net.params")
    net, other = net_of(0), net_of(1)
    net.save_parameters(file)
    other.load_parameters(file)
    assert_same(net, other)
    fresh = nn.HybridSequential()
    fresh.add(nn.Dense(3), nn.Dense(2))
    fresh.load_parameters(file, ctx=mx.cpu())
    assert_same(net, fresh)
    deferred = nn.HybridSequential()
    deferred.add(nn.Dense(3), nn.Dense(2))
    deferred.initialize()
    deferred.load_parameters(file)
    assert_same(net, deferred)
    assert sorted(mx.nd.load(file)) == ["0.bias", "0.weight", "1.bias", "1.weight"]
    assert [p.name for p in tmp_path.iterdir()] == ["net.params"]


def test_loaded_parameters_train(tmp_path):
    file = str(tmp_path / "net.params")
    net_of().save_parameters(file)
    net = nn.HybridSequential()
    net.add(nn.Dense(3), nn.Dense(2))
    net.load_parameters(file)
    before = arrays(net)
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    with mx.autograd.record():
        loss = net(mx.nd.ones((2, 4))).sum()
    loss.backward()
    trainer.step(1)
    assert all(np.abs(before[k] - v).max() > 0 for k, v in arrays(net).items() if k.endswith("bias") and "1" in k)


def test_parameter_dicts_survive_a_file(tmp_path):
    file = str(tmp_path / "dict.params")
    net, other, third = net_of(0), net_of(1), net_of(2)
    net.collect_params().save(file, strip_prefix="n_")
    other.collect_params().load(file, restore_prefix="n_")
    assert_same(net, other)
    third.load_parameters(file)  # recognised: no name has a dot
    assert_same(net, third)
    with pytest.warns(UserWarning, match="deprecated"):
        net.save_params(file)
    with pytest.warns(UserWarning, match="deprecated"):
        net_of(3).load_params(file)
    with pytest.raises(ValueError, match="does not start with"):
        net.collect_params().save(file, strip_prefix="x_")


def test_arg_and_aux_prefixes_are_dropped():
    net = net_of()
    named = {f"arg:{k}": mx.nd.zeros(p.shape) for k, p in net.collect_params().items()}
    net.collect_params().load_dict(named)
    assert not any(v.any() for v in arrays(net).values())


def test_missing_and_extra_parameters(tmp_path):
    file = str(tmp_path / "net.params")
    net = net_of()
    net[0:1].save_parameters(file)
    with pytest.raises(AssertionError, match=r"Parameter '1\.weight' is missing in file .*allow_missing=True"):
        net.load_parameters(file)
    net.load_parameters(file, allow_missing=True)
    net.save_parameters(file)
    with pytest.raises(ValueError, match=r"Parameter '1\.weight' loaded from file .* ignore_extra=True"):
        net[0:1].load_parameters(file)
    net[0:1].load_parameters(file, ignore_extra=True)
    table = net.collect_params()
    with pytest.raises(AssertionError, match="is missing in param_dict"):
        table.load_dict({})
    with pytest.raises(AssertionError, match="is not present in ParameterDict"):
        table.load_dict({"other": mx.nd.ones((1,))}, allow_missing=True)


def test_shape_and_dtype_are_checked_on_load(tmp_path):
    file = str(tmp_path / "net.params")
    net = net_of()
    net.cast("float64")
    net.save_parameters(file)
    other = net_of(1)
    with pytest.raises(AssertionError, match=r"dtype incompatible expected .* Set cast_dtype=True"):
        other.load_parameters(file)
    other.load_parameters(file, cast_dtype=True)
    assert other[0].weight.data().dtype == np.float32
    other.load_parameters(file, cast_dtype=True, dtype_source="saved")
    assert other[0].weight.data().dtype == np.float64
    with pytest.raises(AssertionError, match="dtype_source must be"):
        net_of().load_parameters(file, cast_dtype=True, dtype_source="both")
    wide = nn.HybridSequential()
    wide.add(nn.Dense(3, in_units=9), nn.Dense(2))
    with pytest.raises(AssertionError, match=r"shape incompatible expected \(3, 9\) vs saved \(3, 4\)"):
        wide.load_parameters(file, cast_dtype=True)


def test_shared_parameters_are_saved_once_on_request(tmp_path):
    file = str(tmp_path / "net.params")

    def tied():
        net = nn.HybridSequential()
        net.add(nn.Dense(4, in_units=4))
        net.add(nn.Dense(4, in_units=4, params=net[0].params))
        net.initialize(mx.init.Normal(1.0))
        return net

    net, other = tied(), tied()
    net.save_parameters(file, deduplicate=True)
    assert len(mx.nd.load(file)) == 2
    other.load_parameters(file)
    assert_same(net, other)


def test_files_that_are_none_are_refused(tmp_path):
    net = net_of()
    text = tmp_path / "text"
    text.write_text("not arrays")
    with pytest.raises(mx.MXNetError, match="is not a file of arrays"):
        net.load_parameters(str(text))
    with pytest.raises(mx.MXNetError, match="cannot read"):
        net.load_parameters(str(tmp_path / "none"))
    evil = tmp_path / "evil"
    with zipfile.ZipFile(evil, "w") as archive, archive.open("0.weight.npy", "w") as member:
        np.lib.format.write_array(member, np.array([object], dtype=object)[:0], allow_pickle=True)
    with pytest.raises(mx.MXNetError, match="could run code"):
        net.load_parameters(str(evil))


def test_lists_of_arrays_survive_a_file(tmp_path):
    file = str(tmp_path / "list")
    mx.nd.save(file, [mx.nd.ones((2,)), mx.nd.zeros((0, 3), dtype="int32")])
    first, second = mx.nd.load(file)
    assert first.asnumpy().tolist() == [1, 1]
    assert second.shape == (0, 3)
    assert second.dtype == np.int32
    with pytest.raises(TypeError, match="only NDArrays can be saved"):
        mx.nd.save(file, {"a": np.ones(2)})
    with pytest.raises(mx.MXNetError, match="holds a list of arrays"):
        net_of().load_parameters(file)


# --- parameters -------------------------------------------------------------------------------------------


def test_texts_of_errors_name_the_parameter_and_the_way_out():
    param = mx.gluon.Parameter("p", shape=(2, 0), allow_deferred_init=True)
    with pytest.raises(RuntimeError, match=r"Parameter 'p' has not been initialized\. Call initialize\(\)"):
        param.data()
    param.initialize()
    with pytest.raises(mx.errors.DeferredInitializationError, match=r"its shape \(2, 0\) is not known .*in_units"):
        param.data()
    with pytest.raises(RuntimeError, match="was deferred"):
        param.grad()
    param.shape = (2, 3)
    param.finish_deferred_init()
    with pytest.raises(AssertionError, match=r"shape \(5, 5\) is incompatible with its shape \(2, 3\)"):
        param.shape = (5, 5)
    narrow = mx.gluon.Parameter("narrow", shape=(1, 3))
    with pytest.raises(AssertionError, match=r"shape \(2, 3\) is incompatible with its shape \(1, 3\)"):
        narrow.shape = (2, 3)  # one is a size, not an unknown one
    with pytest.warns(UserWarning, match="already initialized, ignoring"):
        param.initialize()
    assert param.var().list_arguments() == [param.name]


def test_devices():
    param = mx.gluon.Parameter("p", shape=(2,))
    with pytest.raises(ValueError, match="ctx is an empty list"):
        param.initialize(ctx=[])
    with pytest.raises(ValueError, match="Cannot reset context"):
        param.reset_ctx(mx.cpu())
    param.initialize(ctx=mx.cpu(1))
    assert param.list_ctx() == [mx.cpu(1)]
    param.reset_ctx(mx.cpu(0))
    assert param.list_ctx() == [mx.cpu(0)]
    assert param.data(mx.cpu(0)) is param.data(mx.cpu_pinned(0)) is param.data()
    with pytest.raises(RuntimeError, match=r"was not initialized on context cpu\(3\)"):
        param.data(mx.cpu(3))
    with pytest.raises(RuntimeError, match=r"was not initialized on context gpu\(0\)"):
        param.data(mx.gpu(0))


def test_sparse_parameters():
    p = mx.gluon.Parameter("p", shape=(4, 2), stype="row_sparse", grad_stype="row_sparse")
    p.initialize(mx.init.One())
    assert (p.data().stype, p.grad().stype) == ("row_sparse", "row_sparse")
    some = p.row_sparse_data(mx.nd.array([2, 0, 2]))
    assert some.indices.asnumpy().tolist() == [0, 2]
    p.zero_grad()
    assert not p.grad().asnumpy().any()
    p.cast("float64")
    assert (p.data().stype, p.data().dtype) == ("row_sparse", np.float64)
    p.set_data(mx.nd.array([[1, 2], [0, 0], [3, 4], [0, 0]]))
    assert p.data().indices.asnumpy().tolist() == [0, 2]
    dense = mx.gluon.Parameter("q", shape=(2, 2))
    dense.initialize()
    with pytest.raises(RuntimeError, match=r"storage type default.*use data\(\)"):
        dense.row_sparse_data(mx.nd.array([0]))
    with pytest.raises(AssertionError, match="grad_stype must be one of"):
        mx.gluon.Parameter("p", grad_stype="dense")


def test_constants():
    table = mx.gluon.ParameterDict("t_")
    for value in ([[1, 2]], np.array([[1.0, 2.0]]), mx.nd.array([[1, 2]])):
        constant = table.get_constant("c", value)
    table.initialize(mx.init.Zero())
    assert constant.data().asnumpy().tolist() == [[1, 2]]
    assert constant.data().dtype == np.float32
    with pytest.warns(UserWarning, match="does not support grad_req"):
        constant.grad_req = "write"
    with pytest.raises(RuntimeError, match="grad_req='null'"):
        constant.grad()
    constant.set_data(mx.nd.array([[3, 4]]))
    assert constant.data().asnumpy().tolist() == [[3, 4]]
    table.get("w", shape=(1,))
    with pytest.raises(AssertionError, match="is not a constant"):
        table.get_constant("w", [1])


def test_gradient_requests_can_change():
    net = nn.Dense(1, in_units=2, use_bias=False)
    net.initialize(mx.init.One())
    x = mx.nd.array([[1, 2]])

    def backward():
        with mx.autograd.record():
            y = net(x)
        y.backward()

    net.weight.grad_req = "add"
    backward()
    backward()
    assert net.weight.grad().asnumpy().tolist() == [[2, 4]]
    net.zero_grad()
    assert net.weight.grad().asnumpy().tolist() == [[0, 0]]
    net.weight.grad_req = "write"
    backward()
    backward()
    assert net.weight.list_grad()[0].asnumpy().tolist() == [[1, 2]]


# --- trainer ----------------------------------------------------------------------------------------------


def steps(net, trainer, count):
    for i in range(count):
        with mx.autograd.record():
            loss = (net(mx.nd.ones((2, 4)) * (i + 1)) ** 2).sum()
        loss.backward()
        trainer.step(2)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_trainer_states_survive_a_file(tmp_path, optimizer):
    file = str(tmp_path / "trainer.states")
    options = {"learning_rate": 0.01, "momentum": 0.9} if optimizer == "sgd" else {"learning_rate": 0.01}
    net, other = net_of(), net_of()
    trainer = mx.gluon.Trainer(net.collect_params(), optimizer, options)
    steps(net, trainer, 3)
    trainer.save_states(file)
    for name, param in other.collect_params().items():
        param.set_data(net.collect_params()[name].data())
    second = mx.gluon.Trainer(other.collect_params(), optimizer, {"learning_rate": 0.5})
    second.load_states(file)
    assert second.learning_rate == 0.01
    steps(net, trainer, 2)
    steps(other, second, 2)
    assert_same(net, other)


def test_stale_gradients_name_the_parameter():
    net = net_of()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0})
    with mx.autograd.record():
        loss = net[0](mx.nd.ones((2, 4))).sum()
    loss.backward()
    before = arrays(net)
    with pytest.raises(UserWarning, match=r"Gradient of Parameter `n_dense1_bias` on context cpu\(0\)"):
        trainer.step(1)
    assert_same(net, net)
    trainer.step(1, ignore_stale_grad=True)
    after = arrays(net)
    np.testing.assert_array_equal(before["n_dense1_weight"], after["n_dense1_weight"])
    assert np.abs(before["n_dense0_weight"] - after["n_dense0_weight"]).max() > 0


# --- utilities --------------------------------------------------------------------------------------------


def test_clip_global_norm():
    made = [mx.nd.array([3.0]), mx.nd.array([[4.0]])]
    assert mx.gluon.utils.clip_global_norm(made, 10.0) == 5.0
    assert made[0].asscalar() == 3.0
    norm = mx.gluon.utils.clip_global_norm(made, 1.0, check_isfinite=False)
    assert norm.shape == (1,)
    np.testing.assert_allclose([made[0].asscalar(), made[1].asscalar()], [0.6, 0.8], rtol=1e-6)
    with pytest.warns(UserWarning, match="nan or inf"):
        mx.gluon.utils.clip_global_norm([mx.nd.array([np.nan])], 1.0)
    huge = [mx.nd.array([1e30, 1e30])]
    mx.gluon.utils.clip_global_norm(huge, 1.0)
    np.testing.assert_allclose(huge[0].asnumpy(), np.sqrt([0.5, 0.5]), rtol=1e-5)
    half = [mx.nd.array([300.0, 400.0], dtype="float16")]
    assert mx.gluon.utils.clip_global_norm(half, 1000.0) == 500.0
    with pytest.raises(AssertionError, match="at least one array"):
        mx.gluon.utils.clip_global_norm([], 1.0)


def test_poisson_loss_of_zero_counts_is_finite():
    loss = mx.gluon.loss.PoissonNLLLoss(compute_full=True)
    pred = mx.nd.array([[0.5, 0.5]])
    pred.attach_grad()
    with mx.autograd.record():
        value = loss(pred, mx.nd.array([[0, 3]]))
    value.backward()
    stirling = 3 * np.log(3) - 3 + 0.5 * np.log(2 * np.pi * 3)
    expected = (np.exp(0.5) + np.exp(0.5) - 3 * 0.5 + stirling) / 2
    np.testing.assert_allclose(value.asnumpy(), [expected], rtol=1e-5)
    assert np.isfinite(pred.grad.asnumpy()).all()


def test_loss_weights_must_be_numbers():
    with pytest.raises(AssertionError, match="weight must be a number"):
        mx.gluon.loss.L1Loss(weight="2")(mx.nd.ones((2,)), mx.nd.ones((2,)))


# --- shapes that follow ---------------------------------------------------------------------------------------


class Weighted(mx.gluon.HybridBlock):
    """What ``function(F, x, w)`` computes, with a parameter w."""

    def __init__(self, function, shape=None, **kwargs):
        super().__init__(**kwargs)
        self.function = function
        with self.name_scope():
            self.w = self.params.get("w", shape=shape, allow_deferred_init=True, init="ones")

    def hybrid_forward(self, F, x, w):
        return self.function(F, x, w)


def both(net):
    """The net, eager and hybridized, each initialized anew."""
    for active in (False, True):
        net.initialize(force_reinit=True)
        net.hybridize(active)
        yield net


# Of these MXNet 1.9.1 says nothing, or refuses them: here what broadcasts is taken to have the shape of the other.
MORE = {
    "broadcast_add": (lambda F, x, w: F.broadcast_add(x, w), None, (2, 3)),
    "broadcast_add, one size": (lambda F, x, w: F.broadcast_add(x, w), (1, 0), (1, 3)),
    "transpose": (lambda F, x, w: x + F.transpose(w), None, (3, 2)),
    "transpose, axes": (
        lambda F, x, w: F.elemwise_add(F.expand_dims(x, axis=0), F.transpose(w, axes=(2, 0, 1))),
        (0, 3, 0),
        (2, 3, 1),
    ),
    "softmax": (lambda F, x, w: F.elemwise_add(x, F.softmax(w)), None, (2, 3)),
    "+ of another shape": (
        lambda F, x, w: F.sum(w) + F.FullyConnected(x, w, num_hidden=4, no_bias=True),
        None,
        (4, 3),
    ),
}


@pytest.mark.parametrize("name", MORE)
def test_shapes_that_follow_beyond_those_of_mxnet(name):
    function, declared, wanted = MORE[name]
    for active in (False, True):
        net = Weighted(function, declared)
        net.initialize()
        net.hybridize(active)
        net(mx.nd.ones((2, 3)))
        assert net.w.shape == wanted


def test_shapes_that_follow_from_the_end_in_a_network():
    for active in (False, True):
        net = nn.HybridSequential()
        with net.name_scope():
            net.add(nn.Dense(4), Weighted(lambda F, x, w: F.elemwise_mul(x, F.exp(w))), nn.Dense(2))
        net.initialize()
        net.hybridize(active)
        x = mx.nd.ones((3, 5))
        with mx.autograd.record():
            y = net(x)
        y.backward()
        assert [p.shape for p in net.collect_params().values()] == [(4, 5), (4,), (3, 4), (2, 4), (2,)]
        assert net[1].w.grad().shape == (3, 4)


def test_shapes_that_do_not_follow():
    net = Weighted(lambda F, x, w: F.dot(x, w), prefix="net_")
    line = test_shapes_that_do_not_follow.__code__.co_firstlineno + 1
    for _ in both(net):
        with pytest.raises(ValueError) as error:
            net(mx.nd.ones((2, 3)))
        assert str(error.value) == (
            f"Deferred initialization failed because shape cannot be inferred. {__file__}:{line} (in net): dot: the "
            "shape of net_w is unknown, and does not follow from the other inputs; give it where the parameter is made"
        )


def test_a_parameter_that_is_not_used_has_no_shape():
    net = Weighted(lambda F, x, w: x * 2, prefix="net_")
    for _ in both(net):
        with pytest.raises(ValueError) as error:
            net(mx.nd.ones((2, 3)))
        assert str(error.value).removesuffix(" (in net)") == (
            "Deferred initialization failed because shape cannot be inferred. the shape of net_w cannot be inferred "
            "from the inputs; give it where the parameter is made (in_units=…, shape=…), or use it in an operator that "
            "infers it, such as F.FullyConnected"
        )


def test_a_block_that_asks_for_shapes_says_why_it_failed():
    net = Weighted(lambda F, x, w: x + F.exp(w).shape[0], prefix="net_")
    for _ in both(net):
        with pytest.raises(ValueError, match="the shape of exp0 is unknown, and does not follow"):
            net(mx.nd.ones((2, 3)))


@pytest.mark.parametrize("hybridized", [False, True])
def test_values_for_an_unknown_size_are_refused_when_it_is_known(hybridized):
    net = nn.Dense(4)
    net.initialize()
    net.hybridize(hybridized)
    net.weight.set_data(mx.nd.zeros((4, 0)))
    with pytest.raises(
        mx.MXNetError, match=r"dense\d+_weight' has shape \(4, 3\), but was given values of shape \(4, 0\)"
    ):
        net(mx.nd.ones((2, 3)))
    net.weight.set_data(mx.nd.ones((4, 3)))
    assert net(mx.nd.ones((2, 3))).asnumpy().tolist() == [[3] * 4] * 2
