"""PSROIPooling, DeformablePSROIPooling and RROIAlign beside MXNet 1.9.1, eagerly and hybridized."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc.gluon import nn
from tests.golden.roi_cases import CASES, DATA, run

GOLDEN = Path(__file__).parent / "golden" / "roi.npz"


@pytest.mark.parametrize("name", CASES)
def test_as_in_mxnet(name):
    found = run(mx, CASES[name])
    with np.load(GOLDEN) as golden:
        assert {f"{name}.{k}" for k in found} == {k for k in golden.files if k.startswith(f"{name}.")}
        for key, value in found.items():
            np.testing.assert_allclose(value, golden[f"{name}.{key}"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["psroi", "rroi", "still"])
def test_hybridized(name):
    operator, rois, attributes = CASES[name]
    net = nn.HybridLambda(lambda F, x, rois: getattr(F.contrib, operator)(x * 1.0, rois, **attributes))
    net.hybridize()
    out = net(mx.nd.array(DATA), mx.nd.array(rois)).asnumpy()
    with np.load(GOLDEN) as golden:
        np.testing.assert_allclose(out, golden[f"{name}.out"], rtol=1e-4, atol=1e-5)
