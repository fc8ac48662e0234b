"""The reading order: twenty files that are short enough, which have what the page points at; and README's sizes."""

from __future__ import annotations

import re
from pathlib import Path

from tests import house

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reading.md"
# What the page promises.
FILES, LINES = 20, 8000
# README rounds: figures may be off by a tenth before they are to be written anew.
ROUNDED = 0.1


def entries() -> list[tuple[Path, str]]:
    """The files of the page in order, and what it says of each."""
    parts = re.split(r"^\d+\. ", PAGE.read_text().partition("\n## And then")[0], flags=re.MULTILINE)[1:]
    return [((PAGE.parent / re.search(r"\]\((\S+)\)", part)[1]).resolve(), part) for part in parts]


def lines(path: Path) -> int:
    return path.read_text().count("\n")


def test_twenty_files_have_fewer_lines_than_the_page_says():
    files = [path for path, _ in entries()]
    total = sum(map(lines, files))
    assert len({*files}) == len(files) == FILES
    assert total < LINES, f"the files of {PAGE.name} have {total} lines: choose others, or make one of them shorter"
    assert f"fewer than {LINES:,} lines" in re.sub(r"\s+", " ", PAGE.read_text())


def test_each_file_has_what_to_look_at():
    for path, text in entries():
        names = re.findall(r"`(\w+)`", text)
        assert names, f"{path.name}: nothing to look at"
        missing = [name for name in names if not re.search(rf"\b{name}\b", path.read_text())]
        assert not missing, f"{path.name} has no {missing}"


def test_readme_says_how_large_the_parts_are():
    sizes = dict.fromkeys(("compiler", "operators", "rest"), 0)
    for module, path in house.modules().items():
        compiler = module.startswith(tuple(f"hybridc.{folder}" for folder in house.COMPILER))
        sizes["compiler" if compiler else "operators" if ".dialects." in module else "rest"] += lines(path)
    text = re.sub(r"\s+", " ", (ROOT / "README.md").read_text())
    said = re.search(r"all of the compiler has ([\d,]+) lines, the operators ([\d,]+).*? the rest ([\d,]+)", text)
    for (part, size), figure in zip(sizes.items(), said.groups(), strict=True):
        assert abs(int(figure.replace(",", "")) - size) < ROUNDED * size, f"README.md: {part} has {size} lines"
    assert f"fewer than {LINES:,}" in text
