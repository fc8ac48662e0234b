"""The C structures that native code and Python share: the only place that knows field offsets.

Python fills them as `ctypes` structures; native code (`ir_text`) reads them by the same declarations. The first
two belong to CPython and NumPy; `probe` checks them against real objects before native code relies on them.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int32, c_int64, c_uint8, c_void_p


class ArrayObject(ctypes.Structure):
    """NumPy's PyArrayObject, as its public header declares it."""

    _fields_ = (
        ("refcount", c_int64),
        ("type", c_void_p),
        ("data", c_void_p),
        ("rank", c_int32),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("base", c_void_p),
        ("descr", c_void_p),
        ("flags", c_int32),
    )


class DescrObject(ctypes.Structure):
    """The head of NumPy's PyArray_Descr, common to all versions."""

    _fields_ = (
        ("refcount", c_int64),
        ("type", c_void_p),
        ("typeobj", c_void_p),
        ("kind", c_uint8),
        ("letter", c_uint8),
        ("byteorder", c_uint8),
        ("former_flags", c_uint8),
        ("type_num", c_int32),
    )


POINTER = ctypes.sizeof(c_void_p)
_Line = c_uint8 * 64

# Bits of ArrayObject.flags.
C_CONTIGUOUS = 0x1
ALIGNED = 0x100
WRITEABLE = 0x400


class Outside(ctypes.Structure):
    """Addresses of external functions and objects, so that the compiled code has no symbols to resolve."""

    _fields_ = (
        # CPython
        ("tuple_new", c_void_p),
        ("tuple_set", c_void_p),
        ("tuple_get", c_void_p),
        ("incref", c_void_p),
        ("decref", c_void_p),
        ("allocate", c_void_p),
        ("vectorcall", c_void_p),
        ("save_thread", c_void_p),
        ("restore_thread", c_void_p),
        ("set_error", c_void_p),
        ("none", c_void_p),
        ("not_implemented", c_void_p),
        ("type_error", c_void_p),
        ("tuple", c_void_p),
        # NumPy
        ("new_array", c_void_p),
        ("set_base", c_void_p),
        ("ndarray", c_void_p),
        # hybridc
        ("workspace", c_void_p),  # the type object
        ("take", c_void_p),  # allocates large results from the buffer pool
        ("pool", c_void_p),  # the Pool of this process
        # the system's threads
        ("thread_create", c_void_p),
        ("thread_sigmask", c_void_p),
        ("clock_gettime", c_void_p),
        ("getcpu", c_void_p),
        ("getaffinity", c_void_p),
        ("setaffinity", c_void_p),
        ("syscall", c_void_p),
        ("futex", c_int64),  # the system call's number
        # events
        ("thread_self", c_void_p),
        ("ring", c_void_p),  # the EventRing of this process
        ("drain", c_void_p),  # takes the events out of it
        ("loop", c_void_p),  # the code of a loop's steps that records nothing
    )


class WrapperCall(ctypes.Structure):
    """A program that is called on array wrappers, objects that hold an array each."""

    _fields_ = (
        ("anchor", c_void_p),  # the array over the Program
        ("type", c_void_p),  # of a wrapper
        ("size", c_int64),  # of a wrapper, in bytes
        ("array_offset", c_int64),  # the offset of a wrapper's array
        ("pattern", c_void_p),  # void *[size / 8]: the other words of a new wrapper
        ("arenas", c_void_p),  # ArenaTable
    )


class ArenaRecord(ctypes.Structure):
    """A workspace that wrapper calls take, one at a time; read and written under the GIL."""

    _fields_ = (
        ("workspace", c_void_p),
        ("size", c_int64),  # of its arena; -1 while there is none
        ("busy", c_int64),  # a call has it
    )


class ArenaTable(ctypes.Structure):
    """The workspaces of wrapper calls."""

    _fields_ = (
        ("records", c_void_p),  # ArenaRecord[count]
        ("count", c_int64),
        ("missed", c_int64),  # a call did not get one
    )


