"""Partitioners and graph passes of libraries: thunks that take a graph as nnvm's JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import (
    CFUNCTYPE,
    POINTER,
    addressof,
    byref,
    c_char_p,
    c_int,
    c_int64,
    c_size_t,
    c_void_p,
    cast,
)
from typing import Any

import numpy as np

from hybridc.dialects.operator import Array
from hybridc.errors import MXNetError
from hybridc.ground.records import dataclass
from hybridc.library.extension import ExtensionLibrary
from hybridc.library.extension_call import DTYPES, strings, type_code

Arrays = Mapping[str, Array]

_Allocate = CFUNCTYPE(
    None, c_void_p, POINTER(c_int64), c_int, c_char_p, c_int, c_int, c_char_p, c_int, POINTER(c_void_p)
)


@dataclass(frozen=True)
class Strategy:
    """A partitioning strategy of a library; addresses of the author's functions."""

    library: ExtensionLibrary
    partitioner: str
    name: str
    supported_ops: int | None
    create_selector: int | None
    review: int | None
    op: str

    def check(self) -> None:
        """Raise unless it has a function to select nodes."""
        if not self.supported_ops and not self.create_selector:
            raise MXNetError(
                f"Error loading '{self.partitioner}' custom partitioner strategy '{self.name}', supportedOps or "
                "createSelector function was not set."
            )

    def _what(self, function: str) -> str:
        return f"{function} for partitioner '{self.partitioner}' strategy '{self.name}'"

    def supported(self, graph: str, nodes: int, options: Mapping[str, str]) -> list[int]:
        """For each node -2 if it is not supported, -1 for any subgraph, or the index of its subgraph."""
        ids = (c_int * max(nodes, 1))(*[-2] * nodes)
        done = self.library.call(
            "_partCallSupportedOps", c_void_p(self.supported_ops), c_char_p(graph.encode()), c_int(nodes), ids,
            *_options(options),
        )  # fmt: skip
        _check(self.library, done, self._what("SupportedOps"))
        return list(ids[:nodes])

    def selector(self, graph: str, options: Mapping[str, str]) -> Selector:
        """Makes a selector, which chooses nodes one by one."""
        made = c_void_p()
        done = self.library.call(
            "_partCallCreateSelector", c_void_p(self.create_selector), c_char_p(graph.encode()), byref(made),
            *_options(options),
        )  # fmt: skip
        _check(self.library, done, self._what("CreateSelector"))
        if not made.value:
            raise MXNetError(f"Error calling {self._what('CreateSelector')}: it made no selector")
        return Selector(self, made)

    def accepts(
        self, graph: str, number: int, options: Mapping[str, str], arguments: Arrays, states: Arrays
    ) -> dict[str, str] | None:
        """The attributes for the operator that replaces a subgraph; None if the library does not want it."""
        if not self.review:
            return {}
        accept, count = c_int(1), c_int(0)
        keys, values = POINTER(c_char_p)(), POINTER(c_char_p)()
        keep_arguments, keep_states = _Arrays(arguments), _Arrays(states)
        done = self.library.call(
            "_partCallReviewSubgraph", c_void_p(self.review), c_char_p(graph.encode()), c_int(number), byref(accept),
            *_options(options), byref(keys), byref(values), byref(count), *keep_arguments.args, *keep_states.args,
        )  # fmt: skip
        _check(self.library, done, self._what("ReviewSubgraph"))
        attributes = _taken_pairs(self.library, keys, values, count.value)
        return attributes if accept.value else None


class Selector:
    """Chooses nodes by their indices in its graph."""

    def __init__(self, strategy: Strategy, pointer: Any) -> None:
        self._strategy = strategy
        self._pointer = pointer

    def _ask(self, function: str, *args: Any) -> None:
        library = self._strategy.library
        done = library.call(f"_partCall{function}", self._pointer, *args)
        where = f"{function} for partitioner '{self._strategy.partitioner}' strategy '{self._strategy.name}'"
        _check(library, done, where)

    def _chooses(self, function: str, *numbers: int) -> bool:
        chosen = c_int(0)
        self._ask(function, *[c_int(n) for n in numbers], byref(chosen))
        return bool(chosen.value)

    def select(self, node: int) -> bool:
        """Whether a subgraph may start at a node."""
        return self._chooses("Select", node)

    def select_input(self, node: int, producer: int) -> bool:
        """Whether a subgraph that has ``node`` may grow to a producer of its inputs."""
        return self._chooses("SelectInput", node, producer)

    def select_output(self, node: int, user: int) -> bool:
        """Whether a subgraph that has ``node`` may grow to a user of its result."""
        return self._chooses("SelectOutput", node, user)

    def filter(self, candidates: Sequence[int]) -> list[int]:
        """The chosen nodes to keep."""
        kept, count = POINTER(c_int)(), c_int(0)
        given = (c_int * max(len(candidates), 1))(*candidates)
        self._ask("Filter", given, c_int(len(candidates)), byref(kept), byref(count))
        found = list(kept[: count.value])
        self._strategy.library.free(kept)
        return found

    def reset(self) -> None:
        """Forget the subgraph that was chosen last."""
        self._ask("Reset")


