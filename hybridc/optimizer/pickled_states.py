"""Optimizer states that MXNet saved, which are pickles: read as data.

No class or function that a pickle names is looked up: each stands for a record of its name, arguments and attributes,
so that reading runs no code of the pickle's choice.
"""

from __future__ import annotations

import io
import pickle  # noqa: TID251 - its names are resolved to records only
import struct
from typing import Any, cast

import numpy as np

from hybridc import nd
from hybridc.array.ndarray import NDArray

# The head of a file of one array, and its end without names: the bytes of an array alone are in the pickle.
_HEAD, _END = struct.pack("<QQQ", 0x112, 0, 1), struct.pack("<Q", 0)
# The attributes of an optimizer that another one does not take over: they are of its process, or of MXNet's working.
_LEFT = frozenset({"lr_scheduler", "sym_info", "_index_update_count", "allow_np_array", "param_dict", "aggregate_num"})
# NumPy's numbers, and what MXNet pickles the bytes of an array as.
_NUMBERS = frozenset({"numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar"})
_KNOWN = frozenset({"builtins.bytearray", "numpy.dtype", *_NUMBERS})


class _Record:
    """What a pickle made by calling something: its name, the arguments, and the attributes set later."""

    name: str = ""

    def __new__(cls, *arguments: Any) -> _Record:
        made = super().__new__(cls)
        made.arguments = arguments
        made.attributes = {}
        return made

    def __init__(self, *_: Any) -> None:
        self.arguments: tuple[Any, ...]
        self.attributes: dict[str, Any]

    def __setstate__(self, state: Any) -> None:
        self.attributes = cast("dict[str, Any]", state) if isinstance(state, dict) else {}


class _Unpickler(pickle.Unpickler):
    """An unpickler that knows no class."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        """A class of records for each name that belongs in optimizer states."""
        name = f"{module_name}.{global_name}"
        if name not in _KNOWN and not name.startswith("mxnet."):
            raise ValueError(
                f"it names {name}, which does not belong in optimizer states; states without the optimizer, "
                "get_states(dump_optimizer=False), hold arrays only"
            )
        return type(global_name, (_Record,), {"name": name})


def read_pickled(data: bytes) -> dict[str, Any]:
    """The states, and the settings of the optimizer and its schedule if they are there.

    Raises:
        ValueError, TypeError, …: the pickle is damaged, or holds what MXNet does not put there.
    """
    found = _Unpickler(io.BytesIO(data)).load()
    if not isinstance(found, tuple):
        return {"states": _states(found)}
    states, optimizer = cast("tuple[Any, Any]", found)
    attributes = _expect(_Record, optimizer).attributes
    content = {"states": _states(states), "optimizer": _described(optimizer)}
    if attributes.get("lr_scheduler") is not None:
        content["lr_scheduler"] = _described(attributes["lr_scheduler"])
    return content


def _states(value: Any) -> dict[Any, Any]:
    return {_expect(int | str, key): _state(state) for key, state in _expect(dict, value).items()}


def _state(value: Any) -> Any:
    """None, an array, or a list or tuple of these."""
    if isinstance(value, list | tuple):
        items = [_state(v) for v in cast("list[Any]", value)]
        return items if isinstance(value, list) else tuple(items)
    return None if value is None else _array(_expect(_Record, value))


def _described(record: Any) -> dict[str, Any]:
    """The class of an optimizer or a schedule, and its attributes, as the updater's own format has them."""
    attributes = _expect(_Record, record).attributes
    name = record.name.rpartition(".")[2]
    return {"class": name, "attributes": {k: _plain(v) for k, v in attributes.items() if k not in _LEFT}}


def _plain(value: Any) -> Any:
    """Arrays, numbers, texts, and lists, tuples and dicts of them."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        items = [_plain(v) for v in cast("list[Any]", value)]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {_expect(int | str, k): _plain(v) for k, v in cast("dict[Any, Any]", value).items()}
    record = _expect(_Record, value)
    return _number(record) if record.name in _NUMBERS else _array(record)


def _number(record: _Record) -> Any:
    code, raw = record.arguments
    dtype = np.dtype(_expect(str, _expect(_Record, code).arguments[0]))
    if dtype.kind not in "fiub":
        raise TypeError(f"it holds a {dtype}, expected a number")
    return np.frombuffer(_expect(bytes, raw), dtype.newbyteorder("<"), 1)[0].item()


def _array(record: _Record) -> NDArray:
    if record.name.rpartition(".")[2] != "NDArray":
        raise ValueError(f"it holds a {record.name}, which does not belong in optimizer states")
    (raw,) = _expect(_Record, record.attributes["handle"]).arguments
    return nd.load_frombuffer(_HEAD + _expect(bytes, raw) + _END)[0]


def _expect(kind: Any, value: Any) -> Any:
    """The value, which must be of this kind."""
    if not isinstance(value, kind):
        raise TypeError(f"it holds a {type(value).__name__} where {kind} is expected")
    return value
