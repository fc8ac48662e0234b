"""hvd: collectives and training by ranks, against NumPy and one process on all of the data."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import hybridc as mx
from hybridc import gluon, horovod
from tests.distributed import ranks
from tests.distributed.programs import horovod_training


@pytest.fixture
def hvd():
    horovod.init()
    yield horovod
    horovod.shutdown()


def test_one_process_needs_no_launcher(hvd):
    assert (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size()) == (
        *(0, 1, 0, 1, 0, 1),
    )
    assert not hvd.mpi_enabled()
    assert not hvd.mpi_threads_supported()
    x = mx.nd.array([1.0, -2.0])
    for call in (hvd.allreduce, hvd.allgather, lambda v: hvd.broadcast(v, 0), hvd.alltoall, hvd.reducescatter):
        np.testing.assert_array_equal(call(x).asnumpy(), x.asnumpy())
        assert call(x) is not x
    np.testing.assert_array_equal(hvd.allreduce(x, op=hvd.Sum, prescale_factor=3).asnumpy(), [3, -6])
    result, splits = hvd.alltoall(x, splits=[1])
    assert result.shape == (1,)
    assert splits.asnumpy().tolist() == [1]
    assert hvd.allreduce_(x) is x
    assert hvd.broadcast_object("a") == "a"
    assert hvd.allgather_object("a") == ["a"]
    hvd.broadcast_parameters({"x": x})
    assert hvd.global_process_set.ranks == [0]
    with pytest.raises(ValueError, match="there is a set of the ranks"):
        hvd.add_process_set([0])


def test_integers_are_rounded_toward_zero(hvd):
    x = mx.nd.array([-3, 3], dtype="int32")
    assert hvd.allreduce(x, op=hvd.Sum, postscale_factor=0.5).asnumpy().tolist() == [-1, 1]


def test_before_init_there_are_no_ranks():
    horovod.shutdown()
    for call in (horovod.rank, horovod.local_size, lambda: horovod.allreduce(mx.nd.ones(1))):
        with pytest.raises(ValueError, match=r"Horovod has not been initialized; use hvd.init\(\)."):
            call()


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda h: h.allreduce(np.ones(2)), TypeError, "tensor must be an NDArray, got ndarray"),
        (lambda h: h.allreduce(mx.nd.ones(2), average=True, op=h.Sum), ValueError, "The op parameter supersedes"),
        (
            lambda h: h.allreduce(mx.nd.ones(2), op=h.Adasum),
            mx.MXNetError,
            "Average, Sum, Min, Max or Product, got Ada",
        ),
        (lambda h: h.reducescatter(mx.nd.ones(2), op=h.Max), mx.MXNetError, "hvd.Average or hvd.Sum, got Max"),
        (lambda h: h.broadcast(mx.nd.ones(2), 1), ValueError, "root_rank must be one of the ranks 0, got 1"),
        (lambda h: h.alltoall(mx.nd.ones(2), [3]), ValueError, "splits must be 1 numbers"),
        (lambda h: h.allgather(mx.nd.array(1.0).reshape(())), mx.MXNetError, "no first axis"),
        (lambda h: h.add_process_set([1]), ValueError, "expected different ranks from 0 to 0, at least one, got"),
        (lambda h: h.ProcessSet("ab"), ValueError, "expected a list of ranks"),
        (lambda h: h.allreduce(mx.nd.ones(2), process_set=h.ProcessSet([0])), ValueError, "is not known to Horovod"),
        (lambda h: h.init(comm=[0, 1]), mx.MXNetError, "all 1 ranks take part"),
        (lambda h: h.broadcast_parameters([mx.nd.ones(2)]), ValueError, "invalid params of type"),
    ],
)
def test_wrong_arguments(hvd, call, kind, text):
    with pytest.raises(kind, match=text):
        call(hvd)


def test_trainer_on_several_devices(hvd):
    net = gluon.nn.Dense(2, in_units=2)
    net.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    with pytest.raises(mx.MXNetError, match="start a rank for each device"):
        hvd.DistributedTrainer(net.collect_params(), "sgd")


def test_trainer_unwraps_an_optimizer(hvd):
    net = gluon.nn.Dense(2, in_units=2)
    net.initialize()
    wrapped = hvd.DistributedOptimizer(mx.optimizer.SGD(rescale_grad=0.5))
    with pytest.warns(UserWarning, match="We have unwrapped it for you"):
        trainer = hvd.DistributedTrainer(net.collect_params(), wrapped)
    assert type(trainer.optimizer) is mx.optimizer.SGD
    assert trainer.optimizer.rescale_grad == 0.5


def test_optimizer_has_the_attributes_of_the_one_it_wraps(hvd, tmp_path):
    inner = mx.optimizer.Adam(learning_rate=0.25, beta1=0.7)
    wrapped = hvd.DistributedOptimizer(inner)
    wrapped.rescale_grad = 0.125
    wrapped.set_learning_rate(0.5)
    assert (inner.rescale_grad, inner.lr, wrapped.beta1, wrapped.learning_rate) == (0.125, 0.5, 0.7, 0.5)
    weights = [mx.nd.ones(3), mx.nd.ones(3)]
    grad = mx.nd.array([1.0, 2.0, -3.0])
    mx.optimizer.get_updater(wrapped)(0, grad, weights[0])
    plain = mx.optimizer.get_updater(mx.optimizer.Adam(learning_rate=0.5, beta1=0.7, rescale_grad=0.125))
    plain(0, grad, weights[1])
    np.testing.assert_array_equal(weights[0].asnumpy(), weights[1].asnumpy())
    # What was saved of either goes into the other.
    saved = mx.optimizer.get_updater(wrapped)
    saved(0, grad, weights[0])
    plain.set_states(saved.get_states(dump_optimizer=True))
    assert type(plain.optimizer) is mx.optimizer.Adam
    saved.set_states(plain.get_states(dump_optimizer=True))
    assert type(saved.optimizer) is horovod.DistributedOptimizer
    with pytest.raises(mx.MXNetError, match="wraps Adam; wrap an optimizer of that class"):
        saved.set_states(mx.optimizer.get_updater(mx.optimizer.SGD()).get_states(dump_optimizer=True))


def test_deferred_parameters_are_told_once():
    net = gluon.nn.Dense(2)
    net.initialize()
    seen = []
    net.weight.when_initialized(lambda arrays: seen.append([x.shape for x in arrays]))
    net(mx.nd.ones((1, 3)))
    net.weight.reset_ctx(mx.cpu(1))
    assert seen == [[(2, 3)]]


@pytest.mark.long
def test_alias_has_the_module(tmp_path):
    (tmp_path / "program.py").write_text(
        "import horovod\n"
        "import horovod.mxnet as hvd\n"
        "from horovod.mxnet.mpi_ops import allreduce\n"
        "import mxnet as mx\n"
        "hvd.init()\n"
        "print(hvd.__name__, horovod.__version__, horovod.mxnet is hvd, allreduce is hvd.allreduce, hvd.size())\n"
    )
    command = [sys.executable, "-m", "hybridc", "run", "program.py"]
    path = os.pathsep.join(filter(None, [str(ranks.ROOT), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, check=False
    )
    assert done.stdout.split() == ["hybridc.horovod", "0.28.1", "True", "True", "1"], done.stderr


@pytest.mark.mpi
class TestRanks:
    def test_collectives(self):
        assert ranks.run("horovod_collectives.py").lines == {0: ["ok"], 1: ["ok"]}

    @pytest.mark.long
    def test_collectives_of_three(self):
        assert ranks.run("horovod_collectives.py", ranks=3).lines == {rank: ["ok"] for rank in range(3)}

    @pytest.mark.parametrize(
        ("how", "options", "by"),
        [
            pytest.param("trainer", {}, 1e-6, marks=pytest.mark.long),
            pytest.param("trainer", {"deferred": True, "hybridize": True}, 1e-6, marks=pytest.mark.long),
            pytest.param("trainer", {"optimizer": "adam", "num_groups": 2}, 1e-6, marks=pytest.mark.long),
            pytest.param(
                "trainer",
                {"fp16": True, "num_groups": 3, "gradient_predivide_factor": 2.0},
                1e-3,
                marks=pytest.mark.long,
            ),
            pytest.param("step", {"settings": {"momentum": 0.9}}, 1e-6, marks=pytest.mark.long),
            pytest.param("step", {"fp16": True, "gradient_predivide_factor": 2.0}, 1e-3, marks=pytest.mark.long),
            pytest.param("loop", {"optimizer": "adam"}, 1e-6, marks=pytest.mark.long),
            pytest.param("module", {"settings": {"momentum": 0.9}}, 1e-6, marks=pytest.mark.long),
        ],
    )
    def test_training_equals_that_of_one_process(self, how, options, by):
        lines = ranks.run("horovod_training.py", arguments=[how, json.dumps(options)]).lines
        wanted = horovod_training.main(how, options)
        got = json.loads(lines[0][0])
        assert len(got) == len(wanted)
        for x, y in zip(got, wanted, strict=True):
            np.testing.assert_allclose(x, y, rtol=by, atol=by)

    @pytest.mark.long
    def test_steps_of_a_process_set(self):
        done = ranks.run("horovod_training.py", 3, ["set", "{}"], check=True)
        assert done.lines == {0: ["[]"], 1: ["ok"], 2: ["ok"]}
