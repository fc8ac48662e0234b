"""Names of operators, as the lists of mixed precision have them: MXNet's."""

from __future__ import annotations

from collections.abc import Iterable

from hybridc.dialects import operator_registry
from hybridc.dialects.operator import Operator
from hybridc.nd import library as library  # the operators are registered

# In both lists: what is added up, multiplied, compared or joined runs in the widest dtype of its inputs.
WIDEST = """
    _Plus _plus _Minus _sub _Mul _Div _div _Mod _Not_Equal _Equal _equal _Greater _greater _Greater_Equal _greater_equal
    _Lesser _Lesser_Equal _lesser _lesser_equal _Logical_And _Logical_Or _Logical_Xor _logical_and _logical_or
    _logical_xor _maximum _minimum _minus _mod _mul _not_equal Correlation ElementWiseSum add_n batch_dot broadcast_add
    broadcast_plus broadcast_div broadcast_equal broadcast_greater broadcast_greater_equal broadcast_lesser
    broadcast_lesser_equal broadcast_logical_and broadcast_logical_or broadcast_logical_xor broadcast_maximum
    broadcast_minimum broadcast_minus broadcast_mod broadcast_not_equal broadcast_sub dot elemwise_add elemwise_div
    elemwise_mul elemwise_sub stack _Maximum _Minimum _contrib_MultiProposal _contrib_PSROIPooling _contrib_Proposal
    _contrib_ROIAlign _contrib_box_iou _contrib_box_nms _contrib_box_non_maximum_suppression where random_pdf_gamma
    random_pdf_exponential random_pdf_uniform random_pdf_negative_binomial random_pdf_generalized_negative_binomial
    random_pdf_dirichlet random_pdf_normal random_pdf_poisson _random_pdf_gamma _random_pdf_exponential
    _random_pdf_uniform _random_pdf_negative_binomial _random_pdf_generalized_negative_binomial _random_pdf_dirichlet
    _random_pdf_normal _random_pdf_poisson _contrib_dgl_adjacency _contrib_dgl_csr_neighbor_non_uniform_sample
    _contrib_dgl_csr_neighbor_uniform_sample _contrib_dgl_graph_compact _contrib_dgl_subgraph _contrib_edge_id
"""
CONDITIONAL = [("Activation", "act_type", ["softrelu"]), ("LeakyReLU", "act_type", ["elu", "selu"])]
LOSSES = ["SoftmaxOutput", "LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput"]


def known(names: str) -> list[str]:
    """Of these words, the names of operators that there are."""
    return [name for name in names.split() if operator_registry.of_mxnet(name) is not None]


def remaining(*lists: Iterable[str]) -> list[str]:
    """The names of all operators that are in none of these lists; casts of mixed precision are in no list."""
    taken = {operator_registry.of_mxnet(name) for names in lists for name in names}
    found = {_name(name) for name, cls in operator_registry.functions().items() if not cls.AMP and cls not in taken}
    return sorted(found)


def _name(function: str) -> str:
    return f"_{function.replace('.', '_')}" if "." in function else function


def classes(names: Iterable[str]) -> list[type[Operator]]:
    """The operators of these names, but for those that are unknown here."""
    return [cls for cls in map(operator_registry.of_mxnet, names) if cls is not None]
