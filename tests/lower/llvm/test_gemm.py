"""Products by native code against NumPy's einsum in float64: every way, any axes, types, strides and cuts."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import replace

import numpy as np
import pytest

from hybridc.ir.kernels.kernel_text import read_kernel
from hybridc.lower.llvm.codegen.native_function import load_functions
from hybridc.lower.llvm.gemm.vector_registers import registers
from hybridc.lower.llvm.native_target import native_machine, native_target
from hybridc.runtime.native import (
    NativePlan,
    NativeProgram,
    NativeRegion,
    PlainArray,
    Position,
    num_threads,
    set_num_threads,
)
from hybridc.transforms.code.choose_matmul import is_contraction_kernel, regions_of_matmul
from hybridc.transforms.schedules.loop_machine import Registers
from tests.lower.kernels import kernel
from tests.lower.llvm.native import Guarded, call
from tests.slices import crossed, one_in

BODIES = {
    "f32": "%p = arith.mulf %x, %y : f32\n%q = arith.addf %z, %p : f32",
    "f64": "%p = arith.mulf %x, %y : f64\n%q = arith.addf %z, %p : f64",
    "i32": "%p = arith.muli %x, %y : i32\n%q = arith.addi %z, %p : i32",
    "i8": "%p = arith.muli %x, %y : i8\n%q = arith.addi %z, %p : i8",
    "f16": (
        "%v = arith.extf %x : f16 to f32\n%w = arith.extf %y : f16 to f32\n"
        "%p = arith.mulf %v, %w : f32\n%q = arith.addf %z, %p : f32"
    ),
}
TOLERANCE = {"f32": 1e-6, "f64": 1e-14, "f16": 1e-6}


def contraction_kernel(spec, sizes, dtype="f32"):
    """The kernel of one contraction, given as for einsum."""
    left, right, out = spec.replace("->", ",").split(",")
    summed = [a for a in dict.fromkeys(left + right) if a not in out]
    loops = [*out, *summed]
    wide = "f32" if dtype == "f16" else dtype

    def tensor(axes, kind):
        return f"tensor<{''.join(f'{sizes[a]}x' for a in axes)}{kind}>"

    def indexing(axes):
        dims = ", ".join(f"d{i}" for i in range(len(loops)))
        return f"affine_map<({dims}) -> ({', '.join(f'd{loops.index(a)}' for a in axes)})>"

    kinds = ", ".join(f'"{"parallel" if a in out else "reduction"}"' for a in loops)
    numbers = [*range(len(out)), *[-1] * len(summed)]
    domain = f"array<i64{': ' if out else ''}{', '.join(str(sizes[a]) for a in out)}>"
    result = tensor(out, wide)
    zero = "0 : i32" if wide == "i32" else "0 : i8" if wide == "i8" else f"0.0 : {wide}"
    found = kernel(f"""
    func.func private @product(%a: {tensor(left, dtype)}, %b: {tensor(right, dtype)}) -> {result}
        attributes {{hybrid.domains = [{domain}]}} {{
      %n = arith.constant {zero}
      %e = tensor.empty() : {result}
      %s = linalg.fill ins(%n : {wide}) outs(%e : {result}) -> {result}
      %r = linalg.generic {{indexing_maps = [{indexing(left)}, {indexing(right)}, {indexing(out)}],
          iterator_types = [{kinds}]}} ins(%a, %b : {tensor(left, dtype)}, {tensor(right, dtype)}) outs(%s : {result})
          attrs = {{hybrid.axes = array<i64: {", ".join(map(str, numbers))}>}} {{
        ^bb0(%x: {dtype}, %y: {dtype}, %z: {wide}):
        {BODIES[dtype]}
        linalg.yield %q : {wide}
      }} -> {result}
      func.return %r : {result}
    }}""")
    return read_kernel(found)


def numbers_of(rng, shape, dtype):
    """Random elements."""
    if dtype.startswith("i"):
        return rng.integers(-100, 100, shape).astype(f"int{dtype[1:]}")
    return rng.standard_normal(shape).astype(f"float{dtype[1:]}")


def expected(spec, a, b):
    """The contraction in double precision or exactly, and the sum of the absolute products."""
    wide = np.int64 if a.dtype.kind == "i" else np.float64
    return np.einsum(spec, a.astype(wide), b.astype(wide)), np.einsum(spec, abs(a.astype(wide)), abs(b.astype(wide)))


def run(regions, arrays, result, threads, at_end, rng):
    """The result after all parallel regions, each cut at multiples of its grain; arrays lie between forbidden pages."""
    memory = [Guarded(x.nbytes, at_end) for x in (*arrays, result)]
    for place, x in zip(memory, (*arrays, np.full_like(result, 77)), strict=True):
        ctypes.memmove(place.address, x.ctypes.data, x.nbytes)
    for region, code in zip(regions, load_functions([p.function for p in regions]), strict=True):
        inner = range(region.grain, region.extent, region.grain)
        cuts = sorted(rng.choice(inner, min(3, len(inner)), replace=False)) if inner else []
        scratch = Guarded(-(-region.scratch // 64) * 64, at_end)
        bounds = list(itertools.pairwise([0, *map(int, cuts), region.extent]))
        for lo, hi in rng.permutation(bounds):
            ctypes.memset(scratch.address, 0xFF, scratch.size)
            call(code, [memory[i].address for i in region.buffers], region.numbers, int(lo), int(hi), scratch.address)
    return np.frombuffer(memory[-1].bytes(), result.dtype).reshape(result.shape)


def check(spec, sizes, dtype="f32", threads=2, seed=0, algorithms=(), change=lambda x: x, vectors=None):
    """The contraction agrees with einsum; returns its parallel regions."""
    rng = np.random.default_rng(seed)
    made = contraction_kernel(spec, sizes, dtype)
    assert is_contraction_kernel(made)
    left, right, out = spec.replace("->", ",").split(",")
    a, b = (change(numbers_of(rng, tuple(sizes[x] for x in axes), dtype)) for axes in (left, right))
    machine = replace(native_machine(), vectors=vectors or registers())
    regions = regions_of_matmul(made, replace(native_target(threads), machine=machine), algorithms=algorithms)
    if algorithms:
        assert [p.algorithm for p in regions] == list(algorithms)
    kind = np.float32 if dtype == "f16" else a.dtype
    result = np.zeros(tuple(sizes[x] for x in out), kind)
    want, scale = expected(spec, a, b)
    for at_end in (True, False):
        got = run(regions, [a, b], result, threads, at_end, rng)
        if a.dtype.kind == "i":
            np.testing.assert_array_equal(got, want.astype(got.dtype))
        else:
            assert np.all(abs(got - want) <= TOLERANCE[dtype] * scale + 1e-30), spec
    return regions


tiled = pytest.mark.skipif(registers() is None, reason="this processor has no registers that are worth code of our own")
SMALL = [(5, 7, 3), (33, 20, 17), (1, 6, 9), (4, 1, 5), (3, 2, 1), (1, 1, 8), (1, 1, 1), (4, 3, 0), (0, 3, 2)]
MATRICES = ["ik,kj->ij", "ik,jk->ij", "ki,kj->ij", "ki,jk->ij", "ik,kj->ji", "ki,jk->ji"]


@pytest.mark.parametrize(
    ("spec", "shape", "dtype"),
    one_in(4, list(itertools.product(MATRICES, SMALL, ["f32", "f64", "f16", "i32", "i8"]))),
)
def test_matrices(spec, shape, dtype):
    check(spec, dict(zip("ijk", shape, strict=True)), dtype)


@pytest.mark.parametrize("spec", MATRICES)
@pytest.mark.parametrize("shape", [(257, 130, 96), (40, 700, 64), (700, 9, 64)])
def test_large_matrices(spec, shape):
    assert check(spec, dict(zip("ijk", shape, strict=True)))[0].grain < 700


@pytest.mark.parametrize("dtype", ["f32", "i32"])
@pytest.mark.parametrize(
    "spec",
    [
        "bik,bkj->bij",  # stacks of matrices
        "bhik,bhjk->bhij",
        "bihk,bjhk->bhij",  # the heads of attention, beside each other in memory
        "bhij,bjhk->bihk",
        "bthk,nhk->btn",  # two sums that are one
        "bthk,nkh->btn",  # two that are not
        "thk,btk->bh",
        "bik,bkj->ijb",  # batches along memory
        "ikb,bjk->ibj",
        "b,bi->i",
        "k,k->",
        "ijk,ijk->",
        "abk,bka->ba",
    ],
)
def test_contractions(spec, dtype):
    check(spec, {"a": 4, "b": 3, "h": 2, "t": 5, "i": 6, "j": 7, "k": 8, "n": 9}, dtype)


@tiled
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("spec", MATRICES)
@pytest.mark.parametrize("shape", [(4, 5, 1), (7, 18, 9), (13, 35, 17), (32, 64, 33), (29, 16, 70)])
def test_tiles(spec, shape, dtype):
    check(spec, dict(zip("ijk", shape, strict=True)), dtype, algorithms=["tiles"])


@tiled
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("spec", ["bthk,bshk->bhts", "bhts,bshk->bthk"])
def test_tiles_of_heads(spec, dtype):
    check(spec, {"b": 2, "h": 3, "t": 13, "s": 70, "k": 35}, dtype, algorithms=["tiles"])


@tiled
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("spec", ["ik,jk->ij", "ki,jk->ij", "ik,kj->ji"])
@pytest.mark.parametrize(
    "shape",
    [(1, 1, 1), (2, 3, 9), (35, 5, 17), (32, 48, 33), (64, 13, 20), (20, 151, 70), (7, 95, 48), (33, 71, 16)],
)
def test_turned_tiles(spec, shape, dtype):
    check(spec, dict(zip("jik" if spec.endswith("ji") else "ijk", shape, strict=True)), dtype, algorithms=["turned"])


@tiled
@pytest.mark.parametrize(
    ("rows", "others", "dtype"), crossed(2, range(1, 50, 6), [Registers(32, 16), Registers(16, 32)], ["f32", "f64"])
)
def test_turned_tiles_in_other_registers(rows, others, dtype):
    for columns in (rows, 23, 24):  # of 23 rows in registers of 32 bytes, the last tile reaches behind the 24th
        check("ik,jk->ij", {"i": rows, "j": columns, "k": 21}, dtype, algorithms=["turned"], vectors=others)


@tiled
@pytest.mark.parametrize("spec", ["bihk,bjhk->bhij", "bik,jk->bij", "kbi,bjk->bij", "bki,bjk->ibj"])
def test_turned_tiles_of_batches(spec):
    (region,) = check(spec, {"b": 3, "h": 2, "i": 33, "j": 29, "k": 35}, algorithms=["turned"])
    assert region.extent == {"bihk,bjhk->bhij": 12, "bik,jk->bij": 4}.get(spec, 6) or registers().bytes != 64


@tiled
def test_turned_tiles_need_columns_that_follow_memory():
    made = contraction_kernel("ik,kj->ij", {"i": 32, "j": 256, "k": 64})
    assert regions_of_matmul(made, native_target(2), algorithms=["turned", "tiles"])[0].algorithm == "tiles"


@tiled
@pytest.mark.parametrize(("shape", "parts"), [((32, 1021, 512), 2), ((8, 2048, 64), 8), ((32, 1024, 512), 4)])
def test_rows_of_a_weight_are_shared_where_panels_are_few(shape, parts):
    sizes = dict(zip("ijk", shape, strict=True))
    (region,) = check("ik,jk->ij", sizes, algorithms=["turned"], vectors=Registers(64, 32))
    assert region.extent == parts


@tiled
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("shape", [(32, 700, 96), (45, 513, 65), (19, 1021, 64)])
def test_every_way_to_share_tiles_has_the_same_digits(shape, dtype):
    """Also with the operands exchanged: each sum is added up in the order of its terms."""
    sizes, rng = dict(zip("ijk", shape, strict=True)), np.random.default_rng(6)
    a, b = (numbers_of(rng, [sizes[x] for x in axes], dtype) for axes in ("ik", "jk"))
    made = contraction_kernel("ik,jk->ij", sizes, dtype)
    got = [
        run(
            regions_of_matmul(made, native_target(threads), algorithms=[algorithm]),
            [a, b],
            np.zeros(shape[:2], a.dtype),
            threads,
            True,
            rng,
        )
        for algorithm in ("tiles", "turned")
        for threads in (1, 2, 3, 8)
    ]
    for other in got[1:]:
        np.testing.assert_array_equal(other, got[0])


@tiled
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("spec", ["ik,jk->ij", "bik,bjk->bij"])
@pytest.mark.parametrize("shape", [(1, 3, 16), (1, 16, 32), (2, 20, 64), (3, 1, 32), (4, 8, 32), (7, 13, 48)])
def test_dots(spec, shape, dtype):
    check(spec, {**dict(zip("ijk", shape, strict=True)), "b": 3}, dtype, algorithms=["dots"])


@tiled
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("spec", ["ik,pkj->ipj", "ki,pkj->ipj"])
@pytest.mark.parametrize(
    "shape",
    [
        (1, 2, 3),
        (2, 1, 20),
        (5, 3, 2),
        (13, 2, 17),
        (100, 3, 33),
        (241, 1, 70),
        (97, 2, 512),
        (512, 1, 23),
        # with so many columns the left matrix is packed: whole tiles, some rows more, fewer rows than a tile
        (24, 8, 16),
        (40, 8, 64),
        (97, 9, 45),
        (5, 8, 33),
        (0, 2, 5),
        (4, 2, 0),
    ],
)
def test_rows_of_panels(spec, shape, dtype):
    sizes = {**dict(zip("ipk", shape, strict=True)), "j": 2 * registers().lanes(np.dtype(f"float{dtype[1:]}"))}
    check(spec, sizes, dtype, algorithms=["rows"] if all(shape) else [])


@tiled
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("spec", ["ik,pkj->ipj", "ki,pkj->ipj"])
@pytest.mark.parametrize("others", [Registers(32, 16), Registers(16, 32)])
def test_rows_of_panels_in_other_registers(others, spec, dtype):
    width = 2 * others.lanes(np.dtype(f"float{dtype[1:]}"))
    for rows, terms in ((12, 16), (29, 45), (100, 65), (1, 4), (5, 3)):
        sizes = {"i": rows, "p": 128 // width, "k": terms, "j": width}
        (region,) = check(spec, sizes, dtype, algorithms=["rows"], vectors=others)
        assert bool(region.function.program.scratch) == (terms >= 4)


@tiled
def test_rows_are_shared_by_blocks():
    (region,) = check("ik,pkj->ipj", {"i": 700, "p": 4, "k": 128, "j": 2 * registers().bytes // 4}, threads=3)
    assert region.algorithm == "rows"
    assert region.grain <= 240


@tiled
def test_what_is_no_number_stays_in_its_row_and_column_of_panels():
    rng, width = np.random.default_rng(3), 2 * registers().bytes // 4
    a, b = rng.standard_normal((29, 48)).astype("f"), rng.standard_normal((3, 48, width)).astype("f")
    a[5, 7], a[28, 40], b[1, 9, 3] = np.nan, np.inf, -np.inf
    made = contraction_kernel("ik,pkj->ipj", {"i": 29, "p": 3, "k": 48, "j": width})
    got = run(
        regions_of_matmul(made, native_target(2), algorithms=["rows"]),
        [a, b],
        np.zeros((29, 3, width), "f"),
        2,
        True,
        rng,
    )
    with np.errstate(invalid="ignore"):
        want = np.einsum("ik,pkj->ipj", a.astype("d"), b.astype("d"))
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))
    np.testing.assert_allclose(got[np.isfinite(want)], want[np.isfinite(want)], rtol=1e-4, atol=1e-4)


@tiled
@pytest.mark.parametrize(("algorithm", "spec"), [("tiles", "ik,kj->ij"), ("dots", "ik,jk->ij")])
def test_rows_are_shared_where_columns_are_few(algorithm, spec):
    (region,) = check(spec, {"i": 240, "j": 10, "k": 256}, algorithms=[algorithm], threads=4)
    assert region.extent >= 5


@pytest.mark.parametrize(
    "algorithm", ["blas", *(pytest.param(algorithm, marks=tiled) for algorithm in ("tiles", "turned", "dots"))]
)
def test_what_is_no_number_stays_in_its_row_and_column(algorithm):
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((21, 48)).astype("f"), rng.standard_normal((37, 48)).astype("f")
    a[5, 7], a[11, 40], b[3, 9] = np.nan, np.inf, -np.inf
    regions = regions_of_matmul(
        contraction_kernel("ik,jk->ij", {"i": 21, "j": 37, "k": 48}), native_target(2), algorithms=[algorithm]
    )
    got = run(regions, [a, b], np.zeros((21, 37), "f"), 2, True, rng)
    with np.errstate(invalid="ignore"):
        want = a.astype("d") @ b.T.astype("d")
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))
    np.testing.assert_allclose(got[np.isfinite(want)], want[np.isfinite(want)], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("spec", "shapes", "views"),
    [
        ("ik,kj->ij", ((20, 18), (18, 40)), (np.s_[:9, 1:13], np.s_[2:14, 5:38])),  # rows that are far apart
        ("ik,kj->ij", ((20, 18), (18, 40)), (np.s_[::2, :12], np.s_[:12, 3:9])),
        ("ik,jk->ij", ((40, 36), (40, 18)), (np.s_[:7, ::2], np.s_[:8, :])),  # terms that are not neighbours
        ("ik,jk->ij", ((1, 64), (40, 70)), (np.s_[:, :32], np.s_[:, 6:38])),
        ("bik,bkj->bij", ((3, 9, 8), (3, 8, 10)), (np.s_[::2], np.s_[1:, :, 2:])),
    ],
)
@pytest.mark.parametrize(
    "algorithms",
    [(), ("blas", "dots"), *(pytest.param((algorithm,), marks=tiled) for algorithm in ("tiles", "turned", "dots"))],
)
def test_views(spec, shapes, views, algorithms):
    rng = np.random.default_rng(4)
    whole = [rng.standard_normal(shape).astype("f") for shape in shapes]
    a, b = (x[view] for x, view in zip(whole, views, strict=True))
    left, right, out = spec.replace("->", ",").split(",")
    sizes = dict(zip(left + right, a.shape + b.shape, strict=True))
    result = np.zeros([sizes[x] for x in out], "f")
    strides = [tuple(s // 4 for s in x.strides) for x in (a, b, result)]
    regions = regions_of_matmul(contraction_kernel(spec, sizes), native_target(2), strides, algorithms)
    # What is given begins with the view's first element, and ends with its last.
    flat = [x.reshape(-1)[_offset(x, y) :][: _reach(y)] for x, y in zip(whole, (a, b), strict=True)]
    for at_end in (True, False):
        got = run(regions, flat, result, 2, at_end, rng)
        np.testing.assert_allclose(got, np.einsum(spec, a.astype("d"), b.astype("d")), rtol=1e-4, atol=1e-5)


def _offset(whole, view):
    return (view.ctypes.data - whole.ctypes.data) // whole.itemsize


def _reach(view):
    return 1 + sum((n - 1) * s // view.itemsize for n, s in zip(view.shape, view.strides, strict=True))


@pytest.mark.parametrize(
    ("spec", "shape"), [("ik,jk->ij", (6, 300, 96)), ("ik,jk->ij", (32, 999, 96)), ("ik,kj->ij", (70, 300, 96))]
)
@pytest.mark.parametrize("threads", [1, 3])
def test_threads(spec, shape, threads):
    """The runtime's threads share a matmul; each has its own scratch."""
    sizes = dict(zip("ijk", shape, strict=True))
    rng = np.random.default_rng(5)
    left, right, _ = spec.replace("->", ",").split(",")
    a, b = (rng.standard_normal([sizes[x] for x in axes]).astype("f") for axes in (left, right))
    (region,) = regions_of_matmul(contraction_kernel(spec, sizes), native_target(threads))
    (code,) = load_functions([region.function])
    stride = -(-region.scratch // 64) * 64
    numbers = np.array(region.numbers, np.int64).tobytes()
    places = tuple(Position(1 + i) for i in region.buffers)
    step = NativeRegion(code, places, numbers, region.extent, region.grain, Position(0), stride)
    inputs = [PlainArray(x.shape, x.dtype) for x in (a, b)]
    plan = NativePlan(inputs, [PlainArray(shape[:2], a.dtype)], [step], arena=threads * stride, threads=threads)
    program, before = NativeProgram(plan), num_threads()
    set_num_threads(threads)
    try:
        for _ in range(50):
            (got,) = program.entry(program.workspace(), None, a, b)
            np.testing.assert_allclose(got, np.einsum(spec, a.astype("d"), b.astype("d")), rtol=1e-4, atol=1e-4)
    finally:
        set_num_threads(before)


@tiled
@pytest.mark.parametrize(
    ("spec", "shape", "algorithm"),
    [
        ("ik,jk->ij", (1, 512, 512), "dots"),  # a vector with weights
        ("ik,jk->ij", (128, 10, 512), "dots"),  # few classes
        ("ik,jk->ij", (8, 96, 100), "tiles"),  # no whole registers of terms
        ("ik,jk->ij", (128, 33, 96), "dots"),  # few columns more than a panel
        ("ik,kj->ij", (128, 33, 96), "blas"),
        ("ik,jk->ij", (32, 1024, 128), "turned"),  # few rows, but a whole panel
        ("ik,jk->ij", (20, 128, 128), "tiles"),  # few terms for each row
        ("ik,jk->ij", (32, 4096, 1024), "turned"),  # a large weight
        ("ik,kj->ij", (32, 512, 512), "tiles"),  # rows of a panel follow memory
        ("ik,jk->ij", (512, 512, 512), "tiles"),  # as many rows as columns
        ("ik,jk->ij", (5, 512, 512), "dots"),  # many
        ("ik,kj->ij", (128, 64, 64), "tiles"),  # a head of attention
        ("ik,kj->ij", (128, 512, 10), "blas"),  # few terms
        ("ki,kj->ij", (1024, 1024, 256), "blas"),  # a large weight's gradient
    ],
)
def test_choice(spec, shape, algorithm):
    (region,) = regions_of_matmul(contraction_kernel(spec, dict(zip("ijk", shape, strict=True))), native_target(2))
    assert region.algorithm == algorithm


def _random_product(rng):
    """An einsum of batches, rows, columns and sums in any order, the sizes, and by how much each array is larger."""
    names, kinds = iter("abcdefghij"), []
    for kind, most in (("batch", 2), ("row", 2), ("column", 2), ("sum", 2)):
        kinds += [(next(names), kind) for _ in range(rng.integers(kind == "sum", most + 1))]
    sizes = {name: int(rng.choice([1, 2, 3, 5, 8, 16, 17, 33, 64])) for name, _ in kinds}
    operands = []
    for absent in ("column", "row", "sum"):
        axes = [name for name, kind in kinds if kind != absent]
        operands.append("".join(rng.permutation(axes) if axes else []))
    if len(kinds) > 4 or np.prod(list(sizes.values())) > 3e6:
        return _random_product(rng)
    return f"{operands[0]},{operands[1]}->{operands[2]}", sizes


@pytest.mark.parametrize("seed", range(60))
def test_any_product(seed):
    rng = np.random.default_rng(seed)
    spec, sizes = _random_product(rng)
    dtype = str(rng.choice(["f32", "f64"]))
    left, right, out = spec.replace("->", ",").split(",")
    whole = [numbers_of(rng, [sizes[a] + int(rng.integers(0, 3)) for a in axes], dtype) for axes in (left, right)]
    if rng.random() < 0.5:
        whole = [numbers_of(rng, [sizes[a] for a in axes], dtype) for axes in (left, right)]
    a, b = (
        x[tuple(slice(x.shape[i] - sizes[axis], None) for i, axis in enumerate(axes))]
        for x, axes in zip(whole, (left, right), strict=True)
    )
    result = np.zeros([sizes[x] for x in out], a.dtype)
    strides = [tuple(s // x.itemsize for s in x.strides) for x in (a, b, result)]
    algorithms = [(), ("tiles", "dots", "blas"), ("dots", "tiles"), ("turned", "blas"), ("blas",)][int(rng.integers(5))]
    regions = regions_of_matmul(
        contraction_kernel(spec, sizes, dtype), native_target(int(rng.integers(1, 5))), strides, algorithms
    )
    flat = [x.reshape(-1)[_offset(x, y) :][: _reach(y)] for x, y in zip(whole, (a, b), strict=True)]
    want, scale = expected(spec, a, b)
    for at_end in (True, False):
        got = run(regions, flat, result, 2, at_end, rng)
        assert np.all(abs(got - want) <= TOLERANCE[dtype] * scale + 1e-30), (spec, sizes, regions[0].algorithm)
