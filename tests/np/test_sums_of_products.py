"""Sums of products of arrays of ``mx.np``: as NumPy has them, with gradients, compiled."""

from __future__ import annotations

import numpy as onp
import pytest

from hybridc import autograd, np
from tests.np.array_agreement import check_compiled, check_composed, check_eager, check_gradient

DIFFERENTIABLE = """
np.dot(x, y)
np.dot(v, v)
np.dot(x, v)
np.dot(t, y)
np.dot(x, s)
np.dot(t, u[0])
np.matmul(t, u)
np.matmul(t, v)
np.matmul(v, u)
np.matmul(x, u)
x @ y
np.inner(x, x)
np.inner(v, x)
np.outer(x, v)
np.vdot(x, x)
np.kron(x, y)
np.kron(v, x)
np.trace(m, 1)
np.trace(t, 0, 1, 2)
np.tensordot(t, x)
np.tensordot(t, t, 3)
np.tensordot(x, v, 0)
np.tensordot(t, u, ((0, 1), (0, 2)))
np.tensordot(t, x, ([1, -1], [0, 1]))
np.cross(t, u[:, :1, :], axisa=1, axisb=-1)
np.cross(x[:, :3], x[:, 1:])
np.cross(x[:, :2], x[:, 1:])
np.cross(x[:, :3], x[:, 2:])
np.cross(x[:, :2], x[:, 2:])
np.cross(x, x[::-1], axis=0)
np.einsum('ij,jk', x, y)
np.einsum('ij,jk->ki', x, y)
np.einsum('ij->ji', x)
np.einsum('ji', x)
np.einsum('ij->', x)
np.einsum('ij->j', x)
np.einsum('ii', m)
np.einsum('ii->i', m)
np.einsum('iij->j', t[:, :2])
np.einsum('i,i', v, v)
np.einsum('i,j->ij', v, w)
np.einsum('ij,ij->ij', x, x)
np.einsum('ij,ij->i', x, x)
np.einsum('bij,bjk->bik', t, u)
np.einsum('bij,bkj->bik', t, t)
np.einsum('bij,bjk->kib', t, u)
np.einsum('...ij,...jk->...ik', t, u)
np.einsum('...ij,jk', t, y)
np.einsum('i...->...', t)
np.einsum('...,...', x, v)
np.einsum('ij,i', x, w)
np.einsum('ij,k->ik', x, v)
np.einsum('i,->i', v, s)
np.einsum('ij,jk,k->i', x, y, y[0])
np.einsum('ij,jk,kl,l', x, m, y, y[0], optimize=True)
np.einsum('ij,ij,ij->i', x, x, x)
np.einsum('bij,bjk,bik->b', t, u, t[:, :, :3], optimize='optimal')
np.einsum('ij,jk,k->i', x, y, y[0], optimize=['einsum_path', (0, 1), (0, 1)])
np.einsum('ij,kj->ik', x[:, :1], x)
np.einsum('ab, bc', x, y)
np.einsum(x, [0, 1], y, [1, 2])
np.einsum(x, [0, 1], y, [1, 2], [2, 0])
np.einsum(t, [0, ..., 1], v, [1], [..., 0])
""".strip().splitlines()

NO_GRADIENT = """
np.dot(i, i.T)
np.matmul(i, i[0])
np.matmul(b, b.T)
np.dot(i, y)
np.matmul(e, np.ones((3, 2)))
np.matmul(e.T, e)
np.einsum('ij,kj->ik', i, i)
np.einsum('ij,ij->i', i, x)
np.einsum('ij,jk', e.T, e)
np.einsum('ij->j', n)
np.einsum('ij,kj', b, b)
np.tensordot(i, n.T, 1)
np.outer(x, i)
np.vdot(i, i)
""".strip().splitlines()


@pytest.mark.parametrize("code", [*DIFFERENTIABLE, *NO_GRADIENT])
def test_as_numpy(code):
    check_eager(code)


@pytest.mark.parametrize("code", DIFFERENTIABLE)
def test_gradient(code):
    check_gradient(code)


@pytest.mark.parametrize("part", range(3))
def test_compiled(part):
    check_compiled([*DIFFERENTIABLE, *NO_GRADIENT][part::3])


@pytest.mark.parametrize("part", range(3))
def test_composed(part):
    check_composed([*DIFFERENTIABLE, *NO_GRADIENT][part::3])


def test_many_true_elements_do_not_wrap():
    ones = np.ones((1, 512), dtype=bool)
    assert bool((ones @ ones.T)[0, 0])


def test_einsum_into_an_array():
    x, y = np.ones((2, 3)), np.zeros((2,))
    assert np.einsum("ij->i", x, out=y) is y
    assert y.tolist() == [3, 3]


def test_einsum_takes_what_autograd_records():
    x = np.array(onp.random.rand(3, 3))
    x.attach_grad()
    with autograd.record():
        y = np.einsum("ij,ji->", x, x)
    y.backward()
    onp.testing.assert_allclose(x.grad.asnumpy(), 2 * x.asnumpy().T)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("ij,jk", "x"), "for 2 operands, there are 1"),
        (("ij", "t"), "2 subscripts do not fit an operand of 3 dimensions"),
        (("ij,kj->ijl", "x", "x"), "the output has a label that no operand has"),
        (("ij,jk", "x", "x"), "label 'j' has size 4 and size 3"),
        (("i1", "x"), "neither a letter"),
        (("ij->ii", "x"), "a label twice"),
        (("ij->ij",), "for 1 operands, there are 0"),
    ],
)
def test_errors_of_einsum(args, message):
    arrays = {"x": np.ones((3, 4)), "t": np.ones((2, 3, 4))}
    with pytest.raises(ValueError, match=message):
        np.einsum(*[arrays.get(a, a) for a in args])


def test_shapes_that_do_not_fit():
    x = np.ones((3, 4))
    for run in (lambda: np.dot(x, x), lambda: x @ x, lambda: np.tensordot(x, x, 1), lambda: np.inner(x, x.T)):
        with pytest.raises(ValueError, match="do not fit"):
            run()
    with pytest.raises(ValueError, match="not have enough dimensions"):
        np.matmul(x, 2)
