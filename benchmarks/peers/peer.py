"""What every peer is made of: a task that it gets, a program that it makes of it.

Nothing here needs more than NumPy: it runs in the environments of all peers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.image_networks import NETWORKS

if TYPE_CHECKING:
    from benchmarks.workloads import Workload

Arrays = dict[str, np.ndarray]
COUNTED_STEPS = 1000  # of the workload while_loop
# Workloads of one network, ``sentence_workloads.py``: texts and tokens.
SENTENCES = {"sentences_1x16": (1, 16), "sentences_1x128": (1, 128), "sentences_32x32": (32, 32)}
DEEP_ENCODERS = {"bert_base": (1, 128), "encoder_24": (1, 128)}  # the same network with more layers
SENTENCE_HEADS, SENTENCE_EPSILON = 12, 1e-12  # of attention; of layer normalization
# The names, in all frameworks, of the two operators of each graph of the workload graphs.
GRAPHS = [*itertools.permutations(("tanh", "sigmoid", "relu", "sin", "square", "abs", "cos"), 2)]


def encoder_layers(arrays: Mapping[str, Any]) -> int:
    """How many layers a sentence encoder has."""
    return sum(f"w{i}q" in arrays for i in range(len(arrays)))


@dataclass(frozen=True)
class Task:
    """A workload of ``benchmarks/``: its name, its inputs and the numbers of its definition."""

    name: str
    arrays: Arrays  # float32, labels int64
    epsilon: float  # of layer normalization
    heads: int  # of the encoder
    learning_rate: float
    momentum: float
    file: str = ""  # of onnx_file


@dataclass(frozen=True)
class Program:
    """A task ready to run: ``call()`` is one step, finished when it returns; ``fetch(result)`` its outputs.

    ``call(x, …)`` is one of other data, in the framework's arrays: they stand for the task's first ones.
    What a framework puts off until it is called (tracing, compiling, packing weights) is no part of making the program:
    it belongs to the first call.
    """

    call: Callable[..., Any]
    fetch: Callable[[Any], list[np.ndarray]]


def in_turn(programs: Sequence[Program]) -> Program:
    """A program each of whose calls is one of the next of these."""
    turns = itertools.cycle(programs)
    return Program(lambda *data: next(turns).call(*data), programs[0].fetch)


@dataclass(frozen=True)
class Counts:
    """Kernel launches of a counted network, and bytes that its forward saves for the backward.

    Inputs, parameters and the result are not among the saved. ``outputs`` are the result and the gradients, by name;
    ``otherwise`` is another count of the launches of forward and backward, ``note`` what else is to be known.
    """

    forward: int
    backward: int
    inference: int
    saved: int
    outputs: Arrays
    otherwise: str = ""
    note: str = ""


class Peer:
    """A framework in one of its modes. Each method that is named as a workload makes the program of it.

    Those of all networks of images are made by ``image``, ``image_training`` and ``image_gradient``, those of
    ``SENTENCES`` by ``sentences``; a number at the end of a name is not the method's.
    """

    version: str

    def load(self) -> None:
        """Import what a first call would import: it is no part of one, but for that of a whole process."""

    def array(self, value: np.ndarray) -> Any:
        """An array of the framework."""
        raise NotImplementedError

    def workload(self, name: str) -> Workload:
        """The definition; the files of all are imported only for one that is not in the first one's small file."""
        from benchmarks.first_workloads import FIRST_WORKLOADS

        if name in FIRST_WORKLOADS:
            return FIRST_WORKLOADS[name]
        from benchmarks.images import EVERY

        return EVERY[name]

    def program(self, task: Task) -> Program | None:
        """The program of a task, if this peer has one."""
        name = NETWORKS[task.name].kind if task.name in NETWORKS else task.name.rstrip("_0123456789")
        name = "sentences" if task.name in SENTENCES | DEEP_ENCODERS else name
        make: Callable[[Task], Program] | None = getattr(self, name, None)
        return None if make is None else make(task)

    def counts(self, task: Task) -> Counts:
        """What is counted of a network of ``counted_networks.py``."""
        raise NotImplementedError


def as_list(result: Any) -> list[Any]:
    """One output or several, as a list."""
    return [*result] if type(result) in (list, tuple) else [result]
