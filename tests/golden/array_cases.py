"""What MXNet's arrays do at their edges: functions of ``mx`` and a NumPy array of 2 by 3 that return an array or value.

``run`` is used by the script that makes arrays.json with MXNet 1.9.1 and by the tests of hybridc; both pass their own
module as ``mx``.
"""

import numpy as np


def _set(shape, key, value, dtype="float32"):
    """An array of zeros of which a part was assigned."""

    def case(mx, a):
        x = mx.nd.zeros(shape, dtype=dtype)
        x[key] = value(mx) if callable(value) else value
        return x

    return case


def _where(condition):
    return lambda mx, a: mx.nd.where(mx.nd.array(condition), mx.nd.array(a.T), -mx.nd.array(a.T))


def _where_gradient(mx, a):
    condition, x, y = mx.nd.array([1, 0, 1]), mx.nd.array(a.T), mx.nd.array(a.T * 2)
    for v in (condition, x, y):
        v.attach_grad()
    with mx.autograd.record():
        z = mx.nd.where(condition, x, y) * mx.nd.array([[1, 2], [3, 4], [5, 6]])
    z.backward()
    return mx.nd.concat(x.grad, y.grad, condition.grad.reshape((3, 1)), dim=1)


def _in_place(run):
    """The array that was written, and whether the method returned it."""

    def case(mx, a):
        x = mx.nd.array(a)
        y = run(mx, x)
        return [x.asnumpy().tolist(), y is x]

    return case


def _on(device, run):
    """The device of what is made of an array on a device."""
    return lambda mx, a: str(run(mx, mx.nd.array(a, ctx=device(mx))).context)


def _pinned(run):
    return _on(lambda mx: mx.cpu_pinned(), run)


def _first(run):
    return _on(lambda mx: mx.cpu(1), run)


def _fresh(mx, a):
    x = mx.nd.array(a)
    x.attach_grad()
    seen = [x._fresh_grad]
    with mx.autograd.record():
        y = x * 2
    y.backward()
    seen.append(x._fresh_grad)
    x._fresh_grad = False
    seen.append(x._fresh_grad)
    x._fresh_grad = True
    return [bool(state) for state in [*seen, x._fresh_grad]]


def _contiguous(*key):
    return lambda mx, a: bool(mx.nd.NDArray._basic_indexing_slice_is_contiguous(key, (2, 3, 4)))


def _executor_output(mx, a):
    args = {"x": mx.nd.array(a, ctx=mx.cpu(1))}
    executor = (mx.sym.var("x") * 2).bind(mx.cpu(1), args)
    executor.forward()
    return str(executor.outputs[0].context)


