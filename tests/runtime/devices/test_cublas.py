"""Products by a library: how it is told where matrices lie, and that only what is faster is chosen."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import hybridc as mx
from hybridc.compile.warm_start import StoredGraph
from hybridc.errors import DeviceError
from hybridc.gluon.nn import HybridLambda
from hybridc.ground.serialize import from_bytes, to_bytes
from hybridc.ground.store import Store
from hybridc.ir.library_matmul import LibraryMatmul
from hybridc.lower.triton.launches import Alternative
from hybridc.runtime.device_executable import DeviceExecutable
from hybridc.runtime.devices.nvidia import cublas
from hybridc.runtime.devices.nvidia.cublas import Cublas
from hybridc.runtime.devices.nvidia.cuda import Cuda
from hybridc.transforms.code.blocks import choose_library as library
from hybridc.transforms.schedules.blocks.fused_matmul import fused_matmul
from tests.lower.llvm.test_gemm import TOLERANCE, contraction_kernel, expected, numbers_of
from tests.runtime.devices.simulated import SimulatedCuda
from tests.runtime.devices.stub_cublas import Multiplied, StubCublas

pytestmark = pytest.mark.triton


GPU = mx.gpu(0)
F16 = np.dtype("float16")
SIZES = {"i": 6, "j": 5, "k": 7, "b": 3}


def described(spec: str, dtype: str = "f32", least: int = 0) -> LibraryMatmul | None:
    contraction = fused_matmul(contraction_kernel(spec, SIZES, dtype), {})
    assert contraction is not None
    way = library.library_code(contraction, {}, False, least)
    return None if way is None else way.matmul


# --- how matrices lie ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
@pytest.mark.parametrize(
    "spec",
    [
        *("ik,kj->ij", "ki,kj->ij", "ik,jk->ij", "ki,jk->ij", "ik,kj->ji", "ki,kj->ji", "ik,jk->ji", "ki,jk->ji"),
        *("bik,bkj->bij", "bki,bjk->bij", "ibk,bkj->bij", "ibk,jbk->bij", "bik,bkj->ibj", "bik,bkj->bji"),
    ],
)
def test_every_way_to_lie(card: Cuda, stub: SimulatedCuda, spec: str, dtype: str) -> None:
    contraction = described(spec, dtype)
    assert contraction is not None
    left, right, out = spec.replace("->", ",").split(",")
    rng = np.random.default_rng(1)
    arrays = [numbers_of(rng, tuple(SIZES[x] for x in axes), dtype) for axes in (left, right)]
    there = [card.put(np.ascontiguousarray(x)) for x in arrays]
    there.append(card.empty(tuple(SIZES[x] for x in out), contraction.dtypes[1]))
    run = Cublas(card, StubCublas(stub)).prepare(contraction)
    assert run is not None
    run([there[i].pointer for i in contraction.buffers])
    want, scale = expected(spec, *arrays)
    assert np.all(abs(there[2].host() - want) <= 4 * TOLERANCE[dtype] * scale + 1e-30)


@pytest.mark.parametrize("spec", ["k,kj->j", "ik,k->i", "k,k->", "bk,bk->b"])
def test_vectors_are_no_matrices(spec: str) -> None:
    assert described(spec) is None


@pytest.mark.parametrize("spec", ["bik,bkj->ijb", "ikb,bkj->ij", "ibk,bkj->ijb"])
def test_what_does_not_lie_as_matrices_do(spec: str) -> None:
    assert described(spec) is None


def test_small_products_are_not_worth_it() -> None:
    assert described("ik,kj->ij", least=2 * 6 * 5 * 7) is not None
    assert described("ik,kj->ij", least=2 * 6 * 5 * 7 + 1) is None


def program(function: Any, *shapes: tuple[int, ...], dtype: str = "float32") -> Any:
    inputs = [mx.nd.zeros(shape, dtype=dtype) for shape in shapes]
    return HybridLambda(function).trace(*inputs).optimize().lower("triton").programs["forward"]


def test_what_follows_a_product_is_a_function_in_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library.library_code, "__defaults__", (0,))
    shapes = (32, 48), (48, 40)
    (found,) = program(lambda F, x, y: F.dot(x, y), *shapes).alternatives
    assert (found.start, found.steps, found.contraction.m, found.contraction.n, found.after) == (0, 1, 40, 32, ())
    (found,) = program(lambda F, x, y: F.dot(x, y), *shapes, dtype="float16").alternatives
    assert (found.contraction.dtypes, found.after) == ((F16, F16), ())  # rounded by the library
    for dtype in ("float16", "float32"):
        (found,) = program(lambda F, x, y: F.relu(F.dot(x, y)), *shapes, dtype=dtype).alternatives
        (after,) = found.after
        assert found.contraction.dtypes == (np.dtype(dtype),) * 2
        assert after.buffers == (found.places[2],)
    (found,) = program(lambda F, x, y: F.dot(F.exp(x), y) + 1, *shapes).alternatives
    assert (found.start, found.steps, len(found.after)) == (1, 1, 1)


def test_what_follows_may_have_no_memory_for_the_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is of another type, or there are two."""
    monkeypatch.setattr(library.library_code, "__defaults__", (0,))
    shapes = (32, 48), (48, 40)
    assert not program(lambda F, x, y: F.cast(F.dot(x, y) * 2, dtype="float16"), *shapes).alternatives
    both = program(lambda F, x, y: (F.relu(F.dot(x, y)), F.dot(x, y) * 2), *shapes)
    assert not both.alternatives


