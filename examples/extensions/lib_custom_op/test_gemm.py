"""The operators of libgemm_lib.so, as functions of arrays and of symbols, with gradients.

Run ``make gemm_lib`` before; a folder other than this one may be given: ``python test_gemm.py folder``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import hybridc as mx

sys.stdout.reconfigure(line_buffering=True)  # the library prints too, past Python's buffer
folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)
mx.library.load(str((folder / "libgemm_lib.so").resolve()))

a = mx.nd.array([[1, 2, 3], [4, 5, 6]])
b = mx.nd.array([[7], [8], [9]])

print("-------- arrays")
print(mx.nd.my_gemm(a, b))
print(mx.nd.state_gemm(a, b, test_kw=100))

print("-------- arrays, with gradients")
a.attach_grad()
b.attach_grad()
with mx.autograd.record():
    c = mx.nd.my_gemm(a, b)
c.backward()
print(a.grad)
print(b.grad)

print("-------- symbols")
s, t = mx.sym.Variable("s"), mx.sym.Variable("t")
for composed in (mx.sym.my_gemm(s, t), mx.sym.state_gemm(s, t, test_kw=200)):
    gradients = {"s": mx.nd.zeros((2, 3)), "t": mx.nd.zeros((3, 1))}
    executor = composed.bind(mx.cpu(), {"s": a, "t": b}, args_grad=gradients)
    for _ in range(2):
        outputs = executor.forward(is_train=True)
    print(outputs[0])
    executor.backward(mx.nd.ones((2, 1)))
    print(gradients["s"])
    print(gradients["t"])

print("-------- the product that every installation has")
print(mx.nd.dot(a, b))
