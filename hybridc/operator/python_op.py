"""MXNet's first kinds of operators in Python, older than CustomOp: :class:`NumpyOp` and :class:`NDArrayOp`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from hybridc.context import Context
from hybridc.errors import MXNetError
from hybridc.ground.hooks import HOOKS
from hybridc.operator.custom_op import CustomOp, CustomOpProp, register

# The instances in graphs, by the number that a graph has of each; MXNet, too, keeps them for ever.
_INSTANCES: list[PythonOp] = []


class PythonOp:
    """Base of :class:`NumpyOp` and :class:`NDArrayOp`: an instance is applied to symbols by calling it.

    Parameters
    ----------
    need_top_grad:
        Whether the backward reads the gradients of the outputs; False for a loss.
    """

    def __init__(self, need_top_grad: bool = True) -> None:
        self.need_top_grad_ = need_top_grad
        warnings.warn(f"{type(self).__name__}: PythonOp has been deprecated. Please use CustomOp", stacklevel=2)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The symbol of its outputs; inputs are given by position or by name, and ``name`` is that of the node."""
        return self.get_symbol(*args, **kwargs)

    def get_symbol(self, *args: Any, **kwargs: Any) -> Any:
        """The symbol of its outputs."""
        raise NotImplementedError(f"{type(self).__name__} must be a subclass of mx.operator.NumpyOp or NDArrayOp")

    def forward(self, in_data: list[Any], out_data: list[Any]) -> None:
        """Write the outputs into ``out_data``; by default the first is the first input.

        Parameters
        ----------
        in_data:
            A list of the inputs.
        out_data:
            A list of arrays for the outputs.
        """
        out_data[0][:] = in_data[0]

    def backward(self, out_grad: list[Any], in_data: list[Any], out_data: list[Any], in_grad: list[Any]) -> None:
        """Write the gradients of the inputs into ``in_grad``; by default the first is 1.

        Parameters
        ----------
        out_grad:
            A list of the gradients of the outputs; empty without ``need_top_grad``.
        in_data, out_data:
            Lists of the inputs and of the outputs.
        in_grad:
            A list of arrays for the gradients of the inputs.
        """
        in_grad[0][:] = 1.0

    def infer_shape(self, in_shape: list[Any]) -> Any:
        """Shapes of the inputs and of the outputs; by default one output of the first input's shape.

        Parameters
        ----------
        in_shape:
            A list of the shapes of the inputs.
        """
        return in_shape, [in_shape[0]]

    def list_outputs(self) -> list[str]:
        """Names of the outputs."""
        return ["output"]

    def list_arguments(self) -> list[str]:
        """Names of the inputs."""
        return ["data"]

    def need_top_grad(self) -> bool:
        """Whether the backward reads the gradients of the outputs; not so for a loss."""
        return self.need_top_grad_

    def _arrays(self, arrays: Sequence[Any]) -> list[Any]:
        """NDArrays as ``forward`` and ``backward`` get them."""
        return list(arrays)


class NumpyOp(PythonOp):
    """An operator whose ``forward`` and ``backward`` are written on NumPy's arrays.

    Subclass it, override what differs of ``forward``, ``backward``, ``infer_shape``, ``list_arguments`` and
    ``list_outputs``, and call an instance: ``softmax = MySoftmax(); net = softmax(data=fc, name="softmax")``.
    """

    def get_symbol(self, *args: Any, **kwargs: Any) -> Any:
        """The symbol of its outputs."""
        return _apply(self, args, kwargs)

    def _arrays(self, arrays: Sequence[Any]) -> list[Any]:
        return [x.asnative() for x in arrays]


class NDArrayOp(PythonOp):
    """An operator whose ``forward`` and ``backward`` are written on NDArrays; see :class:`NumpyOp`."""

    def get_symbol(self, *args: Any, **kwargs: Any) -> Any:
        """The symbol of its outputs."""
        return _apply(self, args, kwargs)

    def declare_backward_dependency(self, out_grad: Any, in_data: Any, out_data: Any) -> Any:
        """The arrays that the backward reads, a list of some of the given ids; the others need not be saved.

        Parameters
        ----------
        out_grad, in_data, out_data:
            Lists of numbers, the ids of the gradients of outputs, of the inputs, and of the outputs.
        """
        return [*(out_grad if self.need_top_grad() else ()), *in_data, *out_data]


def _apply(op: PythonOp, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    _INSTANCES.append(op)
    return HOOKS.symbols().Custom(*args, op_type="_Native", info=len(_INSTANCES) - 1, **kwargs)


@register("_Native")
class _InstanceProp(CustomOpProp):
    """The instance that ``info`` numbers, as a custom operator."""

    def __init__(self, info: str) -> None:
        if not info.isdigit() or int(info) >= len(_INSTANCES):
            # COMPAT(mxnet): there the text is an address of the process that wrote the file, and reading it crashes.
            raise MXNetError(
                f"_Native: there is no instance {info!r} of a NumpyOp or NDArrayOp in this process; a graph with one "
                "cannot be read from a file: write a CustomOp with a CustomOpProp registered under a name"
            )
        self.instance = _INSTANCES[int(info)]
        super().__init__(self.instance.need_top_grad())

    def list_arguments(self) -> Sequence[str]:
        return self.instance.list_arguments()

    def list_outputs(self) -> Sequence[str]:
        return self.instance.list_outputs()

    def infer_shape(self, in_shape: Any) -> Any:
        return self.instance.infer_shape(in_shape)

    def declare_backward_dependency(self, out_grad: Any, in_data: Any, out_data: Any) -> Any:
        declare = getattr(self.instance, "declare_backward_dependency", super().declare_backward_dependency)
        return declare(out_grad, in_data, out_data)

    def create_operator(self, ctx: Context, in_shapes: Any, in_dtypes: Any) -> CustomOp:
        return _InstanceCall(self.instance)


class _InstanceCall(CustomOp):
    """Calls the instance, which writes into the arrays itself."""

    def __init__(self, instance: PythonOp) -> None:
        self._instance = instance

    def forward(self, is_train: bool, req: list[str], in_data: list[Any], out_data: list[Any], aux: list[Any]) -> None:
        arrays = self._instance._arrays
        self._instance.forward(in_data=arrays(in_data), out_data=arrays(out_data))

    def backward(
        self,
        req: list[str],
        out_grad: list[Any],
        in_data: list[Any],
        out_data: list[Any],
        in_grad: list[Any],
        aux: list[Any],
    ) -> None:
        arrays = self._instance._arrays
        given = out_grad if self._instance.need_top_grad() else []
        self._instance.backward(
            out_grad=arrays(given), in_data=arrays(in_data), out_data=arrays(out_data), in_grad=arrays(in_grad)
        )
