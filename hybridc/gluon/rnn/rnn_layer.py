"""Recurrent layers over whole sequences, computed by the operator ``RNN``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar, Unpack, overload

from hybridc import nd, symbol
from hybridc.array.autocast import AUTOCAST
from hybridc.array.ndarray import NDArray
from hybridc.array.numpy_array import as_default
from hybridc.dialects.control.rnn import GATES, Rnn
from hybridc.errors import AttributeValueError, CheckError, ShapeError, UnsupportedError
from hybridc.gluon.block import HybridBlock
from hybridc.gluon.naming import BlockOptions
from hybridc.gluon.parameter import Parameter
from hybridc.gluon.rnn.basic_cells import GRUCell, LSTMCell, RNNCell
from hybridc.gluon.rnn.modifiers import DropoutCell
from hybridc.gluon.rnn.stacks import BidirectionalCell, HybridSequentialRNNCell
from hybridc.gluon.utils import shape_is_known
from hybridc.ground.display.tracebacks import hides_frames
from hybridc.ground.state import inside_rule
from hybridc.trace.traced import Symbol, TracedSymbol

__all__ = ["GRU", "LSTM", "RNN"]

_NAME = re.compile(r"([lr])(\d+)_(i2h|h2h|h2r)_(weight|bias)")


class _RNNLayer(HybridBlock):
    """Layers of recurrent cells of one kind.

    Parameters
    ----------
    hidden_size:
        The number of features of each direction's outputs and of the states.
    num_layers:
        The number of layers, each on the outputs of the one below.
    layout:
        The axes of sequences: "TNC", steps first, or "NTC", batch first. States have the layers first in both.
    dropout:
        The probability that an element between two layers becomes 0 in train mode.
    bidirectional:
        Whether each layer also goes through the steps backwards: outputs have twice as many features.
    input_size:
        The number of features of the inputs; 0: it follows from the first.
    projection_size:
        The number of features to which outputs are projected, as in an LSTMPCell of ``gluon.contrib.rnn``; None:
        they are not.
    h2r_weight_initializer:
        The initializer of the weights of the projection.
    state_clip_min:
        The least that elements of the memory may be, given together with the most; None: no limit.
    state_clip_max:
        The most that elements of the memory may be; None: no limit.
    state_clip_nan:
        Whether NaN in the memory is clipped, too.
    dtype:
        The dtype of the parameters.
    use_sequence_length:
        Whether calls take ``sequence_length``, the length of each row.
    activation:
        The activation function: "relu" or "tanh"; another is an AttributeValueError.
    i2h_weight_initializer:
        The initializer of the weights of inputs; None: that of ``initialize()``.
    h2h_weight_initializer:
        The initializer of the weights of the last output; None: that of ``initialize()``.
    i2h_bias_initializer:
        The initializer of the bias of inputs.
    h2h_bias_initializer:
        The initializer of the bias of the last output.
    """

    STATES: ClassVar[int] = 1  # arrays of states that it takes and gives

    def __init__(
        self,
        mode: str,
        hidden_size: int,
        num_layers: int,
        layout: str,
        dropout: float,
        bidirectional: bool,
        input_size: int,
        initializers: dict[str, Any],
        dtype: Any,
        use_sequence_length: bool,
        options: dict[str, Any],
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        super().__init__(**kwargs)
        if layout not in ("TNC", "NTC"):
            raise CheckError(f"{type(self).__name__}: layout must be 'TNC' or 'NTC', got {layout!r}")
        self._mode = mode
        self._hidden_size = hidden_size
        self._num_layers = num_layers
        self._layout = layout
        self._dropout = dropout
        self._dir = 1 + bool(bidirectional)
        self._input_size = input_size
        self._use_sequence_length = use_sequence_length
        self._options = options
        self._dtype = dtype
        projected = options.get("projection_size")
        width, rows, columns = projected or hidden_size, GATES[mode] * hidden_size, input_size
        for layer in range(num_layers):
            for direction in "lr"[: self._dir]:
                shapes = {
                    "i2h_weight": (rows, columns),
                    "h2h_weight": (rows, width),
                    "i2h_bias": (rows,),
                    "h2h_bias": (rows,),
                    **({"h2r_weight": (projected, hidden_size)} if projected else {}),
                }
                for name, shape in shapes.items():
                    full = f"{direction}{layer}_{name}"
                    given: Any = {"shape": shape, "init": initializers.get(name), "dtype": dtype}
                    setattr(self, full, self.params.get(full, allow_deferred_init=True, **given))
            columns = width * self._dir

    def __repr__(self) -> str:
        shape: Any = self._reg_params["l0_i2h_weight"].shape
        mapping = f"{shape[1] or None} -> {shape[0] // GATES[self._mode]}"
        more = f", num_layers={self._num_layers}" if self._num_layers != 1 else ""
        more += f", dropout={self._dropout}" if self._dropout else ""
        more += ", bidirectional" if self._dir == 2 else ""
        return f"{type(self).__name__}({mapping}, {self._layout}{more})"

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Parameter]:
        """The names in files are those of MXNet's, which are those of a stack of cells."""
        start = f"{prefix}." if prefix else ""
        found: dict[str, Parameter] = {}
        for name, parameter in self._reg_params.items():
            match = _NAME.fullmatch(name)
            assert match is not None, "parameters are named by layer and direction"
            direction, layer, gate, kind = match.groups()
            cell = f"{direction}_cell." if self._dir == 2 else ""
            found[f"{start}_unfused.{layer}.{cell}{gate}_{kind}"] = parameter
        return found

    def cast(self, dtype: Any) -> None:
        """Convert the parameters, and states that are made from now on."""
        super().cast(dtype)
        self._dtype = dtype

    # --- states --------------------------------------------------------------------------------------------

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """The shape and the layout of each state, as dicts: ``[{'shape': (2, 4, 8), '__layout__': 'LNC'}]``.

        Parameters
        ----------
        batch_size:
            The number of rows; 0: it is left open.
        """
        layers = self._num_layers * self._dir
        sizes = [self._options.get("projection_size") or self._hidden_size, self._hidden_size][: self.STATES]
        return [{"shape": (layers, batch_size, n), "__layout__": "LNC"} for n in sizes]

    def begin_state(self, batch_size: int = 0, func: Any = nd.zeros, **kwargs: Any) -> list[Any]:
        """The states before the first step, a list: ``func(shape=, **kwargs)`` for each.

        Parameters
        ----------
        batch_size:
            The number of rows.
        func:
            What makes a state: a function of ``mx.nd`` or ``mx.sym``, as ``mx.nd.ones``.
        **kwargs:
            Further keywords of ``func``, as ``ctx`` and ``dtype``.
        """
        infos = self.state_info(batch_size)
        states = [func(**{**{k: v for k, v in info.items() if not k.startswith("__")}, **kwargs}) for info in infos]
        return as_default(states) if func is nd.zeros else states

    def _first_states(self, inputs: Any) -> list[Any]:
        """Zeros, for a batch like the inputs."""
        if isinstance(inputs, Symbol) and not isinstance(inputs, TracedSymbol):
            row = symbol.slice_axis(inputs, axis=self._layout.index("T"), begin=0, end=1)
            row = symbol.slice_axis(row, axis=2, begin=0, end=1)
            zeros = symbol.zeros_like(symbol.transpose(row, axes=(1, 0, 2)) if self._layout == "NTC" else row)
            shapes = [info["shape"] for info in self.state_info()]
            return [symbol.broadcast_axis(zeros, axis=(0, 2), size=(s[0], s[2])) for s in shapes]
        if len(inputs.shape) != 3:
            raise ShapeError(f"{self.name}: inputs must have 3 axes, {self._layout}, got shape {inputs.shape}")
        made: dict[str, Any] = {"dtype": inputs.dtype}
        if isinstance(inputs, NDArray):
            made["ctx"] = inputs.context
        func = nd.zeros if isinstance(inputs, NDArray) else symbol.zeros
        return self.begin_state(inputs.shape[self._layout.index("N")], func, **made)

    def _unfuse(self) -> HybridSequentialRNNCell:
        """A stack of cells with the same parameters; see ``unfuse``."""
        if self._options.get("projection_size") or self._options.get("lstm_state_clip_min") is not None:
            raise UnsupportedError(f"{self.name}: cells have no projection and no bounds; unfuse layers without these")
        makes: dict[str, Any] = {"lstm": LSTMCell, "gru": GRUCell}
        activation = {} if self._mode in makes else {"activation": self._mode.removeprefix("rnn_")}
        stack = HybridSequentialRNNCell(prefix=self.prefix, params=self.params)
        with stack.name_scope():
            size = self._input_size
            for layer in range(self._num_layers):
                cells = [
                    makes.get(self._mode, RNNCell)(
                        self._hidden_size, input_size=size, prefix=f"{d}{layer}_", **activation
                    )
                    for d in "lr"[: self._dir]
                ]
                stack.add(BidirectionalCell(*cells) if self._dir == 2 else cells[0])
                if self._dropout and layer + 1 < self._num_layers:
                    stack.add(DropoutCell(self._dropout))
                size = self._hidden_size * self._dir
        return stack

    def unfuse(self) -> HybridSequentialRNNCell:
        """The layers as a stack of cells that share the parameters, which can be stepped.

        Projections and limits of states are an UnsupportedError: cells have none.
        """
        return self._unfuse()

    # --- forward -------------------------------------------------------------------------------------------

    # Its arguments have names.
    @overload
    def __call__(self, inputs: Any, states: None = None, sequence_length: Any = None) -> NDArray: ...
    @overload
    def __call__(self, inputs: Any, states: Any, sequence_length: Any = None) -> tuple[NDArray, list[NDArray]]: ...
    @hides_frames
    def __call__(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, inputs: Any, states: Any = None, sequence_length: Any = None
    ) -> Any:
        """The outputs of the last layer at all steps; with ``states``, also the states after the last step.

        Parameters
        ----------
        inputs:
            The sequence, an array (T, N, features), or (N, T, features) with the layout NTC.
        states:
            The states before the first step, a list as of ``begin_state`` (or one array, if there is one); None:
            zeros.
        sequence_length:
            The length of each row (N,): outputs after it are 0, and states are those of its last step. It is given
            if, and only if, the layer was made with ``use_sequence_length=True``.
        """
        given: Any = self._first_states(inputs) if states is None else states
        given = [given] if isinstance(given, NDArray | Symbol) else list(given)
        if self._use_sequence_length == (sequence_length is None):
            wanted = "needs" if self._use_sequence_length else "takes no"
            raise AttributeValueError(
                f"{self.name} {wanted} sequence_length, as use_sequence_length={self._use_sequence_length}"
            )
        if len(given) != self.STATES:
            raise ShapeError(
                f"{self.name}: expected {self.STATES} arrays of states, got {len(given)}; "
                "layer.begin_state(batch_size=n) makes such a list"
            )
        more = [] if sequence_length is None else [sequence_length]
        outputs, after = super().__call__(inputs, given, *more)
        return outputs if states is None else (outputs, list(after))

    def infer_shape(self, *args: Any) -> None:
        """The weights of the first layer follow from the inputs."""
        shape = getattr(args[0], "shape", None)
        if shape is None or len(shape) != 3:
            return
        for direction in "lr"[: self._dir]:
            weight = self._reg_params[f"{direction}0_i2h_weight"]
            assert weight.shape is not None, "it is given when the layer is made"
            weight.shape = (weight.shape[0], shape[2])

    def forward(self, *args: Any) -> Any:
        """As ``hybrid_forward``, with all shapes known."""
        known = shape_is_known(self._reg_params["l0_i2h_weight"].shape)
        if not known and isinstance(args[0], TracedSymbol | NDArray):
            self.infer_shape(*args)
        return super().forward(*args)

    def hybrid_forward(self, F: Any, inputs: Any, states: Any, *lengths: Any, **params: Any) -> Any:
        """One operator."""
        if not isinstance(inputs, Symbol) or isinstance(inputs, TracedSymbol):
            self._check(inputs, states)
        data = F.swapaxes(inputs, 0, 1) if self._layout == "NTC" else inputs
        gates = ["i2h", "h2h", "h2r"][: 2 + ("l0_h2r_weight" in params)]
        names = [
            f"{direction}{layer}_{gate}_{kind}"
            for kind in ("weight", "bias")
            for layer in range(self._num_layers)
            for direction in "lr"[: self._dir]
            for gate in gates
        ]
        attributes: dict[str, Any] = {
            "state_size": self._hidden_size, "num_layers": self._num_layers, "bidirectional": self._dir == 2,
            "p": self._dropout, "state_outputs": True, "mode": self._mode,
            "use_sequence_length": self._use_sequence_length, **self._options,
        }  # fmt: skip
        if isinstance(data, TracedSymbol):  # the graph may save what it computes for its backward
            found = self._recorded(F, data, states, lengths, params, Rnn.bind(**attributes))
        else:
            flat = [F.reshape(params[name], shape=(-1,)) for name in names if name in params]
            found = F.RNN(data, F.concat(*flat, dim=0), *states, *lengths, **attributes)
        outputs, after = found[0], [found[i] for i in range(1, 1 + self.STATES)]
        return F.swapaxes(outputs, 0, 1) if self._layout == "NTC" else outputs, after

    def _recorded(
        self, F: Any, data: Any, states: Any, lengths: Sequence[Any], params: dict[str, Any], op: Any
    ) -> Sequence[Any]:
        """The results of ``RNN``, by the operators that it consists of; mixed precision casts its inputs only."""
        names, given = list(params), [data, *states, *lengths, *params.values()]
        op, given = AUTOCAST.applied(op, given)
        data, states, given = given[0], given[1 : 1 + len(states)], given[1 + len(states) :]
        lengths, params = given[: len(lengths)], dict(zip(names, given[len(lengths) :], strict=True))
        each = [f"{d}{layer}_" for layer in range(self._num_layers) for d in "lr"[: self._dir]]
        weights, biases = (
            [[params[f"{p}{g}_{kind}"] for g in ("i2h", "h2h", "h2r") if f"{p}{g}_{kind}" in params] for p in each]
            for kind in ("weight", "bias")
        )
        factors: Any = None
        with inside_rule():
            if self._dropout and self._num_layers > 1:
                width = op.width * self._dir
                ones = F.ones(shape=(self._num_layers - 1, *data.shape[:2], width), dtype=data.dtype)
                factors = F.Dropout(ones, p=self._dropout)
            return op.layers(F, data, weights, biases, states, lengths[0] if lengths else None, factors)

    def _check(self, inputs: Any, states: Sequence[Any]) -> None:
        if len(inputs.shape) != 3:
            raise ShapeError(f"{self.name}: inputs must have 3 axes, {self._layout}, got shape {inputs.shape}")
        weight, size = self._reg_params["l0_i2h_weight"].shape, inputs.shape[2]
        if weight is not None and size > 0 and weight[1] > 0 and weight[1] != size:
            raise ShapeError(
                f"{self.name}: the inputs of shape {inputs.shape} ({self._layout}) have {size} features, the layer is "
                f"for {weight[1]}; change the inputs, or make the layer with input_size={size}"
            )
        for state, info in zip(states, self.state_info(inputs.shape[self._layout.index("N")]), strict=True):
            if state.shape != info["shape"]:
                raise ShapeError(
                    f"{self.name}: Invalid recurrent state shape. Expecting {info['shape']}, got {state.shape}."
                )


