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


RESHAPE_08 = {"keep_highest": "False", "reverse": "False", "shape": "()", "target_shape": "(0,0)"}
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
    "hidden keys of 1.3": graph(
        *XWB,
        operator(
            "FullyConnected",
            [0, 1, 2],
            attrs={
                "num_hidden": "4",
                "ctx_group": "dev1",
                "mirror_stage": "1",
                "force_mirroring": "True",
                "lr_mult": "3",
                "weight_lr_mult": "2",
                "bias_wd_mult": "0",
            },
        ),
        version=10300,
    ),
    "hidden keys of a relu": graph(variable("x"), operator("relu", [0], attrs={"ctx_group": "a"}), version=10700),
    "Reshape of 0.8": graph(variable("x"), operator("Reshape", [0], param={**RESHAPE_08, "shape": "(0,-1)"})),
    "target_shape": graph(variable("x"), operator("Reshape", [0], param={"target_shape": "(3,0)"})),
    "keep_highest": graph(variable("x"), operator("Reshape", [0], param={**RESHAPE_08, "keep_highest": "True"})),
    "shape of Python 2": graph(
        variable("x", attrs={"__shape__": "(2L, 3L)"}),
        operator("slice_axis", [0], attrs={"axis": "1", "begin": "0", "end": "2"}),
        version=10300,
    ),
    "shape None": graph(variable("x", attrs={"__shape__": "None"}), operator("exp", [0]), version=10300),
    "shape ()": graph(variable("x", attrs={"__shape__": "()"}), operator("exp", [0]), version=10901),
    "initializers of 0.9.3": graph(
        *[variable(n) for n in ("x", "g", "b", "y_moving_mean", "y_moving_var")],
        operator("BatchNorm", [0, 1, 2, 3, 4], attr={"fix_gamma": "False"}),
        version=903,
    ),
    "initializer of prelu": graph(
        variable("x"), variable("g"), operator("LeakyReLU", [0, 1], attr={"act_type": "prelu"}), version=903
    ),
    "no initializer of 0.9.5": graph(
        variable("x"), variable("g"), operator("LeakyReLU", [0, 1], attr={"act_type": "prelu"}), version=905
    ),
    "attributes of none": graph(variable("x"), operator("relu", [0], attrs={"axis": "7"}), version=10901),
    **{
        name: graph(variable("x"), operator(name, inputs, **({"attrs": attrs} if attrs else {})), version=10901)
        for name, inputs, attrs in (
            ("_CrossDeviceCopy", [0], {}),
            ("_grad_add", [0, 0], {}),
            ("_scatter_elemwise_div", [0, 0], {}),
            ("_scatter_plus_scalar", [0], {"scalar": "2", "is_int": "True"}),
            ("_scatter_minus_scalar", [0], {"scalar": "2.5"}),
            ("_rnn_param_concat", [0, 0], {"dim": "0", "num_args": "2"}),
            ("_identity_with_attr_like_rhs", [0, 0], {}),
            ("_sparse_square", [0], {}),
            ("_GreaterScalar", [0], {"scalar": "1"}),
            ("_Maximum", [0, 0], {}),
        )
    },
}
SHAPES = {"x": (2, 3), "w": (4, 3), "b": (4,), "g": (3,), "y_moving_mean": (3,), "y_moving_var": (3,)}


def old_inputs(name, inputs):
    """Fixed arrays for the inputs of an old file."""
    of_channels = {"b": (3,)} if name in ("no states", "initializers of 0.9.3") else {}
    shapes = {**SHAPES, **of_channels, **({"w": (2, 3)} if "Sum" in name else {})}
    return {
        key: np.random.RandomState(i).uniform(0.5, 1.5, shapes[key]).astype("float32") for i, key in enumerate(inputs)
    }


def whole(op, attrs, *names):
    """The text of a file of one operator on variables, as MXNet lays out none of its own."""
    node = {
        "op": op,
        "name": "y",
        **({"attrs": attrs} if attrs else {}),
        "inputs": [[i, 0, 0] for i in range(len(names))],
    }
    made = {
        "nodes": [*[variable(name) for name in names], node],
        "arg_nodes": list(range(len(names))),
        "heads": [[len(names), 0, 0]],
        "attrs": {"mxnet_version": ["int", 10901]},
    }
    return json.dumps(made)


def filled(*shape, seed=0, low=-2.0, high=2.0):
    """Fixed random numbers."""
    return np.random.RandomState(seed).uniform(low, high, shape).astype("float32")


