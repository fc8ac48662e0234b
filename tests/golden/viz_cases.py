"""Symbols that ``mx.viz.print_summary`` prints, for MXNet (make_viz.py) and for hybridc."""

from __future__ import annotations


def mlp(mx):
    """Layers of several kinds, two of them joined."""
    data = mx.sym.var("data")
    first = mx.sym.FullyConnected(data, num_hidden=128, name="fc1")
    active = mx.sym.Activation(first, act_type="relu", name="relu1")
    second = mx.sym.FullyConnected(active, num_hidden=10, no_bias=True, name="fc2")
    normal = mx.sym.BatchNorm(second, name="bn")
    joined = mx.sym.concat(normal, second, dim=1, name="joined")
    return mx.sym.SoftmaxOutput(joined, name="softmax")


def branches(mx):
    """Images, two branches and arithmetic."""
    data = mx.sym.var("data")
    a = mx.sym.exp(data, name="a")
    b = mx.sym.transpose(data, axes=(0, 2, 1, 3), name="b")
    return mx.sym.softmax(mx.sym.broadcast_add(a, b, name="sum"), name="a_layer_with_quite_a_long_name_for_its_column")


CASES = {
    "mlp": (mlp, {"shape": {"data": (32, 784)}}),
    "mlp_narrow": (mlp, {"shape": {"data": (32, 784)}, "line_length": 80, "positions": [0.4, 0.6, 0.8, 1.0]}),
    "mlp_labelled": (mlp, {"shape": {"data": (32, 784), "softmax_label": (32,)}}),
    "branches": (branches, {"shape": {"data": (2, 4, 4, 3)}}),
}
