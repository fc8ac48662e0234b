"""The store on disk: real processes, real files."""

from __future__ import annotations

import fcntl
import hashlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import warnings
import zlib
from pathlib import Path

import pytest

import hybridc
from hybridc.ground.store import Store, version_of

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


def files(folder):
    return sorted(folder.iterdir())


def python(text, folder=None, **environment):
    """What a fresh process prints."""
    done = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
        cwd=folder,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_was_put_is_found(folder):
    store = Store(folder)
    assert store.get("a") is None
    store.put("a", b"1")
    store.put("b", b"")
    assert (store.get("a"), store.get("b"), store.get("c")) == (b"1", b"", None)
    store.put("a", bytes(range(256)) * 1000)
    assert store.get("a") == bytes(range(256)) * 1000
    assert len(files(folder)) == 2


def test_another_process_finds_it(folder):
    Store(folder).put("key", b"value")
    text = f"from hybridc.ground.store import Store; print(Store({str(folder)!r}).get('key'))"
    assert python(text) == "b'value'\n"


def test_nobody_else_can_read_or_write(folder):
    Store(folder).put("key", b"value")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert files(folder)[0].stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("size", [0, 1, 15, 16, 40, 60, -1])
def test_a_truncated_entry_is_removed(folder, size):
    store = Store(folder)
    store.put("key", b"value" * 10)
    (path,) = files(folder)
    path.write_bytes(path.read_bytes()[:size])
    assert store.get("key") is None
    assert files(folder) == []
    store.put("key", b"again")
    assert store.get("key") == b"again"


def test_every_flipped_bit_is_noticed(folder):
    store = Store(folder)
    store.put("key", b"value")
    (path,) = files(folder)
    entry = path.read_bytes()
    for place in range(len(entry)):
        for bit in (1, 16, 128):
            path.write_bytes(bytes([*entry[:place], entry[place] ^ bit, *entry[place + 1 :]]))
            assert store.get("key") is None
    path.write_bytes(entry + b"x")
    assert store.get("key") is None
    path.write_bytes(entry)
    assert store.get("key") == b"value"


def test_an_entry_of_another_key_or_format_is_not_taken(folder):
    store = Store(folder)
    store.put("key", b"value")
    store.put("other", b"else")
    one, other = store._path("key"), store._path("other")
    one.write_bytes(other.read_bytes())
    assert store.get("key") is None
    other.write_bytes(other.read_bytes().replace(b"store 1", b"store 0"))
    assert store.get("other") is None


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_folder_that_others_may_write_is_left_alone(folder, mode):
    Store(folder).put("key", b"value")
    folder.chmod(mode)
    store = Store(folder)
    with pytest.warns(UserWarning, match=r"is not used: others may write it\. Programs are compiled anew"):
        assert store.get("key") is None
    store.put("new", b"value")  # says nothing more: warnings are errors here
    assert store.get("new") is None
    assert len(files(folder)) == 1


def test_a_folder_that_others_may_replace_is_left_alone(tmp_path):
    """The folder is this user's, but not the one that it lies in."""
    folder = tmp_path / "cache" / "store"
    Store(folder).put("key", b"value")
    assert folder.parent.stat().st_mode & 0o777 == 0o700
    folder.parent.chmod(0o1777)  # as /tmp: others may make files there, and rename their own
    assert Store(folder).get("key") == b"value"
    folder.parent.chmod(0o770)
    with pytest.warns(UserWarning, match="is not used: others may write it"):
        assert Store(folder).get("key") is None


def test_a_link_in_the_place_of_the_folder_is_not_followed(tmp_path):
    Store(tmp_path / "victim").put("key", b"value")
    (tmp_path / "store").symlink_to(tmp_path / "victim")
    store = Store(tmp_path / "store")
    with pytest.warns(UserWarning, match="is not used: others may write it"):
        assert store.get("key") is None
    store.put("other", b"value")
    assert len(files(tmp_path / "victim")) == 1


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_may_write_is_left_alone(folder, mode):
    store = Store(folder)
    store.put("key", b"value")
    files(folder)[0].chmod(mode)
    with pytest.warns(UserWarning, match="is writable by other users"):
        assert store.get("key") is None
    store.put("key", b"mine")  # in its place
    assert store.get("key") == b"mine"


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root gives files away")
def test_files_and_folders_of_others_are_left_alone(folder):
    store = Store(folder)
    store.put("key", b"value")
    os.chown(files(folder)[0], 12345, 12345)
    with pytest.warns(UserWarning, match="is writable by other users"):
        assert store.get("key") is None
    os.chown(files(folder)[0], os.getuid(), os.getgid())
    assert Store(folder).get("key") == b"value"
    os.chown(folder, 12345, 12345)
    with pytest.warns(UserWarning, match="others may write it"):
        assert Store(folder).get("key") is None


def test_a_link_is_not_followed(folder, tmp_path):
    store = Store(folder)
    store.put("key", b"value")
    (path,) = files(folder)
    moved = tmp_path / "elsewhere"
    path.rename(moved)
    path.symlink_to(moved)
    with pytest.warns(UserWarning, match="is not used"):
        assert store.get("key") is None


