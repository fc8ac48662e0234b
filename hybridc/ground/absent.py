"""Errors for MXNet names that are missing here: what they are in MXNet, what to use instead, or similar names."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

# What hybridc lacks of MXNet: a pattern of names, what they are, and the way out.
_FAMILIES = [
    (r"BatchNorm_v1", "this kind of batch normalization", "; BatchNorm is here"),
    (r"mod|module|Module|BucketingModule", "the Module API",
     "; sym.bind(…) gives an executor, gluon.SymbolBlock(sym, inputs) a block"),
    (r"monitor|mon|Monitor", "monitors", "; executor.set_monitor_callback and mx.viz.print_summary are here"),
    (r"rtc", "kernels in CUDA", "; mx.op and mx.library.load are here"),
    (r"sparse|cast_storage|csr_matrix|row_sparse_array|list_row_sparse_data|row_sparse_data",
     "sparse storage", "; use dense arrays"),
    (r"np|npx|numpy|numpy_extension|is_np_array|is_np_shape|set_np|reset_np|use_np\w*|np_array|np_shape|set_np_shape",
     "the mx.np interface", "; use mx.nd"),
    (r"rtc", "CUDA code compiled at run time", "; mx.library, mx.operator.CustomOp and mx.op are here"),
    (r"(multi_|mp_|preloaded_)*\w+_update(_phase[12])?|multi_lars", "optimizers as operators", "; use mx.optimizer"),
    (r"LBSGD|FTML|DCASGD|SGLD", "this optimizer", ""),
    (r"det|slogdet|inverse|potrf|potri|trmm|trsm|gelqf|syevd|sumlogdiag|(extract|make)(diag|trian)|linalg_\w+",
     "this part of linear algebra", "; mx.nd.linalg.gemm2 is here"),
    (r"random_pdf_\w+", "densities of distributions", ""),
    (r"quantize\w*|quantized_\w+|dequantize|requantize", "quantization", ""),
    (r"SDMLLoss", "this loss", ""),
    (r"(CSV|LibSVM|MNIST|ImageDetRecord)\w*Iter(_v1)?|MXDataIter", "this iterator",
     "; mx.io.ImageRecordIter, mx.io.NDArrayIter, mx.image.ImageDetIter and gluon.data are here"),
    (r"download", "downloading of data and models", ""),
    (r"kv|kvstore|KVStore|engine|contrib|callback|runtime|onnx", "this namespace of MXNet", ""),
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
