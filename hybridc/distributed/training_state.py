"""What a training goes on from: what it consists of, how it is copied at a step, and how it is put back."""

from __future__ import annotations

import hashlib
import json
import math
import pickle  # noqa: TID251 - read only where the user says that it is trusted
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from hybridc import random
from hybridc.array.ndarray import NDArray, values_of
from hybridc.array.plain_data import decode, encode
from hybridc.distributed.checkpoint_folder import Parameters
from hybridc.distributed.placement import StateItem
from hybridc.distributed.shard_file import ShardReader
from hybridc.dtypes import is_float
from hybridc.errors import MXNetError
from hybridc.gluon.hybrid_block import Block
from hybridc.gluon.parameter import Parameter, ParameterDict
from hybridc.gluon.trainer import Trainer
from hybridc.ground.watches import written

Array = npt.NDArray[Any]
T = TypeVar("T")

# The key of a part of a sharded optimizer's state, which ends with its first and last element.
_PIECE = re.compile(r"state/.*@\d+-\d+")
_SEED = 4  # bytes of a seed, which all generators take
# How many differences an error lists.
_SHOWN = 5


class OtherTrainingError(MXNetError):
    """A checkpoint is of another training: of other parameters, or of another optimizer."""


class TrainingState:
    """Parameters, optimizers, samplers and random numbers of this rank.

    ``net`` and ``trainer`` are one object or several, as a list or a dict.
    """

    def __init__(self, net: Any, trainer: Any, data: Any, allow_pickle: bool) -> None:
        self.parameters: dict[str, Parameter] = {}
        seen: set[int] = set()
        for name, each in _named(net, "net", (Block, ParameterDict)).items():
            for key, parameter in _parameters_of(each).items():
                if id(parameter) not in seen:  # shared ones have several names
                    seen.add(id(parameter))
                    self.parameters[f"{name}.{key}" if name else key] = parameter
        self.trainers: dict[str, Trainer] = _named(trainer, "trainer", (Trainer,))
        for each in self.trainers.values():
            apart = [p for p in each.parameters if id(p) not in seen]
            if apart and net is not None:
                raise MXNetError(
                    f"the trainer updates {apart[0].name}, which is no parameter of net; give all blocks that are "
                    "trained, as net=[net, loss]"
                )
            self.parameters |= {p.name: p for p in apart}
        self.data: dict[str, Any] = _named(data, "data", ())
        for each in self.data.values():
            if not hasattr(each, "state") or not hasattr(each, "load_state"):
                raise TypeError(
                    f"data must have state() and load_state(), as a DataLoader, an iterator of mx.io and a "
                    f"DistributedSampler have, got a {type(each).__name__}"
                )
        self._allow_pickle = allow_pickle

    # --- copying it ----------------------------------------------------------------------------------------

    def described(self) -> Parameters:
        """Shape and dtype of each parameter that is initialized."""
        return {
            name: (tuple(cast("Any", p.shape)), np.dtype(p.dtype).name)
            for name, p in self.parameters.items()
            if not _is_waiting(p)
        }

    def items(self) -> dict[str, StateItem]:
        """Copies of what may be equal on all ranks: parameters, gradients that are added up, optimizer states."""
        found: dict[str, StateItem] = {}
        accumulating = self._accumulating()
        for name, parameter in self.parameters.items():
            if _is_waiting(parameter):
                continue
            found[f"parameter/{name}"] = StateItem(None, [values_of(parameter.reduce())])
            if parameter.grad_req == "add" or name in accumulating:
                grads = [grad.asnumpy() for grad in parameter.gradients()]
                if any(grad.any() for grad in grads):
                    found[f"gradient/{name}"] = StateItem(None, grads)
        for name, trainer in self.trainers.items():
            pieces = trainer.pieces()
            for number, updater in enumerate(trainer.updaters):
                for index, state in updater.states.items():
                    piece = pieces.get(index)
                    key = f"state/{name}/{number}/{json.dumps(index)}"
                    if piece is not None:
                        key += f"@{piece[0]}-{piece[1]}"
                    arrays: list[Array] = []
                    value = encode((index, state, piece), arrays)
                    found[key] = StateItem(value, arrays)
        return found

    def _accumulating(self) -> set[str]:
        """The names of parameters whose gradients are needed at the next step."""
        added = {id(p) for each in self.trainers.values() if each.is_accumulating for p in each.parameters}
        return {name for name, p in self.parameters.items() if id(p) in added and p.grad_req != "null"}

    def own(self, extra: Any) -> StateItem:
        """A copy of what each rank has for itself."""
        arrays: list[Array] = []
        trainers: dict[str, Any] = {}
        for name, trainer in self.trainers.items():
            settings = [updater.describe({}, True, arrays) for updater in trainer.updaters]
            rest = encode(trainer.state(), arrays)
            trainers[name] = {"settings": settings, "rest": rest, "order": self._order(trainer)}
        # Before the random numbers: a sampler may draw when it is asked where it is.
        data = {name: self._encoded(each.state(), f"data {name}", arrays) for name, each in self.data.items()}
        value = {
            "trainers": trainers,
            "random": encode(random.generator_states(), arrays),
            "data": data,
            "extra": self._encoded(extra, "extra", arrays),
        }
        return StateItem(value, arrays)

    def _order(self, trainer: Trainer) -> list[str]:
        """The names of a trainer's parameters by their numbers.

        A trainer sorts parameters by names that count blocks, as "dense9_weight" and "dense10_weight": a network that
        is made later in a process may be in another order.
        """
        names = {id(parameter): name for name, parameter in self.parameters.items()}
        return [names[id(parameter)] for parameter in trainer.parameters]

    def _encoded(self, value: Any, what: str, arrays: list[Array]) -> Any:
        count = len(arrays)
        try:
            return encode(value, arrays)
        except TypeError as error:
            del arrays[count:]
            if not self._allow_pickle:
                raise TypeError(
                    f"{what.strip()} cannot be saved: {error}; allow_pickle=True saves all that Python can pickle, but "
                    "a checkpoint of others may then run their code when it is restored"
                ) from None
        arrays.append(np.frombuffer(pickle.dumps(value), np.uint8))
        return {"pickle": len(arrays) - 1}

    # --- putting it back -----------------------------------------------------------------------------------

    def check(self, saved: Parameters, own: Mapping[str, Any], where: str) -> None:
        """Raise OtherTrainingError unless a checkpoint fits."""
        wrong = [f"{name} is missing there" for name, p in self.parameters.items() if name not in saved and _is_made(p)]
        for name, (shape, dtype) in saved.items():
            parameter = self.parameters.get(name)
            if parameter is None:
                if self.parameters:
                    wrong.append(f"{name} is missing here")
                continue
            here = parameter.shape
            if here is not None and (len(here) != len(shape) or any(a not in (-1, 0, b) for a, b in zip(here, shape))):
                wrong.append(f"{name} has shape {shape} there and {here} here")
            elif np.dtype(parameter.dtype).name != dtype:
                wrong.append(f"{name} is {dtype} there and {np.dtype(parameter.dtype).name} here")
        if wrong:
            more = f", and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
            raise OtherTrainingError(
                f"the checkpoint {where} is of other parameters: {'; '.join(wrong[:_SHOWN])}{more}. Build the network "
                "as the one that was saved, or give another folder"
            )
        for name, trainer in self.trainers.items():
            said = own["trainers"].get(name)
            if said is None:
                raise OtherTrainingError(f"the checkpoint {where} has no trainer{' ' + name if name else ''}")
            there, here = said["settings"][0]["optimizer"]["class"], type(trainer.optimizer.unwrapped()).__name__
            if there != here:
                raise OtherTrainingError(
                    f"the checkpoint {where} has the states of {there}, but the trainer has {here}; give the trainer "
                    f"the optimizer {there.lower()!r}, or restore the parameters alone: Checkpoint(folder, net=net)"
                )
            devices = 1 if trainer.updates_on_store else len(trainer.contexts)
            if len(said["settings"]) != devices:
                raise OtherTrainingError(
                    f"the checkpoint {where} has optimizer states of {len(said['settings'])} devices, but the trainer "
                    f"has {devices}"
                )
        for name in self.data:
            if name not in own["data"]:
                raise OtherTrainingError(f"the checkpoint {where} has no state of data{' ' + name if name else ''}")

    def load(self, shards: Sequence[ShardReader], rank: int, ranks: int) -> Any:
        """Take over what shards say, as rank ``rank`` of ``ranks``; what was saved as ``extra``."""
        source = SavedItems(shards, rank, ranks)
        own, arrays = source.own()
        self._load_parameters(source)
        # A store copies rank 0's parameters to all ranks at its first use. Those that differ are put back after that.
        if ranks > 1 and self._prepare():
            self._load_parameters(source)
        states = source.states()
        for name, trainer in self.trainers.items():
            said = own["trainers"][name]
            numbers = {name: number for number, name in enumerate(self._order(trainer))}
            places: dict[Any, int] = {
                i: numbers[each] for i, each in enumerate(said.get("order", ())) if each in numbers
            }
            for number, updater in enumerate(trainer.updaters):
                updater.take(said["settings"][number], arrays, _moved(states.get((name, number), {}), places))
            trainer.adopt_optimizer()
            if ranks != source.ranks:
                _merge_counts(trainer, source.every_own(), name)
            for table in trainer.optimizer._all_index_update_counts.values():
                found = _moved(table, places)
                table.clear()
                table.update(found)
            trainer.load_state(decode(said["rest"], arrays))
        random.load_generator_states(source.random_states())
        for name, each in self.data.items():  # a loader that loads ahead may draw now
            each.load_state(self._decoded(own["data"][name], arrays, f"data {name}"))
        return self._decoded(own["extra"], arrays, "extra")

    def _load_parameters(self, source: SavedItems) -> None:
        for name, parameter in self.parameters.items():
            for key in source.keys(f"parameter/{name}", exact=True):
                parameter.load_init(NDArray(source.arrays(key)[0]), None)
            if parameter.grad_req != "null" and not _is_waiting(parameter):
                if parameter.grad_req == "add":
                    parameter.zero_grad()
                for key in source.keys(f"gradient/{name}", exact=True):
                    for grad, saved in zip(parameter.gradients(), source.arrays(key), strict=True):
                        _copy(saved, grad)

    def _prepare(self) -> bool:
        """Let stores begin; whether one did."""
        began = False
        for trainer in self.trainers.values():
            if not trainer._kv_initialized and not any(map(_is_waiting, trainer.parameters)):
                trainer._init_kvstore()  # pyright: ignore[reportPrivateUsage]
                began = True
        return began

    def _decoded(self, value: Any, arrays: Sequence[Array], what: str) -> Any:
        if isinstance(value, dict) and "pickle" in value:
            if not self._allow_pickle:
                raise MXNetError(
                    f"{what.strip()} is pickled in this checkpoint, and could run code of whoever wrote it; if you "
                    "trust it, make the Checkpoint with allow_pickle=True"
                )
            return pickle.loads(arrays[cast("dict[str, int]", value)["pickle"]].tobytes())
        return decode(value, arrays)


