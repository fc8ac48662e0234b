"""Modules, ``mx.mod``: symbols that are trained and used on the batches of iterators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hybridc.ground.absent import absent as _absent
from hybridc.module import (
    base_module,
    bucketing_module,
    executor_group,
    module,
    python_module,
    sequential_module,
)
from hybridc.module.base_module import BaseModule
from hybridc.module.bucketing_module import BucketingModule
from hybridc.module.module import Module
from hybridc.module.python_module import PythonLossModule, PythonModule
from hybridc.module.sequential_module import SequentialModule

__all__ = [
    "BaseModule", "BucketingModule", "Module", "PythonLossModule", "PythonModule", "SequentialModule", "base_module",
    "bucketing_module", "executor_group", "module", "python_module", "sequential_module",
]  # fmt: skip


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        raise _absent("mx.module", name, "module", __all__)
