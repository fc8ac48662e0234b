"""Compiled libraries for the tests of extensions."""

import functools
from pathlib import Path

import hybridc as mx
from tests import built

HERE = Path(__file__).resolve().parent
EXAMPLES = built.EXAMPLES


class Function(mx.gluon.HybridBlock):
    """A block made of a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def hybrid_forward(self, F, *inputs):
        return self.function(F, *inputs)


def compiled(source, *flags):
    """The path of the library made from a C++ file of this folder."""
    return built.library(HERE / source, *flags)


@functools.cache
def loaded():
    """The operators of library_ops.cc, loaded."""
    path = compiled("library_ops.cc")
    mx.library.load(path, verbose=False)
    return path
