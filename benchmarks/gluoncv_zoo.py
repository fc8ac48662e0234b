"""Which networks of GluonCV 0.10.5's model zoo hybridc builds and runs, with ``import mxnet`` meaning hybridc.

    pip download gluoncv==0.10.5 --no-deps -d FOLDER && unzip -d FOLDER FOLDER/gluoncv-*.whl
    python benchmarks/gluoncv_zoo.py FOLDER --match 'resnet18|vgg' --forward --hybridize

Nothing of GluonCV is changed. Modules that hybridc or this computer lack are stood in for by ones whose use is an
error, so that each network fails for what it needs itself. Each is built in a process of its own, with a time limit.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import re
import subprocess
import sys
import threading
import time
import types
import warnings
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

OPTIONAL = ("requests", "portalocker", "yacs", "pandas", "cv2", "autocfg", "pycocotools", "decord", "autogluon")


OF_MXNET_2 = ("mxnet.gluon.metric",)  # GluonCV tries these first

# The shape of the input, by a pattern of names.
SHAPES = [
    (r"slowfast_16x8", (1, 3, 80, 64, 64)),
    (r"slowfast", (1, 3, 40, 64, 64)),
    (r"i3d|r2plus1d|p3d|c3d", (1, 3, 16, 112, 112)),
    (r"rcnn", (1, 3, 160, 160)),
    (r"ssd_300", (1, 3, 300, 300)),
    (r"ssd_512", (1, 3, 512, 512)),
    (r"vgg16_(ucf|hmdb|kin|sth)|inceptionv1", (1, 3, 224, 224)),
    (r"^cifar", (1, 3, 32, 32)),
    (r"inceptionv3|xception|nasnet", (1, 3, 299, 299)),
    (r"densenet|squeezenet|googlenet|residualattention|shufflenet|hrnet|alexnet|vgg", (1, 3, 224, 224)),
]


class Lacking(types.ModuleType):
    """A module that is not there: any use of what it should have is an error that names it."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lacking(f"{self.__name__}.{name}")


def lacking(name: str) -> Any:
    """A class that cannot be used but as a base."""

    def refuse(self: Any, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"{name} is missing")

    return type(name.rpartition(".")[2], (), {"__init__": refuse})


class Aliases(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds ``mxnet.…`` as ``hybridc.…``, and stands in for modules that are missing."""

    def __init__(self) -> None:
        self.specs: dict[str, Any] = {}

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """The spec of a module whose name begins with mxnet, or of an optional one that is missing."""
        top = fullname.partition(".")[0]
        if top == "mxnet" or (top in OPTIONAL and not self._installed(top)):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def _installed(self, top: str) -> bool:
        sys.meta_path.remove(self)
        try:
            return importlib.util.find_spec(top) is not None
        finally:
            sys.meta_path.insert(0, self)

    def create_module(self, spec: Any) -> Any:
        """The module of hybridc, or a stand-in."""
        if spec.name in OF_MXNET_2:
            raise ModuleNotFoundError(spec.name)
        first, *parts = spec.name.split(".")
        if first != "mxnet":
            return Lacking(spec.name)
        found: Any = importlib.import_module("hybridc")
        for part in parts:
            found = _member(found, part)
            if found is None:
                return Lacking(spec.name)
        self.specs[spec.name] = getattr(found, "__spec__", None)
        return found

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing but to leave a module of hybridc as it was: it has run."""
        name = module.__spec__.name if module.__spec__ else ""
        module.__spec__ = self.specs.get(name, module.__spec__)


def _member(module: Any, name: str) -> Any:
    """A module or namespace in another, however one gets at it, or None."""
    try:
        return getattr(module, name)
    except AttributeError:
        try:
            return importlib.import_module(f"{module.__name__}.{name}")
        except ImportError:
            return None


def install(folder: str) -> None:
    """Make ``import mxnet`` mean hybridc, and ``import gluoncv`` find the one in the folder."""
    hybridc = importlib.import_module("hybridc")
    vars(hybridc)["__version__"] = "1.9.1"  # GluonCV asks for it
    sys.modules["mxnet"] = hybridc
    sys.meta_path.insert(0, Aliases())
    sys.path.insert(0, folder)
    for name in ("image", "contrib", "io", "recordio", "kvstore", "profiler", "numpy"):
        if _member(hybridc, name) is None:
            importlib.import_module(f"mxnet.{name}")
    package = types.ModuleType("gluoncv")  # its own __init__ hides errors of imports
    package.__path__ = [str(Path(folder, "gluoncv"))]
    sys.modules["gluoncv"] = package
    while not _imported():
        pass


def _imported() -> bool:
    """Whether the model zoo could be imported; if not, the name that hybridc lacks gets a stand-in."""
    try:
        importlib.import_module("gluoncv.model_zoo")
    except (ImportError, AttributeError) as error:
        text = str(error).replace("mx.", "hybridc.", 1)
        missing = re.match(r"cannot import name '(?P<name>\w+)' from '(?P<module>hybridc[\w.]*)'", text)
        missing = missing or re.match(r"(?P<module>hybridc[\w.]*) has no [\w ]+ '(?P<name>\w+)'", text)
        if missing is None:
            raise
        name, module = missing["name"], missing["module"]
        print(f"{module}.{name} is missing", file=sys.stderr)
        setattr(sys.modules[module], name, lacking(f"{module}.{name}"))
        for loaded in [m for m in sys.modules if m.startswith("gluoncv.")]:
            del sys.modules[loaded]
        return False
    return True


# --- one network -----------------------------------------------------------------------------------------------


def shape_for(name: str) -> tuple[int, ...]:
    """The shape of inputs, small where the network allows it."""
    for pattern, shape in SHAPES:
        if re.search(pattern, name):
            return shape
    return (1, 3, 64, 64)


def build(name: str) -> Any:
    """The network with initialized parameters, and nothing downloaded."""
    from gluoncv.model_zoo import get_model

    given: dict[str, Any] = (
        {"classes": ["one", "two"]} if re.search("^(ssd|yolo|faster|mask|custom).*custom|^custom", name) else {}
    )
    if re.search("^(fcn|psp|deeplab|danet|icnet|fastscnn)_", name):  # they resize to what they were made for
        given["crop_size"] = shape_for(name)[-1]
    wanted = {"pretrained_base": False, "use_kinetics_pretrain": False}
    errors: list[Exception] = []
    for keys in (["pretrained_base", "use_kinetics_pretrain"], ["pretrained_base"], []):
        try:
            net = get_model(name, pretrained=False, **given, **{key: wanted[key] for key in keys})
            net.initialize()
            return net
        except Exception as error:
            errors.append(error)
    raise errors[-1]


def without_downloads() -> None:
    """Have a network that would load a file of parameters be initialized instead."""
    from gluoncv.model_zoo import model_store

    import hybridc as mx

    load = mx.gluon.Block.load_parameters

    def load_or_initialize(self: Any, filename: str, *args: Any, **kwargs: Any) -> None:
        self.initialize() if filename == "downloaded" else load(self, filename, *args, **kwargs)

    mx.gluon.Block.load_parameters = load_or_initialize
    for module in (model_store, mx.gluon.model_zoo.model_store, mx.gluon.model_zoo.classifier):
        vars(module)["get_model_file"] = lambda *args, **kwargs: "downloaded"


def arrays(result: Any) -> list[np.ndarray]:
    """All arrays of a result."""
    if isinstance(result, list | tuple):
        return [x for part in result for x in arrays(part)]
    return [result.asnumpy()]


def examine(name: str, forward: bool, hybridize: bool) -> dict[str, Any]:
    """What became of a network: how far it came, and the error at which it stopped."""
    import hybridc as mx

    stage, started = "build", time.perf_counter()
    found: dict[str, Any] = {"name": name}
    try:
        net = build(name)
        if forward:
            stage = "forward"
            x = mx.nd.random.uniform(-1, 1, shape=shape_for(name))
            eager = arrays(net(x))
            found["outputs"] = [list(y.shape) for y in eager]
            if hybridize:
                stage = "hybridize"
                net.hybridize()
                compiled = arrays(net(x))
                stage = "compare"
                for a, b in zip(eager, compiled, strict=True):
                    np.testing.assert_allclose(b, a, rtol=1e-3, atol=1e-4 * max(1, float(np.abs(a).max(initial=0))))
        stage = "ok"
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()] or [""]
        found["error"] = f"{type(error).__name__}: {lines[0][:300]}"
    return {**found, "stage": stage, "seconds": round(time.perf_counter() - started, 1)}


