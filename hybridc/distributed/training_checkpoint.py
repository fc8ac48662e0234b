"""Checkpoints: a training that ended goes on as if it had not."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from hybridc.communication import communicator
from hybridc.distributed.checkpoint_folder import CheckpointFolder, Manifest, describe_steps
from hybridc.distributed.folder_claim import FolderClaim, read_owner
from hybridc.distributed.placement import placed_items
from hybridc.distributed.shard_file import DamagedError, ShardEntry, ShardReader, entry_of, write_shard
from hybridc.distributed.training_state import TrainingState, load_extra
from hybridc.errors import MXNetError
from hybridc.ground.limits import thread

# Seconds between two questions whether all ranks have written: none waits in a collective for another's disk.
_PAUSE = 0.05
# Seconds that rank 0 waits at its exit for what others write: by then a rank that failed has ended all others.
_PATIENCE = 10.0


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written, or one that is damaged was passed over; the training goes on."""


class Checkpoint:
    """The state of a training, saved every so many steps, from which it goes on to the bit.

        checkpoint = mx.distributed.Checkpoint("run1", net=net, trainer=trainer, data=loader, every=100)
        done = checkpoint.restore()  # steps; 0 if there is nothing
        for batch in batches:
            ...
            checkpoint.step()

    Saved are parameters with running statistics, the optimizer with its states, counts and schedule, the random numbers
    of this library, of NumPy and of Python, the positions of loaders and samplers, the number of steps, and ``extra``.
    All ranks make it, with the same arguments, and call its methods together; one process alone needs no MPI.

    Parameters
    ----------
    folder:
        A folder that is this run's alone, and that all ranks see.
    net:
        The block that is trained, or a list or dict of blocks.
    trainer:
        Its Trainer, or a list or dict of these.
    data:
        What gives the samples: a DataLoader or a sampler with ``state()`` and ``load_state()``, or several.
    every:
        Steps between two checkpoints; None saves only when :meth:`save` is called.
    keep:
        How many checkpoints stay, the newest; None keeps all. Older ones are removed when a newer one is whole.
    extra:
        More to be saved: plain data with arrays in it. A dict is filled in place by :meth:`restore`; for the rest see
        the attribute ``extra``, which may be set to a new value at any time.
    allow_pickle:
        Let ``extra`` and the states of ``data`` be anything that Python can pickle. Then a checkpoint of others can run
        their code when it is restored.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        net: Any = None,
        trainer: Any = None,
        data: Any = None,
        every: int | None = 100,
        keep: int | None = 2,
        extra: Any = None,
        allow_pickle: bool = False,
    ) -> None:
        for name, value in (("every", every), ("keep", keep)):
            if value is not None and (not isinstance(value, int) or value < 1):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ValueError(f"{name} must be an integer of at least 1, or None, got {value!r}")
        self.extra = extra
        self._state = TrainingState(net, trainer, data, allow_pickle)
        self._folder = CheckpointFolder(Path(folder).absolute())
        self._every, self._keep = every, keep
        # A communicator of its own: a rank that ends early cannot mix up what the others compute.
        self._ranks = communicator().split(0)
        self._steps = 0
        self._attempts = 0
        self._run = ""  # names this program in the folder, when it has claimed it
        self._claim: FolderClaim | None = None  # of rank 0
        self._passed_over: list[int] = []  # by restore()
        self._writing: _Writing | None = None
        self._process = os.getpid()
        atexit.register(_at_exit, weakref.ref(self))

    @property
    def steps(self) -> int:
        """How many steps are done."""
        return self._steps

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is None:
            self.close()

    # --- saving --------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Count a step that is done; after every ``every`` of them, begin to write a checkpoint.

        The state is copied now, and written by a thread. If that fails, a warning says why, and older checkpoints stay.
        """
        self._begin()
        self._steps += 1
        if self._every is not None and self._steps % self._every == 0:
            self._complain(self._finish())
            self._start()
        elif self._writing is not None:
            # Seldom, and on all ranks at the same steps: it takes a collective.
            since = self._steps - self._writing.step
            if self._ranks.size == 1 or since & (since - 1) == 0:
                self._complain(self._finish(wait=False))

    def save(self) -> None:
        """Write a checkpoint now, and return when it is whole; an MXNetError says why if it cannot be."""
        self._begin()
        self._complain(self._finish())
        self._start()
        self.wait()

    def wait(self) -> None:
        """Return when nothing is being written; an MXNetError if the last checkpoint could not be."""
        problem = self._finish()
        if problem:
            raise MXNetError(problem)

    def close(self) -> None:
        """Wait as :meth:`wait` does, and let other programs write into the folder."""
        try:
            self.wait()
        finally:
            self._release()

    def _release(self) -> None:
        """Let others claim the folder."""
        if self._claim is not None:
            self._claim.release()
        self._claim, self._run = None, ""

    def _begin(self) -> None:
        """Before the first step: claim the folder, if all ranks see it and nothing in it would be lost."""
        if self._run:
            return
        problem: Exception | None = None
        token = ""
        if self._ranks.rank == 0:
            try:
                self._claim = FolderClaim(self._folder.path)
                token = self._claim.token
                self._tidy()
            except (MXNetError, OSError) as error:
                problem = error
        token, text = self._ranks.broadcast_object((token, None if problem is None else str(problem)))
        if text is None and read_owner(self._folder.path).get("token") != token:
            text = (
                f"rank {self._ranks.rank} on {self._here} does not see in {self._folder.path} what rank 0 on "
                f"{self._ranks.hosts[0]} wrote; checkpoints need a folder that all machines share"
            )
        text = next(filter(None, self._ranks.gather_objects(text)), None)
        if text is not None:
            self._release()
            raise MXNetError(text) from problem
        self._run = token

    def _tidy(self) -> None:
        """Remove what a dead run left, and set aside what this run does not go on from."""
        newer = [step for step in self._folder.finished() if step > self._steps]
        unknown = [step for step in newer if step not in self._passed_over]
        if unknown:
            raise MXNetError(
                f"{self._folder.path} has checkpoints of later steps ({describe_steps(unknown)}) than this run has "
                f"done ({self._steps}); call restore() before the first step, or give another folder"
            )
        for step in newer:
            aside = self._folder.set_aside(step)
            self._warn(f"the checkpoint of step {step}, which was passed over, is now {aside}; remove it if you like")
        self._folder.remove_unfinished()

    def _start(self) -> None:
        """Copy the state, and let a thread write this rank's part of it."""
        self._attempts += 1
        try:
            items, own = self._state.items(), self._state.own(self.extra)
        except Exception:
            self._release()  # the caller may make another Checkpoint while the error is looked at
            raise
        mine = placed_items(self._ranks, items)
        run = f"{self._run}-{self._attempts}"
        path = self._folder.shard(self._steps, self._ranks.rank, self._ranks.size, run)
        arrays = list(own.arrays)
        kept: dict[str, Any] = {}
        for key, same in mine.items():
            item = items[key]
            places = [*range(len(arrays), len(arrays) + len(item.arrays))]
            kept[key] = {"value": item.value, "arrays": places, "same": same}
            arrays += item.arrays
        description = {
            "step": self._steps,
            "rank": self._ranks.rank,
            "run": run,
            "items": kept,
            "held": [*items],
            "own": {"value": own.value, "arrays": [*range(len(own.arrays))]},
        }

        def write() -> ShardEntry:
            path.parent.mkdir(exist_ok=True)
            return write_shard(path, description, arrays)

        self._writing = _Writing(self._steps, run, path, self._state.described())
        self._writing.begin(write)

    def _finish(self, wait: bool = True) -> str | None:
        """Go on with what is being written as far as that is ready, or until it is done; what went wrong."""
        writing = self._writing
        while writing is not None:
            if not self._all(writing.is_done):
                if not wait:
                    return None
                writing.join(_PAUSE)
                continue
            if writing.is_published:
                self._writing = None
                problem = self._ranks.broadcast_object(writing.result)
                if problem is None:
                    return None
                writing.drop()
                return self._failure(writing.step, problem)
            results: list[Any] = self._ranks.gather_objects(writing.result)
            wrong = [
                f"rank {rank} on {self._ranks.hosts[rank]}: {result}"
                for rank, result in enumerate(results)
                if isinstance(result, str)
            ]
            if wrong:
                writing.drop()
                self._writing = None
                return self._failure(writing.step, "; ".join(wrong))
            writing.is_published = True
            if self._ranks.rank == 0:
                manifest = Manifest(writing.step, writing.run, tuple(results), writing.parameters)
                writing.begin(self._publisher(manifest))
        return None

    def _publisher(self, manifest: Manifest) -> Callable[[], None]:
        def publish() -> None:
            assert self._claim is not None
            self._claim.check()
            self._folder.publish(manifest, self._keep)

        return publish

    def _all(self, is_done: bool) -> bool:
        """Whether all ranks are done."""
        return all(self._ranks.gather_objects(is_done))

    def _failure(self, step: int, why: str) -> str:
        return f"the checkpoint of step {step} could not be written into {self._folder.path}: {why}"

    @property
    def _here(self) -> str:
        return self._ranks.hosts[self._ranks.rank]

    def _complain(self, problem: str | None) -> None:
        """Warn, on rank 0, of a checkpoint that could not be written."""
        if problem:
            left = next(iter(self._folder.finished()), None)
            last = "there is none before it" if left is None else f"the last one is that of step {left}"
            self._warn(f"{problem}. The training goes on; {last}")

    def _warn(self, text: str) -> None:
        if self._ranks.rank == 0:
            warnings.warn(text, CheckpointWarning, stacklevel=4)

    # --- restoring -----------------------------------------------------------------------------------------

    def restore(self, step: int | None = None) -> int:
        """Go on from the newest checkpoint that is whole, or from that of ``step``; how many steps were done then.

        0 if there is none. A damaged one is passed over with a warning; if there is none besides, that is an error,
        as are checkpoints of another network, of another program or of a newer version.
        """
        self._complain(self._finish())
        found = self._agreed(self._folder.finished)
        chosen = found
        if step is not None:
            chosen = [each for each in found if each == step]
            if not chosen:
                raise MXNetError(
                    f"{self._folder.path} has no checkpoint of step {step}; there are: {describe_steps(found)}"
                )
        damaged: list[str] = []
        for each in chosen:
            problem = self._check(each)
            if problem is None:
                for text in damaged:
                    self._warn(f"a damaged checkpoint was passed over: {text}")
                self._passed_over = [other for other in found if other > each]
                self._load(each)
                return self._steps
            damaged.append(problem)
        if damaged:
            raise MXNetError(
                f"no checkpoint in {self._folder.path} is whole: {'; '.join(damaged)}. Restore the files from a "
                "backup, or remove the folder to begin anew"
            )
        return 0

    def _agreed(self, look: Callable[[], Any]) -> Any:
        """What rank 0 finds; its error is that of all."""
        found, problem = None, None
        if self._ranks.rank == 0:
            try:
                found = look()
            except MXNetError as error:
                problem = str(error)
        found, problem = self._ranks.broadcast_object((found, problem))
        if problem is not None:
            raise MXNetError(problem)
        return found

    def _check(self, step: int) -> str | None:
        """Why a checkpoint is damaged, as all ranks see it; an error if it is not one of this training."""
        looking = _Writing(step, "", self._folder.of(step), None)
        looking.begin(lambda: self._look(step))
        while not self._all(looking.is_done):  # the disk of another rank may be slow
            looking.join(_PAUSE)
        result: Any = looking.result
        seen: list[Any] = self._ranks.gather_objects((None, result, None) if isinstance(result, str) else result)
        for rank, (_, text, _) in enumerate(seen):
            if text is not None:
                raise MXNetError(f"rank {rank} on {self._ranks.hosts[rank]}: {text}" if rank else text)
        for rank, (text, _, _) in enumerate(seen):
            if text is not None:
                return f"rank {rank} on {self._ranks.hosts[rank]}: {text}" if rank else text
        if len({run for _, _, run in seen}) > 1:
            return f"the ranks see different files in {self._folder.of(step)}"
        return None

    def _look(self, step: int) -> tuple[str | None, str | None, str | None]:
        """Why a checkpoint is damaged, why it is none of this training, and the run that wrote it."""
        run = None
        try:
            manifest = self._folder.manifest(step)
            run = manifest.run
            self._folder.verify(manifest)
            own = self._reader(manifest, 0).description["own"]["value"]
            self._state.check(manifest.parameters, own, f"{self._folder.of(step)}")
        except DamagedError as error:
            return str(error), None, run
        except MXNetError as error:
            return None, str(error), run
        return None, None, run

    def _reader(self, manifest: Manifest, rank: int) -> ShardReader:
        return ShardReader(self._folder.of(manifest.step) / manifest.shards[rank].file)

    def _load(self, step: int) -> None:
        manifest = self._folder.manifest(step)
        shards = [self._reader(manifest, rank) for rank in range(manifest.ranks)]
        self.extra = load_extra(self.extra, self._state.load(shards, self._ranks.rank, self._ranks.size))
        self._steps = step

    # --- the end -------------------------------------------------------------------------------------------

    def end(self) -> None:
        """At the exit of a program that did not close: rank 0 finishes what is being written, or warns.

        All threads have ended. Nothing is asked of other ranks, which may be training: their shards are in the folder.
        """
        writing = self._writing
        if writing is None or self._process != os.getpid() or self._ranks.rank:
            return
        if not writing.is_published and not isinstance(writing.result, str):
            writing.run_now(lambda: self._publisher(self._manifest_of_files(writing))())
        if isinstance(writing.result, str):
            self._complain(self._failure(writing.step, f"rank 0 on {self._here}: {writing.result}"))

    def _manifest_of_files(self, writing: _Writing) -> Manifest:
        """The manifest of the shards that are in the folder, when all are."""
        size, entries = self._ranks.size, [writing.result]
        end = time.monotonic() + _PATIENCE
        for rank in range(1, size):
            path = self._folder.shard(writing.step, rank, size, writing.run)
            while not path.exists():
                if time.monotonic() > end:
                    raise MXNetError(f"rank {rank} on {self._ranks.hosts[rank]} has not written {path}")
                time.sleep(_PAUSE)
            entries.append(entry_of(path))
        return Manifest(writing.step, writing.run, tuple(entries), writing.parameters)


