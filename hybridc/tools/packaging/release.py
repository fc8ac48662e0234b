"""Build, check and tag a release: ``make release``.

The version is that of ``pyproject.toml``. It needs a section in ``CHANGELOG.md`` and no tag yet, and the checkout no
changes. The sdist, and a wheel that is built from it, are written to ``dist/``, looked into, and the wheel is installed
into a new environment of each Python at hand, where a network is compiled. Then the commit is tagged ``v<version>``;
nothing is published.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Collection, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
# What a wheel must have, as patterns of its files' names, and what it must not.
NEEDED = (
    r"hybridc/__init__\.py",
    r"hybridc/py\.typed",
    r"hybridc/ndarray\.pyi",
    r"hybridc/include/.+\.h",
    r"hybridc/library/.+\.cc",
    r"hybridc/objects/.+\.entry",
    r"hybridc-[^/]+\.dist-info/licenses/LICENSE",
)
UNWANTED = (r"(tests|docs|benchmarks|examples)/.*", r".*__pycache__.*", r"build/.*")
# Of an sdist, within its folder: what a wheel is built from.
NEEDED_SOURCES = (r"pyproject\.toml", r"README\.md", r"LICENSE", r"hybridc/tools/packaging/backend\.py")
# Whatever of these is on the path and runs.
PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
FIRST_NETWORK = """
import hybridc as mx
net = mx.gluon.nn.Dense(2, in_units=3)
net.initialize(mx.init.One())
net.hybridize()
assert net(mx.nd.ones((1, 3))).asnumpy().tolist() == [[3.0, 3.0]]
print(mx.__version__, mx.__file__)
"""
# Milliseconds of the processor, which other processes disturb less than those of a clock.
IMPORT = """
import time, numpy
before = time.process_time()
import hybridc
print(round((time.process_time() - before) * 1000))
"""


class ReleaseError(Exception):
    """Why there is no release."""


def main() -> None:
    """Make the release, or say why not."""
    parser = argparse.ArgumentParser(prog="make release", description="Build, check and tag a release.")
    parser.add_argument("--check", action="store_true", help="build and check, changes or not, and tag nothing")
    parser.add_argument(
        "--pythons", nargs="*", default=PYTHONS, help="interpreters to try it with, those that are here"
    )
    arguments = parser.parse_args()
    try:
        version = _version()
        if not changes_of((ROOT / "CHANGELOG.md").read_text(), version):
            raise ReleaseError(f"CHANGELOG.md has no section '## {version}', or nothing in it")
        if not arguments.check:
            _check_commit(f"v{version}")
        sdist, wheel = _built()
        check_files(_names_in_sdist(sdist), NEEDED_SOURCES, (), sdist.name)
        check_files(zipfile.ZipFile(wheel).namelist(), NEEDED, UNWANTED, wheel.name)
        pythons = _here(arguments.pythons)
        for python_version, python in pythons.items():
            print(f"Python {python_version}: {_install(wheel, version, python)}")
        print(f"{sdist.name} and {wheel.name} are built, and compile a network with Python {', '.join(pythons)}")
        if not arguments.check:
            _run("git", "tag", "--annotate", f"v{version}", "--message", f"hybridc {version}")
            print(f"tagged v{version}; push the tag, and publish both files")
    except ReleaseError as error:
        sys.exit(f"no release: {error}")


def changes_of(changelog: str, version: str) -> str:
    """The text of a version's section in a changelog; empty if there is none."""
    section = rf"^## {re.escape(version)}(?![\w.])[^\n]*\n(.*?)(?=^## |\Z)"
    found = re.search(section, changelog, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def check_files(names: Collection[str], needed: Collection[str], unwanted: Collection[str], archive: str) -> None:
    """Raise an error for files that an archive lacks, or should not have."""
    lacking = [each for each in needed if not any(re.fullmatch(each, name) for name in names)]
    surplus = [name for name in names if any(re.fullmatch(each, name) for each in unwanted)]
    if lacking:
        raise ReleaseError(f"{archive} has no file {lacking[0]}")
    if surplus:
        raise ReleaseError(f"{archive} has {len(surplus)} files that do not belong there, {surplus[0]} for one")


def _version() -> str:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)["project"]["version"]


def _check_commit(tag: str) -> None:
    """Raise an error if there are changes, or the tag."""
    if _run("git", "status", "--porcelain"):
        raise ReleaseError("there are changes that are not committed")
    if _run("git", "tag", "--list", tag):
        raise ReleaseError(f"there is a tag {tag}; give pyproject.toml another version")


def _built() -> tuple[Path, Path]:
    """The sdist, and the wheel that was built from it."""
    folder = ROOT / "dist"
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*")}
    _run(sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT))
    new = [path for path in folder.glob("*") if before.get(path) != path.stat().st_mtime_ns]
    (sdist,) = [path for path in new if path.name.endswith(".tar.gz")]
    (wheel,) = [path for path in new if path.suffix == ".whl"]
    _run(sys.executable, "-m", "twine", "check", "--strict", str(sdist), str(wheel))
    return sdist, wheel


def _names_in_sdist(sdist: Path) -> list[str]:
    with tarfile.open(sdist) as archive:
        return [name.partition("/")[2] for name in archive.getnames()]


def _here(names: Iterable[str]) -> dict[str, str]:
    """The interpreters among those named that are here and run, this one first, by their versions."""
    found: dict[str, str] = {}
    for python in (sys.executable, *names):
        command = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            version = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
            found.setdefault(version, python)
    return found


def _install(wheel: Path, version: str, interpreter: str) -> str:
    """Install a wheel into a new environment, compile a network there, with an empty cache, and say what that takes."""
    with tempfile.TemporaryDirectory() as folder:
        _run(interpreter, "-m", "venv", f"{folder}/env")
        python = f"{folder}/env/bin/python"
        before = _megabytes(folder)
        _run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel))
        installed = _megabytes(folder) - before
        said = _run("env", f"HYBRIDC_CACHE_DIR={folder}/cache", python, "-c", FIRST_NETWORK, folder=folder)
        if not said.startswith(f"{version} {folder}"):
            raise ReleaseError(f"the installed wheel says {said!r}")
        seconds = min(int(_run(python, "-c", IMPORT, folder=folder)) for _ in range(9))
        return f"{installed:.0f} MB with what it needs; its import takes {seconds} ms beside NumPy's"


def _megabytes(folder: str) -> float:
    """What the files in a folder take of the disk."""
    return sum(path.lstat().st_blocks * 512 for path in Path(folder).rglob("*")) / 1e6


def _run(*command: str, folder: str | Path = ROOT) -> str:
    """What a command prints."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


if __name__ == "__main__":
    main()
