"""The comparison with MXNet's names that docs/compatibility.md is made of."""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

PATH = Path(__file__).resolve().parents[2] / "docs" / "compatibility.py"


@pytest.fixture(scope="module")
def compatibility():
    spec = importlib.util.spec_from_file_location("compatibility", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["compatibility"] = module
    spec.loader.exec_module(module)
    return module


def function(*parameters):
    return {"kind": "function", "parameters": [[*p] for p in parameters]}


BOTH = "POSITIONAL_OR_KEYWORD"


@pytest.mark.parametrize(
    ("theirs", "ours", "said"),
    [
        ([("a", BOTH, ""), ("b", BOTH, "1")], lambda a, b=1: 0, ""),
        ([("a", BOTH, ""), ("b", BOTH, "1")], lambda a, b=1, more=None: 0, ""),
        ([("a", BOTH, ""), ("b", BOTH, "1")], lambda a: 0, "no `b`"),
        ([("a", BOTH, ""), ("b", BOTH, "1")], lambda b=1, a=0: 0, "`a` is not number 1"),
        ([("a", BOTH, "(1, 1)")], lambda a=1: 0, ""),
        ([("a", BOTH, "0.9")], lambda a=0.99: 0, "`a` is 0.99, in MXNet 0.9"),
        ([("a", BOTH, "None")], lambda a=(): 0, ""),
        ([("a", BOTH, "'valid'")], lambda a="full": 0, "`a` is 'full', in MXNet 'valid'"),
        ([("args", "VAR_POSITIONAL", "")], lambda: 0, ""),
    ],
)
def test_parameters_are_compared_by_name_order_and_default(compatibility, theirs, ours, said):
    assert ", ".join(compatibility.differences(function(*theirs), ours)).startswith(said)
    assert bool(said) == bool(list(compatibility.differences(function(*theirs), ours)))


def test_operators_are_compared_with_mxnet_s_description(compatibility):
    import hybridc as mx

    theirs = compatibility.mxnet_names()["mxnet.ndarray"]["FullyConnected"]
    assert [name for name, _, _ in theirs["parameters"]] == [
        "data",
        "weight",
        "bias",
        "num_hidden",
        "no_bias",
        "flatten",
    ]
    assert not list(compatibility.differences(theirs, mx.nd.FullyConnected))
    assert list(compatibility.differences(theirs, mx.nd.Convolution))


def test_a_missing_name_is_absent(compatibility):
    assert compatibility.compared("mxnet.gluon", "Nothing", function()).state == "absent"


WALK = """
import importlib, json, sys
import mxnet as mx

for path in json.load(sys.stdin):
    found = mx
    try:
        for part in path.split(".")[1:]:
            found = getattr(found, part)
    except AttributeError:
        print(path)
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_names_are_attributes_after_the_package_is_imported(compatibility):
    names = compatibility.mxnet_names()
    paths = [*names, *(f"{module}.{name}" for module in names for name in names[module])]
    # In MXNet, too, the function hides the module.
    paths = sorted({p for p in paths if not p.startswith("mxnet.gluon.model_zoo.vision.alexnet.")})
    command = [sys.executable, "-m", "hybridc", "run", "-c", WALK]
    done = subprocess.run(command, input=json.dumps(paths), capture_output=True, text=True, check=True)
    absent = {
        f.name.replace("mx", "mxnet", 1) for part in compatibility.parts() for f in part.found if f.state == "absent"
    }
    absent |= {m for m in paths if (m in names or is_module(names, m)) and not is_importable(m)}
    assert set(done.stdout.split()) <= absent


def is_module(names, path):
    module, _, name = path.rpartition(".")
    return names.get(module, {}).get(name, {}).get("kind") == "module"


def is_importable(path):
    try:
        importlib.import_module(path.replace("mxnet", "hybridc", 1))
    except ImportError:
        return False
    return True
