"""mx.operator: errors of declarations, of calls and of the user's own code."""
# ruff: noqa: E501  (golden error texts)

import re
import traceback

import numpy as np
import pytest
from custom_ops import array, declare, double_backward, double_forward

import hybridc as mx
from hybridc import autograd, nd
from hybridc.errors import CustomOpError, DTypeError, MXNetError, ShapeError
from hybridc.ground.display.tracebacks import own_notes


def bare(error):
    """The text of an error without the network's line, which hybridized networks tell before it."""
    return re.sub(rf"^{re.escape(__file__)}:\d+( \(in \w+\))?: ", "", str(error))


WRONG = [
    (
        {"infer_shape": lambda s, i: (i, [i[0], i[0]], [])},
        "custom operator 'wrong': Prop.infer_shape returned [[2, 2], [2, 2]] for the outputs: 2 entries, but there are "
        "1 (output)",
    ),
    (
        {"infer_shape": lambda s, i: [i]},
        "custom operator 'wrong': Prop.infer_shape must return two or three lists (of the inputs, the outputs, the "
        "auxiliary states), got [[[2, 2]]]",
    ),
    (
        {"infer_shape": lambda s, i: (i, i[0], [])},
        "custom operator 'wrong': Prop.infer_shape returned [2, 2] for the outputs; it must be a list with one entry "
        "each: output",
    ),
    (
        {"infer_shape": lambda s, i: None},
        "custom operator 'wrong': Prop.infer_shape must return two or three lists (of the inputs, the outputs, the "
        "auxiliary states), got None",
    ),
    (
        {"infer_shape": lambda s, i: ([[2, 3]], i, [])},
        "custom operator 'wrong': input 'data' has shape (2, 2), but Prop.infer_shape says (2, 3); reshape the input or "
        "correct infer_shape",
    ),
    (
        {"infer_shape": lambda s, i: (i, i, i)},
        "custom operator 'wrong': Prop.infer_shape returned [[2, 2]] for the auxiliary states: 1 entries, but there are "
        "none",
    ),
    (
        {"infer_type": lambda s, t: ([np.float64], t, [])},
        "custom operator 'wrong': input 'data' is float32, but Prop.infer_type says float64; use .astype('float64') or "
        "correct infer_type",
    ),
    (
        {"infer_type": lambda s, t: (t, [None], [])},
        "custom operator 'wrong': Prop.infer_type returned [None] for the outputs; it must be a list with one entry "
        "each: output",
    ),
    (
        {"arguments": (1, 2)},
        "custom operator 'wrong': Prop.list_arguments must return a list of names, got [1, 2]",
    ),
    (
        {"create": lambda s, *a: 3},
        "custom operator 'wrong': Prop.create_operator must return a CustomOp, got int",
    ),
    ({"forward": None}, "Op must override forward(self, is_train, req, in_data, out_data, aux)"),
    (
        {"forward": lambda s, is_train, req, in_data, out_data, aux: out_data.__setitem__(0, in_data[0])},
        "custom operator 'wrong': Op.forward replaced out_data[0] in the list, which has no effect; write "
        "self.assign(out_data[0], req[0], value) or out_data[0][:] = value",
    ),
    (
        {"forward": lambda s, is_train, req, in_data, out_data, aux: in_data[0].__iadd__(1)},
        "read-only; an operator must not change its inputs, so work on a copy: x.copy()",
    ),
]


@pytest.mark.parametrize(("wrong", "text"), WRONG)
def test_wrong_declarations(apply, wrong, text):
    declare("wrong", **{"forward": double_forward, **wrong})
    with pytest.raises(MXNetError) as error:
        apply(lambda F, x: F.Custom(x, op_type="wrong"), nd.ones((2, 2)))
    assert text in str(error.value)


def test_wrong_dtype_is_a_dtype_error():
    declare("wrong", double_forward, infer_type=lambda s, t: ([np.float64], t, []))
    with pytest.raises(DTypeError):
        nd.Custom(nd.ones((2, 2)), op_type="wrong")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda x: nd.Custom(x, op_type="double"),
            "custom operator 'double': input 'b' is missing; it takes (a, b)",
        ),
        (
            lambda x: nd.Custom(x, None, op_type="double"),
            "custom operator 'double': input 'b' is missing; it takes (a, b)",
        ),
        (
            lambda x: nd.Custom(x, x, x, op_type="double"),
            "custom operator 'double': got 3 inputs, but it takes (a, b)",
        ),
        (
            lambda x: nd.Custom(x, x, a=x, op_type="double"),
            "custom operator 'double': input 'a' is given twice; it takes (a, b)",
        ),
        (
            lambda x: nd.Custom(x, x, c=x, op_type="double"),
            "custom operator 'double': no input is called 'c'; it takes (a, b)",
        ),
        (
            lambda x: nd.Custom(x),
            "Custom: op_type is missing; give the name under which the operator is registered",
        ),
    ],
)
def test_wrong_inputs(call, text):
    declare("double", double_forward, arguments=("a", "b"))
    with pytest.raises(MXNetError) as error:
        call(nd.ones((2,)))
    assert str(error.value) == text


