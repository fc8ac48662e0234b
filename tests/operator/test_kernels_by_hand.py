"""Kernels that an operator's author writes: each target runs its own, and what is wrong with one is said."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc.dialects.handwritten import ArraySpec
from hybridc.dialects.kernels.add_rows import add_rows
from hybridc.errors import AttributeValueError, CustomOpError, MXNetError
from hybridc.gluon.nn import HybridLambda
from hybridc.lower.llvm.native_target import native_target
from hybridc.lower.triton.handwritten_launch import launch
from hybridc.runtime.triton_kernel import run_interpreted
from hybridc.transforms.code.kernel_builder import loop_kernel_region
from tests.lower.llvm.guards import in_guards

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import kernels_by_hand  # noqa: F401  (registers the operator)

RNG = np.random.default_rng(3)
F32 = np.dtype("float32")


def compiled(function, *arrays, target):
    """The result of a function compiled for a target, and the program."""
    given = [mx.nd.array(a, dtype=a.dtype) for a in arrays]
    lowered = HybridLambda(function).trace(*given).optimize().lower(target)
    return lowered.compile()(*given).asnumpy(), lowered.programs["forward"]


# --- each target runs its own ---------------------------------------------------------------------------------


@mx.op.register("byhand.marked")
class Marked(mx.op.Elementwise):
    """x + 1, to which a kernel adds what tells whose it is"""

    def scalar(self, b, x):
        return b.add(x, 1)

    def kernel(self, target, inputs, outputs):
        (x,), (y,) = inputs, outputs
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        if x.dtype != F32:
            return None
        if target == "numpy":
            return lambda x, out: np.add(x, 101, out=out)
        if target == "llvm":
            return mx.op.LoopKernel(self.loops, x.size)
        return mx.op.TritonKernel(marked_kernel, (x.size,))

    def loops(self, b, low, high, x, y):
        b.loop(low, high, lambda i: b.store(b.add(b.load(x, i), 201), y, i))


def marked_kernel(x_ptr, y_ptr):
    i = tl.program_id(0)  # noqa: F821  (kernels see it)
    tl.store(y_ptr + i, tl.load(x_ptr + i) + 301)  # noqa: F821


MARKS = ["numpy", "llvm", pytest.param("triton", marks=pytest.mark.triton)]


@pytest.mark.parametrize("target", MARKS)
def test_a_target_runs_its_kernel_amid_generated_ones(target):
    x = RNG.normal(size=(3, 5)).astype(F32)
    got, program = compiled(lambda F, x: F.marked(x * 2) * 3, x, target=target)
    mark = {"numpy": 101, "llvm": 201, "triton": 301}[target]
    np.testing.assert_allclose(got, (x * 2 + mark) * 3, rtol=1e-6)
    assert len(program.launches) == 3
    assert not program.host_calls


@pytest.mark.parametrize("target", MARKS)
def test_without_a_kernel_it_is_what_its_kind_says(target):
    x = RNG.normal(size=(3, 5))
    got, program = compiled(lambda F, x: F.marked(x * 2) * 3, x, target=target)
    np.testing.assert_allclose(got, (x * 2 + 1) * 3, rtol=1e-12)
    assert len(program.launches) == 1


@pytest.mark.parametrize("target", MARKS)
def test_no_kernel_writes_over_what_it_reads(target):
    """An elementwise operator's result may lie in its input's memory; a kernel's author has not promised that."""
    x = RNG.normal(size=(3, 5)).astype(F32)
    got, program = compiled(lambda F, x: F.marked(F.exp(x)) * 3, x, target=target)
    assert "hybrid.kernel" in str(HybridLambda(lambda F, x: F.marked(x)).trace(mx.nd.array(x)).optimize().form(target))
    mark = {"numpy": 101, "llvm": 201, "triton": 301}[target]
    np.testing.assert_allclose(got, (np.exp(x) + mark) * 3, rtol=1e-6)
    assert program.arena >= 2 * 64


def test_the_gradient_is_the_operators():
    x = mx.nd.array(RNG.normal(size=(3, 5)).astype(F32))
    x.attach_grad()
    net = HybridLambda(lambda F, x: F.marked(x * 2))
    net.hybridize()
    with mx.autograd.record():
        y = net(x)
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), np.full((3, 5), 2, F32))


