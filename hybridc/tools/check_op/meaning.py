"""Checks of what an operator computes eagerly: values, shapes and dtypes, memory, decomposition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from hybridc import nd
from hybridc.array.ndarray import NDArray
from hybridc.dialects.error_context import pair
from hybridc.dialects.movement import NUMPY_MOVES
from hybridc.dialects.operator import Elementwise, Movement, Operator
from hybridc.dialects.scalar import NUMPY
from hybridc.errors import MXNetError
from hybridc.ground.nesting import as_list
from hybridc.tools.check_op.case import (
    SPECIAL,
    Array,
    Case,
    Found,
    all_close,
    close,
    each_dtype,
    each_elementwise,
    each_sample,
    eager,
    equal,
    input_name,
    keyed,
    ndarrays,
    require,
    run,
    where,
    within,
)
from hybridc.tools.check_op.checks import check


@check(each_dtype)
def values(case: Case) -> None:
    """The results are those of the sample's reference."""
    arrays = case.arrays()
    want = case.reference(arrays)
    got = run(case.operator(), ndarrays(arrays))
    all_close(got, want, case.dtype)


@check(each_dtype)
def inferred_shapes_and_types(case: Case) -> None:
    """Inference says what the eager results are."""
    op = case.operator()
    given = case.arrays()
    got = eager(op, given)
    arrays = keyed(op, given)
    shapes, dtypes = [x.shape for x in arrays], [x.dtype for x in arrays]
    in_shapes, out_shapes = pair(op, "infer_shape", op.infer_shape(list(shapes)), len(arrays))
    in_types, out_types = pair(op, "infer_type", op.infer_type(list(dtypes)), len(arrays))
    equal(len(got), op.num_outputs(), "number of results (of which num_outputs() tells)")
    equal(list(in_shapes), shapes, "shapes of inputs, by infer_shape")
    equal(list(out_shapes), [y.shape for y in got], "shapes of results, by infer_shape")
    equal(list(in_types), dtypes, "dtypes of inputs, by infer_type")
    equal(list(out_types), [y.dtype for y in got], "dtypes of results, by infer_type")


@check(each_sample)
def unknown_sizes(case: Case) -> None:
    """Where an input's sizes are not known (-1), inference fills in sizes that it takes itself, or leaves -1."""
    op = case.operator()
    shapes = [x.shape for x in keyed(op, case.arrays())]
    for i in range(len(case.sample.inputs)):
        given = [tuple(-1 for _ in s) if j == i else s for j, s in enumerate(shapes)]
        _require_consistent(op, given, shapes, f"infer_shape with the sizes of input {input_name(op, i)} unknown")


@check(each_sample)
def unknown_inputs(case: Case) -> None:
    """Inference that fills in an unknown input leads to the right results."""
    op = case.operator()
    arrays = keyed(op, case.arrays())
    shapes, dtypes = [x.shape for x in arrays], [x.dtype for x in arrays]
    results = op.infer_shape(list(shapes))[1][: op.num_visible_outputs()]
    for i in range(len(case.sample.inputs)):
        given = [None if j == i else s for j, s in enumerate(shapes)]
        completed = op.complete_shapes(given, list(results))
        if None not in completed:
            what = f"complete_shapes with input {input_name(op, i)} unknown"
            _require_consistent(op, [s for s in completed if s is not None], shapes, what)
        dtype = op.complete_types([None if j == i else d for j, d in enumerate(dtypes)])[i]
        if dtype is not None and op.SAME_DTYPE:
            equal(dtype, dtypes[i], f"complete_types with input {input_name(op, i)} unknown")


def _require_consistent(op: Operator, given: list[Any], true: list[Any], what: str) -> None:
    """Inference accepts the shapes and dtypes that it fills in, and gives the same results for them."""
    try:
        filled, found = op.infer_shape(list(given))
    except MXNetError:  # a clear refusal is an answer too
        return
    if any(-1 in s for s in filled):
        return
    again, wanted = op.infer_shape(list(filled))
    equal(list(again), list(filled), f"{what}: shapes of the inputs, inferred again")
    equal(list(found), list(wanted), f"{what}: shapes of the results")
    if filled == true:
        equal(list(found), list(op.infer_shape(list(true))[1]), f"{what}: shapes of the results")


