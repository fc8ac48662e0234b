"""Makes module.npz and module.json: what MXNet 1.9.1 gives for module_cases.py.

Run it with the Python of an environment that has mxnet==1.9.1 and numpy==1.23.5.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np

if not hasattr(np, "bool"):
    np.bool = bool

import mxnet as mx  # noqa: TID251
from module_cases import CASES
from programs import record


def run_in_folder(run):
    """The program in a folder of its own."""

    def program(mx):
        with tempfile.TemporaryDirectory() as folder:
            return run(mx, Path(folder))

    return program


record("module", {name: run_in_folder(run) for name, run in CASES.items()}, mx)
os._exit(0)  # without deleting iterators that read ahead
