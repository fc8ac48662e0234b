"""Plans and kernels with one wrong claim: each is refused, by verify-plan, by the level's spec, or by the emitter."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from xdsl.context import Context
from xdsl.dialects import tensor
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i64
from xdsl.parser import Parser

import hybridc as mx
from hybridc.compile import pipeline
from hybridc.compile.targets import target_named
from hybridc.errors import VerifyError
from hybridc.gluon.nn import HybridLambda
from hybridc.ir import spec
from hybridc.ir.kernels.kernel_module import recognise_kernels
from hybridc.ir.values import functions
from hybridc.transforms.memory.plan_memory import PlanMemory
from hybridc.transforms.memory.verify_plan import VerifyPlan

RUN = VerifyPlan().apply


def traced(function, *shapes):
    net = HybridLambda(function)
    return net.trace(*[mx.nd.ones(shape) for shape in shapes]).optimize()


def planned(optimized, target, change):
    """The module of a target's plan, where ``change`` is made to each kernel before memory is planned; its emitter."""
    planning = target_named(target).plan()
    module = optimized.form(target).module
    before = [p for p in planning.passes if p.name not in ("plan-memory", "verify-plan")]
    pipeline.run(before, module, after=target_named(target).kernels())
    for kernel in functions(module):
        if kernel.sym_visibility is not None:
            change(kernel)
    PlanMemory().apply(Context(), module)
    return module, lambda: planning.emit(module, "forward")


# Rows are summed twice, so that the numpy target needs scratch, and the native target as well.
def two_norms(F, x):
    y = F.exp(x)
    y = F.broadcast_div(y, F.sum(y, axis=1, keepdims=True))
    return F.dot(y, F.broadcast_sub(y, F.max(y, axis=1, keepdims=True)), transpose_b=True)


@pytest.mark.parametrize("target", ["numpy", "llvm"])
def test_scratch_that_is_understated(target):
    sizes = []

    def halve(kernel):
        size = kernel.attributes.get("hybrid.scratch")
        if isinstance(size, IntegerAttr) and size.value.data:
            sizes.append(size.value.data)
            kernel.attributes["hybrid.scratch"] = IntegerAttr(0, i64)

    _, emit = planned(traced(two_norms, (300, 300)), target, halve)
    assert sizes
    with pytest.raises(VerifyError, match=r"memory plan: @\w+ needs \d+ bytes of scratch, got 0"):
        emit()
    planned(traced(two_norms, (300, 300)), target, lambda _: None)[1]()


def multiplied(F, x):
    """The second matmul reads what the first has made, and its result could have the same memory."""
    y = F.dot(x, x)
    return F.dot(F.dot(F.exp(y), y), x)


def claim(kernel):
    """That each argument may be written over by each result of its type."""
    ins, outs = kernel.function_type.inputs.data, kernel.function_type.outputs.data
    pairs = [n for j, b in enumerate(outs) for i, a in enumerate(ins) if a == b for n in (i, j)]
    kernel.attributes["hybrid.inplace"] = DenseArrayBase.from_list(i64, pairs)


@pytest.mark.parametrize("target", ["numpy", "llvm", "triton"])
def test_in_place_where_elements_are_read_later(target):
    module, emit = planned(traced(multiplied, (32, 32)), target, claim)
    with pytest.raises(VerifyError, match=r"over its argument .* declares, but it (sums|reads other)"):
        RUN(Context(), module)
    with pytest.raises(VerifyError, match=r"overwrites argument \d with result 0, but its code reads it later"):
        emit()


KERNEL = """
func.func @forward(%x: memref<4x4xf32>) -> memref<4x4xf32> {{
  %m = hybrid_rt.arena : memref<64xi8>
  %a = hybrid_rt.view %m[0 : i64] : memref<64xi8> -> memref<4x4xf32>
  hybrid_rt.launch @first ins(%x : memref<4x4xf32>) outs(%a : memref<4x4xf32>)
  %b = hybrid_rt.view %m[0 : i64] : memref<64xi8> -> memref<4x4xf32>
  hybrid_rt.launch @k ins(%a : memref<4x4xf32>) outs(%b : memref<4x4xf32>)
  %c = hybrid_rt.alloc : memref<4x4xf32>
  hybrid_rt.launch @first ins(%b : memref<4x4xf32>) outs(%c : memref<4x4xf32>)
  func.return %c : memref<4x4xf32>
}}
func.func private @first(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {{
  %y = math.exp %x : tensor<4x4xf32>
  func.return %y : tensor<4x4xf32>
}}
func.func private @k(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {{
  hybrid.domains = [array<i64: 4, 4>, array<i64: 4, 4>], hybrid.inplace = array<i64: 0, 0>
}} {{
  %e = tensor.empty() : tensor<4x4xf32>
  {body}
  func.return %r : tensor<4x4xf32>
}}
"""
ROWS, COLUMNS = "affine_map<(i, j) -> (i, j)>", "affine_map<(i, j) -> (j, i)>"


def generic(name, read, types="f32", nest=0):
    attributes = f"attrs = {{hybrid.loop_nest = {nest} : i64, hybrid.axes = array<i64: 0, 1>}}"
    return (
        f'%{name} = linalg.generic {{indexing_maps = [{read}, {ROWS}], iterator_types = ["parallel", "parallel"]}} '
        f"ins(%x : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {attributes} {{\n"
        f"^bb0(%v: f32, %o: {types}):\n linalg.yield %v : f32\n}} -> tensor<4x4xf32>"
    )