@pytest.mark.parametrize("target", MARKS)
@pytest.mark.parametrize("shape", [(6, 100), (1, 1), (2, 3, 33), (70, 3)])
def test_the_example(target, shape):
    x = RNG.normal(size=shape).astype(F32)
    got, program = compiled(lambda F, x: F.rms_norm(x * 2), x, target=target)
    wide = x.astype(np.float64) * 2
    want = wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(got, want, rtol=1e-5)
    assert len(program.host_calls) == (target == "numpy")


@pytest.mark.triton
def test_the_example_does_what_it_says():
    mx.test_utils.check_op("examples.rms_norm")


# --- native loops ---------------------------------------------------------------------------------------------


def ran(body, extent, arrays, outputs, numbers=(), **more):
    """What native loops make of arrays, and their phase."""
    specs = [ArraySpec(a.shape, a.dtype) for a in (*arrays, *outputs)]
    kernel_launch = loop_kernel_region(mx.op.LoopKernel(body, extent, numbers, **more), specs, native_target(2))
    return in_guards([kernel_launch], arrays, outputs), kernel_launch


def extremes(b, low, high, x, least, most):
    """Along the second of two axes."""

    def row(i):
        def step(j, *sofar):
            value = b.load(x, i, j)
            return b.min(sofar[0], value), b.max(sofar[1], value)

        first = b.load(x, i, 0)
        found = b.loop(1, x.shape[1], step, first, first)
        b.store(found[0], least, i)
        b.store(found[1], most, i)

    b.loop(low, high, row)


@pytest.mark.parametrize("kind", ["float64", "int32", "uint8", "float16", "bfloat16"])
def test_loops_carry_values(kind):
    x = RNG.integers(0, 200, (7, 12)).astype(np.dtype(kind))
    (least, most), _ = ran(extremes, 7, [x], [np.zeros(7, x.dtype), np.zeros(7, x.dtype)])
    np.testing.assert_array_equal(least, x.min(1))
    np.testing.assert_array_equal(most, x.max(1))


def scaled(b, low, high, x, y, factor):
    b.loop(low, high, lambda i: b.store(b.mul(b.load(x, i), b.cast(factor, x.dtype)), y, i))


def test_sizes_that_are_numbers_share_code():
    keys = set()
    for size, factor in ((5, 3), (9, -2)):
        x = RNG.normal(size=size)
        (y,), kernel_launch = ran(scaled, size, [x], [np.zeros(size)], (factor,), flat=True)
        np.testing.assert_array_equal(y, x * factor)
        keys.add(kernel_launch.function.key)
    assert len(keys) == 1


def test_other_code_has_another_key():
    x = np.ones((2, 3))
    keys = {ran(lambda b, low, high, x, y, n=n: b.store(n, y, 0), 1, [x], [x])[1].function.key for n in (1, 2, 1)}
    assert len(keys) == 2


def test_bits():
    x = RNG.integers(0, 2**64, 9, np.uint64)

    def body(b, low, high, x, high_part, low_part, mixed):
        def each(i):
            value = b.load(x, i)
            upper, lower = b.wide_product(value, b.constant(0xD2E7470EE14C6C93, np.dtype("uint64")))
            b.store(upper, high_part, i)
            b.store(lower, low_part, i)
            b.store(b.xor(value, b.shift_right(value, 7)), mixed, i)

        b.loop(low, high, each)

    outs, _ = ran(body, 9, [x], [np.zeros(9, np.uint64)] * 3)
    contractions = [int(v) * 0xD2E7470EE14C6C93 for v in x]
    np.testing.assert_array_equal(outs[0], np.array([p >> 64 for p in contractions], np.uint64))
    np.testing.assert_array_equal(outs[1], np.array([p % 2**64 for p in contractions], np.uint64))
    np.testing.assert_array_equal(outs[2], x ^ (x >> np.uint64(7)))


