"""Files are written as a whole, or not at all: by real writers, killed, and on full disks."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import signal
import stat
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd, gluon
from hybridc.errors import FileWriteError
from hybridc.ground.whole_files import replacing, write_whole

is_root = os.getuid() == 0


def trained():
    """A layer with a trainer whose optimizer has states."""
    net = gluon.nn.Dense(30, in_units=50)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "adam")
    with autograd.record():
        loss = net(mx.nd.ones((1, 50))).sum()
    loss.backward()
    trainer.step(1)
    return net, trainer


def module():
    """A bound module with an optimizer."""
    symbol = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=500, name="fc")
    made = mx.mod.Module(mx.sym.LinearRegressionOutput(symbol, mx.sym.var("softmax_label")))
    made.bind([("data", (1, 50))], [("softmax_label", (1, 500))])
    made.init_params()
    made.init_optimizer(kvstore=None, optimizer="adam")
    made.forward_backward(mx.io.DataBatch([mx.nd.ones((1, 50))], [mx.nd.ones((1, 500))]))
    made.update()
    return made


def store():
    """A store that has updated a value."""
    made = mx.kv.create("local")
    made.set_optimizer(mx.optimizer.Adam())
    made.init("w", mx.nd.ones((3000,)))
    made.push("w", mx.nd.ones((3000,)))
    return made


def savers():
    net, trainer = trained()
    net.hybridize()
    net(mx.nd.ones((1, 50)))
    return {
        "arrays": lambda file: mx.nd.save(file, mx.nd.ones((3000,))),
        "parameters": net.save_parameters,
        "trainer": trainer.save_states,
        "module": module().save_optimizer_states,
        "store": store().save_optimizer_states,
        "symbol": module().symbol.save,
        "report": net.explain().save,
    }


NAMES = ["arrays", "parameters", "trainer", "module", "store", "symbol", "report"]


@contextlib.contextmanager
def files_of_at_most(size):
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.fixture(scope="module")
def saves(tmp_path_factory):
    made = savers()
    for save in made.values():
        save(str(tmp_path_factory.mktemp("first") / "a"))  # imports what it needs
    return made


@pytest.mark.parametrize("name", NAMES)
def test_a_full_disk_leaves_the_old_file(saves, name, tmp_path):
    file = tmp_path / "a"
    file.write_bytes(b"old")
    with files_of_at_most(100), pytest.raises(FileWriteError) as caught:
        saves[name](str(file))
    assert str(caught.value) == (
        f"cannot write {file}: File too large; files there may not be so large (ulimit -f): give a file on another "
        "disk; what was there before is as it was"
    )
    assert isinstance(caught.value, mx.MXNetError)
    assert isinstance(caught.value, OSError)
    assert file.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", [0o600, 0o664])
def test_the_mode_stays(saves, name, mode, tmp_path):
    file = tmp_path / "a"
    file.write_bytes(b"")
    file.chmod(mode)
    saves[name](str(file))
    assert stat.S_IMODE(file.stat().st_mode) == mode
    assert file.stat().st_size


def test_a_new_file_has_the_mode_of_the_process(tmp_path):
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "a", b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_it_is_nobody_elses_while_it_is_written(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "a").chmod(0o600)
    with replacing(tmp_path / "a") as file:
        file.write(b"secret")
        file.flush()
        assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


@pytest.mark.skipif(not is_root, reason="only root gives files away")
def test_owner_and_group_stay_and_a_run_as_the_owner_does_not(tmp_path):
    file = tmp_path / "a"
    file.write_bytes(b"old")
    os.chown(file, 1234, 2345)
    file.chmod(0o4750)
    write_whole(file, b"new")
    found = file.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1234, 2345, 0o750)


@pytest.mark.skipif(not is_root, reason="only root becomes another user")
def test_a_group_that_it_cannot_have_gets_no_more_than_others():
    """Another user writes over a file of root's group; the new one has that user's group."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        file = Path(folder, "a")
        file.write_bytes(b"old")
        file.chmod(0o676)
        pid = os.fork()
        if not pid:
            os.setgroups([])
            os.setgid(2345)
            os.setuid(1234)
            write_whole(file, b"new")
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        found = file.stat()
        assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1234, 2345, 0o666)


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    target = tmp_path / "folder" / "target"
    target.write_bytes(b"old")
    (tmp_path / "link").symlink_to("folder/target")
    write_whole(tmp_path / "link", b"new")
    assert ((tmp_path / "link").is_symlink(), target.read_bytes()) == (True, b"new")
    assert os.listdir(tmp_path / "folder") == ["target"]


