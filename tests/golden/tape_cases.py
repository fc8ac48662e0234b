"""What arrays made of arrays inside ``autograd.record`` are to the tape: functions of ``mx``, an array and a device.

Each returns what depends on the variable ``x``, of shape (2, 3). A name begins with the function or method that it is
about, so that a test can ask which have none. ``run`` is used by the script that makes tape.json with MXNet 1.9.1 and
by the tests of hybridc; both pass their own module as ``mx``.
"""

import copy
import os
import pickle  # noqa: TID251  (in memory, as a user may do)
import tempfile

import numpy as np


def _into(shape, run, **kwargs):
    """A case that writes into a new array."""

    def case(mx, x, there):
        y = mx.nd.zeros(shape, ctx=x.context, **kwargs)
        run(mx, x, y)
        return y

    return case


def _after(y, write):
    """The array, after it was written."""
    write(y)
    return y


def _set(y, key, value):
    y[key] = value


def _saved(mx, x):
    path = os.path.join(tempfile.mkdtemp(), "x")
    mx.nd.save(path, [x])
    return mx.nd.load(path)[0]


def _iadd(y, x):
    y += x


def _isub(y, x):
    y -= x


def _imul(y, x):
    y *= x


def _itruediv(y, x):
    y /= x


def _imod(y, x):
    y %= x


def _split_out(mx, x, y):
    mx.nd.split(
        x * 2, 3, axis=1, squeeze_axis=True, out=[mx.nd.zeros(2, ctx=x.context), y, mx.nd.zeros(2, ctx=x.context)]
    )


def _used(write):
    """A constant that the tape has read is written."""

    def case(mx, x, there):
        c = mx.nd.ones((2, 3), ctx=x.context)
        y = x * c
        write(mx, c)
        return y

    return case


def _joined(mx, x, there):
    return mx.nd.concat(x, x * x, dim=1)


def _clipped(mx, x, there):
    y = x * 2
    mx.gluon.utils.clip_global_norm([y], 1.0)
    return y


def _norm(mx, x, there):
    gamma, beta, mean, var = (mx.nd.ones(3, ctx=x.context) for _ in range(4))
    return mx.nd.BatchNorm(x, gamma, beta, mean, var, out=mx.nd.zeros((2, 3), ctx=x.context))


def _stepped(mx, x, there):
    outputs, states = mx.nd.contrib.foreach(lambda row, state: (row * state, state + row), x, x[0])
    return mx.nd.concat(outputs, states.expand_dims(0), dim=0)


def _looped(mx, x, there):
    _, [_, y] = mx.nd.contrib.while_loop(
        lambda i, y: i < 3, lambda i, y: (y, [i + 1, y * x]), [mx.nd.zeros(1, ctx=x.context), x], max_iterations=5
    )
    return y


def _branched(mx, x, there):
    return mx.nd.contrib.cond(x.sum() > 0, lambda: x * 3, lambda: x * 4)


