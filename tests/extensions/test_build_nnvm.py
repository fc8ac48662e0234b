"""Operators registered by attributes, in libraries built with hybridc/nnvm.h, through the binary interface."""

import numpy as np
import pytest
from libraries import HERE, compiled
from scipy.special import expit
from thunks import Failed, Thunks, made

rng = np.random.default_rng(0)


@pytest.fixture
def nnvm():
    return Thunks(compiled("build_nnvm.cc")).ops


def close(found, wanted, dtype="f8"):
    np.testing.assert_allclose(found, wanted, *(2e-6, 2e-7) if dtype == "f4" else (1e-12, 1e-14))


def run(op, inputs, ograds, **attributes):
    """The results, and the gradients with these gradients of the results."""
    results = op.forward(inputs, [np.full_like(g, 9) for g in ograds], **attributes)
    return results, op.backward([*ograds, *inputs, *results], [np.full_like(x, 9) for x in inputs], **attributes)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_abs(dtype):
    op = made("nnvm_ops", "abs").ops["abs"]
    x, dy = rng.normal(size=(2, 3, 4)).astype(dtype)
    x[0, 0] = 0
    assert (op.counts(), op.types([-1]), op.types([1])) == ((1, 1), ([-1], [-1]), ([1], [1]))
    assert (op.shapes([(3, 4)]), op.shapes([None])) == ([[(3, 4)], [(3, 4)]], [[()], [()]])
    [y], [dx] = run(op, [x], [dy])
    close(y, np.abs(x), dtype)
    close(dx, dy * np.sign(x), dtype)


def test_integers():
    x = np.array([-3, 0, 5], "int8")
    assert made("nnvm_ops", "abs").ops["abs"].forward([x], [np.empty_like(x)])[0].tolist() == [3, 0, 5]


def test_scalar_op():
    op = made("nnvm_ops", "abs").ops["scalar_op"]
    x, dy = rng.normal(size=(2, 5))
    [y], [dx] = run(op, [x], [dy], scalar=2.5)
    close(y, 2.5 * x)
    close(dx, 2.5 * dy)


ACTIVATIONS = {
    "relu": (lambda x: np.maximum(x, 0), lambda x: x > 0),
    "sigmoid": (expit, lambda x: expit(x) * expit(-x)),
    "tanh": (np.tanh, lambda x: 1 / np.cosh(x) ** 2),
    "softrelu": (lambda x: np.logaddexp(x, 0), expit),
}


@pytest.mark.parametrize("act_type", ACTIVATIONS)
def test_activation(act_type):
    op = made("nnvm_ops", "abs").ops["my_activation"]
    x, dy = rng.normal(size=(2, 7)) * 3
    [y], [dx] = run(op, [x], [dy], act_type=act_type)
    value, slope = ACTIVATIONS[act_type]
    close(y, value(x))
    np.testing.assert_allclose(dx, dy * slope(x), 1e-9)


def test_nan_passes():
    op, nan = made("nnvm_ops", "abs").ops["my_activation"], np.array([np.nan, -1])
    for act_type in ACTIVATIONS:
        assert np.isnan(op.forward([nan], [np.zeros(2)], act_type=act_type)[0]).tolist() == [True, False]


@pytest.mark.long
def test_what_is_exported(nnvm):
    assert list(made("nnvm_ops", "abs").ops) == ["abs", "my_activation", "scalar_op"]
    assert "_backward_mul_div" not in nnvm
    assert list(nnvm["mul_div"].backwards) == ["cpu"]
    assert nnvm["all_params"].backwards == {}


@pytest.mark.parametrize("name", ["mul_div", "mul_div_too"])
def test_several_results(nnvm, name):
    a, b, dp, dq = rng.normal(size=(4, 2, 3)) + 3
    assert (nnvm[name].counts(), nnvm[name].shapes([None, (2, 3)], 2)) == ((2, 2), [[(2, 3)] * 2, [(2, 3)] * 2])
    (p, q), (da, db) = run(nnvm[name], [a, b], [dp, dq])
    close(p, a * b)
    close(q, a / b)
    close(da, dp * b + dq / b)
    close(db, dp * a - dq * a / b**2)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_gradient_of_nodes(nnvm, dtype):
    a, b, c, d, dy = rng.normal(size=(5, 2, 3)).astype(dtype)
    wide = [x.astype("f8") for x in (a, b, c, d, dy)]
    [y], gradients = run(nnvm["sin_mul_add"], [a, b, c, d], [dy])
    close(y, np.sin(wide[0]) * wide[1] + wide[2], dtype)
    wanted = wide[4] * np.cos(wide[0]) * wide[1], wide[4] * np.sin(wide[0]), wide[4], 0 * wide[3]
    for found, want in zip(gradients, wanted):
        close(found, want, dtype)