def test_what_is_no_file_does_no_harm(folder):
    store = Store(folder)
    store.put("key", b"value")
    path = store._path("pipe")
    os.mkfifo(path, 0o600)
    assert store.get("pipe") is None  # and does not wait for somebody to write
    store._path("folder").mkdir(mode=0o700)
    with pytest.warns(UserWarning, match="is not used"):
        assert store.get("folder") is None


def test_the_longest_unused_goes_first(folder):
    store = Store(folder, limit=10_000)
    for i in range(9):
        store.put(f"{i}", bytes(900))
    now = time.time()
    for i in range(9):
        os.utime(store._path(f"{i}"), (now - 100 + i, now - 100 + i))
    assert store.get("0") is not None  # used now
    for i in range(9, 12):
        store.put(f"{i}", bytes(900))
    left = [i for i in range(12) if store.get(f"{i}") is not None]
    assert 0 in left
    assert 11 in left
    assert 1 not in left
    assert sum(path.stat().st_size for path in files(folder)) <= 10_000


def test_size_stays_bounded(folder):
    store = Store(folder, limit=100_000)
    for i in range(200):
        store.put(f"{i}", bytes(1000))
        assert sum(path.stat().st_size for path in files(folder)) <= 100_000 * (1 + 1 / 16) + 1200


def test_abandoned_files_go_and_unfinished_ones_stay(folder):
    store = Store(folder, limit=1000)
    store.put("key", b"value")
    host = f"{zlib.crc32(os.uname().nodename.encode()):08x}"
    names = (f"{host}-{0:016x}", f"00000000-{0:016x}", f"{host}-{1:016x}")
    old, distant, held = (folder / f"{'0' * 64}.entry.{name}.partial" for name in names)
    for path in (old, distant, held):
        path.write_bytes(b"half")
        os.utime(path, (time.time() - 60,) * 2)
    with open(held, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # its writer lives, and is slow
        store.put("more", bytes(500))
        assert (old.exists(), distant.exists(), held.exists()) == (False, True, True)
    store.put("most", bytes(500))
    assert not held.exists()


def test_writers_that_are_killed_stay_within_the_bound(folder):
    """Each writes its first entry, as in a process of its own, and is killed before it is there."""
    store = Store(folder, limit=20_000)
    store.put("old", bytes(9000))
    for number in range(12):
        pid = os.fork()
        if not pid:
            os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
            Store(folder, limit=20_000).put(f"{number}", bytes(5000))
            os._exit(0)
        os.waitpid(pid, 0)
    left = files(folder)
    assert 1 <= len(left) <= 3
    assert sum(path.stat().st_size for path in left) <= 20_000
    for path in left:
        os.utime(path, (time.time() - 60,) * 2)
    Store(folder, limit=20_000).put("new", bytes(15_000))
    assert files(folder) == [store._path("new")]


def test_what_is_larger_than_the_bound_is_not_written(folder):
    store = Store(folder, limit=1000)
    store.put("small", bytes(500))
    store.put("large", bytes(2000))
    assert store.get("large") is None
    assert sum(path.stat().st_size for path in files(folder)) <= 1000


OTHERS = [
    "mine.py",
    "mine.entry",
    "a.partial",
    "0" * 63 + ".entry",
    f"{'0' * 64}.entry~",
    "kernel-0.py",
    "tmpabc.partial",
    "mine.0123abcd-0123456789abcdef.partial",
]


def test_files_of_others_are_never_removed(folder):
    """Neither to keep the bound, which they do not count in, nor by clear."""
    folder.mkdir(mode=0o700)
    for name in OTHERS:
        (folder / name).write_bytes(bytes(5000))
        os.utime(folder / name, (0, 0))
    (folder / ("0" * 64 + ".entry")).symlink_to(folder / "mine.py")
    store = Store(folder, limit=2000)
    for i in range(9):
        store.put(f"{i}", bytes(500))
    assert store.get("8") is not None
    store.clear()
    assert [path.name for path in files(folder)] == sorted([*OTHERS, "0" * 64 + ".entry"])


def test_the_cache_folder_is_looked_into_nowhere_but_in_a_folder_of_ours(tmp_path):
    text = "from hybridc.ground.store import store; store().put('key', b'value'); print(store().folder)"
    ours = tmp_path / "store-1"
    assert python(text, HYBRIDC_CACHE_DIR=str(tmp_path)) == f"{ours}\n"
    assert files(tmp_path) == [ours]


def test_a_relative_cache_folder_does_not_move_with_the_process(tmp_path):
    text = """
import os
import hybridc.options
os.mkdir("elsewhere")
os.chdir("elsewhere")
from hybridc.ground.store import store
store().put("key", b"value")
"""
    python(text, tmp_path, HYBRIDC_CACHE_DIR="cache")
    assert len(files(tmp_path / "cache" / "store-1")) == 1
    assert files(tmp_path / "elsewhere") == []


_NOBODY = """
import os
import pwd
del os.environ["HOME"]
def getpwuid(user):
    raise KeyError(user)  # as for a container's user who has no entry
pwd.getpwuid = getpwuid
import hybridc as mx
from hybridc.options import OPTIONS
net = mx.gluon.nn.HybridLambda("tanh")
net.hybridize()
print(net(mx.nd.zeros(2)).asnumpy(), OPTIONS.cache)
"""


@pytest.mark.skipif(os.name != "posix", reason="homes are entries of a file of users")
def test_a_user_without_a_home(tmp_path):
    folder = tmp_path / f"hybridc-{os.getuid()}"
    environment = {"HOME": "", "XDG_CACHE_HOME": "", "HYBRIDC_CACHE_DIR": "", "TMPDIR": str(tmp_path)}
    environment["HYBRIDC_TARGET"] = "llvm"  # whose code is kept there
    assert python(_NOBODY, **environment) == f"[0. 0.] {folder}\n"
    assert len(files(folder / "store-1")) > 0


def test_clear_removes_entries_only(folder):
    store = Store(folder)
    store.put("key", b"value")
    (folder / "extension_shim.so").write_bytes(b"not ours")
    store.clear()
    assert [path.name for path in files(folder)] == ["extension_shim.so"]
    assert store.get("key") is None


def _write(folder, start):
    store = Store(folder)
    time.sleep(max(0.0, start - time.time()))
    for _ in range(50):
        store.put("key", b"value" * 20_000)
        assert store.get("key") == b"value" * 20_000


def test_many_processes_write_the_same_entry(folder):
    start = time.time() + 1.0
    several = multiprocessing.get_context("fork")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads of other tests
        processes = [several.Process(target=_write, args=(folder, start)) for _ in range(16)]
        for process in processes:
            process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 16
    assert len(files(folder)) == 1
    assert Store(folder).get("key") == b"value" * 20_000


_FULL = """
import resource, signal, warnings
from hybridc.ground.store import Store, version_of
store = Store({folder!r})
store.put("small", b"x")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for i in range(3):
        store.put(f"large {{i}}", bytes(5000))
print(len(caught), "nothing more is written" in str(caught[0].message), store.get("small"), store.get("large 0"))
"""


def test_a_full_disk_costs_the_cache_only(folder):
    assert python(_FULL.format(folder=str(folder))) == "1 True b'x' None\n"
    assert len(files(folder)) == 1  # no unfinished file is left


_READ_ONLY = """
import os, warnings
from hybridc.ground.store import Store, version_of
os.setuid(65534)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    store = Store({folder!r})
    for i in range(3):
        store.put(f"{{i}}", b"x")
        assert store.get(f"{{i}}") is None
print(len(caught), str(caught[0].message).split(":")[0])
"""


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="root may write everywhere: becomes nobody")
def test_a_disk_that_cannot_be_written_costs_the_cache_only():
    folder = "/no-such-folder-of-hybridc/cache"
    assert python(_READ_ONLY.format(folder=folder)) == f"1 there is no cache folder {folder}\n"


