"""Expressions on arrays of ``mx.np``: making, shapes, edits, statistics, products, keys, and how arrays are printed.

``CASES`` are programs for ``programs.py``, functions of ``mx``; NumPy's semantics are switched on while they run.
"""

import inspect

import numpy as onp

VALUES = """
np.percentile(x, 50)
np.percentile(x, 50, interpolation='nearest')
np.quantile(x, 0.3, axis=0, keepdims=True)
np.quantile(x, np.array([0.3, 0.6]), axis=0)
np.insert(x, 1, 9)
np.insert(x, np.array([0, 1], dtype='int64'), np.array([7., 8.]), axis=1)
np.insert(x, slice(0, 2), np.array([7.]), axis=0)
np.delete(x, 1)
np.delete(x, slice(0, 1), axis=0)
np.delete(x, np.array([0, 2], dtype='int64'), axis=1)
np.unique(x)
np.unique(i, True, True, True)
np.unique(x, axis=0)
np.histogram(x, bins=3, range=(0, 4))
np.histogram(x, bins=np.array([0., 2., 4.]))
np.bincount(i.reshape(-1))
np.bincount(i.reshape(-1), weights=x.reshape(-1), minlength=8)
np.pad(x, ((1, 1), (2, 0)))
np.pad(x, ((1, 1), (2, 0)), 'constant', constant_values=3)
np.pad(x, ((1, 1), (2, 0)), 'edge')
np.pad(x, ((1, 1), (2, 0)), 'symmetric')
np.pad(x, ((1, 1), (2, 0)), 'reflect')
np.pad(x, ((1, 1), (3, 0)), 'reflect')
np.pad(x, ((1, 1), (2, 0)), 'maximum')
np.pad(x, ((1, 1), (2, 0)), 'minimum')
np.pad(i, ((1, 1), (2, 0)))
np.diff(x)
np.ediff1d(x, to_end=np.array([1., 2.]), to_begin=3)
np.polyval(np.array([1., 2, 3]), x)
np.unravel_index(np.array([1, 5], dtype='int64'), (2, 3))
np.diag_indices_from(np.ones((2, 2)))
np.tril_indices_from(np.ones((2, 2)))
np.triu_indices_from(np.ones((2, 2)))
np.diagflat(x)
np.diagflat(i, 1)
np.resize(x, (2, 4))
np.hanning(4)
np.hamming(5)
np.hamming(1)
np.blackman(5)
np.hanning(0)
np.meshgrid(np.array([1., 2]), np.array([3., 4, 5]))
np.meshgrid(np.array([1., 2]), np.array([3., 4, 5]), indexing='ij')
np.indices((2, 2))
np.indices((2, 2), dtype='float32')
np.ix_(np.array([1, 2], dtype='int64'), np.array([0], dtype='int64'))
np.searchsorted(np.array([1., 2, 3]), x)
np.digitize(x, np.array([1., 2, 3]))
np.correlate(x[0], x[1])
np.trapz(x)
np.partition(x, 1)
np.in1d(x, x[0])
np.isin(x, x[0])
np.intersect1d(x, x[0])
np.union1d(i, i)
np.select([x > 2, x > 1], [x, -x])
np.select([x > 2, x > 1], [x, -x], default=7)
np.choose(np.array([0, 1], dtype='int64'), [x[0, :2], x[1, :2]])
np.compress(np.array([True, False]), x, axis=0)
np.extract(x > 2, x)
np.apply_along_axis(lambda v: v.sum(), 1, x)
np.roots(np.array([1., -3, 2]))
np.poly(x[0])
np.trim_zeros(np.array([0., 1, 0]))
np.msort(x)
np.lexsort((x[0], x[1]))
np.argwhere(x)
np.flatnonzero(x)
np.nonzero(x)
np.packbits(np.array([1, 0, 1], dtype='uint8'))
np.unwrap(x)
np.take_along_axis(x, np.array([[0], [1]], dtype='int64'), 1)
np.histogram_bin_edges(x)
np.einsum('ij->ji', x)
np.einsum('ij,kj->ik', i, i)
np.einsum('ii', np.ones((2, 2)))
np.einsum('i,i', x[0], x[1])
np.einsum('ij,ij,ij->i', x, x, x, optimize=True)
np.einsum('...j,j->...', x, x[0])
np.einsum('bij,bjk->ik', np.stack([x, x]), np.stack([x.T, x.T]))
np.take(x, np.array([0, 7]), mode='clip')
np.take(x, np.array([0, -1]), axis=1, mode='wrap')
np.flip(x, (0, 1))
np.split(x, 3, axis=1)
np.array_split(x, 2, axis=1)
np.array_split(x, [1, 2], axis=1)
np.roll(x, 1)
np.tile(x, 2)
np.where(b, x, 0)
np.full((2,), 1)
np.full((2,), True)
np.full((2,), 1.5, dtype='int32')
np.full_like(i, 1.5)
np.ones_like(b)
np.eye(2, dtype='int32')
np.eye(2, 3, 1)
np.identity(2)
np.tril(i)
np.repeat(i, 2)
np.diag(i)
np.stack([i, i])
np.logspace(0, 2, 3)
np.linspace(0, 1, 4, endpoint=False)
np.rot90(x)
np.cumsum(i, 1)
np.argsort(x, axis=None)
np.clip(i, 1, 2)
np.broadcast_to(i, (1, 2, 3))
np.column_stack([x[0], x[1]])
np.array([1, 2])
np.array([True, False])
np.array(onp.array([1, 2]))
np.array([x, x])
np.array(3)
np.array([])
np.copy(i)
np.zeros(())
np.zeros((0, 2))
np.arange(3, dtype='int32')
np.arange(0)
np.trace(i)
np.vdot(x, x)
np.inner(x, x)
x[b]
x[True]
x[[0, 1]]
x[np.array([0., 1.])]
x[0, 0]
x[()]
x[np.array(1)]
x[:, None]
x[::-1, ::2]
x[[0, 1], [2, 0]]
x[b[:, 0]]
x.astype(bool)
onp.mean(x)
onp.concatenate([x, x])
onp.add(x, x)
""".strip().splitlines()

