"""Operators of users in the keys of graphs: what their methods gave counts, wherever that comes from."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc.compile import trace_key
from hybridc.compile.definitions import changed_operators
from hybridc.compile.stages import Traced
from hybridc.dialects import operator_registry
from hybridc.dialects.foreign.nnvm import Attached
from hybridc.ground.serialize import NotWritable
from hybridc.trace.tracer import trace_call
from tests.runtime.test_warm_start import Session

# --- ways to reach outside an operator --------------------------------------------------------------------------


def operator(body, before="", base="mx.op.Elementwise"):
    """A module with the operator NAME, whose methods are ``body``."""
    body = "".join(f"\n    {line}" for line in body.split("\n"))
    head = f"import os\nimport hybridc as mx\n{before}\n@mx.op.register('test.NAME')\n"
    return head + f"class Foo({base}):\n    'x times a number'{body}\n"


def times(factor, before=""):
    return operator(f"def scalar(self, b, x): return b.mul(x, {factor})", before)


K2, K3 = "K = 2.0", "K = 3.0"
CALLS = "import NAME_k\ndef f(b, x): return "
COMPOSITE = operator("def decompose(self, F, x): return NAME_g.f(F, x)", "import NAME_g", "mx.op.Composite")
GRADIENT = "def scalar(self, b, x): return b.mul(x, 2.0)\ndef gradient(self, F, dy, x, y): return dy * NAME_g.K"
BASE = "import hybridc as mx\nclass B(mx.op.Elementwise):\n    'a base'\n    def scalar(self, b, x): return b.mul(x, "
ENVIRONMENT = "float(os.environ['FACTOR'])"
SETTINGS = f"import os\nclass S: K = {ENVIRONMENT}\ns = S()\ns.K = {ENVIRONMENT}"
# Of each: the files, and those that are others later. NAME stands for the name of the operator and begins files' names.
CASES = {
    "own_source": ({"": times(2.0)}, {"": times(3.0)}),
    "own_global": ({"": times("K", K2)}, {"": times("K", K3)}),
    "constant": ({"": times("NAME_g.K", "import NAME_g"), "_g": K2}, {"_g": K3}),
    "function_two_away": (
        {"": times("NAME_g.f()", "import NAME_g"), "_g": "import NAME_k\ndef f(): return NAME_k.f()"}
        | {"_k": "def f(): return 2.0"},
        {"_k": "def f(): return 3.0"},
    ),
    "constant_two_away": (
        {"": operator("def scalar(self, b, x): return NAME_g.f(b, x)", "import NAME_g")}
        | {"_g": CALLS + "b.mul(x, NAME_k.K)", "_k": K2},
        {"_k": K3},
    ),
    "imported_function": (
        {"": operator("def scalar(self, b, x): return f(b, x)", "from NAME_g import f")}
        | {"_g": CALLS + "b.mul(x, NAME_k.K)", "_k": K2},
        {"_k": K3},
    ),
    "environment": ({"": times(ENVIRONMENT)}, {}),
    "environment_in_global": ({"": times("K", f"K = {ENVIRONMENT}")}, {}),
    "environment_away": ({"": times("NAME_g.K", "import NAME_g"), "_g": f"import os\nK = {ENVIRONMENT}"}, {}),
    "environment_in_function": (
        {"": times("NAME_g.k()", "import NAME_g"), "_g": f"import os\ndef k(): return {ENVIRONMENT}"},
        {},
    ),
    "file": ({"": times("float(open('NAME.txt').read())"), ".txt": "2"}, {".txt": "3"}),
    "settings_file": (
        {"": times("NAME_g.C['k']", "import NAME_g"), "_g": "import json\nC = json.load(open('NAME.txt'))"}
        | {".txt": '{"k": 2.0}'},
        {".txt": '{"k": 3.0}'},
    ),
    "class": ({"": times("S.K", "from NAME_g import S"), "_g": SETTINGS}, {}),
    "instance": ({"": times("s.K", "from NAME_g import s"), "_g": SETTINGS}, {}),
    "decomposition": ({"": COMPOSITE, "_g": "import NAME_k\ndef f(F, x): return x * NAME_k.K", "_k": K2}, {"_k": K3}),
    "gradient": ({"": operator(GRADIENT, "import NAME_g"), "_g": K2}, {"_g": K3}),
    "base_class": (
        {"": operator("pass", "import NAME_g", "NAME_g.B"), "_g": BASE + "2.0)"},
        {"_g": BASE + "3.0)"},
    ),
    "default": ({"": times(f"(lambda k={ENVIRONMENT}: k)()")}, {}),
    "globals": ({"": times("globals()['K' + 'X']", f"KX = {ENVIRONMENT}")}, {}),
    "import_inside": ({"": times("__import__('NAME_g').K"), "_g": K2}, {"_g": K3}),
    "from_import_inside": (
        {"": operator("def scalar(self, b, x):\n    from NAME_g import K\n    return b.mul(x, K)"), "_g": K2},
        {"_g": K3},
    ),
}
RUN = """
class Net(mx.gluon.HybridBlock):
    def __init__(self, name):
        super().__init__()
        self.call = name
    def hybrid_forward(self, F, x):
        return getattr(F, self.call)(F.exp(x))

