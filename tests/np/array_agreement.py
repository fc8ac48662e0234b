"""Comparison of expressions on arrays of ``mx.np`` with NumPy's: eagerly, while autograd records, compiled, gradients.

An expression such as ``np.pad(x, 1)`` is evaluated with NumPy and with ``mx.np``; the names in it are those of
``INPUTS``.
"""

from __future__ import annotations

import re

import numpy as onp

import hybridc as mx
from hybridc import autograd, np

_RNG = onp.random.default_rng(1)


def _floats(*shape):
    return _RNG.permuted(onp.linspace(-2, 2, onp.prod(shape, dtype=int))).reshape(shape)  # far from each other: no ties


INPUTS = {
    "x": _floats(3, 4),
    "y": _floats(4, 2),
    "v": _floats(4),
    "w": _floats(3),
    "m": _floats(4, 4),
    "t": _floats(2, 3, 4),
    "u": _floats(2, 4, 3),
    "s": onp.array(1.25),
    "e": onp.zeros((0, 3)),
    "d": _floats(6, 4).T[::2, ::-2],  # strided
    "i": _RNG.integers(-5, 9, (3, 4)).astype("int32"),
    "j": onp.array([2, 0, 1]),
    "n": _RNG.integers(0, 5, (3, 4)).astype("uint8"),
    "b": _RNG.integers(0, 2, (3, 4)).astype(bool),
}


class _NumPy:
    """NumPy, with ``trapz`` by its old name, and ``cross`` of vectors of two elements, which NumPy 2.5 refuses."""

    trapz = staticmethod(onp.trapezoid)

    def __getattr__(self, name):
        return getattr(onp, name)

    @staticmethod
    def cross(x, y, **axes):
        sizes = {x.shape[-1], y.shape[-1]}
        if axes or sizes == {3}:
            return onp.cross(x, y, **axes)
        in_space = [onp.pad(v, [(0, 0)] * (v.ndim - 1) + [(0, 3 - v.shape[-1])]) for v in (x, y)]
        return onp.cross(*in_space)[..., 2] if sizes == {2} else onp.cross(*in_space)


def inputs_of(code):
    """The names of the inputs that an expression has."""
    text = re.sub(r"'[^']*'|\.\w+|\w+=", "", code)
    return [name for name in INPUTS if re.search(rf"\b{name}\b", text)]


def evaluated(code, module, values):
    """The arrays that an expression gives."""
    result = eval(code, {"np": module, "onp": onp}, dict(values))
    return list(result) if isinstance(result, list | tuple) else [result]


def reference_of(code, single=True):
    """NumPy's results, of inputs rounded to float32."""
    return [onp.asarray(r) for r in evaluated(code, _NumPy(), {name: _input(name, single) for name in inputs_of(code)})]


def _input(name, single):
    value = INPUTS[name]
    return value.astype("float32").astype("float64") if single and value.dtype == onp.float64 else value


def assert_agree(results, references, code):
    """Equal shapes and kinds, nearly equal elements; floats are float32."""
    assert len(results) == len(references), code
    for y, reference in zip(results, references, strict=True):
        assert type(y) is np.ndarray, code
        assert y.shape == reference.shape, code
        assert y.dtype == (onp.float32 if reference.dtype.kind == "f" else reference.dtype), code
        onp.testing.assert_allclose(y.asnumpy(), reference, rtol=2e-5, atol=2e-5, err_msg=code)


def arrays(code, dtype="float32"):
    """The inputs of an expression as arrays of ``mx.np``, floats in a dtype."""
    named = {name: INPUTS[name] for name in inputs_of(code)}
    return {n: mx.np.ndarray(a.astype(dtype) if a.dtype == onp.float64 else a) for n, a in named.items()}


def check_eager(code):
    """As NumPy, and the same while autograd records."""
    reference = reference_of(code)
    assert_agree(evaluated(code, np, arrays(code)), reference, code)
    values = arrays(code)
    for x in values.values():
        x.attach_grad()
    with autograd.record():
        results = evaluated(code, np, values)
    assert_agree(results, reference, code)


def check_compiled(codes):
    """One block of all expressions gives NumPy's results, hybridized."""
    names = sorted({name for code in codes for name in inputs_of(code)})
    flat = []

    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, *inputs):
            values = dict(zip(names, inputs, strict=True))
            found = [evaluated(code, np, values) for code in codes]
            flat[:] = [len(results) for results in found]
            return [y for results in found for y in results]

    net = Net()
    net.hybridize()
    ready = {**arrays(" ".join(names))}
    results = iter(net(*[ready[name] for name in names]))
    for code, count in zip(codes, list(flat), strict=True):
        assert_agree([next(results) for _ in range(count)], reference_of(code), code)


def check_composed(codes):
    """Composed of symbols without shapes, and evaluated in one graph."""
    named = arrays(" ".join(sorted({name for code in codes for name in inputs_of(code)})))
    references = [reference_of(code) for code in codes]
    with mx.util.np_shape(True), mx.util.np_array(True):
        symbols = {name: mx.sym.var(name).as_np_ndarray() for name in named}
        results = [evaluated(code, mx.sym.np, symbols) for code in codes]
        results = [
            list(found[0]) if len(found) < len(reference) else found
            for found, reference in zip(results, references, strict=True)
        ]
        group = mx.sym.Group([y for found in results for y in found])
        made = iter(group.eval(ctx=mx.cpu(), **{name: named[name] for name in group.list_inputs()}))
    for code, reference in zip(codes, references, strict=True):
        assert_agree([next(made).as_np_ndarray() for _ in reference], reference, code)


def check_gradient(code):
    """The gradient of a weighted sum agrees with finite differences of NumPy's function."""
    values = arrays(code, "float64")
    floats = [name for name, x in values.items() if x.dtype == onp.float64]
    for name in floats:
        values[name].attach_grad()
    shapes = [r.shape for r in reference_of(code)]
    weights = [onp.cos(onp.arange(onp.prod(shape, dtype=int))).reshape(shape) for shape in shapes]
    with autograd.record():
        results = evaluated(code, np, values)
        total = sum((y * np.array(w)).sum() for y, w in zip(results, weights, strict=True))
    total.backward()

    def loss(changed):
        return sum((onp.asarray(r) * w).sum() for r, w in zip(evaluated(code, _NumPy(), changed), weights, strict=True))

    step = 1e-5
    for name in floats:
        base = {n: INPUTS[n] for n in values}
        numeric = onp.zeros(INPUTS[name].shape)
        for place in onp.ndindex(numeric.shape):
            ends = []
            for sign in (1, -1):
                moved = INPUTS[name].copy()
                moved[place] += sign * step
                ends.append(loss({**base, name: moved}))
            numeric[place] = (ends[0] - ends[1]) / (2 * step)
        onp.testing.assert_allclose(
            values[name].grad.asnumpy(), numeric, rtol=1e-5, atol=1e-7, err_msg=f"{code}: {name}"
        )