class Pool(ctypes.Structure):
    """The thread pool, with its current region: a range of iterations that is claimed in chunks.

    Fields that different threads write at the same time are in different cache lines.
    """

    _fields_ = (
        ("outside", c_void_p),
        ("threads", c_int64),  # the most in a region, the caller included
        ("handles", c_void_p),  # int64[threads - 1]: thread handles of the workers
        ("claims", c_void_p),  # ClaimRecord[threads]
        ("started", c_int64),  # workers started
        ("numbered", c_int64),  # workers that have taken their index
        ("ready", c_int64),  # whether starting them was tried
        ("stopped", c_int32),
        # the open region
        ("code", c_void_p),
        ("buffers", c_void_p),
        ("numbers", c_void_p),
        ("extent", c_int64),
        ("piece", c_int64),  # iterations claimed at a time
        ("pieces", c_int64),
        ("scratch", c_void_p),
        ("scratch_stride", c_int64),
        ("limit", c_int64),  # the most threads in this region
        ("core", c_int32),  # the caller's core
        ("_0", _Line),
        ("lock", c_int32),  # 1 while a thread runs a region
        ("_1", _Line),
        ("generation", c_int32),  # odd while a region is open; workers sleep on it
        ("sleepers", c_int32),  # workers that sleep, or are about to
        ("_2", _Line),
        ("active", c_int32),  # workers that may be in the region; the caller sleeps on it
        ("waiting", c_int32),  # the caller sleeps, or is about to
    )


class ClaimRecord(ctypes.Structure):
    """A thread's own share of a region's chunks; others steal the rest of it when theirs is done."""

    _fields_ = (("next", c_int64), ("end", c_int64), ("_", c_uint8 * 48))


class Timespec(ctypes.Structure):
    """``struct timespec``."""

    _fields_ = (("seconds", c_int64), ("nanoseconds", c_int64))


class PositionRecord(ctypes.Structure):
    """A plan's `Place`."""

    _fields_ = (("slot", c_int64), ("offset", c_int64))


class CopyRecord(ctypes.Structure):
    """Bytes that are copied between slots."""

    _fields_ = (("source", c_int64), ("offset", c_int64), ("target", c_int64), ("size", c_int64))


class StepRecord(ctypes.Structure):
    """A plan's parallel region, or, where ``host`` is not null, a host call."""

    _fields_ = (
        ("host", c_void_p),  # the callable
        ("next_host", c_int64),  # index of the next host step; the number of steps if there is none
        ("code", c_void_p),
        ("buffers", c_void_p),  # PositionRecord[buffer_count]
        ("buffer_count", c_int64),
        ("numbers", c_void_p),
        ("extent", c_int64),
        ("grain", c_int64),
        ("alone", c_int64),  # regions of at most so many iterations are not shared
        ("scratch", PositionRecord),
        ("scratch_stride", c_int64),
    )


class GridPartCell(ctypes.Structure):
    """A plan's `GridPart`."""

    _fields_ = (
        ("code", c_void_p),
        ("buffers", c_void_p),  # PositionRecord[buffer_count]
        ("buffer_count", c_int64),
        ("numbers", c_void_p),
        ("extent", c_int64),
        ("scratch", c_int64),
    )


class GridCell(ctypes.Structure):
    """A plan's `Grid`, as the scalars of its parallel region."""

    _fields_ = (
        ("axis_count", c_int64),
        ("sizes", c_void_p),  # int64[axis_count]
        ("buffer_count", c_int64),
        ("steps", c_void_p),  # int64[axis_count][buffer_count]
        ("part_count", c_int64),
        ("parts", c_void_p),  # GridPartCell[part_count]
        ("widest", c_int64),  # the most buffers that a part has
    )


class ArrayRecord(ctypes.Structure):
    """A plan's `PlainArray`."""

    _fields_ = (
        ("rank", c_int32),
        ("type_num", c_int32),
        ("descr", c_void_p),
        ("shape", c_void_p),  # int64[rank]
        ("size", c_void_p),  # if not null, Outside.take(size) allocates a result
    )


