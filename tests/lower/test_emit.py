"""Generated programs of the new kernels: run on arrays, against eager calls; and what the poison mode shows."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc.array.ndarray import NDArray
from hybridc.compile.stages import Traced
from hybridc.dialects.mlir.hybrid_rt import ViewOp
from hybridc.gluon.nn import HybridLambda
from hybridc.lower.numpy.emit_module import emit_python_program
from hybridc.runtime.executable import PythonExecutable
from hybridc.trace.tracer import trace_call
from hybridc.transforms.code.array_code import ArrayCodes
from tests.lower.levels import numpy_form, program
from tests.lower.levels import planned as plan


def planned(traced, donated=()):
    """The module of a trace, each operation a kernel of its own."""
    module = numpy_form(traced.optimize())
    plan(module, donated)
    return module


# --- how it reads -----------------------------------------------------------------------------------------


def data(*shape):
    return mx.nd.array(np.random.default_rng(0).normal(size=shape) * 0.3, dtype="float64")


def lambda_of(function, *inputs):
    return Traced(trace_call(HybridLambda(function), list(inputs), False))


def test_views_read_as_numpy_writes_them():
    def function(F, x):
        a = F.slice(F.sort(x), begin=(1, 0), end=(4, 5), step=(2, 1))
        return F.sort(F.transpose(a)), F.sort(F.reshape(F.sort(x), (2, 10)))

    x = data(4, 5)
    source = emit_python_program(planned(lambda_of(function, x)), "forward", ArrayCodes(1), False).source
    for text in ("[1:4:2, :]", ".transpose((1, 0))", ".reshape((20,))", ".reshape((2, 10))"):
        assert text in source


def test_kernels_that_do_the_same_share_a_function():
    def function(F, x, y):
        return F.dot(F.exp(x), F.exp(y)), F.exp(F.exp(y)), F.log(x)

    x, y = data(3, 4), data(4, 7)
    made = emit_python_program(planned(lambda_of(function, x, y)), "forward", ArrayCodes(1), False)
    assert made.source.count("np.exp(") == 1
    assert len({made.functions[n] for n in made.launches if "exp" in n}) == 1
    assert len(made.functions) == len(set(made.launches)) > len(set(made.functions.values()))
    got = PythonExecutable(made)(x.asnumpy(), y.asnumpy())
    a, b = np.exp(x.asnumpy()), np.exp(y.asnumpy())
    for g, want in zip(got, (a @ b, np.exp(b)), strict=False):
        np.testing.assert_allclose(g, want, rtol=1e-12)


def test_arguments_may_have_any_name():
    names = ["arena", "v2", "y3", "sort_0", "fused_exp", "ws"]
    xs = [mx.sym.var(name, shape=(2, 2), dtype="float64") for name in names]
    total = mx.sym.sort(mx.sym.exp(xs[0]))
    for x in xs:
        total = mx.sym.exp(total) * 0.1 + x
    block = mx.gluon.SymbolBlock(total, xs)
    arrays = [data(2, 2) + i for i in range(len(names))]
    want = block(*arrays).asnumpy()
    module = planned(Traced(trace_call(block, arrays, False)))
    function = next(f for f in module.ops if f.sym_name.data == "forward")
    for argument, name in zip(function.body.block.args, names, strict=True):
        argument.name_hint = name
    (got,) = program(module, poison=False)(*[x.asnumpy() for x in arrays])
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_a_call_of_the_host_says_where_it_comes_from():
    made = emit_python_program(planned(lambda_of(lambda F, x: F.sort(x), data(2, 3))), "forward", ArrayCodes(1), False)
    (call,) = made.host_calls
    assert call.startswith("hybrid.sort() at ")
    assert f"  # {call.partition(' at ')[2]}" in made.source


@pytest.mark.parametrize("function", [lambda F, w, g: w - g, lambda F, w, g: F.dot(w, g)])
def test_a_donated_argument_is_the_result(function):
    w, g = data(3, 3).asnumpy(), data(3, 3).asnumpy() + 1
    want = function(mx.nd, NDArray(w.copy()), NDArray(g.copy())).asnumpy()
    module = planned(lambda_of(function, data(3, 3), data(3, 3)), donated=(0, 0))
    (got,) = program(module)(w, g)
    assert got is w
    np.testing.assert_allclose(w, want, rtol=1e-12)


def test_gradients_are_written_where_the_caller_wants_them():
    """Also where the kernel that makes one knows another shape of it."""

    def function(F, x, y):
        return F.sum(F.exp(x) * y, axis=1, keepdims=True)

    x, y = data(3, 1), data(3, 5) + 1
    stage = Traced(trace_call(HybridLambda(function), [x, y], True), (0, 1))
    module = planned(stage)
    made = program(module, "backward", poison=False)
    assert ".reshape((3, 1)) if into[0] is None else into[0]" in made.program.source
    (backward,) = [f for f in module.ops if f.sym_name.data == "backward"]
    known = [x.asnumpy(), y.asnumpy(), *program(module)(x.asnumpy(), y.asnumpy())]
    saved = [known[i] for i in backward.attributes["hybrid.saved"].get_values()]
    ograd = np.arange(3.0).reshape(3, 1)
    want = (np.exp(known[0]) * ograd * known[1]).sum(1, keepdims=True), np.exp(known[0]) * ograd * np.ones((3, 5))
    places = [np.full((3, 1), np.nan), np.full((3, 5), np.nan)]
    for into in (places, [None, None], [places[0], None]):
        got = made(into, *saved, ograd)
        for place, g, w in zip(into, got, want, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-12)
            assert place is None or g is place


# --- poison -----------------------------------------------------------------------------------------------


def powers(F, x):
    a = F.exp(x)
    b = F.dot(a, a)
    return F.dot(b, a) + F.sum(b)


def sum_between(F, x):
    """Between the first value and its use another one comes and goes."""
    a = F.exp(x)
    total = F.sum(F.dot(x, x))
    return F.dot(a, a) + total


def test_poison_shows_an_array_that_is_overwritten_too_early():
    x = data(4, 4)
    module = planned(lambda_of(sum_between, x))
    a, b = [op for op in module.walk() if isinstance(op, ViewOp) and op.array.type.get_shape() == (4, 4)][:2]
    assert np.isfinite(program(module)(x.asnumpy())[0]).all()
    b.properties["offset"] = a.offset
    assert np.isfinite(program(module, poison=False)(x.asnumpy())[0]).all()
    assert np.isnan(program(module)(x.asnumpy())[0]).all()


def test_poison_shows_what_is_read_before_it_is_written():
    x = data(4, 4)
    module = planned(lambda_of(powers, x))
    launch = next(op for op in module.walk() if op.name == "hybrid_rt.launch")
    launch.detach()
    assert np.isnan(program(module)(x.asnumpy())[0]).all()


def test_poison_shows_what_a_call_leaves_for_the_next():
    """The second call finds no more than the first."""
    x = data(4, 4)
    run = program(planned(lambda_of(powers, x)))
    workspace = run.acquire()
    run.run_in(workspace, [x.asnumpy()])
    arena = next(a for a in run.views(workspace) if a.dtype == np.uint8)
    assert (arena == 255).all()
    assert arena.size
    assert not run.is_pooled


def test_a_fresh_result_that_is_not_written_is_poisoned():
    x = mx.nd.array([[3, 1], [2, 4]], dtype="uint8")
    module = planned(lambda_of(lambda F, x: (F.sort(x), F.sort(F.cast(x, dtype="float32"))), x))
    for launch in [op for op in module.walk() if op.name == "hybrid_rt.launch" and "sort" in op.kernel.string_value()]:
        launch.detach()
    integers, floats = program(module)(x.asnumpy())
    assert (integers == 255).all()
    assert np.isnan(floats).all()


def test_a_momentum_is_written_where_it_was():
    """The product of the gradient goes elsewhere: the old momentum is read after it."""
    net = mx.gluon.nn.Dense(30, in_units=20, use_bias=False)
    net.initialize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    step = mx.gluon.TrainStep(net, mx.gluon.loss.L2Loss(), trainer)
    step(mx.nd.ones((16, 20)), mx.nd.ones((16, 30)))
    ((_, (traced,)),) = step._block.compiled.compilations()
    source = traced.optimize().lower("numpy").programs["forward"].source
    assert "matmul(x0.T, x1, out=w0)" in source
    assert "copyto(state" not in source
