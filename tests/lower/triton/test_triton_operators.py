"""Every sample of every operator by Triton's interpreter, forward and backward, against eager results."""

from __future__ import annotations

from hybridc.tools.check_op import compiled
from tests.ops.samples import each


@each(compiled.every_stage_on_every_target)
def test_every_sample(case):
    compiled.compare_on(case, "triton")
