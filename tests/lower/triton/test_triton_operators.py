"""Samples of every operator by Triton's interpreter, forward and backward, against eager results.

The first sample of each operator, and every third of the others: that kernels compute what operators mean is a matter
of bodies and loops, which :mod:`tests.lower.triton.test_body` and the classes of kernels go through. All samples run by
``python benchmarks/gpu/check.py --device interpreter --part operators``, and on a card by ``make gpu-check``.
"""

from __future__ import annotations

import pytest

from hybridc.tools.check_op import compiled
from tests.ops.samples import OURS


def chosen():
    """Some of the cases, by name."""
    check = compiled.every_stage_on_every_target
    cases = [found for cls in OURS.values() for found in check.cases(cls)]
    others = [label for label, _ in cases if not label.endswith("-0")]
    wanted = {label for label, _ in cases if label.endswith("-0")} | {*others[::3]}
    return [pytest.param(case, id=label) for label, case in cases if label in wanted]


@pytest.mark.parametrize("case", chosen())
def test_samples(case):
    compiled.compare_on(case, "triton")
