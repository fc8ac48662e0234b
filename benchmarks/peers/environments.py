"""The peers, and the virtual environments that they live in.

A peer needs NumPy and its framework; only MXNet needs an old NumPy and an old Python. PyPI's torch for Linux brings
some gigabytes for GPUs: ``PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu`` lets pip find the one without.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(os.environ.get("HYBRIDC_PEERS", "~/.cache/hybridc-peers")).expanduser()


@dataclass(frozen=True)
class Environment:
    """A virtual environment: what pip is told, which Python it needs (empty: the present one)."""

    packages: tuple[str, ...]
    python: str = ""


@dataclass(frozen=True)
class Column:
    """A column of the table: a peer in one of its modes. Without an environment it runs in ours.

    Where a *tree* is given, modules are sought in this folder first: another hybridc.
    """

    title: str
    peer: str  # the module ``<peer>_peer.py``
    mode: str = ""
    environment: str | None = None
    ours: bool = False
    tree: Path | None = None


ENVIRONMENTS = {
    "mxnet": Environment(("mxnet==1.9.1", "numpy==1.23.5", "requests"), "python3.11"),
    "torch": Environment(("torch==2.13.0", "numpy")),
    "jax": Environment(("jax==0.10.2",)),
    "onnx": Environment(("onnxruntime", "onnx")),
    "openvino": Environment(("openvino", "onnx")),
    "mnn": Environment(("MNN", "onnx")),
    "numba": Environment(("numba", "numpy")),
}

COLUMNS = {
    "hybridc": Column("hybridc", "hybridc", "llvm", ours=True),
    "hybridc-numpy": Column("hybridc, target numpy", "hybridc", "numpy", ours=True),
    "mxnet": Column("MXNet hybridized", "mxnet", environment="mxnet"),
    "torch": Column("torch eager", "torch", "eager", environment="torch"),
    "torch-last": Column("torch eager, channels last", "torch", "last", environment="torch"),
    "torch-compile": Column("torch.compile", "torch", "compile", environment="torch"),
    "jax": Column("JAX jit", "jax", environment="jax"),
    "onnx": Column("ONNX Runtime", "onnx", environment="onnx"),
    "openvino": Column("OpenVINO", "openvino", environment="openvino"),
    "mnn": Column("MNN", "mnn", environment="mnn"),
    "numba": Column("Numba", "numba", environment="numba"),
    "numpy": Column("NumPy", "numpy"),
}


def python(folder: Path, column: Column) -> Path:
    """The interpreter that runs a column; it need not exist."""
    if column.environment is None:
        return Path(sys.executable)
    return folder / column.environment / "bin" / "python"


def installed(folder: Path, column: Column) -> bool:
    """Whether a column can be measured."""
    return column.environment is None or (folder / column.environment / "complete").exists()


def setup(folder: Path, names: Sequence[str]) -> bool:
    """Make the environments that do not exist yet; whether all do now."""
    complete = True
    for name in names:
        environment, place = ENVIRONMENTS[name], folder / name
        if (place / "complete").exists():
            continue
        interpreter = shutil.which(environment.python) if environment.python else sys.executable
        if interpreter is None:
            print(f"{name}: needs {environment.python}, which is not installed", file=sys.stderr)
            complete = False
            continue
        print(f"{name}: {' '.join(environment.packages)} into {place}", file=sys.stderr, flush=True)
        pip = [str(place / "bin" / "python"), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        made = [[interpreter, "-m", "venv", "--clear", str(place)], [*pip, *environment.packages]]
        if any(subprocess.run(command, check=False).returncode for command in made):
            complete = False
            continue
        (place / "complete").touch()
    return complete
