"""hybridc: Gluon, compiled. ``import hybridc as mx``.

The names are MXNet 1.9.1's. Namespaces are imported when first used; the compiler, at the first compilation.
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any

from hybridc import aliases, autograd, nd, random
from hybridc.attribute import AttrScope
from hybridc.connect import connect
from hybridc.context import Context, cpu, cpu_pinned, current_context, gpu, num_gpus
from hybridc.errors import MXNetError
from hybridc.ground import __version__ as __version__
from hybridc.ground import mxnet_version
from hybridc.ground.absent import absent as _absent
from hybridc.ground.debug import no_recompile
from hybridc.options import OPTIONS

connect()
aliases.install()
if OPTIONS.profiler_autostart:
    importlib.import_module("hybridc.profiler")

# NumPy's warnings (overflow, 0 / 0, …) from our own calls: inf and nan are results here, as in MXNet.
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"hybridc\.")

# Names of MXNet, and the modules that hold what they stand for.
_NAMESPACES = {
    "attribute": "hybridc.attribute",
    "base": "hybridc.base",
    "context": "hybridc.context",
    "errors": "hybridc.errors",
    "executor": "hybridc.executor",
    "gluon": "hybridc.gluon",
    "image": "hybridc.image",
    "img": "hybridc.image",
    "init": "hybridc.initializer",
    "initializer": "hybridc.initializer",
    "io": "hybridc.io",
    "libinfo": "hybridc.libinfo",
    "library": "hybridc.library",
    "lr_scheduler": "hybridc.lr_scheduler",
    "metric": "hybridc.metric",
    "model": "hybridc.model",
    "name": "hybridc.name",
    "ndarray": "hybridc.nd",
    "op": "hybridc.op",
    "operator": "hybridc.operator",
    "optimizer": "hybridc.optimizer",
    "profiler": "hybridc.profiler",
    "recordio": "hybridc.recordio",
    "registry": "hybridc.registry",
    "rnn": "hybridc.rnn",
    "subgraph": "hybridc.subgraph",
    "sym": "hybridc.symbol",
    "symbol": "hybridc.symbol",
    "test_utils": "hybridc.test_utils",
    "util": "hybridc.util",
    "visualization": "hybridc.visualization",
    "viz": "hybridc.visualization",
}

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
    """Let so many threads share a kernel from now on; no more than ``HYBRIDC_NUM_THREADS`` said when it was made."""
    from hybridc.runtime import native

    native.set_num_threads(count)


def __getattr__(name: str) -> Any:
    if name not in _NAMESPACES:
        raise _absent("module 'hybridc'", name, "attribute", __dir__())
    found = globals()[name] = importlib.import_module(_NAMESPACES[name])
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMESPACES})
