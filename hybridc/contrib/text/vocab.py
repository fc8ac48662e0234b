"""``mx.contrib.text.vocab``: indices of tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any, cast

from hybridc.errors import CheckError

__all__ = ["Vocabulary"]

UNKNOWN = 0  # the index of all tokens that have none


class Vocabulary:
    """Indices of tokens: 0 is the unknown token's, the reserved ones follow, then those counted, by falling frequency.

    Tokens of one frequency are sorted.

    Parameters
    ----------
    counter:
        A ``collections.Counter`` of tokens, or None for no counted ones.
    most_freq_count:
        How many counted tokens get an index; None for all.
    min_freq:
        The frequency from which tokens get an index, 1 at least.
    unknown_token:
        The token that stands for all others.
    reserved_tokens:
        Tokens that have an index in any case, each once; None for none.
    """

    def __init__(
        self,
        counter: Any = None,
        most_freq_count: int | None = None,
        min_freq: int = 1,
        unknown_token: Hashable = "<unk>",
        reserved_tokens: Sequence[Hashable] | None = None,
    ) -> None:
        if min_freq <= 0:
            raise CheckError(f"Vocabulary: min_freq must be positive, got {min_freq}")
        reserved = list(reserved_tokens or ())
        if unknown_token in reserved:
            raise CheckError(f"Vocabulary: reserved_tokens must not hold the unknown token {unknown_token!r}")
        if len(set(reserved)) != len(reserved):
            raise CheckError("Vocabulary: reserved_tokens must not hold a token twice")
        self._unknown_token = unknown_token
        self._reserved_tokens = None if reserved_tokens is None else reserved
        self._idx_to_token: list[Any] = [unknown_token, *reserved]
        if counter is not None:
            if not isinstance(counter, Counter):
                raise CheckError(f"Vocabulary: counter must be a collections.Counter, got {type(counter).__name__}")
            self._add_counted(cast("Counter[Any]", counter), most_freq_count, min_freq)
        self._token_to_idx = {token: i for i, token in enumerate(self._idx_to_token)}

    def _add_counted(self, counter: Counter[Any], most_freq_count: int | None, min_freq: int) -> None:
        first = set(self._idx_to_token)
        found = sorted(token for token in counter if counter[token] >= min_freq and token not in first)
        found.sort(key=lambda token: -counter[token])
        self._idx_to_token += found[:most_freq_count]

    def __len__(self) -> int:
        return len(self.idx_to_token)

    @property
    def token_to_idx(self) -> dict[Any, int]:
        """The index of each token."""
        return self._token_to_idx

    @property
    def idx_to_token(self) -> list[Any]:
        """The tokens in the order of their indices."""
        return self._idx_to_token

    @property
    def unknown_token(self) -> Any:
        """The token that stands for all others."""
        return self._unknown_token

    @property
    def reserved_tokens(self) -> list[Any] | None:
        """The tokens that have an index in any case, or None."""
        return self._reserved_tokens

    def to_indices(self, tokens: Any) -> Any:
        """The index of a token, or a list of them for a list ``tokens``; 0 for unknown ones."""
        known = self.token_to_idx
        if not isinstance(tokens, list):
            return known.get(tokens, UNKNOWN)
        return [known.get(token, UNKNOWN) for token in cast("list[Any]", tokens)]

    def to_tokens(self, indices: Any) -> Any:
        """The token of an index, or a list of them for a list ``indices``.

        An index that is no integer, or too large, is a ValueError.
        """
        if isinstance(indices, list):
            return [self._token(i) for i in cast("list[Any]", indices)]
        return self._token(indices)

    def _token(self, index: Any) -> Any:
        # COMPAT(mxnet): a negative index is an error; there it counts from the end.
        if not isinstance(index, int) or not 0 <= index < len(self):
            raise ValueError(f"Token index {index!r} is invalid; it must be an integer from 0 to {len(self) - 1}")
        return self.idx_to_token[index]
