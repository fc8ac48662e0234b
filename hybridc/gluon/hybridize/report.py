"""The report of ``net.explain()``: a text, and the same with all levels side by side as an HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from hybridc.errors import MissingPackageError
from hybridc.ground.whole_files import write_whole

_NEEDED = ("jinja2", "pygments")

if TYPE_CHECKING:
    from hybridc.compile.compiled_graph import SignatureReport
    from hybridc.compile.explanation.launch_groups import Naming


class Page(str):
    """An HTML document; a notebook shows it in a frame of its own."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        style = "width: 100%; height: 40em; border: 1px solid #8886"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{escape(self)}"></iframe>'


class Report(str):
    """A text that an interactive session, or a notebook, shows as it prints; ``html()`` and ``save()`` make a page.

    ``signatures`` are what was compiled, ``naming`` says what it is called: both are for the page.
    """

    __slots__ = ("_naming", "_pages", "_signatures")

    _pages: dict[bool | None, Page]

    def __new__(cls, text: str, signatures: Sequence[SignatureReport] = (), naming: Naming | None = None) -> Report:
        self = super().__new__(cls, text)
        self._signatures = signatures
        self._naming = naming
        self._pages = {}
        return self

    def __repr__(self) -> str:
        return str(self)

    def __reduce__(self) -> tuple[type[Report], tuple[str]]:
        """A copy is the text alone: what was compiled belongs to this process."""
        return Report, (str(self),)

    def html(self, assembly: bool | None = None) -> Page:
        """The page: kernels in groups, memory over time, source line → operators → kernel → code.

        It is made when it is first asked for, by running the compiler's stages again, of signatures that differ in
        sizes alone once. A notebook shows it if it is what a cell gives.

        Parameters
        ----------
        assembly : bool, optional
            Whether the code of a kernel ends with its assembly, for which LLVM runs again. Not given, pages of at most
            32 different kernels have it: of large networks, it takes half of the time.

        Raises
        ------
        MissingPackageError
            Jinja or Pygments is not installed: ``pip install hybridc[viz]``.
        """
        if assembly not in self._pages:
            try:
                from hybridc.compile.explanation.explain_page import page
            except ModuleNotFoundError as error:
                package = (error.name or "").partition(".")[0]
                if package not in _NEEDED:
                    raise
                raise MissingPackageError(
                    f"the page of explain() is made by Jinja and highlighted by Pygments, of which {package} is not "
                    "installed: pip install 'hybridc[viz]'; the text needs neither"
                ) from error
            self._pages[assembly] = Page(page(self, self._signatures, self._naming, assembly))
        return self._pages[assembly]

    def save(self, path: str | Path, assembly: bool | None = None) -> None:
        """Write :meth:`html` to a file, which needs nothing but itself; ``assembly`` is as there."""
        write_whole(path, self.html(assembly).encode())
