"""NumPy sources of single kernels: the text where it matters, and the results of rare cases."""

from __future__ import annotations

import numpy as np
import pytest

from hybridc.errors import UnsupportedError
from hybridc.ir.kernels.kernel_text import read_kernel
from hybridc.lower.numpy.kernel_printer import NestsPrinter
from hybridc.transforms.code.array_code import ArrayCode
from hybridc.transforms.schedules.arrays import schedule_arrays
from hybridc.transforms.schedules.arrays.schedule_arrays import ArrayMachine
from tests.lower.evaluate import Evaluator
from tests.lower.kernels import compiled, kernel, parse
from tests.lower.write_kernel import BODIES, Writer

EXP, SUB = "%r = math.exp %e0 : E", "%r = arith.subf %e0, %e1 : E"
ADD, SELECT = BODIES[2][0], BODIES[2][3]


def written(writer, results, threads=1):
    """The lines of the function that is written for a kernel."""
    return NestsPrinter(ArrayCode(read_kernel(kernel(writer.text(results))), threads)).body()


def agrees(writer, results, threads=1, rtol=1e-12):
    """Compare what is written with what the kernel means; returns the lines."""
    module = parse(writer.text(results))
    evaluator = Evaluator(module)
    printer, run = compiled(evaluator.functions["kernel"], threads)
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-2, 2, a.shape).astype({"f64": "f8", "f32": "f4"}[writer.element]) for a in writer.args]
    for y, want in zip(run(*arrays), evaluator.call("kernel", *arrays), strict=True):
        np.testing.assert_allclose(y, want, rtol=rtol, atol=rtol)
    return printer.body()


@pytest.fixture
def small_tiles(monkeypatch):
    monkeypatch.setattr(schedule_arrays, "MACHINE", ArrayMachine(8, 8, parallel_elements=8))


# --- products ---------------------------------------------------------------------------------------------


def test_a_batch_of_rows_is_one_product_of_matrices():
    w = Writer("f64", [(2, 3, 5)])
    x, weight = w.arg((0, 1, 3), extra=(4,)), w.arg((2, 3), extra=(4,))
    lines = agrees(w, [w.contraction(x, weight, (0, 1, 2))])
    assert lines == ["np.matmul(x0.reshape((6, 4)), x1.T, out=y0.reshape((6, 5)))"]


def test_heads_are_strides_of_a_batched_product():
    w = Writer("f64", [(2, 3, 5, 5)])  # batch, head, and two times
    q, k = w.arg((0, 2, 1, 4), extra=(7,)), w.arg((0, 3, 1, 4), extra=(7,))
    lines = agrees(w, [w.contraction(q, k, (0, 1, 2, 3))])
    assert lines == ["np.matmul(x0.transpose((0, 2, 1, 3)), x1.transpose((0, 2, 3, 1)), out=y0)"]


def test_a_permuted_result_is_written_in_place():
    w = Writer("f64", [(2, 3, 5, 6)])
    p, v = w.arg((0, 1, 2, 4), extra=(7,)), w.arg((0, 4, 1, 3), extra=(7,))
    lines = agrees(w, [w.contraction(p, v, (0, 2, 1, 3))])
    assert lines == ["np.matmul(x0, x1.transpose((0, 2, 1, 3)), out=y0.transpose((0, 2, 1, 3)))"]


def test_a_matrix_times_a_vector_and_a_product_of_vectors():
    w = Writer("f64", [(3,)])
    agrees(w, [w.contraction(w.arg((0, 1), extra=(4,)), w.arg((1,), extra=(4,)), (0,))])
    w = Writer("f64", [()])
    agrees(w, [w.contraction(w.arg((0,), extra=(4,)), w.arg((0,), extra=(4,)), ())])


def test_several_summed_loops_in_different_orders():
    w = Writer("f64", [(3, 4)])
    agrees(w, [w.contraction(w.arg((2, 0, 3), extra=(5, 2)), w.arg((3, 1, 2), extra=(5, 2)), (1, 0))])


