"""Data sets of texts, from files that are here: nothing is downloaded."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from hybridc.array.ndarray import NDArray
from hybridc.array.numpy_array import as_default
from hybridc.base import data_dir
from hybridc.contrib.text.utils import count_tokens_from_str
from hybridc.contrib.text.vocab import Vocabulary
from hybridc.errors import AttributeValueError, MXNetError
from hybridc.gluon.data.dataset import Dataset
from hybridc.ground.unpacking import opened_zip, unpack

__all__ = ["WikiText103", "WikiText2"]

_END_OF_SENTENCE = "<eos>"
_DEFAULT_2, _DEFAULT_103 = (os.path.join(data_dir(), "datasets", name) for name in ("wikitext-2", "wikitext-103"))


class _WikiText(Dataset):
    """The tokens of articles, as indices: samples are (``seq_len`` tokens, the tokens that follow each of them)."""

    ARCHIVE: ClassVar[str] = ""
    FILES: ClassVar[dict[str, str]] = {
        "train": "wiki.train.tokens",
        "validation": "wiki.valid.tokens",
        "test": "wiki.test.tokens",
    }

    def __init__(self, root: str | os.PathLike[str], segment: str, vocab: Any, seq_len: int) -> None:
        if segment not in self.FILES:
            raise AttributeValueError(
                f"{type(self).__name__}: segment must be one of {', '.join(self.FILES)}, got {segment!r}"
            )
        self._root = Path(root).expanduser()
        self._vocab = vocab
        self._counter: Counter[str] | None = None
        self._seq_len = seq_len
        indices = self._indices(self._file(self.FILES[segment]).read_text(encoding="utf8"))
        count = max(0, len(indices) - 1) // seq_len * seq_len
        self._data = as_default(NDArray(indices[:count].reshape(-1, seq_len)))
        self._label = as_default(NDArray(indices[1 : count + 1].reshape(-1, seq_len)))

    @property
    def vocabulary(self) -> Any:
        """The vocabulary whose indices the tokens have."""
        return self._vocab

    @property
    def frequencies(self) -> Counter[str] | None:
        """How often each token is in the text."""
        return self._counter

    def _file(self, name: str) -> Path:
        """The file of the tokens, unpacked from the archive if it is not."""
        path, archive = self._root / name, self._root / self.ARCHIVE
        if path.is_file():
            return path
        if not archive.is_file():
            raise MXNetError(
                f"{type(self).__name__}: there is neither {name} nor {self.ARCHIVE} in {self._root}. hybridc downloads "
                "nothing: put one of them, as its authors publish it, into that folder, or say by root=… where it is"
            )
        with opened_zip(archive) as files:
            member = next((each for each in files.namelist() if Path(each).name == name), None)
            if member is None:
                raise MXNetError(f"{archive} has no {name}; it holds {', '.join(files.namelist())}")
            unpack(files, member, path)
        return path

    def _indices(self, text: str) -> Any:
        """The indices of all tokens; each line that is not empty ends with ``<eos>``."""
        self._counter = count_tokens_from_str(text)
        if self._vocab is None:
            self._vocab = Vocabulary(counter=self._counter, reserved_tokens=[_END_OF_SENTENCE])
        lines = [line.split() for line in text.splitlines()]
        tokens = [token for line in lines if line for token in (*line, _END_OF_SENTENCE)]
        return np.array(self._vocab.to_indices(tokens), dtype=np.int32)

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        return self._data[idx], self._label[idx]

    def __len__(self) -> int:
        return len(self._label)


class WikiText2(_WikiText):
    """WikiText-2: two million tokens of articles, from ``wikitext-2-v1.zip`` or what it holds.

    Parameters
    ----------
    root:
        The folder of the archive, or of the files in it, which are not downloaded.
    segment:
        ``"train"``, ``"validation"`` or ``"test"``; others are an AttributeValueError.
    vocab:
        The Vocabulary; None makes one of the segment's tokens.
    seq_len:
        How many tokens a sample has.
    """

    ARCHIVE = "wikitext-2-v1.zip"

    def __init__(
        self,
        root: str | os.PathLike[str] = _DEFAULT_2,
        segment: str = "train",
        vocab: Any = None,
        seq_len: int = 35,
    ) -> None:
        super().__init__(root, segment, vocab, seq_len)


class WikiText103(_WikiText):
    """WikiText-103: a hundred million tokens, from ``wikitext-103-v1.zip`` or what it holds.

    Parameters
    ----------
    root:
        The folder of the archive, or of the files in it, which are not downloaded.
    segment:
        ``"train"``, ``"validation"`` or ``"test"``; others are an AttributeValueError.
    vocab:
        The Vocabulary; None makes one of the segment's tokens.
    seq_len:
        How many tokens a sample has.
    """

    ARCHIVE = "wikitext-103-v1.zip"

    def __init__(
        self,
        root: str | os.PathLike[str] = _DEFAULT_103,
        segment: str = "train",
        vocab: Any = None,
        seq_len: int = 35,
    ) -> None:
        super().__init__(root, segment, vocab, seq_len)
