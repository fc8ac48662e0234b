"""The types of what has no source: the stubs are those of the operators that there are."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import tomllib

import pytest

import hybridc as mx
from hybridc import np, stubs
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


# One call of functions whose results are of several kinds, and of some that are plain.
NUMPY_CALLS = (
    "np.exp(x)",
    "np.count_nonzero(x)",
    "np.average(x)",
    "np.nonzero(x)",
    "np.frexp(x)",
    "np.modf(x)",
    "np.divmod(x, x)",
    "np.split(x, 2)",
    "np.meshgrid(x[0], x[1])",
    "np.histogram(x, bins=3, range=(0, 1))",
    "np.polydiv(x[0], x[1])",
    "np.broadcast_arrays(x, x)",
    "np.tril_indices(2)",
    "np.unravel_index(np.array([1], dtype='int64'), (2, 2))",
    "np.ix_(np.array([0, 1], dtype='int64'), np.array([0], dtype='int64'))",
    "np.array_equal(x, x)",
    "np.ndim(x)",
    "np.fill_diagonal(x.copy(), 0)",
    "np.unique(x)",
    "np.linspace(0, 1, 3)",
    "np.linalg.eig(x)",
    "np.linalg.eigh(x)",
    "np.linalg.eigvals(x)",
    "np.linalg.slogdet(x)",
    "np.linalg.svd(x)",
    "np.linalg.norm(x)",
    "np.linalg.matrix_rank(x)",
    "np.linalg.cond(x)",
    "np.linalg.multi_dot([x, x])",
    "np.random.permutation(3)",
    "np.random.randint(0, 3)",
    "np.random.rand()",
    "np.random.choice(3)",
    "np.random.seed(1)",
)


@pytest.mark.parametrize("code", NUMPY_CALLS)
def test_results_of_numpy_functions(code):
    """What the stub says is what a call gives."""
    module, name = re.match(r"np\.(linalg\.|random\.)?(\w+)", code).groups()
    tree = ast.parse((stubs.PACKAGE / "np" / f"{(module or '__init__.').rstrip('.')}.pyi").read_text())
    (wanted,) = [ast.unparse(n.returns) for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name]
    types = {"ndarray": np.ndarray, "_bool": bool, "int": int, "None": type(None), "list": list, "tuple": tuple}
    result = eval(code, {"np": np, "x": np.array([[2.0, 1.0], [1.0, 3.0]])})
    outer, _, inner = wanted.rstrip("]").partition("[")
    assert isinstance(result, types[outer])
    parts = inner.split(", ") if inner else []
    if parts and parts[-1] != "..." and outer == "tuple":
        assert len(result) == len(parts)
    assert all(isinstance(each, types[parts[0]]) for each in result) if parts else True


def test_results_of_operators():
    """One array, a list of them, or nothing that is known: as the functions give them."""
    x = mx.nd.ones((1, 2, 6))
    vector = mx.nd.ones(2)
    calls = {
        "BatchNorm": (x, vector, vector, vector, vector),
        "LayerNorm": (x, mx.nd.ones(6), mx.nd.ones(6)),
        "Dropout": (x,),
        "SliceChannel": (x, 2),
        "topk": (x,),
        "moments": (x, 1),
        "linalg_slogdet": (mx.nd.ones((2, 2)) + mx.nd.eye(2),),
        "sgd_update": (x, x, 0.1),
        "random_uniform": (0, 1, (2,)),
        "relu": (x,),
    }
    files = (stubs.PACKAGE / "array" / f"{name}.pyi" for name in ("operator_functions", "drawn_arrays"))
    typed = {n.name: n for file in files for n in ast.parse(file.read_text()).body if isinstance(n, ast.FunctionDef)}
    kinds = {"_A": mx.nd.NDArray, "NDArray": mx.nd.NDArray, "list[_A]": list}
    for name, args in calls.items():
        said = ast.unparse(typed[stubs._names()[stubs.FUNCTIONS[name]]].returns)
        assert isinstance(getattr(mx.nd, name)(*args), kinds[said]), (name, said)
