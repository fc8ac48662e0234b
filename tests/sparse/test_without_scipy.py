"""What a plain installation does, which has no SciPy: everything but products of csr matrices, whose error says so."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
sys.modules.update(dict.fromkeys(["scipy", "scipy.sparse", "scipy.special", "scipy.linalg"]))
import hybridc as mx
from hybridc import autograd, nd

x = nd.sparse.csr_matrix(([1.0, 2, 3, 4], ([1, 0, 2, 1], [2, 0, 1, 2])), shape=(3, 4))
print(x.asnumpy().tolist(), x[1:].asnumpy().tolist(), (x * 2).stype, x.data.asnumpy().tolist())

table = mx.gluon.nn.Embedding(6, 2, sparse_grad=True)
table.initialize(mx.init.One())
with autograd.record():
    y = table(nd.array([1, 4, 1, 1])).sum()
y.backward()
gradient = table.weight.grad()
print(gradient.stype, gradient.indices.asnumpy().tolist(), gradient.data.asnumpy().tolist())

triangle = nd.array([[2.0, 0], [1, 4]])
print(nd.linalg.trsm(triangle, nd.array([[2.0], [9]])).asnumpy().tolist())

net = mx.gluon.nn.HybridLambda(lambda F, x: F.gammaln(x) + F.erf(x) + F.erfinv(x / 9) + F.digamma(x))
values = nd.arange(1, 5)
eager = net(values)
net.hybridize()
print(float(nd.abs(net(values) - eager).max().asscalar()) < 1e-5)

try:
    nd.dot(x, nd.ones((4, 2)))
except ImportError as error:
    print(type(error).__name__, error)
print([name for name in sys.modules if name.startswith("scipy") and sys.modules[name] is not None])
"""


def test_a_program_without_scipy():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "[[2.0, 0.0, 0.0, 0.0], [0.0, 0.0, 5.0, 0.0], [0.0, 3.0, 0.0, 0.0]] "
        "[[0.0, 0.0, 5.0, 0.0], [0.0, 3.0, 0.0, 0.0]] csr [2.0, 5.0, 3.0]",
        "row_sparse [1, 4] [[3.0, 3.0], [1.0, 1.0]]",
        "[[1.0], [2.0]]",
        "True",
        "MissingPackageError products of csr matrices need SciPy: pip install 'hybridc[sparse]'",
        "[]",
    ]
