"""How the package is built: by setuptools, after the objects that a wheel has were compiled into the source tree.

That needs what hybridc needs to run. A source tree that is installed in place does without: there ``make`` compiles
them, or the first process that needs one.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

if sys.version_info < (3, 11):  # noqa: UP036  # pip would say so after it has fetched what a build needs
    sys.exit(f"hybridc needs Python 3.11 or newer, and this is Python {platform.python_version()}: {sys.executable}")

import tomllib  # which Python 3.10 lacks

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
    """What is to be installed before a wheel is built, in the versions that the package asks for.

    The release build of LLVM is not: its package has to be finished by code that runs when Python starts, which fails
    in an environment that pip makes for a build.
    """
    needed: list[str] = build_meta.get_requires_for_build_wheel(config_settings)
    # Without their markers: llvmlite compiles what a wheel has for other architectures.
    return [*needed, "pip", *[each.partition(";")[0] for each in _dependencies() if not each.startswith(LLVM)]]


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Build a wheel, with its objects."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    # Where it is there for one build only, hybridc would not look for it.
    with _release_library() as library:
        levels = LLVMLITE_LEVELS if library is None else (*RELEASE_LEVELS, *LLVMLITE_LEVELS)
        env |= {} if library is None else {"HYBRIDC_LLVM": str(library)}
        subprocess.run([sys.executable, "-m", "hybridc.tools.ship_objects", *levels], cwd=ROOT, env=env, check=True)
    return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)


def _dependencies() -> list[str]:
    """What the package needs, from pyproject.toml."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)["project"]["dependencies"]


@contextlib.contextmanager
def _release_library() -> Generator[Path | None]:
    """The release build of LLVM, installed or in a folder for this build; None on systems for which there is none."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        files = importlib.metadata.files(LLVM) or []
        found = _library_in(Path(str(file.locate())) for file in files)
        if found is not None:
            yield found
            return
    wanted = next((each.partition(";")[0].strip() for each in _dependencies() if each.startswith(LLVM)), None)
    if wanted is None or (sys.platform, platform.machine()) != ("linux", "x86_64"):
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, wanted]
        subprocess.run(command, check=True)
        for wheel in list(Path(folder).glob("*.whl")):
            zipfile.ZipFile(wheel).extractall(folder)
        for library in Path(folder).rglob("lib*.so.1.0"):  # the links that its package would make
            link = library.with_name(library.name.removesuffix(".0"))
            if not link.exists():
                link.symlink_to(library.name)
        yield _library_in(Path(folder).rglob("*"))


def _library_in(files: Iterable[Path]) -> Path | None:
    """The library of LLVM among files."""
    return next((path.resolve() for path in files if path.name.startswith("libLLVM.so.") and path.exists()), None)
