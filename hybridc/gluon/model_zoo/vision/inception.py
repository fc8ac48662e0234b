"""Inception v3 (Szegedy et al. 2015, arXiv 1512.00567)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybridc.gluon.block import HybridBlock
from hybridc.gluon.model_zoo.classifier import ImageClassifier, add_conv, made
from hybridc.gluon.nn import AvgPool2D, Dense, Dropout, Flatten, HybridSequential, MaxPool2D
from hybridc.gluon.nn.concurrent import HybridConcurrent

__all__ = ["Inception3", "inception_v3", "make_aux"]

# A convolution: its channels, its kernel (1, 3, 5, 7 or a pair), and whether it halves the size.
_Conv = tuple[int, Any] | tuple[int, Any, bool]


class Inception3(ImageClassifier):
    """Modules of several branches, whose larger convolutions are factorized; images have 299x299 pixels.

    Parameters
    ----------
    classes:
        How many classes: the scores of an image.
    """

    def __init__(self, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = HybridSequential(prefix="")
            self.features.add(
                _conv(32, kernel_size=3, strides=2),
                _conv(32, kernel_size=3),
                _conv(64, kernel_size=3, padding=1),
                MaxPool2D(pool_size=3, strides=2),
                _conv(80, kernel_size=1),
                _conv(192, kernel_size=3),
                MaxPool2D(pool_size=3, strides=2),
                _module_a(32, "A1_"),
                _module_a(64, "A2_"),
                _module_a(64, "A3_"),
                _module_b("B_"),
                _module_c(128, "C1_"),
                _module_c(160, "C2_"),
                _module_c(160, "C3_"),
                _module_c(192, "C4_"),
                _module_d("D_"),
                _module_e("E1_"),
                _module_e("E2_"),
                AvgPool2D(pool_size=8),
                Dropout(0.5),
            )
            self.output = Dense(classes)


def _conv(channels: int, **options: Any) -> HybridSequential:
    out = HybridSequential(prefix="")
    add_conv(out, channels, epsilon=0.001, **options)
    return out


def _branch(convs: Sequence[_Conv], pool: HybridBlock | None = None) -> HybridSequential:
    """A pooling, if there is one, and convolutions one after the other."""
    out = HybridSequential(prefix="")
    if pool is not None:
        out.add(pool)
    for channels, kernel, *halves in convs:
        kernel = (kernel, kernel) if isinstance(kernel, int) else kernel
        same = {"padding": tuple(n // 2 for n in kernel)}
        out.add(_conv(channels, kernel_size=kernel, **({"strides": 2} if halves else same)))
    return out


def make_aux(classes: int) -> HybridSequential:
    """The classifier in the midst of the network that only its training uses."""
    out = HybridSequential(prefix="")
    out.add(AvgPool2D(pool_size=5, strides=3))
    out.add(_conv(128, kernel_size=1))
    out.add(_conv(768, kernel_size=5))
    out.add(Flatten(), Dense(classes))
    return out


def _average() -> AvgPool2D:
    return AvgPool2D(pool_size=3, strides=1, padding=1)


def _concurrent(prefix: str) -> HybridConcurrent:
    return HybridConcurrent(axis=1, prefix=prefix)


def _module_a(pool_features: int, prefix: str) -> HybridConcurrent:
    out = _concurrent(prefix)
    with out.name_scope():
        out.add(
            _branch([(64, 1)]),
            _branch([(48, 1), (64, 5)]),
            _branch([(64, 1), (96, 3), (96, 3)]),
            _branch([(pool_features, 1)], _average()),
        )
    return out


def _module_b(prefix: str) -> HybridConcurrent:
    out = _concurrent(prefix)
    with out.name_scope():
        out.add(
            _branch([(384, 3, True)]),
            _branch([(64, 1), (96, 3), (96, 3, True)]),
            _branch([], MaxPool2D(pool_size=3, strides=2)),
        )
    return out


def _module_c(n: int, prefix: str) -> HybridConcurrent:
    row, column = (1, 7), (7, 1)
    out = _concurrent(prefix)
    with out.name_scope():
        out.add(
            _branch([(192, 1)]),
            _branch([(n, 1), (n, row), (192, column)]),
            _branch([(n, 1), (n, column), (n, row), (n, column), (192, row)]),
            _branch([(192, 1)], _average()),
        )
    return out


def _module_d(prefix: str) -> HybridConcurrent:
    out = _concurrent(prefix)
    with out.name_scope():
        out.add(
            _branch([(192, 1), (320, 3, True)]),
            _branch([(192, 1), (192, (1, 7)), (192, (7, 1)), (192, 3, True)]),
            _branch([], MaxPool2D(pool_size=3, strides=2)),
        )
    return out


def _module_e(prefix: str) -> HybridConcurrent:
    out = _concurrent(prefix)
    with out.name_scope():
        out.add(_branch([(320, 1)]), _split([(384, 1)]), _split([(448, 1), (384, 3)]), _branch([(192, 1)], _average()))
    return out


def _split(convs: Sequence[_Conv]) -> HybridSequential:
    """Convolutions, and behind them one along rows beside one along columns."""
    out = HybridSequential(prefix="")
    out.add(_branch(convs))
    both = _concurrent("")
    both.add(_branch([(384, (1, 3))]), _branch([(384, (3, 1))]))
    out.add(both)
    return out


def inception_v3(pretrained: bool = False, ctx: Any = None, root: Any = None, **kwargs: Any) -> Inception3:
    """Inception v3; further keywords are those of the class.

    Parameters
    ----------
    pretrained:
        Whether it has trained parameters, of a file: see ``mx.gluon.model_zoo.model_store.get_model_file``.
    ctx:
        The device of those parameters, or a list of devices; None is the current one.
    root:
        The folder of that file; None is that of MXNet's models, ``~/.mxnet/models``.
    """
    return made(Inception3, name="inceptionv3", pretrained=pretrained, ctx=ctx, root=root, **kwargs)
