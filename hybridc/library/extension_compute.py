"""Running an operator of a library on arrays: what its thunks take is laid out once for each signature.

A :class:`CallFrame` holds the C arrays of one call; later calls with the same shapes and dtypes change the data
pointers in it and nothing else. Calls at the same time have frames of their own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from ctypes import (
    CFUNCTYPE,
    Structure,
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
import numpy.typing as npt

from hybridc import random
from hybridc.dialects.operator import Array
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.errors import MXNetError
from hybridc.ground.buffers import ALIGNMENT, SMALLEST, empty
from hybridc.ground.watches import shared
from hybridc.library.extension_call import Call, ExtensionState, type_code

Signature = tuple[tuple[Shape, DType], ...]

# What a library of MXNet's is given: so many generators of the Mersenne Twister, each of so many words.
_RANDOM_STATES, _STATE_WORDS = 1024, 624
# The most cached frames, random states and signatures: of what a training loop uses by turns.
_KEPT_FRAMES, _KEPT_RANDOM, _KEPT_PLANS = 16, 4, 256
_VERSIONS = itertools.count(1)
_Malloc = CFUNCTYPE(c_void_p, c_void_p, c_int)


class Tensors(Structure):
    """``ShimTensors``: the arrays of one side of a call."""

    _fields_ = [
        ("shapes", c_void_p),
        ("dims", c_void_p),
        ("data", c_void_p),
        ("types", c_void_p),
        ("ids", c_void_p),
        ("device_types", c_void_p),
        ("device_ids", c_void_p),
        ("count", c_int),
        ("storage_types", c_void_p),
        ("indices", c_void_p),
        ("indptr", c_void_p),
        ("indices_lengths", c_void_p),
        ("indptr_lengths", c_void_p),
    ]


class Compute(Structure):
    """``ShimCompute``: everything a compute thunk takes beside the function."""

    _fields_ = [
        ("keys", c_void_p),
        ("values", c_void_p),
        ("attribute_count", c_int),
        ("inputs", Tensors),
        ("outputs", Tensors),
        ("cpu_malloc", c_void_p),
        ("cpu_alloc", c_void_p),
        ("gpu_malloc", c_void_p),
        ("gpu_alloc", c_void_p),
        ("cuda_stream", c_void_p),
        ("sparse_malloc", c_void_p),
        ("sparse_alloc", c_void_p),
        ("cpu_random_states", c_void_p),
        ("gpu_random_states", c_void_p),
    ]


class _Side:
    """The C arrays of a :class:`Tensors`."""

    def __init__(self, title: str, tensors: Any, signature: Signature) -> None:
        n = max(len(signature), 1)
        self.data = (c_void_p * n)()
        self.ids = (c_size_t * n)()
        shapes = [(c_int64 * max(len(s), 1))(*s) for s, _ in signature]
        arrays = {
            "shapes": (c_void_p * n)(*[addressof(s) for s in shapes]),
            "dims": (c_int * n)(*[len(s) for s, _ in signature]),
            "data": self.data,
            "types": (c_int * n)(*[type_code(title, i, d) for i, (_, d) in enumerate(signature)]),
            "ids": self.ids,
            "device_types": (c_char_p * n)(*[b"cpu"] * n),
            "device_ids": (c_int * n)(),
            "storage_types": (c_int * n)(),  # all dense
            "indices": (c_void_p * n)(),
            "indptr": (c_void_p * n)(),
            "indices_lengths": (c_int64 * n)(),
            "indptr_lengths": (c_int64 * n)(),
        }
        for name, array in arrays.items():
            setattr(tensors, name, addressof(array))
        tensors.count = len(signature)
        self.arrays: dict[str, Any] = arrays
        self._keep = shapes


class CallFrame:
    """The arguments of one call of a compute thunk."""

    def __init__(self, call: Call, function: int | None, ins: Signature, outs: Signature) -> None:
        self._compute = compute = Compute()
        compute.keys, compute.values, compute.attribute_count = call.keys, call.values, call.count
        self.inputs = _Side(call.name, compute.inputs, ins)
        self.outputs = _Side(call.name, compute.outputs, outs)
        self._call = call  # owns the attributes' strings
        self._callback: Any = None
        if call.library.shim is None:
            self._run, self._callback = _without_shim(call, function, compute)
        elif function is None:
            self._run = call.library.caller("_opCallFStatefulCompute")
        else:
            self._run = call.library.caller("_opCallFCompute", c_void_p(function), byref(compute))

    def give_sparse_memory(self, function: int | None) -> None:
        """Let the library ask for the memory of sparse outputs by this C function."""
        self._compute.sparse_malloc = function

    def run(self, ins: Sequence[Array], outs: Sequence[Array], *state: Any) -> int:
        """Call the thunk on these arrays, which are contiguous and stay alive meanwhile."""
        version = next(_VERSIONS)  # an operator that remembers versions must take every array for a new one
        side = self.inputs
        for i, a in enumerate(ins):
            shared(a)
            side.data[i] = a.ctypes.data
            side.ids[i] = version
        side = self.outputs
        for i, a in enumerate(outs):
            side.data[i] = a.ctypes.data
            side.ids[i] = version
        epoch = random.epoch()
        try:
            states = epoch.pool.pop()
        except IndexError:
            states = random_states(epoch.seed, next(epoch.numbers))
        self._compute.cpu_random_states = states.ctypes.data
        try:
            return self._run(*state, byref(self._compute)) if state else self._run()
        finally:
            if len(epoch.pool) < _KEPT_RANDOM:
                epoch.pool.append(states)


def _without_shim(call: Call, function: int | None, compute: Any) -> tuple[Callable[..., int], Any]:
    """The function that calls the thunk itself, and the allocator of its workspace, which must live as long."""
    # COMPAT(mxnet): there a second request in one call may free what the first gave; here and in the shim each stays.
    buffers: list[Any] = []

    def allocate(_: Any, size: int) -> int:
        buffers.append(np.empty(max(size, 1) + ALIGNMENT, np.uint8))
        return -(-buffers[-1].ctypes.data // ALIGNMENT) * ALIGNMENT

    callback = _Malloc(allocate)
    compute.cpu_malloc = cast(callback, c_void_p).value

    def run(*first: Any) -> int:
        given: tuple[Any, ...] = first[:-1]
        if function is not None:
            given = c_void_p(function), *_arguments(compute, Compute)[:3]
        try:
            return call.library.call(name, *given, *_dense_last(compute))
        finally:
            buffers.clear()

    name = "_opCallFStatefulCompute" if function is None else "_opCallFCompute"
    return run, callback


def _arguments(structure: Any, kind: Any) -> list[Any]:
    """The fields of a structure as arguments of a C function; those of inner structures are left out."""
    return [k(getattr(structure, n)) for n, k in kind._fields_ if k is not Tensors]


def _dense_last(compute: Any) -> list[Any]:
    """The arguments of a compute thunk after the attributes, in order; those for sparse arrays come last."""
    ins, outs = _arguments(compute.inputs, Tensors), _arguments(compute.outputs, Tensors)
    rest = _arguments(compute, Compute)[3:]
    sparse = [x for pair in zip(ins[8:], outs[8:], strict=True) for x in pair]
    return [*ins[:8], *outs[:8], *rest[:7], *sparse, *rest[7:]]


class Plan:
    """Calls of one function of an operator with one signature."""

    def __init__(self, call: Call, function: int | None, ins: Signature, outs: Signature, what: str) -> None:
        self._outputs = [(s, d, math.prod(s) * d.itemsize >= SMALLEST) for s, d in outs]
        self._make = call, function, ins, outs
        self._what = what
        self._frames: list[CallFrame] = []

    def results(self) -> list[Array]:
        """New arrays for the outputs."""
        return [empty(s, d.name) if large else np.empty(s, d) for s, d, large in self._outputs]

    def run(self, ins: Sequence[Array], outs: Sequence[Array], *state: Any) -> None:
        """Compute ``outs`` from ``ins``; arrays that are not contiguous are copied there and back."""
        given = [a if a.flags.carray else np.array(a, order="C") for a in ins]
        found = [a if a.flags.carray else np.empty(a.shape, a.dtype) for a in outs]
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = CallFrame(*self._make)
        done = frame.run(given, found, *state)
        if len(self._frames) < _KEPT_FRAMES:
            self._frames.append(frame)
        if done != 1:
            self._make[0].check(done, self._what)
        for out, result in zip(outs, found, strict=True):
            if out is not result:
                np.copyto(out, result)


class ExtensionKernel:
    """An operator of a library with its attributes, ready to run forward and backward on arrays."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self._plans: dict[Any, Plan] = {}

    def forward(
        self, arrays: Sequence[Array], state: ExtensionState | None = None, outs: Sequence[Array] | None = None
    ) -> Any:
        """The outputs (written into ``outs``, if given), and the new values of mutated inputs."""
        key: Any = tuple([(a.shape, a.dtype) for a in arrays])
        plan = self._plans.get(key) or self._forward_plan(key)
        results = plan.results() if outs is None else outs
        mutated = self.call.mutated
        if mutated:  # the library writes into them
            arrays = [a.copy() if i in mutated else a for i, a in enumerate(arrays)]
        if state is None:
            plan.run(arrays, results)
        else:
            plan.run(arrays, results, state.forward, state.pointer)
        return results, [arrays[i] for i in mutated]

    def _forward_plan(self, ins: Signature) -> Plan:
        call = self.call
        _, dtypes = call.known_types([d for _, d in ins])
        known, shapes = call.infer_shape([s for s, _ in ins])
        del known  # checked against what was given
        outs = tuple((s or (), d) for s, d in zip(shapes, dtypes, strict=True))
        function = None if call.op.stateful else call.for_cpu(call.op.forward)
        return self._remember(ins, ins, outs, function)

    def backward(
        self,
        ograds: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        state: ExtensionState | None = None,
    ) -> list[Array]:
        """The gradients of all inputs."""
        arrays = [*ograds, *inputs, *outputs]
        key: Any = "backward", *[(a.shape, a.dtype) for a in arrays]
        plan = self._plans.get(key)
        if plan is None:
            call = self.call
            if not call.op.stateful and not call.op.backward:
                raise MXNetError(
                    f"Operator {call.name} is non-differentiable because it didn't register a backward function; "
                    "give it one with setBackward, or keep gradients from it with BlockGrad"
                )
            function = None if call.op.stateful else call.for_cpu(call.op.backward)
            plan = self._remember(key, key[1:], tuple([(a.shape, a.dtype) for a in inputs]), function)
        results = plan.results()
        if state is None:
            plan.run(arrays, results)
        else:
            plan.run(arrays, results, state.backward, state.pointer)
        return results

    def _remember(self, key: Any, ins: Signature, outs: Signature, function: int | None) -> Plan:
        if len(self._plans) >= _KEPT_PLANS:
            self._plans.clear()
        what = "FCompute" if function is not None else "FStatefulCompute"
        plan = self._plans[key] = Plan(self.call, function, ins, outs, what)
        return plan


def random_states(seed: int, number: int) -> npt.NDArray[np.uint64]:
    """The 1024 ``std::mt19937`` of a library (libstdc++'s layout: 624 words of 64 bits and a position).

    State ``i`` is seeded with ``127 * seed + i``, as MXNet does; ``number`` counts what threads at the same time need.
    """
    first = (127 * seed + _RANDOM_STATES * number) & 0xFFFFFFFF
    states = np.empty((_RANDOM_STATES, _STATE_WORDS + 1), np.uint64)
    word = (np.arange(_RANDOM_STATES, dtype=np.uint64) + np.uint64(first)) & np.uint64(0xFFFFFFFF)
    for i in range(_STATE_WORDS):  # the initialisation of the Mersenne twister, all states at once
        states[:, i] = word
        word = (np.uint64(1812433253) * (word ^ (word >> np.uint64(30))) + np.uint64(i + 1)) & np.uint64(0xFFFFFFFF)
    states[:, _STATE_WORDS] = _STATE_WORDS
    return states
