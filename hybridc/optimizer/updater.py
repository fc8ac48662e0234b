"""Updater: an optimizer with the states of all its weights, which can be saved and loaded."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from hybridc import lr_scheduler
from hybridc.array.ndarray import NDArray
from hybridc.array.plain_data import decode, encode
from hybridc.errors import MXNetError
from hybridc.optimizer.base_optimizer import Optimizer
from hybridc.optimizer.pickled_states import read_pickled

_FORMAT, _FIRST_FORMAT, _PICKLED = "hybridc.updater.2", "hybridc.updater.1", "pickled by MXNet"
# What belongs to the process rather than to a saved optimizer.
_NOT_SAVED = frozenset({"param_dict", "sym_info", "lr_scheduler", "_runner", "_index_update_count"})


class Updater:
    """``updater(index, grad, weight)``: updates a weight in place, and keeps its states, made at the first update.

    Parameters
    ----------
    optimizer:
        The optimizer, whose states it keeps.

    Examples
    --------
    >>> updater = mx.optimizer.Updater(mx.optimizer.SGD(learning_rate=0.1, momentum=0.9))
    >>> w = mx.nd.array([1])
    >>> updater(0, mx.nd.array([0.5]), w)
    >>> w.asnumpy(), updater.states[0].asnumpy()
    (array([0.95], dtype=float32), array([-0.05], dtype=float32))
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer: Optimizer = optimizer
        self.states: dict[Any, Any] = {}
        self.states_synced: dict[Any, bool] = {}
        self.aggregate_updates = optimizer.aggregate_num > 0

    def __call__(self, index: Any, grad: Any, weight: Any) -> None:
        """Update one weight, or several given as lists.

        Parameters
        ----------
        index:
            The key of the weight, or a list of keys.
        grad:
            Its gradient, or a list of gradients.
        weight:
            The weight, an NDArray that is changed in place, or a list of weights.
        """
        many = isinstance(index, (list, tuple))
        indices, grads, weights = cast("Any", (index, grad, weight) if many else ([index], [grad], [weight]))
        states = self.states_of(indices, weights)
        update: Any = self.optimizer.update_multi_precision
        kind = type(self.optimizer)
        if kind.TAKES_LISTS or kind.update_multi_precision is Optimizer.update_multi_precision:
            update(list(indices), list(weights), list(grads), states)
            return
        for row in zip(indices, weights, grads, states, strict=True):  # one written for MXNet may not know lists
            update(*row)

    def states_of(self, indices: Any, weights: Any) -> list[Any]:
        """The states of weights, made for those that are seen for the first time.

        Parameters
        ----------
        indices:
            The keys of the weights.
        weights:
            The weights, as many.
        """
        for i, w in zip(indices, weights, strict=True):
            if i not in self.states:
                self.states[i] = self.optimizer.create_state_multi_precision(i, w)
            elif not self.states_synced.get(i, True):
                self.states[i] = self.sync_state_context(self.states[i], w.context)
            self.states_synced[i] = True
        return [self.states[i] for i in indices]

    def sync_state_context(self, state: Any, context: Any) -> Any:
        """A state on the device of its weight.

        Parameters
        ----------
        state:
            An NDArray, or a list or tuple of states; what is no array stays as it is.
        context:
            The device, a Context.
        """
        if isinstance(state, list | tuple):
            moved = [self.sync_state_context(s, context) for s in cast("list[Any]", state)]
            return moved if isinstance(state, list) else tuple(moved)
        return state.as_in_context(context) if isinstance(state, NDArray) else state

    def get_states(self, dump_optimizer: bool = False) -> bytes:
        """The states as bytes: an npz file with a JSON description, which can hold no code.

        Parameters
        ----------
        dump_optimizer:
            Whether the optimizer's settings and counts, and its schedule, are in it as well.
        """
        # COMPAT(mxnet): there it is a pickle, which set_states reads without running anything.
        arrays: list[npt.NDArray[Any]] = []
        content = self.describe(self.states, dump_optimizer, arrays)
        file = io.BytesIO()
        text = np.frombuffer(json.dumps(content).encode(), dtype=np.uint8)
        np.savez(file, allow_pickle=False, json=text, **{f"a{i}": a for i, a in enumerate(arrays)})
        return file.getvalue()

    def describe(
        self, states: Mapping[Any, Any], dump_optimizer: bool, arrays: list[npt.NDArray[Any]]
    ) -> dict[str, Any]:
        """What :meth:`get_states` writes, as plain data that JSON can hold.

        Parameters
        ----------
        states:
            States by index.
        dump_optimizer:
            Whether the optimizer's settings and counts, and its schedule, are in it.
        arrays:
            A list to which copies of the arrays are appended, which the data name by their positions.
        """
        content: dict[str, Any] = {"format": _FORMAT, "states": encode(states, arrays)}
        if dump_optimizer:
            content["optimizer"] = _describe(self.optimizer.unwrapped(), arrays)
            if self.optimizer.lr_scheduler is not None:
                content["lr_scheduler"] = _describe(self.optimizer.lr_scheduler, arrays)
        return content

    def set_states(self, states: bytes) -> None:
        """Take over what :meth:`get_states` gave, with the optimizer's settings if they are in it.

        What MXNet saved is read, too: of the optimizer's settings those that this library's optimizer has.

        Parameters
        ----------
        states:
            The bytes. Damaged ones, and those of something else, are an MXNetError, and change nothing.
        """
        self._take(_read(states))

    def take(self, content: Any, arrays: Sequence[npt.NDArray[Any]], states: Mapping[Any, Any]) -> None:
        """Take over settings and states.

        Parameters
        ----------
        content:
            What :meth:`describe` gave.
        arrays:
            The list that it appended arrays to.
        states:
            States by index, in the place of those in ``content``.
        """
        self._take({**_decoded(content, arrays), "states": {**states}})

    def _take(self, content: dict[str, Any]) -> None:
        found: dict[Any, Any] = content["states"]
        if "optimizer" in content:
            self._take_settings(content)
        self.states = self._turned(found) if content.get("format") == _FIRST_FORMAT else found
        self.states_synced = dict.fromkeys(self.states, False)

    def _take_settings(self, content: dict[str, Any]) -> None:
        """Make the optimizer what the saved one was."""
        saved = content["optimizer"]
        inner = self.optimizer.unwrapped()
        if type(inner).__name__.lower() != saved["class"].lower():
            if inner is not self.optimizer:
                raise MXNetError(
                    f"these states are of {saved['class']}, but {type(self.optimizer).__name__} wraps "
                    f"{type(inner).__name__}; wrap an optimizer of that class"
                )
            parameters = self.optimizer.param_dict
            self.optimizer = Optimizer.create_optimizer(saved["class"])
            self.optimizer.param_dict = parameters
        present: dict[str, Any] = vars(self.optimizer)
        attributes: dict[str, Any] = saved["attributes"]
        if content.get("format") == _PICKLED:
            attributes = {k: v for k, v in attributes.items() if k in present and _alike(present[k], v)}
        for name, value in attributes.items():
            like = present.get(name)
            if not _alike(like, value):
                raise MXNetError(
                    f"these optimizer states are damaged: {name} is a {type(value).__name__}, expected a "
                    f"{type(like).__name__}"
                )
        present.update(attributes)
        self.optimizer._set_current_context(0)  # pyright: ignore[reportPrivateUsage]
        self.optimizer.lr_scheduler = _scheduler(self.optimizer.lr_scheduler, content.get("lr_scheduler"))

    def _turned(self, states: dict[Any, Any]) -> dict[Any, Any]:
        """States of the first format, in which a float32 copy came before the states of every optimizer."""
        if not self.optimizer.COPY_LAST:
            return states
        return {i: cast("tuple[Any, Any]", s)[::-1] if isinstance(s, tuple) else s for i, s in states.items()}


