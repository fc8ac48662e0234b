"""What a call of ``mx.np`` costs beside its twin of ``mx.nd``: ``python -m benchmarks.np_calls [recorded]``.

Both twins run in one process, in turns, on small arrays, where the call is all that is paid for. Printed are
nanoseconds of the fastest of many rounds, and their ratio. With ``recorded`` each call is put on the tape.
"""

from __future__ import annotations

import sys
import timeit
from collections.abc import Callable
from typing import Any

from hybridc import autograd, nd, np

ROUNDS, CALLS = 60, 400
# Ratios above this are printed with a mark.
LIMIT = 1.3


def twins() -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """The calls by name: of ``mx.np`` and of ``mx.nd``."""
    a, b = nd.random.uniform(shape=(8, 8)), nd.random.uniform(shape=(8, 8))
    x, y = a.as_np_ndarray(), b.as_np_ndarray()
    for array in (a, b, x, y):
        array.attach_grad()
    return {
        "add(x, y)": (lambda: np.add(x, y), lambda: nd.broadcast_add(a, b)),
        "x + y": (lambda: x + y, lambda: a + b),
        "x + 1.0": (lambda: x + 1.0, lambda: a + 1.0),
        "1 - x": (lambda: 1 - x, lambda: 1 - a),
        "x / y": (lambda: x / y, lambda: a / b),
        "x ** 2": (lambda: x**2, lambda: a**2),
        "x > 0": (lambda: x > 0, lambda: a > 0),
        "x == y": (lambda: x == y, lambda: a == b),
        "maximum(x, y)": (lambda: np.maximum(x, y), lambda: nd.broadcast_maximum(a, b)),
        "exp(x)": (lambda: np.exp(x), lambda: nd.exp(a)),
        "-x": (lambda: -x, lambda: -a),
        "sqrt(x)": (lambda: np.sqrt(x), lambda: nd.sqrt(a)),
        "sum(x)": (lambda: np.sum(x), lambda: nd.sum(a)),
        "x.sum(0)": (lambda: x.sum(0), lambda: a.sum(0)),
        "x.mean()": (lambda: x.mean(), lambda: a.mean()),
        "x.max(1)": (lambda: x.max(1), lambda: a.max(1)),
        "x.mean(1, keepdims)": (lambda: x.mean(1, keepdims=True), lambda: a.mean(1, keepdims=True)),
        "x.argmax(1)": (lambda: x.argmax(1), lambda: a.argmax(1)),
    }


def seconds(function: Callable[[], Any], recorded: bool) -> float:
    """The time of one call."""
    if not recorded:
        return timeit.timeit(function, number=CALLS) / CALLS
    with autograd.record():
        return timeit.timeit(function, number=CALLS) / CALLS


def main() -> None:
    """Print the table."""
    recorded = "recorded" in sys.argv[1:]
    print(f"{'call':22}{'np, ns':>9}{'nd, ns':>9}{'ratio':>8}")
    for name, (ours, theirs) in twins().items():
        rounds = [(seconds(ours, recorded), seconds(theirs, recorded)) for _ in range(ROUNDS)]
        fast, slow = min(t for t, _ in rounds), min(t for _, t in rounds)
        mark = "  above the limit" if fast > LIMIT * slow else ""
        print(f"{name:22}{fast * 1e9:9.0f}{slow * 1e9:9.0f}{fast / slow:8.2f}{mark}")


if __name__ == "__main__":
    main()
