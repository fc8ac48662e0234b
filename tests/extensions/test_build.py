"""Libraries built with our headers, called through the binary interface, against float64 NumPy."""

import numpy as np
import pytest
from libraries import compiled
from numpy.testing import assert_allclose
from thunks import Failed, Thunks, made

rng = np.random.default_rng(0)


@pytest.fixture
def spellings():
    return Thunks(compiled("build_spellings.cc"))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gemm(dtype):
    op = made("lib_custom_op", "gemm_lib").ops["my_gemm"]
    a, b, dc = (rng.normal(size=s).astype(dtype) for s in ((3, 4), (4, 2), (3, 2)))
    assert (op.counts(), op.mutated(), op.is_subgraph, op.storage) == ((2, 1), [], False, None)
    assert op.shapes([(3, 4), (4, 2)]) == [[(3, 4), (4, 2)], [(3, 2)]]
    [c] = op.forward([a, b], [np.full((3, 2), np.nan, dtype)])
    assert_allclose(c, a.astype("f8") @ b.astype("f8"), rtol=1e-5, atol=1e-6)
    da, db = op.backward([dc, a, b, c], [np.full_like(a, np.nan), np.full_like(b, np.nan)])
    assert_allclose(da, dc.astype("f8") @ b.T.astype("f8"), rtol=1e-5, atol=1e-6)
    assert_allclose(db, a.T.astype("f8") @ dc.astype("f8"), rtol=1e-5, atol=1e-6)


def test_gemm_types():
    op = made("lib_custom_op", "gemm_lib").ops["my_gemm"]
    assert op.types([-1, 1]) == ([1, 1], [1])
    assert op.types([-1, -1]) == ([-1, -1], [-1])
    with pytest.raises(Failed, match=r"gemm_lib.cc\[\d+\]: gemm: both .* one element type, got types 0 and 1$"):
        op.types([0, 1])
    with pytest.raises(Failed, match=r"gemm: the first matrix has 4 columns and the second 3 rows$"):
        op.shapes([(2, 4), (3, 2)])


def test_state(capfd):
    library = made("lib_custom_op", "gemm_lib")
    op = library.ops["state_gemm"]
    a, b = rng.normal(size=(3, 4)), rng.normal(size=(4, 2))
    assert (op.forwards, list(op.creates)) == ({}, ["cpu"])
    first, second = (op.state([(3, 4), (4, 2)], [1, 1], test_kw=n) for n in (100, 7))
    for state in (first, second, first):
        [c] = library.stateful(1, state, [a, b], [np.empty((3, 2))])
        assert_allclose(c, a @ b)
    da, db = library.stateful(0, first, [c, a, b, c], [np.empty((3, 4)), np.empty((4, 2))])
    assert_allclose(da, c @ b.T)
    assert_allclose(db, a.T @ c)
    for state in (first, second):
        library.handle._opCallDestroyOpState(state)
    assert [line.rsplit(" ", 1)[1] for line in capfd.readouterr().out.split("\n")[:-1]] == ["101", "8", "102"]


def test_exception_text():
    with pytest.raises(Failed, match=r"^C\+\+ exception: stoi$"):
        made("lib_custom_op", "gemm_lib").ops["state_gemm"].state([(1, 1), (1, 1)], [0, 0], test_kw="zz")


@pytest.mark.long
def test_random():
    op = made("lib_custom_op", "relu_lib").ops["my_noisy_relu"]
    x = np.zeros((40, 1000), "f4")
    [y] = op.forward([x], [np.empty_like(x)], sigma=2)
    assert_allclose([(y > 0).mean(), y.mean()], [0.5, 2 / np.sqrt(2 * np.pi)], atol=0.02)
    [again] = op.forward([x], [np.empty_like(x)], sigma=2)
    assert (y != again).mean() > 0.7
    [dx] = op.backward([x + 3, x, y], [np.empty_like(x)])
    assert_allclose(dx, 3 * (y > 0))


@pytest.mark.long
def test_updated_input():
    op = made("lib_custom_op", "center_lib").ops["my_center"]
    x, mean = rng.normal(size=(5, 3)).astype("f4"), np.ones(3, "f4")
    assert op.mutated() == [1]
    assert op.shapes([(5, 3), None]) == [[(5, 3), (3,)], [(5, 3)]]
    [y] = op.forward([x, mean], [np.empty_like(x)], momentum=0.75)
    assert_allclose(y, x - x.astype("f8").mean(0), atol=1e-6)
    assert_allclose(mean, 0.75 + 0.25 * x.astype("f8").mean(0), rtol=1e-6)


