"""What authors of operators do wrong, and what they are told: the operator, the method, their file and line."""

from __future__ import annotations

import itertools
import re
import traceback
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc import op
from hybridc.errors import CustomOpError, MXNetError, ShapeError
from hybridc.ground.display.tracebacks import own_notes

NUMBER = itertools.count()


def line_of(marker):
    """Where this file says ``# marker``."""
    lines = Path(__file__).read_text().splitlines()
    return f"{__file__}:{next(i for i, line in enumerate(lines, 1) if line.endswith('# ' + marker))}"


def told(text, mode):
    """The text as ``apply`` makes it raised: after the network's line and name if that is compiled."""
    return f"{line_of('network')} (in net): {text}" if mode == "hybridized" else text


def entered(cls):
    """The class, registered under a name of its own, and its function."""
    name = f"{cls.__name__.lower()}{next(NUMBER)}"
    op.register(f"tests.{name}")(cls)
    return name


def apply(name, mode="eager", **attrs):
    """Call an operator on an array, eagerly or in a hybridized network, with a backward."""
    x = mx.nd.ones((2, 3))
    x.attach_grad()

    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return getattr(F, name)(x, **attrs)  # network

    net = Net(prefix="net_")
    if mode == "hybridized":
        net.hybridize()
    with mx.autograd.record():
        y = net(x)
    y.backward()


# --- registering ----------------------------------------------------------------------------------------------

KINDS = "Elementwise, Reduction, Contraction, Movement, Composite, Opaque"


class Fine(op.Elementwise):
    """x"""

    def scalar(self, b, x):
        return x


@pytest.mark.parametrize(
    ("name", "aliases", "made", "text"),
    [
        ("swish", (), Fine, "operator name 'swish' has no dialect; put your library's name before it: 'mylib.swish'"),
        (
            "mylib.MySwish",
            (),
            Fine,
            "operator name 'mylib.MySwish' must be a dialect, a dot and a name, of lower-case letters, digits and _; "
            "other spellings are aliases: register('mylib.my_swish', 'MySwish')",
        ),
        (
            "mylib.swish",
            ("my-swish",),
            Fine,
            "alias 'my-swish' of operator 'mylib.swish' cannot be the name of a Python function",
        ),
        (Fine, (), Fine, f"mx.op.register takes a name, got {Fine!r}; write @mx.op.register('mylib.my_op')"),
        (
            "mylib.swish",
            (),
            len,
            f"operator 'mylib.swish' must be a class derived from one of mx.op's kinds ({KINDS}), got {len!r}",
        ),
        (
            "mylib.swish",
            (),
            type("Bare", (op.Operator,), {}),
            f"operator 'mylib.swish': class Bare is of no kind; derive it from one of {KINDS}",
        ),
        (
            "mylib.swish",
            (),
            type("Bare", (op.Elementwise,), {}),
            "operator 'mylib.swish': class Bare is Elementwise and has no scalar; write def scalar(self, b, x), which "
            "computes with the builder b",
        ),
        (
            "mylib.swish",
            (),
            type("Bare", (op.Composite,), {}),
            "operator 'mylib.swish': class Bare is Composite and has no decompose; write def decompose(self, F, x), "
            "which returns the value by other operators",
        ),
        (
            "mylib.swish",
            (),
            type("Bare", (op.Movement,), {"eager": lambda self, x: x}),
            "operator 'mylib.swish': class Bare is Movement and has no infer_shape; write def infer_shape(self, "
            "shapes): return shapes, [shape of the result]",
        ),
        (
            "mylib.swish",
            (),
            type("Bare", (op.Opaque,), {}),
            "operator 'mylib.swish': class Bare is Opaque and has no eager; write def eager(self, *arrays), which "
            "returns NumPy arrays",
        ),
        (
            "mylib.swish",
            (),
            type("Bare", (op.Stateful,), {"forward": lambda self, state, x: x}),
            "operator 'mylib.swish': class Bare is Stateful and has no create_state; write def create_state(self, "
            "shapes, dtypes), which returns the state",
        ),
    ],
)
def test_register(name, aliases, made, text):
    with pytest.raises(MXNetError) as error:
        op.register(name, *aliases)(made)  # registering
    assert str(error.value) == f"{line_of('registering')}: {text}"


