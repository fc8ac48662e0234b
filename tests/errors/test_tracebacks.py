"""Tracebacks of errors that leave the library show the user's frames; the option shows all."""

from __future__ import annotations

import dataclasses
import logging
import pdb
import pickle  # noqa: TID251  (errors travel between processes so)
import subprocess
import sys
import textwrap
import threading
import traceback
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd, gluon, nd, op
from hybridc.errors import VerifyError
from hybridc.gluon import HybridBlock, nn
from hybridc.ground.display import tracebacks

PACKAGE = str(Path(mx.__file__).parent)
X = nd.ones((2, 3))


def raised(function):
    """The error of a call, once more than it takes to compile."""
    with pytest.raises(Exception) as first:
        function()
    with pytest.raises(type(first.value)) as caught:
        function()
    return caught.value


def shown(error):
    """The frames that Python prints: their functions, in all parts, without that of :func:`raised`."""
    frames = []
    while error is not None:
        frames += traceback.extract_tb(error.__traceback__)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return [f.name for f in frames if f.name != "raised"]


def texts(error):
    """What is printed, and how many tracebacks that is."""
    text = "".join(traceback.format_exception(error))
    return text, text.count("Traceback (most recent call last)")


class Layer(HybridBlock):
    """A network of a layer that does what a function says."""

    def __init__(self, function, hybridized=False):
        super().__init__()
        self.inner = function if isinstance(function, HybridBlock) else Layer.Inner(function)
        self.hybridize(hybridized)

    def hybrid_forward(self, F, x):
        return self.inner(x)

    class Inner(HybridBlock):
        def __init__(self, function):
            super().__init__()
            self.function = function

        def hybrid_forward(self, F, x):
            return self.function(F, x)


# --- the user's frames, and no others ------------------------------------------------------------------------


def wrong_dot(F, x):
    y = F.exp(x)
    return F.dot(y, y)


def assigned(x):
    x[5] = 3


def added(x):
    x += nd.ones((4, 5))


EAGER = {
    "a function": lambda: nd.dot(X, X),
    "an operator of Python": lambda: X + nd.ones((4, 5)),
    "its reflection": lambda: "a" + X,
    "a method": lambda: X.dot(X),
    "reshape": lambda: X.reshape((4, 4)),
    "an index": lambda: X[7],
    "an attribute": lambda: nd.softmax(X, axis=9),
    "an unknown keyword": lambda: nd.softmax(X, axs=1),
    "a symbol": lambda: mx.sym.dot(mx.sym.var("a"), mx.sym.var("b"), no_such=1),
    "arrays of mx.np": lambda: mx.np.ones((2, 3)) + mx.np.ones((4, 5)),
    "a loss": lambda: gluon.loss.L2Loss()(X, nd.ones((7,))),
    "a metric": lambda: mx.metric.Accuracy().update([nd.ones((7,))], [X]),
    "a gradient": lambda: autograd.grad(X, [X]),
    "a file": lambda: nn.Dense(3).load_parameters("/nosuch"),
    "states of a layer": lambda: gluon.rnn.LSTM(2)(X),
    "a module": lambda: mx.mod.Module(mx.sym.var("x")),
    "a module's fit": lambda: module().fit(mx.io.NDArrayIter(np.ones((4, 3)), np.ones(4), 2), num_epoch=1),
    "a module's forward": lambda: module().forward(mx.io.DataBatch([X])),
    "shapes of a symbol": lambda: dots().infer_shape(a=(2, 3)),
    "a symbol's executor": lambda: dots().simple_bind(mx.cpu(), a=(2, 3)),
    "values of a symbol": lambda: dots().eval(a=X),
    "an executor": lambda: mx.sym.exp(mx.sym.var("a")).simple_bind(mx.cpu(), a=(2,)).forward(a=X),
}


def dots():
    return mx.sym.dot(mx.sym.var("a"), mx.sym.var("a"))


def module():
    return mx.mod.Module(mx.sym.SoftmaxOutput(mx.sym.reshape(mx.sym.var("data"), shape=(4, 4)), name="softmax"))


