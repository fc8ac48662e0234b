"""What is unpacked or downloaded is whole: a damaged archive is an error each time, and its files are not there."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import os
import socketserver
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler

import numpy as np
import pytest

from hybridc import MXNetError, test_utils
from hybridc.gluon.contrib.data.text import WikiText2
from hybridc.gluon.data.vision import CIFAR10
from hybridc.gluon.utils import download

NOWHERE = "http://127.0.0.1:9/d.bz2"  # the file is here: nothing is asked
TEXT = "\n".join(f"the cat sat on mat {i}" for i in range(5000))


def flipped(data, at=0.6):
    """Data with a damaged byte."""
    place = int(len(data) * at)
    return data[:place] + bytes([data[place] ^ 255]) + data[place + 1 :]


def zipped(files, kind=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", kind) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def twice(call, match):
    for _ in range(2):
        with pytest.raises(MXNetError, match=match):
            call()


def test_texts(tmp_path):
    archive = tmp_path / "wikitext-2-v1.zip"
    whole = zipped({"wikitext-2/wiki.train.tokens": TEXT})
    for damaged in (flipped(whole), whole[: len(whole) // 2], b""):
        archive.write_bytes(damaged)
        twice(lambda: WikiText2(root=tmp_path, seq_len=10), r"wikitext-2-v1\.zip is damaged: .*; remove it, and put or")
        assert os.listdir(tmp_path) == [archive.name]
    archive.write_bytes(whole)
    tokens = len(TEXT.split()) + 5000
    assert len(WikiText2(root=tmp_path, seq_len=10)) == (tokens - 1) // 10


def in_tar(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def test_images_of_a_damaged_archive(tmp_path):
    """The archive is stored uncompressed, so only its checksum, at the end, tells of a changed pixel."""
    pixels = np.arange(3073 * 5, dtype=np.uint8).tobytes()
    packed = gzip.compress(in_tar({"cifar-10-batches-bin/test_batch.bin": pixels}), compresslevel=0)
    archive = tmp_path / "cifar-10-binary.tar.gz"
    archive.write_bytes(packed)
    assert len(CIFAR10(tmp_path, train=False)) == 5
    archive.write_bytes(flipped(packed, 0.3))
    twice(lambda: CIFAR10(tmp_path, train=False), r"cannot read .*cifar-10-binary\.tar\.gz: CRC check failed")


def test_data_of_test_utils(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = {"cifar/train.rec": bytes(5000), "cifar/train.lst": b"a", "cifar/test.rec": b"b", "cifar/test.lst": b"c"}
    os.mkdir("data")
    archive = tmp_path / "data" / "cifar10.zip"
    whole = zipped(files, zipfile.ZIP_STORED)
    archive.write_bytes(flipped(whole, 0.4))
    twice(test_utils.get_cifar10, "cifar10.zip is damaged: Bad CRC-32")
    assert not os.path.exists("data/cifar/train.rec")
    archive.write_bytes(whole)
    test_utils.get_cifar10()
    assert {name: (tmp_path / "data" / name).read_bytes() for name in files} == files


def test_a_zip_that_was_unpacked_in_part(tmp_path):
    files = {"a": b"first", "folder/b": b"second", "../c": b"third"}
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "d.zip").write_bytes(zipped(files))
    (folder / "folder").mkdir()
    (folder / "folder" / "b").write_bytes(b"sec")
    (folder / "a").write_bytes(b"FIRST")  # whole as far as can be seen
    test_utils.get_zip_data(str(folder), "unused", "d.zip")
    assert [(folder / name).read_bytes() for name in ("a", "folder/b", "c")] == [b"FIRST", b"second", b"third"]
    assert not (tmp_path / "c").exists()


def test_bzip2(tmp_path):
    packed = tmp_path / "d.bz2"
    for damaged in (flipped(bz2.compress(TEXT.encode())), bz2.compress(TEXT.encode())[:-20]):
        packed.write_bytes(damaged)
        twice(
            lambda: test_utils.get_bz2_data(str(tmp_path), "d", "http://127.0.0.1:9/d.bz2", "d.bz2"), "d.bz2 is damaged"
        )
        assert os.listdir(tmp_path) == ["d.bz2"]
    packed.write_bytes(bz2.compress(TEXT.encode()))
    test_utils.get_bz2_data(str(tmp_path), "d", NOWHERE, "d.bz2")
    assert (tmp_path / "d").read_text() == TEXT
    assert not packed.exists()


def test_a_truncated_file_of_mnist(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(bytes(1000))[:-9])
    twice(test_utils.get_mnist, "train-labels-idx1-ubyte.gz is damaged")


class Server(BaseHTTPRequestHandler):
    """Says that there are 1000 bytes, and sends half of them the first time."""

    times = 0

    def do_GET(self):
        type(self).times += 1
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(bytes(500 if self.times == 1 else 1000))

    def log_message(self, *_):
        """Say nothing."""


@contextlib.contextmanager
def served():
    Server.times = 0
    with socketserver.TCPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/file"
        finally:
            server.shutdown()
            thread.join()


def test_a_connection_that_ends_early(tmp_path, monkeypatch, capsys):
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with served() as url:
        with pytest.raises(MXNetError, match="the connection ended after 500 of 1000 bytes"):
            download(url, str(tmp_path / "a"), retries=0)
        assert os.listdir(tmp_path) == []
        Server.times = 0
        download(url, str(tmp_path / "a"), retries=2)
    assert (tmp_path / "a").read_bytes() == bytes(1000)
    assert "retrying, 1 attempt left" in capsys.readouterr().out
