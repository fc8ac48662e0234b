"""GluonCV 0.10.5's model zoo, unmodified, with ``import mxnet`` meaning hybridc, beside MXNet 1.9.1.

    pip download gluoncv==0.10.5 --no-deps -d FOLDER && unzip -d FOLDER FOLDER/gluoncv-*.whl
    python benchmarks/gluoncv_zoo.py FOLDER --match 'resnet18|vgg'
    python benchmarks/gluoncv_zoo.py FOLDER --mxnet MXNET_PYTHON --results zoo.jsonl
    python benchmarks/gluoncv_zoo.py FOLDER --mxnet MXNET_PYTHON --train
    python benchmarks/gluoncv_zoo.py FOLDER --results zoo.jsonl --report

Given an interpreter that has MXNet 1.9.1 (and its NumPy, nothing more), MXNet builds each network, draws its parameters
and saves them with an input and the outputs. hybridc builds it, loads the parameters, and must give the outputs within
1e-4 of the largest magnitude, eagerly and hybridized. With ``--train`` both take ten steps of an optimizer from
the same parameters with the same images, and the losses must agree. Without MXNet, hybridized calls are compared with
eager ones. Results are added to a file as lines of JSON; what is there already is not done again.

Nothing of GluonCV is changed. Modules that either side lacks are stood in for by ones whose use is an error, so that
each network fails for what it needs itself. A few networks share a process, which ends when one takes too long.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import types
import warnings
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

OPTIONAL = (
    *("requests", "portalocker", "yacs", "pandas", "cv2", "autocfg", "pycocotools", "decord", "autogluon"),
    *("tqdm", "PIL", "matplotlib", "scipy"),
)
OF_MXNET_2 = ("mxnet.gluon.metric",)  # GluonCV tries these first

# The shape of the input, small where the network allows it, by a pattern of names.
SHAPES = [
    (r"slowfast_16x8", (1, 3, 80, 64, 64)),
    (r"slowfast", (1, 3, 40, 64, 64)),
    (r"i3d_inceptionv3", (1, 3, 16, 96, 96)),
    (r"i3d_inception|c3d", (1, 3, 16, 112, 112)),
    (r"i3d|r2plus1d|p3d", (1, 3, 16, 64, 64)),
    (r"rcnn", (1, 3, 160, 160)),
    (r"ssd_300", (1, 3, 300, 300)),
    (r"ssd_512_(resnet|mobilenet)", (1, 3, 256, 256)),
    (r"ssd_512", (1, 3, 512, 512)),
    (r"siamrpn", (1, 3, 127, 127)),
    (r"posenet", (1, 6, 192, 640)),
    (r"monodepth2", (1, 3, 192, 640)),
    (r"vgg16_(ucf|hmdb|kin|sth)|inceptionv1", (1, 3, 224, 224)),
    (r"^cifar", (1, 3, 32, 32)),
    (r"inceptionv3|xception|nasnet", (1, 3, 299, 299)),
    (r"densenet|squeezenet|googlenet|residualattention|shufflenet|hrnet|alexnet|vgg", (1, 3, 224, 224)),
]
SECOND = [(r"siamrpn", (1, 3, 287, 287))]  # networks of two inputs
PROPOSALS = 20  # of an R-CNN's first stage, and boxes of its second that get a mask, instead of 300 or 1000

# The gammas of norms; less where sums of many blocks would grow before gates, which then amplify every rounding, or
# before scores, which would all be 1; but not so little that an R-CNN's boxes all had one score.
GAMMAS = [
    (r"^se_|senet|residualattention|monodepth2|(center_net|ssd).*res", (0.1, 0.3)),
    (r"rcnn.*res", (0.4, 0.8)),
    (r"", (0.7, 1.1)),
]

# What a network is for, by the module that makes it.
TASKS = [
    (r"quantized", "int8"),
    (r"action_recognition", "action recognition"),
    (r"center_net|rcnn|ssd|yolo3", "detection"),
    (r"\.(danet|deeplab\w*|fastscnn|fcn|icnet|pspnet)$", "segmentation"),
    (r"pose", "pose"),
    (r"monodepth", "depth"),
    (r"siamrpn", "tracking"),
]

# Networks that are trained, with the optimizer and the shape of a batch.
TRAINED = [
    ("cifar_resnet20_v1", "sgd", (8, 3, 32, 32)),
    ("resnet18_v1", "sgd", (8, 3, 64, 64)),
    ("resnet18_v1b", "nag", (8, 3, 64, 64)),
    ("se_resnet18_v1", "adam", (8, 3, 64, 64)),
    ("resnet18_v2", "sgd", (8, 3, 64, 64)),
    ("mobilenet0.25", "sgd", (8, 3, 64, 64)),
    ("mobilenetv2_0.25", "adam", (8, 3, 64, 64)),
    ("mobilenetv3_small", "nag", (8, 3, 64, 64)),
    ("cifar_resnet20_v2", "adam", (8, 3, 32, 32)),
    ("shufflenet_v1", "sgd", (2, 3, 224, 224)),
    ("resnest14", "sgd", (4, 3, 64, 64)),
    ("dla34", "sgd", (4, 3, 64, 64)),
]
# MXNet keeps an optimizer's numbers in single precision: these are such ones.
RATES: dict[str, dict[str, float]] = {
    "sgd": {"learning_rate": 2.0**-8, "momentum": 0.875, "wd": 2.0**-13},
    "nag": {"learning_rate": 2.0**-8, "momentum": 0.875, "wd": 2.0**-13},
    "adam": {"learning_rate": 2.0**-10, "epsilon": 2.0**-26, "beta1": 0.875, "beta2": 1 - 2.0**-10},
}
STEPS = 10
TOLERANCE = 1e-4  # of the largest magnitude


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

    def __init__(self, real: bool) -> None:
        self.real = real
        self.specs: dict[str, Any] = {}

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """The spec of a module whose name begins with mxnet, or of an optional one that is missing."""
        top = fullname.partition(".")[0]
        if (top == "mxnet" and not self.real) or (top in OPTIONAL and not self._installed(top)):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def _installed(self, top: str) -> bool:
        if isinstance(sys.modules.get(top), Lacking):
            return False
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


def install(folder: str, real: bool) -> None:
    """Have ``import gluoncv`` find the one in the folder, and ``import mxnet`` MXNet itself or hybridc."""
    if real:
        importlib.import_module("mxnet")
    sys.meta_path.insert(0, Aliases(real))
    sys.path.insert(0, folder)
    if not real:
        hybridc = importlib.import_module("hybridc")
        vars(hybridc)["__version__"] = "1.9.1"  # GluonCV asks for it
        sys.modules["mxnet"] = hybridc
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


def shapes_for(name: str) -> list[tuple[int, ...]]:
    """The shapes of the inputs."""
    first = next((shape for pattern, shape in SHAPES if re.search(pattern, name)), (1, 3, 64, 64))
    return [first, *(shape for pattern, shape in SECOND if re.search(pattern, name))]


def build(name: str) -> Any:
    """The network, and nothing downloaded."""
    from gluoncv.model_zoo import get_model

    given: dict[str, Any] = (
        {"classes": ["one", "two"]} if re.search("^(ssd|yolo|faster|mask|custom).*custom|^custom", name) else {}
    )
    if re.search("^(fcn|psp|deeplab|danet|icnet|fastscnn)_", name):  # they resize to what they were made for
        given["crop_size"] = shapes_for(name)[0][-1]
    wanted = {"pretrained_base": False, "use_kinetics_pretrain": False}
    errors: list[Exception] = []
    for keys in (["pretrained_base", "use_kinetics_pretrain"], ["pretrained_base"], []):
        try:
            net = get_model(name, pretrained=False, **given, **{key: wanted[key] for key in keys})
            if "rcnn" in name:
                net._rpn_test_post_nms = net.rpn._test_post_nms = PROPOSALS
                net._rcnn_max_dets = PROPOSALS  # whose masks are predicted
            return net
        except Exception as error:
            errors.append(error)
    raise errors[-1]


def without_downloads() -> None:
    """Have a network that would load a file of parameters be initialized instead."""
    mx = importlib.import_module("mxnet")
    from gluoncv.model_zoo import model_store

    load = mx.gluon.Block.load_parameters

    def load_or_initialize(self: Any, filename: str, *args: Any, **kwargs: Any) -> None:
        self.initialize() if filename == "downloaded" else load(self, filename, *args, **kwargs)

    mx.gluon.Block.load_parameters = load_or_initialize
    for module in (model_store, mx.gluon.model_zoo.model_store):
        vars(module)["get_model_file"] = lambda *args, **kwargs: "downloaded"


def arrays(result: Any) -> list[np.ndarray]:
    """All arrays of a result."""
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (list, tuple)):
        return [x for part in result for x in arrays(part)]
    return [result.asnumpy()]


def draw(name: str, net: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Random parameters for a network, by its own initializers where it has some; its outputs with them.

    Norms and biases get random numbers, too: with their initial ones a mistake in them might not be seen.
    """
    mx = importlib.import_module("mxnet")

    numbers = np.random.default_rng(zlib.crc32(name.encode()))
    mx.random.seed(zlib.crc32(name.encode()) % 2**31)
    np.random.seed(zlib.crc32(name.encode()) % 2**31)
    net.initialize(_initializer())
    arrays(net(*map(mx.nd.array, inputs)))  # shapes are known only now
    gammas = next(gammas for pattern, gammas in GAMMAS if re.search(pattern, name))
    between = {"gamma": gammas, "beta": (-0.1, 0.1), "running_mean": (-0.1, 0.1), "running_var": (0.6, 1.4)}
    for parameter in net.collect_params().values():
        if parameter._data is None:
            parameter.initialize(mx.init.Zero())  # of a part that is not used
        kind = next((key for key in between if parameter.name.endswith(key)), None)
        if kind is None and parameter.name.endswith("bias") and not parameter.data().asnumpy().any():
            kind = "beta"
        if kind and parameter.grad_req == "null" and not kind.startswith("running"):
            continue
        if kind:
            parameter.set_data(mx.nd.array(numbers.uniform(*between[kind], size=parameter.shape)))
    scores: list[list[Any]] = []
    if "rcnn" in name:
        scores = [[getattr(net.rpn, "rpn_head", net.rpn).score], [net.class_predictor]]
        scores += [[net.mask.mask]] if "mask" in name else []
    elif "center_net" in name:
        scores = [[net.heads[0][-1]]]
    elif "ssd" in name:
        scores = [[part.predictor for part in net.class_predictors]]
    elif "yolo" in name:
        scores = [[part.prediction for part in net.yolo_outputs]]
    for layers in scores:
        _spread(layers, lambda: net(*map(mx.nd.array, inputs)))
    return arrays(net(*map(mx.nd.array, inputs)))


