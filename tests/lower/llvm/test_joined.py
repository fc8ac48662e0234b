"""Arrays put together by native programs: kernels write parts where they belong, whoever they are made by."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.parser import Parser

import hybridc as mx
from hybridc.compile import pipeline
from hybridc.errors import VerifyError
from hybridc.gluon.nn import HybridLambda
from hybridc.ir import spec
from hybridc.ir.kernels.kernel_module import recognise_kernels
from hybridc.lower.llvm.emit_steps import emit_native_plan
from hybridc.lower.llvm.native_target import native_target
from hybridc.runtime.native_executable import NativeExecutable
from hybridc.transforms.code.choose_code import ChooseCode
from hybridc.transforms.code.kernel_cache import KernelCache
from hybridc.transforms.kernels.split_contractions import SplitContractions
from hybridc.transforms.memory.plan_memory import PlanMemory
from hybridc.transforms.memory.verify_plan import VerifyPlan

RNG = np.random.default_rng(7)


def data(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def lowered(function, *arrays):
    """The native program of a function, checked after every pass."""
    module = HybridLambda(function).trace(*[mx.nd.array(a, dtype=a.dtype) for a in arrays]).optimize().module
    level = "graph"
    last = (SplitContractions(), ChooseCode(KernelCache(native_target(2))), PlanMemory(), VerifyPlan())
    for each in (*pipeline.structured_passes("llvm"), *pipeline.KERNELS, *last):
        each.apply(Context(), module)
        module.verify()
        level = spec.level_after(each.name, level)
        spec.check_level(module, level, each.name)
    return emit_native_plan(module, "forward", KernelCache(native_target(2)))


def check(function, *arrays):
    """The program computes what eager calls do; its kernels."""
    program = lowered(function, *arrays)
    executable = NativeExecutable(program)
    results = function(mx.nd, *[mx.nd.array(a, dtype=a.dtype) for a in arrays])
    expected = results if isinstance(results, list | tuple) else [results]
    for _ in range(2):  # with what the first call left in the arena
        got = executable.run(executable.make_workspace(), *arrays)
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_allclose(one.reshape(other.shape), other.asnumpy(), rtol=1e-5, atol=1e-6)
    assert not program.host_calls
    return program.launches


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_parts_are_written_by_those_who_make_them(axis):
    launches = check(lambda F, x, y: F.concat(F.exp(x), y * 2, dim=axis), data(3, 4, 5), data(3, 4, 5))
    assert launches == ["fused_exp_multiply"]  # one kernel writes both


def test_a_part_that_is_needed_elsewhere_is_written_twice_by_one_kernel():
    def function(F, x):
        y = F.exp(x)
        return F.concat(y, x, dim=1), F.sum(y, axis=1), y

    assert not any(name == "k_exp" for name in check(function, data(6, 5)))


def test_rows_are_written_by_anyone_without_a_copy():
    launches = check(lambda F, x: F.concat(F.dot(x, x), F.sum(x, axis=0, keepdims=True), dim=0), data(6, 6))
    assert launches == ["k_matmul", "k_sum"]


CASES = {
    "arguments": lambda F, x: F.concat(x, x, x, dim=1),
    "a product": lambda F, x: F.concat(F.dot(x, x), x, dim=1),
    "a product with an epilogue": lambda F, x: F.concat(F.relu(F.dot(x, x) + 1), x, dim=0),
    "a reduction": lambda F, x: F.concat(F.sum(x, axis=1, keepdims=True), F.max(x, axis=1, keepdims=True), dim=1),
    "reductions over all": lambda F, x: F.concat(F.sum(x).reshape((1, 1)), F.mean(x).reshape((1, 1)), dim=0),
    "a softmax": lambda F, x: F.concat(F.softmax(x), F.softmax(x, axis=0), dim=1),
    "a transpose": lambda F, x: F.concat(F.transpose(x), F.transpose(F.exp(x)), dim=1),
    "slices": lambda F, x: F.concat(F.slice_axis(x, axis=1, begin=1, end=3), F.slice_axis(x, axis=1, begin=0, end=1)),
    "nested": lambda F, x: F.concat(F.concat(F.exp(x), x, dim=0), F.concat(x, F.tanh(x), dim=0), dim=1),
    "nested and read": lambda F, x: F.exp(F.concat(F.concat(x, x * 2, dim=0), F.concat(x, x, dim=0), dim=1)),
    "reshaped": lambda F, x: F.concat(F.reshape(F.exp(x), (3, 12)), F.reshape(x, (3, 12)), dim=1),
    "reshaped within": lambda F, x: F.stack(F.reshape(F.exp(x), (2, 3, 6)), F.reshape(x * 2, (2, 3, 6)), axis=2),
    "stacked": lambda F, x: F.stack(F.exp(x), x, axis=1),
    "stacked rows": lambda F, x: F.stack(*[F.slice_axis(x, axis=0, begin=i, end=i + 1) for i in range(6)], axis=0),
    "one after the other": lambda F, x: F.concat(x, F.exp(F.concat(x, F.tanh(x), dim=1)), dim=1),
    "a part of itself": lambda F, x: F.concat(F.exp(x), F.sum(F.concat(F.exp(x), x), axis=1, keepdims=True), dim=1),
    "nothing in a part": lambda F, x: F.concat(F.slice(x, begin=(0, 0), end=(6, 0)), F.exp(x), dim=1),
    "a large border": lambda F, x: F.pad(
        F.exp(x).reshape((1, 1, 6, 6)), mode="constant", constant_value=3, pad_width=(0,) * 4 + (70, 80, 60, 90)
    ),
    "numbers": lambda F, x: F.concat(F.zeros((6, 2)), F.ones((6, 3)), F.relu(x), dim=1),
}


@pytest.mark.parametrize("name", CASES)
def test_everything_may_be_a_part(name):
    check(CASES[name], data(6, 6))


@pytest.mark.parametrize("kind", ["float16", "float64", "uint8", "int64"])
def test_other_dtypes(kind):
    x = RNG.integers(0, 100, (4, 5)).astype(kind)
    check(lambda F, x: F.concat(x * 2, x, F.reverse(x, axis=1), dim=1), x)


LOOP = """linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
    outs(%e : tensor<2xf32>) attrs = {hybrid.axes = array<i64: 0>} {"""

WRONG = {
    "is made for it alone": (
        """func.func @f(%x: tensor<2xf32>) -> tensor<4xf32> {
             %y = func.call @k(%x) : (tensor<2xf32>) -> tensor<2xf32>
             %z = tensor.concat dim(0) %y, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
             func.return %z : tensor<4xf32> }
           func.func private @k(%x: tensor<2xf32>) -> tensor<2xf32> attributes {hybrid.domains = []} {
             func.return %x : tensor<2xf32> }""",
        "tensor.concat is not allowed on the kernels level: an operand is not the result of a kernel for this "
        "concatenation alone",
    ),
    "is an argument": (
        f"""func.func private @k(%x: tensor<2xf32>) -> tensor<2xf32> attributes {{hybrid.domains = [array<i64: 2>]}} {{
             %e = tensor.empty() : tensor<2xf32>
             %a = {LOOP} ^bb0(%o: f32): linalg.yield %o : f32 }} -> tensor<2xf32>
             %b = {LOOP} ^bb0(%o: f32):
               %i = linalg.index 0 : index
               %v = tensor.extract %a[%i] : tensor<2xf32>
               linalg.yield %v : f32 }} -> tensor<2xf32>
             func.return %b : tensor<2xf32> }}""",
        "linalg.generic is not allowed on the kernels level: its body reads at computed indices an array that is no "
        "argument of the kernel",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_kernels_that_do_not_hold_to_it_are_refused(what):
    text, expected = WRONG[what]
    module = Parser(pipeline.context(), text).parse_module()
    recognise_kernels(module)
    with pytest.raises(VerifyError) as error:
        spec.check_level(module, "kernels", "some-pass")
    assert str(error.value) == f"after some-pass: {expected}"


def test_the_whole_needs_memory_once():
    """Its parts have none of their own; one kernel's result and the whole are all there is."""
    program = lowered(lambda F, x: F.sum(F.concat(F.exp(x), F.tanh(x), dim=1), axis=0), data(1024, 64))
    assert program.arena < 1.3 * 2 * 1024 * 64 * 4