class SavedItems:
    """What the shards of a checkpoint have for a rank.

    On as many ranks as wrote it each gets what it had. On another number what differed is averaged: parameters,
    statistics and optimizer states by their mean, gradients so that their sum stays.
    """

    def __init__(self, shards: Sequence[ShardReader], rank: int, ranks: int) -> None:
        self.ranks = len(shards)
        self._shards, self._rank, self._now = shards, rank, ranks
        self._same = ranks == self.ranks
        self._written: dict[str, list[int]] = {}  # the shards that have an item
        for number, shard in enumerate(shards):
            for key in shard.description["items"]:
                self._written.setdefault(key, []).append(number)
        self._held: dict[str, None] = {}
        for shard in [shards[rank]] if self._same else shards:
            self._held |= dict.fromkeys(shard.description["held"])
        self._held |= dict.fromkeys(key for key in self._written if _PIECE.fullmatch(key))

    def keys(self, prefix: str, exact: bool = False) -> list[str]:
        """The keys of this rank that begin so, or this one, if there is such an item."""
        if exact:
            return [prefix] if prefix in self._held else []
        return [key for key in self._held if key.startswith(prefix)]

    def arrays(self, key: str) -> list[Array]:
        """The arrays of an item."""
        holders = self._written[key]
        first = self._shards[holders[0]].description["items"][key]
        if first["same"] or self._same:
            return self._read(holders[0] if first["same"] else self._rank, key)
        several = [self._read(holder, key) for holder in holders]
        count = self._now if key.startswith("gradient/") else len(several)
        return [_averaged(each, count) for each in zip(*several, strict=True)]

    def states(self) -> dict[tuple[str, int], dict[Any, Any]]:
        """The whole states of optimizers by parameter, of each trainer and each of its updaters."""
        found: dict[tuple[str, int], dict[Any, list[Any]]] = {}
        for key in self.keys("state/"):
            name, number = key.split("/")[1:3]
            index, state, piece = self._decoded(key)
            found.setdefault((name, int(number)), {}).setdefault(index, []).append((state, piece))
        return {place: {i: _whole(parts) for i, parts in states.items()} for place, states in found.items()}

    def _decoded(self, key: str) -> Any:
        return decode(self._shards[self._written[key][0]].description["items"][key]["value"], self.arrays(key))

    def _read(self, number: int, key: str) -> list[Array]:
        shard = self._shards[number]
        arrays = shard.arrays()
        return [arrays[i] for i in shard.description["items"][key]["arrays"]]

    def own(self) -> tuple[Any, Sequence[Array]]:
        """What the rank had for itself, and the arrays in it; that of rank 0 for one that is new."""
        return self._own_of(self._rank if self._rank < self.ranks else 0)

    def every_own(self) -> list[tuple[Any, Sequence[Array]]]:
        """What each of the ranks had for itself that wrote the checkpoint."""
        return [self._own_of(number) for number in range(self.ranks)]

    def _own_of(self, number: int) -> tuple[Any, Sequence[Array]]:
        shard = self._shards[number]
        arrays = shard.arrays()
        places: list[int] = shard.description["own"]["arrays"]
        return shard.description["own"]["value"], [arrays[i] for i in places]

    def random_states(self) -> Any:
        """The states of this rank's generators.

        One that is new has those of rank 0 if all ranks had the same, and others that follow from them if not.
        """
        if self._rank < self.ranks:
            value, arrays = self.own()
            return decode(value["random"], arrays)
        every = [decode(value["random"], arrays) for value, arrays in self.every_own()]
        first = every[0]
        text = _text_of([first, self._rank])
        seed = int.from_bytes(hashlib.sha256(text).digest()[:_SEED], "little")
        apart = {name for name in first if len({_text_of(each[name]) for each in every}) > 1}
        return {**first, **{name: made for name, made in random.derived_states(first, seed).items() if name in apart}}


