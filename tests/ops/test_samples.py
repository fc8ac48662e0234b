"""Every operator against its samples: values, gradients, memory, inference, decomposition, error texts."""

from __future__ import annotations

from hybridc.tools.check_op import contract, derivative, meaning
from tests.ops.samples import each

# First derivatives only, and why.
ONCE = {
    "gamma": "needs the derivative of digamma",
    "gammaln": "needs the derivative of digamma",
    **{
        f"random_pdf_{of}": "is an expression of gammaln"
        for of in ("gamma", "negative_binomial", "generalized_negative_binomial", "dirichlet")
    },
    "ctc_loss": "needs sums over pairs of steps",
}


@each(meaning.values)
def test_values(case):
    meaning.values(case)


@each(meaning.inferred_shapes_and_types)
def test_inferred_shapes_and_types(case):
    meaning.inferred_shapes_and_types(case)


@each(meaning.unknown_sizes)
def test_unknown_sizes(case):
    meaning.unknown_sizes(case)


@each(meaning.unknown_inputs)
def test_unknown_inputs(case):
    meaning.unknown_inputs(case)


@each(meaning.inputs_that_are_not_contiguous)
def test_inputs_that_are_not_contiguous(case):
    meaning.inputs_that_are_not_contiguous(case)


@each(meaning.inputs_stay_as_they_are)
def test_inputs_stay_as_they_are(case):
    meaning.inputs_stay_as_they_are(case)


@each(meaning.views)
def test_views(case):
    meaning.views(case)


@each(meaning.eager_into_given_arrays)
def test_eager_into_given_arrays(case):
    meaning.eager_into_given_arrays(case)


@each(meaning.in_place)
def test_in_place(case):
    meaning.in_place(case)


@each(meaning.decomposition)
def test_decomposition(case):
    meaning.decomposition(case)


@each(meaning.special_values)
def test_fast_path_agrees_with_scalar_body_on_special_values(case):
    meaning.special_values(case)


@each(meaning.empty_arrays_and_broadcasting)
def test_empty_arrays_and_broadcasting(case):
    meaning.empty_arrays_and_broadcasting(case)


@each(derivative.gradient, long=("rnn", "deformable"))
def test_gradient(case):
    derivative.gradient(case)


@each(derivative.second_gradient, long=("rnn",))
def test_second_gradient(case):
    remark = derivative.second_gradient(case)
    assert remark is None or case.call.rpartition("-")[0] in ONCE


@each(contract.error_text)
def test_error_text(case):
    contract.error_text(case)
