"""choose-code: the scratch of each kernel, its in-place results, and which arrays may not be contiguous."""

from __future__ import annotations

import pytest
from xdsl.parser import Parser

from hybridc.compile.pipeline import KERNELS, context, structured_passes
from hybridc.ir.structured import is_host, kernels
from hybridc.lower.llvm.native_target import native_target
from hybridc.transforms.code.choose_code import ChooseCode
from hybridc.transforms.code.kernel_cache import KernelCache
from hybridc.transforms.kernels.split_contractions import SplitContractions

# Name: a function, and for each of its kernels: scratch in bytes, pairs in place, what may be strided.
CASES = {
    "elementwise": (
        # The argument that the result may overwrite is declared; the broadcast one is not.
        """func.func @f(%x: tensor<8x4xf32>, %b: tensor<4xf32>) -> tensor<8x4xf32> {
          %a = hybrid.add %x, %b : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
          %t = hybrid.tanh %a : (tensor<8x4xf32>) -> tensor<8x4xf32>
          func.return %t : tensor<8x4xf32>
        }""",
        {"fused_add_tanh": (0, [0, 0], None)},
    ),
    "a row that is kept": (
        # Of exp by each thread: 500 elements, in whole lines of the cache.
        """func.func @f(%x: tensor<300x500xf32>) -> tensor<300x500xf32> {
          %a = hybrid.exp %x : (tensor<300x500xf32>) -> tensor<300x500xf32>
          %b = hybrid.sum %a {axis = 1 : i64, keepdims = true} : (tensor<300x500xf32>) -> tensor<300x1xf32>
          %c = hybrid.divide %a, %b : (tensor<300x500xf32>, tensor<300x1xf32>) -> tensor<300x500xf32>
          func.return %c : tensor<300x500xf32>
        }""",
        {"fused_exp_sum_divide": (2 * 2048, [0, 0], None)},
    ),
    "a row that is made again": (
        # A sign costs less than memory.
        """func.func @f(%x: tensor<8x500xf32>) -> tensor<8x500xf32> {
          %a = hybrid.negative %x : (tensor<8x500xf32>) -> tensor<8x500xf32>
          %b = hybrid.sum %a {axis = 1 : i64, keepdims = true} : (tensor<8x500xf32>) -> tensor<8x1xf32>
          %c = hybrid.divide %a, %b : (tensor<8x500xf32>, tensor<8x1xf32>) -> tensor<8x500xf32>
          func.return %c : tensor<8x500xf32>
        }""",
        {"fused_negative_sum_divide": (0, [0, 0], None)},
    ),
    "a sum across threads": (
        # 64 pieces of 64 sums; the threads share them.
        """func.func @f(%x: tensor<8000x64xf32>) -> tensor<1x64xf32> {
          %b = hybrid.sum %x {axis = 0 : i64, keepdims = true} : (tensor<8000x64xf32>) -> tensor<1x64xf32>
          func.return %b : tensor<1x64xf32>
        }""",
        {"k_sum": (64 * 64 * 4, [], None)},
    ),
    "two results": (
        # %x is read after the first result is written, by the second only.
        """func.func @f(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
          %a = hybrid.exp %x : (tensor<8xf32>) -> tensor<8xf32>
          %p = hybrid.multiply %x, %y : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
          %b = hybrid.multiply %p, %a : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
          func.return %a, %b : tensor<8xf32>, tensor<8xf32>
        }""",
        {"fused_exp_multiply_multiply": (0, [0, 1, 1, 1], None)},
    ),
    "other types and shapes": (
        """func.func @f(%x: tensor<8x1xf32>, %y: tensor<8x4xf64>) -> tensor<8x4xf32> {
          %c = hybrid.cast %y {dtype = f32} : (tensor<8x4xf64>) -> tensor<8x4xf32>
          %a = hybrid.add %x, %c : (tensor<8x1xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
          func.return %a : tensor<8x4xf32>
        }""",
        {"fused_cast_add": (0, [], None)},
    ),
    "transposed": (
        # Another element of the argument may be read after it was written over.
        """func.func @f(%x: tensor<6x6xf32>) -> tensor<6x6xf32> {
          %t = hybrid.transpose %x {axes = array<i64: 1, 0>} : (tensor<6x6xf32>) -> tensor<6x6xf32>
          %e = hybrid.add %t, %x : (tensor<6x6xf32>, tensor<6x6xf32>) -> tensor<6x6xf32>
          func.return %e : tensor<6x6xf32>
        }""",
        {"k_add": (0, [], None)},
    ),
    "parts of one array": (
        # Each writes its columns among the others'.
        """func.func @f(%x: tensor<8x3xf32>, %y: tensor<8x2xf32>) -> tensor<8x5xf32> {
          %a = hybrid.exp %x : (tensor<8x3xf32>) -> tensor<8x3xf32>
          %b = hybrid.tanh %y : (tensor<8x2xf32>) -> tensor<8x2xf32>
          %c = hybrid.concat %a, %b {dim = 1 : i64} : (tensor<8x3xf32>, tensor<8x2xf32>) -> tensor<8x5xf32>
          func.return %c : tensor<8x5xf32>
        }""",
        {"k_exp": (0, [], [1]), "k_tanh": (0, [], [1])},
    ),
    "a product": (
        # In place only what follows it; no view.
        """func.func @f(%x: tensor<8x6xf32>, %w: tensor<6x6xf32>) -> tensor<8x6xf32> {
          %m = hybrid.matmul %x, %w : (tensor<8x6xf32>, tensor<6x6xf32>) -> tensor<8x6xf32>
          %e = hybrid.exp %m : (tensor<8x6xf32>) -> tensor<8x6xf32>
          func.return %e : tensor<8x6xf32>
        }""",
        {"k_matmul": (0, [], None), "fused_exp": (0, [0, 0], None)},
    ),
}


def scheduled(text, threads):
    """Scratch, pairs and strided values of each kernel of a graph."""
    module = Parser(context(), text).parse_module()
    for each in (
        *structured_passes("llvm"),
        *KERNELS,
        SplitContractions(),
        ChooseCode(KernelCache(native_target(threads))),
    ):
        each.apply(context(), module)
        module.verify()
    found = {}
    for name, function in kernels(module).items():
        assert not is_host(function)
        listed = [function.attributes.get(f"hybrid.{key}") for key in ("inplace", "strided")]
        numbers = [None if a is None else [int(n) for n in a.get_values()] for a in listed]
        found[name] = (function.attributes["hybrid.scratch"].value.data, *numbers)
    return found


@pytest.mark.parametrize("name", CASES)
def test_what_is_noted(name):
    text, expected = CASES[name]
    assert scheduled(text, 2) == expected


def test_each_thread_has_scratch_and_all_share_the_pieces():
    kept, across = CASES["a row that is kept"][0], CASES["a sum across threads"][0]
    assert scheduled(kept, 5)["fused_exp_sum_divide"][0] == 5 * 2048
    assert scheduled(across, 5) == scheduled(across, 1)
