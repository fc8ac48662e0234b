"""What a kernel meets on its way to code: ``python -m tests.kernel_path`` counts files and names for each target.

The network is a softmax of rows. Counted are the functions and classes of analyses, kernel passes and targets that run
from the optimized graph to the texts of all kernels.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import hybridc as mx
from hybridc.gluon import nn

PACKAGE = f"{Path(mx.__file__).parent}/"
FOLDERS = ("ir/", "lower/", "transforms/code/", "transforms/kernels/", "transforms/schedules/")
TARGETS = ("llvm", "numpy", "triton")


def met(target: str, rows: int) -> set[tuple[str, str]]:
    """The file and the name of all that runs while a softmax of so many rows is lowered for a target."""
    net = nn.HybridLambda("softmax")
    net.initialize()
    optimized = net.trace(mx.nd.ones((rows, 64))).optimize()
    found: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        path, name = frame.f_code.co_filename, frame.f_code.co_qualname
        if event == "call" and path.startswith(PACKAGE) and "<" not in name:
            found.add((path.removeprefix(PACKAGE), name))

    sys.setprofile(note)
    try:
        optimized.lower(target)
    finally:
        sys.setprofile(None)
    return {(path, name) for path, name in found if path.startswith(FOLDERS)}


def main() -> None:
    """Print the table."""
    for target in TARGETS:
        met(target, 100)  # what is imported and cached once
        found = met(target, 101)
        print(f"{target:8}{len({path for path, _ in found}):4} files{len(found):6} names")


if __name__ == "__main__":
    main()
