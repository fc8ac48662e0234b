"""Compiled libraries for the tests, each compiled once in a run."""

import atexit
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import hybridc as mx

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent.parent / "examples" / "extensions"


class Function(mx.gluon.HybridBlock):
    """A block made of a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def hybrid_forward(self, F, *inputs):
        return self.function(F, *inputs)


@functools.cache
def _folder():
    folder = tempfile.mkdtemp(prefix="hybridc-tests-")
    atexit.register(shutil.rmtree, folder, True)
    return Path(folder)


@functools.cache
def compiled(source, *flags):
    """The path of the library made from a C++ file, by this folder's name of it or by its path."""
    path = HERE / source
    made = _folder() / f"{len(list(_folder().iterdir()))}_{path.stem}.so"
    command = ["g++", "-std=c++11", "-O0", "-w", "-shared", "-fPIC", f"-I{mx.library.include_path()}", *flags]
    subprocess.run([*command, str(path), "-o", str(made)], check=True)
    return str(made)


@functools.cache
def loaded():
    """The operators of library_ops.cc, loaded."""
    path = compiled("library_ops.cc")
    mx.library.load(path, verbose=False)
    return path
