"""Running the checks of an operator, and the report of their failures."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

from hybridc import library, op
from hybridc.dialects.error_context import user_frames, user_line
from hybridc.dialects.operator import Operator
from hybridc.errors import OperatorCheckError
from hybridc.ground.records import dataclass
from hybridc.tools.check_op import check_compiled as compiled
from hybridc.tools.check_op import contract, derivative, meaning, printed
from hybridc.tools.check_op.case import Case
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


@dataclass(frozen=True)
class Finding:
    """The result of one check: the cases that fail, and the fault of each."""

    check: Check
    cases: int
    wrong: tuple[tuple[str, str], ...]
    remarks: tuple[str, ...]

    def __str__(self) -> str:
        if not self.wrong:
            count = f" ({self.cases} cases)" if self.cases > 1 else ""
            remark = f"; {self.remarks[0]}" if self.remarks else ""
            return f"ok      {self.check.name}{count}{remark}"
        lines = [f"FAILED  {self.check.name} ({len(self.wrong)} of {self.cases})"]
        for label, text in self.wrong:
            lines += [f"        {label}", *(f"          {line}" for line in text.splitlines())]
        return "\n".join(lines)


def find(name: str) -> type[Operator]:
    """The operator called ``mylib.swish`` in the IR, or ``swish`` in mx.nd."""
    return op.get(name)


def findings(cls: type[Operator], checks: Sequence[Check] = CHECKS) -> list[Finding]:
    """The results of the checks that concern the operator."""
    return [found for check in checks if (found := _run(check, cls)).cases]


def _run(check: Check, cls: type[Operator]) -> Finding:
    wrong: list[tuple[str, str]] = []
    remarks: list[str] = []
    try:
        cases = list(check.cases(cls))
    except Exception as error:  # the operator's own samples or attributes may be wrong
        return Finding(check, 1, ((cls.NAME, _describe(error)),), ())
    for label, case in cases:
        try:
            remark = check(case)
        except Exception as error:  # whatever an operator does wrong is a finding
            sample = f" ({case.describe()})" if isinstance(case, Case) else ""
            wrong.append((label + sample, _describe(error)))
        else:
            remarks += [remark] if remark else []
    return Finding(check, len(cases), tuple(wrong), tuple(dict.fromkeys(remarks)))


def _describe(error: Exception) -> str:
    """The text of a failed check; of other errors also their type and the line of the operator's file."""
    if isinstance(error, OperatorCheckError):
        return str(error)
    text = f"{type(error).__name__}: {error}"
    return f"{text}\n  at {user_line(error)}" if user_frames(error) else text


def check_op(name: str) -> None:
    """Raise :class:`OperatorCheckError`, with all that is wrong, unless every check of an operator holds."""
    wrong = [str(found) for found in findings(find(name)) if found.wrong]
    if wrong:
        raise OperatorCheckError("\n".join([f"{name} does not do what it says:", *wrong]))


def print_checks(name: str) -> bool:
    """Check an operator; print a line for each check, and say whether all hold."""
    cls = find(name)
    print(cls.NAME)
    found = findings(cls)
    for each in found:
        print(each)
    return not any(each.wrong for each in found)


def load(module: str) -> None:
    """Import what registers the operators: a file, a package's folder, a compiled library, or a module's name."""
    path = Path(module)
    if path.exists():
        library.load(str(path.resolve()), verbose=False)
    else:
        importlib.import_module(module)
