"""Makes `networks.zip`: networks that MXNet 1.9.1 exports, their parameters as it saves them, and what they give.

Run it with the Python of an environment that has mxnet==1.9.1 and numpy==1.23.5.
"""

from __future__ import annotations

import io
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path

import numpy as np

warnings.simplefilter("ignore")
if not hasattr(np, "bool"):
    np.bool = bool

here = Path(__file__).resolve().parent
sys.path.insert(0, str(here))

import mxnet as mx  # noqa: E402, TID251
from network_cases import networks, outputs  # noqa: E402


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for name, net, inputs in networks(mx):
            results = outputs(mx, net, inputs)
            net.export(str(folder / name))
            net.save_parameters(str(folder / f"{name}.params"))
            with (folder / f"{name}.npz").open("wb") as file:
                np.savez(file, *results)
        pack(folder)


def pack(folder):
    """All files of a folder, with the same bytes each time."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            archive.writestr(zipfile.ZipInfo(path.name), path.read_bytes(), zipfile.ZIP_DEFLATED)
    (here / "networks.zip").write_bytes(packed.getvalue())
    print(len(list(folder.iterdir())), "files,", len(packed.getvalue()) // 1024, "KiB")


if __name__ == "__main__":
    main()