@check(each_sample)
def inputs_that_are_not_contiguous(case: Case) -> None:
    """Results do not depend on the inputs' memory layout."""
    op = case.operator()
    arrays = case.arrays()
    want = eager(op, arrays)
    for layout in (_transposed, _strided, _reversed_in_memory):
        what = f"result for {layout.__name__.strip('_').replace('_', ' ')} inputs"
        all_close(eager(op, [layout(x) for x in arrays]), want, case.dtype, what=what)


def _transposed(x: Array) -> Array:
    """The same values with the axes in the opposite order in memory."""
    return np.array(x.T, order="C").T


def _strided(x: Array) -> Array:
    """The same values, every second element of a larger array that holds nan or junk between them."""
    wide = np.full([2 * n for n in x.shape], np.nan if x.dtype.kind == "f" else 1).astype(x.dtype)
    view = wide[(..., *(slice(1, None, 2) for _ in x.shape))]
    view[...] = x
    return view


def _reversed_in_memory(x: Array) -> Array:
    """The same values with negative strides."""
    back = (slice(None, None, -1),) * x.ndim
    return np.array(x[(..., *back)], order="C")[(..., *back)]


@check(each_sample)
def inputs_stay_as_they_are(case: Case) -> None:
    """``eager`` changes no input, and returns no memory of an input unless it is a movement."""
    op = case.operator()
    arrays = case.arrays()
    before = [x.copy() for x in arrays]
    results = eager(op, arrays)
    for i, (x, b) in enumerate(zip(arrays, before, strict=True)):
        what = f"eager changed its input {input_name(op, i)}, which it must not; an updated input is a new result"
        require(np.array_equal(x, b, equal_nan=x.dtype.kind == "f"), what)
    for y in results:
        shared = not y.dtype.hasobject and any(np.shares_memory(y, x) for x in arrays)
        require(isinstance(op, Movement) or not shared, "a result of eager shares memory with an input; copy it")


@check(where(each_sample, lambda case: bool(case.operator().mutated)))
def updated_inputs(case: Case) -> None:
    """An input that the operator updates holds the new value after a call; no other input changes."""
    op = case.operator()
    arrays = case.arrays()
    results = eager(op, arrays)
    updates = dict(zip(op.mutated, results[len(results) - len(op.mutated) :], strict=True))
    inputs = ndarrays(arrays)
    run(op, inputs)
    for i, (x, array) in enumerate(zip(inputs, arrays, strict=True)):
        what = f"input {input_name(op, i)} after a call"
        close(x.asnumpy(), updates.get(i, array), case.dtype, what=what)


@check(where(each_sample, lambda case: issubclass(case.cls, Movement)))
def views(case: Case) -> None:
    """A movement that says it is a view is one."""
    op = case.operator()
    arrays = case.arrays()
    result = eager(op, arrays)[0]
    says = getattr(op, "is_view")()  # noqa: B009 - only Movement has it
    if says and result.size:
        require(np.shares_memory(result, arrays[0]), "is_view() is True, but eager copies its input")


@check(where(each_sample, lambda case: case.cls.move is not Operator.move))
def movement(case: Case) -> None:
    """``move``, run on NumPy, gives what ``eager`` gives: to the bit, for elements only change their place."""
    op = case.operator()
    arrays = case.arrays()
    made: Any = op.move(NUMPY_MOVES, *arrays)
    if made is None:  # for these attributes only the host can
        return
    want = eager(op, arrays)
    for y, w in zip(as_list(made), want, strict=True):
        equal(y.dtype, w.dtype, "dtype of what move makes")
        equal(y.shape, w.shape, "shape of what move makes")
        within(y, w, 0.0, 0.0, "result of move")


@check(each_sample)
def eager_into_given_arrays(case: Case) -> None:
    """``eager_out`` writes what ``eager`` returns."""
    op = case.operator()
    given = case.arrays()
    want = eager(op, given)
    outs = [np.empty_like(w) for w in want]
    with np.errstate(all="ignore"):
        op.eager_out(outs, *keyed(op, given))
    all_close(outs, want, case.dtype, what="result of eager_out")


