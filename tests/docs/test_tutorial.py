"""An elementwise operator takes one class of at most 25 lines: the first on the page is counted, and is complete."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.docs.execute import BLOCK, ROOT

SOURCE = BLOCK.search((ROOT / "docs" / "operators.md").read_text())["code"]


def test_the_class_has_at_most_25_lines():
    (found,) = [node for node in ast.parse(SOURCE).body if isinstance(node, ast.ClassDef)]
    assert found.end_lineno - found.decorator_list[0].lineno + 1 <= 25
    assert {f.name for f in found.body if isinstance(f, ast.FunctionDef)} == {"scalar", "gradient", "samples"}


def test_the_program_has_at_most_30_lines():
    assert len(SOURCE.rstrip().splitlines()) <= 30


def test_the_class_is_all_there_is_to_edit(tmp_path: Path):
    """In a file of its own, it passes every check."""
    from hybridc.tools.check_op.__main__ import main

    (tmp_path / "tutorial_ops.py").write_text(SOURCE)
    assert main(["mylib.mish", "--module", str(tmp_path / "tutorial_ops.py")]) == 0