GRADIENTS = """
np.einsum('ij,kj->ik', x, x)
np.einsum('ij,ij,ij->i', x, x, x)
np.einsum('ij->', x)
np.pad(x, ((1, 1), (2, 0)))
np.diff(x, 2)
np.where(x > 1, x, 2 * x)
np.clip(x, 1, 4)
np.tile(x, 2)
np.take(x, np.array([0, 0, 5]))
np.roll(x, 1)
np.tril(x)
np.polyval(x[0], x)
np.ediff1d(x)
np.repeat(x, 2, 1)
x[:, 1]
x[[0, 0, 1]]
x[np.array([0, 0]), np.array([1, 1])]
np.tensordot(x, x, 2)
np.outer(x, x)
""".strip().splitlines()

TEXTS = """
x
i
b
x[0, 0]
i[0, 0]
np.zeros((0, 2))
np.array(3.5, dtype='float64')
x.astype('float16')
np.zeros(2, dtype='float64')
np.zeros(2, dtype='int64')
np.array([True])
np.arange(40).reshape(8, 5)
""".strip().splitlines()


def _inputs(np):
    x = np.array([[3.0, 1, 2], [4, 0, 5]])
    return {"np": np, "onp": onp, "x": x, "i": np.array([[3, 1, 2], [4, 0, 5]], dtype="int32"), "b": x > 1}


def _evaluated(mx, code):
    with mx.util.np_shape(True), mx.util.np_array(True):
        result = eval(code, _inputs(mx.np))
        results = list(result) if isinstance(result, list | tuple) else [result]
        return {str(i): y.asnumpy() for i, y in enumerate(results)}


def _gradient(mx, code):
    with mx.util.np_shape(True), mx.util.np_array(True):
        scope = _inputs(mx.np)
        x = scope["x"]
        x.attach_grad()
        with mx.autograd.record():
            y = eval(code, scope)
            weights = mx.np.arange(y.size).reshape(y.shape) + 1
            z = (y * weights).sum()
        z.backward()
        return {"gradient": x.grad.asnumpy()}


def _texts(mx):
    with mx.util.np_shape(True), mx.util.np_array(True):
        scope = _inputs(mx.np)
        return {code: [repr(eval(code, scope)), str(eval(code, scope)), f"{eval(code, scope)}"] for code in TEXTS}


CASES = {code: lambda mx, code=code: _evaluated(mx, code) for code in VALUES}
CASES |= {f"gradient of {code}": lambda mx, code=code: _gradient(mx, code) for code in GRADIENTS}
CASES["texts"] = _texts


def signatures(np):
    """The parameters of the functions of ``mx.np`` with their defaults, but those that stand for any others."""
    made = {}
    for name in dir(np):
        function = getattr(np, name)
        if name.startswith("_") or isinstance(function, type) or not callable(function):
            continue
        try:
            parameters = inspect.signature(function).parameters.values()
        except ValueError:  # of a function in C
            continue
        named = [p for p in parameters if p.kind.name not in ("VAR_KEYWORD", "VAR_POSITIONAL")]
        made[name] = " ".join(p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in named)
    return made
