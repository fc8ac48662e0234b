"""mx.operator: custom operators in composed symbols and executors: errors, threads, forks, backends, copies."""
# ruff: noqa: E501  (golden error texts)

import copy
import re
import subprocess
import sys
import textwrap
import threading
import traceback

import numpy as np
import pytest
from custom_ops import Function, array, declare, double_backward, double_forward

import hybridc as mx
from hybridc import autograd, nd
from hybridc.errors import CustomOpError, MXNetError, ShapeError
from hybridc.ground.display.tracebacks import own_notes

GOOD = {"forward": double_forward, "backward": double_backward}
HERE = __file__


def deep(x):
    return 1 // x


DEEP = deep.__code__.co_firstlineno + 1


def fail(*args, **kwargs):
    return deep(0)


def composed(op_type, **params):
    return mx.sym.Custom(mx.sym.var("x"), op_type=op_type, name="b", **params)


COMPOSED = composed.__code__.co_firstlineno + 1


def train(symbol):
    executor = symbol.simple_bind(mx.cpu(), x=(2,))
    executor.forward(is_train=True)
    executor.backward(nd.ones((2,)))


RAISED = f"raised ZeroDivisionError: integer division or modulo by zero ({HERE}:{DEEP} in deep)"
AT = f"{HERE}:{COMPOSED}: "
TRAINED = {
    "forward": f"{AT}custom operator 'broken': Op.forward {RAISED}",
    "backward": f"{AT}custom operator 'broken': Op.backward {RAISED}",
    "create": f"{AT}custom operator 'broken': Prop.create_operator {RAISED}",
    "depends": f"{AT}custom operator 'broken': Prop.declare_backward_dependency {RAISED}",
    "init": f"{AT}custom operator 'broken': Prop.__init__ with {{}} {RAISED}",
    "infer_shape": f"{AT}operator b: custom operator 'broken': Prop.infer_shape {RAISED} (simple_bind was given x: (2,))",
    "infer_type": f"{AT}operator b: custom operator 'broken': Prop.infer_type {RAISED} (simple_bind was given nothing)",
}


def check(error, text):
    """The text, and the user's frames in the cause."""
    assert str(error) == text
    assert isinstance(error.__cause__, ZeroDivisionError)
    frames = traceback.extract_tb(error.__cause__.__traceback__)
    assert (frames[-1].filename, frames[-1].lineno, frames[-1].name) == (HERE, DEEP, "deep")


@pytest.mark.parametrize("where", TRAINED)
def test_errors_of_the_user_in_an_executor(where):
    declare("broken", **{**GOOD, where: fail})
    with pytest.raises(CustomOpError) as error:
        train(composed("broken"))
    check(error.value, TRAINED[where])


ASKED = {
    "infer_shape": (
        lambda s: s.infer_shape(x=(2,)),
        f"{AT}operator b: custom operator 'broken': Prop.infer_shape {RAISED} (infer_shape was given x: (2,))",
    ),
    "infer_type": (
        lambda s: s.infer_type(x="float64"),
        f"{AT}operator b: custom operator 'broken': Prop.infer_type {RAISED} (infer_type was given x: float64)",
    ),
}


@pytest.mark.parametrize("where", ASKED)
def test_errors_of_the_user_in_inference(where):
    declare("broken", **{**GOOD, where: fail})
    ask, text = ASKED[where]
    with pytest.raises(CustomOpError) as error:
        ask(composed("broken"))
    check(error.value, text)


@pytest.mark.parametrize("where", ASKED)
def test_a_prop_that_fails_on_what_is_unknown(where):
    """MXNet fails; here nothing follows."""
    declare("broken", **{**GOOD, where: fail})
    symbol = composed("broken")
    assert symbol.infer_shape_partial() == ([()], [()], [])
    assert symbol.infer_type_partial() == ([None], [None], [])


def test_a_prop_that_fails_although_the_first_input_is_known():
    declare("broken", **GOOD, arguments=("a", "b"), infer_shape=fail)
    with pytest.raises(CustomOpError, match="infer_shape raised ZeroDivisionError"):
        composed("broken").infer_shape_partial(x=(2,))


