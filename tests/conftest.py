"""Every test verifies the IR after each pass, and the memory plan."""

from __future__ import annotations

import os
import shutil
import tempfile

os.environ.setdefault("HYBRIDC_VERIFY", "1")  # read when hybridc is imported, so before that
os.environ.setdefault("HYBRIDC_GPU", "interpreter")  # GPU code runs on any machine
_OWN_CACHE = "PYTEST_XDIST_WORKER" not in os.environ and "HYBRIDC_CACHE_DIR" not in os.environ
if _OWN_CACHE:  # which workers inherit
    os.environ["HYBRIDC_CACHE_DIR"] = tempfile.mkdtemp(prefix="hybridc-cache-")


def pytest_unconfigure():
    """What these tests compiled is for them alone."""
    if _OWN_CACHE:
        shutil.rmtree(os.environ["HYBRIDC_CACHE_DIR"], ignore_errors=True)