class InnerCell(ctypes.Structure):
    """A plan's `InnerSteps`."""

    _fields_ = (
        ("program", c_void_p),  # NativeTable, of which only the steps count
        ("slot_count", c_int64),
        ("slots", c_void_p),  # PositionRecord[slot_count]
    )


class LoopCell(ctypes.Structure):
    """A plan's `StepLoop`, as the scalars of its region. A slot that there is not is -1."""

    _fields_ = (
        ("step", InnerCell),
        ("condition", InnerCell),  # of no program if there is none
        ("buffer_count", c_int64),
        ("constants", c_void_p),  # void *[constant_count]
        ("constant_count", c_int64),
        ("count", c_int64),
        ("counted", c_int64),
        ("backwards", c_int64),
        ("begin", c_void_p),  # CopyRecord[begin_count]
        ("begin_count", c_int64),
        ("before", c_void_p),
        ("before_count", c_int64),
        ("end", c_void_p),
        ("end_count", c_int64),
        ("swaps", c_void_p),  # PositionRecord[swap_count]: pairs of slots
        ("swap_count", c_int64),
        ("advances", c_void_p),  # PositionRecord[advance_count]
        ("advance_count", c_int64),
        ("key", c_int64),
        ("key_source", c_int64),
        ("draw", c_int64),
        ("key_step", c_int64),
        ("links", c_void_p),  # PositionRecord[link_count]: a slot of the condition, and one of the step
        ("link_count", c_int64),
        ("answer", PositionRecord),
        ("choice", c_int64),
        ("choice_size", c_int64),  # its bytes, and the bits of the last one that count
        ("choice_bits", c_int64),
        ("choice_zero", c_int64),
        ("zeros", c_void_p),  # PositionRecord[zero_count]
        ("zero_count", c_int64),
        ("ran", c_int64),
    )


class EventRing(ctypes.Structure):
    """Events of native code, the latest ones: that of number n is at index ``n & mask``."""

    _fields_ = (
        ("next", c_int64),  # the number of the next event
        ("drained", c_int64),  # so many of them Python has taken
        ("half", c_int64),  # of the capacity
        ("mask", c_int64),
        ("events", c_void_p),  # EventRecord[mask + 1]
    )


# The ``high`` of an event that is a whole step or call.
WHOLE = -1


class EventRecord(ctypes.Structure):
    """A call of a program, one of its steps, or the iterations [low, high) of a step that a thread ran."""

    _fields_ = (
        ("sequence", c_int64),  # its number and 1, once it is complete
        ("what", c_void_p),  # the NativeTable of a call, the StepRecord of a step
        ("begin", c_int64),  # nanoseconds
        ("end", c_int64),
        ("thread", c_int64),
        ("low", c_int64),
        ("high", c_int64),
        ("_", c_int64),
    )


class TimedRegion(ctypes.Structure):
    """The buffers of a parallel region whose chunks are recorded."""

    _fields_ = (("outside", c_void_p), ("step", c_void_p), ("code", c_void_p), ("buffers", c_void_p))


class NativeTable(ctypes.Structure):
    """A plan."""

    _fields_ = (
        ("outside", c_void_p),
        ("input_count", c_int64),
        ("result_count", c_int64),
        ("constant_count", c_int64),
        ("step_count", c_int64),
        ("slot_count", c_int64),
        ("buffer_count", c_int64),  # the most of a step
        ("host_count", c_int64),
        ("inputs", c_void_p),  # ArrayRecord[input_count]
        ("results", c_void_p),  # ArrayRecord[result_count]
        ("constants", c_void_p),  # void *[constant_count]
        ("steps", c_void_p),  # StepRecord[step_count]
        ("first", c_int64),  # index of the first step that every call runs; those before it prepare values
        ("kept", c_int64),  # the number of prepared values
        ("prepared", c_void_p),  # the array of their addresses, void *[kept]; null while one of them is not valid
        ("read", c_void_p),  # void *[input_count]: the memory of the inputs that they follow from, null for others
        ("arena", c_int64),
        ("release", c_int64),  # run without the GIL
        ("threads", c_int64),
    )
