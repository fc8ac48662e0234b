"""Samples of every operator by Triton's interpreter, forward and backward, against eager results.

The first sample of every third operator, and every eighth of the others: that kernels compute what operators mean is a
matter of bodies and loops, which :mod:`tests.lower.triton.test_body` and the classes of kernels go through. All run by
``python benchmarks/gpu/check.py --device interpreter --part operators``, and on a GPU by ``make gpu-check``.
"""

from __future__ import annotations

import pytest

from hybridc.tools.check_op import check_compiled as compiled
from tests.ops.samples import each

pytestmark = pytest.mark.triton


# Operators that are hundreds of steps.
LARGE = ("correlation", "deformable_psroi_pooling", "roi_align", "rnn", "deformable_convolution")


@each(compiled.every_stage_on_every_target, every=8, apart=True, first=3, long=LARGE)
def test_samples(case):
    compiled.compare_on(case, "triton")