# --- scalar bodies --------------------------------------------------------------------------------------------


def scalar(body, **fields):
    """An elementwise operator with this body."""
    return entered(type("Body", (op.Elementwise,), {"__doc__": "one", "scalar": body, **fields}))


def with_if(self, b, x):
    return x if x > 0 else b.neg(x)  # if


def with_truth(self, b, x):
    return x if b.gt(x, 0.0) else b.neg(x)  # truth


def with_and(self, b, x):
    return b.exp(x) & (x > 0)  # and


def with_numpy(self, b, x):
    return np.exp(x)  # numpy


def with_where(self, b, x):
    return np.where(b.gt(x, 0.0), x, 0.0)  # where


def with_unknown_step(self, b, x):
    return b.sigmod(x)  # step


def with_two_results(self, b, x):  # two
    return x, x


def without_result(self, b, x):  # none
    b.exp(x)


def with_one_more_input(self, b, x, y):  # more
    return b.add(x, y)


CONDITIONS = "& of a scalar body takes conditions, such as x > 0; write x != 0, or b.logical_and"
NO_VALUE = "cannot be used on the values of a scalar body, which is recorded once for all elements; use"


@pytest.mark.parametrize(
    ("body", "text", "marker"),
    [
        (with_if, f"Python's if, and, or, not {NO_VALUE} b.select(condition, a, b) and b.logical_and, …", "if"),
        (with_truth, f"Python's if, and, or, not {NO_VALUE} b.select(condition, a, b) and b.logical_and, …", "truth"),
        (with_and, CONDITIONS, "and"),
        (with_numpy, f"np.exp {NO_VALUE} the builder's: b.exp(x), b.max(x, y), …", "numpy"),
        (with_where, f"np.where {NO_VALUE} the builder's: b.select(condition, a, b), b.max(x, y), …", "where"),
    ],
)
def test_values_in_a_scalar_body(body, text, marker):
    with pytest.raises(MXNetError) as error:
        apply(scalar(body))
    assert str(error.value) == text
    (note,) = own_notes(error.value)
    assert (
        re.sub(r"body\d+", "body", note)
        == f"raised in operator tests.body: scalar, {line_of(marker)} in {body.__name__}"
    )


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            with_unknown_step,
            "scalar raised AttributeError: scalar bodies have no step 'sigmod'; did you mean sign, fmod? "
            f"({line_of('step')} in with_unknown_step)",
        ),
        (
            with_two_results,
            f"scalar returned (<x>, <x>); it must return one value, made by its builder ({line_of('two')})",
        ),
        (without_result, f"scalar returned None; it must return one value, made by its builder ({line_of('none')})"),
        (
            with_one_more_input,
            "scalar(self, b, x, y) is called with the builder and a value for each input, 2 arguments after self "
            f"({line_of('more')})",
        ),
    ],
)
def test_scalar_body(body, text):
    with pytest.raises(CustomOpError) as error:
        apply(scalar(body))
    said = re.sub(r"Scalar\([^()]*\(\)[^()]*\)", "<x>", re.sub(r"body\d+", "body", str(error.value)))
    assert said == f"operator tests.body: {text}"


def test_scalar_body_with_attributes_when_compiled():
    class Bodied(op.Elementwise):
        """x"""

        slope: float = op.attribute(1.0, "slope")
        scalar = with_and

    apply_ = pytest.raises(MXNetError, match=re.escape(CONDITIONS))
    with apply_:
        apply(entered(Bodied), "hybridized")


# --- gradients ------------------------------------------------------------------------------------------------


def exp(self, b, x):
    return b.exp(x)


def gradient_of_another_arity(self, F, dy, x):  # arity
    return dy


def two_gradients(self, F, dy, x, y):  # gradients
    return dy, dy


def gradient_with_a_slip(self, F, dy, x, y):
    return dy * self.slope  # slip


def gradient_with_wrong_shapes(self, F, dy, x, y):
    return F.dot(dy, y)  # dot


