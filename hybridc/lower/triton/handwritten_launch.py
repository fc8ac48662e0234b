"""Triton functions that are written by hand, as launches, and as functions that generated kernels call."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from hybridc.dialects.handwritten import TritonKernel
from hybridc.dialects.operator_attribute import DType
from hybridc.errors import CustomOpError, MXNetError
from hybridc.lower.triton.triton_function import Config, TritonFunction, TritonLaunch

_JIT = re.compile(r"\A(@[^\n]*\n)+")


def launch(kernel: TritonKernel, dtypes: Sequence[DType]) -> TritonLaunch:
    """The launch of a function on buffers of these dtypes, the inputs' and then the outputs'."""
    _require_parameters(kernel, len(dtypes))
    name = _plain(kernel.function).__name__
    head = f'"""{name}, written by hand."""\n\nimport triton\nimport triton.language as tl\n'
    source = "\n\n".join([head, *(source_of(f) for f in (*kernel.helpers, kernel.function))])
    kinds = tuple("i32" if abs(n) < 2**31 else "i64" for n in kernel.numbers)
    function = TritonFunction(name, source, tuple(dtypes), kinds, tuple(kernel.constants))
    x, y, z = (*kernel.grid, 1, 1)[:3]
    config = Config(tuple(kernel.constants.items()), (x, y, z), kernel.warps, kernel.stages)
    return TritonLaunch(function, tuple(range(len(dtypes))), tuple(kernel.numbers), (config,))


def source_of(function: Callable[..., Any]) -> str:
    """The text of a function, with the decorator that makes it a kernel."""
    plain = _plain(function)
    try:
        text = textwrap.dedent(inspect.getsource(plain))
    except (OSError, TypeError) as error:
        raise MXNetError(
            f"the source of the GPU kernel {plain!r} cannot be read; define it with def, in a file ({error})"
        ) from error
    return "@triton.jit\n" + _JIT.sub("", text)


def _plain(function: Any) -> Any:
    """The Python function that ``triton.jit`` wrapped."""
    return getattr(function, "fn", function)


def _require_parameters(kernel: TritonKernel, arrays: int) -> None:
    """Raise unless the function takes the pointers, numbers and constants of its launch."""
    plain = _plain(kernel.function)
    names = list(inspect.signature(plain).parameters)
    passed = arrays + len(kernel.numbers)
    constants = names[passed:]
    if len(names) < passed or set(constants) != set(kernel.constants):
        raise CustomOpError(
            f"the GPU kernel {plain.__name__} takes ({', '.join(names)}); it is given {arrays} pointers, "
            f"{len(kernel.numbers)} numbers and the constants ({', '.join(kernel.constants)}), in this order "
            f"({plain.__code__.co_filename}:{plain.__code__.co_firstlineno})"
        )
