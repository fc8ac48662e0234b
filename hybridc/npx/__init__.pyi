# Written by python -m hybridc.stubs; do not edit.
# pyright: reportUnusedImport=false
import functools
from collections.abc import Callable as Callable
from typing import Any as Any
from hybridc import nd as nd
from hybridc.array.functions import function as function
from hybridc.array.numpy_array import as_numpy as as_numpy
from hybridc.context import Context as Context
from hybridc.context import cpu as cpu
from hybridc.context import cpu_pinned as cpu_pinned
from hybridc.context import current_context as current_context
from hybridc.context import gpu as gpu
from hybridc.context import gpu_memory_info as gpu_memory_info
from hybridc.context import num_gpus as num_gpus
from hybridc.dialects import operator_registry as operator_registry
from hybridc.ground.absent import absent as _absent
from hybridc.npx import image_functions as image
from hybridc.npx import random as random
from hybridc.npx.random import seed as seed
from hybridc.npx.special_shapes import constraint_check as constraint_check
from hybridc.npx.special_shapes import nonzero as nonzero
from hybridc.npx.special_shapes import reshape as reshape
from hybridc.util import get_cuda_compute_capability as get_cuda_compute_capability
from hybridc.util import is_np_array as is_np_array
from hybridc.util import is_np_shape as is_np_shape
from hybridc.util import np_array as np_array
from hybridc.util import np_shape as np_shape
from hybridc.util import reset_np as reset_np
from hybridc.util import set_np as set_np
from hybridc.util import use_np as use_np
from hybridc.util import use_np_array as use_np_array
from hybridc.util import use_np_shape as use_np_shape
def save(file: str, arr: Any) -> None:
    """Write an array, a list or a dict of them, ``arr``, into the file ``file``, as ``nd.save`` does."""
    ...
def load(file: str) -> Any:
    """Read the arrays of the file ``file``, as ``nd.load`` does: a list, or a dict if they have names."""
    ...
def _of_operator(name: str) -> Callable[..., Any]:
    ...
def operator_name(name: str) -> str | None:
    """The operator of ``mx.nd`` that is called ``name`` here, or None."""
    ...
from hybridc.array.drawn_arrays import *
from hybridc.array.operator_functions import *
