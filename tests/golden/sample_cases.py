"""Symbol files of the samples of every operator, for MXNet to read: with what a sample gives, and with all defaults."""

from __future__ import annotations

import hashlib

import numpy as np

from .symbol_cases import compact

# What the files may have that MXNet lacks: operators that only the compiler makes, and a few of hybridc alone.
_LACKING = """
    _adaptive_roi_align _adaptive_roi_align_scatter _allreduce _await _eig _image_random_crop
    _image_random_resized_crop _inverse_or_zero _keep_where_equal _last_steps _lstsq _pinv _psroi_pooling_scatter
    _resize_on_host _solve _start_allgather _start_allreduce _start_reduce_scatter _svd _triangle _weighted_rows
    band_first band_sum band_weight contract convolution_data convolution_weight cumprod diag_scatter digamma exp2
    floor_divide fmax fmin fmod frexp gcd heaviside left_shift logaddexp matmul nan_to pick_scatter resample
    right_shift rows_scatter scatter_along_axis slice_scatter sum_to take_along_axis take_scatter window_count
    window_max window_pick window_place window_spread window_spread_at window_sum windows windows_add
"""
# Operators of which a sample has shapes or values that MXNet refuses, or from which it infers no shapes.
_REFUSED = """
    arange broadcast_to count_sketch fill_element_0index image_crop image_flip_left_right image_flip_top_bottom
    image_normalize image_random_contrast multi_adamw_update multi_lamb_update multi_mp_adamw_update
    multi_mp_lamb_update multi_mp_sgd_mom_update multi_mp_sgd_update multi_sgd_mom_update multi_sgd_update ones pad
    pooling preloaded_multi_mp_sgd_mom_update preloaded_multi_mp_sgd_update preloaded_multi_sgd_mom_update
    preloaded_multi_sgd_update slice_axis transpose where
"""
LACKING, REFUSED = set(_LACKING.split()), set(_REFUSED.split())
# COMPAT(mxnet): the shape of an index of two axes is not the one of its result there.
OTHER_SHAPES = {"unravel_index"}


def written(mx):
    """The files, whose variables have shapes, by the operator's name and the number of the sample."""
    from hybridc.dialects.operator_registry import operators

    found, seen = {}, set()
    for name, cls in sorted(operators().items()):
        if not name.startswith("hybrid."):
            continue
        for i, sample in enumerate(cls.samples()):
            shapes = [x if isinstance(x, tuple) else np.shape(x) for x in sample.inputs]
            if any(len(s) == 0 or 0 in s for s in shapes):  # MXNet takes them for unknown
                continue
            if not cls.bind(**sample.attrs).num_visible_outputs():
                continue
            for case, given in (("", sample.attrs), (" with defaults", all_given(cls, sample.attrs))):
                text = file_of(mx, cls, sample.attrs, given, shapes)
                if text not in seen:
                    seen.add(text)
                    found[f"{name.partition('.')[2]} {i}{case}"] = text
    return found


def all_given(cls, attrs):
    """All attributes of an operator: those of a sample and the defaults of the others."""
    from hybridc.dialects.operator_attribute import REQUIRED

    return {**{n: a.default for n, a in cls.ATTRIBUTES.items() if a.default is not REQUIRED}, **attrs}


def file_of(mx, cls, attrs, given, shapes):
    """The file of an operator on variables, as a call with the attributes ``given`` makes it."""
    from hybridc.symbol.composed import COMPOSER

    op = cls.bind(**attrs).undecided()
    names = [n for n in op.input_names() if not (op.DRAWS and n == "key")]
    if op.VARIADIC:
        names = [f"arg{i}" for i in range(len(shapes))]
    inputs = [mx.sym.var(n, shape=s) for n, s in zip(names, shapes)]
    with mx.name.NameManager(), COMPOSER.active(), COMPOSER.naming("y", "y", {}, given):
        return compact(COMPOSER.invoke(op, inputs).tojson(remove_amp_cast=False))


def digest(text):
    """What tells that MXNet's answer is for this file."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def answer(mx, text):
    """The shapes of the results in MXNet or hybridc; None if they do not follow."""
    found = mx.sym.load_json(text).infer_shape()[1]
    return None if found is None else [list(s) for s in found]
