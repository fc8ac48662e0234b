"""MXNet's operators in symbol files that are functions of ``mx.np`` here: names, and what their attributes are called.

A row is the operator, the function, and its attributes there, ``dim=axis`` where the parameter has another name here.
The arrays are the first parameters, in order; ``[]`` after a function says that they are a list.
"""

from __future__ import annotations

from hybridc.ground.records import dataclass


@dataclass(frozen=True)
class NumpyName:
    """A row: ``attrs`` are the parameters here by the names of attributes there."""

    title: str
    function: str
    attrs: dict[str, str]
    is_list: bool


# Functions of two arrays, one of which may be a number: _npi_add, _npi_add_scalar, _npi_radd_scalar.
PAIRS = frozenset(
    [
        "add",
        "subtract",
        "multiply",
        "true_divide",
        "mod",
        "power",
        "maximum",
        "minimum",
        "equal",
        "not_equal",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
        "arctan2",
        "hypot",
        "copysign",
        "ldexp",
        "lcm",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
    ]
)
# Functions of one array without attributes.
_UNARY = (
    "absolute negative sign sqrt square cbrt reciprocal exp expm1 log log2 log10 log1p sin cos tan arcsin arccos "
    "arctan sinh cosh tanh arcsinh arccosh arctanh degrees radians floor ceil trunc fix rint logical_not isnan isinf "
    "isfinite isneginf isposinf bitwise_not nonzero diag_indices_from"
)
_ROWS = """
    _np_all all axis keepdims
    _np_any any axis keepdims
    _np_sum sum axis dtype keepdims initial
    _np_prod prod axis dtype keepdims initial
    _np_max max axis keepdims initial
    _np_min min axis keepdims initial
    _np_copy copy
    _np_cumsum cumsum axis dtype
    _np_diag diag k
    _np_diagflat diagflat k
    _np_diagonal diagonal offset axis1 axis2
    _np_dot dot
    _np_moveaxis moveaxis source destination
    _np_repeat repeat repeats axis
    repeat repeat repeats axis
    _np_reshape reshape newshape order
    _np_roll roll shift axis
    _np_squeeze squeeze axis
    _np_trace trace offset axis1 axis2
    _np_transpose transpose axes
    _np_atleast_1d atleast_1d[]
    _np_atleast_2d atleast_2d[]
    _np_atleast_3d atleast_3d[]
    _npi_argmax argmax axis keepdims
    _npi_argmin argmin axis keepdims
    _npi_argsort argsort axis
    _npi_sort sort axis
    sort sort axis
    _npi_around around decimals
    _npi_mean mean axis dtype keepdims
    _npi_std std axis dtype ddof keepdims
    _npi_var var axis dtype ddof keepdims
    _npi_broadcast_to broadcast_to shape
    _npi_column_stack column_stack[]
    _npi_concatenate concatenate[] axis dim=axis
    _npi_stack stack[] axis
    _npi_vstack vstack[]
    _npi_hstack hstack[]
    _npi_dstack dstack[]
    _npi_diff diff n axis
    _npi_einsum einsum[] subscripts optimize
    _npi_flip flip axis
    _npi_rot90 rot90 k axes
    _npi_full_like full_like fill_value dtype
    _npi_matmul matmul
    _npi_nan_to_num nan_to_num nan posinf neginf
    _npi_polyval polyval
    _npi_take take axis mode
    take take axis mode
    _npi_tensordot_int_axes tensordot axes
    _npi_tril tril k
    _npi_where where
    _npi_percentile percentile axis interpolation keepdims
    _npi_unique unique return_index return_inverse return_counts axis
    _npi_arange arange start stop step dtype
    _npi_eye eye N M k dtype
    _npi_zeros zeros shape dtype
    _npi_ones ones shape dtype
    _npi_full full shape value=fill_value dtype
    _linspace linspace start stop num endpoint dtype
    _npi_logspace logspace start stop num endpoint base dtype
    _npi_indices indices dimensions dtype
    _npi_hanning hanning M dtype
    _npi_hamming hamming M dtype
    _npi_blackman blackman M dtype
    _npi_uniform random.uniform low high size dtype
    _npi_normal random.normal loc scale size dtype
    _npi_random_randint random.randint low high shape=size dtype
    _npi_exponential random.exponential scale size
    _npi_gumbel random.gumbel loc scale size
    _npi_logistic random.logistic loc scale size
    _npi_rayleigh random.rayleigh scale size
    _npi_weibull random.weibull a size
    _npi_pareto random.pareto a size
    _npx_reshape npx.reshape newshape reverse order
    _npx_nonzero npx.nonzero
    _npx_constraint_check npx.constraint_check msg
    _npi_cholesky linalg.cholesky
    _npi_det linalg.det
    _npi_slogdet linalg.slogdet
    _npi_inv linalg.inv
    _npi_solve linalg.solve
    _npi_svd linalg.svd
    _npi_eigh linalg.eigh UPLO
    _npi_eigvalsh linalg.eigvalsh UPLO
    _npi_eig linalg.eig
    _npi_eigvals linalg.eigvals
    _npi_tensorinv linalg.tensorinv ind
    clip clip a_min a_max
    tile tile reps
    expand_dims expand_dims axis
    Cast astype dtype
    SwapAxis swapaxes dim1=axis1 dim2=axis2
"""


def _row(text: str) -> NumpyName:
    title, function, *attrs = text.split()
    pairs = [a.partition("=") for a in attrs]
    is_list = function.endswith("[]")
    return NumpyName(title, function.removesuffix("[]"), {a: b or a for a, _, b in pairs}, is_list)


_ALL = [_row(line) for line in _ROWS.strip().splitlines()] + [_row(f"_npi_{name} {name}") for name in _UNARY.split()]
#: The rows by the function; where it has two, the last says what is written.
BY_FUNCTION = {row.function: row for row in _ALL}
#: The rows of operators that only ``mx.np`` has, by their names.
BY_TITLE = {row.title: row for row in _ALL if row.title.startswith("_np")}
# Names that mean what others mean.
BY_FUNCTION.update(
    abs=BY_FUNCTION["absolute"],
    amax=BY_FUNCTION["max"],
    amin=BY_FUNCTION["min"],
    product=BY_FUNCTION["prod"],
    round=BY_FUNCTION["around"],
    sometrue=BY_FUNCTION["any"],
)
BY_TITLE.update(
    _npi_abs=BY_FUNCTION["absolute"],
    _npi_reshape=BY_FUNCTION["reshape"],
    _np_amax=BY_FUNCTION["max"],
    _np_amin=BY_FUNCTION["min"],
    _np_product=BY_FUNCTION["prod"],
    _np_sometrue=BY_FUNCTION["any"],
)
