"""The ``.mlir`` files of this folder, run by the driver with the passes of the new kernels under their names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from xdsl.utils.target import Target

from hybridc.switch.numpy.emit import emit
from hybridc.switch.plan_memory import PlanMemory
from hybridc.switch.tile_kernels import TileKernels
from hybridc.switch.verify_plan import VerifyPlan
from hybridc.tools import opt
from hybridc.transforms.values import functions
from tests.filecheck import test_filecheck

FILES = sorted((Path(__file__).parent / "filecheck").glob("*.mlir"))


@dataclass(frozen=True)
class NumPy(Target):
    """The Python source of every planned function."""

    name = "numpy"

    threads: int = 2

    def emit(self, ctx, module, output):
        planned = [f.sym_name.data for f in functions(module) if f.sym_visibility is None]
        output.write("\n\n".join(emit(module, name, self.threads, False).source for name in planned))


class SwitchedOpt(opt.HybridcOpt):
    def register_all_passes(self):
        super().register_all_passes()
        for each in (TileKernels, PlanMemory, VerifyPlan):
            self.available_passes[each.name] = lambda each=each: each

    def register_all_targets(self):
        super().register_all_targets()
        self.available_targets["numpy"] = lambda: NumPy


@pytest.mark.parametrize("file", FILES, ids=[f.stem for f in FILES])
def test_file(file, tmp_path, monkeypatch):
    monkeypatch.setattr(test_filecheck, "HybridcOpt", SwitchedOpt)
    for pipe in test_filecheck.commands(file.read_text()):
        assert test_filecheck.run(pipe, file, tmp_path) == ""
