"""hybridc itself, hybridized; the mode is the target, which ``HYBRIDC_TARGET`` has told the library."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

import hybridc as mx
from benchmarks.peers.peer import Counts, Peer, Program, Task, as_list
from hybridc.options import OPTIONS


class Hybridc(Peer):
    """The networks of ``benchmarks/``; training steps as one program."""

    def __init__(self, target: str) -> None:
        if target != OPTIONS.target:
            raise RuntimeError(f"this hybridc compiles for {OPTIONS.target}, not for {target}")
        self.version, self.target = mx.__version__, target

    def load(self) -> None:
        # Importing the compiler is no part of the first call, although hybridc imports it then.
        importlib.import_module("hybridc.dialects.mlir.late_formats").install()
        importlib.import_module("hybridc.compile.new_sizes")
        if self.target == "llvm":
            importlib.import_module("hybridc.runtime.native_executable")
            importlib.import_module("hybridc.lower.llvm.emit_steps")
            # Other frameworks load LLVM at import, too.
            importlib.import_module("hybridc.lower.llvm.codegen.llvm").llvm_version()
        from benchmarks import encoder_train, images, loop_workloads, workloads

        self.networks, self.images = workloads, images
        self.distance, self.language = encoder_train.TokenDistance, loop_workloads.LanguageModel

    def array(self, value: np.ndarray) -> Any:
        return mx.nd.array(value, dtype="float32")

    def program(self, task: Task) -> Program | None:
        own = super().program(task)
        if own is not None:
            return own
        made = self.workload(task.name).network(arrays_of(task), True)
        return Program(made.call, made.fetch)

    def counts(self, task: Task) -> Counts:
        return importlib.import_module("benchmarks.peers.hybridc_counts").counted(task)[0]

    def onnx_file(self, task: Task) -> Program:
        net = mx.onnx.load(task.file)
        net.hybridize()
        given = [mx.np.array(value, dtype=value.dtype) for value in task.arrays.values()]
        return Program(lambda: net(*given), lambda found: [x.asnumpy() for x in as_list(found)])

    def image_training(self, task: Task) -> Program:
        arrays, images = arrays_of(task), self.images
        net = images.ImageNet(images.NETWORKS[task.name], arrays)
        parameters = [getattr(net, name) for name in net.names]
        return training(task, net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), arrays["x"], arrays["y"], parameters)

    def mlp_train(self, task: Task) -> Program:
        net = self.networks.mlp_net(arrays := arrays_of(task))
        parameters = [p for layer in net for p in (layer.weight, layer.bias)]
        return training(task, net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), arrays["x"], arrays["y"], parameters)

    def encoder_train(self, task: Task) -> Program:
        arrays = arrays_of(task)
        x, y = arrays.pop("x"), arrays.pop("y")
        net = self.networks.Encoder(arrays)
        return training(task, net, self.distance(), x, y, [getattr(net, name) for name in arrays])

    def language_model(self, task: Task) -> Program:
        arrays = arrays_of(task)
        net = self.language(arrays)
        return training(task, net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), arrays["x"], arrays["y"], net.trained())


def arrays_of(task: Task) -> dict[str, Any]:
    """The inputs as hybridc's arrays."""
    return {name: mx.nd.array(value, dtype="float32") for name, value in task.arrays.items()}


def training(task: Task, net: Any, loss: Any, x: Any, y: Any, parameters: list[Any]) -> Program:
    """Steps of SGD with momentum, each one call."""
    settings = {"learning_rate": task.learning_rate, "momentum": task.momentum}
    step = mx.gluon.TrainStep(net, loss, mx.gluon.Trainer(net.collect_params(), "sgd", settings))

    def fetch(losses: Any) -> list[np.ndarray]:
        return [np.asarray(losses.asnumpy().mean()), *(p.data().asnumpy() for p in parameters)]

    return Program(lambda *data: step(*(data or (x, y))), fetch)


def open_peer(mode: str, threads: int) -> Peer:
    return Hybridc(mode)
