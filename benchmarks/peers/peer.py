"""What every peer is made of: a task that it gets, a program that it makes of it.

Nothing here needs more than NumPy: it runs in the environments of all peers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.image_networks import NETWORKS

Arrays = dict[str, np.ndarray]
COUNTED_STEPS = 1000  # of the workload while_loop
# Workloads of one network, ``sentence_workloads.py``: texts and tokens.
SENTENCES = {"sentences_1x16": (1, 16), "sentences_1x128": (1, 128), "sentences_32x32": (32, 32)}
SENTENCE_HEAD, SENTENCE_EPSILON = 32, 1e-12  # units of a head; of layer normalization


def encoder_layers(arrays: Mapping[str, Any]) -> int:
    """How many layers a sentence encoder has."""
    return sum(f"w{i}q" in arrays for i in range(len(arrays)))


def heads_of(arrays: Mapping[str, Any]) -> int:
    """How many heads its attention has."""
    return arrays["w0q"].shape[0] // SENTENCE_HEAD


@dataclass(frozen=True)
class Task:
    """A workload of ``benchmarks/``: its name, its inputs and the numbers of its definition."""

    name: str
    arrays: Arrays  # float32, labels int64
    epsilon: float  # of layer normalization
    heads: int  # of the encoder
    learning_rate: float
    momentum: float


@dataclass(frozen=True)
class Program:
    """A task ready to run: ``call()`` is one step, finished when it returns; ``fetch(result)`` its outputs.

    What a framework puts off until it is called (tracing, compiling, packing weights) is no part of making the program:
    it belongs to the first call.
    """

    call: Callable[[], Any]
    fetch: Callable[[Any], list[np.ndarray]]


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
    ``SENTENCES`` by ``sentences``.
    """

    version: str

    def program(self, task: Task) -> Program | None:
        """The program of a task, if this peer has one."""
        name = NETWORKS[task.name].kind if task.name in NETWORKS else task.name
        name = "sentences" if name in SENTENCES else name
        make: Callable[[Task], Program] | None = getattr(self, name, None)
        return None if make is None else make(task)

    def counts(self, task: Task) -> Counts:
        """What is counted of a network of ``counted_networks.py``."""
        raise NotImplementedError


def as_list(result: Any) -> list[Any]:
    """One output or several, as a list."""
    return [*result] if type(result) in (list, tuple) else [result]
