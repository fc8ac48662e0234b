# Written by python -m hybridc.stubs; do not edit.
# pyright: reportUnusedImport=false
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

from numpy.typing import DTypeLike

from hybridc.array.fluent import Fluent
from hybridc.context import Context

_A = TypeVar("_A", bound=Fluent)

from hybridc.nd.namespace import lookup as lookup

def adjust_lighting(
    data: _A,
    alpha: float | Sequence[float],
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The image with ``alpha`` times the directions added in which the colours of ImageNet vary most"""
    ...

def crop(
    data: _A,
    x: int,
    y: int,
    width: int,
    height: int,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """A part of each image: ``height`` rows from ``y`` on, ``width`` columns from ``x`` on"""
    ...

def flip_left_right(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Images with the columns in the opposite order"""
    ...

def flip_top_bottom(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Images with the rows in the opposite order"""
    ...

def normalize(
    data: _A,
    mean: float | Sequence[float] = ...,
    std: float | Sequence[float] = ...,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """(data - mean) / std for each channel of images ``(C, H, W)`` or ``(N, C, H, W)``"""
    ...

def random_brightness(
    data: _A,
    min_factor: float,
    max_factor: float,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The image times a random factor"""
    ...

def random_color_jitter(
    data: _A,
    brightness: float,
    contrast: float,
    saturation: float,
    hue: float,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The image with brightness, contrast, saturation and hue changed at random, in random order"""
    ...

def random_contrast(
    data: _A,
    min_factor: float,
    max_factor: float,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The image with its differences from the mean lightness times a random factor"""
    ...

def random_crop(
    data: _A,
    xrange: float | Sequence[float] = ...,
    yrange: float | Sequence[float] = ...,
    width: int = ...,
    height: int = ...,
    interp: int = 1,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """A part of ``width`` and ``height`` at a random place; of a smaller image as much as fits, resized"""
    ...

def random_flip_left_right(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Images with the columns in the opposite order, with probability 1/2"""
    ...

def random_flip_top_bottom(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Images with the rows in the opposite order, with probability 1/2"""
    ...

def random_hue(
    data: _A,
    min_factor: float,
    max_factor: float,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The image with its hues moved around the circle of colours by a random part of it"""
    ...

def random_lighting(
    data: _A,
    alpha_std: float = 0.05,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The image with random noise along the directions in which the colours of ImageNet vary most"""
    ...

def random_resized_crop(
    data: _A,
    width: int,
    height: int,
    area: float | Sequence[float] = ...,
    ratio: float | Sequence[float] = ...,
    interp: int = 1,
    max_trial: int = 10,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """A part of random area and ratio of sides at a random place, resized to ``width`` and ``height``"""
    ...

def random_saturation(
    data: _A,
    min_factor: float,
    max_factor: float,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """The image with the differences from the lightness of each pixel times a random factor"""
    ...

def resize(
    data: _A,
    size: int | Sequence[int] = (),
    keep_ratio: bool | int = False,
    interp: int = 1,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Images with another width and height, as OpenCV resizes them"""
    ...

def to_tensor(
    data: _A,
    out: Any = None,
    name: str | None = None,
    ctx: Context | None = None,
    attr: dict[str, str] | None = None,
) -> _A:
    """Images as float32, divided by 255, with the channels before rows and columns"""
    ...
