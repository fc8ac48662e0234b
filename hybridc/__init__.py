"""hybridc: Gluon, compiled. ``import hybridc as mx``.

The names are MXNet 1.9.1's. Namespaces are imported when first used; the compiler, at the first compilation.
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

import hybridc.ground.limits as _limits  # imports NumPy
from hybridc import aliases, autograd, nd, random
from hybridc.attribute import AttrScope
from hybridc.connect import connect
from hybridc.context import Context, cpu, cpu_pinned, current_context, gpu, num_gpus
from hybridc.errors import MXNetError
from hybridc.ground import __version__ as __version__
from hybridc.ground import mxnet_version
from hybridc.ground.absent import absent as _absent
from hybridc.ground.compiler_output import no_recompile
from hybridc.options import OPTIONS

del _limits
connect()
aliases.install()
if OPTIONS.profiler_autostart:
    importlib.import_module("hybridc.profiler")

# NumPy's warnings (overflow, 0 / 0, …) from our own calls: inf and nan are results here, as in MXNet.
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"hybridc\.")

# Modules of MXNet, and those that they are here.
_NAMESPACES = {
    "attribute": "hybridc.attribute",
    "base": "hybridc.base",
    "callback": "hybridc.callback",
    "context": "hybridc.context",
    "contrib": "hybridc.contrib",
    "debug": "hybridc.debug",
    "distributed": "hybridc.distributed",
    "engine": "hybridc.engine",
    "error": "hybridc.error",
    "errors": "hybridc.errors",
    "executor": "hybridc.executor",
    "executor_manager": "hybridc.executor_manager",
    "gluon": "hybridc.gluon",
    "image": "hybridc.image",
    "img": "hybridc.image",
    "init": "hybridc.initializer",
    "initializer": "hybridc.initializer",
    "io": "hybridc.io",
    "kv": "hybridc.kvstore",
    "kvstore": "hybridc.kvstore",
    "libinfo": "hybridc.libinfo",
    "library": "hybridc.library",
    "log": "hybridc.log",
    "lr_scheduler": "hybridc.lr_scheduler",
    "metric": "hybridc.metric",
    "mod": "hybridc.module",
    "model": "hybridc.model",
    "module": "hybridc.module",
    "mon": "hybridc.monitor",
    "monitor": "hybridc.monitor",
    "name": "hybridc.name",
    "ndarray": "hybridc.nd",
    "ndarray_doc": "hybridc.ndarray_doc",
    "np": "hybridc.np",
    "onnx": "hybridc.onnx",
    "np_symbol": "hybridc.symbol.np",
    "npx": "hybridc.npx",
    "numpy": "hybridc.np",
    "numpy_dispatch_protocol": "hybridc.np.protocol",
    "numpy_extension": "hybridc.npx",
    "op": "hybridc.op",
    "operator": "hybridc.operator",
    "optimizer": "hybridc.optimizer",
    "profiler": "hybridc.profiler",
    "recordio": "hybridc.recordio",
    "registry": "hybridc.registry",
    "rnd": "hybridc.random",
    "rnn": "hybridc.rnn",
    "rtc": "hybridc.rtc",
    "runtime": "hybridc.runtime",
    "subgraph": "hybridc.subgraph",
    "sym": "hybridc.symbol",
    "symbol": "hybridc.symbol",
    "symbol_doc": "hybridc.symbol_doc",
    "test_utils": "hybridc.test_utils",
    "util": "hybridc.util",
    "visualization": "hybridc.visualization",
    "viz": "hybridc.visualization",
}

# Functions of MXNet's top level that a namespace holds.
_UTILITIES = (
    "is_np_array", "is_np_shape", "np_array", "np_shape", "set_np_shape", "use_np", "use_np_array", "use_np_shape",
)  # fmt: skip

__all__ = [
    "AttrScope",
    "Context",
    "MXNetError",
    "autograd",
    "cpu",
    "cpu_pinned",
    "current_context",
    "gpu",
    "mxnet_version",
    "nd",
    "no_recompile",
    "num_gpus",
    "random",
    "set_num_threads",
    "waitall",
]


def waitall() -> None:
    """Return when all work is done; on the CPU it always is."""
    nd.waitall()


def set_num_threads(count: int) -> None:
    """Let ``count`` threads share a kernel from now on; no more than ``HYBRIDC_NUM_THREADS`` said when it was made."""
    from hybridc.runtime import native

    native.set_num_threads(count)


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        if name in _UTILITIES:
            found = getattr(importlib.import_module("hybridc.util"), name)
        elif name in _NAMESPACES:
            found = importlib.import_module(_NAMESPACES[name])
        else:
            raise _absent("module 'hybridc'", name, "attribute", __dir__())
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMESPACES, *_UTILITIES})
