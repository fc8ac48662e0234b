"""Triton functions are loaded once, show their lines, and run on NumPy's memory by the interpreter."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import threading
import traceback
from pathlib import Path

import numpy as np
import pytest

from hybridc.ground import store as store_module
from hybridc.ground.store import Store, store
from hybridc.runtime.triton_kernel import load_kernel, run_interpreted
from tests.runtime.devices import sources
from tests.runtime.devices.sources import ADD, F32, KINDS, ONE, add_config

pytestmark = pytest.mark.triton


ROOT = Path(__file__).parents[3]


def between_guards(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A copy inside a larger buffer, and the buffer."""
    buffer = np.full(values.size + 16, 77, values.dtype)
    inside = buffer[8:-8].reshape(values.shape)
    inside[...] = values
    return inside, buffer


@pytest.mark.parametrize("n", [0, 1, 16, 37])
def test_a_function_writes_its_arguments_memory_and_nothing_around_it(n: int) -> None:
    x, y = np.arange(n, dtype=F32), np.ones(n, F32)
    out, buffer = between_guards(np.zeros(n, F32))
    run_interpreted(ADD, [x, y, out], [n, 3], add_config(n))
    np.testing.assert_array_equal(out, np.arange(n) + 3.0)
    assert (buffer[:8] == 77).all()
    assert (buffer[len(buffer) - 8 :] == 77).all()


def test_an_array_may_be_given_twice() -> None:
    x = np.arange(5, dtype=F32)
    run_interpreted(ADD, [x, x, x], [5, 1], add_config(5))
    np.testing.assert_array_equal(x, 2.0 * np.arange(5))


def test_arrays_over_the_same_memory_keep_their_own_dtypes() -> None:
    x = np.array([1, -2, 0, 4], np.int8)
    there = x.view(np.bool_)
    out = np.zeros(4, np.int8)
    run_interpreted(sources.copy_of("int8"), [x, out, there], [], ONE)
    np.testing.assert_array_equal(out, [1, -2, 0, 4])
    np.testing.assert_array_equal(there, [True, True, False, True])


@pytest.mark.parametrize("dtype", KINDS)
def test_every_dtype(dtype: str) -> None:
    x = np.array([1, 0, 1, 100]).astype(dtype)
    out, there = np.zeros(4, dtype), np.zeros(4, bool)
    run_interpreted(sources.copy_of(dtype), [x, out, there], [], ONE)
    np.testing.assert_array_equal(out, x)
    np.testing.assert_array_equal(there, [True, False, True, True])


def test_numbers_are_as_wide_as_they_are_declared() -> None:
    out = np.zeros(4, np.int64)
    run_interpreted(sources.NUMBERS, [out], [70000, 70000], ONE)
    wrapped = int(np.array(70000**2).astype(np.int32))
    np.testing.assert_array_equal(out, [wrapped, 70000**2, 0 + 30000 + 60000, 70000])


def test_reductions_by_functions_of_their_own() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(0.5, 1.5, (8, 16)).astype(F32)
    x[2, 3] = x[2, 9] = 2.0  # the first of equals counts
    rows, columns, everything, places = np.zeros(8, F32), np.zeros(16, F32), np.zeros(4, F32), np.zeros(8, np.int32)
    config = dataclasses.replace(ONE, constants=(("n", 16), ("m", 8)))
    run_interpreted(sources.REDUCTIONS, [x, rows, columns, everything, places], [], config)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(rows, wide.prod(axis=1), rtol=1e-5)
    np.testing.assert_allclose(columns, wide.prod(axis=0), rtol=1e-5)
    np.testing.assert_allclose(everything, [wide.prod(), wide.sum(), wide.max(), wide.min()], rtol=1e-5)
    np.testing.assert_array_equal(places, x.argmax(axis=1))