def _initializers(**given: Any) -> dict[str, Any]:
    return {name.removesuffix("_initializer"): value for name, value in given.items()}


class RNN(_RNNLayer):
    """Elman layers over whole sequences: ``output = activation(W · inputs + b + U · output + c)`` at every step

    ``layer(inputs)`` gives the outputs (T, N, hidden_size) of the last layer for inputs (T, N, features); with
    ``layout="NTC"`` the first two axes are exchanged, with ``bidirectional`` there are twice as many features.
    ``layer(inputs, states)`` gives outputs and a list with the last states, (num_layers * directions, N, hidden_size).

    Examples
    --------
    >>> layer = gluon.rnn.RNN(1, layout="NTC", i2h_weight_initializer="ones", h2h_weight_initializer="ones")
    >>> layer.initialize()
    >>> layer(mx.nd.array([[[1], [2], [3]]]))
    [[[1.]
      [3.]
      [6.]]]
    <NDArray 1x3x1 @cpu(0)>

    With these weights it sums up the steps.
    """

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        activation: str = "relu",
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        dtype: Any = "float32",
        use_sequence_length: bool = False,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        mode = f"rnn_{activation}"
        if mode not in GATES:
            raise AttributeValueError(f"RNN: activation must be 'relu' or 'tanh', got {activation!r}")
        given = _initializers(
            i2h_weight_initializer=i2h_weight_initializer, h2h_weight_initializer=h2h_weight_initializer,
            i2h_bias_initializer=i2h_bias_initializer, h2h_bias_initializer=h2h_bias_initializer,
        )  # fmt: skip
        sizes = (hidden_size, num_layers, layout, dropout, bidirectional, input_size)
        super().__init__(mode, *sizes, given, dtype, use_sequence_length, {}, **kwargs)