@pytest.mark.parametrize("mode", ["eager", "hybridized"])
@pytest.mark.parametrize(
    ("rule", "kind", "text"),
    [
        (
            gradient_of_another_arity,
            CustomOpError,
            "operator tests.body: gradient(self, F, dy, x) is called with F, the gradient of each visible output, each "
            f"input and each output, 4 arguments after self ({line_of('arity')})",
        ),
        (
            two_gradients,
            MXNetError,
            "body: gradient gave 2 values for 1 inputs; return one for each, None where there is none "
            f"({line_of('gradients')})",
        ),
        (
            gradient_with_a_slip,
            CustomOpError,
            "operator tests.body: gradient raised AttributeError: 'Body' object has no attribute 'slope' "
            f"({line_of('slip')} in gradient_with_a_slip)",
        ),
        (gradient_with_wrong_shapes, ShapeError, None),
    ],
)
def test_gradient(rule, kind, text, mode):
    with pytest.raises(kind) as error:
        apply(scalar(exp, gradient=rule), mode)
    if text is not None:
        assert re.sub(r"body\d+", "body", str(error.value)) == told(text, mode)
        return
    (note,) = own_notes(error.value)
    said = re.sub(r"body\d+", "body", note)
    assert said == f"raised in operator tests.body: gradient, {line_of('dot')} in gradient_with_wrong_shapes"


# --- host calls and composites --------------------------------------------------------------------------------


class Host(op.Opaque):
    """x"""

    gradient = op.no_gradient

    def infer_shape(self, shapes):
        return shapes, [shapes[0]]


def raising(self, *arrays):
    return arrays[0] / self.zero["none"]  # raising


def listed(self, *arrays):  # listed
    return list(arrays)


def doubled(self, *arrays):  # doubled
    return arrays[0], arrays[0]


def one_array(self, x, y):  # one
    return x + y


def bad_math(self, *arrays):
    return arrays[0].reshape(7)  # math


@pytest.mark.parametrize(
    ("eager", "mode", "text"),
    [
        (
            raising,
            "eager",
            "operator tests.host: eager raised AttributeError: 'Host' object has no attribute 'zero' "
            f"({line_of('raising')} in raising)",
        ),
        (
            raising,
            "hybridized",
            "operator tests.host: eager raised AttributeError: 'Host' object has no attribute 'zero' "
            f"({line_of('raising')} in raising)",
        ),
        (
            bad_math,
            "eager",
            "operator tests.host: eager raised ValueError: cannot reshape array of size 6 into shape (7,) "
            f"({line_of('math')} in bad_math)",
        ),
        (
            listed,
            "eager",
            "operator tests.host: eager returned a list; return an array, as num_outputs() says, with hidden results "
            f"and the new values of updated inputs ({line_of('listed')})",
        ),
        (
            doubled,
            "eager",
            "operator tests.host: eager returned a tuple of 2; return an array, as num_outputs() says, with hidden "
            f"results and the new values of updated inputs ({line_of('doubled')})",
        ),
        (
            one_array,
            "eager",
            "operator tests.host: eager(self, x, y) is called with an array for each input, 1 arguments after self "
            f"({line_of('one')})",
        ),
    ],
)
def test_host_call(eager, mode, text):
    name = entered(type("Host", (Host,), {"__doc__": "x", "eager": eager}))
    with pytest.raises(MXNetError) as error:
        apply(name, mode)
    assert re.sub(r"host\d+", "host", str(error.value)) == told(text, mode)


def summed(self, x):  # summed
    return x.sum()


def nothing(self, x):  # nothing
    x + 1


def widened(self, x):  # widened
    return x.astype("float64")


def writing(self, x):
    x += 1  # writing
    return x


def itself(self, x):
    return x


WRONG = [
    (summed, "returned an array of shape (), expected (2, 3); return that, or correct infer_shape"),
    (widened, "returned an array of float64, expected float32; use .astype('float32'), or correct infer_type"),
    (
        nothing,
        "returned None; return an array, as num_outputs() says, with hidden results and the new values of updated "
        "inputs; is a return missing?",
    ),
    (
        writing,
        "raised ValueError: output array is read-only; an operator must not change its inputs, so work on a copy: "
        "x = x.copy()",
    ),
]


