"""The bases of custom operators, :class:`CustomOp` and :class:`CustomOpProp`, and their registration."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from hybridc.array.ndarray import NDArray
from hybridc.context import Context
from hybridc.errors import MXNetError, ShapeError
from hybridc.ground.location import user_depth
from hybridc.operator.custom import _PROPS


class CustomOp:
    """Base of custom operators: override ``forward`` and ``backward``.

    Each forward runs on an instance of its own, and its backward on the same one, so that ``self`` may carry
    values from one to the other.
    """

    def forward(self, is_train: bool, req: list[str], in_data: list[Any], out_data: list[Any], aux: list[Any]) -> None:
        """Compute the outputs from ``in_data`` and hand each to ``self.assign(out_data[i], req[i], value)``.

        Parameters
        ----------
        is_train:
            Whether this is under ``autograd.record()`` or ``train_mode()``.
        req:
            A list of what to do with each output: see :meth:`assign`.
        in_data:
            A list of the inputs, which cannot be written.
        out_data:
            A list of arrays for the outputs, of zeros at first.
        aux:
            A list of the auxiliary states, which may be changed in place.
        """
        raise MXNetError(f"{type(self).__name__} must override forward(self, is_train, req, in_data, out_data, aux)")

    def backward(
        self,
        req: list[str],
        out_grad: list[Any],
        in_data: list[Any],
        out_data: list[Any],
        in_grad: list[Any],
        aux: list[Any],
    ) -> None:
        """Compute the gradients of the inputs and hand each to ``self.assign(in_grad[i], req[i], value)``.

        Parameters
        ----------
        req:
            A list of what to do with the gradient of each input: see :meth:`assign`.
        out_grad:
            A list of the gradients of the outputs; with ``need_top_grad=False`` any use of one is an error.
        in_data, out_data:
            Lists of the inputs, and of the outputs as the forward left them; none can be written.
        in_grad:
            A list of arrays for the gradients of the inputs, of zeros at first.
        aux:
            A list of the auxiliary states.
        """
        # COMPAT(mxnet): there the gradient is whatever the buffer happened to hold.
        raise MXNetError(
            f"{type(self).__name__} has no backward; override backward(self, req, out_grad, in_data, "
            "out_data, in_grad, aux), with self.assign(in_grad[i], req[i], 0) for an input without gradient"
        )

    def assign(self, dst: Any, req: str, src: Any) -> None:
        """Put ``src`` into ``dst`` as ``req`` says: 'write', 'inplace': replace, 'add': add, 'null': nothing.

        ``src`` is an array or a number that broadcasts to the shape of ``dst``.
        """
        if req == "null":
            return
        # COMPAT(mxnet): an unknown req does nothing there.
        if req not in ("write", "inplace", "add"):
            raise MXNetError(f"assign: req must be 'write', 'inplace', 'add' or 'null', got {req!r}")
        if any(isinstance(x, NDArray) and x.stype != "default" for x in (dst, src)):
            dst[:] = dst + src if req == "add" else src
            return
        target = dst.asnative() if isinstance(dst, NDArray) else dst
        value = src.asnative() if isinstance(src, NDArray) else np.asarray(src)
        while value.ndim > target.ndim and value.shape[0] == 1:
            value = value[0]
        if not _fits(value.shape, target.shape):
            raise ShapeError(
                f"assign: a value of shape {value.shape} does not fit into an array of shape {target.shape}; "
                "out_data[i] has the shape that infer_shape gives for output i, in_grad[i] that of input i"
            )
        if req == "add":
            np.add(target, value, out=target, casting="unsafe")
        else:
            np.copyto(target, value, casting="unsafe")


def _fits(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether an array of ``shape`` broadcasts to exactly ``target``."""
    if len(shape) > len(target):
        return False
    return all(n in (1, t) for n, t in zip(reversed(shape), reversed(target), strict=False))


