"""Sums of arrays over the devices of this rank and over all ranks, in buckets that are made once."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hybridc import random
from hybridc.array.ndarray import NDArray, assign, values_of, wrap
from hybridc.array.takeover import is_unshared
from hybridc.communication import Communicator
from hybridc.communication.agreement import require_equal
from hybridc.communication.communicator import Array, in_memory, labelled
from hybridc.communication.compression import Residuals, Rounding, compression_of
from hybridc.communication.gradient_buckets import GradientBuckets, Kind
from hybridc.errors import UnsupportedError
from hybridc.ground.watches import written
from hybridc.kvstore.sums_of_rows import rows_and_dense, sums_of_rows
from hybridc.optimizer import Optimizer

# Sets of arrays for which buckets are kept; the oldest go first.
_KEPT = 256
# Seeds of 64 bits, and the updates of one step that have different ones.
_SEEDS, _MOST_PLACES = (1 << 64) - 1, 1 << 20

Group = Sequence[NDArray]  # what is summed into one array: an array of each device


class RankSums:
    """Sums over ranks for a store or a trainer, which has the same sets of arrays at each step."""

    def __init__(self, ranks: Communicator, kind: str = "dist_sync") -> None:
        self.ranks = ranks
        self._kind = kind
        self._seed: int | None = None
        self._compression: Rounding | None = None
        self._buckets: dict[Any, GradientBuckets] = {}
        self._names: dict[Any, list[str]] = {}  # of the arrays in the buckets of a key
        self._totals: dict[Any, list[NDArray]] = {}
        self._residuals = Residuals()

    @property
    def compression(self) -> Rounding | None:
        """How gradients are rounded on their way, or None."""
        return self._compression

    def compress(self, params: Mapping[str, Any] | None) -> None:
        """Round gradients on their way from now on, as ``compression_params`` say."""
        self._compression = compression_of(params)
        self._buckets.clear()
        self._names.clear()
        self._totals.clear()
        self._residuals.clear()

    def state(self) -> dict[str, Any]:
        """What sums to come depend on: what rounding left out so far, and the seed of updates that draw."""
        return {"seed": self._seed, "residuals": self._residuals.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on as where :meth:`state` gave this."""
        self._seed = state["seed"]
        self._residuals.load_state(state["residuals"])

    def totals(
        self, keys: Sequence[Any], groups: Sequence[Group], call: str
    ) -> Iterator[tuple[tuple[int, ...], list[NDArray]]]:
        """The sums of groups, bucket after bucket: the numbers of its groups, and all sums, those of the bucket done.

        The arrays are the same at each call with these keys, and have the sums until the next. ``call`` says what all
        ranks call.
        """
        rows, dense = rows_and_dense(groups)
        if rows:
            sums = [group[0] for group in groups]
            for indices, totals in self.totals([keys[i] for i in dense], [groups[i] for i in dense], call):
                for i in indices:
                    sums[dense[i]] = totals[i]
                yield tuple([dense[i] for i in indices]), sums
            with labelled(call):
                for i, total in self._sums_of_rows(rows, [str(key) for key in keys], groups).items():
                    sums[i] = total
            yield tuple(rows), sums
            return
        with labelled(call):
            buckets = self._of(tuple(keys), groups, [str(key) for key in keys])
            buckets.start(lambda i, view: _add_up(groups[i], view))
        totals = self._totals.setdefault(tuple(keys), [])
        if not totals or any(x._data is not view for x, view in zip(totals, buckets.views, strict=True)):
            totals[:] = [wrap(view) for view in buckets.views]
        for indices in buckets.completed():
            yield indices, totals

    def reduce(
        self, names: list[str], groups: Sequence[Group], absent: Collection[tuple[int, int]] = ()
    ) -> Iterator[tuple[int, ...]]:
        """Write the sum of each group into all of its arrays; the numbers of the groups, bucket after bucket.

        Array ``d`` of group ``i`` counts as 0 if ``(i, d)`` is in ``absent``. The first array of a group becomes a view
        of its bucket, so that at the next step nothing is copied, unless others know its memory. Sums of row_sparse
        arrays, whose sizes differ from step to step, are in no bucket, and are the last.
        """
        rows, dense = rows_and_dense(groups)
        if rows:
            absent_dense = [(dense.index(i), d) for i, d in absent if i in dense]
            for indices in self.reduce([names[i] for i in dense], [groups[i] for i in dense], absent_dense):
                yield tuple([dense[i] for i in indices])
            for i, total in self._sums_of_rows(rows, names, groups, absent).items():
                for array in groups[i]:
                    assign(total, array)
            yield tuple(rows)
            return
        before = self._buckets.get(None)
        buckets = before if self._holds(before, groups, names) else self._of(None, groups, names)
        assert buckets is not None
        mine: set[int] = set()
        if before is not None and before is not buckets:
            mine = {id(view) for view in before.views}

        def fill(i: int, view: Array) -> None:
            first = groups[i][0]
            if first._data is not view and (is_unshared(first) or id(first._data) in mine):
                np.copyto(view, first._data)
                first._data = view
            present = [x for d, x in enumerate(groups[i]) if (i, d) not in absent] if absent else groups[i]
            _add_up(present, view)

        buckets.start(fill)
        for indices in buckets.completed():
            for i in indices:
                _write(buckets.views[i], groups[i])
            yield indices

    def _sums_of_rows(
        self, rows: list[int], names: list[str], groups: Sequence[Group], absent: Collection[tuple[int, int]] = ()
    ) -> dict[int, NDArray]:
        """The sums of the groups of these numbers, which are row_sparse."""
        named = [names[i] for i in rows]
        if self._compression is not None:
            raise UnsupportedError(
                f"the gradient of {named[0]!r} is sparse, and gradients are compressed, which only dense ones can be; "
                "leave the compression out, or sparse_grad=False"
            )
        present = [[x for d, x in enumerate(groups[i]) if (i, d) not in absent] for i in rows]
        sums = sums_of_rows(self.ranks, named, present, [groups[i][0] for i in rows])
        return dict(zip(rows, sums, strict=True))

    @contextlib.contextmanager
    def same_random(self, optimizer: Any, step: int, place: int) -> Generator[None]:
        """Within the ``with`` block all ranks draw the same random numbers, if the optimizer may draw some.

        They depend on the seed of rank 0 and on ``step``; ``place`` tells the updates of one step apart.
        """
        if not _has_own_update(optimizer):  # a formula, which draws none
            yield
            return
        if self._seed is None:
            self._seed = self.ranks.broadcast_object(int.from_bytes(np.asarray(random.next_key()).tobytes(), "little"))
        with random.isolated(self._seed + (step * _MOST_PLACES + place) & _SEEDS):
            yield

    def check_devices(self, arrays: Iterable[NDArray]) -> None:
        """Raise if an array is where this kind of store does not look for it."""
        if self._kind != "nccl":
            return
        for array in arrays:
            if array.context.device_type != "gpu":
                raise UnsupportedError(
                    f"kvstore 'nccl' takes arrays on GPUs, got one on {array.context}; use kvstore 'dist_sync', which "
                    f"sums arrays of CPUs over MPI"
                )

    def any_of(self, flags: Sequence[bool]) -> list[bool]:
        """Which flags are set on any rank."""
        found = np.array(flags, np.uint8)
        if found.size:
            self.ranks.allreduce(found, "max")
        return [bool(x) for x in found]

    def _holds(self, buckets: GradientBuckets | None, groups: Sequence[Group], names: list[str]) -> bool:
        """Whether the first array of each group is a view of these buckets: as at all steps but the first ones."""
        if buckets is None or names != self._names[None]:
            return False
        return all(group[0]._data is view for group, view in zip(groups, buckets.views, strict=True))

    def _of(self, key: Any, groups: Sequence[Group], names: list[str]) -> GradientBuckets:
        """The buckets of these arrays, which all ranks must have in common."""
        self.check_devices(array for group in groups for array in group)
        kinds: list[Kind] = [(group[0].shape, np.dtype(group[0].dtype)) for group in groups]
        found = self._buckets.get(key)
        if found is not None and found.kinds == kinds and self._names[key] == names:
            return found
        described = [f"{shape} {dtype}" for shape, dtype in kinds]
        require_equal("the list of keys whose arrays are summed", names, self.ranks)
        require_equal("the arrays that are summed", dict(zip(names, described, strict=True)), self.ranks)
        require_equal("the compression of gradients", str(self._compression), self.ranks)
        device = None if self._compression is not None else _device_of(groups)
        if not all(self.ranks.gather_objects(device is not None)):
            device = None
        made = GradientBuckets(
            kinds,
            self.ranks,
            compression=self._compression,
            residuals=self._residuals,
            name=repr(key),
            zeros=None if device is None else device.zeros,
        )
        self._buckets[key], self._names[key] = made, names
        self._totals.pop(key, None)
        if len(self._buckets) > _KEPT:
            oldest = next(iter(self._buckets))
            del self._buckets[oldest], self._names[oldest]
            self._totals.pop(oldest, None)
        return made


def _has_own_update(optimizer: Optimizer) -> bool:
    return type(optimizer).update is not Optimizer.update


def _device_of(groups: Sequence[Group]) -> Any:
    """The device that has all arrays, if it is one."""
    arrays: list[Any] = [array._data for group in groups for array in group]
    devices = {None if in_memory(array) else array.device for array in arrays}
    return devices.pop() if len(devices) == 1 else None


def _add_up(group: Group, into: Any) -> None:
    """Write the sum of the arrays of a group; one of them may be in its place already, as the first."""
    if not group:
        into.fill(0)
        return
    first, *others = group
    if first._data is not into:
        np.copyto(into, values_of(first) if in_memory(into) else first._data)
    for other in others:
        with np.errstate(over="ignore", invalid="ignore"):
            np.add(into, values_of(other), out=into)


def _write(total: Array, group: Group) -> None:
    """Write a sum into the arrays of a group."""
    for array in group:
        if array._data is not total:
            assign(wrap(total), array)
        else:
            written(total)