ALL, ONE = slice(None), slice(0, 1)
CASES = {
    # one element
    "an element of NumPy's array": _set((1,), 0, np.array([47.8], "f")),
    "an element of an array": _set((1,), 0, lambda mx: mx.nd.array([3.5])),
    "an element of a list": _set((1,), 0, [2.0]),
    "an element of nested lists": _set((2, 3), (0, 1), [[5.0]]),
    "an element of NumPy's array of two axes": _set((2, 3), (1, 2), np.array([[4.5]])),
    "an element of two numbers": _set((2, 3), (0, 1), [1, 2]),
    "a row of one element": _set((2, 3), 1, np.array([7.0], "f")),
    "integers that wrap": _set((2,), 0, [-3], "uint8"),
    "a number that wraps": _set((2,), ALL, 300, "uint8"),
    # dtypes
    "astype of an array": lambda mx, a: mx.nd.array(a).astype(mx.nd.ones(2, dtype="float16")),
    "astype of an array, no copy": lambda mx, a: mx.nd.array(a).astype(mx.nd.ones(2, dtype="int32"), copy=False),
    "astype of an array's own": lambda mx, a: [x.astype(x * 2, copy=False) is x for x in [mx.nd.array(a)]],
    "astype of None": lambda mx, a: mx.nd.array(a, dtype="int32").astype(None),
    "full wraps": lambda mx, a: mx.nd.full((2,), -100, dtype="uint8"),
    "a product wraps": lambda mx, a: mx.nd.ones((2,), dtype="uint8") * -3,
    "array wraps": lambda mx, a: mx.nd.array([300, -1], dtype="uint8"),
    # where
    "where by rows": _where([1, 0, 1]),
    "where by elements": _where([[1, 0], [0, 1], [1, 1]]),
    "where by too few rows": _where([1, 0]),
    "where by too many rows": _where([1, 0, 1, 1]),
    "gradient of where by rows": _where_gradient,
    # in place
    "slice_assign": _in_place(lambda mx, x: x.slice_assign(-mx.nd.ones((1, 2)), (1, 0), (2, 3), (1, 2))),
    "slice_assign_scalar": _in_place(lambda mx, x: x.slice_assign_scalar(9.0, (None, 1), (None, 2), (None, 1))),
    # arguments
    "diag at the edge": lambda mx, a: mx.nd.diag(mx.nd.array(a), k=3),
    "diag beyond the edge": lambda mx, a: mx.nd.diag(mx.nd.array(a), k=4),
    "diag below the edge": lambda mx, a: mx.nd.diag(mx.nd.array(a), k=-3),
    "depth_to_space of no height": lambda mx, a: mx.nd.depth_to_space(mx.nd.array(np.ones((1, 4, 0, 2))), 2),
    "space_to_depth of no height": lambda mx, a: mx.nd.space_to_depth(mx.nd.array(np.ones((1, 1, 0, 2))), 2),
    "space_to_depth of no channel": lambda mx, a: mx.nd.space_to_depth(mx.nd.array(np.ones((1, 0, 2, 2))), 2),
    "broadcast_like of no axes": lambda mx, a: mx.nd.broadcast_like(
        mx.nd.ones((1, 3)), mx.nd.array(a), lhs_axes=(), rhs_axes=()
    ),
    "broadcast_like": lambda mx, a: mx.nd.ones((1, 3)).broadcast_like(mx.nd.array(a)),
    # what MXNet's own code uses
    "_fresh_grad": _fresh,
    "_fresh_grad of no variable": lambda mx, a: setattr(mx.nd.array(a), "_fresh_grad", True),
    "contiguous rows": _contiguous(ONE, ALL, ALL),
    "contiguous columns": _contiguous(ALL, ONE, ALL),
    "contiguous parts of one row": _contiguous(ONE, slice(0, 2), ALL),
    "contiguous steps": _contiguous(ALL, ALL, slice(None, None, 2)),
    "contiguous steps over one": _contiguous(slice(0, 2, 2), ALL, ALL),
    "contiguous backwards": _contiguous(slice(None, None, -1), ALL, ALL),
    # devices
    "a sum of devices": _first(lambda mx, x: mx.nd.add_n(x, mx.nd.ones((2, 3)))),
    "a norm to clip": _first(lambda mx, x: mx.gluon.utils.clip_global_norm([x], 1.0, check_isfinite=False)),
    "an executor's output": _executor_output,
    "pinned, a sum": _pinned(lambda mx, x: x + x),
    "pinned, with a number": _pinned(lambda mx, x: 2 - x),
    "pinned, with another": _pinned(lambda mx, x: x + mx.nd.ones((2, 3), ctx=mx.cpu(1))),
    "pinned, after another": _pinned(lambda mx, x: mx.nd.ones((2, 3), ctx=mx.cpu(1)) + x),
    "pinned, pieces": _pinned(lambda mx, x: mx.nd.split(x, 3)[0]),
    "pinned, rows": _pinned(lambda mx, x: x[mx.nd.array([0])]),
    "pinned, a slice": _pinned(lambda mx, x: x[0:1]),
    "pinned, a copy": _pinned(lambda mx, x: x.copy()),
    "pinned, a cast": _pinned(lambda mx, x: x.astype("float64")),
    "pinned, a shape": _pinned(lambda mx, x: x.reshape((3, 2))),
    "pinned, detached": _pinned(lambda mx, x: x.detach()),
    "pinned, in place": _pinned(lambda mx, x: x.__iadd__(1)),
}


def run(mx, case):
    """The values and dtype of an array, a value as it is, or that it raises."""
    try:
        found = CASES[case](mx, np.arange(6.0).reshape(2, 3))
    except Exception:
        return "raises"
    if isinstance(found, mx.nd.NDArray):
        return {"values": found.asnumpy().tolist(), "dtype": np.dtype(found.dtype).name}
    return found