class LSTM(_RNNLayer):
    """LSTM layers over whole sequences; what a step computes is that of :class:`LSTMCell`

    ``layer(inputs)`` gives the outputs (T, N, hidden_size) of the last layer for inputs (T, N, features); with
    ``layout="NTC"`` the first two axes are exchanged, with ``bidirectional`` there are twice as many features.
    ``layer(inputs, states)`` gives outputs and a list with the last states: outputs and memories of all layers, both
    (num_layers * directions, N, hidden_size). With a ``projection_size`` outputs have that size, the memories do not.

    Examples
    --------
    >>> layer = gluon.rnn.LSTM(8, num_layers=2)
    >>> layer.initialize()
    >>> x = mx.nd.ones((5, 2, 3))
    >>> layer(x).shape
    (5, 2, 8)
    >>> outputs, states = layer(x, layer.begin_state(batch_size=2))
    >>> [state.shape for state in states]
    [(2, 2, 8), (2, 2, 8)]

    Rows of 5 and of 3 steps: the outputs after the third are 0.

    >>> layer = gluon.rnn.LSTM(8, use_sequence_length=True)
    >>> layer.initialize()
    >>> outputs = layer(x, sequence_length=mx.nd.array([5, 3]))
    >>> outputs[3:, 1].abs().sum()
    [0.]
    <NDArray 1 @cpu(0)>
    """

    STATES = 2

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        input_size: int = 0,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        projection_size: int | None = None,
        h2r_weight_initializer: Any = None,
        state_clip_min: float | None = None,
        state_clip_max: float | None = None,
        state_clip_nan: bool = False,
        dtype: Any = "float32",
        use_sequence_length: bool = False,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        given = _initializers(
            i2h_weight_initializer=i2h_weight_initializer, h2h_weight_initializer=h2h_weight_initializer,
            i2h_bias_initializer=i2h_bias_initializer, h2h_bias_initializer=h2h_bias_initializer,
            h2r_weight_initializer=h2r_weight_initializer,
        )  # fmt: skip
        options = {
            "projection_size": projection_size or None,
            "lstm_state_clip_min": state_clip_min,
            "lstm_state_clip_max": state_clip_max,
            "lstm_state_clip_nan": state_clip_nan,
        }
        sizes = (hidden_size, num_layers, layout, dropout, bidirectional, input_size)
        super().__init__("lstm", *sizes, given, dtype, use_sequence_length, options, **kwargs)