def _spread(layers: list[Any], run: Any) -> None:
    """Have the scores of layers far apart, but so that not many become equal as probabilities near 1."""
    found: dict[Any, float] = {}

    def see(layer: Any, inputs: Any, scores: Any) -> None:
        values = scores.asnumpy()
        found[layer] = max(found.get(layer, 0), largest(values - values.mean()))

    hooks = [layer.register_forward_hook(see) for layer in layers]
    arrays(run())
    for layer, hook in zip(layers, hooks):
        hook.detach()
        layer.weight.set_data(layer.weight.data() * (4 / found[layer]))


def without_strays() -> None:
    """Have MXNet's ROIAlign give 0 for regions of the image -1, as networks with a feature pyramid expect.

    On a CPU MXNet 1.9.1 sets, for the i-th region, not its bins but the i-th number of all to 0, and leaves its bins
    what was in memory.
    """
    mx = importlib.import_module("mxnet")
    align = mx.nd.contrib.ROIAlign

    def aligned(data: Any, rois: Any, *args: Any, **kwargs: Any) -> Any:
        given = rois[:, :1] >= 0
        return align(data, rois * given, *args, **kwargs) * given.reshape((-1, 1, 1, 1))

    mx.nd.contrib.ROIAlign = aligned


@functools.cache
def _initializer() -> Any:
    mx = importlib.import_module("mxnet")

    @mx.init.register
    class OfActivations(mx.init.Xavier):
        """Weights that keep the size of activations; vectors that have no initializer of their own are 1."""

        def __init__(self) -> None:
            super().__init__(rnd_type="gaussian", factor_type="in", magnitude=2)

        def _init_weight(self, name: Any, arr: Any) -> None:
            if len(arr.shape) < 2:
                arr[:] = 1
            else:
                super()._init_weight(name, arr)

    return OfActivations()


