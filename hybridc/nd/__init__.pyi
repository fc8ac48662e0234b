# Written by python -m hybridc.stubs; do not edit.
# pyright: reportUnusedImport=false
import sys
from typing import TYPE_CHECKING as TYPE_CHECKING
from typing import Any as Any
from hybridc.array import fluent as fluent
from hybridc.array import indexing as indexing
from hybridc.array.functions import function as _function
from hybridc.array.ndarray import NDArray as NDArray
from hybridc.dialects import library as library
from hybridc.dialects import operator_registry as _registry
from hybridc.ground.absent import absent as _absent
from hybridc.ground.hooks import HOOKS as _HOOKS
from hybridc.nd import _internal as _internal
from hybridc.nd import contrib as contrib
from hybridc.nd import image as image
from hybridc.nd import linalg as linalg
from hybridc.nd import op as op
from hybridc.nd import random as random
from hybridc.nd import sparse as sparse
from hybridc.nd import storage as _storage
from hybridc.nd.creation import arange as arange
from hybridc.nd.creation import array as array
from hybridc.nd.creation import concatenate as concatenate
from hybridc.nd.creation import empty as empty
from hybridc.nd.creation import eye as eye
from hybridc.nd.creation import from_dlpack as from_dlpack
from hybridc.nd.creation import from_numpy as from_numpy
from hybridc.nd.creation import full as full
from hybridc.nd.creation import histogram as histogram
from hybridc.nd.creation import linspace as linspace
from hybridc.nd.creation import moveaxis as moveaxis
from hybridc.nd.creation import onehot_encode as onehot_encode
from hybridc.nd.creation import ones as ones
from hybridc.nd.creation import power as power
from hybridc.nd.creation import split_v2 as split_v2
from hybridc.nd.creation import to_dlpack_for_read as to_dlpack_for_read
from hybridc.nd.creation import to_dlpack_for_write as to_dlpack_for_write
from hybridc.nd.creation import waitall as waitall
from hybridc.nd.creation import zeros as zeros
from hybridc.nd.library_operator import CustomOp as CustomOp
from hybridc.nd.storage import load as load
from hybridc.nd.storage import load_frombuffer as load_frombuffer
from hybridc.nd.storage import load_metadata as load_metadata
from hybridc.nd.storage import save as save
from hybridc.operator import custom as custom
from hybridc.subgraph import subgraph_operator as subgraph_operator
def _forget(name: str) -> None:
    """The name is bound to another operator: forget the cached function, unless the function is one of this module."""
    ...
from hybridc.array.drawn_arrays import *
from hybridc.array.operator_functions import *
