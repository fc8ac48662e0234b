"""Sets of ranks: of all, by which Horovod starts, and of some, which communicate among themselves."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, cast

from hybridc.communication import Alone, Communicator, communicator
from hybridc.errors import UnsupportedError


class ProcessSet:
    """Ranks that communicate among themselves: ``add_process_set`` or ``init(process_sets=[…])`` make them ready.

    Parameters
    ----------
    ranks_or_comm:
        A list of ranks, such as ``[0, 2]``; anything else is a ValueError.
    """

    process_set_id: int | None = None
    ranks: list[int] | None = None
    _communicator: Communicator | None = None

    def __init__(self, ranks_or_comm: Sequence[int]) -> None:
        # COMPAT(mxnet): Horovod takes an MPI communicator, too.
        given: Any = ranks_or_comm
        if not isinstance(given, Sequence) or not all(isinstance(rank, int) for rank in cast("Sequence[Any]", given)):
            raise ValueError(f"ProcessSet: expected a list of ranks, such as [0, 2], got {ranks_or_comm!r}")
        self.ranks = sorted(ranks_or_comm)

    def included(self) -> bool:
        """Whether this rank is in the set."""
        return communicator_of(global_process_set).rank in self._known()

    def rank(self) -> int:
        """The number of this rank in the set."""
        return self.communicator().rank

    def size(self) -> int:
        """How many ranks there are in the set."""
        return len(self._known())

    def _known(self) -> list[int]:
        communicator_of(global_process_set)  # raises before init()
        if self.process_set_id is None or self.ranks is None:
            raise ValueError(
                f"{self} is not known to Horovod: give it to hvd.add_process_set, or to hvd.init(process_sets=[…])"
            )
        return self.ranks

    def communicator(self) -> Communicator:
        """The communicator of these ranks; raises if this rank is none of them."""
        ranks = self._known()
        if self._communicator is None:
            me = communicator_of(global_process_set).rank
            raise ValueError(f"rank {me} is not in {self}, whose ranks are {ranks}; only they may call this")
        return self._communicator

    def place(self, rank: int, what: str) -> int:
        """The number in the set of ``rank``, a rank of all; else a ValueError, which names ``what``."""
        ranks = self._known()
        if rank not in ranks:
            raise ValueError(f"{what}: root_rank must be one of the ranks {_shown(ranks)}, got {rank!r}")
        return ranks.index(rank)

    def register(self, number: int | None, own: Communicator | None) -> None:
        """Make the set ready, or with None for its number useless.

        Parameters
        ----------
        number:
            The number of the set; None makes it useless.
        own:
            Its communicator, if this rank is in it; else None.
        """
        self.process_set_id, self._communicator = number, own

    def __str__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"

    __repr__ = __str__


#: The set of all ranks.
global_process_set = ProcessSet([])
global_process_set.process_set_id = 0  # Horovod's number for it


class _Horovod:
    """What ``init`` makes: the sets by their numbers."""

    def __init__(self) -> None:
        self.is_initialized = False
        self.sets: dict[int, ProcessSet] = {0: global_process_set}
        self.numbers = itertools.count(1)


_HOROVOD = _Horovod()


def communicator_of(process_set: ProcessSet) -> Communicator:
    """The communicator of a set of ranks; raises before ``init()``."""
    if not _HOROVOD.is_initialized:
        raise ValueError("Horovod has not been initialized; use hvd.init().")
    return process_set.communicator() if process_set is not global_process_set else communicator()


def init(comm: Any = None, process_sets: Any = None) -> None:
    """Start the communication of all ranks that the launcher started; once more does nothing.

    Parameters
    ----------
    comm:
        None, or the list of all ranks; others are an UnsupportedError.
    process_sets:
        A list of further sets of ranks; None, or ``"dynamic"``, which holds here anyway, for none.
    """
    world = communicator()
    if comm not in (None, [], [*range(world.size)]):
        raise UnsupportedError(
            f"hvd.init: comm must be None, got {comm!r}; all {world.size} ranks take part, and a process set serves "
            f"for some of them: hvd.add_process_set([0, 1])"
        )
    given: list[Any] = [] if process_sets in (None, "dynamic") else process_sets
    if not _HOROVOD.is_initialized:
        _HOROVOD.is_initialized = True
        global_process_set.ranks = [*range(world.size)]
        global_process_set.register(0, world)
    for each in given:
        if each not in _HOROVOD.sets.values():
            add_process_set(each)


def shutdown() -> None:
    """End the use of Horovod, until the next ``init()``; sets other than that of all ranks are forgotten.

    The ranks go on to be watched until they end.
    """
    for number, each in [*_HOROVOD.sets.items()]:
        if number:
            each.register(None, None)
            del _HOROVOD.sets[number]
    _HOROVOD.is_initialized = False


def is_initialized() -> bool:
    """Whether ``init()`` was called, and ``shutdown()`` was not since."""
    return _HOROVOD.is_initialized


def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    """Make a set of ranks ready. All ranks call this, those in the set or not.

    Parameters
    ----------
    process_set:
        The set, or the list of its ranks; wrong ranks, or those of another set, are a ValueError.
    """
    world = communicator_of(global_process_set)
    added = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    ranks = added.ranks
    if not ranks or ranks != sorted({*ranks} & {*range(world.size)}):
        raise ValueError(
            f"hvd.add_process_set: expected different ranks from 0 to {world.size - 1}, at least one, got {ranks}"
        )
    twin = next((each for each in _HOROVOD.sets.values() if each.ranks == ranks), None)
    if twin is not None:
        raise ValueError(f"hvd.add_process_set: there is a set of the ranks {ranks}: {twin}; use that one")
    world.agree("hvd.add_process_set", {"ranks": ranks})
    is_in = world.rank in ranks
    own = world.split(int(is_in))
    added.register(next(_HOROVOD.numbers), own if is_in else None)
    _HOROVOD.sets[cast("int", added.process_set_id)] = added
    return added


def remove_process_set(process_set: ProcessSet) -> bool:
    """Forget the set ``process_set``; False for the set of all ranks, which stays, and for one that is not known."""
    number = process_set.process_set_id
    if not number or number not in _HOROVOD.sets:
        return False
    del _HOROVOD.sets[number]
    process_set.register(None, None)
    process_set.ranks = None
    return True


def process_set_by_id(process_set_id: int) -> ProcessSet:
    """The set whose number is ``process_set_id``; a ValueError if there is none."""
    if process_set_id not in _HOROVOD.sets:
        raise ValueError(f"there is no process set {process_set_id}; there are {_shown([*_HOROVOD.sets])}")
    return _HOROVOD.sets[process_set_id]


def process_sets() -> list[ProcessSet]:
    """All sets, by their numbers."""
    return [each for _, each in sorted(_HOROVOD.sets.items())]


def is_alone() -> bool:
    """Whether no launcher started this process as one of several ranks."""
    return isinstance(communicator_of(global_process_set), Alone)


def _shown(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"
