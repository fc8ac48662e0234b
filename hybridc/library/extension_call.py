"""An operator of a library with its attributes: counts of inputs and outputs, shapes, dtypes, its state."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from ctypes import POINTER, addressof, byref, c_char_p, c_int, c_uint, c_void_p, cast
from typing import Any

from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dtypes import TYPES
from hybridc.errors import DTypeError, MXNetError, ShapeError
from hybridc.library.extension import LibraryOp
from hybridc.sparse_storage import STORAGE_TYPES

# Libraries have the first of MXNet's type flags.
_CODES = 7
DTYPES: dict[int, DType] = {t.flag: t.dtype for t in TYPES.values() if t.flag is not None and t.flag < _CODES}
CODES: dict[DType, int] = {dtype: code for code, dtype in DTYPES.items()}
# How a library writes a size that it does not know; as a signed or unsigned number it is -1.
_UNKNOWN_SIZES = (0, 0xFFFFFFFF)
# The most cached signatures of one operator.
_KEPT = 512


def strings(texts: Sequence[str]) -> Any:
    """A C array of strings."""
    return (c_char_p * max(len(texts), 1))(*[t.encode() for t in texts])


def type_code(title: str, number: int, dtype: DType) -> int:
    """The code that stands for a dtype in a library."""
    code = CODES.get(dtype)
    if code is None:
        raise DTypeError(
            f"custom operator '{title}': input {number} is {dtype}, which a library cannot take; use .astype with one "
            f"of {', '.join(t.name for t in DTYPES.values())}"
        )
    return code


class ExtensionState:
    """The C++ object of one use of a stateful operator; the library deletes it with this object."""

    __slots__ = ("__weakref__", "pointer")
    # The first argument of a compute thunk.
    forward, backward = c_int(1), c_int(0)

    def __init__(self, op: LibraryOp, pointer: Any) -> None:
        self.pointer = pointer
        weakref.finalize(self, op.library.call, "_opCallDestroyOpState", pointer)


class Call:
    """An operator of a library with its attributes, and the library's answers about it."""

    def __init__(
        self, op: LibraryOp, attributes: Sequence[tuple[str, str]], counts: tuple[int, int] | None = None
    ) -> None:
        self.op = op
        self.name = op.name
        self.library = op.library
        keys, values = strings([k for k, _ in attributes]), strings([v for _, v in attributes])
        self._strings = keys, values
        self.keys, self.values, self.count = addressof(keys), addressof(values), len(attributes)
        # An operator that runs a subgraph has no inference functions: all follows from the subgraph.
        self.num_inputs, self.num_outputs = counts or self._parse()
        self.mutated = () if counts else self._mutated()
        self._storage: dict[tuple[tuple[str, ...], int], list[str] | None] = {}
        self._types: dict[Any, Any] = {}
        self._shapes: dict[Any, Any] = {}

    def _ask(self, thunk: str, what: str, function: int | None, *args: Any) -> None:
        done = self.library.call(thunk, c_void_p(function), *self._attributes(), *args)
        self.check(done, what)

    def _attributes(self) -> tuple[Any, ...]:
        return c_void_p(self.keys), c_void_p(self.values), c_int(self.count)

    def check(self, done: int, what: str) -> None:
        """Raise if a call of a thunk failed, with what the library says about it."""
        if done != 1:
            raise MXNetError(f"Error calling {what} for custom operator '{self.name}'{self.library.why(done)}")

    # --- counts --------------------------------------------------------------------------------------------

    def _parse(self) -> tuple[int, int]:
        inputs, outputs = c_int(-1), c_int(-1)
        self._ask("_opCallParseAttrs", "ParseAttrs", self.op.parse, byref(inputs), byref(outputs))
        for what, count in (("num_inputs", inputs.value), ("num_outputs", outputs.value)):
            if count < 0:
                raise MXNetError(
                    f"Error calling ParseAttrs::{what} for custom operator '{self.name}': it must set the number, "
                    f"found {count}"
                )
        return inputs.value, outputs.value

    def _mutated(self) -> tuple[int, ...]:
        if not self.op.mutate:
            return ()
        indices, count = POINTER(c_int)(), c_int()
        self._ask("_opCallMutateInputs", "MutateInputs", self.op.mutate, byref(indices), byref(count))
        found = tuple(dict.fromkeys(indices[: count.value]))
        self.library.free(indices)
        # COMPAT(mxnet): there a number out of range ends the process.
        for i in found:
            if not 0 <= i < self.num_inputs:
                raise MXNetError(
                    f"custom operator '{self.name}': MutateInputs names input {i}, but there are {self.num_inputs}"
                )
        return found

    def infer_storage(self, stypes: Sequence[str], outputs: int | None = None) -> list[str] | None:
        """The storage types of outputs for those of inputs; None if it takes others than these.

        A backward is asked, too: its inputs are gradients, inputs and outputs, and it has so many ``outputs``.
        """
        key = tuple(stypes), self.num_outputs if outputs is None else outputs
        if key not in self._storage:
            self._storage[key] = self._infer_storage(*key)
        return self._storage[key]

    def _infer_storage(self, stypes: Sequence[str], count: int) -> list[str] | None:
        # COMPAT(mxnet): there an operator without InferSType stops at sparse inputs; here it gets dense copies.
        if not self.op.infer_storage:
            return None if set(stypes) - {"default"} else ["default"] * count
        codes = [STORAGE_TYPES.index(stype) for stype in stypes]
        inputs, outputs = (c_int * max(len(codes), 1))(*codes), (c_int * max(count, 1))()
        for i in range(count):
            outputs[i] = -1
        sizes = c_int(len(codes)), c_int(count)
        self._ask("_opCallInferSType", "InferSType", self.op.infer_storage, inputs, sizes[0], outputs, sizes[1])
        if inputs[: len(codes)] != codes:
            return None
        for i, code in enumerate(outputs[:count]):
            if not -1 <= code < len(STORAGE_TYPES):
                types = ", ".join(f"{n} {stype}" for n, stype in enumerate(STORAGE_TYPES))
                raise MXNetError(
                    f"custom operator '{self.name}': InferSType gives output {i} the unknown storage type {code}; "
                    f"types are {types}"
                )
        return [STORAGE_TYPES[max(code, 0)] for code in outputs[:count]]

    def require_inputs(self, given: int) -> None:
        """Raise unless this is the number of inputs."""
        if given != self.num_inputs:
            raise MXNetError(
                f"Operator {self.name} expects {self.num_inputs} inputs, but got {given} instead; "
                f"pass them by position: {self.name}({', '.join(f'input{i}' for i in range(self.num_inputs))})"
            )

    # --- dtypes --------------------------------------------------------------------------------------------

    def infer_type(self, dtypes: Sequence[DType | None]) -> tuple[list[DType | None], list[DType | None]]:
        """Dtypes of inputs (None: not known) and outputs, as far as the library knows."""
        key = tuple(dtypes)
        found = self._types.get(key)
        if found is None:
            found = _bound(self._types)[key] = self._infer_type(key)
        return found

    def _infer_type(self, dtypes: Sequence[DType | None]) -> tuple[list[DType | None], list[DType | None]]:
        self.require_inputs(len(dtypes))
        codes = [-1 if d is None else type_code(self.name, i, d) for i, d in enumerate(dtypes)]
        inputs, outputs = (c_int * max(len(codes), 1))(*codes), (c_int * max(self.num_outputs, 1))()
        for i in range(self.num_outputs):
            outputs[i] = -1
        counts = c_int(len(codes)), c_int(self.num_outputs)
        self._ask("_opCallInferType", "InferType", self.op.infer_type, inputs, counts[0], outputs, counts[1])
        ins = [self._dtype("input", i, inputs[i]) for i in range(len(codes))]
        outs = [self._dtype("output", i, outputs[i]) for i in range(self.num_outputs)]
        for i, (given, said) in enumerate(zip(dtypes, ins, strict=True)):
            if given is not None and said is not None and given != said:
                raise DTypeError(
                    f"custom operator '{self.name}': input {i} is {given}, but InferType says {said}; "
                    f"use .astype('{said}')"
                )
        return [g or s for g, s in zip(dtypes, ins, strict=True)], outs

    def _dtype(self, kind: str, number: int, code: int) -> DType | None:
        if code != -1 and code not in DTYPES:
            raise MXNetError(
                f"custom operator '{self.name}': InferType gives {kind} {number} the unknown type {code}; "
                f"types are {', '.join(f'{c} {d}' for c, d in DTYPES.items())}"
            )
        return DTYPES.get(code)

    def known_types(self, dtypes: Sequence[DType]) -> tuple[list[DType], list[DType]]:
        """As :meth:`infer_type` for known inputs; an error if the library leaves an output open."""
        ins, outs = self.infer_type(dtypes)
        for i, dtype in enumerate(outs):
            if dtype is None:
                raise MXNetError(f"custom operator '{self.name}': InferType leaves output {i} without a type")
        return [d for d in ins if d is not None], [d for d in outs if d is not None]

    # --- shapes --------------------------------------------------------------------------------------------

    def infer_shape(self, shapes: Sequence[Shape | None]) -> tuple[list[Shape | None], list[Shape | None]]:
        """Shapes of inputs and outputs; None for one of which nothing is known, -1 for an unknown size."""
        key = tuple(shapes)
        found = self._shapes.get(key)
        if found is None:
            found = _bound(self._shapes)[key] = self._infer_shape(key)
        return found

    def _infer_shape(self, shapes: Sequence[Shape | None]) -> tuple[list[Shape | None], list[Shape | None]]:
        self.require_inputs(len(shapes))
        given = [[max(n, 0) for n in s or ()] for s in shapes]
        _keep, dims, ranks = shape_arrays(given)
        shapes_type, ranks_type = POINTER(POINTER(c_uint)), POINTER(c_int)
        new, new_ranks, out, out_ranks = shapes_type(), ranks_type(), shapes_type(), ranks_type()
        self._ask(
            "_opCallInferShape", "InferShape", self.op.infer_shape, dims, ranks, c_int(len(given)), byref(new),
            byref(new_ranks), byref(out), byref(out_ranks), c_int(self.num_outputs),
        )  # fmt: skip
        open_ = any(s is None or -1 in s for s in shapes)
        said = [_read(new[i], new_ranks[i], open_) for i in range(len(given))]
        outs = [_read(out[i], out_ranks[i], open_) for i in range(self.num_outputs)]
        for i in range(len(given)):
            self.library.free(new[i])
        for i in range(self.num_outputs):
            self.library.free(out[i])
        for pointer in (new, new_ranks, out, out_ranks):
            self.library.free(pointer)
        ins = [self._merge(*entry) for entry in zip(range(len(given)), shapes, said, strict=True)]
        return ins, [None if open_ and not s else s for s in outs]

    def _merge(self, number: int, given: Shape | None, said: Shape) -> Shape | None:
        """A shape known in part, or not at all, with what the library says about it."""
        if given is None or not said:
            return said or given
        if len(given) != len(said) or any(g != s and -1 not in (g, s) for g, s in zip(given, said, strict=True)):
            raise ShapeError(
                f"custom operator '{self.name}': input {number}: Shape inconsistent, Provided = {list(given)}, "
                f"inferred shape={list(said)}; reshape it to what InferShape says"
            )
        return tuple(s if g == -1 else g for g, s in zip(given, said, strict=True))

    # --- state ---------------------------------------------------------------------------------------------

    def create_state(self, shapes: Sequence[Shape], dtypes: Sequence[DType]) -> ExtensionState:
        """A new state, made by the library."""
        _keep, dims, ranks = shape_arrays(shapes)
        types = (c_int * max(len(dtypes), 1))(*[type_code(self.name, i, d) for i, d in enumerate(dtypes)])
        state = c_void_p()
        function = self.for_cpu(self.op.create)
        self._ask(
            "_opCallCreateOpState", "CreateOpState CPU", function, c_char_p(b"cpu"), c_int(0), dims, ranks,
            c_int(len(dtypes)), types, byref(state),
        )  # fmt: skip
        if not state.value:
            raise MXNetError(
                f"Error custom library failed to create stateful operator '{self.name}'{self.library.why(1)}"
            )
        return ExtensionState(self.op, state)

    def for_cpu(self, functions: dict[str, int]) -> int:
        """The function for the CPU, where hybridc runs a library's operators."""
        if "cpu" not in functions:
            raise MXNetError(
                f"Operator {self.name} is not implemented for CPU. Its library has it for "
                f"{', '.join(sorted(functions))} only, and hybridc runs the operators of libraries on the CPU; "
                'register its functions under "cpu"'
            )
        return functions["cpu"]


def _bound(answers: dict[Any, Any]) -> dict[Any, Any]:
    if len(answers) >= _KEPT:
        answers.clear()
    return answers


def shape_arrays(shapes: Sequence[Sequence[int]]) -> tuple[Any, Any, Any]:
    """Shapes as C arrays of unsigned sizes: the owner of the memory, pointers to the sizes, ranks."""
    sizes = [(c_uint * max(len(s), 1))(*s) for s in shapes]
    pointers = (POINTER(c_uint) * max(len(shapes), 1))(*[cast(s, POINTER(c_uint)) for s in sizes])
    return sizes, pointers, (c_int * max(len(shapes), 1))(*[len(s) for s in shapes])


def _read(sizes: Any, rank: int, open_: bool) -> Shape:
    """A shape that a library wrote; where inputs are unknown in part, 0 means unknown."""
    shape = tuple(sizes[: max(rank, 0)])
    return tuple(-1 if n in _UNKNOWN_SIZES else n for n in shape) if open_ else shape
