"""Damaged files: what is read from them is right, or a clear error; never another exception, a crash or a hang.

Files of arrays (MXNet's, safetensors, npz), symbols in JSON, and states of optimizers are made from random arrays and
programs, and changed: bytes flipped, cut out, repeated, replaced by extreme numbers; in JSON also values. What can
still be read must survive being written and read once more. Entries of the cache are changed on the disk between two
processes: the second must compute what it must.
"""

from __future__ import annotations

import base64
import io
import json
import math
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from hybridc import nd, optimizer, symbol
from hybridc import random as random_state
from hybridc.array.dispatch import invoke
from hybridc.array.ndarray import NDArray
from hybridc.dtypes import is_float
from hybridc.errors import MXNetError
from hybridc.ground.nesting import as_list
from hybridc.nd.creation import array
from hybridc.tools.fuzz.check_program import is_raw
from hybridc.tools.fuzz.generate import program as generated
from hybridc.tools.fuzz.random_program import FLOATS, INTEGERS, Array, RandomProgram

_SIZES = ((), (0,), (1,), (3,), (2, 3), (2, 0, 2), (1, 2, 1, 3))
# What a number becomes: at the ends of what types hold, where overflows and signs go wrong.
_NUMBERS = (0, 1, -1, 7, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, -(2**63))
_VALUES: tuple[Any, ...] = (
    None,
    0,
    -1,
    1,
    2**31,
    2**70,
    1.5,
    "",
    "0",
    "x",
    "(2, 3)",
    "()",
    "None",
    [],
    [[0, 0, 0]],
    {},
)
LARGEST = 10**6  # elements of a result that is still computed


# --- files ----------------------------------------------------------------------------------------------------


def made(kind: str, random: Random) -> bytes:
    """A good file of this kind."""
    return onnx_files().made(random) if kind == "onnx" else MAKERS[kind](random)


def onnx_files() -> Any:
    """The module of ONNX files, which needs the package onnx."""
    from hybridc.tools.fuzz import onnx_files

    return onnx_files


def _arrays(random: Random) -> list[NDArray]:
    dtypes = (*FLOATS, *INTEGERS)
    return [
        array(np.arange(int(np.prod(shape))).reshape(shape), dtype=random.choice(dtypes))
        for shape in random.choices(_SIZES, k=random.randint(0, 3))
    ]


def _params(random: Random) -> bytes:
    arrays = [x.tostype(random.choice(_stypes(x))) for x in _arrays(random)]
    return _saved({f"arg:w{i}": x for i, x in enumerate(arrays)} if random.random() < 0.5 else arrays, "file")


def _stypes(x: NDArray) -> tuple[str, ...]:
    """The storage types that an array can have, dense as often as sparse."""
    sparse = ("csr", "row_sparse") if x.ndim == 2 else ("row_sparse",) if x.ndim else ()
    return ("default",) * max(len(sparse), 1) + sparse


def _safetensors(random: Random) -> bytes:
    metadata = {"format": "np"} if random.random() < 0.3 else None
    return _saved(dict(zip("abc", _arrays(random), strict=False)), "file.safetensors", metadata)


def _npz(random: Random) -> bytes:
    arrays = {f"w{i}": x.asnumpy() for i, x in enumerate(_arrays(random))}
    out = io.BytesIO()
    save = np.savez_compressed if random.random() < 0.5 else np.savez
    save(out, allow_pickle=False, **arrays)  # pyright: ignore[reportArgumentType]
    return out.getvalue()


def _saved(arrays: Any, name: str, metadata: dict[str, str] | None = None) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        nd.save(Path(folder) / name, arrays, metadata)
        return (Path(folder) / name).read_bytes()


def symbol_of(program: RandomProgram) -> Any:
    """The program as a symbol of variables v0, v1, …"""
    known: list[Any] = []
    for i, each in enumerate(program.inputs):
        known.append(symbol.var(f"v{i}") if each.same_as is None else known[each.same_as])
    for step in program.steps:
        made: Any = invoke(step.bound(), [known[i] for i in step.operands])
        known += [made] if step.results == 1 else [made[i] for i in range(step.results)]
    outputs = [known[i] for i in program.outputs if not isinstance(known[i], NDArray)]
    if not outputs:
        raise MXNetError("no output depends on an input")
    return symbol.Group(outputs)


def _symbol(random: Random) -> bytes:
    while True:
        program = generated(random.randrange(10**6), 0)
        if len(program.steps) <= 5:
            try:
                return symbol_of(program).tojson().encode()
            except MXNetError:  # an operator that MXNet lacks, or that needs to know shapes
                continue


