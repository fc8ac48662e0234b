"""Statistics of the arrays in executors, for finding out where numbers go wrong: ``mx.monitor``."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable
from typing import Any, cast

from hybridc import nd
from hybridc.array.ndarray import NDArray
from hybridc.errors import CheckError
from hybridc.gluon.block import Block

__all__ = ["Monitor"]


def _root_mean_square(x: NDArray) -> NDArray:
    return nd.norm(x) / math.sqrt(x.size)


class Monitor:
    """Takes statistics of arrays whose names match, every ``interval`` batches.

    :meth:`install` it into executors or blocks (or give it to ``Module.fit``); around a batch call :meth:`tic` and
    :meth:`toc`.

    Parameters
    ----------
    interval:
        Every how many batches statistics are taken; the first batch is one of them.
    stat_func:
        A function of an NDArray that gives an NDArray, or a list of them; by default the root of the mean square.
    pattern:
        A regular expression with which names must begin: of outputs ("fc1_output"), gradients of an operator's
        inputs ("fc1_backward_output0"), arguments and auxiliary states.
    sort:
        Whether the statistics are sorted by name.
    monitor_all:
        Whether the inputs of operators are looked at as well as their outputs.
    """

    def __init__(
        self,
        interval: int,
        stat_func: Callable[[NDArray], Any] | None = None,
        pattern: str = ".*",
        sort: bool = False,
        monitor_all: bool = False,
    ) -> None:
        self.stat_func = stat_func or _root_mean_square
        self.interval = interval
        self.activated = False
        self.queue: list[tuple[int, str, Any]] = []
        self.step = 0
        self.exes: list[Any] = []
        self.re_prog = re.compile(pattern)
        self.sort = sort
        self.monitor_all = monitor_all

    def stat_helper(self, name: str | bytes, array: NDArray) -> None:
        """Take the statistic of an array, if its name matches and this batch is looked at.

        Parameters
        ----------
        name:
            The name of the array.
        array:
            The array.
        """
        name = name.decode() if isinstance(name, bytes) else name
        if self.activated and self.re_prog.match(name):
            self.queue.append((self.step, name, self.stat_func(array)))

    def install(self, exe: Any) -> None:
        """Look at the executor or block ``exe``, too; a hybridized block's operators run one by one then."""
        if isinstance(exe, Block):
            exe.register_op_hook(lambda name, _, array: self.stat_helper(name, array), self.monitor_all)
        else:
            exe.set_monitor_callback(self.stat_helper, self.monitor_all)
        self.exes.append(exe)

    def tic(self) -> None:
        """Begin a batch; to be called before forward."""
        if self.step % self.interval == 0:
            self.queue = []
            self.activated = True
        self.step += 1

    def toc(self) -> list[tuple[int, str, str]]:
        """End a batch: the step, the name and the statistic of each array, or nothing if it was not looked at."""
        if not self.activated:
            return []
        for exe in self.exes:
            for name, array in _arrays_of(exe):
                self.stat_helper(name, array)
        self.activated = False
        if self.sort:
            self.queue.sort(key=lambda row: row[1])
        rows = [(step, name, _text(name, value)) for step, name, value in self.queue]
        self.queue = []
        return rows

    def toc_print(self) -> None:
        """End a batch, and log the statistics."""
        for step, name, text in self.toc():
            logging.getLogger().info("Batch: %7d %-30s %s", step, name, text)


def _arrays_of(exe: Any) -> list[tuple[str, NDArray]]:
    """The arrays of an executor, or the parameters of a block on their first device, by name."""
    if isinstance(exe, Block):
        return [(p.name, p.list_data()[0]) for p in exe.collect_params().values() if not p.is_deferred]
    return [*exe.arg_dict.items(), *exe.aux_dict.items()]


def _text(name: str, value: Any) -> str:
    """The statistic of an array as a text: values with a tab after each."""
    values: Any = [value] if isinstance(value, NDArray) else value
    if not isinstance(values, list) or not all(isinstance(v, NDArray) for v in values):  # pyright: ignore[reportUnknownVariableType]
        raise CheckError(
            f"Monitor: stat_func must return an NDArray or a list of NDArrays, got {type(value).__name__} for {name}"
        )
    return "".join(str(x.asscalar() if x.shape == (1,) else x.asnumpy()) + "\t" for x in cast("list[NDArray]", values))