def test_c():
    op = made("lib_custom_op", "scale_lib").ops["my_scale"]
    x = rng.normal(size=(2, 3))
    assert (op.counts(factor=2), op.types([1]), op.shapes([(2, 3)])) == ((1, 1), ([1], [1]), [[(2, 3)], [(2, 3)]])
    assert op.shapes([None]) == [[()], [()]]
    assert_allclose(op.forward([x], [np.empty_like(x)], factor=2.5)[0], 2.5 * x)
    assert_allclose(op.backward([x, x, x], [np.empty_like(x)], factor=-3)[0], -3 * x)
    with pytest.raises(Failed, match=r'^scale_lib.c\[\d+\]: my_scale: factor is a number, got "1x"$'):
        op.counts(factor="1x")


@pytest.mark.long
def test_libraries_are_apart():
    assert list(made("lib_custom_op", "gemm_lib").ops) == ["my_gemm", "state_gemm"]
    assert list(made("lib_custom_op", "relu_lib").ops) == ["my_noisy_relu"]
    assert list(made("lib_pass", "pass_lib").passes()) == ["my_simplify", "my_shift"]


@pytest.mark.long
@pytest.mark.parametrize("name", ["by_value", "by_reference", "proposal"])
def test_spellings(spellings, name):
    op = spellings.ops[name]
    x = rng.normal(size=(2, 3)).astype("f4")
    assert (op.counts(), op.types([0]), op.shapes([(2, 3)])) == ((1, 1), ([0], [0]), [[(2, 3)], [(2, 3)]])
    assert_allclose(op.forward([x], [np.empty_like(x)], power=2)[0], x.astype("f8") ** 2, rtol=1e-6)


def test_short_create_state(spellings):
    state = spellings.ops["short_create"].state([(1,)], [0], start=5)
    assert spellings.stateful(1, state, [np.zeros(1, "f4")], [np.empty(1, "f4")])[0] == [6]
    with pytest.raises(Failed, match=r"^.*: Operator does not support backward$"):
        spellings.stateful(0, state, [np.zeros(1, "f4")] * 3, [np.empty(1, "f4")])
    with pytest.raises(Failed, match=r"^C\+\+ exception: createOpState succeeded and set no state$"):
        spellings.ops["short_create"].state([(1,)], [0])


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("runtime_error", "C++ exception: it broke"),
        ("string", "C++ exception: a string"),
        ("text", "C++ exception: a text"),
        ("int", "C++ exception of unknown type"),
        ("message", "here: 1 of 2"),
        ("sparse", "C++ exception: the host offers no sparse outputs to this call"),
    ],
)
def test_failures(spellings, kind, text):
    with pytest.raises(Failed) as caught:
        spellings.ops["by_value"].forward([np.zeros(1, "f4")], [np.zeros(1, "f4")], throw=kind)
    assert str(caught.value).split("]: ")[-1] == text


def test_wrong_counts(spellings):
    op = spellings.ops["wrong_counts"]
    with pytest.raises(Failed, match=r"^C\+\+ exception: the function left 2 output shapes, expected 1$"):
        op.shapes([(1,)])
    with pytest.raises(Failed, match=r"^C\+\+ exception: the function left 0 types, expected 1$"):
        op.types([0])


def test_registered_twice(spellings):
    with pytest.raises(Failed, match=r'^twice: setForward was called twice for context "cpu": .*'):
        spellings.ops["twice"].counts()


def test_bool_is_no_element_type(spellings):
    with pytest.raises(Failed, match=r"^C\+\+ exception: element type 7: expected 0 to 6 \(float32, .*\)$"):
        spellings.ops["by_value"].forward([np.zeros(1, "?")], [np.zeros(1, "f4")])


def test_dlpack(spellings):
    x = np.zeros((2, 3), "i8")
    [told] = spellings.ops["dlpack"].forward([x], [np.zeros(9, "i8")])
    assert told.tolist() == [x.ctypes.data, 1, 0, 2, 0, 64, 1, 3, 0]  # data, cpu, id, ndim, int, bits, lanes, shape[1]
