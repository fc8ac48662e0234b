"""The types of what has no source: the stubs are those of the operators that there are."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
import tomllib

from hybridc import stubs
from hybridc.dialects.scalar import NumPyScalar
from hybridc.operator.scalar_steps import Steps


def test_the_stubs_are_current():
    """In a process of its own: tests register operators."""
    command = [sys.executable, "-m", "hybridc.stubs", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=stubs.PACKAGE.parent, check=False)
    assert done.returncode == 0, f"{done.stderr}run python -m hybridc.stubs"


def test_a_stub_that_is_out_of_date_is_found(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(stubs, "PACKAGE", tmp_path / "hybridc")
    monkeypatch.setattr(stubs, "stubs", lambda: {tmp_path / "hybridc/nd/op.pyi": "x: int\n"})
    (tmp_path / "hybridc" / "nd").mkdir(parents=True)
    (tmp_path / "hybridc" / "old.pyi").write_text("")
    assert stubs.main(["--check"]) == 1
    assert capsys.readouterr().err.splitlines() == ["out of date: hybridc/nd/op.pyi", "out of date: hybridc/old.pyi"]
    assert stubs.main([]) == 0
    assert stubs.main(["--check"]) == 0


def test_stubs_have_the_parameters_of_operators():
    tree = ast.parse((stubs.PACKAGE / "array" / "operator_functions.pyi").read_text())
    found = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    others = [ast.unparse(node).split(" = ") for node in tree.body if isinstance(node, ast.Assign)]
    found |= {name: found[first] for name, first in others if first in found}
    softmax = found["softmax"].args
    assert [a.arg for a in softmax.args][:3] == ["data", "length", "axis"]
    assert "name" in [a.arg for a in softmax.args]
    assert found["FullyConnected"].returns is not None
    assert ast.unparse(found["FullyConnected"].returns) == "_A"
    assert ast.unparse(found["split"].returns) == "list[_A]"


def test_every_step_of_scalar_bodies_is_typed():
    """For type checkers in the stub, and for help where it runs."""
    tree = ast.parse((stubs.PACKAGE / "operator" / "scalar_steps.pyi").read_text())
    (steps,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    typed = {node.name: node for node in steps.body if isinstance(node, ast.FunctionDef)}
    assert {*typed} == {name for name in dir(NumPyScalar) if not name.startswith("_")}
    for name, node in typed.items():
        method = getattr(Steps, name)
        assert [a.arg for a in node.args.posonlyargs] == [*inspect.signature(method).parameters]
        assert ast.get_docstring(node) == method.__doc__
    assert ast.unparse(typed["atan2"].args) == "self, y: Operand, x: Operand, /"
    assert ast.unparse(typed["cast"].args) == "self, x: Value, dtype: npt.DTypeLike, /"


def test_checkers_are_told_of_types():
    """Without this file, in the wheel too, they take every value of the package for Any."""
    assert (stubs.PACKAGE / "py.typed").is_file()
    with (stubs.PACKAGE.parent / "pyproject.toml").open("rb") as file:
        packed = tomllib.load(file)["tool"]["setuptools"]["package-data"]
    assert "py.typed" in packed["hybridc"]
