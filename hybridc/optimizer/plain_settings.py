"""The settings of an optimizer as plain values, which ranks compare before they train together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

# What belongs to a process, or is another form of what else is there.
_LEFT_OUT = frozenset(
    {"param_dict", "sym_info", "_runner", "_index_update_count", "_all_index_update_counts", "idx2name"}
)


def settings_of(optimizer: Any) -> dict[str, Any]:
    """The class and the attributes of an optimizer and of its schedule; of what is no plain value, the class."""
    return {"class": type(optimizer).__name__, **_attributes(optimizer)}


def _attributes(instance: object) -> dict[str, Any]:
    return {name: _plain(value) for name, value in vars(instance).items() if name not in _LEFT_OUT}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return cast("Any", value).item()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in cast("list[Any]", value)]
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in cast("Mapping[Any, Any]", value).items()}
    kind = type(value).__name__
    return {"class": kind, **_attributes(value)} if kind.endswith("Scheduler") and hasattr(value, "__dict__") else kind