def _text_of(value: Any) -> bytes:
    """Plain data as bytes that are equal where it is."""
    arrays: list[Array] = []
    text = json.dumps(encode(value, arrays), sort_keys=True).encode()
    return b"".join([text, *(array.tobytes() for array in arrays)])


def _whole(parts: Sequence[tuple[Any, tuple[int, int, tuple[int, ...]] | None]]) -> Any:
    """The state that parts of it make up; each is with begin and end of its elements, and the whole shape."""
    first, piece = parts[0]
    if piece is None:
        return first
    if isinstance(first, list | tuple):
        each = [_whole([(part[i], p) for part, p in parts]) for i in range(len(cast("list[Any]", first)))]
        return tuple(each) if isinstance(first, tuple) else each
    if not isinstance(first, NDArray):
        return first
    pieces = [(part, *cast("tuple[int, int, Any]", p)[:2]) for part, p in parts]
    if any(part.size != end - begin for part, begin, end in pieces):
        return first  # it does not belong to elements
    made = np.empty(math.prod(piece[2]), first.dtype)
    for part, begin, end in pieces:
        made[begin:end] = part.asnumpy().reshape(-1)
    return NDArray(made.reshape(piece[2]))


def _averaged(arrays: Sequence[Array], count: int) -> Array:
    """The sum of arrays divided by a number; the first one where they are no floating-point numbers."""
    first = arrays[0]
    if not is_float(first.dtype):
        return first
    total = sum((array.astype(np.float64) for array in arrays), np.zeros(first.shape))
    return np.asarray(total / count).astype(first.dtype)