def test_a_setup_makes_ranges_few():
    """What each range takes however short it is does not become more than what all of them do."""
    spec = [ArraySpec((10000,), F32)]
    kernel_launches = [
        loop_kernel_region(
            mx.op.LoopKernel(scaled if setup is None else copies, 10000, work=1e7, setup=setup),
            [*spec, *spec],
            native_target(2),
        )
        for setup in (0.0, 1e4, 1e6)
    ]
    counts = [-(-p.extent // p.grain) for p in kernel_launches]
    assert counts[0] > 1000
    assert counts[1:] == [8, 8]


def copies(b, low, high, x, y):
    b.loop(low, high, lambda i: b.store(b.load(x, i), y, i))


# --- the built-in kernels -------------------------------------------------------------------------------------


@pytest.mark.triton
@pytest.mark.parametrize("kind", ["float64", "float16", "bool", "int32"])
@pytest.mark.parametrize("index", ["int64", "float32", "uint8"])
@pytest.mark.parametrize("mode", ["clip", "wrap"])
def test_rows_are_added_on_a_gpu_as_on_the_cpu(kind, index, mode):
    """Whole numbers, of which every sum is exact."""
    data = RNG.integers(0, 2 if kind == "bool" else 5, (2, 9, 3)).astype(kind)
    places = RNG.integers(0 if index == "uint8" else -5, 90, 9).astype(index)
    specs = ArraySpec(data.shape, data.dtype), ArraySpec(places.shape, places.dtype)
    want = np.zeros((2, 40, 3), kind)
    for k, place in enumerate(places.astype(np.int64)):
        want[:, place % 40 if mode == "wrap" else np.clip(place, 0, 39)] += data[:, k]
    gpu = launch(add_rows("triton", *specs, want.shape, 1, mode), [data.dtype, places.dtype, data.dtype])
    got = np.empty_like(want)
    run_interpreted(gpu.function, [data, places, got], gpu.numbers, gpu.configs[0])
    np.testing.assert_array_equal(got, want)
    native = loop_kernel_region(
        add_rows("llvm", *specs, want.shape, 1, mode), [*specs, ArraySpec(want.shape, want.dtype)], native_target(2)
    )
    np.testing.assert_array_equal(in_guards([native], [data, places], [np.empty_like(want)])[0], want)


# --- what is wrong is said ------------------------------------------------------------------------------------


def operator(name, answer, kind=mx.op.Opaque):
    """An operator whose kernel gives an answer, or raises."""

    class Wrong(kind):
        """x"""

        def infer_shape(self, shapes):
            return shapes, shapes

        def eager(self, x):
            return x.copy()

        def decompose(self, F, x):
            return F.identity(x)

        def kernel(self, target, inputs, outputs):
            return answer(target) if callable(answer) else answer

    return mx.op.register(f"byhand.{name}")(Wrong)


def error_of(name, target, kind=CustomOpError):
    with pytest.raises(kind) as error:
        compiled(lambda F, x: getattr(F, name)(x), np.ones((2, 3), F32), target=target)
    return str(error.value)


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ("numpy", "a function that takes the inputs and out="),
        ("llvm", "an mx.op.LoopKernel"),
        ("triton", "an mx.op.TritonKernel"),
    ],
)
def test_a_kernel_of_another_kind(target, wanted):
    operator(f"number_{target}", 7)
    text = error_of(f"number_{target}", target)
    assert re.fullmatch(
        rf".*test_kernels_by_hand\.py:\d+.*: operator byhand.number_{target}: kernel\('{target}', …\) returned 7; it "
        rf"returns {wanted}, or None where it has no kernel \(.*test_kernels_by_hand\.py:\d+\)",
        text,
    )


def test_a_kernel_that_raises():
    operator("raises", lambda target: 1 // 0)
    text = error_of("raises", "llvm")
    assert "operator byhand.raises: kernel raised ZeroDivisionError" in text
    assert "test_kernels_by_hand.py" in text


def test_a_kernel_method_without_parameters():
    class Wrong(mx.op.Opaque):
        """x"""

        def infer_shape(self, shapes):
            return shapes, shapes

        def eager(self, x):
            return x.copy()

        def kernel(self):
            return None

    mx.op.register("byhand.short")(Wrong)
    text = error_of("short", "llvm")
    assert "kernel(self) is called with the target, and lists of the inputs and the results as ArraySpec" in text


def returns(b, low, high, x, y):
    return b.load(x, low, low)


def indexes(b, low, high, x, y):
    b.store(1, y, 0, 0, 0)


def carries(b, low, high, x, y):
    b.loop(0, 3, lambda i, s: None, b.load(x, 0))


def has_no_step(b, low, high, x, y):
    b.swish(x)


def takes(b, low):
    pass


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (returns, "the body of a LoopKernel writes by b.store and returns nothing; it returned Element("),
        (indexes, "kernel raised IndexError: an array of shape (2, 3) is indexed by 3 indices ("),
        (carries, "kernel raised ValueError: a loop that carries 1 values has a body that gives 0 ("),
        (has_no_step, "kernel raised AttributeError: scalar bodies have no step 'swish'"),
        (takes, "the body of a LoopKernel takes (b, low); it is given the builder, low, high, 2 arrays and 0 numbers"),
    ],
)
def test_native_loops_that_are_wrong(body, text):
    operator(f"loops_{body.__name__}", lambda target: mx.op.LoopKernel(body, 2))
    assert f"operator byhand.loops_{body.__name__}: {text}" in error_of(f"loops_{body.__name__}", "llvm")


