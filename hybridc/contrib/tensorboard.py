"""``mx.contrib.tensorboard``: metrics in files that TensorBoard shows."""

from __future__ import annotations

import importlib
from typing import Any

from hybridc.errors import UnsupportedError

__all__ = ["LogMetricsCallback"]

# Packages that have a SummaryWriter(folder) with add_scalar(name, value, global_step=…), in the order of trial.
_WRITERS = ("mxboard", "tensorboardX", "torch.utils.tensorboard")


def _writer(folder: str) -> Any:
    for package in _WRITERS:
        try:
            return importlib.import_module(package).SummaryWriter(folder)
        except ImportError:
            continue
    raise UnsupportedError(
        f"LogMetricsCallback needs a package that writes TensorBoard's files, one of {', '.join(_WRITERS)}; "
        "pip install tensorboardX"
    )


class LogMetricsCallback:
    """A callback for ``BaseModule.fit``: writes the metrics into files, step by epoch.

    An UnsupportedError says that no package which writes such files is installed.

    Parameters
    ----------
    logging_dir:
        The folder of the files.
    prefix:
        What goes before the metrics' names, with a hyphen; None for nothing.
    """

    def __init__(self, logging_dir: str, prefix: str | None = None) -> None:
        self.prefix = prefix
        self.summary_writer = _writer(logging_dir)

    def __call__(self, param: Any) -> None:
        """Write the metric of ``param``, a ``BatchEndParam``; nothing if there is none."""
        if param.eval_metric is None:
            return
        for name, value in param.eval_metric.get_name_value():
            shown = name if self.prefix is None else f"{self.prefix}-{name}"
            self.summary_writer.add_scalar(shown, value, global_step=param.epoch)
