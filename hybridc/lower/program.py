"""What a target makes of a planned function, as far as all targets have it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar


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

    @abstractmethod
    def launched(self) -> list[tuple[str, str]]:
        """For each launch the lines that run it, and the text of what they run ("" if that is not the program's)."""
