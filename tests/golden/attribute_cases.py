"""Symbols whose attributes are asked for: what MXNet keeps of what a call was given."""

import copy
import json
import pickle  # noqa: TID251 - what it makes is read at once

import numpy as np


def scoped(mx, x):
    """Attributes of a scope, of a call, and of variables."""
    with mx.AttrScope(ctx_group="dev1", __data__="a"):
        y = mx.sym.FullyConnected(x, num_hidden=3, name="fc", attr={"__mood__": "so so"}, lr_mult=2)
        return mx.sym.Activation(y, act_type="relu", name="act") + mx.sym.var("w", shape=(2, 3), wd_mult=0.5)


def composed(mx, x):
    """A symbol that is put in the place of a variable."""
    inner = mx.sym.Pooling(mx.sym.var("p"), kernel=(2, 2), pool_type="max", name="pool")
    return inner(p=mx.sym.Dropout(x, p=0.5, name="drop"), name="renamed")


def read_again(mx, x):
    """A symbol out of a file."""
    made = mx.sym.Convolution(x, kernel=[3, 3], num_filter=2, stride="(1,1)", no_bias=False, name="conv")
    return mx.sym.load_json(made.tojson())


def looped(mx, x):
    """A loop whose function gives attributes: defaults too, and the user's."""

    def step(row, states):
        w = mx.sym.var("w", lr_mult=2)
        y = mx.sym.FullyConnected(row, w, num_hidden=2, no_bias=True, flatten=True, name="fc", attr={"__mood__": "so"})
        y = mx.sym.sum(mx.sym.Activation(y, act_type="relu", name="act"), axis=(1,), keepdims=True, name="sum")
        y = mx.sym.slice(mx.sym.broadcast_add(y, states[0], name="add"), begin=(0, 0), end=(None, None), name="cut")
        return mx.sym.Cast(y * 2, dtype="float32", name="cast"), [mx.sym.clip(y, a_min=0, a_max=1, name="clip")]

    rows, states = mx.sym.contrib.foreach(step, x, [mx.sym.var("s")], name="loop")
    return mx.sym.Group([rows, *states])[0]


def looped_while(mx, x):
    """A loop with a condition."""

    def step(i, v):
        return mx.sym.sum(v, axis=0, keepdims=False, name="sum"), [i + 1, mx.sym.clip(v, a_min=0, a_max=1, name="clip")]

    return mx.sym.contrib.while_loop(lambda i, v: i < 3, step, [mx.sym.var("i"), x], max_iterations=4)[1][0]


def branched(mx, x):
    """A branch."""
    return mx.sym.contrib.cond(
        mx.sym.var("p"),
        lambda: mx.sym.sum(x, axis=0, keepdims=False, name="then"),
        lambda: mx.sym.mean(x, axis=(0,), name="else"),
    )


def read_loop_again(mx, x):
    """A loop out of a file."""
    return mx.sym.load_json(looped(mx, x).tojson())


def set_again(mx, x):
    """Attributes that are set afterwards."""
    made = mx.sym.Pooling(x, kernel=(2, 2), name="pool")
    made._set_attr(__note__="later", lr_mult="3")
    return made


