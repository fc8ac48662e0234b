"""What LLVM says of the processor is noted on the disk: a process whose programs are all cached never loads LLVM."""

from __future__ import annotations

import builtins
import io
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from hybridc.ground import store
from hybridc.lower.llvm.codegen import host as module
from hybridc.lower.llvm.codegen import llvm, object_loader

pytestmark = pytest.mark.skipif(not object_loader.runs_here(), reason="elsewhere LLVM loads the code")

CPUINFO = "vendor_id\t: GenuineIntel\nflags\t\t: fpu avx2\ncpu MHz\t\t: 2000\n\nprocessor\t: 1\nflags\t\t: other\n"


def what_llvm_says():
    return llvm.host_name(), llvm.host_features(), llvm.llvm_version()


@pytest.fixture
def ask(monkeypatch, tmp_path):
    """Asks as a new process with a cache folder of its own does; LLVM's name of the processor is the argument."""
    folder = store.Store(tmp_path / "cache" / "store")
    monkeypatch.setattr(store, "store", lambda: folder)

    def ask(name, cpuinfo=CPUINFO):
        def opened(path, *arguments, **options):
            return io.StringIO(cpuinfo) if path == "/proc/cpuinfo" else builtins.open(path, *arguments, **options)

        monkeypatch.setattr(module, "open", opened, raising=False)
        monkeypatch.setattr(llvm, "host_name", lambda: name)
        return module.host.__wrapped__().name

    return ask


def test_the_host_is_what_llvm_says():
    for _ in range(2):  # asked, and noted
        found = module.host.__wrapped__()
        assert (found.name, found.features, found.llvm) == what_llvm_says()


def test_llvm_is_asked_once_for_each_processor(ask):
    assert ask("one") == ask("none") == "one"
    assert ask("none", CPUINFO.replace("2000", "3000")) == "one"  # the same at another clock
    assert ask("two", CPUINFO.replace("avx2", "avx512f")) == "two"
    assert ask("none") == "one"


def test_another_library_is_asked(ask, monkeypatch, tmp_path):
    library = tmp_path / "library"
    loaded = SimpleNamespace(path=library, name="any", version=lambda: "1", host_features=lambda: "+avx2")
    monkeypatch.setattr(llvm, "library_path", lambda: library)
    monkeypatch.setattr(llvm, "library", lambda triple="": loaded)
    library.write_bytes(b"1")
    os.utime(library, (1, 1))
    assert ask("one") == ask("none") == "one"
    os.utime(library, (2, 2))
    assert ask("two") == "two"
    library.write_bytes(b"22")
    os.utime(library, (2, 2))
    assert ask("three") == "three"
    loaded.path = tmp_path / "the one that could be loaded"
    os.utime(library, (3, 3))
    assert ask("four") == "four"
    assert ask("five") == "five"


def test_where_nobody_describes_the_processor_nothing_is_noted(ask, monkeypatch):
    assert ask("one", "") == "one"
    assert ask("two", "") == "two"
    monkeypatch.setattr(object_loader.platform, "machine", lambda: "aarch64")
    assert ask("three") == "three"
    assert ask("four") == "four"


def test_a_damaged_note_is_none(ask):
    assert ask("one") == "one"
    (entry,) = store.store().folder.iterdir()
    entry.write_bytes(entry.read_bytes()[:-3])
    assert ask("two") == "two"


_CALLED = """
import numpy, hybridc as mx
class Network(mx.gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        return F.softmax(F.exp(x) * 0.5)
net = Network()
net.hybridize()
y = net(mx.nd.array([[1.0, 2.0, 3.0]])).asnumpy()
with open("/proc/self/maps") as maps:
    print(y.tolist(), "llvm" in maps.read().lower())
"""


def test_a_process_that_compiles_nothing_never_loads_llvm(tmp_path):
    environment = {**os.environ, "HYBRIDC_CACHE_DIR": str(tmp_path), "HYBRIDC_TARGET": "llvm"}
    environment.pop("HYBRIDC_VERIFY_PLAN", None)
    first, second = (
        subprocess.run([sys.executable, "-c", _CALLED], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    )
    values, cold = first.stdout.rsplit(maxsplit=1)
    assert cold == "True"
    assert second.stdout == f"{values} False\n"
