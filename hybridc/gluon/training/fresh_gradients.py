"""Fresh gradients: those that ``backward`` wrote since the last step; the others are stale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybridc.autograd import has_fresh_grad
from hybridc.context import Context


def freshness(param: Any) -> list[bool]:
    """Whether the gradient of a parameter is fresh, on each of its devices."""
    return [has_fresh_grad(weight) for weight in param.arrays()]


def fresh_gradients(params: Sequence[Any], ignore_stale_grad: bool = True) -> dict[int, list[bool]]:
    """By the number of each trained parameter that has a fresh gradient: on which of its devices.

    Raises a UserWarning without ``ignore_stale_grad`` if one is stale.
    """
    fresh: dict[int, list[bool]] = {}
    for number, param in enumerate(params):
        if param.grad_req == "null":
            continue
        on_devices = freshness(param)
        if not ignore_stale_grad and not all(on_devices):
            raise_stale(param, param.list_ctx()[on_devices.index(False)])
        if any(on_devices):
            fresh[number] = on_devices
    return fresh


def raise_stale(param: Any, ctx: Context) -> None:
    """Raise: the parameter is to be updated, but has no gradient of this step."""
    raise UserWarning(
        f"Gradient of Parameter `{param.name}` on context {ctx} has not been updated by "
        "backward since the last step: the network may have used only some of its parameters this time. If "
        "that is meant, step(batch_size, ignore_stale_grad=True) leaves the others as they are"
    )
