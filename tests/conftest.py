"""What holds for every test: the IR is verified after each pass, and the memory plan; nothing is kept afterwards.

Fixtures and helpers of one folder are in its own ``conftest.py`` and in the modules beside its tests.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile

# Read when hybridc is imported, so before that.
os.environ.setdefault("HYBRIDC_VERIFY", "1")
os.environ.setdefault("HYBRIDC_GPU", "interpreter")  # GPU code runs on any machine
_OWN_CACHE = "PYTEST_XDIST_WORKER" not in os.environ and "HYBRIDC_CACHE_DIR" not in os.environ
if _OWN_CACHE:  # which workers inherit
    os.environ["HYBRIDC_CACHE_DIR"] = tempfile.mkdtemp(prefix="hybridc-cache-")

# Tests start hundreds of processes, each of which would compile the library's source if bytecode was not kept.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_unconfigure():
    """What these tests compiled is for them alone."""
    if _OWN_CACHE:
        shutil.rmtree(os.environ["HYBRIDC_CACHE_DIR"], ignore_errors=True)
