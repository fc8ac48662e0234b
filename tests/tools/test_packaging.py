"""What pip is told when hybridc is built: which Python it needs, and the oldest releases of other packages."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from hybridc.tools.packaging import oldest


def test_oldest_releases():
    given = ["numpy>=2.0", "ml_dtypes>=0.5", "xdsl>=0.74,<0.76", "llvm==23.1.*; sys_platform == 'linux'", "scipy"]
    assert oldest.oldest(given) == ["numpy==2.0", "ml_dtypes==0.5", "xdsl==0.74"]


def python_310():
    """An interpreter that is too old, or None."""
    roots = [Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))]
    found = [shutil.which("python3.10"), *sorted(str(p) for r in roots for p in r.glob("versions/3.10.*/bin/python"))]
    runs = (p for p in found if p and subprocess.run([p, "-c", ""], capture_output=True, check=False).returncode == 0)
    return next(runs, None)


def test_an_old_python_is_told_so(tmp_path):
    """By the first thing that pip runs, before it fetches what a build needs."""
    python = python_310()
    if python is None:
        pytest.skip("there is no Python 3.10 here")
    subprocess.run([python, "-m", "venv", tmp_path / "env"], check=True)
    command = [tmp_path / "env/bin/python", "-m", "pip", "install", "--no-index", "--no-build-isolation", oldest.ROOT]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "hybridc needs Python 3.11 or newer, and this is Python 3.10" in done.stdout + done.stderr