A, B = filled(3, 4), filled(3, 4, seed=1)
ROWS = filled(2, low=0.5, seed=2)
# Operators that no case of `op_cases` calls as a function of mx.sym: name, attributes and inputs.
BY_HAND = {
    "boolean_mask": ("_contrib_boolean_mask", {}, {"data": A, "index": np.array([1, 0, 1], "float32")}),
    "eye": ("_eye", {"N": "3", "M": "4", "k": "1"}, {}),
    "linspace": ("_linspace", {"start": "1.0", "stop": "2.0", "num": "5", "endpoint": "False"}, {}),
    "slice_assign": ("_slice_assign", {"begin": "(1,)", "end": "(3,)"}, {"lhs": A, "rhs": B[1:]}),
    "slice_assign_scalar": ("_slice_assign_scalar", {"scalar": "7.0", "begin": "(1,)", "end": "(3,)"}, {"data": A}),
    "scatter_add": (
        "_backward_gather_nd",
        {"shape": "(2, 4)"},
        {"data": A, "indices": np.array([[0, 1, 0]], "float32")},
    ),
    "group_norm": (
        "GroupNorm",
        {"num_groups": "2", "eps": "0.1"},
        {"data": filled(3, 2, 4), "gamma": ROWS, "beta": ROWS},
    ),
}
MANY = {"shape": "(5000,)", "dtype": "float32"}
ONES = np.ones(5000, "float32")
# Draws: their mean and standard deviation are compared.
DRAWS = {
    "uniform": ("_random_uniform", {"low": "-1.0", "high": "3.0", **MANY}, {}),
    "normal": ("_random_normal", {"loc": "1.0", "scale": "2.0", **MANY, "dtype": "float64"}, {}),
    "exponential": ("_random_exponential", {"lam": "2.0", **MANY}, {}),
    "gamma": ("_random_gamma", {"alpha": "2.0", "beta": "0.5", **MANY}, {}),
    "poisson": ("_random_poisson", {"lam": "3.0", **MANY}, {}),
    "negative_binomial": ("_random_negative_binomial", {"k": "3", "p": "0.5", **MANY}, {}),
    "generalized": ("_random_generalized_negative_binomial", {"mu": "2.0", "alpha": "0.3", **MANY}, {}),
    "randint": ("_random_randint", {"low": "-3", "high": "9", **MANY, "dtype": "int64"}, {}),
    "uniform_like": ("_random_uniform_like", {"high": "2.0"}, {"data": ONES}),
    "normal_like": ("_random_normal_like", {"scale": "3.0"}, {"data": ONES}),
    "exponential_like": ("_random_exponential_like", {"lam": "2.0"}, {"data": ONES}),
    "gamma_like": ("_random_gamma_like", {"alpha": "3.0"}, {"data": ONES}),
    "poisson_like": ("_random_poisson_like", {"lam": "4.0"}, {"data": ONES}),
    "negative_binomial_like": ("_random_negative_binomial_like", {"k": "2", "p": "0.4"}, {"data": ONES}),
    "generalized_like": ("_random_generalized_negative_binomial_like", {"mu": "3.0"}, {"data": ONES}),
    "sample_uniform": ("_sample_uniform", {"shape": "(2500,)"}, {"low": -ROWS, "high": ROWS}),
    "sample_normal": ("_sample_normal", {"shape": "(2500,)"}, {"mu": ROWS, "sigma": ROWS}),
    "sample_exponential": ("_sample_exponential", {"shape": "(2500,)"}, {"lam": ROWS}),
    "sample_gamma": ("_sample_gamma", {"shape": "(2500,)"}, {"alpha": ROWS, "beta": ROWS}),
    "sample_poisson": ("_sample_poisson", {"shape": "(2500,)"}, {"lam": ROWS}),
    "sample_negative_binomial": ("_sample_negative_binomial", {"shape": "(2500,)"}, {"k": ONES[:2] * 2, "p": ROWS / 4}),
    "sample_generalized": (
        "_sample_generalized_negative_binomial",
        {"shape": "(2500,)"},
        {"mu": ROWS, "alpha": ROWS},
    ),
    "multinomial": (
        "_sample_multinomial",
        {"shape": "(2500,)"},
        {"data": np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]], "float32")},
    ),
    "shuffle": ("_shuffle", {}, {"data": filled(5000)}),
    "dropout": ("Dropout", {"p": "0.3", "mode": "always"}, {"data": ONES}),
    "rrelu": ("LeakyReLU", {"act_type": "rrelu"}, {"data": -ONES}),
}
