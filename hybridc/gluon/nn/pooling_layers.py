"""Pooling layers, in one to three dimensions, and padding by reflection."""

from __future__ import annotations

from typing import Any, ClassVar

from hybridc.errors import CheckError
from hybridc.gluon.block import HybridBlock
from hybridc.gluon.nn.conv_layers import check_layout, per_axis

__all__ = [
    "AvgPool1D",
    "AvgPool2D",
    "AvgPool3D",
    "GlobalAvgPool1D",
    "GlobalAvgPool2D",
    "GlobalAvgPool3D",
    "GlobalMaxPool1D",
    "GlobalMaxPool2D",
    "GlobalMaxPool3D",
    "MaxPool1D",
    "MaxPool2D",
    "MaxPool3D",
    "ReflectionPad2D",
]


class _Pooling(HybridBlock):
    """``F.Pooling`` with these options: the base of all pooling layers."""

    LAYOUTS: ClassVar[tuple[str, ...]] = ()  # those that the layer has, the default first

    def __init__(
        self,
        pool_size: Any,
        strides: Any,
        padding: Any,
        ceil_mode: bool,
        global_pool: bool,
        pool_type: str,
        layout: str,
        count_include_pad: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        layer = type(self).__name__
        check_layout(layer, layout, self.LAYOUTS)
        rank = len(layout) - 2
        kernel = per_axis(layer, "pool_size", pool_size, rank)
        self._kwargs: dict[str, Any] = {
            "kernel": kernel,
            "stride": kernel if strides is None else per_axis(layer, "strides", strides, rank),
            "pad": per_axis(layer, "padding", padding, rank),
            "global_pool": global_pool,
            "pool_type": pool_type,
            "layout": layout,
            "pooling_convention": "full" if ceil_mode else "valid",
        }
        if count_include_pad is not None:
            self._kwargs["count_include_pad"] = count_include_pad

    def _alias(self) -> str:
        return "pool"

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The layer's output."""
        return F.Pooling(x, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        return (
            "{0}(size={kernel}, stride={stride}, padding={pad}, ceil_mode={1}, global_pool={global_pool}, "
            "pool_type={pool_type}, layout={layout})"
        ).format(type(self).__name__, self._kwargs["pooling_convention"] == "full", **self._kwargs)


class _MaxPool(_Pooling):
    """The arguments that MaxPool1D and MaxPool2D share."""

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: Any = 0,
        layout: str | None = None,
        ceil_mode: bool = False,
        **kwargs: Any,
    ) -> None:
        layout = self.LAYOUTS[0] if layout is None else layout
        super().__init__(pool_size, strides, padding, ceil_mode, False, "max", layout, **kwargs)


class _AvgPool(_Pooling):
    """The arguments that AvgPool2D and AvgPool3D share."""

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        layout: str | None = None,
        count_include_pad: bool = True,
        **kwargs: Any,
    ) -> None:
        layout = self.LAYOUTS[0] if layout is None else layout
        super().__init__(pool_size, strides, padding, ceil_mode, False, "avg", layout, count_include_pad, **kwargs)


class _GlobalPool(_Pooling):
    """The argument that all global pooling layers share."""

    POOL_TYPE: ClassVar[str] = ""

    def __init__(self, layout: str | None = None, **kwargs: Any) -> None:
        layout = self.LAYOUTS[0] if layout is None else layout
        super().__init__(1, None, 0, True, True, self.POOL_TYPE, layout, **kwargs)


class MaxPool1D(_MaxPool):
    """The largest element of each window: (N, C, W) → (N, C, W')

    W' = floor((W + 2*padding - pool_size) / strides) + 1, rounded up with ``ceil_mode``; ``strides=None`` is
    ``pool_size``.
    """

    LAYOUTS = ("NCW", "NWC")


class MaxPool2D(_MaxPool):
    """The largest element of each window: (N, C, H, W) → (N, C, H', W')

    H' = floor((H + 2*padding - pool_size) / strides) + 1, rounded up with ``ceil_mode``, and likewise W';
    ``strides=None`` is ``pool_size``.
    """

    LAYOUTS = ("NCHW", "NHWC")


class MaxPool3D(_Pooling):
    """The largest element of each window: (N, C, D, H, W) → (N, C, D', H', W')

    D' = floor((D + 2*padding - pool_size) / strides) + 1, rounded up with ``ceil_mode``, and so on; ``strides=None``
    is ``pool_size``.
    """

    LAYOUTS = ("NCDHW", "NDHWC")

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        layout: str = "NCDHW",
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, False, "max", layout, **kwargs)


class AvgPool1D(_Pooling):
    """The mean of each window: (N, C, W) → (N, C, W')

    W' as of MaxPool1D. Without ``count_include_pad`` the padding does not count.
    """

    LAYOUTS = ("NCW", "NWC")

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: Any = 0,
        layout: str = "NCW",
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, False, "avg", layout, count_include_pad, **kwargs)


class AvgPool2D(_AvgPool):
    """The mean of each window: (N, C, H, W) → (N, C, H', W')

    H' and W' as of MaxPool2D. Without ``count_include_pad`` the padding does not count.
    """

    LAYOUTS = ("NCHW", "NHWC")


class AvgPool3D(_AvgPool):
    """The mean of each window: (N, C, D, H, W) → (N, C, D', H', W')

    D', H' and W' as of MaxPool3D. Without ``count_include_pad`` the padding does not count.
    """

    LAYOUTS = ("NCDHW", "NDHWC")


class GlobalMaxPool1D(_GlobalPool):
    """The largest element of each channel: (N, C, W) → (N, C, 1)"""

    LAYOUTS = ("NCW", "NWC")
    POOL_TYPE = "max"


class GlobalMaxPool2D(_GlobalPool):
    """The largest element of each channel: (N, C, H, W) → (N, C, 1, 1)"""

    LAYOUTS = ("NCHW", "NHWC")
    POOL_TYPE = "max"


class GlobalMaxPool3D(_GlobalPool):
    """The largest element of each channel: (N, C, D, H, W) → (N, C, 1, 1, 1)"""

    LAYOUTS = ("NCDHW", "NDHWC")
    POOL_TYPE = "max"


class GlobalAvgPool1D(_GlobalPool):
    """The mean of each channel: (N, C, W) → (N, C, 1)"""

    LAYOUTS = ("NCW", "NWC")
    POOL_TYPE = "avg"


class GlobalAvgPool2D(_GlobalPool):
    """The mean of each channel: (N, C, H, W) → (N, C, 1, 1)"""

    LAYOUTS = ("NCHW", "NHWC")
    POOL_TYPE = "avg"


class GlobalAvgPool3D(_GlobalPool):
    """The mean of each channel: (N, C, D, H, W) → (N, C, 1, 1, 1)"""

    LAYOUTS = ("NCDHW", "NDHWC")
    POOL_TYPE = "avg"


class ReflectionPad2D(HybridBlock):
    """x with its rows and columns repeated in reverse around it: (N, C, H, W) → (N, C, H + 2*padding, W + 2*padding)

    ``padding`` is a number, or ``pad_width`` of ``F.pad``: eight numbers of which the first four are 0.
    """

    def __init__(self, padding: Any = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        widths = (0, 0, 0, 0, padding, padding, padding, padding) if isinstance(padding, int) else tuple(padding)
        if len(widths) != 8:
            raise CheckError(f"ReflectionPad2D: padding must be a number or a tuple of 8 ints, got {padding!r}")
        self._padding = widths

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The padded input."""
        return F.pad(x, mode="reflect", pad_width=self._padding)
