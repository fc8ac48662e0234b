"""A wheel that is built and installed: what is the same for all users is not compiled there, and types are found."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
from pathlib import Path

import pytest

from hybridc.lower.llvm.codegen.llvm import release_paths
from tests.typing.checkers import assert_finds, found

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("hybridc", "pyproject.toml", "README.md", "LICENSE")

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="a wheel has objects for Linux"),
    pytest.mark.long,
]

# The runtime, both variants, without LLVM in the process; then a graph, for whose own kernel LLVM is loaded; then one
# whose only kernel is part of the package.
FIRST_GRAPH = """
import pathlib
import hybridc as mx
from hybridc.lower.llvm.codegen import native_function
from hybridc.ground.store import store
from hybridc.runtime.native.native_library import native_runtime

def loaded():
    return "LLVM" in pathlib.Path("/proc/self/maps").read_text()

runtime = native_runtime()
runtime.record(True)
runtime.record(False)
print(mx.__file__, loaded())
net = mx.gluon.nn.Dense(3, in_units=2)
net.initialize()
net.hybridize()
net(mx.nd.ones((2, 2))).wait_to_read()
keys = [path.read_bytes() for path in store().folder.glob("*.entry")]
print(loaded(), sum(b"function " in key for key in keys) > 0, sum(b"native runtime" in key for key in keys))

compiled, optimised = [], native_function.optimised
def counted(ir, target):
    compiled.append(ir)
    return optimised(ir, target)
native_function.optimised = counted
product = mx.gluon.nn.HybridLambda(lambda F, x, y: F.dot(x, y))
product.hybridize()
product(mx.nd.ones((96, 200)), mx.nd.ones((200, 80))).wait_to_read()
print(len(compiled), product.explain().count("kernel "))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder in which the wheel of these sources is installed, as pip builds and installs it."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", "*.entry")
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name, **({"ignore": ignored} if (ROOT / name).is_dir() else {}))
    pip("wheel", "--no-build-isolation", "--wheel-dir", folder, source)
    pip("install", "--no-compile", "--target", folder / "site", *folder.glob("*.whl"))
    return folder / "site"


def pip(command, *arguments):
    """Run pip, which installs nothing but what it is given."""
    own = "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"
    subprocess.run([sys.executable, "-m", "pip", command, *own, *map(str, arguments)], check=True)


def test_an_installed_wheel_does_not_compile_the_runtime(installed, tmp_path):
    env = {**os.environ, "PYTHONPATH": str(installed), "HYBRIDC_CACHE_DIR": str(tmp_path), "HYBRIDC_TARGET": "llvm"}
    done = subprocess.run(
        [sys.executable, "-c", FIRST_GRAPH], env=env, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n") == [f"{installed / 'hybridc' / '__init__.py'} False", "True True 0", "0 1", ""]


def test_an_installed_wheel_has_functions_for_each_level(installed):
    """Of 64-bit ARM wherever it is built, of x86-64 where the release build of LLVM is."""
    entries = [path.read_bytes() for path in (installed / "hybridc" / "objects").glob("*.entry")]
    x86 = [f"x86_64 x86-64-v{level}" for level in (2, 3, 4)]
    counts = {
        level: sum(f"\0object linux {level} ".encode() in entry for entry in entries)
        for level in ("aarch64 generic", *(x86 if release_paths() else ()))
    }
    assert all(counts.values()), counts


def test_an_installed_wheel_has_the_template_of_explanations(installed):
    """As the page of ``explain()`` is made of it."""
    template = installed / "hybridc" / "compile" / "explanation" / "explain_page.html"
    assert template.read_text() == (ROOT / template.relative_to(installed)).read_text()


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_checkers_read_the_types_of_an_installed_wheel(installed, checker, tmp_path):
    """In an environment of its own, whose Python finds what the wheel needs where it is for these tests."""
    pytest.importorskip(checker, reason=f"{checker} is not installed")
    env, source = tmp_path / "env", tmp_path / "source"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", env], check=True)
    (packages,) = env.glob("lib/python*/site-packages")
    shutil.copytree(installed, packages, dirs_exist_ok=True)
    (packages / "needed.pth").write_text("\n".join(site.getsitepackages()))
    source.mkdir()
    assert_finds(found(checker, source, python=env / "bin" / "python"))
