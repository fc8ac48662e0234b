"""The key-value store of one process: sums of the gradients of its devices, and an optimizer on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from hybridc import nd
from hybridc import optimizer as opt
from hybridc.array.ndarray import NDArray, assign, values_of
from hybridc.communication.compression import ErrorFeedback, Residuals, Rounding, compression_of
from hybridc.errors import CheckError, MXNetError, ShapeError, UnsupportedError
from hybridc.ground.whole_files import write_whole
from hybridc.kvstore.base import KVStoreBase, check_capability, listed

__all__ = ["KVStore"]


@KVStoreBase.register
class KVStore(KVStoreBase):
    """Arrays by key, which is an int or a string; :func:`create` makes one.

    ``push`` sums the arrays of a key (one for each device) and puts the sum in the place of the value, or gives it to
    the optimizer that updates the value. ``pull`` copies the value into arrays. All methods take one key, or a list of
    keys with a list of values; ``priority`` has no meaning here.

    Parameters
    ----------
    kind:
        The name of the store, as :func:`create` takes it.

    Examples
    --------
    An optimizer updates the value by the sum of the gradients of two devices:

    >>> store = mx.kv.create("local")
    >>> store.init("w", mx.nd.array([1, 1]))
    >>> store.set_optimizer(mx.optimizer.SGD(learning_rate=0.5))
    >>> store.push("w", [mx.nd.array([1, 0]), mx.nd.array([0, 1])])
    >>> w = mx.nd.zeros(2)
    >>> store.pull("w", out=w)
    >>> w.tolist()
    [0.5, 0.5]
    """

    def __init__(self, kind: str = "local") -> None:
        self._type = kind
        self._values: dict[Any, NDArray] = {}
        self._updater: Callable[[Any, NDArray, NDArray], Any] | None = None
        self._compression: Rounding | None = None
        self._residuals = Residuals()
        self._feedback: dict[tuple[Any, int], ErrorFeedback] = {}  # by the key, and the number of the device

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.type!r})"

    @property
    def type(self) -> str:
        """The name that :func:`create` was given."""
        return self._type

    @property
    def rank(self) -> int:
        """The number of this worker: 0."""
        return 0

    @property
    def num_workers(self) -> int:
        """How many workers there are: 1."""
        return 1

    def is_capable(self, capability: str) -> bool:
        """Whether the store can do something; it can run an optimizer."""
        check_capability(capability)
        return True

    # --- values --------------------------------------------------------------------------------------------

    def init(self, key: Any, value: Any) -> None:
        """Keep copies of values under new keys.

        Parameters
        ----------
        key:
            An int or a string, or a list of either. A key that has a value is an MXNetError.
        value:
            The array, or a list of one for each key.
        """
        for each, arrays in self._pairs("init", key, value):
            if each in self._values:
                raise MXNetError(
                    f"init: duplicate init of key {each!r}; it has a value since kv.init or kv.broadcast: push another"
                )
            other = next((k for k in self._values if isinstance(k, str) != isinstance(each, str)), None)
            if other is not None:
                raise MXNetError(f"init: Mixed key types are not allowed: got {each!r}, but there is {other!r}")
            self._values[each] = arrays[0].detach().copy()

    def replace(self, key: Any, value: NDArray) -> None:
        """Set the value of a key that has one; an optimizer keeps its states.

        Parameters
        ----------
        key:
            The key.
        value:
            The array, which is copied.
        """
        self._value("replace", key)
        self._values[key] = value.detach().copy()

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        """Give a key the sum of arrays: it becomes the value, or the gradient of an update of the value.

        Parameters
        ----------
        key:
            A key that has a value, or a list of them; others are an MXNetError.
        value:
            An array, or a list of one for each device; for several keys a list of these. A ShapeError is raised if one
            has another shape than the value.
        priority:
            Accepted for MXNet's API, without effect.
        """
        groups = self._groups(key, value)
        stored = [self._value("push", each) for each in groups]
        totals = [self._sum(each, x, groups[each]) for each, x in zip(groups, stored, strict=True)]
        self._take(list(groups), totals, stored)

    def _groups(self, key: Any, value: Any) -> dict[Any, list[NDArray]]:
        """The arrays that are pushed to each key."""
        groups: dict[Any, list[NDArray]] = {}
        for each, arrays in self._pairs("push", key, value):
            groups.setdefault(each, []).extend(arrays)
        return groups

    def _take(self, keys: list[Any], totals: list[NDArray], stored: list[NDArray]) -> None:
        """Let sums become the values, or update them."""
        if isinstance(self._updater, opt.Updater):
            self._updater(keys, totals, stored)
            return
        for each, total, x in zip(keys, totals, stored, strict=True):
            if self._updater is not None:
                self._updater(each, total, x)
            else:
                assign(total, x)

    def pull(self, key: Any, out: Any = None, priority: int = 0, ignore_sparse: bool = True) -> None:
        """Copy the value of a key into arrays, in their dtypes.

        Parameters
        ----------
        key:
            A key that has a value, or a list of them.
        out:
            The array that gets it, or a list of such; for several keys a list of these.
        priority:
            Accepted for MXNet's API, without effect.
        ignore_sparse:
            Leave sparse values out: see :meth:`row_sparse_pull`.
        """
        if out is None:
            raise CheckError("pull: out is missing; give the array, or the list of arrays, that the value goes into")
        for each, arrays in self._pairs("pull", key, out):
            stored = self._value("pull", each)
            if ignore_sparse and stored.stype != "default":
                continue
            for array in arrays:
                self._check_shape("pull", each, stored, array)
                assign(stored, array)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """:meth:`push`, then :meth:`pull` into ``out``, or into ``value`` if that is None."""
        self.push(key, value, priority)
        self.pull(key, value if out is None else out, priority)

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """:meth:`init`, then :meth:`pull` into ``out``."""
        self.init(key, value)
        self.pull(key, out, priority, ignore_sparse=False)

    def row_sparse_pull(self, key: Any, out: Any = None, priority: int = 0, row_ids: Any = None) -> None:
        """Copy rows of the value of a key, which is row_sparse, into row_sparse arrays.

        Parameters
        ----------
        key:
            A key that has a row_sparse value, or a list of them.
        out:
            The row_sparse array that gets the rows, or a list of such; for several keys a list of these.
        priority:
            Accepted for MXNet's API, without effect.
        row_ids:
            The numbers of the rows: an array for all of ``out``, or a list with one for each.

        Examples
        --------
        >>> store = mx.kv.create("local")
        >>> store.init("w", mx.nd.array([[1, 1], [2, 2], [3, 3]]).tostype("row_sparse"))
        >>> rows = mx.nd.zeros((3, 2), stype="row_sparse")
        >>> store.row_sparse_pull("w", out=rows, row_ids=mx.nd.array([0, 2]))
        >>> rows.indices.tolist(), rows.data.tolist()
        ([0, 2], [[1.0, 1.0], [3.0, 3.0]])
        """
        if out is None or row_ids is None:
            raise CheckError("row_sparse_pull: out and row_ids are needed: arrays, and the numbers of their rows")
        pairs = list(self._pairs("row_sparse_pull", key, out))
        ids: list[Any] = [row_ids] if isinstance(row_ids, NDArray) else list(row_ids)
        ids = ids * sum(len(arrays) for _, arrays in pairs) if len(ids) == 1 else ids
        targets = [(each, array) for each, arrays in pairs for array in arrays]
        if len(ids) != len(targets):
            raise CheckError(f"row_sparse_pull: {len(targets)} arrays, but {len(ids)} lists of rows")
        for (each, array), rows in zip(targets, ids, strict=True):
            stored = self._value("row_sparse_pull", each)
            self._check_shape("row_sparse_pull", each, stored, array)
            if stored.stype != "row_sparse" or array.stype != "row_sparse":
                raise CheckError(f"row_sparse_pull: key {each!r} is {stored.stype}, the array {array.stype}; use pull")
            assign(nd.sparse_retain(stored, rows), array)

    def _value(self, what: str, key: Any) -> NDArray:
        if key not in self._values:
            some = ", ".join(map(repr, list(self._values)[:5])) or "none"
            raise MXNetError(f"{what}: key {key!r} has not been inited; call kv.init before. Keys: {some}")
        return self._values[key]

    def _check_shape(self, what: str, key: Any, stored: NDArray, array: NDArray) -> None:
        # COMPAT(mxnet): there a pushed array of another shape replaces the value.
        if array.shape != stored.shape:
            raise ShapeError(f"{what}: key {key!r} has shape {stored.shape}, the array {array.shape}")

    def _sum(self, key: Any, stored: NDArray, arrays: list[NDArray]) -> NDArray:
        """The sum of arrays, as a new one."""
        for array in arrays:
            self._check_shape("push", key, stored, array)
        if self._compression is not None and any(array.stype != "default" for array in arrays):
            raise UnsupportedError(
                f"push: the gradient of key {key!r} is sparse, and gradients are compressed, which only dense ones can "
                "be; leave set_gradient_compression out, or sparse_grad=False"
            )
        if self._compression is not None:
            arrays = [self._compressed((key, i), array, self._compression) for i, array in enumerate(arrays)]
        total = arrays[0].detach().copy()
        for array in arrays[1:]:
            total += array.detach().as_in_context(total.context)
        return total

    def _pairs(self, what: str, key: Any, value: Any) -> Iterator[tuple[Any, list[NDArray]]]:
        """Each key, and its arrays."""
        if isinstance(key, list | tuple):
            keys = cast("list[Any]", key)
            values: list[Any] = list(value) if isinstance(value, list | tuple) else [value]  # pyright: ignore[reportUnknownArgumentType]
            if len(keys) != len(values):
                raise CheckError(f"{what}: {len(keys)} keys, but {len(values)} values")
            if len({isinstance(k, str) for k in keys}) > 1:
                raise CheckError(f"{what}: inconsistent types of keys detected: {keys}; use ints or strings only")
            for k, v in zip(keys, values, strict=True):
                yield from self._pairs(what, k, v)
            return
        if not isinstance(key, int | str):
            raise CheckError(f"{what}: unexpected type for keys: {type(key).__name__}; a key is an int or a string")
        arrays = listed(value) if isinstance(value, NDArray | list | tuple) else [value]
        if not arrays or not all(isinstance(x, NDArray) for x in arrays):
            kinds = ", ".join(type(x).__name__ for x in arrays) or "none"
            raise TypeError(f"{what}: the value of key {key!r} must be an NDArray or a list of NDArrays, got {kinds}")
        yield key, arrays

    # --- the optimizer -------------------------------------------------------------------------------------

    def set_optimizer(self, optimizer: Any) -> None:
        """Let the optimizer update the values from now on; it knows them by their keys."""
        self._set_updater(opt.get_updater(optimizer))

    def _set_updater(self, updater: Callable[[Any, NDArray, NDArray], Any]) -> None:
        """Call ``updater(key, gradient, value)`` at each push, which changes the value in place."""
        self._updater = updater

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Save the optimizer's states; there must be an optimizer, else a CheckError is raised."""
        write_whole(fname, self._states("save").get_states(dump_optimizer))

    def load_optimizer_states(self, fname: str) -> None:
        """Load what :meth:`save_optimizer_states` saved."""
        self._states("load").set_states(Path(fname).read_bytes())

    def _states(self, what: str) -> opt.Updater:
        if not isinstance(self._updater, opt.Updater):
            raise CheckError(f"{what}_optimizer_states: the store has no optimizer; call set_optimizer before")
        return self._updater

    # --- compression ---------------------------------------------------------------------------------------

    def set_gradient_compression(self, compression_params: Mapping[str, Any]) -> None:
        """Round each pushed array; what is left is added to the next one.

        As in MXNet only for a store ``"device"``, or of several ranks; others are an UnsupportedError.

        Parameters
        ----------
        compression_params:
            ``{"type": "2bit", "threshold": 0.5}``: to -threshold, 0 and threshold; ``{"type": "fp16"}`` and
            ``{"type": "bf16"}``: to 16 bits. ``{"type": "none"}`` ends it.
        """
        if "device" not in self._type:
            raise UnsupportedError(f"Gradient compression is not supported for this type of kvstore: {self._type!r}")
        self._compression = compression_of(compression_params)
        self._feedback.clear()
        self._residuals.clear()

    def state(self) -> dict[str, Any]:
        """What compression left out so far, which is added to what is pushed next: a checkpoint saves it."""
        return self._residuals.state()

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on as where :meth:`state` gave this."""
        self._residuals.load_state(state)

    def _compressed(self, place: tuple[Any, int], array: NDArray, compression: Rounding) -> NDArray:
        values = values_of(array)
        if not compression.takes(values.dtype):
            return array
        if place not in self._feedback:
            made = ErrorFeedback(values.size, values.dtype, compression)
            self._feedback[place] = self._residuals.add(repr(place), made)
        return NDArray(self._feedback[place].rounded(values))

    def _barrier(self) -> None:
        """Wait for all workers: there is one."""
