"""Makes operator_signatures.json.gz: parameters of the functions of MXNet 1.9.1's mx.nd, mx.sym and their namespaces.
And required_attributes.json: the attributes that each operator requires.

Run where MXNet 1.9.1 is installed (Python 3.11, ``pip install mxnet==1.9.1 numpy==1.23.5``)::

    python tests/golden/make_operator_signatures.py
"""

import gzip
import inspect
import json
import pathlib

import mxnet as mx  # noqa: TID251
from mxnet import operator  # noqa: TID251

HERE = pathlib.Path(__file__).parent
NAMESPACES = ("", "contrib", "linalg", "random", "image", "op")
PREFIXES = {"contrib": "_contrib_", "linalg": "_linalg_", "random": "_random_", "image": "_image_"}


def parameters(function):
    """Names of the parameters, in order; those of a variable number begin with stars."""
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [stars.get(p.kind, "") + p.name for p in inspect.signature(function).parameters.values()]


def described(space, name, function):
    """The parameters; of a variadic operator, whose function has only ``**kwargs``, those of its description, too."""
    found = parameters(function)
    if found[-1:] == ["**kwargs"] and found[0].startswith("*"):
        try:
            listed = operator.get_operator_arguments(PREFIXES.get(space, "") + name)
        except mx.MXNetError:
            return found
        return [*found[:-1], *[n for n, t in zip(listed.names, listed.types) if "NDArray" not in t], "**kwargs"]
    return found


found = {}
for kind in ("nd", "sym"):
    for space in NAMESPACES:
        module = getattr(getattr(mx, kind), space) if space else getattr(mx, kind)
        for name in sorted(dir(module)):
            value = getattr(module, name)
            home = getattr(value, "__module__", "") or ""
            if name.startswith("_") or not inspect.isfunction(value) or ".numpy" in home:
                continue
            if home.startswith(("mxnet.ndarray", "mxnet.symbol", "mxnet.nd", "mxnet.sym", "ndarray", "symbol")):
                found[".".join(filter(None, (kind, space, name)))] = described(space, name, value)
required = {}
for name in sorted(operator.get_all_registered_operators()):
    listed = operator.get_operator_arguments(name)
    names = [n for n, t in zip(listed.names, listed.types) if t.endswith("required") and "NDArray" not in t]
    if names and not name.startswith(("_backward", "_np", "_contrib_backward")):
        required[name] = names
(HERE / "required_attributes.json").write_text(json.dumps(required, indent=0) + "\n")
text = json.dumps(found, sort_keys=True).encode()
(HERE / "operator_signatures.json.gz").write_bytes(gzip.compress(text, mtime=0))
print(len(found), "functions")
