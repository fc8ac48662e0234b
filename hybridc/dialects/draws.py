"""What a draw of random numbers is: an interface that targets with loops of their own ask."""

from __future__ import annotations


class DrawsUniform:
    """An operator of one input, a key of two words, whose result is uniform numbers in [0, 1) of one draw.

    They are those of :func:`hybridc.random.generator`: Philox with the key's first word as key, and its second plus
    the number of the draw as the counter's highest word; 24 bits for single and half precision, 53 for double.
    """

    def draw_number(self) -> int:
        """What tells this draw of the key from others."""
        raise NotImplementedError
