"""What every operator class must have."""

from __future__ import annotations

import numpy as np
import pytest

from hybridc.array.functions import function
from hybridc.compile.definitions import is_own
from hybridc.dialects.operator_registry import functions
from hybridc.errors import OperatorCheckError
from hybridc.tools.check_op import contract
from tests.ops.samples import OURS, each
from tests.slices import each_in

# Operators without samples, and what tests them.
NO_SAMPLES: dict[str, str] = {
    "hybrid.uniform_sample": "random: tests/ops/test_dropout.py",
    "hybrid._ctc_paths": "what ctc_loss is computed by: tests/ops/test_ctc.py",
    "hybrid._ctc_occupancy": "what its gradient is computed by: tests/ops/test_ctc.py",
    "hybrid._hawkes_likelihood": "what hawkesll is computed by: tests/ops/test_hawkes.py",
    "hybrid._hawkes_slopes": "what its gradient is computed by: tests/ops/test_hawkes.py",
    "hybrid.boolean_mask": "its shape depends on values: tests/nd/test_ndarray.py",
    "hybrid.loop": "traced control flow makes it: tests/gluon/test_loops.py",
    "hybrid.while_loop": "traced control flow makes it: tests/gluon/test_loops.py",
    "hybrid.cond": "traced control flow makes it: tests/gluon/test_loops.py",
    "hybrid._equal_layer": "the compiler makes it: tests/trace/test_equal_layers.py",
    "hybrid._numpy_call": "composed symbols make it: tests/np/test_np_symbols.py",
    "hybrid.dgl_subgraph": "its results are csr: tests/sparse/test_golden_sparse.py",
    "hybrid.dgl_graph_compact": "its results are csr: tests/sparse/test_golden_sparse.py",
    "hybrid.dgl_csr_neighbor_uniform_sample": "random: tests/sparse/test_golden_sparse.py",
    "hybrid.dgl_csr_neighbor_non_uniform_sample": "random: tests/sparse/test_golden_sparse.py",
    "hybrid.subgraph": "it is what a graph's part is: tests/subgraph",
    "hybrid.custom": "it is what the user's CustomOp is: tests/operator",
    "hybrid.stateful_backward": "it is what the user's operator is: tests/operator",
    "hybrid.custom_backward": "it is what the user's CustomOp is: tests/operator",
}
RANDOM = ("hybridc.dialects.math.random_ops", "hybridc.dialects.math.random_choice")
NO_SAMPLES |= {name: "tests/nd/test_random.py" for name, cls in OURS.items() if cls.__module__ in RANDOM}


@each(contract.name)
def test_name(case):
    contract.name(case)


def test_a_class_is_the_variable_of_its_name_in_its_module():
    assert [cls for cls in OURS.values() if not is_own(cls)] == []


@each(contract.docstring)
def test_docstring_says_what_it_computes(case):
    contract.docstring(case)


@each(contract.attributes_are_documented)
def test_attributes_are_documented(case):
    contract.attributes_are_documented(case)


@each(contract.what_its_kind_needs)
def test_has_what_its_kind_needs(case):
    contract.what_its_kind_needs(case)


@each(contract.samples)
def test_samples(case):
    if case.NAME in NO_SAMPLES:
        with pytest.raises(OperatorCheckError, match="samples"):
            contract.samples(case)
    else:
        contract.samples(case)


@each_in("name", {"all": {name: name for name, cls in functions().items() if cls in OURS.values()}})
def test_function(name):
    made = function(name)
    assert made.__doc__
    assert callable(made)


@each(contract.attributes_as_strings)
def test_attributes_as_strings(case):
    contract.attributes_as_strings(case)


@each(contract.samples)
def test_references_are_of_another_source(case):
    """A function of NumPy's or SciPy's, which the operator may call itself, would agree with it always."""
    assert not any(isinstance(sample.reference, np.ufunc) for sample in case.samples())