@pytest.mark.parametrize("name", EAGER)
def test_an_eager_call_is_one_frame(name):
    error = raised(EAGER[name])
    assert shown(error) == ["<lambda>"]
    text, count = texts(error)
    assert count == 1
    assert PACKAGE not in text
    assert "of hybridc are hidden; HYBRIDC_TRACEBACK=full shows them)" in text.splitlines()[-1]


def test_statements_that_change_arrays():
    assert shown(raised(lambda: assigned(nd.ones((2, 3))))) == ["<lambda>", "assigned"]
    assert shown(raised(lambda: added(nd.ones((2, 3))))) == ["<lambda>", "added"]


@pytest.mark.parametrize("hybridized", [False, True])
def test_a_network_shows_its_forwards(hybridized):
    net = Layer(wrong_dot, hybridized)
    error = raised(lambda: net(X))
    assert shown(error) == ["<lambda>", "hybrid_forward", "hybrid_forward", "wrong_dot"]
    text, count = texts(error)
    assert count == 1
    assert PACKAGE not in text
    assert "dot: the axis of lhs" in text


@pytest.mark.parametrize("hybridized", [False, True])
def test_layers_of_the_library_are_hidden(hybridized):
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=3), nn.Dense(4, in_units=7))
    net.initialize()
    net.hybridize(hybridized)
    error = raised(lambda: net(X))
    assert shown(error) == ["<lambda>"]
    assert f"(in {net[1].name})" in str(error)


@pytest.mark.parametrize("hybridized", [False, True])
def test_a_users_own_error_keeps_its_frames_and_causes(hybridized):
    def forward(F, x):
        try:
            return {}["key"]
        except KeyError as error:
            raise OSError("mine") from error

    net = Layer(forward, hybridized)
    error = raised(lambda: net(X))
    assert type(error) is OSError
    assert isinstance(error.__cause__, KeyError)
    assert shown(error) == ["<lambda>", "hybrid_forward", "hybrid_forward", "forward", "forward"]


def test_a_users_error_that_cannot_be_changed():
    @dataclasses.dataclass(frozen=True)
    class Frozen(Exception):
        number: int

    def forward(F, x):
        raise Frozen(3)

    net = Layer(forward)
    error = raised(lambda: net(X))
    assert error.number == 3
    assert shown(error) == ["<lambda>", "hybrid_forward", "hybrid_forward", "forward"]


def test_numpy_is_shown_where_the_user_called_it_and_hidden_where_hybridc_did():
    class Singular(gluon.Block):
        def forward(self, x):
            return np.linalg.inv(np.zeros((2, 2)))

    net = Singular()
    frames = shown(raised(lambda: net(X)))
    assert frames[:2] == ["<lambda>", "forward"]
    assert "inv" in frames  # NumPy's
    assert shown(raised(lambda: nd.linalg.inverse(nd.ones((2, 3))))) == ["<lambda>"]


def test_an_estimator():
    data = gluon.data.DataLoader(gluon.data.ArrayDataset(np.ones((2, 3), "f"), np.ones((2, 9), "f")), 2)
    net = nn.Dense(3, in_units=3)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    estimator = gluon.contrib.estimator.Estimator(net, gluon.loss.L2Loss(), trainer=trainer)
    assert shown(raised(lambda: estimator.fit(data, epochs=1))) == ["<lambda>"]


def test_a_warning_of_a_module_names_the_users_line():
    with pytest.warns(UserWarning, match="label_names") as caught:
        made = mx.mod.Module(mx.sym.exp(mx.sym.var("data")))
    with pytest.warns(UserWarning, match="label_shapes") as bound:
        made.bind([("data", (2, 3))])
    made.init_params()
    with pytest.warns(UserWarning, match="init_params call ignored") as again:
        made.init_params()
    assert {w.filename for w in (*caught, *bound, *again)} == {__file__}


def test_backward_and_step():
    assert shown(raised(lambda: X.sum().backward())) == ["<lambda>"]
    net = nn.Dense(3, in_units=3)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", kvstore=None)
    error = raised(lambda: trainer.step(1))
    assert "stale" in str(error) or "backward" in str(error)
    assert shown(error) == ["<lambda>"]