@dataclass(frozen=True)
class LibraryPass:
    """A graph pass of a library."""

    library: ExtensionLibrary
    name: str
    function: int | None

    def run(
        self, graph: str, options: Mapping[str, str], arguments: Arrays, states: Arrays
    ) -> tuple[str, dict[str, Array], dict[str, Array]]:
        """The new graph, and its additional arguments and auxiliary states."""
        made: tuple[dict[str, Array], dict[str, Array]] = ({}, {})

        def allocate(
            _: Any, shape: Any, rank: int, device: Any, number: int, code: int, name: bytes, argument: int, data: Any
        ) -> None:
            del device, number  # hybridc runs libraries on the CPU
            array = np.zeros(tuple(shape[:rank]), DTYPES[code])
            made[not argument][name.decode()] = array
            data[0] = array.ctypes.data

        callback = _Allocate(allocate)
        out = c_char_p()
        keep_arguments, keep_states = _Arrays(arguments), _Arrays(states)
        done = self.library.call(
            "_passCallGraphPass", c_void_p(self.function), c_char_p(graph.encode()), byref(out), *_options(options),
            c_char_p(self.name.encode()), *keep_arguments.args, *keep_states.args, callback, c_void_p(),
        )  # fmt: skip
        _check(self.library, done, f"GraphPass for '{self.name}'")
        text = (out.value or b"").decode()
        self.library.free(out)
        return text, *made


def partitioners(library: ExtensionLibrary) -> dict[str, list[Strategy]]:
    """The partitioners of a library: their names, and their strategies in order."""
    if not library.has("_partRegSize"):
        return {}
    library.require(("_partRegGetCount", "_partRegGet"))
    found: dict[str, list[Strategy]] = {}
    for i in range(library.handle._partRegSize()):
        name = c_char_p()
        count = library.handle._partRegGetCount(c_int(i), byref(name))
        title = (name.value or b"").decode()
        found[title] = [_strategy(library, title, i, j) for j in range(count)]
    return found


def _strategy(library: ExtensionLibrary, partitioner: str, number: int, strategy: int) -> Strategy:
    name, op = c_char_p(), c_char_p()
    functions = [c_void_p() for _ in range(3)]
    library.handle._partRegGet(
        c_int(number), c_int(strategy), byref(name), *[byref(f) for f in functions], byref(op)
    )  # fmt: skip
    names = [(n.value or b"").decode() for n in (name, op)]
    supported, selector, review = (f.value for f in functions)
    return Strategy(library, partitioner, names[0], supported, selector, review, names[1])


def passes(library: ExtensionLibrary) -> list[LibraryPass]:
    """The graph passes of a library."""
    if not library.has("_passRegSize"):
        return []
    library.require(("_passRegGet",))
    found: list[LibraryPass] = []
    for i in range(library.handle._passRegSize()):
        function, name = c_void_p(), c_char_p()
        library.handle._passRegGet(c_int(i), byref(function), byref(name))
        found.append(LibraryPass(library, (name.value or b"").decode(), function.value))
    return found


class _Arrays:
    """Named arrays as the thunks take them; ``args`` are valid as long as this."""

    def __init__(self, arrays: Arrays) -> None:
        n = max(len(arrays), 1)
        given = [np.ascontiguousarray(a) for a in arrays.values()]
        shapes = [(c_int64 * max(a.ndim, 1))(*a.shape) for a in given]
        codes = [type_code("arguments of a graph", i, a.dtype) for i, a in enumerate(given)]
        self._keep = given, shapes
        self.args: tuple[Any, ...] = (
            strings(list(arrays)),
            c_int(len(arrays)),
            (c_void_p * n)(*[a.ctypes.data for a in given]),
            (c_void_p * n)(*[addressof(s) for s in shapes]),
            (c_int * n)(*[a.ndim for a in given]),
            (c_int * n)(*codes),
            (c_size_t * n)(),
            strings(["cpu"] * n),
            (c_int * n)(),
        )


def _options(options: Mapping[str, str]) -> tuple[Any, Any, Any]:
    return strings(list(options)), strings(list(options.values())), c_int(len(options))


def _taken_pairs(library: ExtensionLibrary, keys: Any, values: Any, count: int) -> dict[str, str]:
    """Read, and free, two lists of strings that a library made."""
    if not count:
        return {}
    found = {keys[i].decode(): values[i].decode() for i in range(count)}
    for texts in (keys, values):
        pointers = cast(texts, POINTER(c_void_p))
        for i in range(count):
            library.free(c_void_p(pointers[i]))
        library.free(texts)
    return found


def _check(library: ExtensionLibrary, done: int, what: str) -> None:
    if done != 1:
        raise MXNetError(f"Error calling {what}{library.why(done)}")
