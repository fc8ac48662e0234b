"""Files of arrays: byte for byte MXNet 1.9.1's; damaged ones are refused with what is wrong and where."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hybridc as mx
from tests.golden.file_cases import CASES, NUMPY_SHAPES, SPARSE

FILES = Path(__file__).parents[1] / "golden" / "files"
ALL = {**CASES, **NUMPY_SHAPES}


def to_arrays(data):
    if isinstance(data, dict):
        return {name: mx.nd.array(x, dtype=x.dtype) for name, x in data.items()}
    return [mx.nd.array(x, dtype=x.dtype) for x in data]


def assert_same(found, data):
    assert type(found) is type(data)
    named = found.items() if isinstance(found, dict) else enumerate(found)
    assert [key for key, _ in named] == list(data if isinstance(data, dict) else range(len(data)))
    for key, x in named:
        assert x.dtype == data[key].dtype
        assert x.shape == data[key].shape
        np.testing.assert_array_equal(x.asnumpy(), data[key])


@pytest.mark.parametrize("name", ALL)
def test_reads_what_mxnet_writes(name):
    assert_same(mx.nd.load(FILES / f"{name}.params"), ALL[name])


@pytest.mark.parametrize("name", ALL)
def test_writes_what_mxnet_writes(name, tmp_path):
    mx.nd.save(tmp_path / "a", to_arrays(ALL[name]))
    assert (tmp_path / "a").read_bytes() == (FILES / f"{name}.params").read_bytes()


@pytest.mark.parametrize("version", ["v0", "v1"])
@pytest.mark.parametrize("name", ["list", "names"])
def test_reads_older_versions(name, version):
    assert_same(mx.nd.load(str(FILES / f"{name}_{version}.params")), CASES[name])


def test_sparse_arrays():
    loaded = mx.nd.load(FILES / "sparse.params")
    assert_same(loaded, {**SPARSE, "zeros": np.zeros((2, 3), "float32")})
    assert {x.stype for x in loaded.values()} == {"csr", "row_sparse"}


def test_a_sparse_array_may_be_huge(tmp_path):
    (tmp_path / "a.params").write_bytes(file(rows(1, (1 << 40, 1))))
    (x,) = mx.nd.load(tmp_path / "a.params")
    assert (x.stype, x.shape, x.indices.asnumpy().tolist()) == ("row_sparse", (1 << 40, 1), [1])


def test_views_are_written_as_they_read(tmp_path):
    x = mx.nd.array(np.arange(12).reshape(3, 4))
    mx.nd.save(tmp_path / "a", [x[1:, ::2], x.T, mx.nd.array(np.arange(3, dtype=">i4"), dtype=">i4")])
    part, turned, integers = mx.nd.load(tmp_path / "a")
    assert part.asnumpy().tolist() == [[4, 6], [8, 10]]
    assert turned.asnumpy().tolist() == np.arange(12).reshape(3, 4).T.tolist()
    assert integers.asnumpy().tolist() == [0, 1, 2]


def test_types_that_only_later_versions_name(tmp_path):
    data = {dtype: np.array([1, 2, 200]).astype(dtype) for dtype in ("int16", "uint16", "uint32", "uint64")}
    mx.nd.save(tmp_path / "a", to_arrays(data))
    assert_same(mx.nd.load(tmp_path / "a"), data)


def test_bfloat16_is_read_and_written(tmp_path):
    data = array(shape=(3,), flag=12, elements=np.array([0x3F80, 0xC000, 0x7F80], "<u2").tobytes())
    (x,) = mx.nd.load_frombuffer(file(data))
    assert np.dtype(x.dtype).name == "bfloat16"
    assert x.asnumpy().tolist() == [1.0, -2.0, np.inf]
    mx.nd.save(tmp_path / "a", [x])
    assert (tmp_path / "a").read_bytes() == file(data)


def test_truth_values_of_any_bit_are_true():
    (x,) = mx.nd.load_frombuffer(file(array(shape=(3,), flag=7, elements=b"\x00\x01\x80")))
    assert x.asnumpy().tolist() == [False, True, True]
    assert x.asnumpy().view("u1").tolist() == [0, 1, 1]


def test_an_array_without_shape_is_empty():
    (x,) = mx.nd.load_frombuffer(file(struct.pack("<Iii", 0xF993FAC9, 0, 0)))
    assert x.shape == (0,)


def test_buffers():
    for kind in (bytes, bytearray, memoryview):
        assert_same(mx.nd.load_frombuffer(kind((FILES / "names.params").read_bytes())), CASES["names"])
    with pytest.raises(TypeError, match="buf must be bytes, got str"):
        mx.nd.load_frombuffer("names.params")


def test_loaded_arrays_can_be_written():
    for x in mx.nd.load(FILES / "dtypes.params").values():
        x[:] = 0
        assert not x.asnumpy().any()


def test_bytes_behind_the_names_are_left(tmp_path):
    (tmp_path / "a").write_bytes((FILES / "names.params").read_bytes() + b"more")
    assert_same(mx.nd.load(tmp_path / "a"), CASES["names"])


def test_a_pipe_is_read():
    read, write = os.pipe()
    os.write(write, (FILES / "names.params").read_bytes())
    os.close(write)
    assert_same(mx.nd.load(f"/dev/fd/{read}"), CASES["names"])
    os.close(read)


# --- a file appears whole or not at all ---------------------------------------------------------------------


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a"
    mx.nd.save(path, [mx.nd.ones((2,))])
    with pytest.raises(TypeError, match="save: only NDArrays can be saved, 'b' is ndarray"):
        mx.nd.save(path, {"a": mx.nd.zeros((2,)), "b": np.ones(2)})
    with pytest.raises(TypeError, match="save: names must be strings, got 1"):
        mx.nd.save(path, {1: mx.nd.zeros((2,))})
    complex_ = mx.nd.NDArray(np.zeros(2, "complex64"))
    with pytest.raises(mx.MXNetError, match=r"save: element 1 has dtype complex64, which the format cannot hold"):
        mx.nd.save(path, [mx.nd.zeros((2,)), complex_])
    assert mx.nd.load(path)[0].asnumpy().tolist() == [1, 1]
    assert list(tmp_path.iterdir()) == [path]


def test_a_killed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "a"
    mx.nd.save(path, [mx.nd.ones((2,))])
    code = (
        "import resource, sys, hybridc as mx\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"  # the third page of the file kills the process
        "mx.nd.save(sys.argv[1], [mx.nd.zeros((10000,))])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False, capture_output=True)
    assert done.returncode != 0
    assert mx.nd.load(path)[0].asnumpy().tolist() == [1, 1]


def test_saving_through_a_link_writes_its_target(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    mx.nd.save(tmp_path / "link", [mx.nd.ones((1,))])
    assert (tmp_path / "link").is_symlink()
    assert mx.nd.load(tmp_path / "target")[0].asscalar() == 1


def test_an_unwritable_place_is_named(tmp_path):
    with pytest.raises(mx.MXNetError, match=r"cannot write .*none.a: No such file or directory"):
        mx.nd.save(tmp_path / "none" / "a", [])


# --- damaged files ------------------------------------------------------------------------------------------


def file(*arrays, names=None):
    """The bytes of a file, written by hand."""
    count = len(arrays) if names is None else names
    return (
        struct.pack("<QQQ", 0x112, 0, len(arrays)) + b"".join(arrays) + struct.pack("<Q", 0 if names is None else count)
    )


def array(shape=(1,), flag=0, elements=b"\0\0\0\0", magic=0xF993FAC9, storage=0):
    head = struct.pack(f"<Iii{len(shape)}q", magic, storage, len(shape), *shape)
    return head + struct.pack("<iii", 1, 0, flag) + elements


def rows(index, shape=(2, 1)):
    """A row_sparse array of one value."""
    head = struct.pack("<Iii2q", 0xF993FAC9, 1, 2, 1, 1) + struct.pack("<i2q", 2, *shape)
    head += struct.pack("<iii", 1, 0, 0) + struct.pack("<iiq", 6, 1, 1)
    return head + struct.pack("<fq", 1.0, index)


def csr(shape=(2, 2), column=1, middle=1, end=1):
    """A csr matrix of two rows, with one value, in the first."""
    head = struct.pack("<Iiiq", 0xF993FAC9, 2, 1, 1) + struct.pack(f"<i{len(shape)}q", len(shape), *shape)
    head += struct.pack("<iii", 1, 0, 0) + struct.pack("<iiq", 6, 1, 3) + struct.pack("<iiq", 6, 1, 1)
    return head + struct.pack("<f3qq", 1.0, 0, middle, end, column)


WRONG = {
    "its beginning": (
        b"\1\2\3\4" + bytes(40),
        "is not a file of arrays in MXNet's format: it does not begin with 1201000000000000",
    ),
    "nothing": (b"", "is not a file of arrays in MXNet's format: it does not begin with 1201000000000000"),
    "short": (file()[:20], "the header, byte 16: 8 bytes expected, 4 left"),
    "count": (struct.pack("<QQQ", 0x112, 0, 1 << 60), f"array 0 of {1 << 60}, byte 24: 4 bytes expected, 0 left"),
    "storage": (file(array(storage=3)), "array 0 of 1, byte 32: unknown storage type 3"),
    "version": (
        file(array(magic=0xF993FACB)),
        f"array 0 of 1, byte 28: neither a known version nor a number of dimensions: {0xF993FACB}",
    ),
    "negative": (file(array(shape=(2, -3))), "array 0 of 1, byte 52: negative size in shape (2, -3)"),
    "flag": (file(array(flag=99)), "array 0 of 1, byte 56: unknown type flag 99"),
    "huge": (file(array(shape=(1 << 40,))), f"array 0 of 1, byte 56: {1 << 42} bytes expected, 12 left"),
    "second": (file(array(), array()[:-2])[:-8], "array 1 of 2, byte 92: 4 bytes expected, 2 left"),
    "names": (file(array(), names=2), "the names, byte 68: 2 names for 1 arrays"),
    "name": (file(array(), names=1) + struct.pack("<Q", 9) + b"short", "name 0, byte 76: 9 bytes expected, 5 left"),
    "text": (file(array(), names=1) + struct.pack("<Q", 1) + b"\xff", "name 0, byte 77: it is not UTF-8"),
    "row": (file(rows(2)), "array 0 of 1, byte 112: row_sparse: indices must rise, from 0 to at most 1, got [2]"),
    "negative row": (
        file(rows(-1)),
        "array 0 of 1, byte 112: row_sparse: indices must rise, from 0 to at most 1, got [-1]",
    ),
    "columns": (file(csr(column=3)), "csr: indices must be from 0 to 1, got [3]"),
    "ends": (file(csr(end=2)), "csr: indptr must begin with 0, end with the number of values, 1, and not decrease"),
    "falling ends": (file(csr(middle=7)), "csr: indptr must begin with 0, end with the number of values, 1, and not"),
    "csr of one axis": (file(csr(shape=(2,))), "a csr array has shape (2,)"),
    "float row": (
        file(rows(1).replace(struct.pack("<iiq", 6, 1, 1), struct.pack("<iiq", 1, 1, 1))),
        "byte 112: its indices are no integers",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_and_where(what, tmp_path):
    content, text = WRONG[what]
    (tmp_path / "a.params").write_bytes(content)
    with pytest.raises(mx.MXNetError) as error:
        mx.nd.load(tmp_path / "a.params")
    assert str(error.value).startswith(f"{tmp_path / 'a.params'} is ")
    assert text in str(error.value)


def test_files_that_cannot_be_opened(tmp_path):
    with pytest.raises(mx.MXNetError, match=r"cannot read .*none: No such file or directory"):
        mx.nd.load(tmp_path / "none")
    with pytest.raises(mx.MXNetError, match=r"cannot read .*: Is a directory"):
        mx.nd.load(tmp_path)


@pytest.mark.parametrize("name", sorted(p.name for p in FILES.glob("*.params")))
def test_truncation_at_every_byte(name):
    content = (FILES / name).read_bytes()
    for n in range(len(content)):
        with pytest.raises(mx.MXNetError, match=r"is damaged|is not a file of arrays"):
            mx.nd.load_frombuffer(content[:n])


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(sorted(FILES.glob("*.params"))), st.data())
def test_flipped_bytes_give_an_error_or_arrays(path, data):
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        loaded = mx.nd.load_frombuffer(content)
    except mx.MXNetError:
        return
    for x in loaded.values() if isinstance(loaded, dict) else loaded:
        assert (x if x.stype == "default" else x.data).asnumpy().nbytes <= max(len(content), 1 << 32)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_behind_a_good_beginning(tail):
    for start in (b"", struct.pack("<QQ", 0x112, 0), struct.pack("<QQQI", 0x112, 0, 2, 0xF993FAC9)):
        try:
            mx.nd.load_frombuffer(start + tail)
        except mx.MXNetError:
            continue