@pytest.mark.parametrize("mode", ["eager", "hybridized"])
@pytest.mark.parametrize(("function", "text"), WRONG, ids=["shape", "dtype", "none", "input"])
def test_a_host_call_is_checked(function, text, mode):
    name = entered(type("Host", (Host,), {"__doc__": "x", "eager": function}))
    with pytest.raises(CustomOpError) as error:
        apply(name, mode)
    where = line_of(function.__name__) + " in writing" * (function is writing)
    assert str(error.value) == told(f"operator tests.{name}: eager {text} ({where})", mode)


@pytest.mark.parametrize("mode", ["eager", "hybridized"])
@pytest.mark.parametrize(("function", "text"), WRONG, ids=["shape", "dtype", "none", "input"])
def test_a_forward_with_state_is_checked(function, text, mode):
    """What the operator says of its results is called otherwise there."""

    class Kept(op.Stateful):
        """x"""

        def create_state(self, shapes, dtypes):
            return None

        def forward(self, state, x):  # forward
            return function(self, x)

    name = entered(Kept)
    with pytest.raises(CustomOpError) as error:
        apply(name, mode)
    text = text.replace("infer_shape", "result_shapes").replace("infer_type", "result_types")
    text = text.replace("num_outputs() says, with hidden results and", "num_visible_outputs() says, with")
    where = line_of("writing") + " in writing" if function is writing else line_of("forward")
    assert str(error.value) == told(f"operator tests.{name}: forward {text} ({where})", mode)


@pytest.mark.parametrize("mode", ["eager", "hybridized"])
@pytest.mark.parametrize(
    ("backward", "text"),
    [
        (
            lambda g: [g.sum()],
            "returned a gradient of float32 and shape () for input 0, expected float32 and (2, 3), as the input",
        ),
        (
            lambda g: [g.astype("float64")],
            "returned a gradient of float64 and shape (2, 3) for input 0, expected float32 and (2, 3), as the input",
        ),
        (lambda g: None, "returned None for 1 input; return a list with one for each, None where there is none"),
        (lambda g: [None], "returned None for input 0, which needs a gradient; return an array of shape (2, 3)"),
    ],
)
def test_a_backward_on_arrays_is_checked(backward, text, mode):
    class Kept(op.Stateful):
        """x"""

        def create_state(self, shapes, dtypes):
            return None

        def forward(self, state, x):
            return x * 2

        def backward(self, state, needed, ograds, inputs, outputs):  # backward
            return backward(ograds[0])

    name = entered(Kept)
    with pytest.raises(CustomOpError) as error:
        apply(name, mode)
    found = str(error.value).replace(told("", mode), "")
    assert found == f"operator tests.{name}: backward {text} ({line_of('backward')})"


@pytest.mark.parametrize("mode", ["eager", "hybridized"])
@pytest.mark.parametrize("shape", ["(1,)", "(4, 3)"])
def test_a_gradient_of_a_wrong_shape_names_its_rule(shape, mode):
    class Wrong(Host):
        """2 x"""

        def eager(self, x):
            return x * 2

        def gradient(self, F, dy, x, y):  # rule
            return F.sum(dy) if shape == "(1,)" else F.concat(dy, dy, dim=0)

    name = entered(Wrong)
    with pytest.raises(ShapeError) as error:
        apply(name, mode)
    assert str(error.value) == told(
        f"operator tests.{name}: gradient returned an array of shape {shape} for input 0 of shape (2, 3); return one "
        f"of the input's shape, or of a shape to which it broadcasts ({line_of('rule')})",
        mode,
    )


@pytest.mark.parametrize("mode", ["eager", "hybridized"])
def test_a_host_call_that_returns_its_input_gives_a_copy(mode):
    name = entered(type("Host", (Host,), {"__doc__": "x", "eager": itself}))
    net = mx.gluon.nn.HybridLambda(name)
    net.hybridize(mode == "hybridized")
    x = mx.nd.ones((2,))
    y = net(x)
    y[:] = 5
    assert x.asnumpy().tolist() == [1, 1]


