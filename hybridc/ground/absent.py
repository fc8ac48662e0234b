"""Errors for MXNet names that are missing here: what they are in MXNet, what to use instead, or similar names."""

from __future__ import annotations

import difflib
import opcode
import re
import sys
from collections.abc import Iterable

from hybridc.errors import AbsentError, AbsentImportError

# What hybridc lacks of MXNet: a pattern of names, what they are, and the way out.
_FAMILIES = [
    (r"BatchNorm_v1", "this kind of batch normalization", "; BatchNorm is here"),
    (r"mod|module|Module|BucketingModule", "the Module API",
     "; sym.bind(…) gives an executor, gluon.SymbolBlock(sym, inputs) a block"),
    (r"monitor|mon|Monitor", "monitors", "; executor.set_monitor_callback and mx.viz.print_summary are here"),
    (r"sparse|cast_storage|csr_matrix|row_sparse_array|list_row_sparse_data|row_sparse_data",
     "sparse storage", "; use dense arrays"),
    (r"np_symbol|numpy_\w+|set_np|reset_np", "the mx.np interface", "; use mx.nd"),
    (r"th|torch", "functions of Torch for Lua", "; mx.nd.from_dlpack takes tensors of PyTorch"),
    (r"tvmop|api", "MXNet's second interface to C", "; its functions are those of mx.nd"),
    (r"notebook", "charts of training in notebooks", "; mx.callback has what is called after each batch and epoch"),
    (r"executor_manager", "the executors of several devices for FeedForward", "; gluon.utils.split_and_load is here"),
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
    (r"kv|kvstore|KVStore|profiler|engine|contrib|callback|runtime|onnx", "this namespace of MXNet", ""),
    (r"imdecode|imresize", "this operator", "; mx.image has functions of this name"),
]  # fmt: skip


def absent(
    owner: str, name: str, kind: str, known: Iterable[str], family: tuple[str, str] | None = None
) -> AttributeError | ImportError:
    """``owner has no <kind> 'name'``, with what it is in MXNet, or similar names out of ``known``.

    ``family`` is what all names of the owner are, and the way out. It is an ImportError if the module's
    ``__getattr__``, which asks for it, runs in a statement ``from owner import name``: Python would drop the text of an
    AttributeError.
    """
    text = f"{owner} has no {kind} {name!r}"
    if name.startswith("__"):
        return AttributeError(text)
    if not name.startswith("_"):
        text += _explanation(name, known, family)
    return AbsentImportError(text) if _imported() else AbsentError(text)


def _explanation(name: str, known: Iterable[str], family: tuple[str, str] | None) -> str:
    """What the name is in MXNet, or similar names."""
    found = next(((what, way) for pattern, what, way in _FAMILIES if re.fullmatch(pattern, name)), family)
    if found is not None:
        what, way = found
        return f": this version of hybridc does not have {what}{way}"
    near = difflib.get_close_matches(name, [n for n in known if not n.startswith("_")], n=3)
    return f"; did you mean {', '.join(near)}?" if near else ""


def _imported() -> bool:
    """Whether the code outside of hybridc that is running runs a statement ``from … import``."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "hybridc":
        frame = frame.f_back
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == opcode.opmap["IMPORT_FROM"]