def get_updater(optimizer: Optimizer) -> Updater:
    """A new :class:`Updater`, which keeps the states of an optimizer.

    Parameters
    ----------
    optimizer:
        The optimizer.
    """
    return Updater(optimizer)


def _read(data: bytes) -> dict[str, Any]:
    """The states that :meth:`Updater.get_states` wrote, decoded: nothing is taken over of damaged ones."""
    try:
        if data[:1] == b"\x80":
            return {"format": _PICKLED, **read_pickled(data)}
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            content = json.loads(file["json"].tobytes())
            arrays = [file[f"a{i}"] for i in range(len(file.files) - 1)]
    except Exception as error:  # zipfile, zlib, json and NumPy raise all kinds for damaged bytes
        raise _damaged(error) from error
    return _decoded(content, arrays)


def _decoded(content: Any, arrays: Sequence[npt.NDArray[Any]]) -> dict[str, Any]:
    try:
        content = _expect(dict, content)
        found = {"format": content.get("format"), "states": _expect(dict, decode(content["states"], arrays))}
        for part in ("optimizer", "lr_scheduler"):
            if content.get(part) is not None:
                saved = _expect(dict, content[part])
                attributes = _expect(dict, decode(saved["attributes"], arrays))
                name = _expect(str, saved["class"])
                found[part] = {"class": name, "attributes": {_expect(str, k): v for k, v in attributes.items()}}
    except (TypeError, ValueError, LookupError) as error:
        raise _damaged(error) from error
    return found


def _damaged(error: Exception) -> MXNetError:
    return MXNetError(f"these are not optimizer states as hybridc or MXNet saves them, or they are damaged: {error}")


def _alike(like: Any, value: Any) -> bool:
    """Whether a value may take the place of another: it is of its class, or one of them is None."""
    both: Any = (int, float) if isinstance(like, (int, float)) else like.__class__
    return like is None or value is None or isinstance(value, both)


def _expect(kind: Any, value: Any) -> Any:
    """The value, which must be of this kind."""
    if not isinstance(value, kind):
        raise TypeError(f"got a {type(value).__name__}, expected {kind}")
    return value


def _scheduler(present: Any, saved: Any) -> Any:
    """The saved schedule: the present object where it is of the same class, else one of the library's."""
    if saved is None:
        return None
    if type(present).__name__ != saved["class"]:
        klass = getattr(lr_scheduler, saved["class"], None)
        if klass is None:
            raise MXNetError(
                f"the saved optimizer has a learning rate schedule of your class {saved['class']!r}; give "
                f"the optimizer one before loading"
            )
        present = klass.__new__(klass)
    vars(cast("object", present)).update(saved["attributes"])
    return present


def _describe(instance: object, arrays: list[npt.NDArray[Any]]) -> dict[str, Any]:
    """The class and all attributes that are plain data."""
    attributes: dict[str, Any] = {}
    for name, value in vars(instance).items():
        if name in _NOT_SAVED:
            continue
        try:
            attributes[name] = encode(value, arrays)
        except TypeError as error:
            warnings.warn(f"{type(instance).__name__}.{name} is not saved: {error}", UserWarning, stacklevel=3)
    pairs = [[encode(k, arrays), v] for k, v in attributes.items()]
    return {"class": type(instance).__name__, "attributes": {"dict": pairs}}
