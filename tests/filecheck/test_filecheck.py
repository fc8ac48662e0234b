"""Run the ``// RUN:`` lines of the ``.mlir`` files beside this file, in this process: no lit is needed."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
from filecheck.matcher import Matcher
from filecheck.options import parse_argv_options

from hybridc.compile import pipeline
from hybridc.tools.opt import HybridcOpt

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.rglob("*.mlir"))


def commands(text):
    """The RUN lines, each as a list of programs with their arguments; a line that ends in \\ goes on in the next."""
    joined = re.sub(r"\\\n\s*//\s*RUN:", "", text)
    lines = re.findall(r"^// RUN: (.*)$", joined, re.MULTILINE)
    return [[shlex.split(part) for part in line.split("|")] for line in lines]


def run(pipe, file, folder):
    """Run one RUN line; the message of what failed, or an empty string."""
    given = file
    for number, (program, *arguments) in enumerate(pipe):
        arguments = [str(file) if a == "%s" else a.replace("%S", str(file.parent)) for a in arguments]
        if program == "filecheck":
            options = parse_argv_options(["filecheck", *arguments, "--input-file", str(given)])
            told = io.StringIO()
            with contextlib.redirect_stderr(told), contextlib.redirect_stdout(told):
                code = Matcher.from_opts(options).run()
            return f"{told.getvalue()}\n--- input:\n{given.read_text()}" if code else ""
        assert program == "hybridc-opt", f"a RUN line cannot run {program!r}"
        if str(file) not in arguments:
            arguments.append(str(given))
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            HybridcOpt(description="test", args=arguments).run()
        given = folder / f"{number}.mlir"
        given.write_text(printed.getvalue())
    return ""


@pytest.mark.parametrize("file", FILES, ids=[str(f.relative_to(FOLDER)) for f in FILES])
def test_file(file, tmp_path):
    pipes = commands(file.read_text())
    assert pipes, f"{file} has no RUN line"
    for pipe in pipes:
        assert run(pipe, file, tmp_path) == ""


def test_a_file_that_is_wrong_is_found_wrong(tmp_path):
    file = tmp_path / "wrong.mlir"
    file.write_text(
        "// RUN: hybridc-opt %s -p canonicalize-graph | filecheck %s\n// CHECK: hybrid.cos\n"
        "func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
        "  %y = hybrid.sin %x : (tensor<2xf32>) -> tensor<2xf32>\n  func.return %y : tensor<2xf32>\n}\n"
    )
    assert "hybrid.cos" in run(commands(file.read_text())[0], file, tmp_path)


@pytest.mark.parametrize("each", pipeline.alone(), ids=lambda each: each.name)
def test_every_pass_has_a_file(each):
    """It lies where the pass lies, has its name, and runs it."""
    *folders, name = each.__module__.split(".")[1:]
    file = FOLDER.joinpath(*folders, f"{name}.mlir")
    programs = [program for pipe in commands(file.read_text()) for program in pipe]
    assert any(each.name in argument for program in programs for argument in program)