def test_errors_of_nd_inside_inference_keep_type_and_place():
    def infer_shape(prop, in_shape):
        nd.ones((2, 3)) + nd.ones((4,))

    declare("inner", **GOOD, infer_shape=infer_shape)
    with pytest.raises(ShapeError, match=r"operator b: add: .* do not broadcast: .* \(infer_shape was given") as error:
        composed("inner").infer_shape(x=(2,))
    line = infer_shape.__code__.co_firstlineno + 1
    assert own_notes(error.value) == [
        f"raised in custom operator 'inner': Prop.infer_shape, {HERE}:{line} in infer_shape"
    ]
    lines = [f.lineno for f in traceback.extract_tb(error.value.__cause__.__traceback__) if f.filename == HERE]
    assert lines[-1] == line


def test_an_executor_works_after_an_error():
    calls = []

    def forward(self, is_train, req, in_data, out_data, aux):
        calls.append(1)
        aux[0][:] = aux[0] + 1
        self.assign(out_data[0], req[0], in_data[0] / (len(calls) != 2))
        if len(calls) == 2:
            fail()

    declare("second_fails", forward, double_backward, auxiliary=("count",), infer_shape=lambda s, i: (i, i, [[1]]))
    executor = composed("second_fails").simple_bind(mx.cpu(), x=(2,))
    executor.arg_dict["x"][:] = 3
    executor.forward(is_train=True)
    with pytest.raises(CustomOpError):
        executor.forward(is_train=True)
    (y,) = executor.forward(is_train=True)
    executor.backward(nd.ones((2,)))
    assert y.asnumpy().tolist() == [3, 3]
    assert executor.grad_dict["x"].asnumpy().tolist() == [2, 2]
    assert executor.aux_dict["b_count"].asscalar() == 2  # what the call that failed did to it is lost