def work(options: argparse.Namespace, names: list[str]) -> None:
    """Examine networks one after the other, each with a line of JSON."""
    warnings.simplefilter("ignore")
    reports, sys.stdout = sys.stdout, sys.stderr  # some networks print
    install(options.folder)
    without_downloads()
    np.float, np.int = float, int  # names of old versions of NumPy, which GluonCV uses
    for name in names:
        print(json.dumps(examine(name, options.forward, options.hybridize)), file=reports, flush=True)


# --- all of them -----------------------------------------------------------------------------------------------


def watch(options: argparse.Namespace, names: list[str]) -> list[dict[str, Any]]:
    """Have processes examine the networks; one that stops or takes too long is followed by another."""
    results: list[dict[str, Any]] = []
    while len(results) < len(names):
        rest = names[len(results) :]
        command = [sys.executable, __file__, *sys.argv[1:], "--work", ",".join(rest)]
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        with worker:
            while len(results) < len(names):
                timer = threading.Timer(options.limit, worker.kill)
                timer.start()
                line = worker.stdout.readline() if worker.stdout else b""
                timer.cancel()
                if not line:
                    worker.kill()
                    results.append({"name": names[len(results)], "stage": "stopped", "seconds": options.limit})
                else:
                    results.append(json.loads(line))
                report = results[-1]
                print(f"{report['stage']:10} {report['seconds']:6} s {report['name']:45} {report.get('error', '')}")
                sys.stdout.flush()
                if not line:
                    break
    return results


def main() -> None:
    """Examine the networks, and count what became of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="the folder in which the package gluoncv lies")
    parser.add_argument("--match", default="", help="only the names in which this regular expression is found")
    parser.add_argument("--forward", action="store_true", help="run each on a small input, too")
    parser.add_argument("--hybridize", action="store_true", help="and compiled, and compare")
    parser.add_argument("--limit", type=float, default=120, help="seconds for a network")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options, options.work.split(","))
        return
    warnings.simplefilter("ignore")
    install(options.folder)
    from gluoncv.model_zoo import get_model_list

    names = [name for name in get_model_list() if re.search(options.match, name)]
    results = watch(options, names)
    print(Counter(r["stage"] for r in results))
    for error, count in Counter(r.get("error", "") for r in results if r["stage"] != "ok").most_common():
        print(f"{count:4} {error}")


if __name__ == "__main__":
    main()
