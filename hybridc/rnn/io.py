"""Sentences as batches: words as numbers, sentences of like lengths in one bucket."""

from __future__ import annotations

import bisect
import random
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hybridc import nd
from hybridc.errors import AttributeValueError, CheckError
from hybridc.io import DataBatch, DataDesc, DataIter


def encode_sentences(
    sentences: Iterable[Sequence[Any]],
    vocab: dict[Any, int] | None = None,
    invalid_label: int = -1,
    invalid_key: Any = "\n",
    start_label: int = 0,
    unknown_token: Any = None,
) -> tuple[list[list[int]], dict[Any, int]]:
    """The words of each sentence as numbers, and the vocabulary.

    Parameters
    ----------
    sentences:
        Lists of words.
    vocab:
        A dict of the numbers of words; None makes one, in the order of the words.
    invalid_label:
        The number that no word gets.
    invalid_key:
        The word that has it in a new vocabulary.
    start_label:
        The number of the first word.
    unknown_token:
        The word that stands for all that ``vocab`` has not; None makes one a CheckError.
    """
    known = {invalid_key: invalid_label} if vocab is None else vocab
    number = start_label
    coded: list[list[int]] = []
    for sentence in sentences:
        numbers: list[int] = []
        for word in sentence:
            if word not in known:
                if vocab is not None and not unknown_token:
                    raise CheckError(f"encode_sentences: Unknown token {word}; add it to vocab, or give unknown_token")
                # COMPAT(mxnet): the token's own number is replaced at each unknown word there.
                word = unknown_token or word
            if word not in known:
                number += number == invalid_label
                known[word] = number
                number += 1
            numbers.append(known[word])
        coded.append(numbers)
    return coded, known


class BucketSentenceIter(DataIter):
    """Batches of encoded sentences for language models: the label of a word is the next one.

    A batch's ``DataBatch.bucket_key`` is its length.

    Parameters
    ----------
    sentences:
        Lists of numbers.
    batch_size:
        How many sentences a batch has.
    buckets:
        Lengths: a sentence is padded to the next of them, longer ones are left out; None is every length of which
        the sentences fill a batch.
    invalid_label:
        What sentences are padded with.
    data_name, label_name:
        The names of data and labels in ``provide_data`` and ``provide_label``.
    dtype:
        The dtype of both.
    layout:
        ``"NT"`` (batch, steps) or ``"TN"``.
    """

    def __init__(
        self,
        sentences: Sequence[Sequence[int]],
        batch_size: int,
        buckets: list[int] | None = None,
        invalid_label: int = -1,
        data_name: str = "data",
        label_name: str = "softmax_label",
        dtype: Any = "float32",
        layout: str = "NT",
    ) -> None:
        super().__init__(batch_size)
        if layout not in ("NT", "TN"):
            raise AttributeValueError(f"Invalid layout {layout}: Must by NT (batch major) or TN (time major)")
        lengths = [len(sentence) for sentence in sentences]
        if not buckets:
            counts = np.bincount(lengths) if lengths else np.zeros(0, int)
            buckets = [length for length, count in enumerate(counts) if count >= batch_size]
        padded: dict[int, list[Any]] = {length: [] for length in sorted(buckets)}
        left_out = 0
        for sentence in sentences:
            place = bisect.bisect_left(list(padded), len(sentence))
            if place == len(padded):
                left_out += 1
                continue
            length = list(padded)[place]
            row = np.full((length,), invalid_label, dtype)
            row[: len(sentence)] = sentence
            padded[length].append(row)
        # COMPAT(mxnet): it prints this, also of no sentence.
        if left_out:
            warnings.warn(f"discarded {left_out} sentences longer than the largest bucket", stacklevel=2)
        self.buckets = [length for length, rows in padded.items() if rows]
        if not self.buckets:
            raise AttributeValueError(
                f"BucketSentenceIter: no bucket of {list(padded)} has a sentence, of lengths {sorted(set(lengths))}; "
                "give buckets, or a smaller batch_size"
            )
        self.data: list[Any] = [np.asarray(rows, dtype) for rows in padded.values() if rows]
        self.data_name, self.label_name = data_name, label_name
        self.dtype, self.layout, self.invalid_label = dtype, layout, invalid_label
        self.major_axis = layout.find("N")
        self.default_bucket_key = max(self.buckets)
        self.provide_data = self._described(data_name, self.default_bucket_key)
        self.provide_label = self._described(label_name, self.default_bucket_key)
        self.idx = [
            (i, j) for i, rows in enumerate(self.data) for j in range(0, len(rows) - batch_size + 1, batch_size)
        ]
        self.reset()

    def _described(self, name: str, length: int) -> list[DataDesc]:
        shape = (self.batch_size, length) if self.major_axis == 0 else (length, self.batch_size)
        return [DataDesc(name=name, shape=shape, layout=self.layout)]

    def reset(self) -> None:
        """Start over, in another order."""
        self.curr_idx = 0
        random.shuffle(self.idx)
        for rows in self.data:
            np.random.shuffle(rows)
        self._make_arrays()

    def state(self) -> dict[str, Any]:
        return {"curr_idx": self.curr_idx, "idx": [*self.idx], "data": [rows.copy() for rows in self.data]}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.curr_idx, self.idx, self.data = state["curr_idx"], [*state["idx"]], [*state["data"]]
        self._make_arrays()

    def _make_arrays(self) -> None:
        self.nddata: list[Any] = []
        self.ndlabel: list[Any] = []
        for rows in self.data:
            last = np.full((len(rows), 1), self.invalid_label, rows.dtype)
            self.nddata.append(nd.array(rows, dtype=self.dtype))
            self.ndlabel.append(nd.array(np.concatenate([rows[:, 1:], last], axis=1), dtype=self.dtype))

    def next(self) -> DataBatch:
        """The next batch."""
        if self.curr_idx == len(self.idx):
            raise StopIteration
        bucket, row = self.idx[self.curr_idx]
        self.curr_idx += 1
        batch = slice(row, row + self.batch_size)
        arrays = [self.nddata[bucket][batch], self.ndlabel[bucket][batch]]
        data, label = [x.T for x in arrays] if self.major_axis == 1 else arrays
        length = self.buckets[bucket]
        return DataBatch(
            [data],
            [label],
            pad=0,
            bucket_key=length,
            provide_data=self._described(self.data_name, length),
            provide_label=self._described(self.label_name, length),
        )
