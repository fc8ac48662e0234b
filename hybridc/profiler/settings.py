"""The settings of the profiler: MXNet's keywords of ``set_config``, read as MXNet reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from hybridc.errors import AttributeValueError
from hybridc.ground.records import dataclass

_TRUTH = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True)
class Settings:
    """What is recorded, and where it is written."""

    profile_all: bool = False
    profile_symbolic: bool = True
    profile_imperative: bool = True
    profile_memory: bool = True
    profile_api: bool = True
    filename: str = "profile.json"
    # COMPAT(mxnet): True there; writing takes this process's time here, so it is done when it is asked for.
    continuous_dump: bool = False
    dump_period: float = 1.0
    aggregate_stats: bool = False
    profile_process: str = "worker"


def configured(given: Mapping[str, Any]) -> Settings:
    """The settings of some keywords; AttributeValueError for a keyword or a value that there is not."""
    kinds = {f.name: f.type for f in fields(Settings)}
    for name in given:
        if name not in kinds:
            raise AttributeValueError(f"Cannot find argument '{name}', Possible Arguments: {', '.join(kinds)}")
    made = Settings(**{name: _value(name, str(kinds[name]), value) for name, value in given.items()})
    if made.dump_period <= 0:
        raise AttributeValueError(f"dump_period must be more than 0 seconds, got {made.dump_period}")
    if made.profile_process not in ("worker", "server"):
        raise AttributeValueError(
            f"Invalid Input: '{made.profile_process}' for profile_process, valid values are: {{'server', 'worker'}}"
        )
    if made.profile_process == "server":
        raise AttributeValueError(
            "profile_process='server' needs servers of a distributed key-value store, which hybridc does not have; "
            "leave it out"
        )
    return made


def _value(name: str, kind: str, value: Any) -> Any:
    """A value of a setting, which may be its text."""
    if kind == "str":
        return str(value)
    if kind == "bool":
        found = _TRUTH.get(str(value).lower())
        if found is None:
            raise AttributeValueError(f"Invalid Parameter format for {name} expect boolean but value='{value}'")
        return found
    try:
        return float(value)
    except (TypeError, ValueError):
        raise AttributeValueError(f"Invalid Parameter format for {name} expect float but value='{value}'") from None
