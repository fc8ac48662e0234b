"""Errors for MXNet names that are missing here: what they are in MXNet, what to use instead, or similar names."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

# What hybridc lacks of MXNet: a pattern of names, what they are, and the way out.
_FAMILIES = [
    (r"sparse|csr_matrix|row_sparse_array|list_row_sparse_data|row_sparse_data",
     "sparse storage", "; use dense arrays"),
    (r"np|npx|numpy|numpy_extension|is_np_array|is_np_shape|set_np|reset_np|use_np\w*|np_array|np_shape|set_np_shape",
     "the mx.np interface", "; use mx.nd"),
    (r"quantized_rnn", "this quantized operator", "; RNN on real numbers is here"),
    (r"profiler|runtime", "this namespace of MXNet", ""),
    (r"import_model|import_to_gluon|get_model_metadata|export_model|onnx2mx|mx2onnx|import_model_|export_model_",
     "files of ONNX", "; export() of a block writes MXNet's files, SymbolBlock.imports reads them"),
    (r"svrg_optimization|SVRG\w*", "this optimization", ""),
    (r"getnnz|edge_id|dgl_\w+|SparseEmbedding", "sparse storage", "; use dense arrays, and Embedding"),
    (r"imdecode|imresize", "this operator", "; mx.image has functions of this name"),
]  # fmt: skip


def absent(owner: str, name: str, kind: str, known: Iterable[str]) -> AttributeError:
    """``owner has no <kind> 'name'``, with what it is in MXNet, or similar names out of ``known``."""
    text = f"{owner} has no {kind} {name!r}"
    if name.startswith("_"):
        return AttributeError(text)
    for pattern, family, remedy in _FAMILIES:
        if re.fullmatch(pattern, name):
            return AttributeError(f"{text}: this version of hybridc does not have {family}{remedy}")
    near = difflib.get_close_matches(name, [n for n in known if not n.startswith("_")], n=3)
    return AttributeError(f"{text}; did you mean {', '.join(near)}?" if near else text)