def _inplace_pairs(case: Case) -> list[tuple[int, int]]:
    """The declared pairs of an input and a result that are alike in shape and dtype."""
    op = case.operator()
    arrays = case.arrays()
    results = eager(op, arrays)
    for i, j in op.INPLACE:
        require(i >= 0 and 0 <= j < len(results), f"INPLACE names the pair {(i, j)}, which does not exist")
    inside = [(i, j) for i, j in op.INPLACE if i < len(arrays)]
    return [(i, j) for i, j in inside if arrays[i].shape == results[j].shape and arrays[i].dtype == results[j].dtype]


@check(where(each_sample, lambda case: bool(case.operator().INPLACE)))
def in_place(case: Case) -> None:
    """Written into the memory of an input, where INPLACE allows that, the results are the same."""
    op = case.operator()
    for i, j in _inplace_pairs(case):
        given = case.arrays()
        want = eager(op, [x.copy() for x in given])
        outs = [given[i] if k == j else np.empty_like(w) for k, w in enumerate(want)]
        with np.errstate(all="ignore"):
            op.eager_out(outs, *keyed(op, given))
        all_close(outs, want, case.dtype, what=f"result with output {j} in the memory of input {input_name(op, i)}")


def each_decomposing(cls: type[Operator]) -> Iterable[Found]:
    """Samples, dtypes and modes in which the operator decomposes."""
    for label, case in each_dtype(cls):
        for training in sorted({False, cls.TRAIN_MODE}):
            made = Case(cls, case.call, case.sample, case.dtype, training)
            if made.operator().decomposes():
                yield f"{label}-{training}", made


@check(each_decomposing)
def decomposition(case: Case) -> None:
    """``decompose`` gives what ``eager`` gives."""
    op = case.operator()
    arrays = case.arrays()
    with np.errstate(all="ignore"):
        made = as_list(op.expanded(nd, *[NDArray(x) for x in keyed(op, arrays)]))
    want = eager(op, arrays)
    equal([y.asnumpy().dtype for y in made], [w.dtype for w in want], "dtypes of the decomposition's results")
    all_close(made, want, case.dtype, what="result of decompose")


def each_special(cls: type[Operator]) -> Iterable[Found]:
    """Samples of elementwise operators in the dtypes that hold nan and infinity."""
    for label, case in each_elementwise(cls):
        for dtype in ("float32", "float64"):
            yield f"{label}-{dtype}", Case(cls, case.call, case.sample, dtype)


@check(each_special)
def special_values(case: Case) -> None:
    """A faster ``eager`` agrees with the scalar body also on nan, infinity and signed zeros."""
    op = case.operator()
    assert isinstance(op, Elementwise)
    arrays = [g.astype(case.dtype) for g in np.meshgrid(*[SPECIAL] * len(case.sample.inputs))]
    (got,) = eager(op, arrays)
    with np.errstate(all="ignore"):
        want = np.broadcast_to(op.scalar(NUMPY, *arrays), got.shape)
    close(got, want.astype(got.dtype), case.dtype, what="result of eager, against the scalar body")


@check(where(each_elementwise, lambda case: case.call.endswith("-0")))
def empty_arrays_and_broadcasting(case: Case) -> None:
    """Empty arrays give empty results; broadcast inputs count as the arrays they broadcast to."""
    op = case.operator()
    count = len(case.sample.inputs)
    rng = np.random.default_rng(2)
    low, high = case.sample.low, case.sample.high
    for shape in ((0,), (3, 0), (1, 1)):
        (got,) = eager(op, [np.full(shape, low, case.dtype)] * count)
        equal(got.shape, shape, f"shape of the result for inputs of shape {shape}")
    for axis in range(min(count, 2) if count > 1 else 0):
        arrays = [rng.uniform(low, high, (3, 4)).astype(case.dtype) for _ in range(count)]
        arrays[axis] = arrays[axis].take([0], axis=axis)
        if not _broadcasts(op, [x.shape for x in arrays]):
            continue
        (got,) = eager(op, arrays)
        (want,) = eager(op, [np.broadcast_to(x, (3, 4)).copy() for x in arrays])
        close(got, want, case.dtype, what=f"result with input {input_name(op, axis)} broadcast")


def _broadcasts(op: Operator, shapes: list[Any]) -> bool:
    """Whether the operator takes these shapes: some want equal ones."""
    try:
        op.infer_shape(shapes)
    except MXNetError:
        return False
    return True
