"""Random kernels as NumPy runs them, against the meaning of the structured form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridc.ir.structured import shape_of
from hybridc.transforms.schedules.arrays import schedule_arrays
from hybridc.transforms.schedules.arrays.schedule_arrays import ArrayMachine
from tests.lower.evaluate import Evaluator
from tests.lower.kernels import compiled, parse
from tests.lower.write_kernel import kernels as random_kernels
from tests.slices import tries


@settings(max_examples=tries(100), deadline=None)
@given(text=random_kernels(), size=st.sampled_from([None, 1, 2, 4, 7, 20]), threads=st.sampled_from([1, 2]))
def test_random_kernels(text, size, threads):
    module = parse(text)
    evaluator = Evaluator(module)
    rng = np.random.default_rng(0)
    function = evaluator.functions["kernel"]
    arrays = [rng.uniform(-2, 2, shape_of(a)) for a in function.body.block.args]
    want = evaluator.call("kernel", *arrays)
    with pytest.MonkeyPatch.context() as patch:
        if size is not None:
            patch.setattr(schedule_arrays, "MACHINE", ArrayMachine(size, size, parallel_elements=size))
        printer, run_kernel = compiled(function, threads)
    for pairs in ((), *[(pair,) for pair in printer.code.inplace_pairs()]):
        got = run_kernel(*[x.copy() for x in arrays], inplace=pairs)
        for y, w in zip(got, want, strict=True):
            np.testing.assert_allclose(y, w, rtol=1e-12, atol=1e-12, err_msg=f"{pairs}\n{printer.source()}")
