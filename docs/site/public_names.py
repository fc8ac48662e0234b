"""Print the public names of the package that no page of the reference has: ``python docs/site/public_names.py``.

The exit status is 1 if there are any. Public is what a public module lists, or defines if it lists nothing.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

import reference  # noqa: E402

import hybridc as mx  # noqa: E402

# Modules beside those of ``mx.__getattr__``, from which the walk starts.
_ROOTS = ("hybridc", "hybridc.horovod", "hybridc.contrib.onnx", "hybridc.io.io")
# Public modules of which the reference says nothing, and why.
_MODULES_APART = {
    "hybridc.contrib.symbol": "what mx.nd.contrib has, on symbols",
    "hybridc.np.apply": "how functions of mx.np are made of operators: for hybridc itself",
    "hybridc.np.methods": "how arrays of mx.np get their methods: for hybridc itself",
    "hybridc.np.protocol": "how NumPy's own functions reach those of mx.np: programs call NumPy",
    "hybridc.symbol.np": "what mx.np has, on symbols",
}
# Public names that no page has, and why.
_NAMES_APART = {
    "hybridc.gluon.block": {
        "_BlockScope": "of MXNet's internals, for programs that reach into them",
        "_brief_print_list": "of MXNet's internals, for programs that reach into them",
        "_indent": "of MXNet's internals, for programs that reach into them",
        "ATTRIBUTE_EPOCH": "counts changes of blocks, for hybridc itself",
    },
}


def _submodules(module: ModuleType) -> Iterator[ModuleType]:
    """Modules that a module lists, or that lie in one that lists nothing."""
    listed = getattr(module, "__all__", None)
    for name in dict.fromkeys([*(listed or dir(module)), *getattr(module, "_SUBMODULES", ())]):
        value = None if name.startswith("_") else getattr(module, name, None)
        if not isinstance(value, ModuleType) or sys.modules.get(value.__name__) is not value:
            continue
        if value.__name__ == f"{module.__name__}.{name}" or (listed and value.__name__.startswith("hybridc.")):
            yield value


def _public() -> dict[str, ModuleType]:
    """The public modules by their names."""
    known: dict[str, ModuleType] = {}
    work = [importlib.import_module(name) for name in (*_ROOTS, *mx._NAMESPACES.values())]
    while work:
        module = work.pop()
        if module.__name__ not in known:
            known[module.__name__] = module
            work += _submodules(module) if module.__name__ != "hybridc" else ()
    return known


def _names(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """What a module lists; of one that lists nothing, what it defines."""
    listed = getattr(module, "__all__", None)
    late = sorted(getattr(module, "_OF_IMAGES", ()))
    for name in (*listed, *late) if listed else [n for n in dir(module) if not n.startswith("_")]:
        value = getattr(module, name)
        if isinstance(value, ModuleType | TypeVar):
            continue
        if listed or getattr(value, "__module__", "") == module.__name__:
            yield name, value


def without_a_place() -> tuple[int, list[str]]:
    """How many public names there are, and those that no page has."""
    shown: list[Any] = [mx.nd.op.__dict__.get(n, getattr(mx.nd, n)) for n in dir(mx.nd.op) if not n.startswith("_")]
    constants: set[str] = set()
    for _, path in reference.NAMESPACES:
        for name, value in reference.namespace_entries(importlib.import_module(path)):
            shown.append(value)
            constants.add(name)
    callables = {value for value in shown if callable(value)}
    count, lost = 0, list[str]()
    for path, module in _public().items():
        apart = _NAMES_APART.get(path, {})
        for name, value in _names(module) if path not in _MODULES_APART else ():
            count += 1
            if name not in apart and (value not in callables if callable(value) else name not in constants):
                lost.append(f"{path}.{name}")
    return count, sorted(lost)


def apart_in_vain() -> list[str]:
    """Modules and names that have a reason to be on no page, and are not there."""
    modules = _public()
    names = [(path, name) for path, apart in _NAMES_APART.items() for name in apart]
    return [
        *(_MODULES_APART.keys() - modules.keys()),
        *(f"{path}.{name}" for path, name in names if name not in dict(_names(modules[path]))),
    ]


if __name__ == "__main__":
    number, names, vain = *without_a_place(), apart_in_vain()
    print("\n".join([*names, *vain, ""]) if names or vain else "", end="")
    print(f"{number} public names, {len(names)} without a place, {len(vain)} apart in vain")
    raise SystemExit(bool(names or vain))
