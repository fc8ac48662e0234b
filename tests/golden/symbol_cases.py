"""The operator cases that are written as symbol files, by MXNet and by hybridc."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np

from .op_cases import all_cases


def symbol_cases():
    """Cases whose code works on symbols, and on whose result MXNet and hybridc agree."""
    return {name: case for name, case in all_cases().items() if case.trace and not case.raises and not case.compat}


def written_by_hybridc(mx):
    """Each case as hybridc writes it; what is no function of mx.sym is left out, and so are equal texts."""
    found = {}
    for name, case in symbol_cases().items():
        text = written_case(mx, case)
        if text:
            found.setdefault(text, name)
    return {name: text for text, name in found.items()}


def written_case(mx, case):
    """One case as hybridc writes it; empty if its code does not work on composed symbols."""
    with mx.name.NameManager():
        try:
            made = case.fn(SimpleNamespace(nd=mx.sym), *[mx.sym.var(key) for key in case.inputs])
        except (mx.MXNetError, TypeError, AttributeError, ValueError, IndexError):
            return ""
        symbol = mx.sym.Group(list(made)) if isinstance(made, (list, tuple)) else made
        if not list(symbol) or symbol.list_inputs() == symbol.list_outputs():  # indexing of a variable
            return ""
        return compact(symbol.tojson(remove_amp_cast=False))


def compact(text):
    """JSON without its layout."""
    return json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False)


def results_in_mxnet(mx, text, inputs):
    """The results of a symbol in MXNet for arrays by name."""
    symbol = mx.sym.load_json(text)
    arrays = {key: mx.nd.array(value, dtype=value.dtype) for key, value in inputs.items()}
    args = {key: arrays[key] for key in symbol.list_arguments()}
    states = {key: arrays[key] for key in symbol.list_auxiliary_states()}
    return [x.asnumpy() for x in symbol.bind(mx.cpu(), args, aux_states=states).forward()]


def variable(name, **more):
    """A variable of a file."""
    return {"op": "null", "name": name, "inputs": [], **more}


def graph(*nodes, version=None):
    """A file of one result; without a version as before MXNet wrote one."""
    made = {
        "nodes": nodes,
        "arg_nodes": [i for i, node in enumerate(nodes) if node["op"] == "null"],
        "heads": [[len(nodes) - 1, 0]],
    }
    if version is not None:
        made["attrs"] = {"mxnet_version": ["int", version]}
    return json.dumps(made)


def operator(op, inputs, **more):
    """An operator of a file of MXNet 0.8."""
    return {"op": op, "name": "y", "inputs": [[i, 0] for i in inputs], "backward_source_id": -1, **more}


XWB = [variable("x"), variable("w"), variable("b")]
# Files as earlier versions of MXNet wrote them.
OLD = {
    "param beside attr": graph(
        *XWB,
        operator(
            "FullyConnected",
            [0, 1, 2],
            param={"num_hidden": "4", "no_bias": "False"},
            attr={"ctx_group": "dev1", "weight_lr_mult": "2", "lr_mult": "3"},
        ),
    ),
    "attr of 0.9": graph(*XWB, operator("FullyConnected", [0, 1, 2], attr={"num_hidden": "4"}), version=900),
    "attr of variables": graph(
        variable("x", attr={"lr_mult": "0.5", "__shape__": "(2, 3)", "wd_mult": "0"}),
        operator("Activation", [0], param={"act_type": "relu"}),
    ),
    "CamelCase": graph(variable("x"), operator("_RMinusScalar", [0], param={"scalar": "2.5"})),
    "no states": graph(
        variable("x"), variable("g"), variable("b"), operator("BatchNorm", [0, 1, 2], param={"fix_gamma": "False"})
    ),
    "long integers": graph(variable("x"), operator("Reshape", [0], param={"shape": "(3L, 2L)"})),
    "argmax of the last axis": graph(variable("x"), operator("argmax", [0], attr={"axis": "-1"}), version=903),
    "argmax of 0.9.5": graph(variable("x"), operator("argmax", [0], attr={"axis": "-1"}), version=905),
    "ElementWiseSum": graph(*XWB[:2], operator("ElementWiseSum", [0, 1], param={"num_args": "2"})),
    "Flatten": graph(variable("x"), operator("Flatten", [0])),
}
SHAPES = {"x": (2, 3), "w": (4, 3), "b": (4,), "g": (3,), "y_moving_mean": (3,), "y_moving_var": (3,)}


def old_inputs(name, inputs):
    """Fixed arrays for the inputs of an old file."""
    shapes = {**SHAPES, **({"b": (3,)} if name == "no states" else {}), **({"w": (2, 3)} if "Sum" in name else {})}
    return {
        key: np.random.RandomState(i).uniform(0.5, 1.5, shapes[key]).astype("float32") for i, key in enumerate(inputs)
    }
