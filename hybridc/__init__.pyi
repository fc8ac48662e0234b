# Written by python -m hybridc.stubs; do not edit.
# pyright: reportUnusedImport=false
import importlib
import warnings
from typing import TYPE_CHECKING as TYPE_CHECKING
from typing import Any as Any
import hybridc.ground.limits as _limits
from hybridc import aliases as aliases
from hybridc import autograd as autograd
from hybridc import nd as nd
from hybridc import random as random
from hybridc.attribute import AttrScope as AttrScope
from hybridc.connect import connect as connect
from hybridc.context import Context as Context
from hybridc.context import cpu as cpu
from hybridc.context import cpu_pinned as cpu_pinned
from hybridc.context import current_context as current_context
from hybridc.context import gpu as gpu
from hybridc.context import num_gpus as num_gpus
from hybridc.errors import MXNetError as MXNetError
from hybridc.ground import __version__ as __version__
from hybridc.ground import mxnet_version as mxnet_version
from hybridc.ground.absent import absent as _absent
from hybridc.ground.compiler_output import no_recompile as no_recompile
from hybridc.options import OPTIONS as OPTIONS
def waitall() -> None:
    """Return when all work is done; on the CPU it always is."""
    ...
def set_num_threads(count: int) -> None:
    """Let ``count`` threads share a kernel from now on; no more than ``HYBRIDC_NUM_THREADS`` said when it was made."""
    ...
from hybridc import attribute as attribute
from hybridc import base as base
from hybridc import callback as callback
from hybridc import context as context
from hybridc import contrib as contrib
from hybridc import debug as debug
from hybridc import distributed as distributed
from hybridc import engine as engine
from hybridc import error as error
from hybridc import errors as errors
from hybridc import executor as executor
from hybridc import executor_manager as executor_manager
from hybridc import gluon as gluon
from hybridc import image as image
from hybridc import initializer as initializer
from hybridc import io as io
from hybridc import kvstore as kvstore
from hybridc import libinfo as libinfo
from hybridc import library as library
from hybridc import log as log
from hybridc import lr_scheduler as lr_scheduler
from hybridc import metric as metric
from hybridc import model as model
from hybridc import module as module
from hybridc import monitor as monitor
from hybridc import name as name
from hybridc import nd as nd
from hybridc import ndarray_doc as ndarray_doc
from hybridc import np as np
from hybridc import npx as npx
from hybridc import onnx as onnx
from hybridc import op as op
from hybridc import operator as operator
from hybridc import optimizer as optimizer
from hybridc import profiler as profiler
from hybridc import protocol as protocol
from hybridc import random as random
from hybridc import recordio as recordio
from hybridc import registry as registry
from hybridc import rnn as rnn
from hybridc import rtc as rtc
from hybridc import runtime as runtime
from hybridc import subgraph as subgraph
from hybridc import symbol as symbol
from hybridc import symbol_doc as symbol_doc
from hybridc import test_utils as test_utils
from hybridc import util as util
from hybridc import visualization as visualization
img = image
init = initializer
kv = kvstore
mod = module
mon = monitor
ndarray = nd
np_symbol = np
numpy = np
numpy_dispatch_protocol = protocol
numpy_extension = npx
rnd = random
sym = symbol
viz = visualization
__version__: str