V = mx.sym.var("x")
WRONG = {
    "op_type": (
        lambda: mx.sym.Custom(V),
        "Custom: op_type is missing; give the name under which the operator is registered",
    ),
    "too many": (
        lambda: mx.sym.Custom(V, V, V, op_type="pair"),
        "custom operator 'pair': got 3 inputs, but it takes (a, b)",
    ),
    "twice": (
        lambda: mx.sym.Custom(V, a=V, op_type="pair"),
        "custom operator 'pair': input 'a' is given twice; it takes (a, b)",
    ),
    "no such input": (
        lambda: mx.sym.Custom(V, c=V, op_type="pair"),
        "custom operator 'pair': no input is called 'c'; it takes (a, b)",
    ),
    "array": (
        lambda: mx.sym.Custom(V, nd.ones((2,)), op_type="pair"),
        "Custom: input 'b' is an array, but symbols take symbols and numbers only; make it a variable, mx.sym.var(name), and give the array when the symbol is bound",
    ),
    "text": (
        lambda: mx.sym.Custom("x", op_type="pair"),
        "Custom: input 'a' must be a Symbol or a number, got str",
    ),
    "group": (
        lambda: mx.sym.Custom(mx.sym.Group([V * 1, V * 2]), op_type="pair"),
        "Custom: input 'a' must be one value, but <Symbol group [g0, g1]> has 2: g0_output, g1_output; take one of them with [i], or pass all with *",
    ),
    "shape": (
        lambda: mx.sym.Custom(V, op_type="pair", name="p").infer_shape(x=(2, 3), p_b=(3,)),
        "operator p: custom operator 'pair': input 'b' has shape (3,), but Prop.infer_shape says (2,); reshape the input or correct infer_shape (infer_shape was given x: (2, 3), p_b: (3,))",
    ),
    "dtype": (
        lambda: mx.sym.Custom(V, op_type="pair", name="p").infer_type(x="float32", p_b="int32"),
        "operator p: custom operator 'pair': input 'b' is int32, but Prop.infer_type says float32; use .astype('float32') or correct infer_type (infer_type was given x: float32, p_b: int32)",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(name):
    declare("pair", **GOOD, arguments=("a", "b"), infer_shape=lambda s, i: ([i[0], i[0][:1]], i[:1], []),
            infer_type=lambda s, t: ([t[0], t[0]], t[:1], []))  # fmt: skip
    call, text = WRONG[name]
    with pytest.raises(MXNetError) as error:
        call()
    found = str(error.value)
    for i, hint in enumerate(sorted(set(map(int, re.findall(r"_mulscalar(\d+)", found))))):
        found = re.sub(rf"_mulscalar{hint}\b|_mulscalar{hint}(?=_)", f"g{i}", found)
    line = call.__code__.co_firstlineno
    assert found == f"{HERE}:{line}: {text}"


def test_shapes_that_do_not_follow():
    declare("open", **GOOD, arguments=("data", "weight"))
    with pytest.raises(ShapeError) as error:
        composed("open").simple_bind(mx.cpu(), x=(2, 3))
    assert str(error.value) == (
        "simple_bind: the shapes of b_weight do not follow from the shapes given (x: (2, 3)); give them, as keywords"
    )


def test_a_file_of_an_operator_that_is_not_registered():
    declare("here", **GOOD)
    text = composed("here", size=3).tojson().replace('"here"', '"nowhere_else"')
    with pytest.raises(MXNetError) as error:
        mx.sym.load_json(text)
    start, _, end = str(error.value).partition(" (registered: ")
    assert start == "the text: node 'b' (Custom): Custom: no operator is registered as 'nowhere_else'"
    assert end.endswith("); decorate its CustomOpProp with @mx.operator.register('nowhere_else')")


# --- what surrounds an executor ----------------------------------------------------------------------------


def test_executors_in_threads():
    """Each executor has a CustomOp of its own, so what forward leaves in self is its backward's."""

    def forward(self, is_train, req, in_data, out_data, aux):
        self.seen = in_data[0].asnumpy()
        self.assign(out_data[0], req[0], in_data[0] ** 2)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] * 2 * self.seen)

    declare("square_in_executor", forward, backward)
    symbol = composed("square_in_executor")
    results = {}

    def work(i):
        executor = symbol.simple_bind(mx.cpu(), x=(50,))
        for _ in range(20):
            executor.arg_dict["x"][:] = i
            (y,) = executor.forward(is_train=True)
            executor.backward(nd.ones((50,)))
            results[i] = y.asnumpy(), executor.grad_dict["x"].asnumpy()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert len(results) == 8
    for i, (y, grad) in results.items():
        np.testing.assert_array_equal(y, np.full(50, i * i))
        np.testing.assert_array_equal(grad, np.full(50, 2 * i))


FORK = """
    import os
    import subprocess
    import sys
    import hybridc as mx
    from hybridc import nd

    def forks(write):
        pid = os.fork()                     # inside forward: both go on, the child ends with its result
        write()
        if pid == 0:
            os.write(1, b"inside\\n")
            os._exit(0)
        os.waitpid(pid, 0)

    class Sigmoid(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            found = subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, check=True)
            one = int(found.stdout)
            forks(lambda: self.assign(out_data[0], req[0], one / (1 + nd.exp(-in_data[0]))))

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], out_grad[0] * out_data[0] * (1 - out_data[0]))

    @mx.operator.register("sigmoid")
    class SigmoidProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, in_shapes, in_dtypes):
            return Sigmoid()

    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.Custom(x, op_type="sigmoid")

    x, dx = nd.array([0, 1, 2, 3]), nd.zeros((4,))
    if "WAY" == "executor":
        executor = mx.sym.Custom(mx.sym.var("x"), op_type="sigmoid").bind(mx.cpu(), [x], [dx])
        executor.forward(is_train=True)
        backward, again = lambda: executor.backward(nd.ones((4,))), lambda: executor.forward(is_train=False)[0]
    else:
        net = Net()
        net.hybridize("WAY" == "hybrid")
        mx.autograd.mark_variables([x], [dx])
        with mx.autograd.record():
            y = net(x)
        backward, again = y.backward, lambda: net(x)
    pid = os.fork()                         # between forward and backward
    backward()
    values = [["%.3f" % v for v in a.asnumpy()] for a in (dx, again())]
    os.write(1, f"{'child' if pid == 0 else 'parent'} {values}\\n".encode())
    if pid == 0:
        os._exit(0)
    sys.exit(os.waitpid(pid, 0)[1])
"""