class GRU(_RNNLayer):
    """Layers of gated recurrent units over whole sequences; what a step computes is that of :class:`GRUCell`

    ``layer(inputs)`` gives the outputs (T, N, hidden_size) of the last layer for inputs (T, N, features); with
    ``layout="NTC"`` the first two axes are exchanged, with ``bidirectional`` there are twice as many features.
    ``layer(inputs, states)`` gives outputs and a list with the last states, (num_layers * directions, N, hidden_size).

    Examples
    --------
    >>> layer = gluon.rnn.GRU(8, layout="NTC", bidirectional=True)
    >>> layer.initialize()
    >>> layer(mx.nd.ones((2, 5, 3))).shape
    (2, 5, 16)
    >>> layer.state_info(batch_size=2)
    [{'shape': (2, 2, 8), '__layout__': 'LNC'}]
    """

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        input_size: int = 0,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        dtype: Any = "float32",
        use_sequence_length: bool = False,
        **kwargs: Unpack[BlockOptions],
    ) -> None:
        given = _initializers(
            i2h_weight_initializer=i2h_weight_initializer, h2h_weight_initializer=h2h_weight_initializer,
            i2h_bias_initializer=i2h_bias_initializer, h2h_bias_initializer=h2h_bias_initializer,
        )  # fmt: skip
        sizes = (hidden_size, num_layers, layout, dropout, bidirectional, input_size)
        super().__init__("gru", *sizes, given, dtype, use_sequence_length, {}, **kwargs)