def test_a_function_for_numpy_that_does_not_write():
    operator("returns", lambda target: lambda x, out: x * 2)
    text = error_of("returns", "numpy")
    assert "operator byhand.returns: the kernel <lambda> returned array([[2., 2., 2.]" in text
    assert "writes its results into out=" in text


def test_a_ufunc_is_a_function_for_numpy():
    operator("ufunc", lambda target: np.negative if target == "numpy" else None)
    got, _ = compiled(lambda F, x: F.ufunc(x), np.ones((2, 3), F32), target="numpy")
    np.testing.assert_array_equal(got, -np.ones((2, 3)))


def test_an_input_cannot_be_written_by_a_function_for_numpy():
    operator("writes", lambda target: lambda x, out: np.negative(x, out=x))
    assert "an operator must not change its inputs" in error_of("writes", "numpy")


def takes_two(x_ptr, n):
    pass


def test_a_triton_function_with_other_parameters():
    with pytest.raises(CustomOpError, match=r"takes_two takes \(x_ptr, n\); it is given 3 pointers, 0 numbers and the"):
        launch(mx.op.TritonKernel(takes_two, (1,)), [F32, F32, F32])
    with pytest.raises(
        CustomOpError, match=r"1 pointers, 0 numbers and the constants \(N\), in this order \(.*py:\d+\)"
    ):
        launch(mx.op.TritonKernel(takes_two, (1,), constants={"N": 1}), [F32])


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: mx.op.TritonKernel(None, (1,)), "TritonKernel: the kernel must be a function, got None"),
        (lambda: mx.op.TritonKernel(takes_two, ()), "TritonKernel: grid has one to three axes, got ()"),
        (lambda: mx.op.TritonKernel(takes_two, 4), "TritonKernel: grid takes Python integers, got 4"),
        (lambda: mx.op.TritonKernel(takes_two, (1,), (1.5,)), "TritonKernel: numbers takes Python integers"),
        (lambda: mx.op.LoopKernel(scaled, 2.5), "LoopKernel: extent takes Python integers, got [2.5]"),
        (lambda: mx.op.LoopKernel(scaled, 2, "12"), "LoopKernel: numbers takes Python integers, got '12'"),
        (lambda: mx.op.LoopKernel("x", 2), "LoopKernel: the kernel must be a function, got 'x'"),
    ],
)
def test_descriptions_that_are_wrong(make, text):
    with pytest.raises(AttributeValueError, match=re.escape(text)):
        make()


def test_an_attribute_of_the_hooks_name_is_declared_beside_it():
    """As that of a convolution."""
    with pytest.raises(MXNetError, match="the attribute kernel of class Pool has the name of a method"):

        @mx.op.register("byhand.clash")
        class Pool(mx.op.Elementwise):
            """x * kernel"""

            kernel: int = mx.op.attribute(2)

            def scalar(self, b, x):
                return b.mul(x, self.kernel)

    @mx.op.register("byhand.beside")
    class Beside(mx.op.Elementwise):
        """x * kernel"""

        kernel_: int = mx.op.attribute(2)

        def scalar(self, b, x):
            return b.mul(x, self.kernel_)

    got, _ = compiled(lambda F, x: F.beside(x, kernel=3), np.ones(4, F32), target="llvm")
    np.testing.assert_array_equal(got, np.full(4, 3))


def test_a_composite_operator_has_no_kernel():
    with pytest.raises(MXNetError, match="is Composite, of which only its decomposition reaches a target"):
        operator("composite", None, mx.op.Composite)
