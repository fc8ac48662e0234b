"""GluonTS's models with hybridc beside MXNet: ``python tests/wild/forecast_runs.py [MODEL…]`` prints errors and times.

The errors and the times with MXNet are those in forecasts.json, of the processor named there. The first time is of the
first seed, in a new process; with hybridc, an empty disk cache. The second is the median of the others.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MODELS = (
    "SimpleFeedForward", "DeepAR", "Transformer", "NBEATS", "WaveNet", "MQCNN", "TFT", "DeepState", "DeepFactor",
    "GaussianProcess",
)  # fmt: skip
SERIES = ("waves", "co2")
SEEDS = dict.fromkeys(MODELS, range(3)) | dict.fromkeys(("Transformer", "WaveNet"), range(9))  # whose errors vary more


def run(python, model, series, seeds):
    """Errors and seconds for each seed, by an interpreter with its arguments."""
    command = [*python, str(HERE / "forecasts.py"), model, series, *map(str, seeds)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        raise RuntimeError(f"{' '.join(command)}: {made.stderr}")
    lines = [json.loads(line) for line in made.stdout.splitlines() if line.startswith("{")]
    seconds = [round(each["train_s"] + each["predict_s"], 2) for each in lines]
    return {"errors": [each["error"] for each in lines], "seconds": seconds}


def processor():
    """Its name as the system gives it."""
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def main(names):
    known = json.loads((HERE / "forecasts.json").read_text())
    print(f"MXNet 1.9.1 on {known['processor']}, hybridc on {processor()}")
    print("| model | series | error, MXNet | hybridc | ratio | s, MXNet: first | later | hybridc: first | later |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|")
    for model in names or MODELS:
        for series in SERIES:
            wanted = known["runs"][f"{model} {series}"]
            with tempfile.TemporaryDirectory() as folder:
                os.environ["HYBRIDC_CACHE_DIR"] = folder
                got = run([sys.executable, "-m", "hybridc", "run"], model, series, SEEDS[model])
            errors = [statistics.median(each["errors"]) for each in (wanted, got)]
            times = [t for each in (wanted, got) for t in (each["seconds"][0], statistics.median(each["seconds"][1:]))]
            numbers = " | ".join(f"{t:.1f}" for t in times)
            ratio = errors[1] / errors[0]
            print(f"| {model} | {series} | {errors[0]:.4f} | {errors[1]:.4f} | {ratio:.2f} | {numbers} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