def test_what_is_no_file_is_written_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_whole(tmp_path / "pipe", b"content")
    assert os.read(reader, 100) == b"content"
    os.close(reader)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    mx.nd.save(os.devnull, mx.nd.ones(1))
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    read, write = os.pipe()
    write_whole(f"/dev/fd/{write}", b"content")
    assert os.read(read, 100) == b"content"
    os.close(read)
    os.close(write)


@pytest.mark.parametrize("name", ["p" * 255, "é" * 127])
def test_the_longest_names(name, tmp_path):
    write_whole(tmp_path / name, b"content")
    assert (tmp_path / name).read_bytes() == b"content"


def killed_writer(file):
    """A process that is killed after it has written half of the file; its number."""
    pid = os.fork()
    if not pid:
        with replacing(file) as writing:
            writing.write(b"half")
            writing.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)


def age(folder, seconds=60):
    for path in folder.iterdir():
        os.utime(path, (time.time() - seconds,) * 2)


def test_what_killed_writers_left_goes_with_the_next_write(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    killed_writer(tmp_path / "a")
    killed_writer(tmp_path / "a")
    killed_writer(tmp_path / "a.b")
    mine = ["a.partial", "a.1-2.partial", "a.0123abcd-0123456789abcdef.partial~", "b.0123abcd-0123456789abcdef.partial"]
    for name in mine:
        (tmp_path / name).write_bytes(b"mine")
    assert len(os.listdir(tmp_path)) == 3 + len(mine)
    assert (tmp_path / "a").read_bytes() == b"old"
    age(tmp_path)
    write_whole(tmp_path / "a", b"new")
    left = set(os.listdir(tmp_path)) - {"a", *mine}
    assert [name[:4] for name in left] == ["a.b."]  # another file's
    write_whole(tmp_path / "a.b", b"new")
    assert set(os.listdir(tmp_path)) == {"a", "a.b", *mine}


def test_a_live_writer_keeps_its_file(tmp_path):
    with replacing(tmp_path / "a") as slow:
        slow.write(b"slow")
        slow.flush()
        age(tmp_path, 7200)
        pid = os.fork()
        if not pid:
            write_whole(tmp_path / "a", b"quick")
            os._exit(0)
        os.waitpid(pid, 0)
        write_whole(tmp_path / "a", b"quick")
        assert (tmp_path / "a").read_bytes() == b"quick"
        assert len(os.listdir(tmp_path)) == 2
    assert (tmp_path / "a").read_bytes() == b"slow"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.skipif(not is_root, reason="only root gives files away")
def test_what_other_users_left_stays(tmp_path):
    killed_writer(tmp_path / "a")
    (left,) = tmp_path.iterdir()
    os.chown(left, 1234, -1)
    age(tmp_path, 7200)
    write_whole(tmp_path / "a", b"new")
    assert left.exists()


def test_a_writer_whose_file_was_removed_takes_another_file(tmp_path, monkeypatch):
    """Between the making of the file and its lock another process took it for abandoned."""
    real, removed = fcntl.flock, []

    def late(handle, operation):
        if not removed:
            (path,) = tmp_path.iterdir()
            removed.append(path)
            path.unlink()
        real(handle, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    write_whole(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert removed[0] != tmp_path / "a"


def test_the_errors_of_the_block_are_its_own(tmp_path):
    def write():
        with replacing(tmp_path / "a") as file:
            file.write(b"half")
            raise ConnectionError("gone")

    with pytest.raises(ConnectionError, match="gone"):
        write()
    assert os.listdir(tmp_path) == []


def messages(tmp_path):
    (tmp_path / "file").write_bytes(b"mine")
    (tmp_path / "closed").mkdir(mode=0o500)
    (tmp_path / "read").write_bytes(b"mine")
    (tmp_path / "read").chmod(0o400)
    return {
        "none/a": f"No such file or directory; there is no folder {tmp_path}/none: make it before",
        "file/a": f"Not a directory; there is no folder {tmp_path}/file: make it before",
        "closed": "Is a directory; it is a folder; give the name of a file",
        "new/": "Is a directory; it is a folder; give the name of a file",
        "closed/a": "Permission denied; give a file in a folder that this user may write",
        "read": "Permission denied; give a file in a folder that this user may write; what was there before is as it "
        "was",
        "x" * 256: "File name too long; give it a shorter name",
    }


def test_errors_name_the_file_and_the_remedy(tmp_path):
    for name, text in messages(tmp_path).items():
        if is_root and "Permission" in text:
            continue
        with pytest.raises(FileWriteError) as caught:
            write_whole(f"{tmp_path}/{name}", b"new")
        assert str(caught.value) == f"cannot write {tmp_path}/{name}: {text}"
    assert np.sort(os.listdir(tmp_path)).tolist() == ["closed", "file", "read"]
