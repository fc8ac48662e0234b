"""The documentation is true: its programs run and print what it shows; what is generated is up to date."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hybridc.lower.llvm.codegen import processor
from tests.slices import but

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
GENERATOR = ROOT / "docs" / "generate.py"
# One compiles libraries, others networks of a kind that tests have, too.
LONG = tuple(f"docs/{page}.md" for page in ("extensions", "training", "operators", "symbol", "custom_operators"))


def names(pages: list[Path]) -> list[str]:
    return [str(page.relative_to(ROOT)) for page in pages]


@pytest.mark.parametrize("page", but(LONG, names([p for p in PAGES if "```python\n" in p.read_text()])))
def test_page_runs_and_prints_what_it_shows(page: str, tmp_path: Path) -> None:
    # A process of its own: names of blocks count up, and operators that a page defines would stay registered.
    environment = {k: v for k, v in os.environ.items() if k == "HYBRIDC_CPU" or not k.startswith("HYBRIDC_")}
    if named := re.search(r"<!-- processor: (\S+) -->", (ROOT / page).read_text()):
        environment["HYBRIDC_CPU"] = named[1]
        if platform.machine() != "x86_64" or processor.lacking(named[1]):
            pytest.skip(f"the page shows what is chosen for {named[1]}, which this processor cannot run")
    # Nor are there graphs of earlier processes, which pages would tell of.
    environment |= {"PYTHONPATH": str(ROOT), "HYBRIDC_NUM_THREADS": "2", "HYBRIDC_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, str(ROOT / "tests" / "docs" / "execute.py"), page]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_generated_parts_are_up_to_date() -> None:
    command = [sys.executable, str(GENERATOR), "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", names([*PAGES, ROOT / "CONTRIBUTING.md"]))
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text()
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    local = [t for t in targets if not t.startswith(("http://", "https://"))]
    missing = [t for t in local if not ((ROOT / page).parent / t).exists()]
    assert not missing


@pytest.mark.parametrize("page", names(PAGES))
def test_files_that_are_named_exist(page: str) -> None:
    """Paths in backquotes that begin with a folder of the repository."""
    folders = "hybridc|tests|benchmarks|examples|docs"
    named = re.findall(rf"`((?:{folders})/[\w./-]*)`", (ROOT / page).read_text())
    missing = [n for n in named if not (ROOT / n).exists()]
    assert not missing
