"""Record files: damaged and foreign ones, positions, processes and threads; the golden tests have MXNet's bytes."""

from __future__ import annotations

import contextlib
import copy
import multiprocessing
import os
import pickle  # noqa: TID251
import resource
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc import recordio
from tests.golden.image_cases import MAGIC, RECORD_DATA, noise


@pytest.fixture
def paths(tmp_path):
    """An index and a record file with some records."""
    paths = str(tmp_path / "a.idx"), str(tmp_path / "a.rec")
    writer = recordio.MXIndexedRecordIO(*paths, "w")
    for i, data in enumerate(RECORD_DATA):
        writer.write_idx(i, data)
    writer.close()
    return paths


def independent(data):
    """The bytes of a record, by the format's definition: split at the magic number where it is aligned."""
    pieces, start = [], 0
    for at in range(0, len(data) - 3, 4):
        if data[at : at + 4] == MAGIC:
            pieces.append(data[start:at])
            start = at + 4
    pieces.append(data[start:])
    made = b""
    for i, piece in enumerate(pieces):
        kind = 0 if len(pieces) == 1 else 1 if i == 0 else 3 if i == len(pieces) - 1 else 2
        made += struct.pack("<II", 0xCED7230A, kind << 29 | len(piece)) + piece + b"\0" * (-len(piece) % 4)
    return made


def test_random_records_come_back(tmp_path):
    rng = np.random.RandomState(1)
    words = [b"\0\0\0\0", MAGIC, b"ab", b"xyz", MAGIC[:2], MAGIC[2:]]
    data = [b"".join(words[i] for i in rng.randint(0, len(words), rng.randint(0, 12))) for _ in range(200)]
    path = tmp_path / "r.rec"
    writer = recordio.MXRecordIO(path, "w")
    for record in data:
        writer.write(record)
    writer.close()
    assert path.read_bytes() == b"".join(map(independent, data))
    reader = recordio.MXRecordIO(path, "r")
    assert [reader.read() for _ in data] == data
    assert reader.read() is None
    reader.reset()
    assert reader.read() == data[0]


def test_writer_can_be_reset_and_told(tmp_path):
    writer = recordio.MXIndexedRecordIO(tmp_path / "a.idx", tmp_path / "a.rec", "w", key_type=str)
    writer.write_idx("first", bytearray(b"old"))
    assert writer.tell() == 12
    writer.reset()
    assert writer.tell() == 0
    writer.write_idx("second", memoryview(b"newer"))
    writer.close()
    writer.close()
    assert not writer.is_open
    reader = recordio.MXIndexedRecordIO(tmp_path / "a.idx", tmp_path / "a.rec", "r", key_type=str)
    assert (reader.keys, reader.idx) == (["second"], {"second": 0})
    assert reader.read_idx("second") == b"newer"
    assert reader.tell() == (tmp_path / "a.rec").stat().st_size


def test_pickled_and_copied_readers_start_at_the_first_record(paths):
    reader = recordio.MXIndexedRecordIO(*paths, "r")
    reader.read_idx(3)
    for again in (pickle.loads(pickle.dumps(reader)), copy.copy(reader)):
        assert again.read() == RECORD_DATA[0]
        assert again.read_idx(8) == RECORD_DATA[8]
        again.close()
    assert reader.read() == RECORD_DATA[4]  # the pickled one stays where it was
    reader.close()
    assert not pickle.loads(pickle.dumps(reader)).is_open


def test_threads_read_one_file(paths):
    reader = recordio.MXIndexedRecordIO(*paths, "r")
    keys = [i % len(RECORD_DATA) for i in range(2000)]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(reader.read_idx, keys)) == [RECORD_DATA[key] for key in keys]


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="the system has no fork")
def test_forked_processes_have_positions_of_their_own(paths):
    reader = recordio.MXIndexedRecordIO(*paths, "r")
    reader.seek(1)
    with multiprocessing.get_context("fork").Pool(2, initializer=_inherit, initargs=(reader,)) as pool:
        for read in pool.map(_read_on, [4] * 6, chunksize=1):
            assert read[1:] == RECORD_DATA[5:8]
    assert reader.read() == RECORD_DATA[1]


def _inherit(reader):
    globals()["inherited"] = reader


def _read_on(key):
    reader = globals()["inherited"]
    return [reader.read_idx(key), reader.read(), reader.read(), reader.read()]


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="the system has no fork")
def test_a_forked_process_cannot_write(tmp_path):
    writer = recordio.MXRecordIO(tmp_path / "a.rec", "w")
    child = os.fork()
    if not child:
        try:
            writer.write(b"no")
        except RuntimeError:
            os._exit(17)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
    writer.write(b"yes")
    assert recordio.MXRecordIO(tmp_path / "a.rec", "r").read() == b"yes"


