"""Calls of ``mx.nd._internal`` and ``mx.sym._internal``, as texts, and how their results are written down.

``run`` is used by the script that makes internal.json with MXNet 1.9.1 and by the tests of hybridc.
"""

import json

import numpy as np


def _words(text):
    return text.split()


_PAIRS = _words("""
_Div _Equal _Greater _Greater_Equal _Hypot _Lesser _Lesser_Equal _Logical_And _Logical_Or _Logical_Xor _Maximum
_Minimum _Minus _Mod _Mul _Not_Equal _Plus _Power _add _div _equal _grad_add _greater _greater_equal _hypot
_identity_with_attr_like_rhs _lesser _lesser_equal _logical_and _logical_or _logical_xor _maximum _minimum _minus _mod
_mul _not_equal _plus _power _scatter_elemwise_div _sub
""")
_SCALARS = _words("""
_DivScalar _EqualScalar _GreaterEqualScalar _GreaterScalar _HypotScalar _LesserEqualScalar _LesserScalar
_LogicalAndScalar _LogicalOrScalar _LogicalXorScalar _MaximumScalar _MinimumScalar _MinusScalar _ModScalar _MulScalar
_NotEqualScalar _PlusScalar _PowerScalar _RDivScalar _RMinusScalar _RModScalar _RPowerScalar _scatter_minus_scalar
_scatter_plus_scalar _rminus_scalar _rdiv_scalar _rmod_scalar _rpower_scalar _greater_scalar _lesser_equal_scalar
_plus_scalar _minus_scalar
""")
_OTHERS = """
_set_value(3.5, out=x)
_set_value(src='1.5', out=z)
_onehot_encode(i, z)
_onehot_encode(i, z, out=y)
_crop_assign(x, y, begin=(None, None), end=(None, None))
_crop_assign(x, part, begin=(0, 1), end=(1, 3))
_slice_assign(x, part, (0, 1), (1, 3))
_slice_assign(lhs=x, rhs=part, begin=(0, 1), end=(1, 3), out=z)
_crop_assign_scalar(x, scalar=4, begin=(0, 1), end=(1, 3))
_slice_assign_scalar(x, 4.5, (0, 1), (1, 3))
_full(shape=(2,), value=3)
_full(shape=(2,), value=3.5, dtype='int32')
_full(shape=(2,), ctx='cpu(0)', dtype='float64', value=3.5)
_full((2,), cpu, 'float32', 7)
_full(shape='(2, 1)', value='3', name='a')
_zeros(shape=(2,))
_zeros((2,), cpu, 'float64')
_zeros(shape=2)
_zeros(shape=(2, 3), out=x)
_ones((2,), cpu, 'float64')
_ones(shape=(2,), ctx='cpu(0)', dtype='uint8')
_eye(3)
_eye(N=3, M=2, k=1, ctx='cpu(0)', dtype='int32')
_arange(start=2)
_arange(start=2, stop=8, step=3)
_arange(start=2, stop=8, step=3, repeat=2, dtype='int32', ctx='cpu(0)')
_arange(0, 5, 1, 1, False, 'cpu(0)', 'float64')
_copy(x)
_copyto(x, out=z)
_ravel_multi_index(pair, shape=(3, 3))
_unravel_index(i, shape=(2, 3))
_split_v2(x, indices=(0, 2), axis=1)
_split_v2(x, indices=(0, 1), axis=1, squeeze_axis=False, sections=3)
_split_v2(x, (0,), 1, True, 3)
_split_v2(x, indices=(), axis=0, sections=2)
_histogram(x, bin_cnt=2, range=(0, 4))
_random_uniform(0, 1, (2, 3), 'cpu(0)', 'float64').dtype.__name__
_random_uniform(low=0, high=1, shape=(2, 3)).shape
_random_normal(0, 1, (2, 3), cpu, 'float32').shape
_random_gamma(1, 2, (2,)).shape
_random_exponential(2, (2,)).shape
_random_poisson(lam=2, shape=(2,)).shape
_random_negative_binomial(k=2, p=.5, shape=(2,)).shape
_random_randint(0, 5, (2,), 'cpu(0)', 'int64').dtype.__name__
_sample_uniform(i, i, shape=(3,)).shape
_sample_normal(mu=i, sigma=i, shape=3).shape
_sample_gamma(i, i, shape=(3,), dtype='float64').dtype.__name__
_sample_multinomial(pair, (2,), True)[0].shape
_random_pdf_normal(pair, i, i + 1, True)
_random_pdf_gamma(sample=pair, alpha=i + 1, beta=i + 1)
_shuffle(i).shape
_adamw_update(x, y, z, z + 1, i[1:], 0.1, 0.9, 0.99, 1e-8, 0.01, 0.5)
_adamw_update(x, y, z, z + 1, rescale_grad=i[1:], lr=0.1, eta=0.5, wd=0.01)
_Null
""".strip().splitlines()
CALLS = [
    *[f"{name}(x, y)" for name in _PAIRS],
    *[f"{name}(lhs=x, rhs=y, out=z, name='a')" for name in _PAIRS[::5]],
    *[f"{name}(y, 2.0)" for name in _SCALARS],
    *[f"{name}(data=y, scalar='1.5', is_int=False)" for name in _SCALARS[::5]],
    *[f"{name}(y)" for name in _SCALARS[::7]],
    *_OTHERS,
]
SYMBOLS = """
_plus_scalar(x, 2)
_PlusScalar(x, scalar=2)
_RMinusScalar(x, scalar=2.5, name='a')
_minus(x, y)
_Maximum(x, y)
_full(shape=(2,), value=3)
_zeros(shape=(2,), dtype='int32')
_arange(start=2, stop=5)
_slice_assign(x, y, begin=(0,), end=(1,))
_crop_assign_scalar(x, scalar=2, begin=(0,), end=(1,))
_copyto(x)
_random_uniform(low=0, high=1, shape=(2,))
_split_v2(x, indices=(0, 2), axis=1)
_sample_normal(x, y, shape=(3,))
""".strip().splitlines()

