"""``net.explain()`` as a notebook shows it: what compiled programs say of themselves, without running a stage again.

Nothing here needs the compiler.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence
from html import escape

from hybridc.ir.planned import LaunchNote, PlainArray, Program

_STYLE = """
:root { color-scheme: light dark; }
body { font: 14px/1.45 system-ui, sans-serif; margin: 1.5em; }
table { border-collapse: collapse; width: 100%; }
th, td { border: 1px solid #8886; padding: .3em .5em; text-align: left; vertical-align: top; }
pre, code { font: 12px/1.4 ui-monospace, monospace; }
pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; }
small { opacity: .75; display: block; }
svg text { font: 10px ui-monospace, monospace; fill: currentColor; }
svg rect { stroke: #8888; fill-opacity: .55; }
.value { fill: #4a8fe0; } .scratch { fill: #d9a441; } .saved { fill: #58a866; }
.host { border-left: .4em solid #d66; }
.lit { background: #ffd54f55; } svg .lit { fill-opacity: 1; stroke: currentColor; }
"""

_SCRIPT = """
addEventListener("mouseover", event => {
  for (const old of document.querySelectorAll(".lit")) old.classList.remove("lit");
  const at = event.target.closest("[data-k]");
  if (!at) return;
  for (const word of at.dataset.k.split(" ").filter(Boolean))
    for (const other of document.querySelectorAll(`[data-k~="${word}"]`)) other.classList.add("lit");
});
"""

_LOCATION = re.compile(r"(.*):(\d+)(?: \(in .*\))?")  # as a note has it


def known_page(text: str, signatures: Sequence[tuple[str, Sequence[Sequence[Program]]]]) -> str:
    """The HTML page of a report: its text, and the programs of each signature."""
    body = text_lines(text)
    for position, (signature, compilations) in enumerate(signatures):
        body.append(f'<section><h2 id="s{position}">{escape(signature)}</h2>')
        for index, programs in enumerate(compilations):
            body += known_compilation(programs, f"s{position}g{index}")
        body.append("</section>")
    if signatures:
        body.append(
            "<p>The page of <code>explain().html()</code>, or <code>save(path)</code>, adds the generated code of each "
            "kernel, its arithmetic operations, and maps of the arenas.</p>"
        )
    return document(text, body)


def framed(text: str) -> str:
    """A page embedded in another one, such as a notebook, with its own styles and ids."""
    style = "width: 100%; height: 40em; border: 1px solid #8886"
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{escape(text)}"></iframe>'


def text_lines(text: str) -> list[str]:
    """The text of a report under its title."""
    return [f"<h1>{escape(text.partition(chr(10))[0])}</h1>", f"<pre>{escape(text)}</pre>"]


def document(text: str, body: Sequence[str]) -> str:
    """The HTML document of a report."""
    title, lines = escape(text.partition("\n")[0]), "\n".join(body)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n{lines}\n<script>{_SCRIPT}</script>\n</body>\n</html>\n"
    )


def known_compilation(programs: Sequence[Program], prefix: str, full: str = "", signature: str = "") -> list[str]:
    """The HTML of one compilation; ``full`` is the anchor of another one that lists the same kernels in full."""
    body = [f'<article id="{prefix}"><h3>Compiled for {" and ".join(escape(p.name) for p in programs)}</h3>']
    if full:
        body.append(f'<p>The kernels of <a href="#{full}">{escape(signature)}</a>, at other sizes.</p>')
    for program in programs:
        body += _program(program, f"{prefix}-{program.name}")
    return [*body, "</article>"]


def source_line(file: str, line: int, location: str) -> str:
    """A user's source line and its location."""
    code = linecache.getline(file, line).strip()
    shown_code = f"<pre>{escape(code)}</pre>" if code else ""
    return f"{shown_code}<small>{escape(location)}</small>"


def size_text(count: int) -> str:
    """A byte count with a unit."""
    return f"{count} bytes" if count < 1 << 14 else f"{count / 1024:,.1f} KiB ({count} bytes)"


def _program(program: Program, prefix: str) -> list[str]:
    """One program: a row for each launch, and all of its source."""
    calls = len(program.host_calls)
    summary = f"<summary>all of the generated {escape(program.name)}</summary>"
    return [
        f"<h4>{escape(program.name)}</h4>",
        f"<p>{len(program.launches)} kernels, {calls} of them host calls; arena {size_text(program.arena)}, of which "
        f"{size_text(program.live)} are needed at one time</p>",
        "<table><tr><th>#</th><th>source</th><th>kernel</th><th>arrays</th></tr>",
        *[_row(index, note, f"{prefix}-{index}") for index, note in enumerate(program.notes)],
        "</table>",
        f"<details>{summary}<pre>{escape(program.source)}</pre></details>",
    ]


def _row(index: int, note: LaunchNote, word: str) -> str:
    source = "".join(_line(where) for where in note.lines)
    read, written = sum(a.nbytes for a in note.reads), sum(a.nbytes for a in note.writes)
    arrays = f"{', '.join(map(_type, note.reads))} → {', '.join(map(_type, note.writes))}"
    return (
        f'<tr id="{word}" data-k="{word}" data-read="{read}" data-written="{written}"><td>{index}</td>'
        f"<td>{source}</td><td><code>{escape(note.name)}</code><small>{escape(', '.join(note.operators))}</small></td>"
        f"<td>{escape(arrays)}<small>reads {size_text(read)}, writes {size_text(written)}</small></td></tr>"
    )


def _line(where: str) -> str:
    match = _LOCATION.fullmatch(where)
    return f"<small>{escape(where)}</small>" if match is None else source_line(match[1], int(match[2]), where)


def _type(array: PlainArray) -> str:
    return f"{array.dtype.name}{list(array.shape)}"