def test_a_product_lies_where_the_result_of_its_epilogue_will_be():
    w = Writer("f64", [(3, 4)])
    p = w.contraction(w.arg((0, 2), extra=(5,)), w.arg((1, 2), extra=(5,)), (0, 1))
    y = w.map([w.map([p, w.arg((1,))], (0, 1), ADD), w.arg((0, 1))], (0, 1), ADD)
    lines = agrees(w, [y])
    assert lines[0] == "np.matmul(x0, x1.T, out=y0)"
    assert lines[-2:] == ["np.add(y0, x2, out=y0)", "np.add(y0, x3, out=y0)"]


def test_a_product_that_its_own_epilogue_chooses_from():
    """``np.copyto`` of one operand must not overwrite the other."""
    for order in ((0, 1), (1, 0)):
        w = Writer("f64", [(3, 4)])
        p = w.contraction(w.arg((0, 2), extra=(5,)), w.arg((1, 2), extra=(5,)), (0, 1))
        pair = [p, w.arg((0, 1))]
        agrees(w, [w.map([pair[i] for i in order], (0, 1), SELECT)])


def test_a_product_that_is_needed_afterwards_has_memory_of_its_own():
    w = Writer("f64", [(3, 4)])
    p = w.contraction(w.arg((0, 2), extra=(5,)), w.arg((1, 2), extra=(5,)), (0, 1))
    first = w.map([p], (0, 1), EXP)
    second = w.map([p, first], (0, 1), SUB)
    lines = agrees(w, [first, second])
    assert "np.matmul(x0, x1.T, out=y1)" in lines


# --- reductions -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("reduced", [(0,), (0, 1), (0, 2), (0, 1, 2), (1,), (1, 2), (2,)])
@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 0, 1), (1, 0, 2)])
def test_tiles_of_a_reduction(axes, reduced, threads):
    w = Writer("f64", [(6, 5, 7)])
    e = w.map([w.arg(axes)], (0, 1, 2), EXP)
    agrees(w, [w.reduce(e, reduced), w.reduce(e, reduced, "arith.maximumf")], threads)


@pytest.mark.usefixtures("small_tiles")
def test_the_threads_do_not_change_a_sum():
    w = Writer("f32", [(1000, 3)])
    text = w.text([w.reduce(w.map([w.arg((0, 1))], (0, 1), EXP), (0, 1))])
    x = np.random.default_rng(0).normal(size=(1000, 3))
    found = {compiled(kernel(text), threads)[1](x)[0].item() for threads in (2, 2, 2, 3)}
    assert len(found) == 1


def test_reductions_of_nothing_are_neutral():
    for domain, reduced in (((0, 3), (0,)), ((3, 0), (1,)), ((0,), (0,))):
        w = Writer("f64", [domain])
        x = w.arg(range(len(domain)))
        agrees(w, [w.reduce(x, reduced), w.reduce(x, reduced, "arith.maximumf")])


def test_a_reduction_in_a_small_nest_may_be_used_there(small_tiles):
    w = Writer("f64", [(9, 5)])
    x = w.arg((0, 1))
    agrees(w, [w.map([x, w.reduce(x, (0,))], (0, 1), SUB)], threads=2)


# --- in place ---------------------------------------------------------------------------------------------


def test_arguments_that_results_may_overwrite():
    w = Writer("f64", [(3, 4)])
    x, late = w.arg((0, 1)), w.arg((0, 1))
    first = w.map([x], (0, 1), EXP)
    second = w.map([first, late], (0, 1), ADD)
    printer, _ = compiled(kernel(w.text([first, second])))
    assert printer.code.inplace_pairs() == [(0, 0), (0, 1), (1, 1)]


def test_an_argument_that_is_read_in_another_order_is_not_overwritten():
    w = Writer("f64", [(4, 4)])
    y = w.map([w.arg((1, 0))], (0, 1), EXP)
    printer, _ = compiled(kernel(w.text([y])))
    assert printer.code.inplace_pairs() == []