def _states(random: Random) -> bytes:
    updater = optimizer.get_updater(optimizer.create(random.choice(("sgd", "adam", "ftrl", "nag")), learning_rate=0.1))
    for i in range(random.randint(1, 3)):
        weight = array(np.ones((2, i + 1)), dtype="float32")
        updater(i, weight * 0.1, weight)
    return updater.get_states(dump_optimizer=random.random() < 0.5)


MAKERS: dict[str, Callable[[Random], bytes]] = {
    "params": _params,
    "safetensors": _safetensors,
    "npz": _npz,
    "symbol": _symbol,
    "states": _states,
}


# --- damage ---------------------------------------------------------------------------------------------------


def damaged(kind: str, data: bytes, random: Random) -> bytes:
    """The file with some changes."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        if kind == "symbol" and random.random() < 0.7:
            data = _with_other_value(data, random)
        elif kind in ("states", "npz") and random.random() < 0.6:
            data = _with_other_member(data, random)
        elif kind == "onnx" and random.random() < 0.7:
            data = onnx_files().with_other_field(data, random) or _with_other_bytes(data, random)
        elif kind == "safetensors" and random.random() < 0.6:
            data = _with_other_header(data, random)
        else:
            data = _with_other_bytes(data, random)
    return data


def _with_other_bytes(data: bytes, random: Random) -> bytes:
    if not data:
        return b"\0"
    at = random.randrange(len(data))
    other = random.randrange(len(data))
    match random.randrange(7):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :]
        case 2:
            return data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]
        case 3:
            return data[:at] + data[at + random.randint(1, 8) :]
        case 4:
            return data[:at] + data[other : other + random.randint(1, 16)] + data[at:]
        case 5:
            size = random.choice((4, 8))
            number = random.choice(_NUMBERS) % (1 << 8 * size)
            at -= at % 4
            return data[:at] + number.to_bytes(size, "little") + data[at + size :]
        case _:
            return data + bytes(random.randint(1, 9))


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every container and key in nested lists and dicts."""
    keys: list[Any] = list(value) if hasattr(value, "keys") else list(range(len(value)))
    found: list[tuple[Any, Any]] = [(value, key) for key in keys]
    for key in keys:
        if isinstance(value[key], list | dict):
            found += _places(value[key])
    return found


def _with_other_value(data: bytes, random: Random) -> bytes:
    """JSON in which a value is another one, or is missing."""
    try:
        content: Any = json.loads(data)
    except (ValueError, RecursionError):
        return _with_other_bytes(data, random)
    if not isinstance(content, dict | list) or not content:
        return _with_other_bytes(data, random)
    container, key = random.choice(_places(content))
    choice = random.random()
    if choice < 0.15:
        del container[key]
    elif choice < 0.3:
        other, place = random.choice(_places(content))
        container[key] = json.loads(json.dumps(other[place]))
    elif choice < 0.5 and isinstance(container[key], str):
        text = container[key]
        container[key] = random.choice((text + "0", text[1:], f"-{text}", text.replace("1", "9" * 30), f"({text},)"))
    elif isinstance(container[key], int) and choice < 0.6:
        container[key] = container[key] + random.choice((-1, 1, 10))
    else:
        container[key] = random.choice(_VALUES)
    return json.dumps(content).encode()


def _with_other_header(data: bytes, random: Random) -> bytes:
    """A safetensors file whose header says something else; its length is right, or what it was."""
    end = 8 + int.from_bytes(data[:8], "little")
    header = _with_other_value(data[8:end], random)
    length = data[:8] if random.random() < 0.2 else len(header).to_bytes(8, "little")
    return length + header + data[end:]


def _with_other_member(data: bytes, random: Random) -> bytes:
    """An npz in which one array is another one, or JSON inside it says something else."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            members: dict[str, Array] = {name: file[name] for name in file.files}
    except Exception:
        return _with_other_bytes(data, random)
    if not members:
        return _with_other_bytes(data, random)
    name = random.choice(sorted(members))
    if name == "json" and random.random() < 0.8:
        members[name] = np.frombuffer(_with_other_value(members[name].tobytes(), random), np.uint8)
    elif random.random() < 0.3:
        del members[name]
    else:
        members[name] = random.choice(
            (np.zeros((2, 1)), np.zeros(0, np.int64), np.array("text"), np.ones((1, 2), "f2"), np.zeros(3, "V2"))
        )
    out = io.BytesIO()
    np.savez(out, allow_pickle=False, **members)  # pyright: ignore[reportArgumentType]
    return out.getvalue()


# --- reading --------------------------------------------------------------------------------------------------


def read(kind: str, data: bytes) -> tuple[str, str] | None:
    """The failure of reading a file: its kind and the particulars, or None."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            problem = READERS[kind](data)
    except (MXNetError, MemoryError) as error:
        if is_raw(error) and not isinstance(error, MemoryError):
            return f"raw {type(error).__name__}", f"{kind}: {error}"
        return None
    except Exception as error:
        return f"raw {type(error).__name__}", f"{kind}: {type(error).__name__}: {error}"
    return None if problem is None else (f"wrong {kind}", problem)


