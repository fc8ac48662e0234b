"""Helpers around networks: splitting batches, clipping gradients, hooks."""

from __future__ import annotations

import inspect
import itertools
import math
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from hybridc import nd
from hybridc.array.dispatch import is_symbol, placed
from hybridc.array.ndarray import NDArray, check_unrecorded, values_of
from hybridc.array.numpy_array import in_class_of
from hybridc.context import Context, check_device
from hybridc.errors import ArgumentTypeError, CheckError
from hybridc.gluon.download import check_sha1, download, get_repo_file_url, get_repo_url, replace_file
from hybridc.ground.absent import absent as _absent
from hybridc.ground.hooks import HOOKS
from hybridc.ground.state import STATE

__all__ = [
    "HookHandle",
    "check_sha1",
    "clip_global_norm",
    "download",
    "replace_file",
    "shape_is_known",
    "split_and_load",
    "split_data",
]


def split_data(data: Any, num_slice: int, batch_axis: int = 0, even_split: bool = True) -> list[Any]:
    """Slices of an array, a list.

    Parameters
    ----------
    data:
        The array.
    num_slice:
        How many slices.
    batch_axis:
        The axis along which it is split.
    even_split:
        Whether slices that are not equal are a ValueError; else the first ones are longer.
    """
    size = data.shape[batch_axis]
    if even_split and size % num_slice != 0:
        raise ValueError(
            f"data with shape {data.shape} cannot be evenly split into {num_slice} slices along axis "
            f"{batch_axis}; use a batch size that is a multiple of {num_slice}, or set even_split=False"
        )
    length, longer = divmod(size, num_slice)
    ends = [0]
    for i in range(num_slice):
        ends.append(ends[-1] + length + (i < longer))
    before = (slice(None),) * (batch_axis % len(data.shape))
    return [data[(*before, slice(a, b))] for a, b in itertools.pairwise(ends)]


def split_and_load(
    data: Any, ctx_list: Sequence[Context], batch_axis: int = 0, even_split: bool = True
) -> list[NDArray]:
    """One slice of the batch for each device, on that device.

    Parameters
    ----------
    data:
        An array, or what one is made of.
    ctx_list:
        The devices.
    batch_axis:
        The axis of the samples.
    even_split:
        As for :func:`split_data`.
    """
    make = HOOKS.np().array if STATE.np_array else nd.array
    array = data if isinstance(data, NDArray) else make(data)
    for ctx in ctx_list:
        check_device(ctx)
    if len(ctx_list) == 1:
        return [array.as_in_context(ctx_list[0])]
    slices = split_data(array, len(ctx_list), batch_axis, even_split)
    return [part.as_in_context(ctx) for part, ctx in zip(slices, ctx_list)]


def clip_global_norm(arrays: Sequence[NDArray], max_norm: float, check_isfinite: bool = True) -> Any:
    """Scale arrays in place so that the 2-norm of all together has a limit; returns that norm, as it was.

    Parameters
    ----------
    arrays:
        A list of arrays, such as gradients.
    max_norm:
        The limit.
    check_isfinite:
        Whether nan and inf are a warning, and the norm is a number; else it is an NDArray of shape (1,), and
        nothing is said.
    """
    if not arrays:
        raise CheckError("clip_global_norm needs at least one array, got none")
    other = next((a for a in cast("Sequence[object]", arrays) if not isinstance(a, NDArray)), None)
    if other is not None:
        raise ArgumentTypeError(
            f"clip_global_norm takes arrays, got {type(other).__name__}; of parameters give the gradients: "
            "[p.grad() for p in net.collect_params().values()]"
        )
    check_unrecorded(*arrays)
    flat = [values_of(a).reshape(-1) for a in arrays]
    # COMPAT(mxnet): squares that float16 or float32 cannot hold are summed in float64 instead of giving inf.
    total = math.sqrt(sum(_sum_of_squares(a) for a in flat))
    if check_isfinite and not math.isfinite(total):
        warnings.warn("nan or inf is detected. Clipping results will be undefined.", UserWarning, stacklevel=2)
    scale = max_norm / (total + 1e-8)
    if not scale >= 1.0:  # nan must get through to the arrays
        for a in arrays:
            if type(a) is not NDArray:
                a *= scale
                continue
            native = a.asnative()
            np.multiply(native, native.dtype.type(scale), out=native)
    norm = np.array([total], dtype=np.float64 if arrays[0].dtype is np.float64 else np.float32)
    return norm[0] if check_isfinite else in_class_of(arrays[0], placed(NDArray(norm), arrays[0].context))


