"""Patches of Triton's interpreter, versions 3.6 to 3.9, for right and fast results.

They replace parts of ``triton.runtime.interpreter``, in a process that only interprets:

* The language is patched to run on NumPy once, and not at each launch and each call of a helper.
* ``tl.reduce`` with any function combines whole blocks, where Triton goes from element to element.
* A maximum or minimum that need not propagate NaN drops it, as compiled code does; 3.6 propagated it.
* A fused multiply-add rounds once; before 3.9 it rounded twice.
* bfloat16 values, which are stored as integers, are multiplied as floats, and rounded to even where Triton truncates.
* Integers wrap, as in compiled code, and scalar arguments are as wide as the kernel declares.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np

from hybridc.dtypes import BFLOAT16
from hybridc.runtime.fused_multiply_add import fused_multiply_add


@functools.cache
def interpreter() -> Any:
    """``triton.runtime.interpreter``, patched."""
    module: Any = importlib.import_module("triton.runtime.interpreter")
    language: Any = importlib.import_module("triton.language")
    module._patch_lang(SimpleNamespace(__globals__={"tl": language, "core": language.core}))
    module._patch_lang = functools.partial(_nothing_to_patch, module)
    language.tensor.__index__ = _index
    builder = module.interpreter_builder
    builder.options = dataclasses.replace(builder.options, sanitize_overflow=False)
    builder.create_maxnumf = functools.partial(builder.binary_op, op=np.fmax)
    builder.create_minnumf = functools.partial(builder.binary_op, op=np.fmin)
    if not hasattr(module._interpreter, "fma_fp64"):
        builder.create_fma = functools.partial(builder.ternary_op, op=fused_multiply_add)
    builder.cast_impl = functools.partial(_cast, module)
    builder.create_dot = functools.partial(_dot, module, builder.create_dot)
    module.ReduceOps.apply_impl = _reduced
    return module


def integer(value: int, bits: str) -> Any:
    """A scalar argument of a kernel: "i32" or "i64"."""
    module = interpreter()
    dtype, kept = {"i32": (module.tl.int32, np.int32), "i64": (module.tl.int64, np.int64)}[bits]
    return module.tl.tensor(module.TensorHandle(np.array([value], kept), dtype), dtype)


def _nothing_to_patch(module: Any, _function: Any) -> Any:
    return module._LangPatchScope()


def _index(tensor: Any) -> int:
    """The value of a scalar tensor, an array of one element, which NumPy 2.4 does not convert to an integer."""
    return int(tensor.handle.data.item())


def _numbers(module: Any, handle: Any) -> Any:
    """The values of a block; bfloat16, which NumPy lacks, as single precision."""
    if handle.dtype.scalar != module.tl.bfloat16:
        return handle.data
    return (handle.data.astype(np.uint32) << 16).view(np.float32)


def _cast(module: Any, source: Any, wanted: Any) -> Any:
    """A block converted to another dtype."""
    data, scalar = _numbers(module, source), wanted.scalar
    if scalar == module.tl.bfloat16:
        kept = data.astype(np.float32).astype(BFLOAT16).view(np.uint16)
    else:
        kept = data.astype(module._get_np_dtype(scalar))
    return module.TensorHandle(kept, scalar)


def _dot(module: Any, product: Any, a: Any, b: Any, *others: Any) -> Any:
    """``tl.dot``: a block matmul with an accumulator."""
    factors = [_cast(module, x, module.tl.float32) if x.dtype.scalar == module.tl.bfloat16 else x for x in (a, b)]
    return product(*factors, *others)


def _reduced(self: Any, inputs: tuple[Any, ...]) -> list[Any]:
    """``tl.reduce``: combines neighbours, in all rows at once, until one element of each row is left."""
    data: list[Any] = [x.handle.data for x in inputs]
    rank = data[0].ndim
    everything = self.axis is None
    axis = 0 if everything else self.axis
    if everything:
        data = [x.reshape(-1) for x in data]
    known = _ufuncs().get(self.combine_fn)
    if known is not None:
        data = [known.reduce(x, axis=axis, keepdims=True, dtype=x.dtype) for x in data]
    while data[0].shape[axis] > 1:
        data = _paired(self, inputs, data, axis)
    if everything:
        data = [x.reshape((1,) * rank if self.keep_dims else ()) for x in data]
    elif not self.keep_dims:
        data = [x.squeeze(axis) for x in data]
    return [self.to_tensor(y, x.dtype) for x, y in zip(inputs, data, strict=True)]


@functools.cache
def _ufuncs() -> dict[Any, np.ufunc]:
    """The NumPy ufuncs of Triton's own functions."""
    standard = interpreter().tl.standard
    return {
        standard._sum_combine: np.add,
        standard._elementwise_max: np.fmax,
        standard._elementwise_min: np.fmin,
    }


def _paired(self: Any, inputs: tuple[Any, ...], data: list[Any], axis: int) -> list[Any]:
    """One level of the reduction tree along an axis; sizes are powers of two, as in all of Triton's blocks."""
    halves: list[Any] = []
    for first in (0, 1):
        for x, like in zip(data, inputs, strict=True):
            halves.append(self.to_tensor(np.take(x, range(first, x.shape[axis], 2), axis), like.dtype))
    combined: Any = self.combine_fn(*halves)
    parts = combined if len(data) > 1 else (combined,)
    return [part.handle.data for part in parts]
