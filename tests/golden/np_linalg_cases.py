"""Expressions with ``mx.np.linalg``, and the shapes and dtypes of what ``mx.np.random`` draws.

``CASES`` are programs for ``programs.py``, functions of ``mx``; NumPy's semantics are switched on while they run. Where
signs are free, the expression makes them go away.
"""

import numpy as onp

VALUES = """
np.linalg.cholesky(p)
np.linalg.cholesky(np.stack([p, 2 * p]))
np.linalg.det(m)
np.linalg.det(np.stack([m, p]))
np.linalg.slogdet(m)
np.linalg.slogdet(np.stack([m, p]))
np.linalg.inv(m)
np.linalg.inv(np.stack([m, p]))
np.linalg.solve(m, v)
np.linalg.solve(m, w)
np.linalg.solve(np.stack([m, p]), np.stack([w, w]))
np.linalg.eigvalsh(p)
np.linalg.eigvalsh(m, UPLO='U')
np.linalg.eigvalsh(np.stack([p, 2 * p]))
np.linalg.eigh(p)[0]
np.abs(np.linalg.eigh(p)[1])
np.linalg.eigh(m, 'U')[0]
np.sort(np.linalg.eigvals(p))
np.sort(np.linalg.eig(p)[0])
np.linalg.svd(m)[1]
np.linalg.svd(w.T)[1]
np.abs(np.linalg.svd(w.T)[0])
np.abs(np.linalg.svd(w.T)[2])
np.linalg.svd(np.stack([w.T, w.T]))[1]
np.abs(np.linalg.qr(m)[0])
np.abs(np.linalg.qr(w)[1])
np.linalg.pinv(w)
np.linalg.pinv(w.T)
np.linalg.pinv(np.stack([w, w]))
np.linalg.pinv(s, rcond=0.5)
np.linalg.tensorinv(t, ind=2)
np.linalg.tensorinv(m.reshape((3, 3, 1)), ind=1)
np.linalg.tensorsolve(t, u)
np.linalg.tensorsolve(m, v)
np.linalg.matrix_rank(s)
np.linalg.matrix_rank(m)
np.linalg.matrix_rank(np.stack([m, s]))
np.linalg.matrix_rank(s, hermitian=True)
np.linalg.lstsq(w, v, rcond=None)[0]
np.linalg.lstsq(w, m, rcond=None)[1]
np.linalg.lstsq(w, v, rcond=None)[3]
np.linalg.matrix_power(m, 3)
np.linalg.matrix_power(m, -1)
np.linalg.multi_dot([m, p, w])
np.linalg.cond(m)
np.linalg.norm(v)
np.linalg.norm(m)
np.linalg.norm(t)
np.linalg.norm(m, 'fro')
np.linalg.norm(m, 'nuc')
np.linalg.norm(m, 'nuc', axis=(0, 1))
np.linalg.norm(m, 'fro', axis=(0, 1))
np.linalg.norm(m, 2)
np.linalg.norm(m, 2, axis=(0, 1))
np.linalg.norm(m, -2, axis=(0, 1))
np.linalg.norm(m, 1, axis=(0, 1))
np.linalg.norm(m, -1, axis=(0, 1))
np.linalg.norm(m, 1, axis=(1, 0))
np.linalg.norm(m, 'inf', axis=(0, 1))
np.linalg.norm(m, '-inf', axis=(0, 1))
np.linalg.norm(m, 'inf', axis=(1, 0), keepdims=True)
np.linalg.norm(v, 1)
np.linalg.norm(v, 2)
np.linalg.norm(v, 3)
np.linalg.norm(v, 0)
np.linalg.norm(v, -1)
np.linalg.norm(v, 'inf')
np.linalg.norm(v, '-inf')
np.linalg.norm(m, axis=0)
np.linalg.norm(m, axis=(0, 1))
np.linalg.norm(m, axis=1, keepdims=True)
np.linalg.norm(m, 1, axis=0)
np.linalg.norm(m, 2, axis=1)
np.linalg.norm(m, 0.5, axis=1)
np.linalg.norm(m, 'inf', axis=1)
np.linalg.norm(m, '-inf', axis=0, keepdims=True)
np.linalg.norm(np.stack([m, p]), axis=(1, 2))
np.linalg.norm(np.stack([m, p]), 'nuc', axis=(1, 2))
np.linalg.norm(np.stack([m, p]), 1, axis=(1, 2), keepdims=True)
np.linalg.norm(np.stack([m, p]), 2, axis=(0, 2))
np.linalg.norm(np.stack([m, p]), 'inf', axis=(2, 0))
""".strip().splitlines()

GRADIENTS = """
np.linalg.cholesky(p)
np.linalg.det(p)
np.linalg.inv(p)
np.linalg.slogdet(p)[1]
np.linalg.solve(p, w)
np.linalg.eigh(p)[0]
np.linalg.eigvalsh(p)
np.linalg.svd(p)[1]
np.linalg.tensorinv(p.reshape((3, 3, 1)), ind=1)
np.linalg.tensorsolve(p, v)
np.linalg.norm(p)
np.linalg.norm(p, axis=0)
np.linalg.norm(p, 1, axis=(0, 1))
np.linalg.norm(p, 3, axis=1)
""".strip().splitlines()

