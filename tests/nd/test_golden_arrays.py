"""Arrays at their edges: as MXNet 1.9.1 has them (tests/golden/make_arrays.py), and what MXNet itself leaves open."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc import nd
from hybridc.errors import ArgumentTypeError, MXNetError, ShapeError

GOLDEN = Path(__file__).parents[1] / "golden"
sys.path.insert(0, str(GOLDEN))

import array_cases  # noqa: E402

MXNET = json.loads((GOLDEN / "arrays.json").read_text())


@pytest.mark.parametrize("case", array_cases.CASES)
def test_same_as_mxnet(case):
    assert array_cases.run(mx, case) == MXNET[case]


class Matrix:
    """An object of another library with a method that traces of hybridc have as an attribute."""

    shape = (2,)
    dtype = np.dtype("float32")

    def trace(self):
        return 0


@pytest.mark.parametrize(
    "operation",
    [
        lambda x, y: x + y,
        lambda x, y: y - x,
        lambda x, y: x == y,
        lambda x, y: x.__imul__(y),
        lambda x, y: nd.dot(x, y),
        lambda x, y: nd.concat(x, y, dim=0),
        lambda x, y: nd.where(x, y, x),
    ],
)
@pytest.mark.parametrize("other", [Matrix(), object()])
@pytest.mark.parametrize("device", [mx.cpu(0), mx.cpu(1), mx.gpu(0)])
def test_an_object_of_another_library_is_no_array(operation, other, device):
    with pytest.raises(ArgumentTypeError, match=f"inputs must be NDArrays or numbers, got {type(other).__name__}"):
        operation(nd.ones(2, ctx=device), other)


def test_an_object_of_another_library_is_none_in_a_block():
    net = mx.gluon.nn.HybridLambda(lambda F, x: x + Matrix())
    net.hybridize()
    with pytest.raises(MXNetError, match="Matrix"):
        net(nd.ones(2))


def test_a_condition_of_one_axis_fits_the_rows_of_symbols_too():
    condition, x = mx.sym.var("condition"), mx.sym.var("x")
    y = mx.sym.where(condition, x, -x)
    assert y.infer_shape(condition=(3,), x=(3, 2))[1] == [(3, 2)]
    message = r"a condition of one axis selects rows; it has 2 elements for the 3 rows of x \(3, 2\)"
    with pytest.raises(ShapeError, match=message):
        y.infer_shape(condition=(2,), x=(3, 2))
    net = mx.gluon.nn.HybridLambda(lambda F, c, x: F.where(c, x, -x))
    net.hybridize()
    assert net(nd.array([1, 0, 1]), nd.ones((3, 2))).asnumpy().tolist() == [[1, 1], [-1, -1], [1, 1]]
    with pytest.raises(ShapeError, match=message):
        net(nd.array([1, 0]), nd.ones((3, 2)))


def test_an_array_that_cannot_be_written():
    source = np.ones(3, "float32")
    x = nd.NDArray(source, writable=False)
    assert not x.writable
    assert nd.NDArray(source).writable
    with pytest.raises(ValueError, match="readonly"):
        x[1:] = 3
    for write in (lambda: x.__iadd__(1), lambda: nd.exp(x, out=x), lambda: nd.zeros(3).copyto(x)):
        with pytest.raises(ValueError, match="read-only"):
            write()
    assert x.asnumpy().tolist() == [1, 1, 1]
    assert (x + 1).writable


def test_the_state_that_mxnet_pickles():
    file = (GOLDEN / "files" / "list.params").read_bytes()
    record = file[24 : len(file) - 8]  # of the first array, and more that is not read
    x = nd.NDArray.__new__(nd.NDArray)
    first = nd.load(str(GOLDEN / "files" / "list.params"))[0]
    size = 4 + 4 + 4 + 8 * first.ndim + 8 + 4 + first.size * np.dtype(first.dtype).itemsize
    x.__setstate__({"handle": bytearray(record[:size])})
    np.testing.assert_array_equal(x.asnumpy(), first.asnumpy())
    assert x.grad is None
    with pytest.raises(MXNetError, match="damaged"):
        x.__setstate__({"handle": record[: size - 1]})


def test_files_of_scalars_and_empty_arrays(tmp_path):
    file = str(tmp_path / "arrays")
    arrays = {"scalar": nd.array(3.0), "empty": nd.array(np.zeros((0, 2))), "plain": nd.ones(2)}
    for part, version in ((arrays, 0xF993FACA), ({"plain": nd.ones(2)}, 0xF993FAC9)):
        nd.save(file, part)
        assert int.from_bytes(Path(file).read_bytes()[24:28], "little") == version
        with mx.util.np_shape():
            nd.save(file, part)
            assert int.from_bytes(Path(file).read_bytes()[24:28], "little") == 0xF993FACA  # MXNet's own under np_shape
            for name, x in nd.load(file).items():
                assert x.shape == part[name].shape
                np.testing.assert_array_equal(x.asnumpy(), part[name].asnumpy())


def test_broadcast_like_names_its_argument_as_the_function_does():
    x, y = nd.ones((1, 3)), nd.ones((2, 3))
    assert x.broadcast_like(rhs=y).shape == x.broadcast_like(y, (0,), (0,)).shape == (2, 3)
