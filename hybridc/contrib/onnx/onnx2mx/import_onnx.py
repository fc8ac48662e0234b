"""Graphs of ONNX, as protobuf has them, in MXNet's forms."""

from __future__ import annotations

from typing import Any

from hybridc import onnx


class GraphProto:
    """The functions of the importer for a graph of ONNX and the version of its operator set."""

    def from_onnx(self, graph: Any, opset_version: int) -> Any:
        """The symbol of a graph, its arguments and its auxiliary states."""
        return onnx.import_model(onnx.model_of_graph(graph, opset_version))

    def get_graph_metadata(self, graph: Any) -> Any:
        """Names and shapes of a graph's inputs and outputs."""
        return onnx.get_model_metadata(onnx.model_of_graph(graph))

    def graph_to_gluon(self, graph: Any, ctx: Any, opset_version: int) -> Any:
        """The block of a graph on a device."""
        return onnx.import_to_gluon(onnx.model_of_graph(graph, opset_version), ctx)
