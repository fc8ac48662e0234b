"""Forecast the carbon dioxide in the air a year ahead, and how sure that is, and compare it with a simple forecast.

``make forecasting``, or ``python examples/forecasting.py`` with statsmodels, matplotlib and tqdm installed. The series
is Mauna Loa's, weekly from 1958 to 2001, which statsmodels ships; its last fifth is for testing. A GRU reads by how
much each of the last 104 weeks is above the same week of the year before, in both directions, and gives three quantiles
of that for each of the next 52, trained by the pinball loss. The simple forecast is the value of the year before and
the quantiles of all rises in the years trained on. With the seeds 7 to 11 the GRU's pinball loss is 0.772, 0.770,
0.769, 0.749 and 0.763 of that of the simple forecast. All that is claimed is checked: that, and how much of what came
lies between the outer quantiles. Four forecasts are drawn in ``forecasting.png``. ``--epochs 4 --better 0.95`` is a
short run.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from tqdm import tqdm

import hybridc as mx
from hybridc import gluon
from hybridc.gluon import nn, rnn

SEED, EPOCHS, BATCH, RATE = 7, 10, 64, 6e-3
YEAR = 52  # weeks
CONTEXT = 2 * YEAR
LEVELS = (0.1, 0.5, 0.9)
BETTER = 0.8  # the pinball loss to reach, in those of the simple forecast
BAND, TOLERANCE = 0.8, 0.04  # how much is to lie between the outer quantiles in the years trained on
LATER = 0.65  # the same in later years, at least: they rise by 1.6 ppm a year, those trained on by 1.2


@dataclass(frozen=True)
class Series:
    """Weekly values, and the times of their measurements in years."""

    years: np.ndarray
    values: np.ndarray

    @property
    def rises(self) -> np.ndarray:
        """By how much each value is above that of a year before; not known of the first year."""
        before = np.full(YEAR, np.nan)
        return np.concatenate([before, self.values[YEAR:] - self.values[:-YEAR]])


def carbon_dioxide() -> Series:
    """Parts per million at Mauna Loa each week; 59 of the 2284 are missing and interpolated."""
    lines = (files("statsmodels") / "datasets/co2/co2.csv").read_text().splitlines()
    dates, values = np.genfromtxt(lines, delimiter=",", skip_header=1, unpack=True)
    known = ~np.isnan(values)
    weeks = np.arange(len(values))
    first = int(dates[0])
    start = first // 10_000 + (first // 100 % 100 - 1) / 12 + first % 100 / 365
    return Series(start + weeks * 7 / 365.25, np.interp(weeks, weeks[known], values[known]))


class Forecaster(gluon.HybridBlock):
    """Quantiles (N, YEAR, levels) of what follows rises (N, CONTEXT, 1); none crosses another."""

    def __init__(self, hidden: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.encoder = rnn.GRU(hidden, layout="NTC", bidirectional=True, input_size=1)
            self.decoder = nn.Dense(len(LEVELS), flatten=False, in_units=2 * hidden)

    def hybrid_forward(self, F: Any, rises: Any) -> Any:
        """What each week of the last year gives for the same week of the next: the median, and how far others are."""
        year = F.slice_axis(self.encoder(rises), axis=1, begin=-YEAR, end=None)
        low, median, high = F.split(self.decoder(year), len(LEVELS), axis=2)
        below, above = (F.Activation(apart, act_type="softrelu") for apart in (low, high))
        return F.concat(median - below, median, median + above, dim=2)


class PinballLoss(gluon.loss.Loss):
    """An error above a quantile costs its level, one below costs what is missing to 1; the mean of each example."""

    def __init__(self, levels: Sequence[float], **kwargs: Any) -> None:
        super().__init__(None, 0, **kwargs)
        with self.name_scope():
            self.levels = self.params.get_constant("levels", mx.nd.array(levels))

    def hybrid_forward(self, F: Any, quantiles: Any, values: Any, levels: Any) -> Any:
        """For quantiles (N, T, levels) and values (N, T)."""
        errors = F.broadcast_sub(F.expand_dims(values, axis=2), quantiles)
        return F.mean(F.maximum(F.broadcast_mul(errors, levels), F.broadcast_mul(errors, levels - 1)), axis=(1, 2))


def windows(rises: np.ndarray, begin: int, end: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All contexts and what follows them, where that lies in [begin, end); and the weeks in which it begins."""
    starts = np.arange(max(begin, YEAR + CONTEXT), end - YEAR + 1)
    contexts, following = (
        np.stack([rises[t + low : t + high] for t in starts]).astype("float32")
        for low, high in ((-CONTEXT, 0), (0, YEAR))
    )
    return contexts, following, starts


