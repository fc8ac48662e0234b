"""Names that Python's library no longer has, for programs of MXNet's time: ``collections.Mapping``, ``time.clock``, ….

``python -m hybridc run`` adds those that are missing; ``import hybridc`` alone leaves Python as it is.
"""

from __future__ import annotations

import base64
import collections.abc
import fractions
import importlib.util
import inspect
import math
import sys
import threading
import time
import types
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from typing import Any, NamedTuple


class ArgSpec(NamedTuple):
    """The result of ``inspect.getargspec``, which Python 3.11 removed."""

    args: list[str]
    varargs: str | None
    keywords: str | None
    defaults: tuple[Any, ...] | None


def add() -> None:
    """Give modules and classes the names that they lack; what they have stays."""
    for owner, names in _removed():
        for name, value in names.items():
            if not hasattr(owner, name):
                setattr(owner, name, value)
    if importlib.util.find_spec("imp") is None:
        sys.modules["imp"] = _imp()


def _removed() -> list[tuple[Any, dict[str, Any]]]:
    """By owner, what Python 3.9 to 3.14 took away, as its release notes say to write it now."""
    return [
        (collections, {name: value for name, value in vars(collections.abc).items() if isinstance(value, type)}),
        (time, {"clock": time.process_time}),
        (inspect, {"getargspec": _getargspec, "ArgSpec": ArgSpec}),
        (fractions, {"gcd": math.gcd}),
        (base64, {"encodestring": base64.encodebytes, "decodestring": base64.decodebytes}),
        (threading.Thread, {"isAlive": threading.Thread.is_alive}),
    ]


def _getargspec(func: Callable[..., Any]) -> ArgSpec:
    signature = inspect.getfullargspec(func)
    if signature.kwonlyargs:
        raise ValueError("Function has keyword-only parameters, use inspect.signature() API which can support them")
    return ArgSpec(signature.args, signature.varargs, signature.varkw, signature.defaults)


def _imp() -> types.ModuleType:
    """What programs use of the module ``imp``, which Python 3.12 removed."""
    module = types.ModuleType("imp", "The module that Python 3.12 removed, as far as programs of MXNet's time use it.")
    vars(module).update(reload=importlib.reload, new_module=types.ModuleType, load_source=_load_source)
    return module


def _load_source(name: str, pathname: str, file: Any = None) -> types.ModuleType:  # noqa: ARG001
    spec = importlib.util.spec_from_file_location(name, pathname, loader=SourceFileLoader(name, pathname))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
