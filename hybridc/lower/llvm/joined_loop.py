"""A loop of cheap steps as one native function: the code of its kernels is inlined, slots are registers.

To call a kernel takes longer than what a step with a few numbers does. Results are the same to the bit: what one kernel
writes the next one reads from memory, and sums, whose order LLVM may choose, are added up by code of their own.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any

from hybridc.ground.records import dataclass
from hybridc.ground.serialize import NOT_SERIALISED
from hybridc.ir.planned import InnerSteps, NativeRegion, Position, SlotCopy, StepLoop
from hybridc.lower.llvm.codegen import native_function as codegen
from hybridc.lower.llvm.codegen.ir_text import TextModule, TextValue, Variable
from hybridc.lower.llvm.codegen.native_function import NativeFunction

# Of so many regions at most, in all nanoseconds of a step: to call them takes longer than they do.
REGIONS, WORK = 8, 400.0
# The fewest steps for which a function of their own pays.
STEPS = 64


def joins(loop: StepLoop, work: float) -> bool:
    """Whether a loop becomes one function: its steps take ``work`` nanoseconds in all, less than calls of kernels."""
    regions = [region for program in loop.programs for region in program.regions]
    plain = all(r.loop is None and r.grid is None and r.extent <= max(r.grain, r.least - 1) for r in regions)
    cheap = len(regions) <= REGIONS and work <= WORK * loop.count
    prepared = any(program.preparation for program in loop.programs)
    return loop.count >= STEPS and loop.choice is None and plain and cheap and not prepared


@dataclass(frozen=True)
class JoinedFunction(NativeFunction):
    """The native function of a loop; its only number is that of the steps."""

    make: Callable[[], str] = field(default=str, compare=False, metadata=NOT_SERIALISED)

    def compiler(self) -> Callable[[], codegen.ObjectCode]:
        ir = self.make()
        return lambda: codegen.object_of(ir)

    def explain(self, stage: str) -> str:
        """Its text at a stage; it has no tiles of its own."""
        return codegen.explained(self.make(), stage) if stage != "tiles" else "// all steps of a loop"


def joined_function(loop: StepLoop, buffers: int, functions: Sequence[NativeFunction]) -> JoinedFunction:
    """The native function of a loop over so many buffers, whose regions call these functions, in order."""
    parts = ["joined loop", _as_key(loop), buffers, [f.key for f in functions]]
    key = hashlib.sha256(repr(parts).encode()).hexdigest()
    named = JoinedFunction(key)
    return JoinedFunction(key, make=lambda: _JoinedLoopWriter(loop, buffers, functions).text(named.symbol))


def packed_numbers(loop: StepLoop) -> bytes:
    """The scalar arguments of the function of a loop."""
    return struct.pack("<q", loop.count)


def _as_key(loop: StepLoop) -> Any:
    """All of a loop but for the number of its steps."""
    fields = {name: value for name, value in vars(loop).items() if name not in ("step", "condition", "count")}
    programs = [(p.slots, [(r.buffers, r.numbers, r.extent, r.scratch) for r in p.regions]) for p in loop.programs]
    return fields, programs


class _JoinedLoopWriter:
    """Writes the LLVM IR of a joined loop."""

    def __init__(self, loop: StepLoop, buffers: int, functions: Sequence[NativeFunction]) -> None:
        self.loop, self.functions = loop, functions
        self.module = TextModule("")
        self.count = buffers

    def text(self, symbol: str) -> str:
        """The module, which exports the function under this name."""
        f = self.module.function(symbol, "void", ("ptr", "ptr", "i64", "i64", "ptr"), exported=True)
        self.f = f
        self._write()
        return inlined(codegen.llvm_text(list(dict.fromkeys(self.functions)))) + str(self.module)

    def _write(self) -> None:
        f, loop = self.f, self.loop
        buffers, numbers = f.arguments[:2]
        known = [f.load("ptr", f.at(buffers, 8 * i)) for i in range(self.count)]
        known += [self.module.bytes(f, constant) for constant in loop.constants]
        self.slots = [f.variable("ptr", self._at(known, place)) for place in loop.step.slots]
        others = loop.condition
        self.others = [] if others is None else [f.variable("ptr", self._at(known, place)) for place in others.slots]
        functions = iter(self.functions)
        codes = [self._codes(program, functions) for program in loop.programs]
        rows = f.load("i64", numbers)
        count = rows if loop.counted is None else f.load("i64", self.slots[loop.counted].get())
        self._copy(loop.begin)
        last = count - 1
        if loop.backwards:
            for slot, size in loop.advances:
                self._move(slot, last * -size)
        key_step = self._key(last) if loop.key is not None else None
        ran = f.variable("i64", 0)
        with f.loop() as iteration:
            iteration.leave_if(ran.get() >= count)
            if others is not None and loop.answer is not None:
                for slot, of_step in loop.links:
                    self.others[slot].set(self.slots[of_step].get())
                self._run(others, self.others, codes[1])
                answer = f.at(self.others[loop.answer.slot].get(), loop.answer.offset)
                iteration.leave_if(f.is_zero(answer))
            self._copy(loop.before)
            self._run(loop.step, self.slots, codes[0])
            for one, other in loop.swaps:
                kept = self.slots[one].get()
                self.slots[one].set(self.slots[other].get())
                self.slots[other].set(kept)
            for slot, size in loop.advances:
                self._move(slot, size)
            if loop.key is not None and key_step is not None:
                counter = f.at(self.slots[loop.key.slot].get(), 8)
                f.store("i64", f.load("i64", counter) + key_step, counter)
            ran.set(ran.get() + 1)
        self._copy(loop.end)
        for slot, size in loop.zeros:
            target = f.at(self.slots[slot].get(), ran.get() * size)
            with f.count((rows - ran.get()) * size) as byte:
                f.store("i8", 0, f.at(target, byte))
        if loop.ran is not None:
            f.store("i64", ran.get(), self.slots[loop.ran].get())
        f.ret()

    def _key(self, last: TextValue) -> int:
        """Write the random key of the first step; by how much its counter grows."""
        f, key = self.f, self.loop.key
        assert key is not None, "a loop without random numbers"
        source, target = self.slots[key.source].get(), self.slots[key.slot].get()
        begin = f.load("i64", f.at(source, 8)) + key.draw
        if self.loop.backwards:
            begin = begin + last * key.step
        f.store("i64", f.load("i64", source), target)
        f.store("i64", begin, f.at(target, 8))
        return -key.step if self.loop.backwards else key.step

    def _at(self, known: Sequence[TextValue], place: Position) -> TextValue:
        return self.f.at(known[place.slot], place.offset)

    def _codes(self, program: InnerSteps, functions: Iterator[NativeFunction]) -> list[tuple[str, TextValue]]:
        """The symbol and the numbers of each region."""
        return [(next(functions).symbol, self.module.bytes(self.f, r.numbers)) for r in program.regions]

    def _run(self, program: InnerSteps, slots: Sequence[Variable], codes: Sequence[tuple[str, TextValue]]) -> None:
        """The regions of a program."""
        f = self.f
        for region, (symbol, numbers) in zip(program.regions, codes, strict=True):
            pointers = f.cell(f"[{max(len(region.buffers), 1)} x ptr], align 16")
            for i, place in enumerate(region.buffers):
                f.store("ptr", f.at(slots[place.slot].get(), place.offset), f.at(pointers, 8 * i))
            scratch = self._scratch(region, slots)
            bounds = f.operand("i64", 0), f.operand("i64", region.extent)
            f.call("void", TextValue(f, "ptr", f"@{symbol}"), pointers, numbers, *bounds, scratch)
            f.forget_memory()

    def _scratch(self, region: NativeRegion, slots: Sequence[Variable]) -> TextValue:
        place = region.scratch or Position(0)
        return self.f.at(slots[place.slot].get(), place.offset)

    def _copy(self, copies: Sequence[SlotCopy]) -> None:
        f = self.f
        for copy in copies:
            source, target = f.at(self.slots[copy.source].get(), copy.offset), self.slots[copy.target].get()
            with f.count(f.operand("i64", copy.size)) as byte:
                f.store("i8", f.load("i8", f.at(source, byte)), f.at(target, byte))
            f.forget_memory()

    def _move(self, slot: int, size: TextValue | int) -> None:
        self.slots[slot].set(self.f.at(self.slots[slot].get(), size))


def inlined(ir: str) -> str:
    """The IR with all functions inlined but those that add up in an order that LLVM chooses, and their callers."""
    first, *functions = re.split(r"(?m)^(?=define )", ir)
    matches = [(re.search(r"@([\w.]+)\(", text), text) for text in functions]
    bodies = {name.group(1): text for name, text in matches if name is not None}
    sums = {name for name, text in bodies.items() if " reassoc " in text}
    texts = [first]
    for name, text in bodies.items():
        if name in sums or any(f"@{called}(" in text for called in sums):
            texts.append(text)
        else:
            texts.append(
                re.sub(r"\bnoinline\b", "alwaysinline", text).replace(
                    "define void @region_", "define internal void @region_"
                )
            )
    return "".join(texts)