def test_an_argument_that_is_written_over_is_not_there_after_the_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library.library_code, "__defaults__", (0,))

    def function(F: Any, x: Any, y: Any) -> Any:
        return F.dot(F.exp(F.dot(x, y) + F.dot(y, x)), x)  # the second product's memory has the sum, too

    shapes = (32, 32), (32, 32)
    found = program(function, *shapes)
    inplace = [s for s in found.steps if len(set(s.buffers)) < len(s.buffers)]
    assert len(inplace) == 1
    assert [a.start for a in found.alternatives] == [i for i, s in enumerate(found.steps) if s not in inplace]


def test_by_default_a_product_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not program(lambda F, x, y: F.dot(x, y), (1024, 1023), (1023, 1024)).alternatives
    made = program(lambda F, x, y: F.relu(F.dot(x, y)), (1024, 1024), (1024, 1024))
    (read,) = (
        from_bytes(StoredGraph, to_bytes(StoredGraph({"forward": made}, (), (), 0))).programs["forward"].alternatives
    )  # type: ignore[attr-defined]
    assert type(read) is Alternative
    assert [read] == made.alternatives
    assert len(read.after) == 1


# --- what is chosen -----------------------------------------------------------------------------------------


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Store:
    """Nothing was chosen before, and any product may be a library's."""
    own = Store(tmp_path)
    tmp_path.chmod(0o700)
    monkeypatch.setattr("hybridc.ground.store.store", lambda: own)
    monkeypatch.setattr(library.library_code, "__defaults__", (0,))
    return own


def given(stub: SimulatedCuda, takes: float, monkeypatch: pytest.MonkeyPatch) -> StubCublas:
    """The library is there."""
    made = StubCublas(stub, takes)
    monkeypatch.setattr("hybridc.runtime.devices.nvidia.cuda.cublas_library", lambda: made)
    return made


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize(("takes", "by_library"), [(0.5, True), (5, False)])
def test_the_faster_one_is_chosen_and_remembered(
    stub: SimulatedCuda, card: Cuda, monkeypatch: pytest.MonkeyPatch, takes: float, by_library: bool
) -> None:
    blas = given(stub, takes, monkeypatch)
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=shape).astype(np.float32) for shape in ((32, 48), (48, 40)))
    want = x.astype(np.float64) @ y.astype(np.float64)
    run = DeviceExecutable(program(lambda F, a, b: F.dot(a, b), x.shape, y.shape), card)
    there = [card.put(v) for v in (x, y)]
    np.testing.assert_allclose(run(*there)[0].host(), want, rtol=1e-4, atol=1e-4)
    counts = len(blas.matmuls), len(stub.launches)
    again = DeviceExecutable(program(lambda F, a, b: F.dot(a, b), x.shape, y.shape), card)  # it is known
    np.testing.assert_allclose(again(*there)[0].host(), want, rtol=1e-4, atol=1e-4)
    assert (len(blas.matmuls) - counts[0], len(stub.launches) - counts[1]) == (by_library, not by_library)
    assert bool(again.notes()) is by_library
    assert set(blas.modes.values()) == {cublas.WHOLE_SUMS}
    assert {arithmetic for _, arithmetic in blas.matmuls} == {cublas.SINGLE}


@pytest.mark.usefixtures("kept")
def test_a_library_that_fails_is_not_chosen(stub: SimulatedCuda, card: Cuda, monkeypatch: pytest.MonkeyPatch) -> None:
    given(stub, 0, monkeypatch).fails = True
    x = np.ones((8, 8), np.float32)
    run = DeviceExecutable(program(lambda F, a, b: F.dot(a, b), x.shape, x.shape), card)
    np.testing.assert_array_equal(run(card.put(x), card.put(x))[0].host(), np.full((8, 8), 8))
    assert run.notes() == []


