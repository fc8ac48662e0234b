"""``mx.gluon.contrib``: layers, data sets and the Estimator, which MXNet keeps there."""

from __future__ import annotations

from hybridc.gluon.contrib import cnn, nn, rnn

__all__ = ["cnn", "nn", "rnn"]
