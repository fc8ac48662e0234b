"""What is around a test: variables of the environment, what it prints, repetition, devices, the machine."""

from __future__ import annotations

import functools
import os
import platform
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from hybridc import nd
from hybridc.errors import CheckError
from hybridc.io import DataIter
from hybridc.runtime import Features
from hybridc.util import get_gpu_count, setenv

T = TypeVar("T")


@contextmanager
def environment(*args: Any) -> Generator[None]:
    """Variables of the environment in a ``with`` block: a name and a value, or a dict; None unsets one."""
    if len(args) == 1 and isinstance(args[0], dict):
        wanted: dict[str, str | None] = dict(args[0])  # pyright: ignore[reportUnknownArgumentType]
    elif len(args) == 2:
        wanted = {args[0]: args[1]}
    else:
        raise CheckError("environment: Expecting one dict arg or two args: env var name and value")
    before = {name: os.environ.get(name) for name in wanted}
    try:
        for name, value in wanted.items():
            setenv(name, value)
        yield
    finally:
        nd.waitall()
        for name, value in before.items():
            setenv(name, value)


class EnvManager:
    """``with EnvManager(key, val):`` sets a variable of the environment; MXNet 1.7's name for :func:`environment`.

    Parameters
    ----------
    key:
        The name of the variable.
    val:
        Its value; None unsets it.
    """

    def __init__(self, key: str, val: str | None) -> None:
        self._wanted = (key, val)
        self._entered: list[Any] = []

    def __enter__(self) -> None:
        scope = environment(*self._wanted)
        scope.__enter__()
        self._entered.append(scope)

    def __exit__(self, *exc: Any) -> None:
        self._entered.pop().__exit__(*exc)


@contextmanager
def discard_stderr() -> Generator[None]:
    """Nothing that is written to stderr in a ``with`` block is seen, whether Python or a library in C writes it."""
    try:
        target = sys.stderr.fileno()
    except (AttributeError, OSError):  # not a file: a notebook's, or one that a test captures
        yield
        return
    sys.stderr.flush()
    kept = os.dup(target)
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), target)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, target)
        os.close(kept)


def retry(n: int) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Decorator: a test that may raise AssertionErrors, but not at each of ``n`` calls."""
    if n <= 0:
        raise CheckError(f"retry: n must be positive, got {n}")

    def decorate(f: Callable[..., Any]) -> Callable[..., None]:
        @functools.wraps(f)
        def repeated(*args: Any, **kwargs: Any) -> None:
            for i in range(n):
                try:
                    f(*args, **kwargs)
                except AssertionError:
                    if i == n - 1:
                        raise
                else:
                    return

        return repeated

    return decorate


def list_gpus() -> range:
    """The numbers of the GPUs on which arrays can be."""
    return range(get_gpu_count())


def is_cd_run() -> bool:
    """Whether a release is built: whether ``CD_JOB`` is 1."""
    return os.environ.get("CD_JOB", "") == "1"


def is_aarch64_run() -> bool:
    """Whether the processor is a 64-bit ARM."""
    return platform.machine() == "aarch64"


def has_tvm_ops() -> bool:
    """Whether there are operators made by TVM: no."""
    return Features().is_enabled("TVM_OP")


def is_op_runnable() -> bool:
    """Whether operators run on the default device; only those made by TVM might not."""
    return True


class DummyIter(DataIter, Generic[T]):
    """Gives the first batch of another iterator again and again; for measuring speed.

    Parameters
    ----------
    real_iter:
        The other iterator.
    """

    def __init__(self, real_iter: Any) -> None:
        super().__init__()
        self.real_iter = real_iter
        self.provide_data = real_iter.provide_data
        self.provide_label = real_iter.provide_label
        self.batch_size = real_iter.batch_size
        self.the_batch = next(real_iter)

    def __iter__(self) -> DummyIter[T]:
        return self

    def next(self) -> Any:
        """The batch."""
        return self.the_batch
