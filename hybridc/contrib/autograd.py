"""``mx.contrib.autograd``: the older interface of gradients, in terms of :mod:`hybridc.autograd`.

There is one mode: training records, testing does not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from hybridc import autograd
from hybridc.array.ndarray import NDArray
from hybridc.autograd import mark_variables
from hybridc.errors import CheckError
from hybridc.nd import zeros_like

__all__ = [
    "TrainingStateScope",
    "backward",
    "compute_gradient",
    "grad",
    "grad_and_loss",
    "mark_variables",
    "set_is_training",
    "test_section",
    "train_section",
]


def set_is_training(is_train: bool) -> bool:
    """Start to record and to train if ``is_train``, or to do neither; whether it was recorded before."""
    autograd.set_training(bool(is_train))
    return autograd.set_recording(bool(is_train))


class TrainingStateScope:
    """``with TrainingStateScope(True):`` records and trains; what was before comes back.

    Parameters
    ----------
    enter_state:
        True to record and train, False to do neither.
    """

    def __init__(self, enter_state: bool) -> None:
        self._state = bool(enter_state)
        self._before: tuple[bool, bool] | None = None

    def __enter__(self) -> None:
        self._before = autograd.set_recording(self._state), autograd.set_training(self._state)

    def __exit__(self, *exc: object) -> None:
        assert self._before is not None
        autograd.set_recording(self._before[0])
        autograd.set_training(self._before[1])


def train_section() -> TrainingStateScope:
    """A scope in which operators are recorded, in training mode."""
    return TrainingStateScope(True)


def test_section() -> TrainingStateScope:
    """A scope in which operators are not recorded, in prediction mode."""
    return TrainingStateScope(False)


# pytest takes it for a test where it is imported by name.
setattr(test_section, "__test__", False)  # noqa: B010 - a function has no such field


def backward(
    outputs: Sequence[NDArray], out_grads: Sequence[NDArray | None] | None = None, retain_graph: bool = False
) -> None:
    """Put the gradients of the outputs into the arrays of the marked variables.

    Parameters
    ----------
    outputs:
        A list of arrays; anything else is a CheckError.
    out_grads:
        A list of their gradients, of which None is 1; None for all 1.
    retain_graph:
        Whether what was recorded is kept for another backward.
    """
    if not isinstance(outputs, list | tuple):
        raise CheckError(f"backward: outputs must be a list or tuple of NDArrays, got {type(outputs).__name__}")
    if out_grads is not None and len(out_grads) != len(outputs):
        raise CheckError(
            f"backward: {len(outputs)} outputs have {len(out_grads)} out_grads; give one for each, or None"
        )
    autograd.backward(outputs, out_grads, retain_graph)


def compute_gradient(outputs: Sequence[NDArray]) -> None:
    """As :func:`backward` of ``outputs``, with ones as their gradients."""
    backward(outputs)


def grad_and_loss(
    func: Callable[..., Any], argnum: int | list[int] | None = None
) -> Callable[..., tuple[list[NDArray], Any]]:
    """A function that returns the gradients of a function by its arguments, and its result.

    Parameters
    ----------
    func:
        A function of arrays that gives an array, or a list of them.
    argnum:
        The number of an argument, or a list of numbers; None for all.
    """

    @functools.wraps(func)
    def wrapped(*args: Any) -> tuple[list[NDArray], Any]:
        wanted = range(len(args)) if argnum is None else argnum if isinstance(argnum, list) else [argnum]
        variables = [args[i] for i in wanted]
        for i, x in zip(wanted, variables, strict=True):
            if not isinstance(x, NDArray):
                raise CheckError(f"grad_and_loss: argument {i} must be an NDArray, got {type(x).__name__}")
        grads = [zeros_like(x) for x in variables]
        mark_variables(variables, grads)
        with train_section():
            outputs = func(*args)
        compute_gradient([outputs] if isinstance(outputs, NDArray) else outputs)
        return grads, outputs

    return wrapped


def grad(func: Callable[..., Any], argnum: int | list[int] | None = None) -> Callable[..., list[NDArray]]:
    """A function that returns the gradients of a function by its arguments.

    Parameters
    ----------
    func:
        A function of arrays that gives an array, or a list of them.
    argnum:
        The number of an argument, or a list of numbers; None for all.
    """
    both = grad_and_loss(func, argnum)

    @functools.wraps(both)
    def wrapped(*args: Any) -> list[NDArray]:
        return both(*args)[0]

    return wrapped
