"""hybridc as a backend of ONNX: the interface of ``onnx.backend.base``, which ONNX's own tests run through."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, Device, DeviceType, namedtupledict

from hybridc.context import cpu, gpu, num_gpus
from hybridc.errors import OnnxUnsupportedError
from hybridc.interchange.onnx.reading.onnx_block import OnnxBlock
from hybridc.interchange.onnx.reading.read_model import read_model
from hybridc.interchange.onnx.reading.tensor_values import element_of
from hybridc.interchange.onnx.reading.walk_values import has_dtype, lifted, lowered

__all__ = ["HybridcBackend", "PreparedModel", "is_compatible", "prepare", "run_model", "run_node", "supports_device"]


class PreparedModel(BackendRep):
    """A model that is ready to run, on one device.

    Parameters
    ----------
    block:
        The model, as a block.
    """

    def __init__(self, block: OnnxBlock) -> None:
        self.block = block

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs as NumPy arrays, a tuple, which has them by their names, too.

        Parameters
        ----------
        inputs:
            The inputs: a list in their order, a dict by their names, or a single one.
        """
        named = inputs if isinstance(inputs, dict) else {}
        given = () if named else inputs if isinstance(inputs, list | tuple) else (inputs,)
        results = self.block(*(_input(x) for x in given), **{name: _input(x) for name, x in named.items()})
        results = results if len(self.block.output_names) > 1 else [results]
        return namedtupledict("Outputs", self.block.output_names)(*(lowered(x) for x in results))


def _input(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_input(x) for x in value]
    if value is None:
        return None
    array = np.asarray(value)
    if array.dtype.kind in "US":
        array = array.astype(object)
    return lifted(array) if has_dtype(array) else array


class HybridcBackend(Backend):
    """Runs ONNX models by hybridc: ``prepare(model).run(inputs)``."""

    HYBRIDIZES = False

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether the model can be read: hybridc has its operators and operator sets.

        Parameters
        ----------
        model:
            A ``ModelProto``, the bytes of a file, or its path.
        device:
            ``"CPU"``, or ``"CUDA"`` or ``"CUDA:1"`` for a GPU.
        """
        try:
            read_model(model)
        except OnnxUnsupportedError:
            return False
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", hybridize: bool | None = None, **kwargs: Any) -> PreparedModel:
        """The model as a block on a device.

        Parameters
        ----------
        model:
            A ``ModelProto``, the bytes of a file, or its path.
        device:
            ``"CPU"``, or ``"CUDA"`` or ``"CUDA:1"`` for a GPU.
        hybridize:
            Whether it is compiled at its first call; None is what the class says, False.
        """
        block = OnnxBlock(read_model(model), _context(device))
        if cls.HYBRIDIZES if hybridize is None else hybridize:
            block.hybridize()
        return PreparedModel(block)

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """The outputs of a model, as NumPy arrays.

        Parameters
        ----------
        model:
            A ``ModelProto``, the bytes of a file, or its path.
        inputs:
            As for :meth:`PreparedModel.run`.
        device:
            ``"CPU"``, or ``"CUDA"`` or ``"CUDA:1"`` for a GPU.
        """
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: Any,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """The outputs of one node, of the newest operator set or ``opset_version``.

        Parameters
        ----------
        node:
            A ``NodeProto``.
        inputs:
            Its inputs: a list in their order, or a dict by their names.
        device:
            ``"CPU"``, or ``"CUDA"`` or ``"CUDA:1"`` for a GPU.
        outputs_info:
            Accepted: dtypes and shapes of the outputs follow from the inputs.
        """
        version = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        arrays = [np.asarray(x) for x in (inputs.values() if isinstance(inputs, dict) else inputs)]
        names = [name for name in dict.fromkeys(node.input) if name]
        infos = [
            helper.make_tensor_value_info(n, element_of(x.dtype), x.shape) for n, x in zip(names, arrays, strict=True)
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = helper.make_graph([node], "node", infos, outputs)
        opsets = [helper.make_opsetid(node.domain, version)]
        return cls.run_model(helper.make_model(graph, opset_imports=opsets), arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether there is such a ``device``: ``CPU``, or ``CUDA`` where hybridc has a GPU."""
        try:
            wanted = Device(device)
        except (AttributeError, ValueError):
            return False
        return wanted.type == DeviceType.CPU or wanted.device_id < num_gpus()


def _context(device: str) -> Any:
    wanted = Device(device)
    return cpu() if wanted.type == DeviceType.CPU else gpu(wanted.device_id)


is_compatible = HybridcBackend.is_compatible
prepare = HybridcBackend.prepare
run_model = HybridcBackend.run_model
run_node = HybridcBackend.run_node
supports_device = HybridcBackend.supports_device