def test_factors_of_a_product_are_not_overwritten():
    w = Writer("f64", [(4, 4)])
    p = w.contraction(w.arg((0, 2), extra=(4,)), w.arg((2, 1), extra=(4,)), (0, 1))
    printer, _ = compiled(kernel(w.text([w.map([p], (0, 1), EXP)])))
    assert printer.code.inplace_pairs() == []


def test_what_a_selection_asks_and_chooses_is_not_overwritten_but_the_rest_is():
    w = Writer("f64", [(3,)])
    a, b = w.arg((0,)), w.arg((0,))
    printer, _ = compiled(kernel(w.text([w.map([a, b], (0,), SELECT)])))
    assert printer.code.inplace_pairs() == [(1, 0)]


def test_pairs_are_of_one_nest():
    """An update of many weights of one shape would else have a pair for any two of them."""
    w = Writer("f64", [(3, 4)] * 3)
    results = [w.map([w.arg((0, 1), nest=n)], (0, 1), EXP, nest=n) for n in range(3)]
    printer, _ = compiled(kernel(w.text(results)))
    assert printer.code.inplace_pairs() == [(0, 0), (1, 1), (2, 2)]


def test_results_serve_as_scratch_unless_an_argument_could_be_there():
    w = Writer("f64", [(3, 4)])
    x = w.arg((0, 1))
    chain = w.map([w.map([w.map([x], (0, 1), EXP)], (0, 1), EXP)], (0, 1), EXP)
    printer, _ = compiled(kernel(w.text([chain])))
    assert printer.code.bytes == 0
    w = Writer("f64", [(3, 4)])
    x = w.arg((0, 1))
    late = w.map([w.map([x], (0, 1), EXP), x], (0, 1), SUB)
    printer, _ = compiled(kernel(w.text([late])))
    assert printer.code.inplace_pairs() == [(0, 0)]
    assert printer.code.bytes == 128


# --- views ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_tiles")
def test_axes_of_arguments_that_are_views_do_not_merge():
    w = Writer("f64", [(4, 5, 6)])
    x = w.arg((0, 1, 2))
    text = w.text([w.map([w.map([x], (0, 1, 2), EXP), x], (0, 1, 2), SUB)])
    assert any("x0.reshape((120,))" in line for line in NestsPrinter(ArrayCode(read_kernel(kernel(text)), 1)).body())
    lines = NestsPrinter(ArrayCode(read_kernel(kernel(text)), 1, frozenset({0}))).body()
    assert not any("x0.reshape" in line for line in lines)


def test_broadcast_and_permuted_operands_are_views():
    w = Writer("f64", [(2, 3, 4)])
    y = w.map([w.arg((0, 2)), w.arg((2, 1, 0))], (0, 1, 2), ADD)
    lines = agrees(w, [y])
    assert lines == [
        "x0_1 = x0.reshape((2, 1, 4))",
        "x1_1 = x1.transpose((2, 1, 0))",
        "np.add(x0_1, x1_1, out=y0)",
    ]


def test_tiles_are_smaller_where_there_are_more_arrays():
    blocks = []
    for count in (1, 12):
        w = Writer("f32", [(4096, 1024)])
        y = w.map([w.arg((0, 1))], (0, 1), EXP)
        for _ in range(count):
            y = w.map([w.map([y, w.arg((0, 1))], (0, 1), ADD), y], (0, 1), SUB)
        blocks.append(ArrayCode(read_kernel(kernel(w.text([y]))), 2).nests[0].loops.block)
    few, many = blocks
    assert few > many >= ArrayMachine().tile_elements // 1024


# --- dtypes -----------------------------------------------------------------------------------------------


