"""Updates of the rows of a weight that a row_sparse gradient has; the others, and their states, stay as they are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np

from hybridc.array.ndarray import NDArray
from hybridc.autograd import pause
from hybridc.ground.hooks import HOOKS
from hybridc.ground.watches import written
from hybridc.optimizer.binding import Row, states_of
from hybridc.optimizer.formula import Formula, Values
from hybridc.sparse_storage import put_rows, rows_of

if TYPE_CHECKING:
    from hybridc.optimizer.base_optimizer import Optimizer


def is_of_rows(optimizer: Optimizer, row: Row) -> bool:
    """Whether an update concerns the rows of its gradient alone."""
    return optimizer.BY_ROWS and optimizer.lazy_update and row[2].stype == "row_sparse"


def with_dense_gradient(row: Row) -> Row:
    """The update with its gradient as a dense array."""
    index, weight, grad, state, half = row
    return row if grad.stype == "default" else (index, weight, grad.tostype("default"), state, half)


def update_rows(formula: Formula, row: Row, values: Values) -> None:
    """One update of the rows of the gradient, by the optimizer's formula."""
    _, weight, grad, state, half = row
    rows, targets = grad._data.indices, (weight, *states_of(state))
    if not len(rows):
        return
    old = [NDArray(rows_of(x._data, rows)) for x in targets]
    gradient = NDArray(grad._data.data.astype(weight.dtype, copy=False))
    with pause(), np.errstate(all="ignore"):
        new = formula(HOOKS.arrays(), old[0], gradient, tuple(old[1:]), SimpleNamespace(**values))
    results = [*zip(targets, new, strict=True), *([] if half is None else [(half, new[0])])]
    for x, result in results:
        buffer = x._data
        x._data = put_rows(buffer, rows, result._data)
        if x.stype == "default":
            written(buffer)
