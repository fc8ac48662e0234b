"""The optimizer of an SVRGModule: that of the user for parameters, and assignment for sums of gradients."""

from __future__ import annotations

from typing import Any

from hybridc import optimizer as opt

__all__: list[str] = []

_BASE = (
    "rescale_grad", "param_idx2name", "wd", "clip_gradient", "learning_rate", "lr_scheduler", "sym",
    "begin_num_update", "multi_precision", "param_dict",
)  # fmt: skip


@opt.register
class _AssignmentOptimizer(opt.Optimizer):  # pyright: ignore[reportUnusedClass]
    """The new weight is the gradient: a KVStore sums gradients by it."""

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Assign the gradient."""
        weight[:] = grad


@opt.register
class _SVRGOptimizer(opt.Optimizer):  # pyright: ignore[reportUnusedClass]
    """``default_optimizer``, one or its name, for parameters; assignment for keys that contain "full"."""

    def __init__(self, default_optimizer: Any, **kwargs: Any) -> None:
        super().__init__(**{k: v for k, v in kwargs.items() if k in _BASE})
        named = isinstance(default_optimizer, str)
        self.default_opt = opt.create(default_optimizer, **kwargs) if named else default_optimizer
        self.aux_opt = opt.create("_assignmentoptimizer")

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Update a parameter, or assign a sum of gradients."""
        self._optimizer_of(index).update(index, weight, grad, state)

    def create_state(self, index: Any, weight: Any) -> Any:
        """The state of the optimizer that serves this key."""
        return self._optimizer_of(index).create_state(index, weight)

    def _optimizer_of(self, index: Any) -> opt.Optimizer:
        name = index if isinstance(index, str) else self.idx2name[index]
        return self.aux_opt if "full" in name else self.default_opt
