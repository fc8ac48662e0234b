"""How the package is built: by setuptools, after the objects that a wheel has were compiled into the source tree.

A wheel needs for that what hybridc needs to run without a network; a source tree that is installed in place does not:
there ``make`` compiles them, or the first process that needs one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [  # the hooks, most of them setuptools'
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

ROOT = Path(__file__).resolve().parents[3]
# What the program that compiles the objects imports; llvmlite's LLVM has the targets of all architectures.
_NEEDED = ("numpy", "ml_dtypes", "llvmlite")


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """What is to be installed before a wheel is built, in the versions that the package asks for."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        dependencies = tomllib.load(file)["project"]["dependencies"]
    own = [each for each in dependencies if re.split(r"[^\w-]", each)[0] in _NEEDED]
    return build_meta.get_requires_for_build_wheel(config_settings) + own


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Build a wheel, with its objects."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    subprocess.run([sys.executable, "-m", "hybridc.tools.ship_objects"], cwd=ROOT, env=env, check=True)
    return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
