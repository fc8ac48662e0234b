"""How the package is built: by setuptools, after the objects that a wheel has were compiled into the source tree.

That needs what hybridc needs to run. A source tree that is installed in place does without: there ``make`` compiles
them, or the first process that needs one.
"""

from __future__ import annotations

import importlib.metadata
import os
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
LLVM = "karellen-llvm-core"
# The levels for which the release build compiles, and those for which llvmlite's library does.
RELEASE_LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
LLVMLITE_LEVELS = ("aarch64",)


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """What is to be installed before a wheel is built, in the versions that the package asks for."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        own = tomllib.load(file)["project"]["dependencies"]
    return build_meta.get_requires_for_build_wheel(config_settings) + own


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Build a wheel, with its objects."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    # Where it is installed for one build only, hybridc would not look for it.
    library = _release_library()
    levels = LLVMLITE_LEVELS if library is None else (*RELEASE_LEVELS, *LLVMLITE_LEVELS)
    env |= {} if library is None else {"HYBRIDC_LLVM": str(library)}
    subprocess.run([sys.executable, "-m", "hybridc.tools.ship_objects", *levels], cwd=ROOT, env=env, check=True)
    return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)


def _release_library() -> Path | None:
    """The release build of LLVM; None on systems for which there is none."""
    try:
        files = importlib.metadata.files(LLVM) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    paths = (Path(str(file.locate())) for file in files if file.name.startswith("libLLVM.so."))
    return next((path.resolve() for path in paths if path.exists()), None)
