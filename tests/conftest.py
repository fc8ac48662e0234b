"""What holds for every test: memory plans are verified, in some the IR after each pass; nothing is kept afterwards.

Fixtures and helpers of one folder are in its own ``conftest.py`` and in the modules beside its tests.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

# Read when hybridc is imported, so before that.
os.environ.setdefault("HYBRIDC_VERIFY_PLAN", "1")
os.environ.setdefault("HYBRIDC_MACHINE", "nominal")  # tests compile the same code on any machine
os.environ.setdefault("HYBRIDC_GPU", "interpreter")  # GPU code runs on any machine
_OWN_CACHE = "PYTEST_XDIST_WORKER" not in os.environ and "HYBRIDC_CACHE_DIR" not in os.environ
if _OWN_CACHE:  # which workers inherit
    os.environ["HYBRIDC_CACHE_DIR"] = tempfile.mkdtemp(prefix="hybridc-cache-")

# Tests start hundreds of processes, each of which would compile the library's source if bytecode was not kept.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

TESTS = Path(__file__).parent
# Tests of passes and plans, which verify the IR after each pass; `make test-all` does so everywhere (HYBRIDC_VERIFY).
FOLDERS = ("lower", "filecheck")
FILES = ("test_stages.py", "test_debug.py", "test_memory_plan.py", "test_new_sizes.py")


# Of a test's cases `make test` runs the first ones and one in so many others.
FIRST, EVERY = 3, 4


def pytest_collection_modifyitems(items):
    """Mark the further cases of tests with many; those that are marked as long do not count."""
    counts = collections.Counter()
    for item in items:
        if "long" in item.keywords:
            continue
        test = item.nodeid.partition("[")[0]
        if counts[test] >= FIRST and counts[test] % EVERY:
            item.add_marker(pytest.mark.further)
        counts[test] += 1


@pytest.fixture(scope="module", autouse=True)
def verified(request):
    """The IR is verified in these folders, and in these files of others."""
    if request.path.parent not in [TESTS / name for name in FOLDERS] and request.path.name not in FILES:
        yield
        return
    from hybridc.compile import new_sizes, pipeline, warm_start
    from hybridc.transforms.schedules import schedule_kernels

    with pytest.MonkeyPatch.context() as patch:
        for module in (pipeline, new_sizes, warm_start, schedule_kernels):
            patch.setattr(module, "OPTIONS", dataclasses.replace(module.OPTIONS, verify=True))
        yield


@pytest.fixture
def by_numpy(monkeypatch):
    """Networks become NumPy loops, which takes milliseconds: for tests of what is alike for all targets."""
    from hybridc.compile import new_sizes, targets, trace_key, warm_start

    for module in (targets, trace_key, warm_start, new_sizes):
        monkeypatch.setattr(module, "OPTIONS", dataclasses.replace(module.OPTIONS, target="numpy"))


@pytest.fixture
def natively_stored(monkeypatch):
    """Networks become native code that is stored, whatever target is tested and whether the IR is verified."""
    from hybridc.compile import compiled_file, new_sizes, pipeline, targets, trace_key, warm_start

    for module in (targets, trace_key, warm_start, new_sizes, compiled_file, pipeline):
        monkeypatch.setattr(module, "OPTIONS", dataclasses.replace(module.OPTIONS, target="llvm", verify=False))


@pytest.fixture
def own_attributes(monkeypatch):
    """What a test attaches to softmax goes with it: while there is such a thing, no graph is stored."""
    from hybridc.dialects import operator_registry

    attached = operator_registry.Attached
    with monkeypatch.context() as patch:
        patch.setattr(operator_registry.operator("hybrid.softmax"), attached.FIELD, {}, raising=False)
        yield
    attached.changes += 1


def pytest_unconfigure():
    """What these tests compiled is for them alone."""
    if _OWN_CACHE:
        shutil.rmtree(os.environ["HYBRIDC_CACHE_DIR"], ignore_errors=True)