for name in NAMES:
    __import__(name)
    net = Net(name)
    net.hybridize()
    x = mx.nd.array([0.25, 1, 2])
    x.attach_grad()
    with mx.autograd.record():
        y = net(x)
    y.backward()
    print(name, *y.asnumpy(), *x.grad.asnumpy())
"""


def write(session, files, name):
    for suffix, text in files.items():
        path = session.folder / f"{name}{suffix}{'' if suffix.startswith('.') else '.py'}"
        path.write_text(text.replace("NAME", name))


def printed(text):
    return {name: np.array(values, float) for name, *values in map(str.split, text.splitlines())}


@pytest.mark.long
def test_whatever_an_operator_reaches_for(tmp_path):
    session = Session(tmp_path)
    cases = {f"reach_{name}": files for name, files in CASES.items()}
    text = RUN.replace("NAMES", repr(list(cases)))
    options = {"HYBRIDC_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    for name, (files, _) in cases.items():
        write(session, files, name)
    cold = session.run(text, FACTOR="2", **options)
    x = np.exp(np.array([0.25, 1, 2]))
    for name, values in printed(cold).items():
        np.testing.assert_allclose(values, [*2 * x, *2 * x], rtol=1e-6, err_msg=name)
    assert session.run(text, "warm", FACTOR="2", **options) == cold
    for name, (_, later) in cases.items():
        write(session, later, name)
    for name, values in printed(session.run(text, FACTOR="3", **options)).items():
        np.testing.assert_allclose(
            values, [*(2 if name == "reach_gradient" else 3) * x, *3 * x], rtol=1e-6, err_msg=name
        )


# --- what is written --------------------------------------------------------------------------------------------


def written(function, *shapes, grads=()):
    """The data of a graph's trace."""
    net = mx.gluon.nn.HybridLambda(lambda F, *xs: function(F, *xs))
    trace = Traced(trace_call(net, [mx.nd.ones(s) for s in shapes], False), grads).written
    return trace.kind, trace.integers


@mx.op.register("written.shifted")
class Shifted(mx.op.Movement):
    """Rows one place on."""

    BY = 1

    def infer_shape(self, shapes):
        return shapes, shapes

    def eager(self, x):
        return np.roll(x, self.BY, 0)

    def move(self, m, x):
        def element(b, i, j):
            return b.load(x, b.rem(b.add(i, x.shape[0] - self.BY), x.shape[0]), j)

        return m.concat([m.generate(x.shape, x.dtype, element), m.full((0, x.shape[1]), x.dtype, 0)], 0)


def test_movements_are_recorded(monkeypatch):
    before = written(lambda F, x: F.shifted(x), (3, 4))
    assert before == written(lambda F, x: F.shifted(x), (3, 4))
    monkeypatch.setattr(Shifted, "BY", 2)
    assert before != written(lambda F, x: F.shifted(x), (3, 4))


@mx.op.register("written.damped")
class Damped(mx.op.Composite):
    """x / (1 + rate), by an operator of the user's own."""

    def decompose(self, F, x):
        return F.damped_part(x, F.sum(x))


@mx.op.register("written.damped_part")
class DampedPart(mx.op.Elementwise):
    """x / (1 + rate)"""

    INPUTS = ("data", "by")
    RATE = 1.0

    def scalar(self, b, x, _):
        return b.div(x, 1 + self.RATE)


def test_operators_inside_others_are_recorded(monkeypatch):
    before = [written(lambda F, x: F.damped(x), (3, 4), grads=grads) for grads in ((), (0,))]
    assert before[0] != before[1]
    monkeypatch.setattr(DampedPart, "RATE", 2.0)
    assert before[0] != written(lambda F, x: F.damped(x), (3, 4))


def test_sizes_count():
    """Another scalar body for another size is another key."""
    assert written(lambda F, x: F.damped(x), (3, 4)) != written(lambda F, x: F.damped(x), (3, 5))


@mx.op.register("written.simplified")
class Simplified(mx.op.Elementwise):
    """x, which the class says itself to the compiler"""

    def scalar(self, b, x):
        return b.mul(x, 1.0)

    def simplify(self, F, inputs):
        return inputs[0]


