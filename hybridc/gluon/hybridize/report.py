"""The report of ``net.explain()``: a text, and the same with all levels side by side as an HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hybridc.compile.known_page import framed, known_page
from hybridc.ground.whole_files import write_whole

if TYPE_CHECKING:
    from hybridc.compile.stages import Traced
    from hybridc.ir.planned import Program


class Report(str):
    """A text that an interactive session shows as it prints; ``html()`` and ``save()`` make a page of it.

    ``signatures`` are what was compiled: a title, and the compilations of that signature; ``programs`` are what each of
    these became.
    """

    __slots__ = ("_page", "_programs", "_signatures")

    def __new__(
        cls,
        text: str,
        signatures: Sequence[tuple[str, Sequence[Traced]]] = (),
        programs: Sequence[Sequence[Sequence[Program]]] = (),
    ) -> Report:
        self = super().__new__(cls, text)
        self._signatures = signatures
        self._programs = programs
        self._page = ""
        return self

    def __repr__(self) -> str:
        return str(self)

    def __reduce__(self) -> tuple[type[Report], tuple[str]]:
        """A copy is the text alone: what was compiled belongs to this process."""
        return Report, (str(self),)

    def html(self) -> str:
        """The page: source line → operators → kernel → generated code, with bytes, FLOPs and a map of the arena."""
        from hybridc.compile.explain_html import page

        if not self._page:
            self._page = page(self, self._signatures, self._programs)
        return self._page

    def save(self, path: str | Path) -> None:
        """Write :meth:`html` to a file, which needs nothing but itself."""
        write_whole(path, self.html().encode())

    def _repr_html_(self) -> str:
        """What is known at once, without running a stage of the compiler."""
        titles = [title for title, _ in self._signatures]
        return framed(known_page(self, list(zip(titles, self._programs, strict=True))))