def module_of(body):
    module = Parser(pipeline.context(), KERNEL.format(body=body)).parse_module()
    recognise_kernels(module)
    return module


def test_a_kernel_that_may_write_in_place():
    RUN(Context(), module_of(generic("r", ROWS)))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (generic("r", COLUMNS), "it reads other elements of it than it writes"),
        (generic("r", ROWS) + "\n" + generic("s", COLUMNS), "it reads other elements of it than it writes"),
        (generic("r", ROWS) + "\n" + generic("s", ROWS, nest=1), "it reads other elements of it afterwards"),
        ("%r = linalg.matmul {hybrid.axes = array<i64: 0, 1, -1>} ins(%x, %x : tensor<4x4xf32>, tensor<4x4xf32>) "
         "outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>", "it sums into the result while it reads"),
    ],
)  # fmt: skip
def test_a_kernel_that_may_not(body, why):
    with pytest.raises(VerifyError) as caught:
        RUN(Context(), module_of(body))
    assert "over its argument the view at 0 (a) of type memref<4x4xf32>, which @k declares, but " + why in str(
        caught.value
    )


def test_a_body_of_other_types():
    with pytest.raises(VerifyError, match="its body takes f64 for operand 1, whose elements are f32"):
        RUN(Context(), module_of(generic("r", ROWS, types="f64")))
    module = module_of("%n = arith.constant 1 : i32\n" + generic("r", ROWS))
    kernel = next(f for f in functions(module) if f.sym_name.data == "k")
    number, loops = (op for op in kernel.body.block.ops if op.name in ("arith.constant", "linalg.generic"))
    loops.body.block.last_op.operands = [number.result]
    with pytest.raises(VerifyError, match="its body yields i32 where its results have elements of f32"):
        RUN(Context(), module)


SLICE = """func.func @f(%x: tensor<4x6xf32>) -> tensor<2x2xf32> {{
  %y = "tensor.extract_slice"(%x) <{{static_offsets = array<i64: {0}>, static_sizes = array<i64: 2, 2>,
    static_strides = array<i64: {1}>, operandSegmentSizes = array<i32: 1, 0, 0, 0>}}>
    : (tensor<4x6xf32>) -> tensor<2x2xf32>
  func.return %y : tensor<2x2xf32>
}}"""


@pytest.mark.parametrize("level", ["structured", "kernels"])
@pytest.mark.parametrize(
    ("offsets", "strides", "why"),
    [
        ("0, 5", "1, 1", "axis 1, of 6 elements, has no 2 from 5 on by 1"),
        ("3, 0", "1, 1", "axis 0, of 4 elements, has no 2 from 3 on by 1"),
        ("0, 0", "4, 5", "axis 0, of 4 elements, has no 2 from 0 on by 4"),
        ("-1, 0", "1, 1", "axis 0, of 4 elements, has no 2 from -1 on by 1"),
    ],
)
def test_a_slice_out_of_bounds(level, offsets, strides, why):
    module = Parser(pipeline.context(), SLICE.format(offsets, strides)).parse_module()
    with pytest.raises(VerifyError, match=f"tensor.extract_slice is not allowed on the {level} level: {why}"):
        spec.check_level(module, level, "a pass")
    fits = Parser(pipeline.context(), SLICE.format("2, 3", "1, 2")).parse_module()
    assert isinstance(fits.body.block.first_op.body.block.first_op, tensor.ExtractSliceOp)
    spec.check_level(fits, "structured", "a pass")


@pytest.fixture(scope="module")
def trained():
    """A plan of a forward and its backward, which gets values of one type."""
    net = HybridLambda(lambda F, x, y, z: F.dot(x, y) * F.sum(z * z))
    traced = replace(net.trace(mx.nd.ones((4, 4)), mx.nd.ones((4, 4)), mx.nd.ones((3,))), grads=(0, 1, 2))
    return traced.optimize().lower("numpy").module


def wrong(module, change):
    """The plan with other numbers of saved values."""
    made = module.clone()
    (backward,) = (f for f in functions(made) if f.sym_name.data == "backward")
    numbers = change([int(n) for n in backward.attributes["hybrid.saved"].get_values()], backward)
    backward.attributes["hybrid.saved"] = DenseArrayBase.from_list(i64, numbers)
    with pytest.raises(VerifyError) as caught:
        RUN(Context(), made)
    return str(caught.value)


def test_saved_values_out_of_range(trained):
    RUN(Context(), trained)
    assert re.search(r"is value 99 of the forward, which has \d", wrong(trained, lambda n, _: [99, *n[1:]]))
    assert re.search(r"is value -1 of the forward", wrong(trained, lambda n, _: [*n[:-1], -1]))
    assert re.search(r"hybrid.saved lists \d+ values for \d arguments", wrong(trained, lambda n, _: n * 9))


def test_saved_values_of_other_types(trained):
    message = wrong(trained, lambda n, f: [2 if a.type.get_shape() == (4, 4) else k for k, a in given(n, f)])
    assert re.search(r"argument 0 .*of type memref<4x4xf32> is given argument 2 \(.*2\)", message)


def given(numbers, backward):
    return zip(numbers, backward.body.block.args, strict=False)


def test_saved_values_that_are_swapped(trained):
    def swap(numbers, backward):
        square = [i for i, (_, a) in enumerate(given(numbers, backward)) if tuple(a.type.get_shape()) == (4, 4)]
        first, second = square[:2]
        numbers[first], numbers[second] = numbers[second], numbers[first]
        return numbers

    assert "are given each other's values" in wrong(trained, swap)