def test_nan_is_dropped_where_a_compiled_function_drops_it() -> None:
    x, y = np.array([np.nan, 1, 2, 3], F32), np.array([0, np.nan, 5, 1], F32)
    out = np.zeros(13, F32)
    run_interpreted(sources.LARGEST, [x, y, out], [], ONE)
    expected = [0, 1, 5, 3, np.nan, np.nan, 5, 3, 0, 1, 2, 1, 3]
    np.testing.assert_array_equal(out, np.array(expected, F32))


def test_another_dtype_than_declared_is_refused() -> None:
    with pytest.raises(TypeError, match="expected an array of float32, got one of float64"):
        run_interpreted(ADD, [np.zeros(1)] * 3, [1, 1], add_config(1))


def test_a_function_is_loaded_once_by_any_number_of_threads() -> None:
    function = dataclasses.replace(ADD, source=ADD.source + "\n# for one test\n")
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(load_kernel(function, interpreted=True))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(f) for f in found}) == 1
    assert len(found) == 4


def test_threads_run_functions_at_the_same_time() -> None:
    outs = [np.zeros(40, F32) for _ in range(4)]

    def run(k: int) -> None:
        run_interpreted(ADD, [np.full(40, k, F32), np.ones(40, F32), outs[k]], [40, k], add_config(40))

    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, out in enumerate(outs):
        np.testing.assert_array_equal(out, 2.0 * k)


def test_an_error_shows_the_line_of_the_source() -> None:
    with pytest.raises(Exception) as caught:
        run_interpreted(sources.FAULTY, [np.zeros(1, F32)], [], ONE)
    text = "".join(traceback.format_exception(caught.value))
    assert "tl.store(x, y)  # a block cannot be stored to one place" in text
    file = next(line for line in text.splitlines() if "faulty_" in line).split('"')[1]
    assert Path(file).read_text() == sources.FAULTY.source
    assert Path(file).parent == store().folder


def test_a_folder_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(store_module, "store", lambda: Store(tmp_path / "file" / "below"))
    monkeypatch.setattr("hybridc.runtime.triton_kernel.store", lambda: Store(tmp_path / "file" / "below"))
    function = dataclasses.replace(ADD, source=ADD.source + "\n# for a test without a folder\n")
    x = np.ones(3, F32)
    with pytest.warns(UserWarning, match="there is no cache folder"):
        run_interpreted(function, [x, x, x], [3, 1], add_config(3))
    np.testing.assert_array_equal(x, 2.0)


def test_a_damaged_file_is_never_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("hybridc.runtime.triton_kernel.store", lambda: Store(tmp_path))
    function = dataclasses.replace(ADD, source=ADD.source + "\n# for a test with a damaged file\n")
    (tmp_path / f"add_{function.key[:24]}.py").write_text("raise SystemExit")
    tmp_path.chmod(0o700)
    x = np.ones(3, F32)
    run_interpreted(function, [x, x, x], [3, 1], add_config(3))
    np.testing.assert_array_equal(x, 2.0)


def in_process(text: str, **environment: str) -> str:
    """What a fresh process prints."""
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, cwd=ROOT, env={**env, **environment}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_triton_imported_to_compile_cannot_interpret() -> None:
    text = """
import triton
from hybridc.errors import UnsupportedError
from hybridc.runtime.triton_kernel import load_kernel
from tests.runtime.devices.sources import ADD
try:
    load_kernel(ADD, interpreted=True)
except UnsupportedError as error:
    print(error)
print(type(load_kernel(ADD, interpreted=False)).__name__)
"""
    said = in_process(text)
    assert "Triton was imported before" in said
    assert "TRITON_INTERPRET=1" in said
    assert said.rstrip().endswith("JITFunction")


def test_triton_imported_to_interpret_cannot_compile() -> None:
    text = """
from hybridc.errors import UnsupportedError
from hybridc.runtime.triton_kernel import load_kernel
from tests.runtime.devices.sources import ADD
try:
    load_kernel(ADD, interpreted=False)
except UnsupportedError as error:
    print(error)
"""
    assert "unset TRITON_INTERPRET" in in_process(text, TRITON_INTERPRET="1")