class CustomOpProp:
    """The interface of a custom operator; its constructor gets the keywords of ``nd.Custom`` as strings.

    Parameters
    ----------
    need_top_grad:
        False for a loss: its backward does not read the gradient of its output.
    """

    def __init__(self, need_top_grad: bool = True) -> None:
        self.need_top_grad_ = need_top_grad

    def list_arguments(self) -> Sequence[str]:
        """Names of the inputs; parameters are inputs too."""
        return ["data"]

    def list_outputs(self) -> Sequence[str]:
        """Names of the outputs."""
        return ["output"]

    def list_auxiliary_states(self) -> Sequence[str]:
        """Names of the states that ``forward`` mutates; they are passed after the inputs."""
        return []

    def infer_shape(self, in_shape: Any) -> Any:
        """Shapes of (inputs, outputs, auxiliary states) from those of the inputs; by default the first one.

        An unknown size of an input is -1, and the shape of one of which nothing is known []; returning the full
        shape there gives a parameter its shape.

        Parameters
        ----------
        in_shape:
            A list of the shapes of the inputs, each a list of sizes.
        """
        outputs, states = len(self.list_outputs()), len(self.list_auxiliary_states())
        return in_shape, [in_shape[0]] * outputs, [in_shape[0]] * states

    def infer_type(self, in_type: Any) -> Any:
        """Dtypes of (inputs, outputs, auxiliary states) from those of the inputs; by default the first.

        The dtype of an input of which nothing is known is None.

        Parameters
        ----------
        in_type:
            A list of the dtypes of the inputs.
        """
        outputs, states = len(self.list_outputs()), len(self.list_auxiliary_states())
        return in_type, [in_type[0]] * outputs, [in_type[0]] * states

    def infer_storage_type(self, in_stype: Any) -> Any:
        """Storage types of (inputs, outputs, auxiliary states) from those of the inputs; by default all are dense.

        An operator whose inputs are others than it says gets dense copies.

        Parameters
        ----------
        in_stype:
            A list of the storage types of the inputs: ``"default"`` (dense), ``"row_sparse"`` or ``"csr"``.
        """
        return (
            list(in_stype),
            ["default"] * len(self.list_outputs()),
            ["default"] * len(self.list_auxiliary_states()),
        )

    def infer_storage_type_backward(
        self, ograd_stype: Any, in_stype: Any, out_stype: Any, igrad_stype: Any, aux_stype: Any
    ) -> Any:
        """Storage types of the backward's arrays, of which those of the input gradients count; by default dense.

        Parameters
        ----------
        ograd_stype, in_stype, out_stype, igrad_stype, aux_stype:
            Lists of the storage types of the gradients of outputs, the inputs, the outputs, the gradients of
            inputs, and the auxiliary states.
        """
        groups = (ograd_stype, in_stype, out_stype, igrad_stype, aux_stype)
        return tuple(["default"] * len(group) for group in groups)

    def declare_backward_dependency(self, out_grad: Any, in_data: Any, out_data: Any) -> Any:
        """The arrays that the backward reads, a list of some of the given ids; the others need not be saved.

        Parameters
        ----------
        out_grad, in_data, out_data:
            Lists of numbers, the ids of the gradients of outputs, of the inputs, and of the outputs.
        """
        return [*(out_grad if self.need_top_grad_ else ()), *in_data, *out_data]

    # By position, so that a type checker takes the names that a user's method has.
    def create_operator(self, ctx: Context, in_shapes: Any, in_dtypes: Any, /) -> CustomOp:
        """The :class:`CustomOp` for one use, with these inputs.

        Parameters
        ----------
        ctx:
            The device.
        in_shapes:
            A list of the shapes of the inputs.
        in_dtypes:
            A list of their dtypes.
        """
        return CustomOp()


Prop = TypeVar("Prop", bound=type[CustomOpProp])


def register(reg_name: str) -> Callable[[Prop], Prop]:
    """Class decorator: enter a :class:`CustomOpProp` under the name that ``nd.Custom(op_type=…)`` uses.

    Parameters
    ----------
    reg_name:
        The name. A class that another name's class replaces is a warning; what is no subclass is an MXNetError.
    """

    def enter(prop_cls: Prop) -> Prop:
        given: Any = prop_cls
        if not isinstance(given, type) or not issubclass(given, CustomOpProp):
            raise MXNetError(
                f"operator.register({reg_name!r}) takes a subclass of mx.operator.CustomOpProp, got {given!r}"
            )
        old = _PROPS.get(reg_name)
        if old is not None and (old.__module__, old.__qualname__) != (given.__module__, given.__qualname__):
            warnings.warn(
                f"custom operator {reg_name!r} was {old.__module__}.{old.__qualname__}, now it is "
                f"{given.__module__}.{given.__qualname__}",
                stacklevel=user_depth(),
            )
        _PROPS[reg_name] = given
        return prop_cls

    return enter