def test_a_folder_in_the_place_of_a_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"")
    store = Store(path)
    with pytest.warns(UserWarning, match="there is no cache folder"):
        store.put("key", b"value")
    store.put("key", b"value")  # says nothing more: warnings are errors here
    assert store.get("key") is None


def test_a_removed_folder_is_made_again(folder):
    store = Store(folder)
    store.put("key", b"value")
    for path in files(folder):
        path.unlink()
    folder.rmdir()
    assert store.get("key") is None
    store.put("key", b"value")
    assert store.get("key") == b"value"


def test_a_changed_compiler_is_another(tmp_path):
    text = "from hybridc.ground.store import compiler_version; print(compiler_version())"
    source = Path(hybridc.__file__).parent
    subprocess.run(["cp", "-rp", str(source), str(tmp_path)], check=True)
    first = python(text, tmp_path)
    assert python(text, tmp_path) == first
    with open(tmp_path / "hybridc" / "lower" / "kernel.py", "a") as file:
        file.write("\n")
    assert python(text, tmp_path) != first


def test_sources_are_files_for_people(folder):
    store = Store(folder, limit=10_000)
    path = store.put_source("name", "x = 1\n")
    assert path == folder / f"name-{hashlib.sha256(b'x = 1' + bytes([10])).hexdigest()[:32]}.py"
    assert path.read_text() == "x = 1\n"
    assert path.stat().st_mode & 0o077 == 0
    assert store.put_source("name", "x = 1\n") == path
    os.utime(path, (time.time() - 100,) * 2)
    for i in range(12):
        store.put(f"{i}", bytes(900))
    assert not path.exists()  # it was not used for the longest time
    assert store.put_source("name", "x = 2\n") != path
    store.clear()
    assert not files(folder)


def test_an_installed_package_is_known_by_its_list_of_files(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "code.py").write_text("x = 1\n")
    scanned = version_of(package)
    (package / "code.py").write_text("x = 12\n")
    assert version_of(package) != scanned
    listed = tmp_path / "package-1.0.dist-info" / "RECORD"
    listed.parent.mkdir()
    listed.write_text("package/code.py,sha256=a,6\n")
    installed = version_of(package)
    assert installed == version_of(package)
    listed.write_text("package/code.py,sha256=b,6\n")
    assert version_of(package) != installed