class Fails(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        if self.where == "forward":
            self.explode()
        self.assign(out_data[0], req[0], in_data[0])

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.explode()

    def explode(self):
        return 1 / 0


@mx.operator.register("tracebacks_fails")
class FailsProp(mx.operator.CustomOpProp):
    def __init__(self, where):
        super().__init__(need_top_grad=True)
        self.where = where

    def create_operator(self, ctx, shapes, dtypes):
        made = Fails()
        made.where = self.where
        return made


def custom(F, x):
    return F.Custom(x, op_type="tracebacks_fails", where="forward")


@pytest.mark.parametrize("hybridized", [None, False, True])
def test_the_authors_frames_of_a_custom_operator(hybridized):
    net = custom if hybridized is None else Layer(custom, hybridized)
    error = raised((lambda: custom(nd, X)) if net is custom else (lambda: net(X)))
    assert isinstance(error, mx.errors.CustomOpError)
    assert [f.name for f in traceback.extract_tb(error.__cause__.__traceback__)] == ["forward", "explode"]
    assert PACKAGE not in texts(error)[0]
    assert texts(error)[1] == 2  # what the author's code raised, and what that means


def test_the_authors_frames_of_a_custom_backward():
    x = nd.ones((2, 2))
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, op_type="tracebacks_fails", where="backward")
    error = raised(lambda: y.backward(retain_graph=True))
    assert shown(error) == ["<lambda>", "backward", "explode"]


@op.register("tests.tracebacks_composed", "tracebacks_composed")
class Composed(op.Composite):
    """exp(x) exp(x)"""

    def decompose(self, F, x):
        y = F.exp(x)
        return F.dot(y, y)

    def infer_shape(self, in_shapes):
        return in_shapes, in_shapes


@pytest.mark.parametrize("hybridized", [False, True])
def test_a_decomposition_reads_once(hybridized):
    net = Layer(lambda F, x: F.tracebacks_composed(x), hybridized)
    error = raised(lambda: net(X))
    text, count = texts(error)
    assert count == 1, text
    assert text.count("return F.dot(y, y)") == 1, text
    assert PACKAGE not in text


@pytest.mark.parametrize("mode", [{}, {"num_workers": 1}, {"num_workers": 1, "thread_pool": True}])
def test_a_data_set_in_a_worker(mode):
    class Faulty:
        def __len__(self):
            return 4

        def __getitem__(self, index):
            return nd.dot(X, X)

    loader = gluon.data.DataLoader(Faulty(), 2, **mode)
    error = raised(lambda: next(iter(loader)))
    text, _ = texts(error)
    assert "return nd.dot(X, X)" in text
    assert PACKAGE not in text
    assert text.count("in __getitem__") == 1
    assert sum("hidden" in note for note in error.__notes__) == 1


# --- the option, and what becomes of the other frames ---------------------------------------------------------


def full(monkeypatch):
    monkeypatch.setattr(tracebacks, "OPTIONS", dataclasses.replace(tracebacks.OPTIONS, traceback="full"))


def test_the_option_shows_all_frames(monkeypatch):
    net = Layer(wrong_dot, True)
    hidden = len(shown(raised(lambda: net(X))))
    full(monkeypatch)
    error = raised(lambda: net(X))
    text, _ = texts(error)
    assert len(shown(error)) > hidden + 10
    assert "hybrid_block.py" in text
    assert "hidden" not in text


def test_the_note_counts_what_the_option_shows(monkeypatch):
    net = Layer(wrong_dot, True)
    error = raised(lambda: net(X))
    (note,) = [n for n in error.__notes__ if "hidden" in n]
    full(monkeypatch)
    assert int(note[1:].split()[0]) == len(shown(raised(lambda: net(X)))) - len(shown(error))


def test_the_option_is_read_from_the_environment():
    script = "import hybridc as mx\nx = mx.nd.ones((2, 3))\nmx.nd.dot(x, x)\n"
    for value, count in (("user", 1), ("full", 5)):
        env = {"HYBRIDC_TRACEBACK": value, "PATH": "", "PYTHONPATH": str(Path(PACKAGE).parent)}
        ran = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False)
        assert ran.returncode == 1
        assert ran.stderr.count("  File ") >= count
        assert (ran.stderr.count("  File ") == 1) == (value == "user"), ran.stderr