DRAWN = """
np.random.uniform()
np.random.uniform(size=3)
np.random.uniform(0, 1, (2, 3))
np.random.uniform(v)
np.random.uniform(m, v)
np.random.uniform(v, 9, size=(2, 3))
np.random.uniform(size=2, dtype='float64')
np.random.uniform(size=2, dtype='float16')
np.random.normal()
np.random.normal(size=(2, 3))
np.random.normal(v, 1)
np.random.normal(m, v * v)
np.random.normal(size=2, dtype='float64')
np.random.lognormal(size=2)
np.random.randint(5)
np.random.randint(2, 5, size=(2, 3))
np.random.randint(5, size=2, dtype='int32')
np.random.rand()
np.random.rand(2, 3)
np.random.randn()
np.random.randn(2, 3)
np.random.choice(5)
np.random.choice(5, 3)
np.random.choice(5, (2, 3), replace=True)
np.random.choice(3, 2, replace=False, p=np.array([0.5, 0.25, 0.25]))
np.random.choice(v, 2)
np.random.multinomial(4, [0.5, 0.5])
np.random.multinomial(4, np.array([0.5, 0.5]), size=3)
np.random.gamma(2.0)
np.random.gamma(2.0, 1.0, (2, 3))
np.random.gamma(v * v, size=(2, 3))
np.random.beta(1.0, 2.0)
np.random.beta(1.0, 2.0, (2, 3))
np.random.chisquare(2.0, size=3)
np.random.exponential()
np.random.exponential(2.0, (2, 3))
np.random.exponential(v * v)
np.random.gumbel(size=3)
np.random.gumbel(v, 1.0)
np.random.logistic(size=3)
np.random.logistic(v, 1.0)
np.random.rayleigh(size=3)
np.random.rayleigh(v * v)
np.random.weibull(2.0, 3)
np.random.weibull(v * v)
np.random.pareto(2.0, 3)
np.random.pareto(v * v)
np.random.power(2.0, 3)
np.random.power(v * v)
np.random.multivariate_normal(v, p)
np.random.multivariate_normal(v, p, size=(2,))
npx.random.bernoulli(0.5)
npx.random.bernoulli(0.5, size=(2, 3))
npx.random.bernoulli(logit=v)
npx.random.bernoulli(np.array([0.5, 0.5]), size=(3, 2), dtype='int32')
npx.random.normal_n(v, 1.0, batch_shape=(2,))
npx.random.normal_n(batch_shape=(2, 3))
npx.random.uniform_n(v, 9.0, batch_shape=(2,))
npx.random.uniform_n(batch_shape=2)
""".strip().splitlines()


def _inputs(mx):
    np = mx.np
    m = np.array([[2.0, -1, 0.5], [1, 3, -2], [0.25, 1, 1.5]])
    return {
        "np": np,
        "npx": mx.npx,
        "m": m,
        "p": np.array([[4.0, 1, 0.5], [1, 3, -1], [0.5, -1, 2]]),
        "s": np.array([[1.0, 2, 3], [2, 4, 6], [3, 6, 9]]),
        "v": np.array([1.0, -2, 3]),
        "w": np.array([[1.0, 2], [-1, 0.5], [3, -2]]),
        "t": (np.arange(16) * np.arange(16) % 11).reshape((2, 2, 2, 2)) + 3 * np.eye(4).reshape((2, 2, 2, 2)),
        "u": np.array([[1.0, 2], [3, 4]]),
    }


def _evaluated(mx, code):
    with mx.util.np_shape(True), mx.util.np_array(True):
        result = eval(code, _inputs(mx))
        results = list(result) if isinstance(result, list | tuple) else [result]
        return {str(i): onp.asarray(y.asnumpy() if hasattr(y, "asnumpy") else y) for i, y in enumerate(results)}


def _gradient(mx, code):
    with mx.util.np_shape(True), mx.util.np_array(True):
        scope = _inputs(mx)
        p = scope["p"]
        p.attach_grad()
        with mx.autograd.record():
            y = eval(code, scope)
            weights = mx.np.arange(y.size).reshape(y.shape) + 1
            z = (y * weights).sum()
        z.backward()
        return {"gradient": p.grad.asnumpy()}


def _drawn(mx):
    found = {}
    with mx.util.np_shape(True), mx.util.np_array(True):
        for code in DRAWN:
            y = eval(code, _inputs(mx))
            found[code] = [list(getattr(y, "shape", ())), str(getattr(y, "dtype", type(y).__name__))]
    return found


CASES = {code: lambda mx, code=code: _evaluated(mx, code) for code in VALUES}
CASES |= {f"gradient of {code}": lambda mx, code=code: _gradient(mx, code) for code in GRADIENTS}
CASES["drawn"] = _drawn