def generic(body, inputs, result, more=""):
    """A kernel of one elementwise op over three elements, of these element types."""
    maps = ", ".join(["affine_map<(i) -> (i)>"] * (len(inputs) + 1))
    arguments = ", ".join(f"%x{i}: tensor<3x{t}>" for i, t in enumerate(inputs))
    names, types = ", ".join(f"%x{i}" for i in range(len(inputs))), ", ".join(f"tensor<3x{t}>" for t in inputs)
    elements = ", ".join(f"%e{i}: {t}" for i, t in enumerate(inputs))
    return kernel(
        f"""
func.func private @kernel({arguments}) -> tensor<3x{result}> attributes {{hybrid.domains = [array<i64: 3>]{more}}} {{
  %e = tensor.empty() : tensor<3x{result}>
  %y = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}}
      ins({names} : {types}) outs(%e : tensor<3x{result}>) attrs = {{hybrid.axes = array<i64: 0>}} {{
    ^b({elements}, %o: {result}):
      {body}
      linalg.yield %r : {result}
  }} -> tensor<3x{result}>
  func.return %y : tensor<3x{result}>
}}"""
    )


def test_functions_of_halves_are_numpys():
    function = generic("%w = arith.extf %e0 : f16 to f32\n%f = math.exp %w : f32\n%r = arith.truncf %f : f32 to f16",
                       ["f16"], "f16")  # fmt: skip
    printer, run = compiled(function)
    assert printer.body() == ["np.exp(x0, out=y0)"]
    x = np.array([0.5, -3, 8], np.float16)
    np.testing.assert_array_equal(run(x)[0], np.exp(x.astype("f4")).astype("f2"))


def test_a_sign_is_numpys():
    body = """%one = arith.constant 1.0 : f32
      %minus = arith.constant -1.0 : f32
      %zero = arith.constant 0.0 : f32
      %p = arith.cmpf ogt, %e0, %zero : f32
      %n = arith.cmpf olt, %e0, %zero : f32
      %s = arith.select %n, %minus, %e0 : f32
      %r = arith.select %p, %one, %s : f32"""
    printer, run = compiled(generic(body, ["f32"], "f32"))
    assert printer.body() == ["np.sign(x0, out=y0)"]
    np.testing.assert_array_equal(run(np.array([-2, np.nan, 5], np.float32))[0], [-1, np.nan, 1])


def test_unsigned_operations_read_unsigned_integers():
    printer, run = compiled(generic("%r = arith.maxui %e0, %e1 : i8", ["i8", "i8"], "i8"))
    assert printer.body() == ["np.maximum(x0.view('uint8'), x1.view('uint8'), out=y0.view('uint8'))"]
    x, y = np.array([-1, 3, 127], np.int8), np.array([5, -128, 4], np.int8)
    np.testing.assert_array_equal(run(x, y)[0], [-1, -128, 127])


def test_arrays_that_are_declared_unsigned_need_no_view():
    more = ', hybrid.dtypes = ["uint8", "uint8", "bool"]'
    printer, run = compiled(generic("%r = arith.cmpi ult, %e0, %e1 : i8", ["i8", "i8"], "i1", more))
    assert printer.body() == ["np.less(x0, x1, out=y0)"]
    np.testing.assert_array_equal(run([255, 3, 7], [5, 128, 7])[0], [False, True, False])


def test_numbers_are_as_short_as_they_can_be_and_wrap():
    text = "%c = arith.constant 0.1 : f32\n%r = arith.mulf %e0, %c : f32"
    assert compiled(generic(text, ["f32"], "f32"))[0].body() == ["np.multiply(x0, 0.1, out=y0)"]
    text = "%c = arith.constant 200 : i8\n%r = arith.addi %e0, %c : i8"
    assert compiled(generic(text, ["i8"], "i8"))[0].body() == ["np.add(x0, -56, out=y0)"]


def test_what_depends_on_numbers_only_is_computed_at_once():
    text = "%c = arith.constant 2.0 : f32\n%d = math.sqrt %c : f32\n%r = arith.mulf %e0, %d : f32"
    assert compiled(generic(text, ["f32"], "f32"))[0].body() == ["np.multiply(x0, 1.4142135, out=y0)"]


