"""Linear algebra, densities and other operators on float64, for MXNet and for hybridc: results and gradients."""

import numpy as np

RNG = np.random.RandomState(7)
A = RNG.uniform(-1, 1, (2, 3, 3)) + 2 * np.eye(3)
S = A @ A.swapaxes(1, 2)  # positive definite
LOW = np.linalg.cholesky(S)
JUNK = LOW + 5 * np.triu(np.ones((3, 3)), 1)  # what lies above the diagonal is not read
B, ROWS = RNG.uniform(-1, 1, (2, 3, 2)), RNG.uniform(-1, 1, (2, 2, 3))
X = RNG.uniform(0.2, 2.5, (2, 3))
COUNTS = np.array([[0.0, 1, 5], [2, 0, 3]])
P, Q, PART = np.array([0.7, 1.6]), np.array([2.1, 0.4]), np.array([0.3, 0.8])

CASES = {
    "potrf": ("nd.linalg.potrf(x)", {"x": S[0]}),
    "potrf_batch": ("nd.linalg_potrf(x)", {"x": S}),
    "potrf_half_read": ("nd.linalg.potrf(x)", {"x": np.tril(S)}),
    "potri": ("nd.linalg.potri(x)", {"x": JUNK}),
    "gelqf": ("nd.linalg.gelqf(x)", {"x": ROWS[0]}),
    "gelqf_batch": ("nd.linalg.gelqf(x)", {"x": ROWS}),
    "gelqf_square": ("nd.linalg.gelqf(x)", {"x": A - 1}),
    "syevd": ("nd.linalg.syevd(x)", {"x": S[0]}),
    "syevd_batch": ("nd.linalg.syevd(x)", {"x": S - 4 * np.eye(3)}),
    "syevd_half_read": ("nd.linalg.syevd(x)", {"x": np.tril(S)}),
    "inverse": ("nd.linalg.inverse(x)", {"x": A}),
    "det": ("nd.linalg.det(x)", {"x": A}),
    "det_one": ("nd.linalg.det(x)", {"x": A[0]}),
    "det_singular": ("nd.linalg.det(x)", {"x": np.stack([np.zeros((2, 2)), np.eye(2)])}),
    "slogdet": ("nd.linalg.slogdet(x)", {"x": A * np.array([1.0, -1.0])[:, None, None]}),
    "slogdet_singular": ("nd.linalg.slogdet(x)", {"x": np.stack([np.zeros((2, 2)), np.eye(2)])}),
    "sumlogdiag": ("nd.linalg.sumlogdiag(x)", {"x": S}),
    "sumlogdiag_one": ("nd.linalg.sumlogdiag(x)", {"x": S[0]}),
    "syrk": ("nd.linalg.syrk(x, transpose=True, alpha=0.5)", {"x": ROWS}),
    "gemm": ("nd.linalg.gemm(x, y, z, alpha=2, beta=0.5)", {"x": A, "y": B, "z": B * 2}),
    **{
        f"{kind}diag_{offset}": (f"nd.linalg.{kind}diag(x, offset={offset})", {"x": A if kind == "extract" else X})
        for kind in ("make", "extract")
        for offset in (0, 1, -2)
    },
    **{
        f"{kind}trian_{offset}_{lower}": (
            f"nd.linalg.{kind}trian(x, {offset}, {lower})",
            {"x": A if kind == "extract" else X},
        )
        for kind in ("make", "extract")
        for offset in (0, 1, -1)
        for lower in (True, False)
    },
    "maketrian_many": ("nd.linalg.maketrian(x, lower=False)", {"x": B.reshape(2, 6)}),
    "maketrian_above": ("nd.linalg.maketrian(x, offset=2)", {"x": B.reshape(2, 6)}),
    "extracttrian_above": ("nd.linalg.extracttrian(x, 1)", {"x": np.arange(25.0).reshape(5, 5)}),
    "extracttrian_below": ("nd.linalg.extracttrian(x, -2)", {"x": np.arange(25.0).reshape(5, 5)}),
    **{
        f"{name}_{right}_{flip}_{lower}": (
            f"nd.linalg.{name}(x, y, {flip}, {right}, {lower}, 0.5)",
            {"x": JUNK, "y": ROWS if right else B},
        )
        for name in ("trsm", "trmm")
        for right in (False, True)
        for flip in (False, True)
        for lower in (True, False)
    },
    **{
        f"{name}_{is_log}": (
            f"nd.random_pdf_{name}({', '.join('xyz'[: len(inputs)])}, is_log={is_log})",
            dict(zip("xyz", inputs, strict=False)),
        )
        for name, inputs in {
            "uniform": (X, P, P + Q),
            "normal": (X, P, Q),
            "gamma": (X, P, Q),
            "exponential": (X, P),
            "poisson": (COUNTS, P),
            "negative_binomial": (COUNTS, P, PART),
            "generalized_negative_binomial": (COUNTS, P, PART),
            "dirichlet": (A[:, :2] ** 2 + 0.1, X),
        }.items()
        for is_log in (False, True)
    },
    "dirichlet_one": ("nd.random_pdf_dirichlet(x, y)", {"x": X, "y": X[0]}),
    "normal_many": ("nd.random_pdf_normal(x, y, z)", {"x": A, "y": P, "z": Q}),
    "outside": ("nd.random_pdf_uniform(x, y, z)", {"x": X - 9, "y": P, "z": P + Q}),
}


def heads(out, k):
    """The fixed gradient of result k."""
    return np.random.RandomState(k).uniform(-1, 1, out.shape)


def run(mx, case):
    """Results ``out0``, … and gradients ``grad_x``, …"""
    code, inputs = case
    arrays = {name: mx.nd.array(x, dtype="float64") for name, x in inputs.items()}
    for x in arrays.values():
        x.attach_grad()
    with mx.autograd.record():
        made = eval(code, {"nd": mx.nd, **arrays})
    outs = list(made) if isinstance(made, (list, tuple)) else [made]
    mx.autograd.backward(outs, [mx.nd.array(heads(y, k), dtype="float64") for k, y in enumerate(outs)])
    found = {f"out{k}": y.asnumpy() for k, y in enumerate(outs)}
    return {**found, **{f"grad_{name}": x.grad.asnumpy() for name, x in arrays.items()}}
