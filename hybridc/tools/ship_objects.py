"""Compile what is the same for all users into the package: ``python -m hybridc.tools.ship_objects [LEVEL ...]``.

The native runtime and its variant that records events, for this architecture, and each of ``TRIPLES`` where llvmlite
is installed, which compiles for all of them.
For each level of processors that is named, ``host`` for this computer's, those functions of usual networks are added
that serve arrays of all sizes (matmuls, convolutions, Winograd's transforms, transposes, copies): about ten seconds a
level. A level of another architecture is cross-compiled, for Linux. Building a wheel makes all, setting up a source
tree those of this computer; what is missing is compiled at first use.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from hybridc.compile.stages import Traced
from hybridc.gluon import HybridBlock, nn, rnn
from hybridc.gluon.model_zoo import vision
from hybridc.ground.store import ship, shipped, source_version, unship
from hybridc.lower.llvm.codegen import processor
from hybridc.lower.llvm.codegen.native_function import NativeFunction, llvm_of, llvm_text, ship_object
from hybridc.lower.llvm.codegen.processor import TRIPLES
from hybridc.lower.llvm.executor.runtime_object import compiled_runtime, runtime_key
from hybridc.lower.llvm.native_source import NativeSource
from hybridc.nd import ones
from hybridc.options import OPTIONS
from hybridc.trace.tracer import trace_call

# How it calls itself for each level.
KEY = "--key"
# Some processors of the last level have loops of wider vectors than others.
WIDE = {"x86-64-v4": 512}


def main(levels: Sequence[str] = ()) -> None:
    """Make the objects, unless those of these sources are there."""
    here = platform.machine() if sys.platform == "linux" else ""
    architectures = [each for each in TRIPLES if each == here or importlib.util.find_spec("llvmlite") is not None]
    runtimes = [(architecture, records) for architecture in architectures for records in (False, True)]
    keys = [runtime_key("linux", *each) for each in runtimes]
    functions = {f"functions {level} {source_version()} {llvm_of(level)}": level for level in levels}
    if all(shipped(key, bytes) for key in keys) and all(shipped(key, int) for key in functions):
        return
    unship()
    for key, (architecture, records) in zip(keys, runtimes, strict=True):
        ship(key, compiled_runtime(architecture, records, "" if architecture == here else TRIPLES[architecture]))
    for key, level in functions.items():
        # Costs that were measured here are no matter of other computers.
        env = {**os.environ, "HYBRIDC_CPU": level, "HYBRIDC_MACHINE": "nominal", "HYBRIDC_TARGET": "llvm"}
        subprocess.run([sys.executable, "-m", "hybridc.tools.ship_objects", KEY, key], env=env, check=True)


def ship_functions(key: str) -> None:
    """Make functions for all sizes part of the package, for the level of ``HYBRIDC_CPU``; under this key, how many."""
    level = processor.shared_level()
    widths = {processor.vector_bits()} | {WIDE[name] for name in {OPTIONS.cpu} & WIDE.keys()}
    functions = {f.key: f for traced in programs() for f in _called(traced) if f.for_all_sizes}
    for function in functions.values():
        for width in sorted(widths):
            ship_object(llvm_text([function], width), level)
    ship(key, len(functions))


def _called(traced: Traced) -> list[NativeFunction]:
    programs = traced.lowered_again().programs.values()  # with symbolic sizes, as a first call lowers it
    sources = [program for program in programs if isinstance(program, NativeSource)]
    return [function for source in sources for function in source.functions_called()]


def programs() -> Iterator[Traced]:
    """Traces of networks that have the functions that most networks have: predictions, and gradients."""
    residual = vision.ResNetV1(vision.BasicBlockV1, [1, 1, 1, 1], [64, 64, 128, 256, 512], classes=10)
    deep = vision.ResNetV1(vision.BottleneckV1, [2, 2, 2, 2], [64, 256, 512, 1024, 2048], classes=10)
    layers = nn.HybridSequential()
    layers.add(nn.Dense(256, activation="relu"), nn.Dense(10))
    images, thumbnails = ones((1, 3, 224, 224)), ones((8, 3, 64, 64))
    sequences, rows = ones((8, 32, 128)), ones((64, 784))
    inputs: dict[HybridBlock, tuple[Any, ...]] = {
        residual: (images, thumbnails),
        layers: (rows, rows[:1]),
        _Encoder(128, 4): (sequences,),
        _Recurrent(128): (ones((32, 128)),),
        deep: (images,),
        _Segmenting(32): (ones((1, 3, 128, 128)),),
    }
    for net, arrays in inputs.items():
        net.initialize()
        for x in arrays:
            yield net.trace(x)  # which gives the parameters their shapes, and runs no code
        if net is deep or isinstance(net, _Segmenting):
            continue  # gradients have the functions of the others
        training = trace_call(net, [arrays[-1]], True)
        yield Traced(training, tuple(range(1, len(training.leaves))))


class _Recurrent(HybridBlock):
    """A step of an LSTM: loops would compile theirs while they are lowered, for a processor that need not be here."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.cell, self.output = rnn.LSTMCell(size), nn.Dense(64)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.output(self.cell(x, [x, x])[0])


class _Segmenting(HybridBlock):
    """A U-Net: convolutions of smaller and smaller images, then of larger ones beside those of before."""

    def __init__(self, size: int) -> None:
        super().__init__()
        widths = (size, 2 * size, 4 * size, 8 * size)
        self.down, self.up, self.join = (nn.HybridSequential() for _ in range(3))
        for width in widths:
            self.down.add(self._twice(width))
        for width in widths[-2::-1]:
            self.up.add(nn.Conv2DTranspose(width, 2, 2))
            self.join.add(self._twice(width))
        self.pool, self.output = nn.MaxPool2D(), nn.Conv2D(2, 1)

    def _twice(self, width: int) -> nn.HybridSequential:
        block = nn.HybridSequential()
        for _ in range(2):
            block.add(nn.Conv2D(width, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
        return block

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        before: list[Any] = []
        for block in self.down:
            before.append(x := block(self.pool(x) if before else x))
        for up, join, beside in zip(self.up, self.join, before[-2::-1], strict=True):
            x = join(F.concat(up(x), beside, dim=1))
        return self.output(x)


class _Encoder(HybridBlock):
    """A layer of a transformer."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project, self.join = nn.Dense(3 * size, flatten=False), nn.Dense(size, flatten=False)
        self.widen, self.narrow = nn.Dense(4 * size, flatten=False), nn.Dense(size, flatten=False)
        self.norms = nn.LayerNorm(), nn.LayerNorm()
        for index, norm in enumerate(self.norms):
            self.register_child(norm, f"norm{index}")

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        parts = F.split(self.project(self.norms[0](x)), num_outputs=3, axis=-1)
        q, k, v = (self._by_head(F, part) for part in parts)
        scores = F.softmax(F.batch_dot(q, k, transpose_b=True) * 0.125)
        mixed = F.reshape(F.batch_dot(scores, v), (-4, -1, self.heads, 0, 0), reverse=False)
        y = x + self.join(F.reshape(F.transpose(mixed, (0, 2, 1, 3)), (0, 0, -3)))
        return y + self.narrow(F.LeakyReLU(self.widen(self.norms[1](y)), act_type="gelu"))

    def _by_head(self, F: Any, x: Any) -> Any:
        split = F.transpose(F.reshape(x, (0, 0, -4, self.heads, -1)), (0, 2, 1, 3))
        return F.reshape(split, (-3, 0, 0))


if __name__ == "__main__":
    ship_functions(sys.argv[2]) if sys.argv[1:2] == [KEY] else main(sys.argv[1:])