@pytest.mark.parametrize("way", ["eager", "hybrid", "executor"])
def test_forks_inside_and_around(way):
    program = textwrap.dedent(FORK).replace("WAY", way)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    values = "[['0.250', '0.197', '0.105', '0.045'], ['0.500', '0.731', '0.881', '0.953']]"
    assert sorted(done.stdout.splitlines()) == [f"child {values}", "inside", "inside", "inside", f"parent {values}"]


# --- backends ----------------------------------------------------------------------------------------------


@pytest.fixture
def taken():
    """A backend that takes exp and custom operators; the operators of each part that it ran."""
    ran = []

    class Takes(mx.subgraph.Partitioner):
        ops = ("exp", "Custom")

        def run(self, part, *arrays):
            ran.append([op.title() for op in part.operators])
            return part(*arrays)

    before = dict(mx.subgraph._BACKENDS)
    mx.subgraph.register_partitioner("custom_taken")(Takes)
    yield ran
    mx.subgraph._BACKENDS.clear()
    mx.subgraph._BACKENDS.update(before)


def around(F, x):
    return F.tanh(F.Custom(F.exp(x), op_type="double")) + 1


def test_inside_a_part_that_a_backend_runs(taken, double):
    x = array([-1, 0, 0.5], grad="write")
    net = Function(around)
    net.hybridize(backend="custom_taken")
    with autograd.record():
        y = net(x)
    y.backward()
    v = x.asnumpy().astype("float64")
    np.testing.assert_allclose(y.asnumpy(), np.tanh(2 * np.exp(v)) + 1, rtol=1e-6)
    np.testing.assert_allclose(x.grad.asnumpy(), (1 - np.tanh(2 * np.exp(v)) ** 2) * 2 * np.exp(v), rtol=1e-4)
    assert taken[0] == ["exp", "Custom"]


def test_outside_the_parts_of_a_backend(double):
    before = dict(mx.subgraph._BACKENDS)
    body = {"ops": ("exp", "tanh"), "run": lambda self, part, *arrays: part(*arrays)}
    mx.subgraph.register_partitioner("beside_custom")(type("Beside", (mx.subgraph.Partitioner,), body))
    try:
        net, plain = Function(around), Function(around)
        net.hybridize(backend="beside_custom")
        x = array([-1, 0, 0.5])
        np.testing.assert_allclose(net(x).asnumpy(), plain(x).asnumpy(), rtol=1e-6)
        symbol = around(mx.sym, mx.sym.var("x")).optimize_for("beside_custom")
        np.testing.assert_allclose(symbol.eval(x=x)[0].asnumpy(), plain(x).asnumpy(), rtol=1e-6)
    finally:
        mx.subgraph._BACKENDS.clear()
        mx.subgraph._BACKENDS.update(before)


# --- copies ------------------------------------------------------------------------------------------------


def test_a_copied_network_is_one_of_its_own():
    class Add(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.weight = self.params.get("weight", shape=(2,), init="ones")

        def hybrid_forward(self, F, x, weight):
            return F.Custom(x + weight, op_type="double")

    declare("double", **GOOD)
    net = Add()
    net.initialize()
    net.hybridize()
    x = array([1, 2])
    assert net(x).asnumpy().tolist() == [4, 6]
    other = copy.deepcopy(net)
    other.weight.set_data(array([10, 10]))
    assert other(x).asnumpy().tolist() == [22, 24]
    assert net(x).asnumpy().tolist() == [4, 6]
