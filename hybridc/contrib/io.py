"""``mx.contrib.io``: a gluon DataLoader as an iterator of ``mx.io``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hybridc.errors import MXNetError
from hybridc.io import DataDesc, DataIter
from hybridc.nd import empty

__all__ = ["DataLoaderIter"]


class DataLoaderIter(DataIter):
    """The batches of a DataLoader of pairs (data, label); the last one is filled up to the size of the first.

    Its first batch is read at once, for the shapes. ``getpad`` says how many samples only fill up.

    Parameters
    ----------
    loader:
        A DataLoader whose batches are pairs (data, label); one without a batch is an MXNetError.
    data_name, label_name:
        The names of data and labels in ``provide_data`` and ``provide_label``.
    dtype:
        The dtype of data and labels.
    """

    def __init__(
        self, loader: Any, data_name: str = "data", label_name: str = "softmax_label", dtype: Any = "float32"
    ) -> None:
        super().__init__()
        self._loader = loader
        first = next(iter(loader), None)
        if first is None:
            raise MXNetError("DataLoaderIter: the loader has no batch, from which names and shapes would be known")
        data, label = first
        self.batch_size = data.shape[0]
        self.dtype = dtype
        self.provide_data = [DataDesc(data_name, data.shape, dtype)]
        self.provide_label = [DataDesc(label_name, label.shape, dtype)]
        self.reset()

    def state(self) -> dict[str, Any]:
        return self._loader.state()

    def load_state(self, state: Mapping[str, Any]) -> None:
        self._loader.load_state(state)
        if "batches" in state:
            self.reset()
        else:  # at the end of a pass: the next one begins with reset()
            self._iter = iter(())
            self._current_batch = None

    def reset(self) -> None:
        """Start over."""
        self._iter: Any = iter(self._loader)
        self._current_batch: Any = None

    def iter_next(self) -> bool:
        """Go on to the next batch; False at the end."""
        self._current_batch = next(self._iter, None)
        return self._current_batch is not None

    def getdata(self) -> list[Any]:
        """The data of this batch."""
        return [self._filled(self._current_batch[0])]

    def getlabel(self) -> list[Any]:
        """The labels of this batch."""
        return [self._filled(self._current_batch[1])]

    def getpad(self) -> int:
        """How many samples at the end of this batch only fill it up."""
        return self.batch_size - self._current_batch[0].shape[0]

    def _filled(self, part: Any) -> Any:
        if not self.getpad():
            return part.astype(self.dtype)
        # COMPAT(mxnet): the array has the iterator's dtype also where the batch is filled up; there float32.
        made = empty((self.batch_size, *part.shape[1:]), dtype=self.dtype)
        made[: part.shape[0]] = part.astype(self.dtype)
        made[part.shape[0] :] = 0
        return made
