"""Rules: the function that computes an ONNX operator, by domain, name and the operator sets that it is for.

    @onnx_op("Gather")
    def gather(call: OnnxCall, data: Any, indices: Any) -> Any:
        return take(data, indices, call["axis"])

A rule takes the inputs as arrays of ``mx.np``, or symbols that stand for them, None where one is missing, and gives one
result or a tuple of them. What it needs as numbers, because shapes depend on it, are inputs that it declares ``known``:
those come as NumPy arrays. A ``host`` rule takes and gives NumPy arrays alone, also of dtypes that hybridc lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from hybridc.errors import OnnxFileError
from hybridc.ground.records import dataclass
from hybridc.interchange.onnx.reading.model_graph import AttributeReference, ModelGraph, ModelNode

Rule = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class OnnxRule:
    """A rule, and what it says of its inputs.

    ``since`` is the first operator set that it is for. ``known`` are the inputs that it takes as numbers; ``states``
    those that training updates beside gradients; ``constants`` those that it leaves as they are. ``host`` says that all
    are NumPy arrays, ``raw`` that they come as they are, ``pure`` that equal inputs give equal results.
    """

    apply: Rule
    since: int
    known: tuple[int, ...]
    states: tuple[int, ...]
    constants: tuple[int, ...]
    host: bool
    raw: bool
    pure: bool


RULES: dict[tuple[str, str], list[OnnxRule]] = {}


def onnx_op(
    *names: str,
    since: int = 1,
    domain: str = "",
    known: tuple[int, ...] = (),
    states: tuple[int, ...] = (),
    constants: tuple[int, ...] = (),
    host: bool = False,
    raw: bool = False,
    pure: bool = True,
) -> Callable[[Rule], Rule]:
    """Register a rule for the operators of these names, from an operator set on."""

    def register(rule: Rule) -> Rule:
        for name in names:
            rules = RULES.setdefault((domain, name), [])
            rules.append(OnnxRule(rule, since, known, states, constants, host, raw, pure))
            rules.sort(key=lambda r: -r.since)
        return rule

    return register


def rule_of(node: ModelNode) -> OnnxRule | None:
    """The rule for a node, or None: then its operator may have a body of other operators."""
    rules = RULES.get((node.domain, node.op), ())
    return next((rule for rule in rules if rule.since <= node.version), None)


class GraphRunner(Protocol):
    """What computes the graphs inside a node, see :mod:`hybridc.interchange.onnx.reading.walk`."""

    def graph(self, graph: ModelGraph, inputs: list[Any]) -> list[Any]:
        """The results of a graph, which may use the values around it."""
        ...


@dataclass(frozen=True, eq=False)
class OnnxCall:
    """One application of an operator: its attributes, ``call["axis"]``, with the standard's defaults.

    ``runner`` computes the graphs in its attributes.
    """

    node: ModelNode
    attributes: Mapping[str, Any]
    defaults: Mapping[str, Any]
    runner: GraphRunner

    def __getitem__(self, name: str) -> Any:
        value = self.attributes.get(name)
        return self.defaults.get(name) if value is None else value

    @property
    def version(self) -> int:
        """The operator set's version."""
        return self.node.version

    def wants(self, index: int) -> bool:
        """Whether something uses an output."""
        return index < len(self.node.outputs) and bool(self.node.outputs[index])

    def refuse(self, text: str) -> OnnxFileError:
        """The error that the node is wrong."""
        return OnnxFileError(f"{self.node}: {text}")


def bound(attributes: Mapping[str, Any], of_function: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes of a node, in which those that its function's caller decides have their values."""
    values = {k: of_function.get(v.name) if isinstance(v, AttributeReference) else v for k, v in attributes.items()}
    return {name: value for name, value in values.items() if value is not None}
