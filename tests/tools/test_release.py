"""What a release is checked for before it is tagged."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest

from hybridc.tools.packaging import release

CHANGELOG = "# Changes\n\n## 0.2.0 (not released)\n\n## 0.1.0, 2026-12-01\n\n* first\n\n## 0.0.1\n\n* older\n"
FILES = (
    "hybridc/__init__.py",
    "hybridc/py.typed",
    "hybridc/ndarray.pyi",
    "hybridc/include/mxnet/lib_api.h",
    "hybridc/library/support.cc",
    "hybridc/objects/a.entry",
    "hybridc-0.1.0.dist-info/licenses/LICENSE",
)


@pytest.mark.parametrize(
    ("version", "changes"), [("0.1.0", "* first"), ("0.0.1", "* older"), ("0.2.0", ""), ("0.1", ""), ("1.0.0", "")]
)
def test_the_section_of_a_version(version, changes):
    assert release.changes_of(CHANGELOG, version) == changes


def test_files_of_a_wheel():
    release.check_files(FILES, release.NEEDED, release.UNWANTED, "a.whl")


@pytest.mark.parametrize("lost", FILES)
def test_a_file_that_a_wheel_lacks(lost):
    with pytest.raises(release.ReleaseError, match=r"a\.whl has no file"):
        release.check_files([name for name in FILES if name != lost], release.NEEDED, release.UNWANTED, "a.whl")


@pytest.mark.parametrize("more", ["tests/test_a.py", "docs/a.md", "hybridc/__pycache__/a.pyc", "build/lib/a.py"])
def test_a_file_that_does_not_belong_in_a_wheel(more):
    with pytest.raises(release.ReleaseError, match="do not belong"):
        release.check_files([*FILES, more], release.NEEDED, release.UNWANTED, "a.whl")


def test_the_version_here_has_changes_and_is_the_librarys():
    import hybridc

    with (release.ROOT / "pyproject.toml").open("rb") as file:
        version = tomllib.load(file)["project"]["version"]
    assert release.changes_of((release.ROOT / "CHANGELOG.md").read_text(), version)
    assert hybridc.__version__ == version
    assert f"version: {version}" in (release.ROOT / "CITATION.cff").read_text()


def test_interpreters_that_are_here():
    found = release._here(["no-such-python", "false", sys.executable])
    assert found == {f"{sys.version_info[0]}.{sys.version_info[1]}": sys.executable}


def test_what_fails_is_told(tmp_path):
    code = "from hybridc.tools.packaging import release; release._run('git', 'no-such-command', folder='.')"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "ReleaseError: git no-such-command failed:" in done.stderr