def images(name: str, shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    """Random inputs, the same on both sides; for an R-CNN of coarse squares, too: of noise all boxes score the same."""
    numbers = np.random.default_rng(zlib.crc32(name.encode()))
    found = [numbers.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
    if "rcnn" in name:
        coarse = numbers.uniform(-2, 2, (*shapes[0][:2], 5, 5)).astype(np.float32)
        found[0] += coarse.repeat(shapes[0][2] // 5, axis=2).repeat(shapes[0][3] // 5, axis=3)
    return found


def write(name: str, folder: Path) -> dict[str, Any]:
    """MXNet's side: parameters and outputs in files."""
    inputs = images(name, shapes_for(name))
    net = build(name)
    outputs = draw(name, net, inputs)
    net.save_parameters(str(folder / "zoo.params"))
    np.savez(folder / "outputs.npz", *outputs)
    return {"outputs": [list(y.shape) for y in outputs]}


def check(name: str, folder: Path | None) -> dict[str, Any]:
    """hybridc's side: how far its outputs are from MXNet's, or hybridized ones from eager ones."""
    mx = importlib.import_module("mxnet")

    inputs = [mx.nd.array(x) for x in images(name, shapes_for(name))]
    net = build(name)
    if folder is None:
        net.initialize()
    else:
        net.load_parameters(str(folder / "zoo.params"))
    started = time.perf_counter()
    eager = arrays(net(*inputs))
    found: dict[str, Any] = {"eager_seconds": round(time.perf_counter() - started, 1)}
    wanted = eager
    if folder is not None:
        with np.load(folder / "outputs.npz") as file:
            wanted = [file[key] for key in file.files]
        found["eager"] = compare(eager, wanted)
    net.hybridize()
    started = time.perf_counter()
    compiled = arrays(net(*inputs))
    found["hybridized_seconds"] = round(time.perf_counter() - started, 1)
    found["hybridized"] = compare(compiled, wanted)
    found["varied"] = [round(float(np.nanstd(y)) / (largest(y) or 1), 6) if y.size else 0.0 for y in wanted]
    return found


def largest(values: np.ndarray) -> float:
    """The largest magnitude that is a number."""
    values = values[np.isfinite(values)]
    return float(np.abs(values).max(initial=0))


def compare(got: list[np.ndarray], wanted: list[np.ndarray]) -> list[float | str]:
    """For each output the largest difference by the largest magnitude, or what is wrong altogether."""
    if len(got) != len(wanted):
        return [f"{len(got)} outputs instead of {len(wanted)}"]
    return [_distance(a, b) for a, b in zip(_in_order(got, wanted), wanted)]


def _in_order(got: list[np.ndarray], wanted: list[np.ndarray]) -> list[np.ndarray]:
    """Detections (classes, scores, boxes) of one image in the other's order; other results as they are.

    Of two scores that are equal but for rounding either may come first.
    """
    shapes = [x.shape for x in got]
    if shapes != [x.shape for x in wanted] or shapes[:1] != shapes[1:2] or shapes[2:3] != [(*shapes[0][:2], 4)]:
        return got
    if shapes[0][0] != 1 or shapes[0][2:] not in ((), (1,)) or not all(np.isfinite(x).all() for x in (*got, *wanted)):
        return got
    sizes = [largest(x) or 1 for x in wanted[:3]]
    a, b = (np.concatenate([x.reshape(shapes[0][1], -1) / n for x, n in zip(p, sizes)], axis=-1) for p in (got, wanted))
    free = list(range(len(a)))
    order = []
    for row in b:
        best = min(range(min(len(free), 50)), key=lambda i: (float(np.abs(a[free[i]] - row).max()), i))
        order.append(free.pop(best))
    return [x[:, order] if x.shape[1:2] == shapes[0][1:2] else x for x in got]


def _distance(got: np.ndarray, wanted: np.ndarray) -> float | str:
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return f"{got.dtype}{got.shape} instead of {wanted.dtype}{wanted.shape}"
    got, wanted = got.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(wanted)
    if not np.array_equal(got[~finite], wanted[~finite], equal_nan=True) or not np.isfinite(got[finite]).all():
        return "nan or inf elsewhere"
    return float(f"{np.abs(got[finite] - wanted[finite]).max(initial=0) / (largest(wanted) or 1):.2g}")


# --- training ---------------------------------------------------------------------------------------------------


def batches(name: str, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of all steps: each label adds its own brightness, so that there is something to learn."""
    numbers = np.random.default_rng(zlib.crc32(name.encode()))
    labels = numbers.integers(0, 4, (STEPS, shape[0]))
    x = numbers.uniform(-1, 1, (STEPS, *shape)) + 0.5 * labels[:, :, None, None, None]
    return x.astype(np.float32), labels.astype(np.float32)


def losses(name: str, folder: Path, first: bool) -> list[float]:
    """The loss of each step, from the parameters in the folder, which the first side puts there.

    In double precision: in single precision gradients of small layers differ by percents, MXNet's from its own in
    double precision, too, most likely as elements near 0 pass a relu or not.
    """
    mx = importlib.import_module("mxnet")

    optimizer, shape = next(part[1:] for part in TRAINED if part[0] == name)
    net = build(name)
    net.apply(_without_dropout)
    x, labels = (mx.nd.array(part, dtype="float64") for part in batches(name, shape))
    if first:
        draw(name, net, [images(name, [shape])[0]])
        net.save_parameters(str(folder / "zoo.params"))
    else:
        net.load_parameters(str(folder / "zoo.params"))
    net.cast("float64")
    net.hybridize()
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = mx.gluon.Trainer(net.collect_params(), optimizer, RATES[optimizer])
    found: list[float] = []
    for step in range(STEPS):
        with mx.autograd.record():
            value = loss(net(x[step]), labels[step])
        value.backward()
        trainer.step(shape[0])
        found.append(float(value.mean().asscalar()))
    return found


def _without_dropout(block: Any) -> None:
    """Random numbers are not MXNet's."""
    if hasattr(block, "_rate"):
        block._rate = 0


def write_losses(name: str, folder: Path) -> dict[str, Any]:
    """MXNet's side: initial parameters and losses in files."""
    np.savez(folder / "losses.npz", losses(name, folder, first=True))
    return {}


def check_losses(name: str, folder: Path) -> dict[str, Any]:
    """hybridc's side: its losses beside MXNet's."""
    with np.load(folder / "losses.npz") as file:
        wanted = file["arr_0"]
    got = np.asarray(losses(name, folder, first=False))
    return {
        "losses": [float(f"{v:.6g}") for v in got],
        "wanted": [float(f"{v:.6g}") for v in wanted],
        "hybridized": [float(f"{v:.2g}") for v in np.abs(got - wanted) / np.abs(wanted)],
    }


# --- processes --------------------------------------------------------------------------------------------------


def work(options: argparse.Namespace) -> None:
    """Answer each line of standard input, a name and a folder, with a line of JSON."""
    warnings.simplefilter("ignore")
    reports, sys.stdout = sys.stdout, sys.stderr  # some networks print
    real = options.work == "mxnet"
    install(options.folder, real)
    without_downloads()
    if real:
        without_strays()
    np.float, np.int = float, int  # names of old versions of NumPy, which GluonCV uses
    for line in sys.stdin:
        name, _, folder = line.rstrip("\n").partition("\t")
        started = time.perf_counter()
        found: dict[str, Any] = {}
        try:
            if options.train:
                found = (write_losses if real else check_losses)(name, Path(folder))
            else:
                found = write(name, Path(folder)) if real else check(name, Path(folder) if folder else None)
        except Exception as error:
            lines = [line for line in str(error).splitlines() if line.strip()] or [""]
            found["error"] = f"{type(error).__name__}: {lines[0][:300]}"
        print(json.dumps({**found, "seconds": round(time.perf_counter() - started, 1)}), file=reports, flush=True)


class Worker:
    """A process that answers one name after the other; one that stops or takes too long is followed by another."""

    def __init__(self, options: argparse.Namespace, side: str) -> None:
        self.options = options
        self.side = side
        self.process: subprocess.Popen[str] | None = None
        self.answered = 0

    def ask(self, name: str, folder: str) -> dict[str, Any]:
        """What became of a network."""
        if self.process is None or self.answered == self.options.share:
            self.close()
            self._start()
        assert self.process is not None
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        timer = threading.Timer(self.options.limit, self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(f"{name}\t{folder}\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except OSError:
            line = ""
        timer.cancel()
        self.answered += 1
        if line:
            return json.loads(line)
        code = self.process.wait()
        self.close()
        late = "" if code != -9 else f" (-9 is also that of more than {self.options.limit:.0f} s)"
        return {"error": f"the process ended with status {code}{late}"}

    def _start(self) -> None:
        python = self.options.mxnet if self.side == "mxnet" else sys.executable
        command = [python, __file__, self.options.folder, "--work", self.side]
        environment = dict(os.environ)
        if self.side == "mxnet":
            environment.pop("PYTHONPATH", None)
            environment["MXNET_CUDNN_AUTOTUNE_DEFAULT"] = "0"
        self.process = subprocess.Popen(
            [*command, *(["--train"] if self.options.train else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if not self.options.verbose else None,
            text=True,
            env=environment,
        )
        self.answered = 0

    def close(self) -> None:
        """End it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.process = None


def examine(options: argparse.Namespace, sides: list[Worker], name: str) -> dict[str, Any]:
    """What became of a network on both sides; the files between them are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="zoo") as folder:
        report: dict[str, Any] = {"name": name}
        for side in sides:
            found = side.ask(name, folder if options.mxnet else "")
            if side.side == "mxnet":
                report["mxnet_seconds"] = found.pop("seconds", options.limit)
            report |= found
            if "error" in found:
                report["stage"] = "mxnet fails" if side.side == "mxnet" else "fails"
                return report
    report["stage"] = "ok" if _agrees(report) else "differs"
    return report


def _agrees(report: dict[str, Any]) -> bool:
    distances = [*report.get("eager", []), *report["hybridized"]]
    return all(isinstance(d, float) and d <= TOLERANCE for d in distances)


def watch(options: argparse.Namespace, names: list[str]) -> None:
    """Examine networks, several at once; each result is a line of the file and of the screen."""
    lock = threading.Lock()
    waiting = list(names)

    def serve(_: int) -> None:
        sides = [Worker(options, side) for side in (["mxnet"] if options.mxnet else []) + ["hybridc"]]
        while True:
            with lock:
                if not waiting:
                    break
                name = waiting.pop(0)
            report = examine(options, sides, name)
            with lock:
                if options.results:
                    with open(options.results, "a") as file:
                        print(json.dumps(report), file=file)
                told = report.get("error") or f"{report.get('eager', '')} {report.get('hybridized', '')}"
                print(f"{report['stage']:11} {report.get('seconds', 0):6} s {name:45} {told}", flush=True)
        for side in sides:
            side.close()

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(serve, range(options.jobs)))


def task(name: str) -> str:
    """What a network is for."""
    from gluoncv.model_zoo import model_zoo

    module = model_zoo._models[name].__module__
    return next((kind for pattern, kind in TASKS if re.search(pattern, module)), "classification")


def known(results: str | None) -> dict[str, dict[str, Any]]:
    """The latest report of each network in a file."""
    if not results or not Path(results).exists():
        return {}
    reports = [json.loads(line) for line in Path(results).read_text().splitlines()]
    return {report["name"]: report for report in reports}


def tell(names: list[str], reports: dict[str, dict[str, Any]]) -> None:
    """A table by task, and the reasons of what is not well."""
    print("| task | networks | examined | as MXNet | largest distance, eager | hybridized |")
    print("|---|---:|---:|---:|---:|---:|")
    for kind in [*dict.fromkeys(task(name) for name in names), ""]:
        group = [name for name in names if kind in ("", task(name))]
        done = [reports[name] for name in group if name in reports]
        good = [report for report in done if report["stage"] == "ok"]
        worst = [max((d for r in good for d in r.get(key, [])), default=0) for key in ("eager", "hybridized")]
        print(f"| {kind or 'all'} | {len(group)} | {len(done)} | {len(good)} | {worst[0]:.1e} | {worst[1]:.1e} |")
    bad = [report for name in names if (report := reports.get(name)) and report["stage"] != "ok"]
    reasons = Counter(f"{r['stage']}: {r.get('error') or 'other results'}" for r in bad)
    for reason, count in reasons.most_common():
        same = [r["name"] for r in bad if f"{r['stage']}: {r.get('error') or 'other results'}" == reason]
        print(f"\n{count} {reason}\n    {' '.join(same)}")


def main() -> None:
    """Examine the networks, and count what became of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="the folder in which the package gluoncv lies")
    parser.add_argument("--mxnet", help="a Python interpreter that has MXNet 1.9.1")
    parser.add_argument("--match", default="", help="only the names in which this regular expression is found")
    parser.add_argument("--only", default="", help="only these names, in this order, separated by commas")
    parser.add_argument("--task", default="", help="only the networks for this, such as classification")
    parser.add_argument("--train", action="store_true", help="compare the losses of ten steps instead of outputs")
    parser.add_argument("--results", help="a file to which results are added; what is in it is not done again")
    parser.add_argument("--again", default="", help="do again what became this, such as fails or differs")
    parser.add_argument("--report", action="store_true", help="only print the table of what is in the file")
    parser.add_argument("--jobs", type=int, default=1, help="networks at the same time")
    parser.add_argument("--share", type=int, default=6, help="networks in one process")
    parser.add_argument("--limit", type=float, default=300, help="seconds for a network on one side")
    parser.add_argument("--verbose", action="store_true", help="show what the processes print")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options)
        return
    warnings.simplefilter("ignore")
    install(options.folder, real=False)
    from gluoncv.model_zoo import get_model_list

    every = [part[0] for part in TRAINED] if options.train else list(get_model_list())
    names = options.only.split(",") if options.only else every
    names = [name for name in names if re.search(options.match, name) and options.task in ("", task(name))]
    if not options.report:
        had = known(options.results)
        watch(options, [n for n in names if n not in had or had[n]["stage"] == options.again])
    if options.results:
        tell(names, known(options.results))


if __name__ == "__main__":
    main()
