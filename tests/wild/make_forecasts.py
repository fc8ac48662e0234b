"""Run forecasts.py with MXNet, all models and series or the models named, and keep the errors: see README.md."""

import json
import pathlib
import sys

from forecast_runs import MODELS, SEEDS, SERIES, processor, run

KEPT = pathlib.Path(__file__).resolve().parent / "forecasts.json"


def main(names):
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    kept["processor"] = processor()
    for model in names or MODELS:
        for series in SERIES:
            kept.setdefault("runs", {})[f"{model} {series}"] = found = run(
                [sys.executable], model, series, SEEDS[model]
            )
            print(model, series, found, flush=True)
            KEPT.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