@pytest.mark.usefixtures("kept")
def test_without_a_library_nothing_is_tried(stub: SimulatedCuda, card: Cuda, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hybridc.runtime.devices.nvidia.cuda.cublas_library", lambda: None)
    x = np.ones((8, 8), np.float32)
    run = DeviceExecutable(program(lambda F, a, b: F.dot(a, b), x.shape, x.shape), card)
    run(card.put(x), card.put(x))
    assert len(run._steps) == 1
    assert type(run._steps[0]).__name__ == "DeviceStep"


@pytest.mark.long
@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize(("takes", "by_library"), [(-0.5, True), (0.5, False)])
def test_a_library_with_a_function_behind_it_against_one_function(
    stub: SimulatedCuda, card: Cuda, monkeypatch: pytest.MonkeyPatch, takes: float, by_library: bool
) -> None:
    """A launch takes a millisecond there: both ways have one, and the library's its product beside."""
    blas = given(stub, takes, monkeypatch)
    rng = np.random.default_rng(0)
    x, w, b, z = (rng.normal(size=s).astype(np.float32) for s in ((32, 48), (40, 48), (40,), (32, 40)))

    def function(F: Any, x: Any, w: Any, b: Any, z: Any) -> Any:
        return F.tanh(F.FullyConnected(x, w, b, num_hidden=40)) * z

    want = np.tanh(x.astype(np.float64) @ w.T.astype(np.float64) + b) * z
    made = program(function, x.shape, w.shape, b.shape, z.shape)
    run = DeviceExecutable(made, card)
    there = [card.put(v) for v in (x, w, b, z)]
    for _ in range(2):
        np.testing.assert_allclose(run(*there)[0].host(), want, rtol=1e-4, atol=1e-4)
        for array, value in zip(there, (x, w, b, z), strict=True):
            np.testing.assert_array_equal(array.host(), value)
    assert bool(run.notes()) is by_library
    count = len(blas.matmuls)
    run(*there)[0].host()
    assert len(blas.matmuls) - count == by_library


def recorded_chain(F: Any, x: Any, y: Any) -> Any:
    before = F.relu(F.dot(F.relu(F.dot(x, y)), y))
    return F.relu(F.dot(F.relu(F.dot(F.dot(before, y), y)), y))


@pytest.mark.usefixtures("kept")
def test_what_a_library_computes_is_recorded(stub: SimulatedCuda, card: Cuda, monkeypatch: pytest.MonkeyPatch) -> None:
    """In memory that each recording keeps for itself, by a handle that is the current stream's again afterwards."""
    blas = given(stub, -0.9, monkeypatch)
    monkeypatch.setattr(cublas, "WORKSPACE", 1 << 20)
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(8, 8)).astype(np.float32) for _ in range(2))
    made = program(recorded_chain, x.shape, y.shape)
    plain = DeviceExecutable(made, card)
    there = [card.put(v) for v in (x, y)]
    want = plain(*there)[0].host()
    runs = [DeviceExecutable(made, card) for _ in range(2)]
    memory = []
    for run in runs:
        assert run.repeat()
        for _ in range(4):
            np.testing.assert_array_equal(run(*there)[0].host(), want)
        (graph, _), *_ = stub.replays[-1:]
        contractions = [each for each in graph if isinstance(each, Multiplied)]
        assert len(contractions) == 5
        assert len(graph) == 9  # four of the five have a function behind them
        memory.append({each.memory for each in contractions})
        assert any(line == "replayed: 1 recording of 9 launches" for line in run.notes())
        assert any(line.startswith("by a library") for line in run.notes())
    assert [len(each) for each in memory] == [1, 1]
    assert memory[0] != memory[1]
    assert set(blas.streams.values()) == {0}
    assert blas.memory == {}
    kept = len(stub.buffers)
    gc.collect()
    gc.disable()
    del run, runs
    gc.enable()
    assert len(stub.buffers) < kept - 1  # their memory went with the recordings, at once


@pytest.mark.usefixtures("kept")
def test_a_library_that_cannot_be_recorded(stub: SimulatedCuda, card: Cuda, monkeypatch: pytest.MonkeyPatch) -> None:
    """All launches are made one by one then."""
    blas = given(stub, -0.9, monkeypatch)
    x = np.eye(8, dtype=np.float32)
    run = DeviceExecutable(program(recorded_chain, x.shape, x.shape), card)
    assert run.repeat()
    there = card.put(x)
    run(there, there)
    blas.refuses_workspaces = True
    with pytest.warns(UserWarning, match="cublasSetWorkspace_v2 of cuBLAS failed with error 15"):
        run(there, there)
    for _ in range(3):
        np.testing.assert_array_equal(run(there, there)[0].host(), x)
    assert stub.replays == []
    assert set(blas.streams.values()) == {0}


def test_an_error_names_the_function(stub: SimulatedCuda, card: Cuda) -> None:
    blas = StubCublas(stub)
    blas.fails = True
    contraction = described("ik,kj->ij")
    assert contraction is not None
    run = Cublas(card, blas).prepare(contraction)
    assert run is not None
    with pytest.raises(DeviceError, match="cublasGemmStridedBatchedEx of cuBLAS failed with error 13"):
        run([0, 0, 0])


def test_integers_are_not_the_librarys(stub: SimulatedCuda, card: Cuda) -> None:
    contraction = described("ik,kj->ij")
    assert contraction is not None
    made = Cublas(card, StubCublas(stub))
    assert made.prepare(contraction._replace(dtypes=(np.dtype("int32"), np.dtype("int32")))) is None
    assert made.prepare(contraction._replace(dtypes=(np.dtype("float32"), np.dtype("float16")))) is None
