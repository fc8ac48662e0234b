"""Signs of zeros, infinities and nan of scalar operators: MXNet 1.9.1's, eagerly and on the targets for the CPU."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import hybridc as mx
from hybridc.gluon.nn import HybridLambda

GOLDEN = Path(__file__).parents[1] / "golden"
sys.path.insert(0, str(GOLDEN))

import zero_cases  # noqa: E402

MXNET = json.loads((GOLDEN / "zeros.json").read_text())
# What differs on purpose: nan stays nan, SciPy's log|gamma| of minus infinity; and for LLVM 0.0 is greater than -0.0.
OTHERS = {"sign": {"nan": ("nan", "+0")}, "gammaln": {"-inf": ("-inf", "+inf")}}
ORDERED = ("broadcast_maximum", "broadcast_minimum", "max", "min", "clip")


def results(function, arrays):
    """What an operator gives, by how it runs."""
    block, given = HybridLambda(function), [mx.nd.array(x) for x in arrays]
    yield "eager", block(*given).asnumpy()
    traced = block.trace(*given).optimize()
    for target in ("llvm", "numpy"):
        yield target, traced.lower(target).compile().forward(*arrays)[0]


@pytest.mark.parametrize("name", zero_cases.CASES)
def test_signs_are_those_of_mxnet(name):
    arrays, wanted = zero_cases.inputs(name), MXNET[name].split()
    known, others = OTHERS.get(name, {}), {}
    for kind, result in results(zero_cases.CASES[name], arrays):
        for *given, mine, theirs in zip(*arrays, zero_cases.noted(result), wanted, strict=True):
            text = ", ".join(str(float(x)) for x in given)
            is_ordered = kind == "llvm" and name.split()[0] in ORDERED and {mine, theirs} == {"+0", "-0"}
            if mine != theirs and not is_ordered and known.get(text) != (mine, theirs):
                others[f"{kind}: {text}"] = mine, theirs
    assert others == {}
