# Written by python -m hybridc.stubs; do not edit.
# pyright: reportUnusedImport=false
from collections.abc import Sequence
from typing import Any

from numpy.typing import DTypeLike

from hybridc.array.operator_functions import *
from hybridc.symbol.composed import ComposedSymbol as ComposedSymbol
from hybridc.symbol.composed import load as load
from hybridc.symbol.composed import load_json as load_json
from hybridc.symbol.variables import Group as Group
from hybridc.symbol.variables import Variable as Variable
from hybridc.symbol.variables import var as var
from hybridc.trace.traced import Symbol as Symbol
from hybridc.symbol import contrib as contrib
from hybridc.symbol import image as image
from hybridc.symbol import linalg as linalg
from hybridc.symbol import op as op
from hybridc.symbol import random as random

def zeros(shape: int | Sequence[int], dtype: DTypeLike | None = None, **kwargs: Any) -> ComposedSymbol: ...
def ones(shape: int | Sequence[int], dtype: DTypeLike | None = None, **kwargs: Any) -> ComposedSymbol: ...
def full(shape: int | Sequence[int], val: float, dtype: DTypeLike | None = None, **kwargs: Any) -> ComposedSymbol: ...
def eye(N: int, M: int = 0, k: int = 0, dtype: DTypeLike | None = None, **kwargs: Any) -> ComposedSymbol: ...
def arange(
    start: float,
    stop: float | None = None,
    step: float = 1.0,
    repeat: int = 1,
    infer_range: bool = False,
    name: str | None = None,
    dtype: DTypeLike | None = None,
) -> ComposedSymbol: ...
def linspace(
    start: float, stop: float, num: int, endpoint: bool = True, name: str | None = None, dtype: DTypeLike | None = None
) -> ComposedSymbol: ...