def test_a_gradient_function_is_checked():
    class Wrong(mx.autograd.Function):
        def forward(self, x):
            return x * 2

        def backward(self, dy):
            return dy.sum()

    x = mx.nd.ones((2,))
    x.attach_grad()
    with mx.autograd.record():
        y = Wrong()(x)
    with pytest.raises(ShapeError) as error:
        y.backward()
    assert str(error.value) == (
        "Wrong.backward returned a gradient of shape (1,) for input 0 of shape (2,); the shapes must be equal"
    )


def test_one_result_instead_of_two():
    class Two(Host):
        """x, x"""

        def infer_shape(self, shapes):
            return shapes, [shapes[0]] * 2

        def num_outputs(self):
            return 2

        def eager(self, *arrays):  # single
            return arrays[0]

    name = entered(Two)
    with pytest.raises(MXNetError) as error:
        getattr(mx.nd, name)(mx.nd.ones((2, 3)))
    assert str(error.value) == (
        f"operator tests.{name}: eager returned an array; return a tuple of 2 arrays, as num_outputs() says, with "
        f"hidden results and the new values of updated inputs ({line_of('single')})"
    )


def test_inference_that_raises():
    class Inferring(Host):
        """x"""

        eager = listed

        def infer_shape(self, shapes):
            return shapes, [shapes[3]]  # inference

    name = entered(Inferring)
    with pytest.raises(CustomOpError) as error:
        apply(name, "hybridized")
    assert str(error.value) == told(
        f"operator tests.{name}: infer_shape raised IndexError: list index out of range "
        f"({line_of('inference')} in infer_shape)",
        "hybridized",
    )


def only_results(self, shapes):  # only
    return [shapes[0]]


def too_many_results(self, shapes):  # many
    return shapes, [shapes[0]] * 2


@pytest.mark.parametrize(
    ("infer", "text"),
    [
        (only_results, f"[(2, 3)]; it returns two lists, for 1 input and 1 result ({line_of('only')})"),
        (
            too_many_results,
            f"([(2, 3)], [(2, 3), (2, 3)]); it returns two lists, for 1 input and 1 result ({line_of('many')})",
        ),
    ],
)
def test_inference_of_another_form(infer, text):
    name = entered(type("Host", (op.Opaque,), {"__doc__": "x", "eager": listed, "infer_shape": infer}))
    with pytest.raises(CustomOpError) as error:
        apply(name, "hybridized")
    assert str(error.value) == told(f"operator tests.{name}: infer_shape returned {text}", "hybridized")


def test_decomposition_that_raises():
    class Composed(op.Composite):
        """x"""

        def infer_shape(self, shapes):
            return shapes, shapes

        def eager(self, *arrays):
            return arrays[0].copy()

        def decompose(self, F, x):
            return F.exp(x) + self.none  # composed

    name = entered(Composed)
    with pytest.raises(CustomOpError) as error:
        apply(name, "hybridized")
    assert str(error.value) == told(
        f"operator tests.{name}: decompose raised AttributeError: 'Composed' object has no attribute 'none' "
        f"({line_of('composed')} in decompose)",
        "hybridized",
    )
    assert "test_author_errors.py" in "".join(traceback.format_exception(error.value))


def test_help_and_signature(capsys):
    class Documented(op.Elementwise):
        """x * slope"""

        INPUT_DOCS = {"data": "what to multiply"}  # noqa: RUF012
        slope: float = op.attribute(1.0, "the factor", low=0)
        kind: str = op.attribute("one", "of which kind", enum=("one", "two"))

        def scalar(self, b, x):
            return b.mul(x, self.slope)

    name = entered(Documented)
    function = getattr(mx.nd, name)
    assert function.__name__ == name
    help(function)
    shown = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())
    assert (
        shown.rstrip()
        == f"""Help on function {name} in module hybridc.nd:

{name}(data=None, slope=1.0, kind='one', out=None, name=None, ctx=None, **kwargs)
    x * slope

    Parameters
    ----------
    data : NDArray or Symbol
        what to multiply
    slope : a number of at least 0, default 1.0
        the factor
    kind : one of 'one', 'two', default 'one'
        of which kind"""
    )
