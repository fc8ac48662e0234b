"""What a target makes of a planned function, as far as all targets have it."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass
class Program(ABC):
    """A planned function made for a target; ``source`` is its text, for people, and ``suffix`` that of its file.

    ``arena`` bytes lie in its workspace, of which at least ``live`` are needed at one time. ``launches`` are the
    kernels that a call runs, in order; ``functions`` says which function of the source is a kernel's.
    """

    suffix: ClassVar[str]

    name: str
    source: str
    arena: int
    live: int = 0
    functions: dict[str, str] = field(default_factory=lambda: dict[str, str]())
    launches: list[str] = field(default_factory=lambda: list[str]())
    host_calls: list[str] = field(default_factory=lambda: list[str]())
    host_launches: list[int] = field(default_factory=lambda: list[int]())  # which of the launches those are

    def is_like(self, other: Program) -> bool:
        """Whether another program does the same in the same memory: it may call its kernels by other names."""
        return type(other) is type(self) and other.facts() == self.facts()

    def facts(self) -> list[Any]:
        """The parts that are equal in programs that compute the same; names of kernels and comments are left out.

        A comment has the source locations of the network that was compiled first, where kernels are shared.
        """
        return [self.nameless(re.sub("  # .*", "", self.source))]

    def nameless(self, text: str) -> str:
        """A text with the kernels called by their numbers."""
        number = {
            name: f"kernel {i}" for i, name in enumerate(dict.fromkeys([*self.launches, *self.functions.values()]))
        }
        if not number:
            return text
        return re.sub(rf"\b({'|'.join(map(re.escape, number))})\b", lambda found: number[found[0]], text)

    @abstractmethod
    def launched(self) -> list[tuple[str, str]]:
        """For each launch the lines that run it, and the text of what they run ("" if that is not the program's)."""
