"""Kernels of the structured form run by the code that the NumPy target writes for them."""

from __future__ import annotations

import math

import numpy as np
from xdsl.parser import Parser

from hybridc.compile.pipeline import context
from hybridc.dialects import special
from hybridc.ir.kernels.kernel_module import recognise_kernels
from hybridc.ir.structured import kernels
from hybridc.lower.numpy.kernel_printer import NestsPrinter
from hybridc.lower.numpy.tile_threads import parallel
from hybridc.transforms.code.array_code import ArrayCode


def parse(text):
    """The module of a text, verified, with its kernels as data."""
    module = Parser(context(), text).parse_module()
    recognise_kernels(module)
    module.verify()
    return module


def kernel(text):
    """The only kernel of a text."""
    (found,) = kernels(parse(text)).values()
    return found


def compiled(function, threads=2):
    """The printer of a kernel and the function that it writes, which makes its results and its scratch."""
    printer = NestsPrinter(ArrayCode(function.kernel, threads))
    scope = {"np": np, "special": special, "parallel": parallel}
    exec(printer.source(), scope)
    results = [(v.shape, v.dtype) for v in printer.kernel.results]

    def run(*arrays, inplace=()):
        """Results in fresh memory full of nan, or in that of an argument for each pair (argument, result)."""
        given = [np.asarray(x, v.dtype) for x, v in zip(arrays, printer.kernel.arguments, strict=True)]
        places = {j: given[i] for i, j in inplace}
        outs = [places[j] if j in places else poisoned(*r) for j, r in enumerate(results)]
        memory = poisoned((printer.code.bytes,), np.dtype(np.uint8))

        def view(offset, dtype, shape):
            size = math.prod(shape) * dtype.itemsize
            assert offset + size <= printer.code.bytes
            return f"memory[{offset}:{offset + size}].view({dtype.name!r}).reshape({shape})"

        source = printer.scratch(view)
        assert (source is None) == (printer.code.bytes == 0)
        scratch = [] if source is None else [eval(source, {"memory": memory})]
        with np.errstate(all="ignore"):
            scope[printer.name](*given, *outs, *scratch)
        return outs

    return printer, run


def poisoned(shape, dtype):
    """An array that holds what no kernel may read."""
    return np.frombuffer(b"\xff" * (math.prod(shape) * dtype.itemsize), dtype).reshape(shape).copy()
