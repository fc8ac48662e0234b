"""Other names of our modules: ``hybridc.sym`` for ``hybridc.symbol``, and the modules that only MXNet has.

``import hybridc.ndarray as nd`` gives the module ``hybridc.nd``, the same object. Under ``python -m hybridc run`` the
modules of ``mxnet`` and of ``horovod.mxnet`` are those of hybridc likewise.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from hybridc.errors import AbsentImportError

_PACKAGE = __name__.partition(".")[0]

# Names of modules below the package, and the modules that have what MXNet's modules of these names have.
OTHER_NAMES = {
    "img": "image",
    "init": "initializer",
    "kv": "kvstore",
    "mod": "module",
    "mon": "monitor",
    "ndarray": "nd",
    "numpy": "np",
    "numpy_extension": "npx",
    "rnd": "random",
    "sym": "symbol",
    "viz": "visualization",
    # Files of MXNet, and the packages of ours that have their names.
    "gluon.contrib.cnn.conv_layers": "gluon.contrib.cnn",
    "gluon.contrib.nn.basic_layers": "gluon.contrib.nn",
    "image.image": "image",
    "nd.ndarray": "nd",
    "nd.numpy": "np",
    "nd.numpy_extension": "npx",
    "nd.utils": "nd",
    "np.arrayprint": "np",
    "np.fallback": "np",
    "np.fallback_linalg": "np.linalg",
    "np.function_base": "np",
    "np.io": "np",
    "np.multiarray": "np",
    "np.stride_tricks": "np",
    "np.utils": "np",
    "numpy_dispatch_protocol": "np.protocol",
    "onnx.mx2onnx": "interchange.onnx.writing.mx2onnx",
    "numpy_op_signature": "np.protocol",
    "symbol.numpy": "symbol.np",
    "symbol.numpy_extension": "symbol.npx",
    "symbol.symbol": "symbol",
    "optimizer.optimizer": "optimizer",
    "rnn.rnn_cell": "rnn",
    # Files of Horovod, likewise.
    "horovod.compression": "horovod",
    "horovod.functions": "horovod",
    "horovod.mpi_ops": "horovod",
}


def real_name(name: str) -> str:
    """The name of the module that a name stands for; the name itself if it is no other's."""
    package, *parts = name.split(".")
    if package == "horovod" and parts[:1] == ["mxnet"]:
        package, parts[0] = _PACKAGE, "horovod"
    real = ""
    for part in parts:
        real = f"{real}.{part}" if real else part
        while real in OTHER_NAMES:
            real = OTHER_NAMES[real]
    return ".".join(filter(None, (_PACKAGE if package == "mxnet" else package, real)))


class AliasFinder:
    """Finds modules by their other names.

    Neither finders nor loaders need a base class, and Python's, in ``importlib.abc``, take 4 ms to import.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith((f"{_PACKAGE}.", "mxnet.", "horovod.")):
            return None
        real = real_name(fullname)
        if real == fullname:
            return None
        return _existing(fullname, lambda: importlib.import_module(real))


class NamespaceFinder:
    """Finds what no file holds: namespaces that a module makes, such as ``hybridc.symbol.linalg``.

    For what there is not, the error is the one of the attribute, which names a way out.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        parent, _, name = fullname.rpartition(".")
        if not parent.startswith(_PACKAGE) or name.startswith("_"):
            return None
        try:
            found = getattr(sys.modules[parent], name)
        except AttributeError as error:
            # Without the module's name: Python would go on with a text of its own.
            raise AbsentImportError(str(error)) from None
        if not isinstance(found, ModuleType):
            return None
        return _existing(fullname, lambda: found)


class _Existing:
    """Loads a module that there is already; it keeps the description that it has under its own name."""

    def __init__(self, module: Callable[[], ModuleType]) -> None:
        self._module = module

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = self._module()
        self._own = module.__spec__, module.__loader__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__, module.__loader__ = self._own


def _existing(name: str, module: Callable[[], ModuleType]) -> importlib.machinery.ModuleSpec:
    loader: Any = _Existing(module)
    return importlib.machinery.ModuleSpec(name, loader)


def install() -> None:
    """Let ``import`` find modules by their other names."""
    if not any(isinstance(finder, AliasFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, AliasFinder())
        sys.meta_path.append(NamespaceFinder())
