"""The folder of a run: one folder for each checkpoint, with the shards of the ranks and a manifest.

    run1/lock, run1/owner.json          who writes here
    run1/step-000000200/manifest.json   written last: a checkpoint is whole when it has one
    run1/step-000000200/rank-0-of-2.1f3a9c2e-1.shard

Shards have the name of the run that wrote them, so what a dead run left is never taken for part of another.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from hybridc.distributed.shard_file import DamagedError, ShardEntry, verify_shard
from hybridc.errors import MXNetError
from hybridc.ground import __version__
from hybridc.ground.records import dataclass
from hybridc.ground.whole_files import PARTIAL, sync_folder, write_whole

_FORMAT = "hybridc.checkpoint"
_VERSION = 1  # of the manifest and the shards
_MANIFEST = "manifest.json"
_ASIDE = ".aside"  # ends the name of a checkpoint that is kept, and not used
_STEP = re.compile(r"step-(\d{9,})")
_SHARD = re.compile(r"rank-\d+-of-\d+\.[0-9a-f]+-\d+\.shard")
# The files that are removed with a checkpoint: no other's.
_OURS = re.compile(rf"({_SHARD.pattern}|manifest\.json)({PARTIAL})?")

# Of each parameter its shape and the name of its dtype.
Parameters = dict[str, tuple[tuple[int, ...], str]]


@dataclass(frozen=True)
class Manifest:
    """What a checkpoint consists of."""

    step: int
    run: str  # names the run and the attempt to write
    shards: tuple[ShardEntry, ...]  # by rank
    parameters: Parameters

    @property
    def ranks(self) -> int:
        """How many ranks wrote it."""
        return len(self.shards)

    def to_json(self) -> str:
        """The text of the file, which ends with a checksum of the rest."""
        content: dict[str, Any] = {
            "format": _FORMAT,
            "version": _VERSION,
            "hybridc": __version__,
            "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "step": self.step,
            "ranks": self.ranks,
            "run": self.run,
            "shards": [asdict(shard) for shard in self.shards],
            "parameters": {name: {"shape": [*s], "dtype": d} for name, (s, d) in self.parameters.items()},
        }
        return json.dumps({**content, "sha256": _checksum(content)}, indent=1) + "\n"


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_manifest(path: Path) -> Manifest:
    """The manifest in a file: DamagedError if it is not whole, MXNetError if it is none that this version reads."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        raise DamagedError(f"{path} is missing") from None
    except UnicodeDecodeError as error:
        raise DamagedError(f"{path} is no text: {error}") from error
    except OSError as error:
        raise DamagedError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        content = json.loads(text)
    except ValueError as error:
        raise DamagedError(f"{path} is not whole: {error}") from error
    found = cast("dict[str, Any]", content)
    if not isinstance(content, dict) or found.get("format") != _FORMAT:
        raise MXNetError(f"{path} is the manifest of another program; give checkpoints a folder of their own")
    version = found.get("version")
    if isinstance(version, int) and version > _VERSION:
        raise MXNetError(
            f"{path} is of version {version}, written by hybridc {found.get('hybridc')}; this is hybridc "
            f"{__version__}, which reads versions up to {_VERSION}: install the newer one"
        )
    said = found.pop("sha256", None)
    if said != _checksum(found):
        raise DamagedError(f"{path} was changed: its checksum is not that of its content")
    try:
        shards = tuple([ShardEntry(**entry) for entry in found["shards"]])
        parameters = {name: (tuple(p["shape"]), p["dtype"]) for name, p in found["parameters"].items()}
        return Manifest(found["step"], found["run"], shards, parameters)
    except (LookupError, TypeError, AttributeError) as error:
        raise DamagedError(f"{path} is not whole: {error!r}") from error


class CheckpointFolder:
    """The checkpoints of a folder, by the numbers of their steps."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def of(self, step: int) -> Path:
        """The folder of a checkpoint."""
        return self.path / f"step-{step:09d}"

    def shard(self, step: int, rank: int, ranks: int, run: str) -> Path:
        """The file of a rank."""
        return self.of(step) / f"rank-{rank}-of-{ranks}.{run}.shard"

    def all(self) -> list[int]:
        """The steps of all checkpoints, the newest first, also of those that are not whole."""
        if not self.path.exists():
            return []
        if not self.path.is_dir():
            raise MXNetError(f"{self.path} is a file; checkpoints need a folder: give another path")
        try:
            named = [_STEP.fullmatch(each.name) for each in self.path.iterdir()]
        except OSError as error:
            raise MXNetError(f"the folder {self.path} cannot be read: {error.strerror or error}") from error
        return sorted((int(match[1]) for match in named if match), reverse=True)

    def finished(self) -> list[int]:
        """The steps of those that have a manifest, the newest first."""
        return [step for step in self.all() if (self.of(step) / _MANIFEST).exists()]

    def manifest(self, step: int) -> Manifest:
        """The manifest of a checkpoint."""
        found = read_manifest(self.of(step) / _MANIFEST)
        if found.step != step:
            raise DamagedError(f"{self.of(step) / _MANIFEST} is the manifest of step {found.step}")
        return found

    def verify(self, manifest: Manifest) -> None:
        """Raise DamagedError unless all shards are as they were written."""
        for entry in manifest.shards:
            if not _SHARD.fullmatch(entry.file):
                raise DamagedError(f"{self.of(manifest.step) / _MANIFEST} names {entry.file!r}, which is no shard")
            verify_shard(self.of(manifest.step), entry)

    def publish(self, manifest: Manifest, keep: int | None) -> None:
        """Write the manifest, which makes the checkpoint whole; then remove older ones, but for ``keep``."""
        write_whole(self.of(manifest.step) / _MANIFEST, manifest.to_json().encode(), durable=True)
        sync_folder(self.path)
        wanted = {entry.file for entry in manifest.shards} | {_MANIFEST}
        _remove(self.of(manifest.step), lambda name: name not in wanted)
        finished = self.finished()
        for step in finished[keep:] if keep is not None else ():
            self.remove(step)
        self.remove_unfinished()

    def remove(self, step: int) -> None:
        """Remove a checkpoint: the manifest first, so that what is left is no checkpoint."""
        folder = self.of(step)
        _remove(folder, lambda name: name == _MANIFEST)
        _remove(folder, lambda _: True)
        with contextlib.suppress(OSError):
            folder.rmdir()

    def remove_unfinished(self) -> None:
        """Remove what a run left that ended while it wrote; nothing may be written now."""
        for step in self.all():
            if not (self.of(step) / _MANIFEST).exists():
                self.remove(step)

    def set_aside(self, step: int) -> Path:
        """Rename a checkpoint, so that it is kept and not found; its new path."""
        folder = self.of(step)
        number, aside = 1, folder.with_name(folder.name + _ASIDE)
        while aside.exists():
            number += 1
            aside = folder.with_name(f"{folder.name}{_ASIDE}{number}")
        folder.rename(aside)
        return aside


def _remove(folder: Path, chosen: Callable[[str], bool]) -> None:
    """Remove files of ours, as far as that is possible."""
    with contextlib.suppress(OSError):
        for each in folder.iterdir():
            if _OURS.fullmatch(each.name) and chosen(each.name):
                with contextlib.suppress(OSError):
                    each.unlink()


def describe_steps(steps: Sequence[int]) -> str:
    """The steps as text, the newest first."""
    return ", ".join(map(str, steps)) or "none"