def _read_params(data: bytes) -> str | None:
    return _read_arrays(data, "file")


def _read_safetensors(data: bytes) -> str | None:
    return _read_arrays(data, "file.safetensors")


def _read_npz(data: bytes) -> str | None:
    return _read_arrays(data, "file.npz")


def _read_arrays(data: bytes, name: str) -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        loaded: Any = nd.load(path)
        if not loaded:
            return None
        # Another format may be in the file than its name says; what is in a list has no names.
        nd.save(path, loaded if hasattr(loaded, "values") else {f"w{i}": x for i, x in enumerate(loaded)})
        again = nd.load(path)
    first, second = _values(loaded), _values(again)
    if len(first) != len(second):
        return f"{len(first)} arrays became {len(second)} when written and read again"
    for a, b in zip(first, second, strict=True):
        if (a.shape, a.dtype) != (b.shape, b.dtype) or a.tobytes() != b.tobytes():
            return f"{a.dtype}{list(a.shape)} became {b.dtype}{list(b.shape)} when written and read again"
    return None


def _values(loaded: Any) -> list[Array]:
    """The arrays that are stored: of a sparse one values and indices, whose shape may be of any size."""
    arrays: list[NDArray] = list(loaded.values()) if hasattr(loaded, "values") else list(loaded)
    found: list[Array] = []
    for x in arrays:
        stored: Any = x._data
        found += [x.asnumpy()] if x.stype == "default" else [np.array(x.shape), stored.data, *stored.auxiliary]
    return found


def _read_symbol(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None  # load_json takes text
    loaded = symbol.load_json(text)
    written = loaded.tojson()
    if symbol.load_json(written).tojson() != written:
        return "the symbol changes when it is written and read again"
    names = [*loaded.list_arguments(), *loaded.list_auxiliary_states()]
    shapes = dict.fromkeys(loaded.list_arguments(), (2, 3))
    outputs: list[tuple[int, ...]] | None = loaded.infer_shape(**shapes)[1]
    if outputs is None or any(math.prod(s) > LARGEST for s in outputs):
        return None
    loaded.eval(**{name: nd.ones((2, 3)) for name in names})
    return None


def _read_states(data: bytes) -> str | None:
    updater = optimizer.get_updater(optimizer.create("sgd", learning_rate=0.1))
    updater.set_states(data)
    updater.get_states()
    return None


def _read_program(data: bytes) -> str | None:
    """A program in JSON, written as a symbol and read again: it must give what it gave."""
    program = RandomProgram.from_json(data.decode())
    made = symbol_of(program)
    text = made.tojson(remove_amp_cast=False)
    values = {f"v{i}": x for i, x in enumerate(program.arrays()) if program.inputs[i].same_as is None}
    results: list[list[Array]] = []
    for each in (made, symbol.load_json(text)):
        wanted = {*each.list_arguments(), *each.list_auxiliary_states()}
        random_state.seed(program.seed)
        given = {name: array(x, dtype=x.dtype) for name, x in values.items() if name in wanted}
        results.append([y.asnumpy() for y in as_list(each.eval(**given))])
    for i, (a, b) in enumerate(zip(*results, strict=True)):
        exact = a.shape == b.shape and a.dtype == b.dtype
        if not exact or not np.array_equal(a, b, equal_nan=is_float(a.dtype)):
            return f"output {i} of the symbol that was written and read again is another"
    return None


READERS: dict[str, Callable[[bytes], str | None]] = {
    "params": _read_params,
    "safetensors": _read_safetensors,
    "npz": _read_npz,
    "symbol": _read_symbol,
    "states": _read_states,
    "program": _read_program,
    "onnx": lambda data: onnx_files().run(data),
}


def source(kind: str, data: bytes) -> str:
    """Python that reads a file of these bytes."""
    if kind == "program":
        return f"# --files, the program {data.decode()}"
    calls = {
        **dict.fromkeys(("params", "safetensors", "npz"), "mx.nd.load_frombuffer(data)"),
        "symbol": "mx.sym.load_json(data.decode())",
        "onnx": "mx.onnx.load(data)",
        "states": 'mx.optimizer.get_updater(mx.optimizer.create("sgd")).set_states(data)',
    }
    text = repr(data) if kind == "symbol" else f"base64.b64decode({base64.b64encode(data).decode()!r})"
    return f"import base64\n\nimport hybridc as mx\n\ndata = {text}\n{calls[kind]}\n"
