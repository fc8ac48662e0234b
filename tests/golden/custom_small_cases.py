"""Small programs with custom operators of one kind each, for custom_cases.py."""

from __future__ import annotations

import numpy as np


def assign_first(self, is_train, req, in_data, out_data, aux):
    self.assign(out_data[0], req[0], in_data[0])


def pass_gradient(self, req, out_grad, in_data, out_data, in_grad, aux):
    self.assign(in_grad[0], req[0], out_grad[0])


def method_of(function):
    """A method that does not need its object."""
    return lambda self, *args: function(*args)


def register(mx, name, forward=assign_first, backward=pass_gradient, **methods):
    """An operator made of functions."""
    op = type("Op", (mx.operator.CustomOp,), {"forward": forward, "backward": backward})
    body = {key: method_of(function) for key, function in methods.items()}
    body["create_operator"] = lambda self, ctx, shapes, dtypes: op()
    mx.operator.register(f"golden_{name}")(type(f"Golden_{name}", (mx.operator.CustomOpProp,), body))


def differentiated(mx, values, op_type, dtype="float32"):
    """The result and the gradient of its sum."""
    x = mx.nd.array(values, dtype=dtype)
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.Custom(x, op_type=op_type)
    y.backward()
    return {"y": y.asnumpy().tolist(), "dx": x.grad.asnumpy().tolist()}


def without_inputs(mx):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], mx.nd.ones((2, 3)) * 4)

    register(
        mx,
        "source",
        forward,
        list_arguments=list,
        infer_shape=lambda shapes: ([], [[2, 3]], []),
        infer_type=lambda types: ([], [np.float32], []),
    )
    symbol = mx.sym.Custom(op_type="golden_source", name="g")
    total = symbol + mx.sym.var("x")
    return {
        "arguments": symbol.list_arguments(),
        "alone": symbol.bind(mx.cpu(), {}).forward()[0].asnumpy().tolist(),
        "with": total.bind(mx.cpu(), {"x": mx.nd.ones((2, 3))}).forward()[0].asnumpy().tolist(),
    }


def outputs_in_groups(mx):
    def forward(self, is_train, req, in_data, out_data, aux):
        for i in range(2):
            self.assign(out_data[i], req[i], in_data[0] * (i + 1))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] + 2 * out_grad[1])

    register(
        mx,
        "outputs",
        forward,
        backward,
        list_outputs=lambda: ["a", "b"],
        infer_shape=lambda shapes: (shapes, [shapes[0]] * 2, []),
    )
    symbol = mx.sym.Custom(mx.sym.var("x"), op_type="golden_outputs", name="o")
    group = mx.sym.Group([symbol[1], symbol[0], mx.sym.exp(symbol[1], name="e")])
    executor = group.simple_bind(mx.cpu(), x=(2,))
    executor.arg_dict["x"][:] = 1
    executor.forward(is_train=True)
    executor.backward([mx.nd.ones((2,)), mx.nd.ones((2,)) * 10, mx.nd.ones((2,)) * 100])
    return {
        "names": group.list_outputs(),
        "outputs": executor.outputs[0].asnumpy(),
        "last": executor.outputs[2].asnumpy(),
        "dx": executor.grad_dict["x"].asnumpy(),
    }


def slices(mx):
    """Written in place, without assign."""

    def forward(self, is_train, req, in_data, out_data, aux):
        out_data[0][:] = 0
        out_data[0][0:1] = 5

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        in_grad[0][:] = out_grad[0] * 3

    register(mx, "slices", forward, backward)
    return differentiated(mx, [[1, 2], [3, 4]], "golden_slices")


def values_that_broadcast(mx):
    register(
        mx,
        "broadcast",
        lambda self, is_train, req, in_data, out_data, aux: self.assign(out_data[0], req[0], mx.nd.array([7])),
        lambda self, req, out_grad, in_data, out_data, in_grad, aux: self.assign(in_grad[0], req[0], 1),
    )
    return differentiated(mx, [[1, 2], [3, 4]], "golden_broadcast")


def two_lists(mx):
    """infer_shape and infer_type may leave out the auxiliary states."""
    register(mx, "two_lists", infer_shape=lambda s: (s, [s[0]]), infer_type=lambda t: (t, [t[0]]))
    symbol = mx.sym.Custom(mx.sym.var("x"), op_type="golden_two_lists")
    return {**differentiated(mx, [1, 2], "golden_two_lists"), "shapes": symbol.infer_shape(x=(2,))}


def every_dtype(mx):
    register(mx, "same")
    found = {}
    for dtype in ("uint8", "int8", "int32", "int64", "bool", "float16", "float64"):
        y = mx.nd.Custom(mx.nd.array([0, 1], dtype=dtype), op_type="golden_same")
        found[dtype] = [np.dtype(y.dtype).name, y.astype("float32").asnumpy().tolist()]
    return found


def states(mx):
    """The shapes of auxiliary states follow; missing ones and those of another shape are errors."""
    register(mx, "state", list_auxiliary_states=lambda: ["m"], infer_shape=lambda shapes: (shapes, [shapes[0]], [[3]]))
    symbol = mx.sym.Custom(mx.sym.var("x"), op_type="golden_state", name="q")
    x = mx.nd.ones((2,))
    found = {"shapes": symbol.infer_shape(x=(2,))}
    for key, given in {"wrong": {"q_m": mx.nd.ones((4,))}, "missing": {}, "good": {"q_m": mx.nd.ones((3,))}}.items():
        try:
            found[key] = symbol.bind(mx.cpu(), {"x": x}, aux_states=given).forward()[0].asnumpy().tolist()
        except (mx.MXNetError, ValueError) as error:
            found[key] = ["MXNetError" if isinstance(error, mx.MXNetError) else "ValueError"]
    return found


def names_of_nodes(mx):
    register(mx, "named")
    x = mx.sym.var("x")
    with mx.name.Prefix("pre_"):
        prefixed = mx.sym.Custom(x, op_type="golden_named")
    monitored = []
    executor = mx.sym.exp(mx.sym.Custom(x, op_type="golden_named", name="c"), name="e").simple_bind(mx.cpu(), x=(2,))
    executor.set_monitor_callback(
        lambda name, array: monitored.append(name if isinstance(name, str) else name.decode())
    )
    executor.forward()
    executor.outputs[0].wait_to_read()
    return {"prefixed": prefixed.name, "monitored": [n if isinstance(n, str) else n.decode() for n in monitored]}


SMALL = {f.__name__: f for f in (
    without_inputs, outputs_in_groups, slices, values_that_broadcast, two_lists, every_dtype, states, names_of_nodes
)}  # fmt: skip