def test_every_truncation_is_noticed(paths):
    whole = Path(paths[1]).read_bytes()
    ends = list(np.cumsum([len(independent(data)) for data in RECORD_DATA]))
    for size in [*range(260), *range(260, len(whole), 97)]:
        with open(paths[1], "wb") as file:
            file.write(whole[:size])
        reader = recordio.MXRecordIO(paths[1], "r")
        complete = sum(end <= size for end in ends)
        assert [reader.read() for _ in range(complete)] == RECORD_DATA[:complete]
        if size in [0, *ends]:
            assert reader.read() is None
            continue
        for _ in range(2):  # nothing was read: the second time it is the same error
            with pytest.raises(mx.MXNetError, match=r"a\.rec is (damaged: record at byte|not a file)") as caught:
                reader.read()
        assert "bytes expected" in str(caught.value) or size < 4


def damage(path, at, new):
    """Write other bytes at an offset."""
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(new)


def test_damaged_records(paths):
    reader = recordio.MXIndexedRecordIO(*paths, "r")
    sizes = [len(independent(data)) for data in RECORD_DATA]
    second, third = sum(sizes[:1]), sum(sizes[:2])
    damage(paths[1], second, b"\1")
    with pytest.raises(mx.MXNetError, match=rf"record at byte {second}, byte {second}: .*0a23d7ce, found 0123"):
        reader.read_idx(1)
    assert reader.read_idx(2) == RECORD_DATA[2]
    damage(paths[1], third + 7, b"\x60")  # a last part, and no first one
    with pytest.raises(mx.MXNetError, match=rf"record at byte {third}.*kind 3 where a record begins"):
        reader.read_idx(2)
    split = reader.idx[5]
    damage(paths[1], split + 8 + 4 + 7, b"\x20")  # two first parts
    with pytest.raises(mx.MXNetError, match=rf"record at byte {split}, byte {split + 12}: .*kind 1 where .* goes on"):
        reader.read_idx(5)
    damage(paths[1], 0, b"\xff\xd8\xff\xe0")
    with pytest.raises(mx.MXNetError, match="is not a file of records: it does not begin with 0a23d7ce"):
        reader.read_idx(0)


def test_foreign_indices(paths, tmp_path):
    index = tmp_path / "a.idx"
    for text, message in [
        ("1\t0\nx\t3\n", r"a\.idx, line 2: expected a key, a tab and an offset, got 'x\\t3'"),
        ("1 0\n", "line 1: expected a key"),
        ("1\t-4\n", "line 1: no file has the offset -4: expected 0 to 9223372036854775807"),
        (f"1\t{'9' * 40}\n", f"line 1: no file has the offset {'9' * 40}: expected 0 to"),
    ]:
        index.write_text(text)
        with pytest.raises(mx.MXNetError, match=message):
            recordio.MXIndexedRecordIO(*paths, "r")
    index.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(mx.MXNetError, match="cannot read the index"):
        recordio.MXIndexedRecordIO(*paths, "r")
    index.write_text("7\t0\n\n8\t999999\n")
    reader = recordio.MXIndexedRecordIO(*paths, "r")
    assert reader.read_idx(7) == RECORD_DATA[0]
    with pytest.raises(mx.MXNetError, match=r"ends before byte 999999, where .*a\.idx has the record 8"):
        reader.read_idx(8)
    with pytest.raises(KeyError, match="has no record with the key 9; it has 2 keys: 7, 8"):
        reader.read_idx(9)


def test_wrong_use(paths, tmp_path):
    reader = recordio.MXIndexedRecordIO(*paths, "r")
    writer = recordio.MXIndexedRecordIO(tmp_path / "b.idx", tmp_path / "b.rec", "w")
    for make, kind, message in [
        (lambda: recordio.MXRecordIO(paths[1], "a"), ValueError, "flag must be 'r' or 'w'"),
        (
            lambda: recordio.MXRecordIO(tmp_path / "none.rec", "r"),
            mx.MXNetError,
            "cannot read .*none.rec: No such file",
        ),
        (lambda: recordio.MXIndexedRecordIO(tmp_path / "no", paths[1], "r"), mx.MXNetError, "cannot read the index"),
        (lambda: recordio.MXRecordIO(tmp_path, "w"), mx.MXNetError, "cannot write .*: Is a directory"),
        (lambda: reader.write(b"x"), AssertionError, "is open for reading only"),
        (lambda: writer.read(), AssertionError, "is open for writing only"),
        (lambda: writer.read_idx(1), AssertionError, "is open for writing only"),
        (lambda: writer.write("text"), TypeError, "a record is bytes, got str; use .encode()"),
        (lambda: writer.write_idx("x", b""), ValueError, "invalid literal"),
        (lambda: pickle.dumps(writer), mx.MXNetError, "is open for writing, and cannot be pickled"),
    ]:
        with pytest.raises(kind, match=message):
            make()
    assert (tmp_path / "b.rec").stat().st_size == (tmp_path / "b.idx").stat().st_size == 0
    reader.close()
    with pytest.raises(mx.MXNetError, match=r"a\.rec is closed"):
        reader.read()
    with pytest.raises(mx.MXNetError, match=r"a\.rec is closed"):
        reader.tell()


