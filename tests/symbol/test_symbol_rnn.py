"""Programs with ``mx.rnn`` give what MXNet 1.9.1 gave (tests/golden/make_symbol_rnn.py)."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc.errors import MXNetError

GOLDEN = Path(__file__).parent.parent / "golden"
sys.path.insert(0, str(GOLDEN))

from loop_symbol_cases import results  # noqa: E402
from programs import Recorded  # noqa: E402
from symbol_rnn_cases import CASES, SHAPES, SYMBOLS  # noqa: E402

RECORDED = Recorded("symbol_rnn")


@pytest.mark.parametrize("name", CASES)
def test_same_as_mxnet(name):
    RECORDED.assert_same(name, CASES[name](mx))


@pytest.mark.parametrize("name", RECORDED.values["files"])
def test_files_of_mxnet(name):
    symbol = mx.sym.load_json(RECORDED.values["files"][name])
    internals = symbol.get_internals().list_outputs()
    RECORDED.assert_same(name, {"internals": internals, **results(mx, symbol, SYMBOLS[name][1], SHAPES)})
