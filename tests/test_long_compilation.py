"""What a terminal is told of compilations that take long: real processes, some of them at a terminal."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hybridc.compile.long_compilation import reported_if_long

if sys.platform == "win32":
    pytest.skip("Windows has no pseudo-terminals", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = """
import sys
import threading

import hybridc as mx
from hybridc.compile import long_compilation

long_compilation.LONG = float(sys.argv[1])
net = mx.gluon.nn.Dense(3, in_units=4, prefix="scores_")
net.initialize()
net.hybridize()
net(mx.nd.ones((2, 4)))
print([t.name for t in threading.enumerate() if "long" in t.name])
net(mx.nd.ones((2, 4)))
"""


def run(tmp_path, seconds, at_terminal=True):
    """What a process prints, and what it says on stderr, which is a terminal, or else a pipe."""
    reader, writer = os.openpty() if at_terminal else os.pipe()
    native = {"HYBRIDC_TARGET": "llvm", "HYBRIDC_VERIFY": "0"}  # such graphs are kept on the disk
    environment = {**os.environ, **native, "PYTHONPATH": str(ROOT), "HYBRIDC_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", PROGRAM, str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=writer, text=True, env=environment)
    os.close(writer)
    printed, _ = process.communicate(timeout=600)
    said = read_all(reader)
    assert process.returncode == 0, said
    return printed, said


def read_all(reader):
    parts = []
    while True:
        try:
            part = os.read(reader, 4096)
        except OSError:  # a terminal without a writer
            part = b""
        if not part:
            os.close(reader)
            return b"".join(parts).decode().replace("\r\n", "\n")
        parts.append(part)


def test_a_terminal_is_told_once_which_network_takes_long(tmp_path):
    printed, said = run(tmp_path, 0)
    assert said == "hybridc: compiling scores (0 s so far) …\n"
    assert printed == "[]\n"  # no thread is left
    assert run(tmp_path, 0) == ("[]\n", "")  # a graph from the disk is not compiled


def test_what_is_no_terminal_is_told_nothing(tmp_path):
    assert run(tmp_path, 0, at_terminal=False) == ("[]\n", "")


def test_streams_that_programs_put_in_place_of_stderr():
    closed = io.StringIO()
    closed.close()
    for stream in (None, object(), closed, io.StringIO()):
        with contextlib.redirect_stderr(stream), reported_if_long("net"):
            assert not _threads()


def test_what_is_timed_ends_early_or_with_an_error_or_is_forked():
    reader, writer = os.openpty()
    with os.fdopen(writer, "w") as terminal, contextlib.redirect_stderr(terminal):
        with pytest.raises(ZeroDivisionError):
            fail_in_time()
        assert not _threads()
    assert read_all(reader) == ""


def fail_in_time():
    with reported_if_long("net"):
        assert len(_threads()) == 1
        pid = os.fork()
        if not pid:
            with reported_if_long("another"):
                os._exit(len(_threads()))
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1  # the child's own
        raise ZeroDivisionError


def _threads():
    return [thread for thread in threading.enumerate() if thread.name == "hybridc long compilation"]