def train(contexts: np.ndarray, following: np.ndarray, epochs: int) -> tuple[Forecaster, PinballLoss]:
    """The network and its loss, each step of training as one program."""
    mx.random.seed(SEED)
    np.random.seed(SEED)  # the DataLoader shuffles, as in MXNet, by NumPy's global state
    net, loss = Forecaster(32), PinballLoss(LEVELS)
    net.initialize(mx.init.Xavier())
    loss.initialize()
    net.hybridize()
    loss.hybridize()
    batches = gluon.data.DataLoader(
        gluon.data.ArrayDataset(contexts[..., None], following), BATCH, shuffle=True, last_batch="discard"
    )
    schedule = mx.lr_scheduler.CosineScheduler(epochs * len(batches), base_lr=RATE)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": RATE, "lr_scheduler": schedule})
    step = gluon.TrainStep(net, loss, trainer)
    with tqdm(range(epochs), desc="training", unit="epoch") as bar:
        for _ in bar:
            losses = [step(x, y).mean().asscalar() for x, y in batches]
            bar.set_postfix(loss=f"{np.mean(losses):.4f}")
    return net, loss


def coverage(quantiles: np.ndarray, values: np.ndarray) -> float:
    """The part of the values between the outer quantiles."""
    return float(((quantiles[..., 0] <= values) & (values <= quantiles[..., -1])).mean())


def save_forecasts(path: Path, series: Series, starts: np.ndarray, ours: np.ndarray, simple: np.ndarray) -> None:
    """Four forecasts, from the first to the last: what came, the band, both medians."""
    matplotlib.use(os.environ.get("MPLBACKEND", "Agg"))  # a notebook has its own, and shows the figure
    from matplotlib import pyplot as plt

    figure, grid = plt.subplots(2, 2, figsize=(13, 8), layout="constrained")
    for axes, i in zip(grid.flat, np.linspace(0, len(starts) - 1, 4).astype(int).tolist()):
        start = int(starts[i])
        time = np.arange(start, start + YEAR)
        known = np.arange(start - CONTEXT, start + YEAR)
        level = series.values[time - YEAR]
        low, median, high = ours[i].T + level
        axes.plot(series.years[known], series.values[known], color="black", linewidth=1, label="measured")
        axes.fill_between(series.years[time], low, high, color="tab:blue", alpha=0.3, label="quantiles 0.1 to 0.9")
        axes.plot(series.years[time], median, color="tab:blue", label="median")
        axes.plot(series.years[time], simple[i, :, 1] + level, color="tab:orange", linestyle=":", label="simple")
        axes.axvline(series.years[start], color="tab:gray", linewidth=0.8)
        axes.set(ylabel="ppm")
    grid[0, 0].legend(loc="lower left")
    figure.savefig(path, dpi=120)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example; the exit status says whether all claims hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--better", type=float, default=BETTER, help="the loss to reach, in the simple forecast's")
    options = parser.parse_args(arguments)

    series = carbon_dioxide()
    split = len(series.values) * 4 // 5
    contexts, following, _ = windows(series.rises, 0, split)
    net, loss = train(contexts, following, options.epochs)
    trained = coverage(net(mx.nd.array(contexts[..., None])).asnumpy(), following)

    contexts, came, starts = windows(series.rises, split, len(series.values))
    ours = net(mx.nd.array(contexts[..., None])).asnumpy()
    simple = np.broadcast_to(np.quantile(series.rises[YEAR:split], LEVELS).astype("float32"), ours.shape)
    losses = [float(loss(mx.nd.array(q), mx.nd.array(came)).mean().asscalar()) for q in (ours, simple)]
    covered = [coverage(q, came) for q in (ours, simple)]
    print(f"\n{len(starts)} forecasts of {YEAR} weeks from {series.years[split]:.0f} on")
    for name, lost, part in zip(("GRU", "year before"), losses, covered):
        print(f"{name:12} pinball loss {lost:.4f} ppm, {part:.2f} of the values within the quantiles 0.1 and 0.9")
    picture = Path("forecasting.png").resolve()
    save_forecasts(picture, series, starts, ours, simple)
    print(f"forecasts: {picture}\n")

    ratio = losses[0] / losses[1]
    claims = [
        (f"the loss is {ratio:.3f} <= {options.better} of that of the simple forecast", ratio <= options.better),
        (f"the band holds {trained:.3f} of the years trained on: {BAND}", abs(trained - BAND) <= TOLERANCE),
        (f"and {covered[0]:.3f} >= {LATER} of those that followed", covered[0] >= LATER),
    ]
    for line, holds in claims:
        print(f"{'ok    ' if holds else 'FAILED'} {line}")
    return 0 if all(holds for _, holds in claims) else 1


if __name__ == "__main__":
    sys.exit(main())