def test_parameters(nnvm):
    op = nnvm["all_params"]
    texts = {"count": 3, "large": 2**40, "real": "1e-1", "fine": "-inf", "flag": "True", "text": "a b", "shape": (4, 5)}
    assert (op.counts(**texts), op.mutated(**texts)) == ((3, 1), [2])
    assert op.types([-1, 4, -1], **texts) == ([4, 4, 4], [1])
    assert op.shapes([None, (0, 5), (4, 0)], **texts) == [[(4, 5)] * 3, [(9,)]]
    [told] = op.forward([np.zeros(1)] * 3, [np.zeros(9)], **texts)
    close(told, [3, 2**40, np.float32(0.1), -np.inf, 1, 20, *b"a b"])
    [told] = op.forward([np.zeros(1)], [np.zeros(10)], count=1)
    close(told, [1, -5, 0.5, 0.25, 0, 6, *b"none"])


@pytest.mark.parametrize(
    ("texts", "error"),
    [
        ({}, "count: expected int of at least 1 and at most 8, got nothing"),
        ({"count": 9}, 'count: expected int of at least 1 and at most 8, got "9"'),
        ({"count": "2.5"}, 'count: expected int of at least 1 and at most 8, got "2.5"'),
        ({"count": 1, "large": -11}, 'large: expected int of at least -10, got "-11"'),
        ({"count": 1, "flag": "yes"}, 'flag: expected boolean, got "yes"'),
        ({"count": 1, "real": ""}, 'real: expected float, got ""'),
        ({"count": 1, "shape": "(2, x)"}, 'shape: expected Shape(tuple), got "(2, x)"'),
        ({"count": 1, "siz": 3, "__hint__": 1},
         '"siz" is no attribute; the attributes are: count, large, real, fine, flag, text, shape'),
    ],
)  # fmt: skip
def test_bad_parameters(nnvm, texts, error):
    with pytest.raises(Failed) as caught:
        nnvm["all_params"].counts(**texts)
    assert str(caught.value) == "C++ exception: all_params: " + error


def test_bad_enumeration():
    with pytest.raises(Failed) as caught:
        made("nnvm_ops", "abs").ops["my_activation"].counts(act_type="gelu")
    assert str(caught.value) == (
        'C++ exception: my_activation: act_type: expected one of relu, sigmoid, tanh, softrelu, got "gelu"'
    )


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda ops, x: ops["mul_div"].shapes([(2, 3), (3, 2)], 2),
         r"mul_div: shapes \(2,3\) and \(3,2\) differ"),
        (lambda ops, x: ops["mul_div"].types([0, 1], 2), r"mul_div: types 0 and 1 differ"),
        (lambda ops, x: ops["all_params"].shapes([(2, 4)], count=1),
         r".*build_nnvm.cc\[\d+\]: shape 0: expected \(2,3\), got \(2,4\)"),
        (lambda ops, x: ops["lost_gradient"].backward([x, x, x], [x]),
         "operator _backward_nowhere is not registered in this library"),
        (lambda ops, x: ops["mul_div"].backward([x.astype("i4")] * 6, [x.astype("i4")] * 2),
         r".*: element type 4 is not supported here: expected float32 or float64"),
        (lambda ops, x: ops["wrong_get"].shapes([(1,)]), "expected a value of type double, which was set to int"),
    ],
)  # fmt: skip
def test_errors(nnvm, call, error):
    with pytest.raises(Failed, match=rf"^C\+\+ exception: {error}$"):
        call(nnvm, np.zeros(1))


def test_registered_in_two_places(nnvm):
    assert nnvm["two_places"].forward([np.zeros(1, "f4")], [np.zeros(1, "f4")])[0] == [1]


@pytest.mark.long
def test_library_of_two_files():
    """One registry of each kind and one list of messages, also where everything else is hidden."""
    library = Thunks(compiled("build_second.cc", str(HERE / "build_graphs.cc"), "-fvisibility=hidden"))
    assert (sorted(library.ops), "same" in library.passes()) == (["second", "third"], True)
    assert library.ops["second"].forward([np.array([-2.0])], [np.zeros(1)])[0] == [2]
    with pytest.raises(Failed, match="told by the second file"):
        library.ops["third"].counts()
    with pytest.raises(Failed, match=r"^C\+\+ exception: JSON: expected a value at character 0"):
        library.run_pass("same", "", {})