ARGUMENTS = _words("""
_full _zeros _ones _eye _arange _random_uniform _random_randint normal _adamw_update _plus_scalar _RMinusScalar
_crop_assign _copyto _histogram Convolution
""")


def run(mx, code):
    """What a call gives: dtype, shape and elements of arrays, or the text of another value."""
    x, y = mx.nd.array([[1, -2, 3.5], [0, 2, -1]]), mx.nd.array([[2, 2, 1.5], [1, 3, -1]])
    known = {"x": x, "y": y, "z": mx.nd.zeros((2, 3)), "i": mx.nd.array([0, 2]), "cpu": mx.cpu()}
    known |= {"pair": mx.nd.array([[1, 2], [2, 0.5]]), "part": mx.nd.ones((1, 2))}
    found = _written(mx, eval(f"internal.{code}", {**known, "internal": mx.nd._internal}))
    return [found, _written(mx, x)] if "assign" in code else found


def symbol(mx, code):
    """Names of the inputs, the outputs and the last node of a symbol."""
    with mx.name.NameManager():
        made = eval(f"internal.{code}", {"x": mx.sym.var("x"), "y": mx.sym.var("y"), "internal": mx.sym._internal})
    node = json.loads(made.tojson())["nodes"][-1]
    return [made.list_inputs(), made.list_outputs(), node["name"]]


def _written(mx, value):
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], mx.nd.NDArray):
        return [_written(mx, part) for part in value]
    if not isinstance(value, mx.nd.NDArray):
        return str(value)
    rounded = np.round(value.asnumpy().astype("float64"), 4) + 0.0
    return [np.dtype(value.dtype).name, list(value.shape), [str(v) for v in rounded.ravel()], str(value.context)]
