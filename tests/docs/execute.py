"""Run the Python blocks of a Markdown file; compare what they print with the ``text`` block that follows.

``python tests/docs/execute.py README.md`` reports differences; ``--update`` writes what was printed into the
the file. Blocks share one namespace. A block marked ``python no-run`` is not run. In expected output ``...``
stands for anything; an update keeps such lines at the start and the end.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import sys
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```$(?:\n\n```text\n(?P<expected>.*?)^```$)?", re.MULTILINE | re.DOTALL)
ROOT = Path(__file__).resolve().parents[2]
# Pages show the same plans whatever machine they are run on.
os.environ.setdefault("HYBRIDC_MACHINE", "nominal")


def run(path: Path) -> list[tuple[int, re.Match[str], str]]:
    """Every block's first line, its match, and what it printed."""
    source = path.read_text()
    namespace: dict[str, Any] = {"__name__": "__main__"}
    done: list[tuple[int, re.Match[str], str]] = []
    for block in BLOCK.finditer(source):
        line = source.count("\n", 0, block.start("code"))
        code = compile("\n" * line + block["code"], str(path.relative_to(ROOT)), "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        done.append((line + 1, block, printed.getvalue()))
    return done


def agrees(expected: str, printed: str) -> bool:
    """Whether the output is what the file shows, but for spaces at line ends and what ``...`` stands for."""
    expected, printed = ("\n".join(s.rstrip() for s in t.strip("\n").split("\n")) + "\n" for t in (expected, printed))
    return doctest.OutputChecker().check_output(expected, printed, doctest.ELLIPSIS)


def updated(expected: str, printed: str) -> str:
    """What the file is to show: the output, but only the part that it showed before where lines were left out."""
    shown, lines = expected.strip("\n").split("\n"), printed.strip("\n").split("\n")
    first, last = shown[0] == "...", shown[-1] == "..."
    if first:  # the part begins at the line that begins like the old one's first
        head = re.split(r"\W", shown[1])[:2]
        start = next((i for i, line in enumerate(lines) if re.split(r"\W", line)[:2] == head), 0)
        lines = ["...", *lines[start:]]
    if last:  # and ends before the first empty line
        end = lines.index("") if "" in lines else len(lines)
        lines = [*lines[:end], "..."]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def main(arguments: list[str]) -> int:
    update = "--update" in arguments
    failed = False
    for name in [a for a in arguments if a != "--update"]:
        path = (ROOT / name).resolve()
        source = path.read_text()
        for line, block, printed in reversed(run(path)):
            expected = block["expected"]
            if expected is None or agrees(expected, printed):
                continue
            if update:
                start, end = block.span("expected")
                source = source[:start] + updated(expected, printed) + source[end:]
                continue
            failed = True
            print(f"{name}:{line}: printed\n{printed}\n--- but the file shows\n{expected}")
        if update:
            path.write_text(source)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
