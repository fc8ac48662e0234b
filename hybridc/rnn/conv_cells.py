"""Convolutional cells of symbols: the transforms of inputs and states are convolutions of images."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from hybridc import symbol
from hybridc.errors import CheckError, ShapeError
from hybridc.rnn.base_cell import BaseRNNCell, RNNParams
from hybridc.rnn.step_cells import gru_step, lstm_step

_LEAKY = functools.partial(symbol.LeakyReLU, act_type="leaky", slope=0.2)
Pair = tuple[int, int]


class BaseConvRNNCell(BaseRNNCell):
    """The base of cells whose transforms are convolutions; states keep their size.

    Parameters
    ----------
    input_shape:
        The shape of the inputs of a step, with the batch.
    num_hidden:
        The channels of the states.
    h2h_kernel, h2h_dilate:
        The kernel of the states, of odd sizes, else a CheckError, and its dilation (height, width).
    i2h_kernel, i2h_stride, i2h_pad, i2h_dilate:
        The kernel of the inputs, its stride, padding and dilation (height, width).
    i2h_weight_initializer, h2h_weight_initializer:
        What gives the kernels their first values; None is what the program's initializer does.
    i2h_bias_initializer, h2h_bias_initializer:
        The same for the biases.
    activation:
        The activation: the name of one of ``mx.sym.Activation``, or a function of a symbol.
    prefix:
        With what the names of nodes begin, and those of variables unless ``params`` are given.
    params:
        The variables of another cell, to share them; None makes new ones.
    conv_layout:
        ``"NCHW"`` or ``"NHWC"``.
    """

    def __init__(
        self,
        input_shape: Sequence[int],
        num_hidden: int,
        h2h_kernel: Pair = (3, 3),
        h2h_dilate: Pair = (1, 1),
        i2h_kernel: Pair = (3, 3),
        i2h_stride: Pair = (1, 1),
        i2h_pad: Pair = (1, 1),
        i2h_dilate: Pair = (1, 1),
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        activation: Any = _LEAKY,
        prefix: str = "",
        params: RNNParams | None = None,
        conv_layout: str = "NCHW",
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        if any(size % 2 == 0 for size in h2h_kernel):
            raise CheckError(f"{type(self).__name__}: h2h_kernel must have odd sizes, got {h2h_kernel}")
        self._num_hidden = num_hidden
        self._conv_layout = conv_layout
        self._activation = activation
        pad = tuple(d * (k - 1) // 2 for d, k in zip(h2h_dilate, h2h_kernel, strict=True))
        self._h2h: dict[str, Any] = {"kernel": h2h_kernel, "dilate": h2h_dilate, "pad": pad, "stride": (1, 1)}
        self._i2h: dict[str, Any] = {"kernel": i2h_kernel, "stride": i2h_stride, "pad": i2h_pad, "dilate": i2h_dilate}
        probe = symbol.Convolution(symbol.var("data"), num_filter=num_hidden, layout=conv_layout, **self._i2h)
        found = probe.infer_shape(data=tuple(input_shape))[1]
        if found is None:
            raise ShapeError(f"{type(self).__name__}: the shape of states does not follow from {input_shape}")
        self._state_shape = (0, *found[0][1:])
        self._iW = self.params.get("i2h_weight", init=i2h_weight_initializer)
        self._hW = self.params.get("h2h_weight", init=h2h_weight_initializer)
        self._iB = self.params.get("i2h_bias", init=i2h_bias_initializer)
        self._hB = self.params.get("h2h_bias", init=h2h_bias_initializer)

    @property
    def _num_gates(self) -> int:
        return len(self._gate_names)

    @property
    def state_info(self) -> list[Any]:
        """The last output."""
        return [{"shape": self._state_shape, "__layout__": self._conv_layout}]

    def _conv_forward(self, inputs: Any, states: Any, name: str) -> tuple[Any, Any]:
        """The transforms of the inputs and of the last output."""
        shared: dict[str, Any] = {"num_filter": self._num_hidden * self._num_gates, "layout": self._conv_layout}
        i2h = symbol.Convolution(inputs, self._iW, self._iB, name=f"{name}i2h", **self._i2h, **shared)
        h2h = symbol.Convolution(states[0], self._hW, self._hB, name=f"{name}h2h", **self._h2h, **shared)
        return i2h, h2h

    def _step(self) -> str:
        self._counter += 1
        return f"{self._prefix}t{self._counter}_"

    def _activated(self, x: Any, **kwargs: Any) -> Any:
        return self._get_activation(x, self._activation, **kwargs)


class ConvRNNCell(BaseConvRNNCell):
    """``activation(i2h(inputs) + h2h(output))``."""

    def __init__(self, input_shape: Sequence[int], num_hidden: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(input_shape, num_hidden, *args, **{"prefix": "ConvRNN_", **kwargs})

    @property
    def _gate_names(self) -> Sequence[str]:
        return ("",)

    def __call__(self, inputs: Any, states: Any) -> tuple[Any, list[Any]]:
        name = self._step()
        i2h, h2h = self._conv_forward(inputs, states, name)
        output = self._activated(i2h + h2h, name=f"{name}out")
        return output, [output]


class ConvLSTMCell(BaseConvRNNCell):
    """A cell of an LSTM: its states are the output and the cell. Shi et al. 2015, arXiv:1506.04214."""

    def __init__(self, input_shape: Sequence[int], num_hidden: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(input_shape, num_hidden, *args, **{"prefix": "ConvLSTM_", **kwargs})

    @property
    def _gate_names(self) -> Sequence[str]:
        return ("_i", "_f", "_c", "_o")

    @property
    def state_info(self) -> list[Any]:
        """The last output, and the cell."""
        return super().state_info * 2

    def __call__(self, inputs: Any, states: Any) -> tuple[Any, list[Any]]:
        name = self._step()
        i2h, h2h = self._conv_forward(inputs, states, name)
        channels = self._conv_layout.find("C")
        gates = symbol.SliceChannel(i2h + h2h, num_outputs=4, axis=channels, name=f"{name}slice")
        return lstm_step(gates, states[1], name, self._activated)


class ConvGRUCell(BaseConvRNNCell):
    """A cell of a GRU."""

    def __init__(self, input_shape: Sequence[int], num_hidden: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(input_shape, num_hidden, *args, **{"prefix": "ConvGRU_", **kwargs})

    @property
    def _gate_names(self) -> Sequence[str]:
        return ("_r", "_z", "_o")

    def __call__(self, inputs: Any, states: Any) -> tuple[Any, list[Any]]:
        name = self._step()
        transforms = self._conv_forward(inputs, states, name)
        return gru_step(transforms, states[0], name, self._activated, self._conv_layout.find("C"))
