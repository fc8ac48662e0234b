"""Opaque operators on numbers, as formulas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridc.dialects.array.sequence import LastSteps
from hybridc.dialects.elements.bits import Gcd, Lcm
from hybridc.dialects.math.unary import Frexp
from hybridc.dialects.vision.image_random import ImageAdjustLighting, lit
from hybridc.interchange.onnx.writing.onnx_value import INT64, OnnxValue
from hybridc.interchange.onnx.writing.operators.loops import any_of, iterated
from hybridc.interchange.onnx.writing.translate import Translator, translation


@translation(LastSteps)
def last_steps(t: Translator, _: Any, inputs: Sequence[OnnxValue]) -> Any:
    """The length less one; a length that is none has no error here."""
    return t.writer.cast(inputs[0], INT64) - 1


@translation(Frexp)
def frexp(t: Translator, _: Any, inputs: Sequence[OnnxValue]) -> Any:
    """By the logarithm, whose rounding may be off by one: then the mantissa says so."""
    (x,) = inputs
    size = t.steps.abs(x)
    plain = (size == 0.0) | ~t.steps.isfinite(x)
    exponent = t.steps.floor(t.steps.log2(t.steps.select(plain, 1.0, size))) + 1.0
    mantissa = t.steps.select(plain, 0.5, size) / t.steps.exp2(exponent)
    exponent = t.steps.select(mantissa >= 1.0, exponent + 1.0, t.steps.select(mantissa < 0.5, exponent - 1.0, exponent))
    exponent = t.steps.select(plain, 0.0, exponent)
    return x / t.steps.exp2(exponent), t.writer.cast(exponent, np.int32)


@translation(Gcd, Lcm)
def gcd(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """Euclid's algorithm on all elements, until no remainder is left."""
    result = t.results_of(op, inputs)[0]
    x, y = (t.steps.abs(t.moves.broadcast(v, result.shape)) for v in inputs)

    def step(_: OnnxValue, a: OnnxValue, b: OnnxValue) -> Sequence[OnnxValue]:
        is_done = b == 0
        rest = t.steps.rem(a, t.steps.select(is_done, 1, b))
        return [t.steps.select(is_done, a, b), t.steps.select(is_done, b, rest)]

    def goes_on(_: OnnxValue, b: OnnxValue) -> OnnxValue:
        return any_of(t, b != 0)

    divisor = iterated(t, [x, y], step, goes_on=goes_on)[0]
    return divisor if type(op) is Gcd else t.steps.quotient(x, divisor) * y


@translation(ImageAdjustLighting)
def adjust_lighting(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """A known colour, added to all pixels; of integers the result is cut off to their range."""
    (x,) = inputs
    if x.shape[-1] == 1:
        return x
    added = t.constant(lit(np.zeros((1, 3), np.float32), op.alpha)[0])
    found = t.writer.cast(x, np.float32) + added
    if x.dtype.kind == "f":
        return found
    limits = np.iinfo(x.dtype)
    return t.steps.trunc(t.steps.min(t.steps.max(found, float(limits.min)), float(limits.max)))
