"""The layers of a network as the model of scaling sees them: elements of their parameters, operations per example."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from hybridc import symbol
from hybridc.errors import AttributeValueError
from hybridc.gluon import HybridBlock
from hybridc.gluon.model_zoo import vision
from hybridc.ground.records import dataclass

# BERT-base: layers, width, width inside the feed-forward parts, words, positions, segments, and words per example.
_LAYERS, _WIDTH, _INNER, _WORDS, _POSITIONS, _SEGMENTS, _LENGTH = 12, 768, 3072, 30522, 512, 2, 128


@dataclass(frozen=True)
class LayerSize:
    """A layer: the elements of each of its parameters, and floating-point operations of its forward for one example."""

    name: str
    parameters: tuple[int, ...]
    flops: float


def of_block(net: HybridBlock, shape: tuple[int, ...]) -> list[LayerSize]:
    """The layers with parameters of a network for examples of a shape, in the order of the forward.

    Operations are those of convolutions and dense layers: two for each use of an element of their weight.
    """
    found: Any = symbol.var("data")
    internals = cast("Any", net)(found).get_internals()
    shapes = dict(zip(internals.list_outputs(), internals.infer_shape(data=(1, *shape))[1], strict=True))
    nodes: list[dict[str, Any]] = json.loads(internals.tojson())["nodes"]
    states = {*internals.list_auxiliary_states(), "data"}
    layers: list[LayerSize] = []
    for node in nodes:
        inputs: list[dict[str, Any]] = [nodes[i[0]] for i in node["inputs"]]
        names: list[str] = [each["name"] for each in inputs if each["op"] == "null" and each["name"] not in states]
        if not names:
            continue
        flops = 0.0
        if node["op"] in ("Convolution", "FullyConnected"):
            weight, out = shapes[names[0]], shapes[f"{node['name']}_output"]
            flops = 2.0 * math.prod(weight) * math.prod(out) / weight[0]
        layers.append(LayerSize(node["name"], tuple(math.prod(shapes[n]) for n in names), flops))
    return layers


def of_zoo(name: str, shape: tuple[int, ...] = (3, 224, 224)) -> list[LayerSize]:
    """The layers of a network of the model zoo."""
    return of_block(vision.get_model(name), shape)


def encoder(length: int = _LENGTH) -> list[LayerSize]:
    """BERT-base without an output layer: 12 layers of width 768 over a vocabulary of 30,522 words."""

    def dense(name: str, inputs: int, outputs: int, rows: int = length) -> LayerSize:
        return LayerSize(name, (inputs * outputs, outputs), 2.0 * inputs * outputs * rows)

    def norm(name: str) -> LayerSize:
        return LayerSize(name, (_WIDTH, _WIDTH), 0.0)

    tables = tuple(_WIDTH * rows for rows in (_WORDS, _POSITIONS, _SEGMENTS))
    layers = [LayerSize("embedding", tables, 0.0), norm("norm")]
    for i in range(_LAYERS):
        layers += [dense(f"{i}.{name}", _WIDTH, _WIDTH) for name in ("query", "key", "value")]
        layers.append(LayerSize(f"{i}.attention", (), 4.0 * length * length * _WIDTH))  # scores, and sums of values
        layers += [dense(f"{i}.out", _WIDTH, _WIDTH), norm(f"{i}.norm1")]
        layers += [dense(f"{i}.inner", _WIDTH, _INNER), dense(f"{i}.outer", _INNER, _WIDTH), norm(f"{i}.norm2")]
    return [*layers, dense("pooler", _WIDTH, _WIDTH, 1)]


def of_file(path: Path) -> list[LayerSize]:
    """Layers from lines of ``parameters,operations`` in the order of the forward; text after ``#`` is left out."""
    layers: list[LayerSize] = []
    with path.open(newline="") as lines:
        for number, row in enumerate(csv.reader(line.partition("#")[0] for line in lines), 1):
            if not row or not "".join(row).strip():
                continue
            try:
                parameters, flops = (float(each) for each in row)
                if min(parameters, flops) < 0 or parameters != int(parameters) or not math.isfinite(flops):
                    raise ValueError
            except ValueError:
                raise AttributeValueError(
                    f"{path}, line {number}: must be the parameters of a layer and its operations per example, two "
                    f"numbers such as 4096,8192; got {','.join(row)!r}"
                ) from None
            layers.append(LayerSize(f"line {number}", (int(parameters),) if parameters else (), flops))
    return layers


NETWORKS: dict[str, Callable[[], list[LayerSize]]] = {"resnet50": lambda: of_zoo("resnet50_v1"), "encoder": encoder}


def layers_of(name: str) -> list[LayerSize]:
    """The layers of a network by its name here or in the model zoo, or by the path of its file."""
    if name in NETWORKS:
        return NETWORKS[name]()
    if Path(name).is_file():
        return of_file(Path(name))
    try:
        return of_zoo(name)
    except ValueError as error:
        raise AttributeValueError(
            f"network must be {', '.join(NETWORKS)}, a name of the model zoo, or a file of lines parameters,operations;"
            f" got {name!r}"
        ) from error
