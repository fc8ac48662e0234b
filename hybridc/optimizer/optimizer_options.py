"""What every optimizer takes beside its own parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from hybridc.lr_scheduler import LRScheduler


class OptimizerOptions(TypedDict, total=False):
    """Those of an optimizer that has a learning rate of its own."""

    rescale_grad: float
    param_idx2name: Mapping[Any, str] | None
    wd: float
    clip_gradient: float | None
    lr_scheduler: LRScheduler | None
    sym: Any
    begin_num_update: int
    multi_precision: bool
    param_dict: Mapping[Any, Any] | None


class RateOptions(OptimizerOptions, total=False):
    """Those of an optimizer whose learning rate is 0.01 where none is given."""

    learning_rate: float | None
