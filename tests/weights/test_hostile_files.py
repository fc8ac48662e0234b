"""Damaged and hostile files: errors that name the file and the array, before any memory is taken or code is run."""

from __future__ import annotations

import io
import json
import struct
import zipfile

import numpy as np
import pytest

import hybridc as mx

F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def safetensors(header, data=bytes(8), length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def changed(**values):
    return safetensors({"w": {**F32, **values}})


TWICE = b'{"w": %s, "w": %s}' % (json.dumps(F32).encode(), json.dumps(F32).encode())
SAFETENSORS = {
    "nothing": (b"", "its header claims 0 bytes, but the file has 0"),
    "huge header": (safetensors({"w": F32}, length=1 << 60), f"its header claims {1 << 60} bytes, but the file has"),
    "endless header": (safetensors({"w": F32}, length=(1 << 64) - 1), "its header claims 18446744073709551615 bytes"),
    "text": (safetensors(b"\xff" * 40), "its header is not JSON"),
    "deep": (safetensors(b"[" * 100_000), "its header is not JSON"),
    "list": (safetensors([1, 2]), "its header must be a JSON object, got [1, 2]"),
    "twice": (safetensors(TWICE), "its header is not JSON as safetensors has it: two values are called 'w'"),
    "entry": (safetensors({"w": 3}), "array 'w': expected dtype, shape and data_offsets, got 3"),
    "further": (changed(more=1), "array 'w': expected dtype, shape and data_offsets, got"),
    "dtype": (changed(dtype="F8_E5M2"), "array 'w': its dtype \"F8_E5M2\" is none of F32, F64, F16, U8"),
    "no dtype": (changed(dtype=["F32"]), "array 'w': its dtype [\"F32\"] is none of F32"),
    "negative": (changed(shape=[-2]), "array 'w': its shape must be at most 32 sizes, got [-2]"),
    "float": (changed(shape=[2.0]), "array 'w': its shape must be at most 32 sizes, got [2.0]"),
    "bool": (changed(shape=[True, 2]), "array 'w': its shape must be at most 32 sizes, got [true, 2]"),
    "dimensions": (changed(shape=[1] * 40 + [2]), "array 'w': its shape must be at most 32 sizes"),
    "shape": (changed(shape=[3]), "array 'w': F32 of shape [3] has not 8 bytes, as its data_offsets say"),
    "huge shape": (changed(shape=[1 << 62, 1 << 62]), "has not 8 bytes, as its data_offsets say"),
    "uncountable": (
        safetensors({"w": {"dtype": "F32", "shape": [1 << 62, 0], "data_offsets": [0, 0]}}, b""),
        "array 'w': ",
    ),
    "behind": (changed(data_offsets=[0, 1 << 60]), "array 'w': its data_offsets must be two of 8 bytes"),
    "backwards": (changed(data_offsets=[8, 0]), "array 'w': its data_offsets must be two of 8 bytes, in order"),
    "three": (changed(data_offsets=[0, 8, 8]), "array 'w': its data_offsets must be two of 8 bytes, in order"),
    "overlap": (
        safetensors({"v": F32, "w": {"dtype": "U8", "shape": [4], "data_offsets": [4, 8]}}),
        "array 'w' begins at byte 4 of the elements and overlaps array 'v'",
    ),
    "gap": (
        safetensors({"w": {**F32, "data_offsets": [4, 12]}}, bytes(12)),
        "array 'w' begins at byte 4 of the elements and does not begin at the end of the header",
    ),
    "rest": (safetensors({"w": F32}, bytes(9)), "1 bytes follow array 'w', expected none"),
    "short": (safetensors({"w": F32}, bytes(7)), "array 'w': its data_offsets must be two of 7 bytes"),
    "metadata": (safetensors({"__metadata__": {"a": 1}, "w": F32}), "__metadata__ must be texts by name, got"),
}


@pytest.mark.parametrize("what", SAFETENSORS)
def test_damaged_safetensors(what, tmp_path):
    content, text = SAFETENSORS[what]
    path = tmp_path / "w.safetensors"
    path.write_bytes(content)
    with pytest.raises(mx.MXNetError) as error:
        mx.nd.load(path)
    assert str(error.value).startswith(f"{path} is damaged: ")
    assert text in str(error.value)


@pytest.mark.parametrize("kind", ["safetensors", "npz"])
def test_truncation_at_every_byte(kind, tmp_path):
    path = tmp_path / f"w.{kind}"
    mx.nd.save(path, {"w": mx.nd.ones((2, 3)), "b": mx.nd.ones((3,), dtype="int8")})
    content = path.read_bytes()
    for n in range(len(content)):
        path.write_bytes(content[:n])
        with pytest.raises(mx.MXNetError, match=r"is damaged|is not a file of arrays"):
            mx.nd.load(path)


def npy(array=None, *, header=None, data=b"", pickled=False):
    """The bytes of a file of one array; with a header those that it is before."""
    out = io.BytesIO()
    if header is None:
        np.lib.format.write_array(out, array, allow_pickle=pickled)
        return out.getvalue()
    text = repr(header).encode() + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + data


def archive(*members, compression=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as file:
        for name, content in members:
            file.writestr(name, content)
    return out.getvalue()


def described(descr="<f4", shape=(2,), data=bytes(8)):
    return archive(("w.npy", npy(header={"descr": descr, "fortran_order": False, "shape": shape}, data=data)))


class Trap:
    """Its pickle writes a file when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


NPZ = {
    "no archive": (b"PK\3\4" + bytes(60), "is damaged: File is not a zip file"),
    "text": (archive(("w.npy", npy(np.array("text")))), "array 'w' has dtype <U4, expected one of float32"),
    "complex": (archive(("w.npy", npy(np.zeros(2, "complex64")))), "array 'w' has dtype complex64, expected one"),
    "fields": (archive(("w.npy", npy(np.zeros(2, [("a", "f4")])))), "array 'w' has dtype [('a', '<f4')], expected"),
    "huge": (described(shape=(1 << 60,)), f"array 'w' is damaged: float32 of shape ({1 << 60},) has not 8 bytes"),
    "huge none": (described(shape=(1 << 62, 0), data=b""), "array 'w' is damaged: "),
    "negative": (described(shape=(-2, -1)), "array 'w' is damaged: its shape is (-2, -1)"),
    "short": (described(data=bytes(7)), "array 'w' is damaged: float32 of shape (2,) has not 7 bytes"),
    "descr": (described(descr="nonsense"), "array 'w' is damaged: "),
    "code": (described(shape="__import__('os')"), "array 'w' is damaged: "),
    "twice": (archive(("w.npy", npy(np.ones(2))), ("w.npy", npy(np.ones(2)))), "'w.npy' is there twice, or not an"),
    "further": (archive(("w.npy", npy(np.ones(2))), ("a.txt", "text")), "'a.txt' is there twice, or not an array"),
    "pytorch": (archive(("w/data.pkl", "x"), ("w/data/0", "x")), "If PyTorch wrote it, save its arrays there by"),
}


@pytest.mark.parametrize("what", NPZ)
def test_damaged_npz(what, tmp_path):
    content, text = NPZ[what]
    path = tmp_path / "w.npz"
    path.write_bytes(content)
    with pytest.raises(mx.MXNetError) as error:
        mx.nd.load(path)
    assert str(error.value).startswith(str(path))
    assert text in str(error.value)


def test_pickles_do_not_run(tmp_path):
    trap = np.array([Trap(tmp_path / "sprung")], dtype=object)
    np.savez(tmp_path / "w.npz", w=trap)
    with pytest.raises(mx.MXNetError, match="array 'w' has Python's objects, which are pickled: loading them could"):
        mx.nd.load(tmp_path / "w.npz")
    np.save(tmp_path / "w.npy", trap, allow_pickle=True)
    with pytest.raises(mx.MXNetError, match="is a file of NumPy for one array"):
        mx.nd.load(tmp_path / "w.npy")
    assert not (tmp_path / "sprung").exists()


def test_a_changed_byte_is_noticed_by_its_checksum(tmp_path):
    np.savez(tmp_path / "w.npz", w=np.arange(1000.0))
    content = bytearray((tmp_path / "w.npz").read_bytes())
    content[4000] ^= 1
    (tmp_path / "w.npz").write_bytes(content)
    with pytest.raises(mx.MXNetError, match=r"array 'w' is damaged: Bad CRC-32"):
        mx.nd.load(tmp_path / "w.npz")


def claiming(sizes):
    """An archive of one array, whose directory has an entry for each of these sizes: packed, 0 if rightly, and not."""
    content = archive(("w.npy", npy(np.zeros(1 << 16, "u1"))), compression=zipfile.ZIP_DEFLATED)
    first, last = content.rindex(b"PK\1\2"), content.rindex(b"PK\5\6")
    entry = content[first:last]
    (actual,) = struct.unpack("<I", entry[20:24])
    entries = [entry[:20] + struct.pack("<II", packed or actual, size) + entry[28:] for packed, size in sizes]
    directory = b"".join(entries)
    counts = struct.pack("<HHI", len(entries), len(entries), len(directory))
    return content[:first] + directory + content[last : last + 8] + counts + content[last + 16 :]


BOMBS = {
    "enormous": ([(10, 0xFFFFFFF0)] * 3, "would have 12884901840 unpacked, more than 100 times as many"),
    "overlapping": ([(200, 1 << 16)] * 9, "its arrays overlap, or are longer than the"),
    "one size": ([(0, 1 << 30)], r"array 'w' is damaged: uint8 of shape \(65536,\) has not"),
}


@pytest.mark.parametrize("what", BOMBS)
def test_archives_that_become_enormous_are_refused(what, tmp_path):
    sizes, text = BOMBS[what]
    (tmp_path / "w.npz").write_bytes(claiming(sizes))
    with pytest.raises(mx.MXNetError, match=text):
        mx.nd.load(tmp_path / "w.npz")


def test_zeros_that_compress_well_are_read(tmp_path):
    np.savez_compressed(tmp_path / "w.npz", w=np.zeros(1 << 20))
    assert mx.nd.load(tmp_path / "w.npz")["w"].shape == (1 << 20,)
