"""MXNet's operators in symbol files that are functions of ``mx.np`` here: names, and what their attributes are called.

A row is the operator, the function, and its attributes there, ``dim=axis`` where the parameter has another name here.
The arrays are the first parameters, in order; ``[]`` after a function says that they are a list. A row with ``?`` has
its arrays there: the inputs are those of these parameters that no attribute says. ``weighted<weights`` is a flag, which
says that there is such an argument.
"""

from __future__ import annotations

from hybridc.ground.records import dataclass


@dataclass(frozen=True)
class NumpyName:
    """A row: ``attrs`` and ``flags`` are parameters here by the names of attributes there.

    ``arrays`` are the parameters of the inputs, if not simply the first ones.
    """

    title: str
    function: str
    attrs: dict[str, str]
    is_list: bool
    arrays: tuple[str, ...]
    flags: dict[str, str]


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
#: Pairs of integers only.
OF_INTEGERS = frozenset(["lcm", "bitwise_and", "bitwise_or", "bitwise_xor"])
#: What a pair is called if the number is the first, where it is not ``_npi_r…_scalar``.
REFLECTED = {name: name for name in ("add", "multiply", "maximum", "minimum", "equal", "not_equal", "hypot", "lcm")}
REFLECTED.update({f"bitwise_{name}": f"bitwise_{name}" for name in ("and", "or", "xor")})
REFLECTED.update(less="greater", less_equal="greater_equal", greater="less", greater_equal="less_equal")
# Functions of one array without attributes.
_UNARY = (
    "absolute negative sign sqrt square cbrt reciprocal exp expm1 log log2 log10 log1p sin cos tan arcsin arccos "
    "arctan sinh cosh tanh arcsinh arccosh arctanh degrees radians floor ceil trunc fix rint logical_not isnan isinf "
    "isfinite isneginf isposinf bitwise_not nonzero"
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
    argsort argsort axis dtype
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
    _npi_diag_indices_from diag_places
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
    _npi_unique unique return_index return_inverse return_counts axis
    _npi_arange arange start stop step dtype
    _npi_eye eye N M k dtype
    _npi_zeros zeros shape dtype
    _npi_ones ones shape dtype
    _npi_full full shape value=fill_value dtype
    _full full shape value=fill_value dtype
    _linspace linspace start stop num endpoint dtype
    _npi_logspace logspace start stop num endpoint base dtype
    _npi_indices indices dimensions dtype
    _npi_hanning hanning M dtype
    _npi_hamming hamming M dtype
    _npi_blackman blackman M dtype
    _npi_uniform random.uniform low? high? size dtype
    _npi_uniform_n npx.random.uniform_n low? high? size=batch_shape dtype
    _npi_normal random.normal loc? scale? size dtype
    _npi_normal_n npx.random.normal_n loc? scale? size=batch_shape dtype
    _npi_random_randint random.randint low high shape=size dtype
    _random_randint random.randint low high shape=size dtype
    _npi_bernoulli npx.random.bernoulli prob? logit? size dtype is_logit<logit
    _npi_choice random.choice a? input2=p? size replace weighted<p
    _npi_exponential random.exponential scale? size
    _npi_gamma random.gamma shape? scale? size dtype
    _npi_gumbel random.gumbel loc? scale? size
    _npi_logistic random.logistic loc? scale? size
    _npi_multinomial random.multinomial n pvals? size
    _npi_rayleigh random.rayleigh scale? size
    _npi_weibull random.weibull a? size
    _npi_pareto random.pareto a? size
    _npi_powerd random.power a? size
    _npi_where where condition? x? y?
    _npi_where_lscalar where condition? scalar=x y?
    _npi_where_rscalar where condition? x? scalar=y
    _npi_where_scalar2 where condition? x y
    _npi_average average a? weights? axis returned weighted<weights
    _npi_bincount bincount data=x? weights? minlength has_weights<weights
    _npi_percentile percentile a? q_scalar=q? axis interpolation keepdims
    _npi_delete delete arr? int_ind=obj? axis start stop step
    _npi_insert_scalar insert arr? val=values? int_ind=obj axis
    _npi_insert_slice insert arr? val=values? axis start stop step
    _npi_insert_tensor insert arr? val=values? obj? axis
    _npi_ediff1d ediff1d input1=ary? to_begin_scalar=to_begin? to_end_scalar=to_end? to_begin_arr_given<to_begin to_end_arr_given<to_end
    _npi_tensordot tensordot a_axes_summed b_axes_summed
    _npi_pad pad pad_width mode constant_value=constant_values reflect_type
    _npi_identity identity shape=n dtype
    _npi_split split indices sections axis
    _split_v2 split indices sections axis squeeze_axis
    _npi_hsplit hsplit indices sections axis squeeze_axis
    _npi_dsplit dsplit indices sections axis squeeze_axis
    _histogram histogram a? bin_cnt=bins? range
    _npi_share_memory shares_memory
    _npi_norm linalg.norm ord axis keepdims flag
    _npi_pinv_scalar_rcond linalg.pinv rcond hermitian
    _npi_pinv linalg.pinv A=a? rcond? hermitian
    _npi_tensorsolve linalg.tensorsolve a_axes=axes
    _npi_boolean_mask_assign_scalar masked data? mask? value start_axis
    _npi_boolean_mask_assign_tensor masked data? mask? value? start_axis
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
"""  # noqa: E501


def _row(text: str) -> NumpyName:
    title, function, *attrs = text.split()
    flags = dict(a.split("<") for a in attrs if "<" in a)
    pairs = [a.rstrip("?").partition("=") for a in attrs if "<" not in a]
    arrays = tuple(a.rstrip("?").rpartition("=")[2] for a in attrs if a.endswith("?"))
    is_list = function.endswith("[]")
    return NumpyName(title, function.removesuffix("[]"), {a: b or a for a, _, b in pairs}, is_list, arrays, flags)


_ALL = [_row(line) for line in _ROWS.strip().splitlines()] + [_row(f"_npi_{name} {name}") for name in _UNARY.split()]
#: The rows by the function; where it has several, the last says what is written.
BY_FUNCTION = {row.function: row for row in _ALL}
#: The rows of operators that only ``mx.np`` has, by their names.
BY_TITLE = {row.title: row for row in _ALL if row.title.startswith("_np")}
# Names that mean what others mean.
BY_FUNCTION.update(
    abs=BY_FUNCTION["absolute"],
    amax=BY_FUNCTION["max"],
    amin=BY_FUNCTION["min"],
    fabs=BY_FUNCTION["absolute"],
    invert=BY_FUNCTION["bitwise_not"],
    may_share_memory=BY_FUNCTION["shares_memory"],
    product=BY_FUNCTION["prod"],
    round=BY_FUNCTION["around"],
    row_stack=BY_FUNCTION["vstack"],
    sometrue=BY_FUNCTION["any"],
)
BY_TITLE.update(
    _npi_abs=BY_FUNCTION["absolute"],
    _npi_reshape=BY_FUNCTION["npx.reshape"],
    _np_amax=BY_FUNCTION["max"],
    _np_amin=BY_FUNCTION["min"],
    _np_product=BY_FUNCTION["prod"],
    _np_sometrue=BY_FUNCTION["any"],
)
#: Names that MXNet has for its operators of ``mx.nd``, and their own names.
OF_ND = {
    "_npi_Custom": "Custom",
    "_npi_argsort": "argsort",
    "_npi_boolean_mask": "_contrib_boolean_mask",
    "_npi_cast": "Cast",
    "_npi_clip": "clip",
    "_npi_copyto": "_copyto",
    "_npi_expand_dims": "expand_dims",
    "_npi_gather_nd": "gather_nd",
    "_npi_histogram": "_histogram",
    "_npi_linspace": "_linspace",
    "_npi_rnn_param_concat": "_rnn_param_concat",
    "_npi_scatter_set_nd": "_scatter_set_nd",
    "_npi_shuffle": "_shuffle",
    "_npi_slice": "slice",
    "_npi_slice_assign": "_slice_assign",
    "_npi_slice_assign_scalar": "_slice_assign_scalar",
    "_npi_sort": "sort",
    "_npi_swapaxes": "SwapAxis",
    "_npi_tile": "tile",
    "_npx_batch_flatten": "Flatten",
    "_npx_multibox_detection": "_contrib_MultiBoxDetection",
    "_npx_multibox_prior": "_contrib_MultiBoxPrior",
    "_npx_multibox_target": "_contrib_MultiBoxTarget",
}
#: Operators of ``mx.nd``, of one matrix, whose results have no axes where NumPy's shapes are in force.
WITHOUT_AXES = {"_linalg_det": "_npi_det", "_linalg_slogdet": "_npi_slogdet"}
#: The order of a function's arrays among the inputs in MXNet, where it is another than here.
INPUT_ORDERS = {
    "insert": ("arr", "values", "obj"),
    "ediff1d": ("ary", "to_begin", "to_end"),
    "average": ("a", "weights"),
    "random.choice": ("a", "p"),
}