@contextlib.contextmanager
def files_of_at_most(size):
    """No file can grow beyond a size, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_whole_records(tmp_path):
    paths = tmp_path / "a.idx", tmp_path / "a.rec"
    writer = recordio.MXIndexedRecordIO(*paths, "w", key_type=str)
    writer.write_idx("a", b"first")
    with files_of_at_most(40), pytest.raises(mx.MXNetError, match=r"cannot write .*a\.rec: File too large"):
        writer.write_idx("b", b"second" * 20)
    with files_of_at_most(40), pytest.raises(mx.MXNetError, match=r"cannot write .*a\.idx: File too large"):
        writer.write_idx("b" * 50, b"second")
    writer.write_idx("c", b"third")
    writer.close()
    reader = recordio.MXIndexedRecordIO(*paths, "r", key_type=str)
    assert [reader.read(), reader.read(), reader.read()] == [b"first", b"third", None]
    assert (reader.keys, reader.read_idx("c")) == (["a", "c"], b"third")


# --- images in records ---


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (b"short", "the record has 5 bytes, but a header of an image has 24"),
        (struct.pack("<IfQQ", 3, 0, 0, 0) + b"\0" * 8, "3 labels follow, but 8 bytes are left"),
    ],
)
def test_unpack_of_foreign_records(record, message):
    with pytest.raises(mx.MXNetError, match=message):
        recordio.unpack(record)


@pytest.mark.parametrize("header", [(0, 1.0, "a", 0), (0, 1.0, -1, 0), (0, None, 1, 0), (0, 1.0, 2**64, 0)])
def test_pack_of_wrong_headers(header):
    with pytest.raises(mx.MXNetError, match="cannot be written"):
        recordio.pack(header, b"")


def test_labels_can_be_changed():
    header, _ = recordio.unpack(recordio.pack((0, [1.0, 2.0], 0, 0), b""))
    header.label[0] = 5
    assert header.label.tolist() == [5, 2]


def test_packed_images():
    image = noise(9, 7)  # BGR, as OpenCV has it
    header, again = recordio.unpack_img(recordio.pack_img((0, 3.0, 5, 0), image, 9, ".png"))
    assert (header.label, header.id) == (3.0, 5)
    np.testing.assert_array_equal(again, image)
    gray = recordio.unpack_img(recordio.pack_img((0, 3.0, 5, 0), image, 9, ".png"), 0)[1]
    wanted = image @ np.array([0.114, 0.587, 0.299])
    assert gray.shape == (9, 7)
    assert np.abs(gray - wanted).max() <= 1
    # The image comes back as RGB by mx.image.
    decoded = mx.image.imdecode(recordio.unpack(recordio.pack_img((0, 3.0, 5, 0), image, 9, ".png"))[1])
    np.testing.assert_array_equal(decoded.asnumpy(), image[:, :, ::-1])


@pytest.mark.parametrize("shape", [(6, 5), (6, 5, 1), (6, 5, 3), (6, 5, 4)])
def test_png_keeps_every_pixel_and_channel(shape):
    image = np.random.RandomState(0).randint(0, 256, shape).astype(np.uint8)
    again = recordio.unpack_img(recordio.pack_img((0, 0, 0, 0), image, 3, ".png"), -1)[1]
    np.testing.assert_array_equal(again, image.reshape(again.shape))
    assert again.shape == (shape if shape[-1] != 1 else shape[:2])


def test_png_of_16_bits():
    image = np.random.RandomState(0).randint(0, 2**16, (6, 5)).astype(np.uint16)
    again = recordio.unpack_img(recordio.pack_img((0, 0, 0, 0), image, 3, ".png"), -1)[1]
    np.testing.assert_array_equal(again, image)


def test_jpeg_is_close_and_quality_matters():
    y, x = np.mgrid[0:32, 0:48]
    image = np.stack([4 * x, 5 * y, 2 * (x + y)], -1).astype(np.uint8)
    records = {quality: recordio.pack_img((0, 0, 0, 0), image, quality) for quality in (30, 95)}
    assert len(records[30]) < len(records[95])
    off = {q: np.abs(recordio.unpack_img(r)[1].astype(int) - image).mean() for q, r in records.items()}
    assert off[95] < 2 < off[30]


@pytest.mark.parametrize(
    ("image", "fmt", "message"),
    [
        (np.zeros((3, 3, 2), np.uint8), ".png", "shape .3, 3, 2.: expected HW, or HWC of 1, 3 or 4"),
        (np.zeros((0, 3, 3), np.uint8), ".png", "shape .0, 3, 3."),
        (np.zeros((3, 3, 3)), ".png", "float64 as .png: expected uint8"),
        (np.zeros((3, 3), np.uint16), ".jpg", "uint16 as .jpg: expected uint8"),
        (np.zeros((3, 3, 3), np.uint8), ".nope", "cannot encode an image as '.nope'"),
    ],
)
def test_what_cannot_be_encoded(image, fmt, message):
    with pytest.raises(mx.MXNetError, match=message):
        recordio.pack_img((0, 0, 0, 0), image, 5, fmt)