def _moved(table: Mapping[Any, T], places: Mapping[Any, int]) -> dict[Any, T]:
    """A table by the numbers of parameters, with the numbers that they have here."""
    return {places.get(index, index): value for index, value in table.items()}


def _merge_counts(trainer: Trainer, every: Iterable[tuple[Any, Sequence[Array]]], name: str) -> None:
    """Count the updates of each parameter as the rank did that updated it."""
    optimizer = trainer.optimizer
    tables: dict[int, dict[Any, int]] = optimizer._all_index_update_counts
    for own, arrays in every:
        attributes = decode(own["trainers"][name]["settings"][0]["optimizer"]["attributes"], arrays)
        optimizer.num_update = max(optimizer.num_update, attributes["num_update"])
        for device, counts in attributes["_all_index_update_counts"].items():
            table = tables.setdefault(device, {})
            for index, count in counts.items():
                table[index] = max(count, table.get(index, 0))


def _named(given: Any, what: str, kinds: tuple[type, ...]) -> dict[str, Any]:
    """One object, or several in a list or dict, by name; the name of one alone is empty."""
    if given is None:
        return {}
    found: dict[str, Any] = {"": given}
    if isinstance(given, list | tuple):
        found = {str(i): each for i, each in enumerate(cast("list[Any]", given))}
    elif isinstance(given, dict):
        found = {str(name): each for name, each in cast("dict[Any, Any]", given).items()}
    for name, each in found.items():
        if kinds and not isinstance(each, kinds):
            wanted = " or ".join(kind.__name__ for kind in kinds)
            raise TypeError(f"{what} must be a {wanted}, or a list or dict of these, got a {type(each).__name__}")
        if "/" in name:
            raise ValueError(f"{what}: a name has no '/', got {name!r}")
    return found