class _Writing:
    """A checkpoint that is being written, or read: this rank's thread, and what came of it."""

    def __init__(self, step: int, run: str, path: Path, parameters: Any) -> None:
        self.step, self.run, self.parameters = step, run, parameters
        self.is_published = False  # or about to be
        #: The entry of the shard, or the text of an error.
        self.result: Any = None
        self._path = path
        self._thread: threading.Thread | None = None

    @property
    def is_done(self) -> bool:
        """Whether the thread has ended."""
        return self._thread is None or not self._thread.is_alive()

    def begin(self, work: Callable[[], Any]) -> None:
        """Let a thread work; Python ends only after it."""
        self._thread = thread(self.run_now, "hybridc checkpoint", work)
        if self._thread is None:  # this process may start none
            self.run_now(work)

    def run_now(self, work: Callable[[], Any]) -> None:
        """Work, and note what came of it."""
        try:
            self.result = work()
        except OSError as error:
            self.result = f"{error.filename or self._path}: {error.strerror or error}"
        except Exception as error:
            self.result = str(error) or repr(error)

    def join(self, seconds: float) -> None:
        """Wait for the thread, but not longer."""
        if self._thread is not None:
            self._thread.join(seconds)

    def drop(self) -> None:
        """Remove the shard: the checkpoint will not be whole."""
        with contextlib.suppress(OSError):  # other ranks' shards may be in the folder still
            self._path.unlink(missing_ok=True)
            self._path.parent.rmdir()


def _at_exit(checkpoint: weakref.ref[Checkpoint]) -> None:
    made = checkpoint()
    if made is not None:
        made.end()