CASES = {
    # copies, to devices and into arrays
    "NDArray.copyto to a device": lambda mx, x, there: x.copyto(there),
    "NDArray.copyto there and back": lambda mx, x, there: (x * 2).copyto(there).copyto(x.context),
    "NDArray.copyto into an array": _into((2, 3), lambda mx, x, y: x.copyto(y)),
    "NDArray.copyto into float64": _into((2, 3), lambda mx, x, y: x.copyto(y), dtype="float64"),
    "NDArray.copyto into an array there": lambda mx, x, there: x.copyto(mx.nd.zeros((2, 3), ctx=there)),
    "NDArray.copyto twice": _into((2, 3), lambda mx, x, y: (x.copyto(y), x.copyto(y))),
    "NDArray.copyto into the variable": lambda mx, x, there: (x * 2).copyto(x),
    "NDArray.copyto of a constant": lambda mx, x, there: mx.nd.ones((2, 3), ctx=x.context).copyto(x),
    "NDArray.as_in_context": lambda mx, x, there: (x * 2).as_in_context(there) * 3,
    "NDArray.as_in_context where it is": lambda mx, x, there: x.as_in_context(x.context),
    "NDArray.as_in_context there and back": lambda mx, x, there: x.as_in_context(there).as_in_context(x.context) * x,
    "NDArray.as_in_ctx": lambda mx, x, there: x.as_in_ctx(there),
    "NDArray.to_device": lambda mx, x, there: x.to_device(there),
    "NDArray.copy": lambda mx, x, there: x.copy(),
    "NDArray.astype": lambda mx, x, there: x.astype("float64"),
    "NDArray.astype of the same": lambda mx, x, there: x.astype("float32", copy=False),
    "NDArray.astype to integers": lambda mx, x, there: x.astype("int32").astype("float32"),
    "NDArray.detach": lambda mx, x, there: x.detach(),
    "NDArray.as_nd_ndarray": lambda mx, x, there: x.as_nd_ndarray(),
    "NDArray.tostype": lambda mx, x, there: x.tostype("default"),
    "NDArray.__copy__": lambda mx, x, there: copy.copy(x),
    "NDArray.__deepcopy__": lambda mx, x, there: copy.deepcopy(x),
    "NDArray.__reduce__": lambda mx, x, there: pickle.loads(pickle.dumps(x)),
    "nd.array": lambda mx, x, there: mx.nd.array(x),
    "nd.array of float64": lambda mx, x, there: mx.nd.array(x, dtype="float64"),
    "nd.array there": lambda mx, x, there: mx.nd.array(x * 2, ctx=there),
    "nd.array of a list": lambda mx, x, there: mx.nd.array([x[0], x[1]], ctx=x.context),
    "nd.array of NumPy's": lambda mx, x, there: mx.nd.array(x.asnumpy()),
    # values that leave
    "NDArray.asnumpy": lambda mx, x, there: mx.nd.array(x.asnumpy() * 2),
    "NDArray.asscalar": lambda mx, x, there: x * x[0, 0].asscalar(),
    "NDArray.item": lambda mx, x, there: x * x[0, 0].item(),
    "NDArray.__float__": lambda mx, x, there: x * float(x[0, 0]),
    "NDArray.__int__": lambda mx, x, there: x * int(x[0, 0]),
    "NDArray.tolist": lambda mx, x, there: x * x.tolist()[0][0],
    "NDArray.__array__": lambda mx, x, there: mx.nd.array(np.array(x.asnumpy())),
    "nd.save": lambda mx, x, there: _saved(mx, x * 2),
    "nd.load": lambda mx, x, there: _saved(mx, x),
    "nd.from_numpy": lambda mx, x, there: mx.nd.from_numpy(x.asnumpy()),
    "nd.from_dlpack": lambda mx, x, there: mx.nd.from_dlpack(x.copy().to_dlpack_for_read()),
    "nd.to_dlpack_for_read": lambda mx, x, there: mx.nd.from_dlpack(mx.nd.to_dlpack_for_read(x.copy())),
    "nd.to_dlpack_for_write": lambda mx, x, there: mx.nd.from_dlpack(mx.nd.to_dlpack_for_write(x.copy())),
    "NDArray.to_dlpack_for_read": lambda mx, x, there: mx.nd.from_dlpack((x * 2).to_dlpack_for_read()),
    "NDArray.to_dlpack_for_write": lambda mx, x, there: mx.nd.from_dlpack((x * 2).to_dlpack_for_write()),
    "nd.histogram": lambda mx, x, there: mx.nd.histogram(x, bins=2, range=(0, 9))[0].astype("float32"),
    # shapes
    "NDArray.T": lambda mx, x, there: x.T,
    "NDArray.transpose": lambda mx, x, there: x.transpose((1, 0)),
    "NDArray.reshape": lambda mx, x, there: x.reshape((3, 2)),
    "NDArray.reshape of numbers": lambda mx, x, there: x.reshape(-1, 2),
    "NDArray.flatten": lambda mx, x, there: x.flatten(),
    "NDArray.flatten inplace": lambda mx, x, there: x.flatten(inplace=True),
    "NDArray.expand_dims": lambda mx, x, there: x.expand_dims(1),
    "NDArray.expand_dims inplace": lambda mx, x, there: x.expand_dims(1, inplace=True),
    "NDArray.squeeze": lambda mx, x, there: x.reshape((2, 1, 3)).squeeze(1),
    "NDArray.squeeze inplace": lambda mx, x, there: x.reshape((2, 1, 3)).squeeze(1, inplace=True),
    "NDArray.broadcast_like": lambda mx, x, there: x.expand_dims(1).broadcast_like(
        mx.nd.zeros((2, 4, 3), ctx=x.context)
    ),
    "nd.moveaxis": lambda mx, x, there: mx.nd.moveaxis(x, 0, 1),
    "nd.split_v2": lambda mx, x, there: mx.nd.split_v2(x, (1,), axis=1)[1],
    "nd.concatenate": lambda mx, x, there: mx.nd.concatenate([x, x * x], axis=1),
    "nd.concat": _joined,
    "nd.concatenate of one": lambda mx, x, there: mx.nd.concatenate([x], always_copy=False),
    # indexing
    "NDArray.__getitem__ of a number": lambda mx, x, there: x[1],
    "NDArray.__getitem__ of a slice": lambda mx, x, there: x[:, 1:],
    "NDArray.__getitem__ of a step": lambda mx, x, there: x[:, ::2],
    "NDArray.__getitem__ of None": lambda mx, x, there: x[:, None],
    "NDArray.__getitem__ of dots": lambda mx, x, there: x[..., 1],
    "NDArray.__getitem__ of a list": lambda mx, x, there: x[[1, 0, 1]],
    "NDArray.__getitem__ of an array": lambda mx, x, there: x[mx.nd.array([1, 0, 1], ctx=x.context)],
    "NDArray.__getitem__ of arrays": lambda mx, x, there: x[[1, 0], [2, 2]],
    "NDArray.__getitem__ twice": lambda mx, x, there: x[1][1:],
    "NDArray.__iter__": lambda mx, x, there: mx.nd.stack(*list(x), axis=1),
    # assignment
    "NDArray.__setitem__ of all": _into((2, 3), lambda mx, x, y: _set(y, slice(None), x)),
    "NDArray.__setitem__ of all, in float64": _into((2, 3), lambda mx, x, y: _set(y, slice(None), x), dtype="float64"),
    "NDArray.__setitem__ of all, which broadcasts": _into((4, 2, 3), lambda mx, x, y: _set(y, slice(None), x)),
    "NDArray.__setitem__ of all, from there": lambda mx, x, there: _into(
        (2, 3), lambda mx, x, y: _set(y, slice(None), x)
    )(mx, x.as_in_context(there), there),
    "NDArray.__setitem__ of a part": _into((2, 3), lambda mx, x, y: _set(y, slice(0, 1), x[0:1])),
    "NDArray.__setitem__ of a step": _into((2, 6), lambda mx, x, y: _set(y, (slice(None), slice(None, None, 2)), x)),
    "NDArray.__setitem__ of an element": _into((2, 3), lambda mx, x, y: _set(y, (0, 0), x[0, 0])),
    "NDArray.__setitem__ of a list": _into((2, 3), lambda mx, x, y: _set(y, [1, 0], x)),
    "NDArray.__setitem__ of an array": _into((2, 3), lambda mx, x, y: _set(y, mx.nd.array([1, 0], ctx=x.context), x)),
    "NDArray.__setitem__ of a number": lambda mx, x, there: _after(x, lambda y: _set(y, slice(None), 4)),
    "NDArray.__setitem__ of a number, in a result": lambda mx, x, there: _after(x * 2, lambda y: _set(y, 0, 4)),
    "NDArray.slice_assign": _into((2, 3), lambda mx, x, y: y.slice_assign(x[:1], (0, 0), (1, 3), (1, 1))),
    "NDArray.slice_assign into a variable": lambda mx, x, there: x.slice_assign(x[:1] * 2, (0, 0), (1, 3), (1, 1)),
    "NDArray.slice_assign_scalar": lambda mx, x, there: (x * 2).slice_assign_scalar(5, (0, 0), (1, 3), (1, 1)),
    # operators in place
    "NDArray.__iadd__ of a variable": lambda mx, x, there: _after(x, lambda y: _iadd(y, 1)),
    "NDArray.__iadd__ of a result": lambda mx, x, there: _after(x * 2, lambda y: _iadd(y, 1)),
    "NDArray.__iadd__": _into((2, 3), lambda mx, x, y: _iadd(y, x)),
    "NDArray.__isub__": _into((2, 3), lambda mx, x, y: _isub(y, x)),
    "NDArray.__imul__": _into((2, 3), lambda mx, x, y: _imul(y, x)),
    "NDArray.__itruediv__": _into((2, 3), lambda mx, x, y: _itruediv(y, x)),
    "NDArray.__imod__": _into((2, 3), lambda mx, x, y: _imod(y, x)),
    # constants that the tape has read
    "NDArray.__iadd__ of a constant that is read": _used(lambda mx, c: _iadd(c, 1)),
    "NDArray.__setitem__ of a constant that is read": _used(lambda mx, c: _set(c, slice(None), 5)),
    "NDArray.copyto into a constant that is read": _used(lambda mx, c: mx.nd.zeros((2, 3), ctx=c.context).copyto(c)),
    "nd.exp into a constant that is read": _used(lambda mx, c: mx.nd.exp(c * 2, out=c)),
    # out=
    "nd.exp into an array": _into((2, 3), lambda mx, x, y: mx.nd.exp(x, out=y)),
    "nd.exp into float64": _into((2, 3), lambda mx, x, y: mx.nd.cast(mx.nd.exp(x), "float64", out=y), dtype="float64"),
    "nd.exp into an array there": lambda mx, x, there: mx.nd.exp(x, out=mx.nd.zeros((2, 3), ctx=there)),
    "nd.exp into its input": lambda mx, x, there: mx.nd.exp(x, out=x),
    "nd.exp into a result": lambda mx, x, there: _after(x * 2, lambda y: mx.nd.exp(y, out=y)),
    "nd.exp of a constant into a variable": lambda mx, x, there: mx.nd.exp(mx.nd.ones((2, 3), ctx=x.context), out=x),
    "nd.exp twice into an array": _into((2, 3), lambda mx, x, y: (mx.nd.exp(x, out=y), mx.nd.sqrt(x, out=y))),
    "nd.elemwise_mul into an array": _into((2, 3), lambda mx, x, y: mx.nd.elemwise_mul(x, x, out=y)),
    "nd.elemwise_add into an input": _into((2, 3), lambda mx, x, y: mx.nd.elemwise_add(x, y, out=y)),
    "nd.add with a number into an array": _into((2, 3), lambda mx, x, y: mx.nd.add(x, 3, out=y)),
    "nd.broadcast_mul into an array": _into((2, 3), lambda mx, x, y: mx.nd.broadcast_mul(x, x[0:1], out=y)),
    "nd.power": lambda mx, x, there: mx.nd.power(x, 3),
    "nd.power into an array": _into((2, 3), lambda mx, x, y: mx.nd.power(2, x, out=y)),
    "nd.concat into an array": _into((2, 6), lambda mx, x, y: mx.nd.concat(x, x * x, dim=1, out=y)),
    "nd.add_n into an array": _into((2, 3), lambda mx, x, y: mx.nd.add_n(x, x * x, x, out=y)),
    "nd.split into arrays": _into((2,), _split_out),
    "nd.dot into an array": _into((2, 2), lambda mx, x, y: mx.nd.dot(x, x.T, out=y)),
    "nd.sum into an array": _into((2,), lambda mx, x, y: mx.nd.sum(x, axis=1, out=y)),
    "nd.BatchNorm into an array": _norm,
    "nd.random.uniform of arrays into an array": _into(
        (2, 3), lambda mx, x, y: mx.nd.random.uniform(mx.nd.zeros((2, 3), ctx=x.context), x * 0, out=y)
    ),
    "nd.random.uniform into a variable": lambda mx, x, there: mx.nd.random.uniform(out=x),
    "nd.random.normal into a result": lambda mx, x, there: mx.nd.random.normal(out=x * 2) * 0,
    "nd.random.shuffle": lambda mx, x, there: mx.nd.random.shuffle(x).sum(axis=0),
    "nd.zeros into a variable": lambda mx, x, there: mx.nd.zeros((2, 3), out=x),
    "nd.ones into a variable": lambda mx, x, there: mx.nd.ones((2, 3), out=x),
    "nd.full into a variable": lambda mx, x, there: mx.nd.full((2, 3), 2, out=x),
    "nd.eye into a variable": lambda mx, x, there: mx.nd.eye(2, 3, out=x),
    "nd.onehot_encode": lambda mx, x, there: mx.nd.onehot_encode(x[:, 0], mx.nd.zeros((2, 9), ctx=x.context)),
    # loops, and functions of other namespaces
    "nd.contrib.foreach": _stepped,
    "nd.contrib.while_loop": _looped,
    "nd.contrib.cond": _branched,
    "nd.where": lambda mx, x, there: mx.nd.where(x > 2, x, x * x),
    "gluon.utils.split_data": lambda mx, x, there: mx.gluon.utils.split_data(x, 3, batch_axis=1)[1],
    "gluon.utils.split_and_load": lambda mx, x, there: mx.gluon.utils.split_and_load(x, [x.context, there])[1],
    "gluon.utils.split_and_load of one": lambda mx, x, there: mx.gluon.utils.split_and_load(x, [there])[0],
    "gluon.utils.clip_global_norm": _clipped,
    "image.color_normalize": lambda mx, x, there: mx.image.color_normalize(
        x, mx.nd.ones(3, ctx=x.context), mx.nd.full(3, 2, ctx=x.context)
    ),
    "image.fixed_crop": lambda mx, x, there: mx.image.fixed_crop(x.reshape((2, 3, 1)), 1, 0, 2, 2),
    "image.center_crop": lambda mx, x, there: mx.image.center_crop(x.reshape((2, 3, 1)), (1, 2))[0],
}


def run(mx, case, here, there):
    """The gradient of x from x^2 and the weighted result, its name of dtype, or a text that says what else happens."""
    x = mx.nd.array(np.arange(1, 7).reshape(2, 3) / 4 + 1, ctx=here)
    x.attach_grad()
    with mx.autograd.record():
        z = (x * x).sum()
        try:
            y = CASES[case](mx, x, there)
        except Exception as error:
            if "nplace operations" in str(error) or "Assigning to NDArrays" in str(error):
                return "raises"
            return "other error: " + type(error).__name__
        w = mx.nd.array(np.arange(1, 1 + int(np.prod(y.shape))).reshape(y.shape), ctx=y.context, dtype=y.dtype)
        z = z + (w * y).sum().astype("float32").as_in_context(here)
    try:
        z.backward()
    except Exception as error:
        return "other error: " + type(error).__name__
    return {"gradient": x.grad.asnumpy().astype("float64").round(4).tolist(), "dtype": np.dtype(y.dtype).name}
