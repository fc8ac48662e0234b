"""Images from the bytes of their files."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# Inputs are arrays.

from __future__ import annotations

from typing import Any

from hybridc.image.codec import COLOUR, GRAY, decode
from hybridc.interchange.onnx.reading.onnx_rules import OnnxCall, onnx_op


@onnx_op("ImageDecoder", host=True)
def image_decoder(call: OnnxCall, data: Any) -> Any:
    """Pixels by rows, of three colours in either order or one brightness."""
    kind = call["pixel_format"]
    pixels = decode(data.tobytes(), GRAY if kind == "Grayscale" else COLOUR, str(call.node))
    return pixels[:, :, ::-1] if kind == "BGR" else pixels
