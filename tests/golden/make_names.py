"""Write names.json.gz: the public names of MXNet 1.9.1 by module, with the parameters and defaults of each.

Run by MXNet's Python: ``python tests/golden/make_names.py``. A name is public if its module lists it in ``__all__``; in
a module without one, if it is defined there or in a module below. Helpers that a module imports are not its names.
"""

from __future__ import annotations

import gzip
import importlib
import inspect
import json
import pkgutil
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import mxnet as mx  # noqa: TID251
from mxnet import operator  # noqa: TID251

OUT = Path(__file__).parent / "names.json.gz"
# Modules that are no interface: the C library's, generated code, interfaces of NumPy's names, which repeat mxnet.numpy.
INTERNAL = re.compile(
    r"mxnet\.(_|api$|libmxnet|cython|space|misc|onnx\.setup|tvmop|torch|numpy_(dispatch|op)_|symbol_doc|ndarray_doc"
    r"|(ndarray|symbol)\.(gen_|numpy|register|_internal)|.*\._|numpy\.(?!linalg|random)|numpy_extension\.(?!random|image))"
)
# What MXNet's operators are in: the names of generated modules.
GENERATED = ("ndarray", "symbol")


def main() -> None:
    """Write the file."""
    modules = {"mxnet": mx}
    for found in pkgutil.walk_packages(mx.__path__, "mxnet."):
        if not INTERNAL.match(found.name):
            try:
                modules[found.name] = importlib.import_module(found.name)
            except ImportError as error:  # what needs ONNX, matplotlib or the like
                print(f"{found.name}: {error}")
    names = {name: _names(name, module) for name, module in sorted(modules.items())}
    OUT.write_bytes(gzip.compress(json.dumps(names, sort_keys=True).encode(), mtime=0))
    print(f"{len(names)} modules, {sum(map(len, names.values()))} names, {OUT.stat().st_size} bytes")


def _names(path: str, module: ModuleType) -> dict[str, Any]:
    listed = getattr(module, "__all__", None)
    names = [n for n in dir(module) if not n.startswith("_")]
    # Not all: mxnet.ndarray's list, say, omits the generated operators.
    exported = set(listed or ())
    return {n: _described(path, n, getattr(module, n)) for n in names if n in exported or _here(path, module, n)}


def _here(path: str, module: ModuleType, name: str) -> bool:
    """Whether a name belongs to the module: defined in it, below it, or one of MXNet's modules of the top level."""
    value = getattr(module, name)
    if isinstance(value, ModuleType):
        is_below = value.__name__.startswith(path + ".") and not INTERNAL.match(value.__name__)
        return (
            is_below if path != "mxnet" else value.__name__.startswith("mxnet") and not INTERNAL.match(value.__name__)
        )
    home = getattr(value, "__module__", None)
    if not isinstance(home, str):
        return False
    if path in ("mxnet.ndarray", "mxnet.symbol"):
        return home.startswith(("mxnet", *GENERATED)) and not home.startswith(("mxnet.base", "mxnet.util"))
    if path == "mxnet":
        return home.startswith("mxnet")
    if home in GENERATED:
        return path.startswith(("mxnet.ndarray", "mxnet.symbol", "mxnet.contrib"))
    return home == path or home.startswith(path + ".")


def _described(path: str, name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, ModuleType):
        return {"kind": "module", "home": value.__name__}
    if inspect.isclass(value):
        methods = {n: _parameters(getattr(value, n)) for n in vars(value) if not n.startswith("_")}
        return {
            "kind": "class",
            "home": value.__module__,
            "parameters": _parameters(value.__init__),
            "methods": methods,
        }
    if callable(value):
        parameters = _parameters(value)
        is_generated = not path.endswith(".random") and any("_Null" in default for _, _, default in parameters or ())
        arguments = _operator(path, name) if is_generated or value.__module__ in GENERATED else None
        if arguments is not None:
            return {"kind": "operator", "parameters": arguments}
        return {"kind": "function", "home": getattr(value, "__module__", None), "parameters": parameters}
    return {"kind": "value", "type": type(value).__name__}


def _operator(path: str, name: str) -> list[list[str | None]] | None:
    """An operator's parameters: name, type, and default as MXNet's description of it has them."""
    prefix = {"contrib": "_contrib_", "linalg": "_linalg_", "image": "_image_", "random": "_random_"}
    tried = (prefix.get(path.rsplit(".", 1)[-1], "") + name, name, "_contrib_" + name, "_" + name)
    for registered in tried:
        try:
            found = operator.get_operator_arguments(registered)
        except mx.MXNetError:
            continue
        if found.narg or registered != tried[-1]:
            return [[n, t.split(", default=")[0], _default(t)] for n, t in zip(found.names, found.types)]
    return None


def _default(described: str) -> str | None:
    return described.split(", default=", 1)[1] if ", default=" in described else None


def _parameters(function: Any) -> list[list[str]] | None:
    """Parameters of a function: name, kind, and the default as it is written."""
    if not callable(function):
        return None
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return None
    return [
        [p.name, p.kind.name, "" if p.default is p.empty else _written(p.default)]
        for p in signature.parameters.values()
        if p.name not in ("self", "cls")
    ]


def _written(default: Any) -> str:
    if inspect.isclass(default):
        return default.__name__
    return re.sub(r" at 0x[0-9a-f]+", "", repr(default)).replace(str(Path.home()), "~")


if __name__ == "__main__":
    main()