def _parameters_of(net: Any) -> dict[str, Parameter]:
    """Parameters by the path of attributes that leads to them; those without by their own names."""
    if isinstance(net, ParameterDict):
        return dict(net.items())
    found: dict[str, Parameter] = net._collect_params_with_prefix()
    known = {id(parameter) for parameter in found.values()}
    rest = {name: p for name, p in net.collect_params().items() if id(p) not in known}
    return found | {name.removeprefix(net.prefix): p for name, p in rest.items()}


def _is_made(parameter: Parameter) -> bool:
    return parameter._data is not None  # pyright: ignore[reportPrivateUsage]


def _is_waiting(parameter: Parameter) -> bool:
    return not _is_made(parameter)


def load_extra(present: Any, saved: Any) -> Any:
    """The saved extra; a dict that is there is filled with it, and arrays in it that fit are written in place."""
    if not isinstance(present, dict) or not isinstance(saved, dict):
        return saved  # pyright: ignore[reportUnknownVariableType]
    target, values = cast("dict[Any, Any]", present), cast("dict[Any, Any]", saved)
    for name in [name for name in target if name not in values]:
        del target[name]
    for name, value in values.items():
        there = target.get(name)
        if isinstance(there, NDArray) and isinstance(value, NDArray) and _fits(there, value):
            _copy(value.asnumpy(), there)
        else:
            target[name] = load_extra(there, value)
    return target


def _fits(there: NDArray, value: NDArray) -> bool:
    return there.shape == value.shape and there.dtype == value.dtype


def _copy(values: Array, target: NDArray) -> None:
    np.copyto(target._data, values)
    written(target._data)
