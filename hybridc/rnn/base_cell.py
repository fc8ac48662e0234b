"""The base of the cells of ``mx.rnn``, and sequences of symbols."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hybridc import nd, symbol
from hybridc.errors import CheckError, MXNetError, NotImplementedForSymbol
from hybridc.symbol import ComposedSymbol

Arrays = Mapping[str, Any]


class RNNParams:
    """Variables by name, which several cells may share.

    Parameters
    ----------
    prefix:
        With what the names begin.
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._params: dict[str, Any] = {}

    def get(self, name: str, **kwargs: Any) -> Any:
        """The variable ``name``, made with ``mx.sym.var(name, **kwargs)`` when it is first asked for."""
        name = self._prefix + name
        if name not in self._params:
            self._params[name] = symbol.var(name, **kwargs)
        return self._params[name]


class BaseRNNCell:
    """A step of a recurrent network as a function of symbols: ``output, states = cell(inputs, states)``.

    Parameters
    ----------
    prefix:
        With what the names of nodes begin, and those of variables unless ``params`` are given.
    params:
        The variables of another cell, to share them; None makes new ones.
    """

    def __init__(self, prefix: str = "", params: RNNParams | None = None) -> None:
        self._own_params = params is None
        self._prefix = prefix
        self._params = RNNParams(prefix) if params is None else params
        self._modified = False
        self.reset()

    def reset(self) -> None:
        """Count steps, and states before the first, from 0 again: for another graph."""
        self._init_counter = -1
        self._counter = -1
        for cell in self.inner_cells():
            cell.reset()

    def inner_cells(self) -> Sequence[BaseRNNCell]:
        """The cells that it consists of."""
        return ()

    def __call__(self, inputs: Any, states: Any) -> tuple[Any, list[Any]]:
        """The output and the next states of one step.

        Parameters
        ----------
        inputs:
            The inputs of the step, a symbol (batch, features).
        states:
            The states before it, a list of symbols.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define __call__(self, inputs, states)")

    @property
    def params(self) -> RNNParams:
        """The variables, for other cells to share."""
        self._own_params = False
        return self._params

    @property
    def state_info(self) -> list[Any]:
        """A dict for each state, with its ``shape``, 0 for the batch, and its ``__layout__``."""
        raise NotImplementedError(f"{type(self).__name__} does not define state_info")

    @property
    def state_shape(self) -> list[Any]:
        """The shape of each state."""
        return [info["shape"] for info in self.state_info]

    @property
    def _gate_names(self) -> Sequence[str]:
        return ()

    def _check_unmodified(self) -> None:
        if self._modified:
            raise CheckError(
                f"{type(self).__name__} {self._prefix!r} is inside a cell that modifies it, such as ZoneoutCell; call "
                "that one instead"
            )

    def begin_state(self, func: Callable[..., Any] = symbol.zeros, **kwargs: Any) -> list[Any]:
        """The states before the first step: ``func(name=…, shape=…, **kwargs)`` for each.

        Parameters
        ----------
        func:
            A function of ``mx.sym``; ``mx.sym.Variable`` makes them inputs.
        """
        self._check_unmodified()
        states: list[Any] = []
        for info in self.state_info:
            self._init_counter += 1
            options: dict[str, Any] = {**kwargs, **(info or {})}
            states.append(func(name=f"{self._prefix}begin_state_{self._init_counter}", **options))
        return states

    # --- weights -------------------------------------------------------------------------------------------

    def unpack_weights(self, args: Arrays) -> dict[str, Any]:
        """A dict of arrays, in which the gates' weights and biases have arrays of their own: ``lstm_i2h_f_weight``.

        Parameters
        ----------
        args:
            A dict of arrays by name, in which others stay as they are.
        """
        found = dict(args)
        for group, kind in self._packed():
            packed = _taken(found, f"{self._prefix}{group}_{kind}")
            size = packed.shape[0] // len(self._gate_names)
            for i, gate in enumerate(self._gate_names):
                found[f"{self._prefix}{group}{gate}_{kind}"] = packed[i * size : (i + 1) * size].copy()
        return found

    def pack_weights(self, args: Arrays) -> dict[str, Any]:
        """The inverse of :meth:`unpack_weights`.

        Parameters
        ----------
        args:
            A dict of arrays by name, in which others stay as they are.
        """
        found = dict(args)
        for group, kind in self._packed():
            parts = [_taken(found, f"{self._prefix}{group}{gate}_{kind}") for gate in self._gate_names]
            found[f"{self._prefix}{group}_{kind}"] = nd.concat(*parts, dim=0)
        return found

    def _packed(self) -> list[tuple[str, str]]:
        """The arrays that have the gates one below the other."""
        if not self._gate_names:
            return []
        return [(group, kind) for group in ("i2h", "h2h") for kind in ("weight", "bias")]

    # --- sequences -----------------------------------------------------------------------------------------

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:
        """The outputs of some steps, and the last states.

        Parameters
        ----------
        length:
            How many steps.
        inputs:
            A symbol of the layout, or a list of one symbol (batch, …) for each step.
        begin_state:
            The states before the first step; None is those of :meth:`begin_state`.
        layout:
            ``"NTC"`` (batch, steps, features) or ``"TNC"``.
        merge_outputs:
            True gives the outputs as a symbol of the layout, False as a list; None leaves them as they are.
        """
        self.reset()
        steps, _ = normalized(length, inputs, layout, merge=False)
        states = self.begin_state() if begin_state is None else begin_state
        outputs: list[Any] = []
        for each in steps[:length]:
            output, states = self(each, states)
            outputs.append(output)
        return normalized(length, outputs, layout, merge_outputs)[0], states

    def _get_activation(self, inputs: Any, activation: Any, **kwargs: Any) -> Any:
        """``activation``, a name or a function, of a symbol."""
        if isinstance(activation, str):
            return symbol.Activation(inputs, act_type=activation, **kwargs)
        return activation(inputs, **kwargs)


def _taken(arrays: dict[str, Any], name: str) -> Any:
    if name not in arrays:
        raise MXNetError(f"there is no array {name!r} among {', '.join(arrays) or 'none'}")
    return arrays.pop(name)


def normalized(length: int | None, inputs: Any, layout: str, merge: bool | None) -> tuple[Any, int]:
    """A sequence as one symbol (``merge``), as a list (False), or as it is (None); and its axis of steps."""
    if inputs is None:
        raise CheckError("unroll: inputs are missing; give a symbol, mx.sym.var('data'), or a list of symbols")
    axis = layout.find("T")
    if axis not in (0, 1):
        raise CheckError(f"unroll: layout must be 'NTC' or 'TNC', got {layout!r}")
    if isinstance(inputs, ComposedSymbol):
        if merge is not False:
            return inputs, axis
        if len(inputs.entries) != 1:
            raise CheckError(f"unroll: inputs must be one symbol or a list, got a group of {len(inputs.entries)}")
        return parts(inputs, axis, length), axis
    if not isinstance(inputs, list | tuple):
        raise NotImplementedForSymbol(
            f"unroll: inputs must be a Symbol or a list of them, got {type(inputs).__name__}; the cells of "
            "mx.gluon.rnn take arrays"
        )
    steps: list[Any] = list(inputs)  # pyright: ignore[reportUnknownArgumentType]
    if length is not None and len(steps) != length:
        raise CheckError(f"unroll: inputs must be {length} symbols, one a step, got {len(steps)}")
    if not merge:
        return steps, axis
    return symbol.Concat(*[symbol.expand_dims(x, axis=axis) for x in steps], dim=axis), axis


def parts(sequence: Any, axis: int, length: Any) -> list[Any]:
    """A sequence as a list of its steps."""
    made = symbol.split(sequence, axis=axis, num_outputs=length, squeeze_axis=1)
    return [made[i] for i in range(length)]
