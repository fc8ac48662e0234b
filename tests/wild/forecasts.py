"""Forecasts by GluonTS's models for MXNet: ``forecasts.py MODEL SERIES SEED…`` trains and prints a line of JSON per seed.

The series are ``waves``, eight of sums of sines by the hour, and ``co2``, the carbon dioxide in the air at Mauna Loa by
the month, which statsmodels ships. The error is the mean weighted quantile loss. Weights are drawn by NumPy from their
names, also where WaveNet's layers would draw them uniformly, and GluonTS draws its batches by NumPy, too, so that what
is left to MXNet's generator is dropout, samples and what TemporalFusionTransformer's layers draw for themselves.
"""

import csv
import importlib.util
import json
import logging
import pathlib
import sys
import time
import warnings
import zlib

import numpy as np

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
if not hasattr(np, "bool"):
    np.bool = bool  # MXNet 1.9.1 and some of GluonTS ask for it

import mxnet as mx
from gluonts.core.component import validated
from gluonts.dataset.common import ListDataset
from gluonts.evaluation import Evaluator, make_evaluation_predictions
from gluonts.mx import (
    DeepAREstimator,
    DeepFactorEstimator,
    DeepStateEstimator,
    GaussianProcessEstimator,
    MQCNNEstimator,
    NBEATSEstimator,
    SimpleFeedForwardEstimator,
    TemporalFusionTransformerEstimator,
    Trainer,
    TransformerEstimator,
    WaveNetEstimator,
)

EPOCHS, BATCHES, RATE = 3, 10, 5e-3
SEED = 0


class Drawn(mx.init.Initializer):
    """Xavier's weights, from a generator for each name."""

    @validated()
    def __init__(self, seed: int = 0):
        super().__init__()
        self.seed = seed

    def _init_weight(self, name, array):
        shape = array.shape
        fans = np.prod(shape[1:]) + (shape[0] * np.prod(shape[2:]) if len(shape) > 1 else 0)
        random = np.random.RandomState(zlib.crc32(name.encode()) ^ self.seed)
        array[:] = mx.nd.array(random.uniform(-1, 1, shape) * np.sqrt(6 / fans))


def drawn_uniformly(self, name, array):
    """Uniform weights, from a generator for each name."""
    random = np.random.RandomState(zlib.crc32(name.encode()) ^ SEED)
    array[:] = mx.nd.array(random.uniform(-self.scale, self.scale, array.shape))


mx.init.Uniform._init_weight = drawn_uniformly


def waves():
    """Frequency, length of a forecast, of the context, and the series that are trained and tested on."""
    random, hours = np.random.RandomState(7), np.arange(24 * 12)
    series = [
        10 + i + 3 * np.sin(2 * np.pi * hours / 24 + i) + 2 * np.sin(2 * np.pi * hours / 12)
        + 0.4 * random.randn(len(hours))
        for i in range(8)
    ]  # fmt: skip
    return "H", 24, 48, "2020-01-01", [x[:-24] for x in series], series


def co2():
    """Likewise: trained on until 1997, tested on each of the four years to come."""
    folder = importlib.util.find_spec("statsmodels").submodule_search_locations[0]
    months = {}
    with open(pathlib.Path(folder, "datasets", "co2", "co2.csv")) as file:
        for day, value in list(csv.reader(file))[1:]:
            months.setdefault((int(float(day)) // 100), []).append(float(value) if value else np.nan)
    means = np.array([np.nanmean(x) if np.isfinite(x).any() else np.nan for x in months.values()])
    at, known = np.arange(len(means)), np.isfinite(means)
    means = np.interp(at, at[known], means[known])
    first = min(months)
    ends = [len(means) - 12 * i for i in (3, 2, 1, 0)]
    return "M", 12, 36, f"{first // 100}-{first % 100:02d}", [means[: ends[0] - 12]], [means[:n] for n in ends]


def estimator(model, freq, length, context, count, seed):
    """The model with sizes that train within seconds."""
    trainer = Trainer(
        ctx=mx.cpu(), epochs=EPOCHS, num_batches_per_epoch=BATCHES, learning_rate=RATE, init=Drawn(seed),
        hybridize=model != "WaveNet",
    )  # fmt: skip
    both = {"freq": freq, "prediction_length": length, "trainer": trainer}
    made = {
        "SimpleFeedForward": lambda: SimpleFeedForwardEstimator(
            prediction_length=length, context_length=context, num_hidden_dimensions=[32, 32], trainer=trainer
        ),
        "DeepAR": lambda: DeepAREstimator(context_length=context, num_layers=1, num_cells=20, **both),
        "Transformer": lambda: TransformerEstimator(context_length=context, **both),
        "NBEATS": lambda: NBEATSEstimator(context_length=context, num_stacks=3, widths=[32], **both),
        "WaveNet": lambda: WaveNetEstimator(num_parallel_samples=20, **both),
        "MQCNN": lambda: MQCNNEstimator(context_length=context, **both),
        "TFT": lambda: TemporalFusionTransformerEstimator(context_length=context, hidden_dim=16, **both),
        "DeepState": lambda: DeepStateEstimator(
            past_length=context, cardinality=[1], use_feat_static_cat=False, num_layers=1, num_cells=20, **both
        ),
        "DeepFactor": lambda: DeepFactorEstimator(
            context_length=context, num_hidden_global=20, num_factors=5, **both
        ),
        "GaussianProcess": lambda: GaussianProcessEstimator(context_length=context, cardinality=count, **both),
    }  # fmt: skip
    return made[model]()


def forecast(model, series, seed):
    """Train and forecast; the error, and the seconds that each took."""
    global SEED
    SEED = seed
    freq, length, context, start, train, test = {"waves": waves, "co2": co2}[series]()
    mx.random.seed(seed)
    np.random.seed(seed)
    learned, tested = (
        ListDataset(
            [
                {"start": start, "target": x.astype("float32"), "feat_static_cat": [i % len(train)]}
                for i, x in enumerate(each)
            ],
            freq=freq,
        )
        for each in (train, test)
    )
    begin = time.perf_counter()
    with mx.name.NameManager():
        predictor = estimator(model, freq, length, context, len(train), seed).train(learned)
    trained = time.perf_counter()
    forecasts, truths = make_evaluation_predictions(tested, predictor, num_samples=100)
    found, _ = Evaluator(quantiles=[0.1, 0.5, 0.9], num_workers=0)(truths, forecasts, num_series=len(test))
    return {
        "model": model,
        "series": series,
        "seed": seed,
        "error": round(float(found["mean_wQuantileLoss"]), 5),
        "train_s": round(trained - begin, 2),
        "predict_s": round(time.perf_counter() - trained, 2),
    }


if __name__ == "__main__":
    for seed in sys.argv[3:]:
        print(json.dumps(forecast(sys.argv[1], sys.argv[2], int(seed))), flush=True)