def _sum_of_squares(a: Any) -> float:
    if a.dtype == np.float32:
        with np.errstate(over="ignore"):
            partial = float(np.dot(a, a))
        if math.isfinite(partial):
            return partial
    wide = a.astype(np.float64)
    return float(np.dot(wide, wide))


class HookHandle:
    """What ``Block.register_forward_hook`` returns; ``detach`` (or leaving a ``with`` block) removes the hook."""

    def __init__(self) -> None:
        self._hooks: weakref.ref[BlockHooks] | None = None
        self._key = 0

    def attach(self, hooks_dict: BlockHooks, hook: Callable[..., Any]) -> None:
        """Put a hook into the table of a block; a handle serves one hook, a second is a ValueError.

        Parameters
        ----------
        hooks_dict:
            The table.
        hook:
            The function.
        """
        if self._hooks is not None:
            raise ValueError("the same handle cannot be attached twice")
        self._key = id(hook)
        hooks_dict[self._key] = hook
        self._hooks = weakref.ref(hooks_dict)

    def detach(self) -> None:
        """Remove the hook, if it is still there."""
        hooks = None if self._hooks is None else self._hooks()
        if hooks is not None:
            hooks.pop(self._key, None)

    def __getstate__(self) -> tuple[BlockHooks | None, int]:
        return (None if self._hooks is None else self._hooks()), self._key

    def __setstate__(self, state: tuple[BlockHooks | None, int]) -> None:
        hooks, self._key = state
        self._hooks = None if hooks is None else weakref.ref(hooks)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.detach()


class BlockHooks(dict[int, Callable[..., Any]]):
    """The hooks of a block in the order of registration; a dict that can be referenced weakly."""

    __slots__ = ("__weakref__",)


def shape_is_known(shape: Sequence[int] | None) -> bool:
    """Whether all of ``shape`` is known: 0 and -1 stand for unknown sizes, and () too unless shapes are NumPy's."""
    return shape is not None and (len(shape) > 0 or STATE.np_shape) and all(n > 0 for n in shape)


def indent(s_: str, numSpaces: int) -> str:
    """The text with all lines but the first moved to the right."""
    return s_.replace("\n", "\n" + " " * numSpaces)


def brief(lst: Iterable[str], limit: int = 7) -> str:
    """Names in quotes, the middle left out if there are many."""
    quoted = [f"'{name}'" for name in lst]
    if len(quoted) > limit:
        quoted = [*quoted[: limit // 2], "...", *quoted[-limit // 2 :]]
    return ", ".join(quoted)


def show_defaults(cls: type[Any], **defaults: Any) -> None:
    """Let ``inspect.signature`` of a class show what an argument that is None becomes."""
    own = inspect.signature(cls.__init__)
    shown = [
        p.replace(default=defaults[p.name]) if p.name in defaults and p.default is None else p
        for p in own.parameters.values()
    ]
    cls.__signature__ = own.replace(parameters=shown[1:])


def same(old: Any, new: Any) -> bool:
    """Whether two plain values are certainly equal."""
    if old is new:
        return True
    if type(old) is not type(new):
        return False
    if isinstance(old, tuple):
        a, b = cast("tuple[Any, ...]", old), cast("tuple[Any, ...]", new)
        return len(a) == len(b) and all(map(same, a, b))
    return isinstance(old, int | float | str) and old == new


def traces(args: Any) -> Iterator[Any]:
    """The traces that Symbols among nested arguments belong to."""
    for arg in args:
        if isinstance(arg, list | tuple):
            yield from traces(arg)
        elif is_symbol(arg):
            yield arg.trace


def device_of(args: Any) -> Context | None:
    """The device of the first NDArray among nested arguments; None if there is none."""
    for arg in args:
        found = device_of(arg) if isinstance(arg, list | tuple) else arg.context if isinstance(arg, NDArray) else None
        if found is not None:
            return found
    return None


# MXNet's internal names, which code in the wild uses.
_indent = indent
_brief_print_list = brief
_get_repo_url = get_repo_url
_get_repo_file_url = get_repo_file_url


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        raise _absent("mx.gluon.utils", name, "function", globals())
