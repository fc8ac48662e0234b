"""Programs with sparse arrays give what MXNet gives: storage types, parts, values, gradients, updated weights."""

from __future__ import annotations

import pytest

import hybridc as mx
from tests.golden.programs import Recorded
from tests.golden.sparse_cases import CASES

RECORDED = Recorded("sparse")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore:.*dense copies")
def test_as_in_mxnet(case):
    RECORDED.assert_same(case, CASES[case](mx))
