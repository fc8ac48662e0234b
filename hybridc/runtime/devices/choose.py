"""Which devices there are: what ``HYBRIDC_GPU`` says, or whatever this machine has."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from dataclasses import dataclass

from hybridc.errors import UnsupportedError
from hybridc.options import OPTIONS
from hybridc.runtime.devices import cupy_card, torch_card
from hybridc.runtime.devices.cuda import Cuda
from hybridc.runtime.devices.cupy_card import CupyCard
from hybridc.runtime.devices.device import Device
from hybridc.runtime.devices.driver import Driver, driver
from hybridc.runtime.devices.interpreter import Interpreter
from hybridc.runtime.devices.torch_card import TorchCard


@dataclass(frozen=True)
class _Kind:
    """A way to use cards: what it needs to be there, and to make the device of a card."""

    needs: str
    there: Callable[[Driver], bool]
    make: Callable[[Driver, int], Device]


_MADE: weakref.WeakSet[Device] = weakref.WeakSet()
# In the order in which they are tried: memory is shared with a library that is there.
_KINDS = {
    "torch": _Kind("PyTorch with CUDA", torch_card.there, TorchCard),
    "cupy": _Kind("CuPy", cupy_card.there, CupyCard),
    "cuda": _Kind("NVIDIA's driver", lambda _: True, Cuda),
}


def count() -> int:
    """How many devices there are for GPU arrays."""
    if OPTIONS.gpu == "interpreter":
        return 1
    found = driver()
    return 0 if found is None or _kind(found) is None else found.count()


@functools.cache
def device(index: int = 0) -> Device:
    """The device of ``mx.gpu(index)``.

    Raises:
        UnsupportedError: there is none, or none that can be used.
    """
    wanted = OPTIONS.gpu
    if wanted == "interpreter":
        if index:
            raise UnsupportedError(f"gpu({index}): the interpreter is one device, gpu(0)")
        return Interpreter()
    found = driver()
    kind = None if found is None else _kind(found)
    if found is None or kind is None:
        raise UnsupportedError(_missing(index, found is not None))
    if not 0 <= index < found.count():
        raise UnsupportedError(f"gpu({index}): this machine has {found.count()} GPUs, numbered from 0")
    made = kind.make(found, index)
    _MADE.add(made)
    return made


def synchronise() -> None:
    """Return when the work of all devices is done."""
    for made in list(_MADE):
        made.synchronise()


def _kind(found: Driver) -> _Kind | None:
    """The way that is wanted, if what it needs is there."""
    if OPTIONS.gpu in _KINDS:
        kind = _KINDS[OPTIONS.gpu]
        return kind if kind.there(found) else None
    return next((kind for kind in _KINDS.values() if kind.there(found)), None)


def _missing(index: int, has_card: bool) -> str:
    """What to do where there is no device."""
    if has_card:
        return f"gpu({index}): HYBRIDC_GPU={OPTIONS.gpu} needs {_KINDS[OPTIONS.gpu].needs}, which is not installed"
    return (
        f"gpu({index}): no GPU of NVIDIA's and no driver for it were found. Arrays on GPUs need both, and "
        'pip install "hybridc[triton]", best with PyTorch or CuPy beside it; use ctx=mx.cpu() without. '
        "HYBRIDC_GPU=interpreter runs GPU code on the CPU, slowly, for tests"
    )
