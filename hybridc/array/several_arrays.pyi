# Written by python -m hybridc.stubs; do not edit.
# pyright: reportUnusedImport=false
"""Several arrays, of which the type does not say whether they are a list: these have what both would have."""
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
# pyright: reportGeneralTypeIssues=false
from collections.abc import Iterator
from typing import Any

from hybridc.array.ndarray import NDArray

class Arrays(list[NDArray], dict[Any, NDArray]):
    """The arrays of a file: a list, or a dict if they have names."""

    def __getitem__(self, key: Any, /) -> NDArray: ...
    def __iter__(self) -> Iterator[Any]: ...

class Batch(NDArray, list[NDArray]):
    """A batch: an array, or a list of them where samples have several parts."""

    def __getitem__(self, key: Any, /) -> NDArray: ...
    def __iter__(self) -> Iterator[NDArray]: ...