CASES = {
    "default given": lambda mx, x: mx.sym.Pooling(x, kernel=(2, 2), pool_type="max", name="y"),
    "softmax": lambda mx, x: mx.sym.softmax(x, axis=-1, name="y"),
    "leaky": lambda mx, x: mx.sym.LeakyReLU(x, act_type="leaky", slope=0.25, name="y"),
    "concat": lambda mx, x: mx.sym.Concat(x, x, dim=1, name="y"),
    "concat of a list": lambda mx, x: mx.sym.concat(*[x, x, x], dim=2, name="y"),
    "add_n": lambda mx, x: mx.sym.add_n(x, x, name="y"),
    "dropout": lambda mx, x: mx.sym.Dropout(x, p=0.5, mode="training", name="y"),
    "batch norm": lambda mx, x: mx.sym.BatchNorm(x, fix_gamma=True, eps=1e-3, momentum=0.9, name="y"),
    "strings": lambda mx, x: mx.sym.Convolution(
        x, kernel="(3,3)", num_filter="4", no_bias="True", stride="[1, 1]", name="y"
    ),
    "lists": lambda mx, x: mx.sym.Pooling(x, kernel=[2, 2], stride=[1, 2], pad=(0, 0), name="y"),
    "one number": lambda mx, x: mx.sym.sum(x, axis=1, keepdims=False, name="y"),
    "tuple of one": lambda mx, x: mx.sym.sum(x, axis=(1,), name="y"),
    "no tuple": lambda mx, x: mx.sym.sum(x, axis=(), name="y"),
    "none": lambda mx, x: mx.sym.clip(mx.sym.mean(x, axis=None, name="m"), a_min=0, a_max=1.0, name="y"),
    "slice": lambda mx, x: mx.sym.slice(x, begin=(None, 1), end=(None, 3), name="y"),
    "dtype by type": lambda mx, x: mx.sym.cast(x, dtype=np.float16, name="y"),
    "dtype by name": lambda mx, x: mx.sym.Cast(x, dtype="int32", name="y"),
    "dtype by dtype": lambda mx, x: mx.sym.one_hot(x, depth=3, dtype=np.dtype("int8"), on_value=1, name="y"),
    "numpy numbers": lambda mx, x: mx.sym.FullyConnected(
        x, num_hidden=np.int64(4), no_bias=np.bool_(False), flatten=True, name="y"
    ),
    "numpy float": lambda mx, x: mx.sym.Dropout(x, p=np.float32(0.25), name="y"),
    "integer for a float": lambda mx, x: mx.sym.clip(x, 0, 6, name="y"),
    "booleans": lambda mx, x: mx.sym.topk(x, k=2, ret_typ="both", is_ascend=0, name="y"),
    "zeros": lambda mx, x: mx.sym.zeros((2, 3), name="y"),
    "zeros of a number": lambda mx, x: mx.sym.zeros(4, dtype="int32", name="y"),
    "ones": lambda mx, x: mx.sym.ones(shape=(2,), dtype=np.float64, name="y"),
    "full": lambda mx, x: mx.sym.full((2, 3), 2, name="y"),
    "arange 1": lambda mx, x: mx.sym.arange(3, name="y"),
    "arange 2": lambda mx, x: mx.sym.arange(0, 3, name="y"),
    "arange 3": lambda mx, x: mx.sym.arange(0, 6, 2, repeat=2, dtype="int32", name="y"),
    "linspace": lambda mx, x: mx.sym.linspace(0, 1, 5, name="y"),
    "eye": lambda mx, x: mx.sym.eye(3, name="y"),
    "reshape": lambda mx, x: mx.sym.reshape(x, shape=(0, -1), name="y"),
    "reshape method": lambda mx, x: x.reshape((0, -1)),
    "prelu": lambda mx, x: mx.sym.LeakyReLU(x, act_type="prelu", name="y"),
    "prelu of a variable": lambda mx, x: mx.sym.LeakyReLU(x, mx.sym.var("g"), act_type="prelu", name="y"),
    "bilinear": lambda mx, x: mx.sym.UpSampling(
        x, mx.sym.var("w"), scale=2, sample_type="bilinear", num_filter=1, num_args=2, name="y"
    ),
    "initialized already": lambda mx, x: mx.sym.BatchNorm(x, moving_mean=mx.sym.var("m", init="ones"), name="y"),
    "transpose": lambda mx, x: mx.sym.transpose(x, axes=(1, 0), name="y"),
    "transpose method": lambda mx, x: x.transpose((1, 0)),
    "transpose all": lambda mx, x: mx.sym.transpose(x, name="y"),
    "astype": lambda mx, x: x.astype("float64"),
    "methods": lambda mx, x: x.sum(axis=0).expand_dims(axis=0).slice_axis(axis=1, begin=0, end=None),
    "squeeze": lambda mx, x: mx.sym.squeeze(x, axis=1, name="y"),
    "split": lambda mx, x: mx.sym.split(x, num_outputs=2, axis=1, squeeze_axis=False, name="y"),
    "split_v2": lambda mx, x: mx.sym.split_v2(x, 3),
    "split_v2 at": lambda mx, x: mx.sym.split_v2(x, (1, 2), axis=1),
    "scalars": lambda mx, x: (x + 1) * 2.5 - 3,
    "scalars reflected": lambda mx, x: 2 / (1 - x),
    "comparison": lambda mx, x: x > 0,
    "power": lambda mx, x: x**2,
    "maximum": lambda mx, x: mx.sym.maximum(x, 0),
    "uniform": lambda mx, x: mx.sym.random.uniform(0, 1, shape=(2, 3)),
    "normal": lambda mx, x: mx.sym.random.normal(shape=3),
    "rnn": lambda mx, x: mx.sym.RNN(
        x, mx.sym.var("p"), mx.sym.var("s"), mx.sym.var("c"), state_size=4, num_layers=1, mode="lstm", p=0.0, name="y"
    ),
    "softmax output": lambda mx, x: mx.sym.SoftmaxOutput(x, grad_scale=1.0, normalization="null", name="y"),
    "embedding": lambda mx, x: mx.sym.Embedding(x, input_dim=10, output_dim=4, dtype="float32", name="y"),
    "of variables": lambda mx, x: mx.sym.var("v", shape=(2, 0), lr_mult=2, dtype="float16", init=mx.init.One()),
    "of a list shape": lambda mx, x: mx.sym.var("v", shape=[2, 3], dtype=np.int32),
    "list of outputs": lambda mx, x: mx.sym.split(x, num_outputs=2, name="y")[1],
    "internals": lambda mx, x: mx.sym.Dropout(mx.sym.Pooling(x, kernel=(2, 2), name="p"), p=0.5).get_internals()[
        "p_output"
    ],
    "copy": lambda mx, x: copy.deepcopy(mx.sym.Dropout(x, p=0.5, name="y")),
    "pickle": lambda mx, x: pickle.loads(pickle.dumps(mx.sym.Dropout(x, p=0.5, name="y"))),
    "scoped": scoped,
    "composed": composed,
    "read again": read_again,
    "set again": set_again,
    "loop": looped,
    "loop with a condition": looped_while,
    "branch": branched,
    "loop out of a file": read_loop_again,
    "pooling of all options": lambda mx, x: mx.sym.Pooling(
        x, (3, 3), "avg", False, False, "valid", (2, 2), (1, 1), name="y"
    ),
    "layer norm": lambda mx, x: mx.sym.LayerNorm(x, axis=-1, eps=1e-5, name="y"),
    "up sampling": lambda mx, x: mx.sym.UpSampling(x, scale=2, sample_type="nearest", num_args=1, name="y"),
    "hidden without underscores": lambda mx, x: mx.sym.Convolution(
        x, kernel=(1, 1), num_filter=1, name="y", attr={"ctx_group": "d", "force_mirroring": "True"}
    ),
    "stack": lambda mx, x: mx.sym.stack(x, x, axis=0, name="y"),
    "where": lambda mx, x: mx.sym.where(x > 1, x, x, name="y"),
    "dot": lambda mx, x: mx.sym.dot(x, x, transpose_b=True, name="y"),
    "pad": lambda mx, x: mx.sym.pad(x, mode="constant", pad_width=(0, 0, 0, 0, 1, 1, 1, 1), constant_value=0, name="y"),
    "l2": lambda mx, x: mx.sym.L2Normalization(x, mode="instance", name="y"),
    "norm": lambda mx, x: mx.sym.norm(x, ord=2, axis=1, name="y"),
}


def _numberless(attrs):
    key = "__subgraph_name__"
    return {**attrs, key: attrs[key].rstrip("0123456789")} if key in attrs else attrs


def described(mx, make):
    """The attributes of all nodes: as ``attr_dict`` has them, and as the file has them, by name."""
    with mx.name.NameManager():
        symbol = make(mx, mx.sym.var("x"))
    nodes = json.loads(symbol.tojson())["nodes"]
    written = {node["name"]: node.get("attrs", {}) for node in nodes}
    inside = [graph for node in nodes for graph in node.get("subgraphs", ())[-2:]]  # not the first of a branch
    if inside:  # what asks the node of a loop has fewer attributes here; names of graphs are counted per process there
        graphs = [[[node["name"], _numberless(node.get("attrs", {}))] for node in graph["nodes"]] for graph in inside]
        return {"inside": graphs, "written": {k: _numberless(v) for k, v in written.items() if v}}
    return {
        "asked": symbol.attr_dict(),
        "listed": symbol.list_attr(),
        "written": {k: v for k, v in written.items() if v},
    }