def test_the_whole_traceback_is_kept():
    net = Layer(wrong_dot, True)
    error = raised(lambda: net(X))
    whole = [f.name for f in traceback.extract_tb(mx.debug.full_traceback(error))]
    assert whole[:3] == ["raised", "<lambda>", "__call__"]
    assert [name for name in whole if name in ("hybrid_forward", "wrong_dot")] == [*["hybrid_forward"] * 2, "wrong_dot"]
    assert whole[-1] not in ("wrong_dot", "raised")
    never = ValueError("never raised")
    assert mx.debug.full_traceback(never) is None


def test_a_debugger_stands_in_the_users_frame(monkeypatch):
    net = Layer(wrong_dot)
    error = raised(lambda: net(X))
    stopped = []
    monkeypatch.setattr(pdb.Pdb, "interaction", lambda self, frame, trace: stopped.append(self.get_stack(frame, trace)))
    pdb.post_mortem(error.__traceback__)
    stack, place = stopped[0]
    frame, line = stack[place]
    assert frame.f_code is wrong_dot.__code__
    assert line == wrong_dot.__code__.co_firstlineno + 2
    assert frame.f_locals["y"].shape == (2, 3)


def test_an_error_that_is_caught_and_raised_again():
    def forward(F, x):
        return F.dot(x, x)

    inner, errors = Layer(forward), []

    class Outer(gluon.Block):
        def forward(self, x):
            try:
                return inner(x)
            except mx.MXNetError as error:
                errors.append(error)
                raise

    net = Outer()
    error = raised(lambda: net(X))
    assert error is errors[-1]
    assert shown(error) == ["<lambda>", "forward", "hybrid_forward", "hybrid_forward", "forward"]
    assert sum("hidden" in note for note in error.__notes__) == 1
    # And once more, from elsewhere: frames are counted once.
    again = raised(lambda: gluon.nn.HybridLambda(lambda F, x: _throw(error))(X))
    assert again is error
    assert sum("hidden" in note for note in error.__notes__) == 1
    assert PACKAGE not in texts(error)[0]


def _throw(error):
    raise error


def test_what_the_user_was_handling_stays():
    def call():
        try:
            return {}["key"]
        except KeyError:
            return nd.dot(X, X)

    error = raised(call)
    assert isinstance(error.__context__, KeyError) or isinstance(error.__context__.__context__, KeyError)
    text, count = texts(error)
    assert count == 2
    assert "KeyError: 'key'" in text


def test_the_first_wording_stays_the_context():
    error = raised(lambda: X + nd.ones((4, 5)))
    assert error.__cause__ is None
    assert isinstance(error.__context__, ValueError)
    assert "could not be broadcast" in str(error.__context__)


def test_errors_travel_between_processes():
    error = raised(lambda: nd.dot(X, X))
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert mx.debug.full_traceback(again) is None


def test_threads_and_loggers(caplog):
    seen = []

    def work():
        try:
            nd.dot(X, X)
        except mx.MXNetError as error:
            logging.getLogger("user").exception("failed")
            seen.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert shown(seen[0]) == ["work"]
    assert PACKAGE not in caplog.text
    assert "HYBRIDC_TRACEBACK=full" in caplog.text


def test_an_error_of_the_compiler_keeps_its_frames():
    def forward(F, x):
        raise VerifyError("a pass is wrong")

    net = Layer(forward)
    assert len(shown(raised(lambda: net(X)))) > 8


def test_the_end_of_an_iteration_is_left_alone():
    batches = iter(gluon.data.DataLoader(gluon.data.ArrayDataset(np.zeros((2, 3))), 2))
    next(batches)
    with pytest.raises(StopIteration) as caught:
        next(batches)
    assert not hasattr(caught.value, "__notes__")


def test_a_notebook_and_a_prompt(tmp_path):
    """Code that is typed in has no file; its frames are the user's."""
    script = tmp_path / "typed.py"
    script.write_text(
        textwrap.dedent(
            """
            import code, hybridc as mx
            console = code.InteractiveConsole({"mx": mx})
            for line in ["x = mx.nd.ones((2, 3))", "def f():", "    return mx.nd.dot(x, x)", "", "f()"]:
                console.push(line)
            """
        )
    )
    env = {"PATH": "", "PYTHONPATH": str(Path(PACKAGE).parent)}
    ran = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, check=True)
    assert ran.stderr.count("  File ") == 2, ran.stderr
    assert 'File "<console>", line 2, in f' in ran.stderr
