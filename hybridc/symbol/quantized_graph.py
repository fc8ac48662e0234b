"""A composed graph whose products run on integers of 8 bits: which nodes it has, and the ranges of calibration.

Which operators are quantized, and how, says :data:`_MADE`; everything else gets real numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import Any

from hybridc.array_files.mxnet_format import TYPE_FLAGS
from hybridc.dialects.array.joining import Concat
from hybridc.dialects.array.shape import Flatten
from hybridc.dialects.math.contraction import FullyConnected
from hybridc.dialects.math.elementwise import Add, ElemwiseAdd
from hybridc.dialects.nn.activation import Activation
from hybridc.dialects.nn.convolution import Convolution
from hybridc.dialects.nn.pooling import Pooling
from hybridc.dialects.operator import Operator
from hybridc.dialects.quantized import layers
from hybridc.dialects.quantized.quantize import Dequantize, QuantizeV2, Requantize
from hybridc.ground.records import dataclass
from hybridc.symbol import graph
from hybridc.symbol.graph import Entry, SymbolNode

# The prefix and the endings of the names of new nodes and variables: MXNet's.
_PREFIX, _REQUANTIZED = "quantized_", "_requantize"
QUANTIZED, LEAST, MOST = "_quantize", "_min", "_max"

Triple = tuple[Entry, Entry, Entry]  # integers, and the ends of their range


@dataclass(frozen=True)
class _OnIntegers:
    """The operator on integers for one on real numbers.

    ``wide`` says that its results are integers of 32 bits; others only pass integers on, and it alone is no reason to
    quantize. ``holds`` says of an operator whether there is one for its attributes.
    """

    make: Callable[[Any], Operator]
    wide: bool
    holds: Callable[[Any], bool] = bool


def _attributes(op: Any, cls: type[Operator]) -> dict[str, Any]:
    return {name: value for name, value in op.attrs.items() if name in cls.ATTRIBUTES}


def _same_attributes(cls: type[Operator]) -> Callable[[Any], Operator]:
    return lambda op: cls.bind(**_attributes(op, cls))


_MADE: dict[type[Operator], _OnIntegers] = {
    FullyConnected: _OnIntegers(_same_attributes(layers.QuantizedFullyConnected), True),
    Convolution: _OnIntegers(_same_attributes(layers.QuantizedConv), True),
    **dict.fromkeys((Add, ElemwiseAdd), _OnIntegers(_same_attributes(layers.QuantizedElemwiseAdd), True)),
    Pooling: _OnIntegers(_same_attributes(layers.QuantizedPooling), False, lambda op: op.pool_type in ("max", "avg")),
    Activation: _OnIntegers(_same_attributes(layers.QuantizedAct), False, lambda op: op.act_type == "relu"),
    Flatten: _OnIntegers(_same_attributes(layers.QuantizedFlatten), False),
    Concat: _OnIntegers(lambda op: layers.QuantizedConcat.bind(dim=op.dim), False),
}


@dataclass
class Quantization:
    """The graph being made. ``offline`` are the parameters that are quantized before it runs."""

    offline: Collection[str]
    dtype: str
    smart: bool
    excluded_names: Collection[str] = ()
    excluded_operators: Collection[str] = ()
    reals: dict[tuple[int, int], Entry] = field(default_factory=dict[tuple[int, int], Entry])
    triples: dict[tuple[int, int], Triple] = field(default_factory=dict[tuple[int, int], Triple])
    calibrated: list[str] = field(default_factory=list[str])  # the values of the old graph whose ranges it needs

    def converted(self, entries: Sequence[Entry]) -> list[Entry]:
        """The new graph."""
        for node in graph.topological(entries):
            self._convert(node)
        return [self._real(entry) for entry in entries]

    def _convert(self, node: SymbolNode) -> None:
        if node.op is None or node.number is not None:
            self.reals[id(node), 0] = node, 0
            return
        kind = self._kind(node)
        if kind is None:
            new = node.with_inputs([self._real(e) for e in node.inputs])
            for i in range(node.num_outputs()):
                self.reals[id(node), i] = new, i
            return
        self.triples[id(node), 0] = self._quantized(node, kind)

    def _kind(self, node: SymbolNode) -> _OnIntegers | None:
        assert node.op is not None
        found = _MADE.get(type(node.op))
        if found is None or not found.holds(node.op):
            return None
        if node.name in self.excluded_names or node.op.nnvm_name() in self.excluded_operators:
            return None
        if any(source.number is not None for source, _ in node.inputs):
            return None
        known = [(id(source), i) in self.triples for source, i in node.inputs]
        if isinstance(node.op, Add):  # which alone is no reason to quantize
            return found if all(known) else None
        return found if found.wide or not self.smart or all(known) else None

    def _quantized(self, node: SymbolNode, kind: _OnIntegers) -> Triple:
        parts = [self._integers(entry) for entry in node.inputs]
        inputs = [q for q, *_ in parts] + [e for _, *ends in parts for e in ends]
        assert node.op is not None
        new = SymbolNode(kind.make(node.op), _PREFIX + node.name, inputs, node.attrs, node.location)
        if kind.wide:
            self.calibrated += node.output_names()
            dtype = "int8" if self.dtype == "int8" else "auto"
            outs = [(new, i) for i in range(3)]
            new = SymbolNode(Requantize.bind(out_type=dtype), node.name + _REQUANTIZED, outs, {}, node.location)
        return (new, 0), (new, 1), (new, 2)

    def _integers(self, entry: Entry) -> Triple:
        """A value as integers."""
        node, index = entry
        key = id(node), index
        if key not in self.triples:
            name = node.output_names()[index]
            if node.is_variable and node.name in self.offline:
                self.triples[key] = _offline(node)
            else:
                self.calibrated.append(name)
                source = self._real(entry)
                label = (node.name if node.num_outputs() == 1 else name) + QUANTIZED
                made = SymbolNode(QuantizeV2.bind(out_type=self.dtype), label, [source], {"__calib__": name})
                self.triples[key] = (made, 0), (made, 1), (made, 2)
        return self.triples[key]

    def _real(self, entry: Entry) -> Entry:
        """A value as real numbers."""
        node, index = entry
        key = id(node), index
        if key not in self.reals:
            self.reals[key] = SymbolNode(Dequantize.bind(), f"{node.name}_dequantize", self.triples[key]), 0
        return self.reals[key]


def _offline(node: SymbolNode) -> Triple:
    """The variables of a parameter as integers."""
    flags = {dtype.name: str(flag) for dtype, flag in TYPE_FLAGS.items()}
    whole = {key: value for key, value in node.attrs.items() if key == "__shape__"}
    made = SymbolNode(None, node.name + QUANTIZED, (), {**whole, "__dtype__": flags["int8"]})
    ends = [
        SymbolNode(None, made.name + end, (), {"__shape__": "(1,)", "__dtype__": flags["float32"]})
        for end in (LEAST, MOST)
    ]
    return (made, 0), (ends[0], 0), (ends[1], 0)


def with_ranges(entries: Sequence[Entry], ranges: Mapping[str, tuple[float, float]]) -> list[Entry]:
    """A copy of a quantized graph, in which ranges are known: by the names of the values of the original graph."""
    made = graph.copied(entries)
    for node in graph.topological(made):
        if isinstance(node.op, QuantizeV2):
            key = node.attrs.get("__calib__", "")
        elif isinstance(node.op, Requantize):
            key = f"{node.name.removesuffix(_REQUANTIZED)}_output"
        else:
            continue
        if key in ranges:
            low, high = (float(end) for end in ranges[key])
            node.rebind({"min_calib_range": low, "max_calib_range": high})
    return made