def test_a_sign_of_a_number_is_computed_at_once():
    body = """%x = arith.constant 2.5 : f32
      %one = arith.constant 1.0 : f32
      %minus = arith.constant -1.0 : f32
      %zero = arith.constant 0.0 : f32
      %p = arith.cmpf ogt, %x, %zero : f32
      %n = arith.cmpf olt, %x, %zero : f32
      %s = arith.select %n, %minus, %x : f32
      %t = arith.select %p, %one, %s : f32
      %r = arith.addf %e0, %t : f32"""
    assert compiled(generic(body, ["f32"], "f32"))[0].body() == ["np.add(x0, 1.0, out=y0)"]


def test_an_operation_without_a_function_is_refused():
    with pytest.raises(UnsupportedError, match=r"numpy target has no function for arith\.ceildivsi"):
        compiled(generic("%r = arith.ceildivsi %e0, %e1 : i8", ["i8", "i8"], "i8"))


def test_a_sum_of_halves_is_single():
    function = kernel(
        """
func.func private @kernel(%x: tensor<3000xf16>) -> tensor<f32> attributes {hybrid.domains = [array<i64: 3000>]} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>], iterator_types = ["reduction"]}
      ins(%x : tensor<3000xf16>) outs(%f : tensor<f32>) attrs = {hybrid.axes = array<i64: 0>} {
    ^b(%a: f16, %s: f32):
      %w = arith.extf %a : f16 to f32
      %r = arith.addf %s, %w : f32
      linalg.yield %r : f32
  } -> tensor<f32>
  func.return %y : tensor<f32>
}"""
    )
    printer, run = compiled(function)
    assert printer.body() == ["np.add.reduce(x0, axis=0, out=y0)"]
    assert run(np.ones(3000, np.float16))[0] == 3000  # in half precision 2048 + 1 is 2048


# --- the rest ---------------------------------------------------------------------------------------------


def test_a_result_that_is_one_number_and_one_that_is_an_argument():
    printer, run = compiled(
        kernel(
            """
func.func private @kernel(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<2xf32>, tensor<3xf32>)
    attributes {hybrid.domains = [array<i64: 3>]} {
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<2xf32>
  %f = linalg.fill ins(%one : f32) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  func.return %x, %f, %x : tensor<3xf32>, tensor<2xf32>, tensor<3xf32>
}"""
        )
    )
    got = run([1, 2, 3])
    np.testing.assert_array_equal(got[0], [1, 2, 3])
    np.testing.assert_array_equal(got[1], [1, 1])
    np.testing.assert_array_equal(got[2], [1, 2, 3])
    assert printer.code.inplace_pairs() == []


def test_the_text_of_a_kernel_says_what_it_walks(monkeypatch):
    monkeypatch.setattr(schedule_arrays, "MACHINE", ArrayMachine(12))
    w = Writer("f32", [(10, 4)])
    x = w.arg((0, 1))
    e = w.map([x, w.reduce(x, (1,), "arith.maximumf")], (0, 1), SUB)
    y = w.map([w.map([e], (0, 1), EXP), e], (0, 1), ADD)
    assert NestsPrinter(ArrayCode(read_kernel(kernel(w.text([y]))), 1)).source() == (
        '''\
def kernel(x0, y0, scratch):
    """Over 10x4 in tiles of 2x4."""
    (t0, t1,) = scratch
    for i in range(0, 10, 2):
        j = i + 2
        np.maximum.reduce(x0[i:j], axis=1, keepdims=True, out=t0)
        np.subtract(x0[i:j], t0, out=y0[i:j])
        np.exp(y0[i:j], out=t1)
        np.add(t1, y0[i:j], out=y0[i:j])
'''
    )