def test_unknown_operator(double):
    with pytest.raises(MXNetError) as error:
        nd.Custom(nd.ones((2,)), op_type="dobule")
    assert str(error.value).startswith("Custom: no operator is registered as 'dobule' (registered: ")
    assert "'double'" in str(error.value)
    assert str(error.value).endswith("decorate its CustomOpProp with @mx.operator.register('dobule')")


def test_a_backward_of_the_wrong_shape_names_both_shapes(apply):
    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], nd.ones((5, 3)))

    declare("misfit", double_forward, backward)
    x = nd.ones((4, 3))
    x.attach_grad()
    with autograd.record():
        y = apply(lambda F, x: F.Custom(x, op_type="misfit"), x)
    with pytest.raises(ShapeError) as error:
        y.backward()
    assert bare(error.value) == (
        "assign: a value of shape (5, 3) does not fit into an array of shape (4, 3); out_data[i] has the shape that "
        "infer_shape gives for output i, in_grad[i] that of input i"
    )
    (note,) = own_notes(error.value)
    assert note.startswith("raised in custom operator 'misfit': Op.backward, ")
    assert __file__ in note


def test_an_operator_without_backward(apply):
    declare("forward_only", double_forward)
    x = array([1.0], grad="write")
    with autograd.record():
        y = apply(lambda F, x: F.Custom(x, op_type="forward_only"), x)
    with pytest.raises(MXNetError) as error:
        y.backward()
    assert bare(error.value) == (
        "Op has no backward; override backward(self, req, out_grad, in_data, out_data, in_grad, aux), with "
        "self.assign(in_grad[i], req[i], 0) for an input without gradient"
    )


def deep(x):
    return 1 // x


@pytest.mark.parametrize("where", ["forward", "backward", "infer_shape", "create", "init"])
def test_errors_of_the_user_arrive_with_the_users_frames(apply, where):
    def fail(*args, **kwargs):
        return deep(0)

    good = {"forward": double_forward, "backward": double_backward}
    declare("broken", **{**good, where: fail})
    x = array([1.0], grad="write")
    with pytest.raises(CustomOpError) as error, autograd.record():
        apply(lambda F, x: F.Custom(x, op_type="broken"), x).backward()
    cause = error.value.__cause__
    assert isinstance(cause, ZeroDivisionError)
    line = deep.__code__.co_firstlineno + 1
    frames = traceback.extract_tb(cause.__traceback__)
    assert (frames[-1].filename, frames[-1].lineno, frames[-1].name) == (__file__, line, "deep")
    assert "custom operator 'broken': " in str(error.value)
    assert "raised ZeroDivisionError: " in str(error.value)
    assert f"({__file__}:{line} in deep)" in str(error.value)
    # The modes are what they were, so the next call works.
    assert not autograd.is_recording()
    declare("broken", **good)
    assert nd.Custom(x, op_type="broken").asscalar() == 2


def test_errors_inside_an_operator_of_nd_keep_their_type(apply):
    def forward(self, is_train, req, in_data, out_data, aux):
        nd.ones((2, 3)) + nd.ones((4,))

    declare("inner", forward)
    with pytest.raises(ShapeError, match="do not broadcast") as error:
        apply(lambda F, x: F.Custom(x, op_type="inner"), array([1.0]))
    assert "custom operator 'inner': Op.forward" in own_notes(error.value)[0]


def test_interrupts_pass_through(apply):
    def forward(self, is_train, req, in_data, out_data, aux):
        raise KeyboardInterrupt

    declare("interrupted", forward)
    with pytest.raises(KeyboardInterrupt):
        apply(lambda F, x: F.Custom(x, op_type="interrupted"), array([1.0]))


def test_no_second_derivative(double):
    x = array([1.0], grad="write")
    with autograd.record():
        y = nd.Custom(x * x, op_type="double")
        (dx,) = autograd.grad(y, x, create_graph=True)
    np.testing.assert_array_equal(dx.asnumpy(), [4.0])
    with pytest.raises(MXNetError) as error:
        dx.backward()
    assert str(error.value) == (
        "custom operator 'double' cannot be differentiated twice: its backward is Python code, which has no gradient. "
        "Write the operation with F's operators, or leave out create_graph=True"
    )


def test_storage_types_that_there_are_not(apply):
    declare("unknown_storage", double_forward, double_backward)
    mx.operator._PROPS["unknown_storage"].infer_storage_type = lambda self, stypes: (stypes, ["dense"], [])
    with pytest.raises(MXNetError, match=r"returned \['dense'\] for the outputs"):
        apply(lambda F, x: F.Custom(x, op_type="unknown_storage"), nd.ones(2))


def test_dense_storage_is_accepted():
    declare("dense_storage", double_forward, double_backward)
    prop = mx.operator._PROPS["dense_storage"]
    prop.infer_storage_type = lambda self, stypes: (stypes, ["default"], [])
    assert nd.Custom(nd.ones(1), op_type="dense_storage").asscalar() == 2