@mx.op.register("written.number")
class Number(mx.op.Opaque):
    """A number, which the compiler may ask the host for"""

    def infer_shape(self, shapes):
        return shapes, [()]

    def eager(self, x):
        return x.sum()


@mx.op.register("written.asking")
class Asking(mx.op.Composite):
    """x + y, if y is no number"""

    INPUTS = ("data", "other")

    def decompose(self, F, x, y):
        return x if y.constant == 0 else F.broadcast_add(x, F.reshape(y, shape=(1,)))


@mx.op.register("written.raising")
class Raising(mx.op.Elementwise):
    """x, without a gradient"""

    def scalar(self, b, x):
        return b.mul(x, 1.0)

    def gradient(self, F, dy, x, y):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("function", "shapes", "text"),
    [
        (lambda F, x: F.simplified(x), [(3,)], "simplify"),
        (lambda F, x: F.number(x), [(3,)], "eager"),
        (lambda F, x, y: F.asking(x, y), [(3,), ()], "asks whether"),
        (lambda F, x: F.raising(x), [(3,)], "raising, which raises"),
    ],
)
def test_what_cannot_be_recorded_is_not_kept(function, shapes, text):
    with pytest.raises(NotWritable, match=text):
        written(function, *shapes, grads=(0,))


@mx.op.register("written.named")
class Named(mx.op.Elementwise):
    """x, with methods that only files and running programs call"""

    def scalar(self, b, x):
        return b.mul(x, 1.0)

    def call_out(self, outs, *arrays):
        super().call_out(outs, *arrays)

    @classmethod
    def nnvm_name(cls):
        return "Named"

    def gradient_of(self, needed, F, *values):
        return super().gradient_of(needed, F, *values)


def test_what_compiled_code_does_not_depend_on_may_be_overridden():
    assert written(lambda F, x: F.named(x), (3,))


@pytest.mark.parametrize(
    "kind",
    [
        mx.op.Elementwise,
        mx.op.Reduction,
        mx.op.Contraction,
        mx.op.Movement,
        mx.op.Composite,
        mx.op.Opaque,
        mx.op.Stateful,
    ],
    ids=lambda kind: kind.__name__,
)
def test_every_method_says_what_its_override_means_to_a_key(kind):
    names = {name for name in dir(kind) if not name.startswith("_") and not hasattr(type, name)}
    methods = {name for name in names if callable(getattr(kind, name)) or isinstance(getattr(kind, name), property)}
    assert len(methods) > 50
    unmarked = {name for name in methods if operator_registry.role_of(kind, name) is None}
    assert not unmarked, "mark their definitions as recorded, called_later or unrecorded (operator_registry.py)"


def test_a_number_that_is_one_already_may_be_asked_for():
    assert written(lambda F, x: F.asking(x, 0.0), (3,)) != written(lambda F, x: F.asking(x, 1.0), (3,))


# --- hybridc's own operators ------------------------------------------------------------------------------------


@pytest.fixture
def only_ours(monkeypatch):
    """No operators but hybridc's own, whatever other tests did."""
    before = changed_operators()
    yield before
    monkeypatch.undo()
    assert changed_operators() == before


def key(trace):
    traced = Traced(trace)
    return trace_key.without_sizes(traced)


def test_a_method_that_a_user_replaced_is_seen(monkeypatch, only_ours):
    relu = operator_registry.FUNCTIONS["relu"]
    trace = trace_call(mx.gluon.nn.LeakyReLU(0.1), [mx.nd.ones((3,))], False)
    keys = [key(trace)]
    for factor in (2.0, 3.0):
        monkeypatch.setattr(relu, "scalar", lambda self, b, x, factor=factor: b.mul(x, factor))
        assert len(changed_operators()) == len(only_ours) + 1
        with pytest.raises(NotWritable, match="own"):
            trace_key.key_of(Traced(trace))
        keys.append(key(trace))
    assert len({repr(k) for k in keys}) == 3


def test_attached_attributes_are_seen(monkeypatch, only_ours):
    monkeypatch.setattr(operator_registry.FUNCTIONS["relu"], Attached.FIELD, {"TMyKey": (1, 10)}, raising=False)
    assert len(changed_operators()) == len(only_ours) + 1


def test_an_operator_in_the_place_of_another_is_seen(monkeypatch, only_ours):
    monkeypatch.setitem(operator_registry.FUNCTIONS, "relu", Shifted)
    assert ("relu", Shifted) in changed_operators()
    assert len(changed_operators()) == len(only_ours) + 1