def test_nests_follow_each_other_and_share_scratch():
    w = Writer("f64", [(4, 5), (9,)])
    a, b = w.arg((0, 1)), w.arg((0,), nest=1)
    first = w.map([w.map([a], (0, 1), EXP), a], (0, 1), SUB)
    second = w.map([w.map([b], (0,), EXP, nest=1), b], (0,), SUB, nest=1)
    lines = agrees(w, [first, second])
    assert [line for line in lines if line.startswith("#")] == ["# Over 4x5", "# Over 9"]
    assert ArrayCode(read_kernel(kernel(w.text([first, second]))), 1).bytes == 192  # of the larger one: 160, rounded up


# --- sums -------------------------------------------------------------------------------------------------


def test_sums_of_products_of_rows_need_no_array_for_the_products():
    w = Writer("f64", [(6, 5)])
    x, y = w.arg((0, 1)), w.arg((0, 1))
    rows = w.reduce(w.map([x, y], (0, 1), "%r = arith.mulf %e0, %e1 : E"), (1,))
    lines = agrees(w, [w.map([rows, x], (0, 1), ADD)])
    assert lines[1:] == ['np.einsum("ij,ij->i", x0, x1, out=t0[:, 0])', "np.add(t0, x0, out=y0)"]


def test_products_that_others_read_are_made():
    w = Writer("f64", [(6, 5)])
    x, y = w.arg((0, 1)), w.arg((0, 1))
    contraction = w.map([x, y], (0, 1), "%r = arith.mulf %e0, %e1 : E")
    lines = agrees(w, [contraction, w.reduce(contraction, (1,))])
    assert lines == ["np.multiply(x0, x1, out=y0)", 'np.einsum("ij->i", y0, out=y1)']


def test_sums_of_columns_of_products():
    w = Writer("f64", [(6, 5)])
    x, y = w.arg((0, 1)), w.arg((0, 1))
    lines = agrees(w, [w.reduce(w.map([x, y], (0, 1), "%r = arith.mulf %e0, %e1 : E"), (0,))])
    assert lines == ['np.einsum("ij,ij->j", x0, x1, out=y0)']


def test_long_rows_and_everything_are_summed_pair_by_pair():
    w = Writer("f32", [(2, 5000)])
    x = w.arg((0, 1))
    contraction = w.map([x, x], (0, 1), "%r = arith.mulf %e0, %e1 : E")
    lines = agrees(w, [w.reduce(contraction, (1,)), w.reduce(contraction, (0, 1))], rtol=1e-3)
    assert [line.partition("(")[0] for line in lines][-3:] == ["np.multiply", "np.add.reduce", "np.add.reduce"]


def test_a_product_is_not_summed_after_its_factor_is_overwritten():
    """The product of two matrices lies where the result of its epilogue will be, which is written before the sum."""
    w = Writer("f64", [(3, 4)])
    p = w.contraction(w.arg((0, 2), extra=(5,)), w.arg((1, 2), extra=(5,)), (0, 1))
    square = w.map([p, p], (0, 1), "%r = arith.mulf %e0, %e1 : E")
    result = w.map([p], (0, 1), EXP)
    agrees(w, [result, w.reduce(square, (1,))])


def test_greatest_elements_of_many_narrow_rows_are_found_column_by_column():
    w = Writer("f64", [(600, 5)])
    lines = agrees(w, [w.reduce(w.arg((0, 1)), (1,), "arith.maximumf")])
    assert lines[1:] == [
        "np.copyto(y0_1, x0[..., :1])",
        "for c in range(1, 5):",
        "    np.maximum(y0_1, x0[..., c : c + 1], out=y0_1)",
    ]
    w = Writer("f64", [(20, 5)])
    assert "np.maximum.reduce" in agrees(w, [w.reduce(w.arg((0, 1)), (1,), "arith.maximumf")])[0]
    w = Writer("f64", [(20, 30, 5)])
    x = w.arg((2, 0, 1))
    agrees(w, [w.map([x, w.reduce(x, (2,), "arith.maximumf")], (0, 1, 2), SUB)])
