"""What must hold of an operator, checked: ``python -m hybridc.tools.check_op mylib.swish --module my_ops.py``.

The operator's ``samples`` (with their independent NumPy references) and ``bad_samples`` are all that is needed. Every
line printed is one check: ``ok``, or what was found, in which sample, and what was expected. The tests of the built-in
operators are these checks.
"""

from __future__ import annotations

from hybridc.tools.check_op import check_compiled as compiled
from hybridc.tools.check_op import contract, derivative, meaning, printed
from hybridc.tools.check_op.check_report import Finding, check_op, find, print_checks
from hybridc.tools.check_op.checks import Check

CHECKS: tuple[Check, ...] = (
    contract.name,
    contract.docstring,
    contract.what_its_kind_needs,
    contract.function,
    contract.attributes_are_documented,
    contract.attributes_as_strings,
    contract.samples,
    meaning.values,
    meaning.inferred_shapes_and_types,
    meaning.unknown_sizes,
    meaning.unknown_inputs,
    meaning.inputs_that_are_not_contiguous,
    meaning.inputs_stay_as_they_are,
    meaning.updated_inputs,
    meaning.views,
    meaning.movement,
    meaning.eager_into_given_arrays,
    meaning.in_place,
    meaning.decomposition,
    meaning.special_values,
    meaning.empty_arrays_and_broadcasting,
    derivative.gradient,
    derivative.second_gradient,
    compiled.compiled_forward,
    compiled.compiled_inputs_that_are_not_contiguous,
    compiled.compiled_backward,
    compiled.compiled_training,
    compiled.compiled_special_values,
    compiled.one_kernel_without_host_calls,
    compiled.other_dtypes,
    compiled.every_stage_on_every_target,
    compiled.kernels_by_hand,
    contract.error_text,
    printed.print_and_parse,
)

__all__ = ["CHECKS", "Check", "Finding", "check_op", "find", "print_checks"]
