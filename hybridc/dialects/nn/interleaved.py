"""Attention whose queries, keys and values lie beside each other, head by head, in one projection.

A projection of ``k`` kinds has shape (length, batch, heads * k * size): for each head the kinds follow each other.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.operator import Bad, Composite, Sample, attribute, register
from hybridc.dialects.operator_attribute import Shape
from hybridc.errors import ShapeError


class Interleaved(Composite):
    """Base: a stack of matrices for each head is cut out of a projection."""

    heads: Any = 1

    def split(self, name: str, shape: Shape, kinds: int) -> tuple[int, int, int]:
        """Length, batch and the size of a head of a projection of so many kinds."""
        if len(shape) != 3:
            raise ShapeError(f"{self.title()}: {name} must have 3 axes (length, batch, features), got shape {shape}")
        length, batch, features = shape
        if features % (self.heads * kinds):
            parts = f"heads={self.heads}" if kinds == 1 else f"heads * {kinds} = {self.heads * kinds}"
            raise ShapeError(
                f"{self.title()}: {name} has {features} features, which must be a multiple of {parts}; its shape is "
                f"{shape}"
            )
        return length, batch, features // (self.heads * kinds)

    def part(self, F: Any, x: Any, name: str, kind: int, kinds: int) -> Any:
        """One kind of a projection, in shape (batch * heads, length, size)."""
        length, batch, size = self.split(name, x.shape, kinds)
        if kinds > 1:
            x = F.reshape_to(x, shape=(length, batch, self.heads, kinds, size))
            x = F.slice_axis(x, axis=3, begin=kind, end=kind + 1)
        x = F.reshape_to(x, shape=(length, batch * self.heads, size))
        return F.transpose(x, axes=(1, 0, 2))

    def scores(self, F: Any, queries: Any, keys: Any) -> Any:
        """Products of queries and keys, divided by the square root of their size."""
        return F.batch_dot(queries, keys, transpose_b=True) * max(queries.shape[-1], 1) ** -0.5

    def mixed(self, F: Any, attention: Any, values: Any) -> Any:
        """Values weighted by attention, in shape (length, batch, heads * size)."""
        y = F.batch_dot(attention, values)
        count, length, size = y.shape
        return F.reshape_to(F.transpose(y, axes=(1, 0, 2)), shape=(length, count // self.heads, self.heads * size))

    def require_attention(self, attention: Shape, batch: int, keys: int) -> None:
        """Raise unless attention has a matrix for each head, with a column for each key."""
        wanted = (batch * self.heads, keys)
        if len(attention) != 3 or (attention[0], attention[2]) != wanted:
            raise ShapeError(
                f"{self.title()}: attention must have shape (batch * heads, length of the queries, length of the "
                f"keys) = ({wanted[0]}, n, {wanted[1]}), got {attention}"
            )


@register(
    "hybrid.interleaved_matmul_selfatt_qk",
    "contrib.interleaved_matmul_selfatt_qk",
    "_contrib_interleaved_matmul_selfatt_qk",
)
class SelfAttentionScores(Interleaved):
    """Products of the queries and the keys of self-attention, divided by the square root of the size of a head

    The projection has shape (length, batch, heads * 3 * size), the result (batch * heads, length, length).
    """

    INPUTS = ("queries_keys_values",)
    INPUT_DOCS: ClassVar = {
        "queries_keys_values": "the projection (length, batch, heads * 3 * size)",
    }

    heads: int = attribute(doc="the number of heads", low=1)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        length, batch, _ = self.split("queries_keys_values", shapes[0], 3)
        return shapes, [(batch * self.heads, length, length)]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        queries, keys = (self.part(F, inputs[0], "queries_keys_values", kind, 3) for kind in (0, 1))
        return self.scores(F, queries, keys)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(4, 2, 2 * 3 * 5)], lambda x: _scores(*_kinds(x, 2, 3)[:2]), heads=2),
            Sample([(3, 2, 3)], lambda x: _scores(*_kinds(x, 1, 3)[:2]), heads=1),
            Sample([(0, 2, 6)], lambda _: np.zeros((2, 0, 0)), heads=1),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        name = "interleaved_matmul_selfatt_qk: "
        return [
            (
                ((4, 2, 10),),
                {"heads": 2},
                name + "queries_keys_values has 10 features, which must be a multiple of "
                "heads * 3 = 6; its shape is (4, 2, 10)",
            ),
            (
                ((4, 12),),
                {"heads": 2},
                name + "queries_keys_values must have 3 axes (length, batch, features), got shape (4, 12)",
            ),
        ]


@register(
    "hybrid.interleaved_matmul_selfatt_valatt",
    "contrib.interleaved_matmul_selfatt_valatt",
    "_contrib_interleaved_matmul_selfatt_valatt",
)
class SelfAttentionValues(Interleaved):
    """The values of self-attention, weighted by the attention

    The projection has shape (length, batch, heads * 3 * size), attention (batch * heads, length, length), the result
    (length, batch, heads * size).
    """

    INPUTS = ("queries_keys_values", "attention")
    INPUT_DOCS: ClassVar = {
        "queries_keys_values": "the projection (length, batch, heads * 3 * size)",
        "attention": "the weights (batch * heads, length of the queries, length of the keys)",
    }

    heads: int = attribute(doc="the number of heads", low=1)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        length, batch, size = self.split("queries_keys_values", shapes[0], 3)
        self.require_attention(shapes[1], batch, length)
        return shapes, [(shapes[1][1], batch, self.heads * size)]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        return self.mixed(F, inputs[1], self.part(F, inputs[0], "queries_keys_values", 2, 3))

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(4, 2, 2 * 3 * 5), (4, 4, 4)], lambda x, a: _mixed(a, _kinds(x, 2, 3)[2]), heads=2),
            Sample([(3, 2, 3), (2, 3, 3)], lambda x, a: _mixed(a, _kinds(x, 1, 3)[2]), heads=1),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "interleaved_matmul_selfatt_valatt: attention must have shape (batch * heads, length of the queries, "
        return [(((4, 2, 12), (2, 4, 4)), {"heads": 2}, text + "length of the keys) = (4, n, 4), got (2, 4, 4)")]


@register(
    "hybrid.interleaved_matmul_encdec_qk",
    "contrib.interleaved_matmul_encdec_qk",
    "_contrib_interleaved_matmul_encdec_qk",
)
class CrossAttentionScores(Interleaved):
    """Products of a decoder's queries and an encoder's keys, divided by the square root of the size of a head

    Queries have shape (length of the queries, batch, heads * size), keys and values (length of the keys, batch, heads *
    2 * size), the result (batch * heads, length of the queries, length of the keys).

    Examples
    --------
    >>> queries = mx.nd.array([[[1, 0]]])  # one query of size 2
    >>> keys_values = mx.nd.array([[[1, 2, 3, 4]], [[5, 6, 7, 8]]])  # two keys, each followed by its value
    >>> print(mx.nd.interleaved_matmul_encdec_qk(queries, keys_values, heads=1).asnumpy().round(3))
    [[[0.707 3.536]]]
    """

    INPUTS = ("queries", "keys_values")
    INPUT_DOCS: ClassVar = {
        "queries": "the decoder's projection (length of the queries, batch, heads * size)",
        "keys_values": "the encoder's projection (length of the keys, batch, heads * 2 * size)",
    }

    heads: int = attribute(doc="the number of heads", low=1)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        length, batch, size = self.split("queries", shapes[0], 1)
        keys, other, key_size = self.split("keys_values", shapes[1], 2)
        if (batch, size) != (other, key_size):
            raise ShapeError(
                f"{self.title()}: keys_values must have shape (length of the keys, {batch}, {2 * self.heads * size}) "
                f"for queries {shapes[0]}, got {shapes[1]}"
            )
        return shapes, [(batch * self.heads, length, keys)]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        queries, keys_values = inputs
        return self.scores(F, self.part(F, queries, "queries", 0, 1), self.part(F, keys_values, "keys_values", 0, 2))

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample(
                [(4, 2, 2 * 5), (3, 2, 2 * 2 * 5)],
                lambda q, x: _scores(_kinds(q, 2, 1)[0], _kinds(x, 2, 2)[0]),
                heads=2,
            )
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "interleaved_matmul_encdec_qk: keys_values must have shape (length of the keys, 2, 12) for queries "
        return [(((4, 2, 6), (4, 2, 8)), {"heads": 2}, text + "(4, 2, 6), got (4, 2, 8)")]


@register(
    "hybrid.interleaved_matmul_encdec_valatt",
    "contrib.interleaved_matmul_encdec_valatt",
    "_contrib_interleaved_matmul_encdec_valatt",
)
class CrossAttentionValues(Interleaved):
    """The values of an encoder, weighted by a decoder's attention

    Keys and values have shape (length of the keys, batch, heads * 2 * size), attention (batch * heads, length of the
    queries, length of the keys), the result (length of the queries, batch, heads * size).

    Examples
    --------
    >>> keys_values = mx.nd.array([[[1, 2, 3, 4]], [[5, 6, 7, 8]]])  # two keys, each followed by its value
    >>> attention = mx.nd.array([[[0.5, 0.5]]])
    >>> print(mx.nd.interleaved_matmul_encdec_valatt(keys_values, attention, heads=1).asnumpy())
    [[[5. 6.]]]
    """

    INPUTS = ("keys_values", "attention")
    INPUT_DOCS: ClassVar = {
        "keys_values": "the encoder's projection (length of the keys, batch, heads * 2 * size)",
        "attention": "the weights (batch * heads, length of the queries, length of the keys)",
    }

    heads: int = attribute(doc="the number of heads", low=1)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        keys, batch, size = self.split("keys_values", shapes[0], 2)
        self.require_attention(shapes[1], batch, keys)
        return shapes, [(shapes[1][1], batch, self.heads * size)]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        return self.mixed(F, inputs[1], self.part(F, inputs[0], "keys_values", 1, 2))

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample([(3, 2, 2 * 2 * 5), (4, 6, 3)], lambda x, a: _mixed(a, _kinds(x, 2, 2)[1]), heads=2)]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "interleaved_matmul_encdec_valatt: attention must have shape (batch * heads, length of the queries, "
        return [(((3, 2, 8), (4, 5, 4)), {"heads": 2}, text + "length of the keys) = (4, n, 3), got (4, 5, 4)")]


def _kinds(x: Any, heads: int, kinds: int) -> Any:
    """In samples: the kinds, each in shape (batch, heads, length, size)."""
    return np.einsum("lbhks->kbhls", x.reshape(*x.shape[:2], heads, kinds, -1))


def _scores(queries: Any, keys: Any) -> Any:
    y = np.einsum("bhqs,bhks->bhqk", queries, keys) / np.sqrt(queries.shape[-1])
    return y.reshape(-1, *y.shape[2:])


def _mixed(attention: Any, values: Any) -> Any:
    y = np.einsum("bhqk,bhks->qbhs", attention.reshape(*values.shape[:2], *attention.shape[1:]), values)
    return y.reshape(*y.shape[:2], -1)
