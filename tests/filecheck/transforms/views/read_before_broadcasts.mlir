// A contraction reads what is broadcast to its operand as it is: a matrix for all of a batch is that of more rows.
// RUN: hybridc-opt %s -p fold-views,dce --split-input-file | filecheck %s

// CHECK-LABEL: func.func @forward
// CHECK-NEXT:    %zero
// CHECK:         linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d3, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>]
// CHECK-SAME:    ins(%x, %w : tensor<8x4x32xf32>, tensor<32x16xf32>)
func.func @forward(%x: tensor<8x4x32xf32>, %w: tensor<32x16xf32>) -> tensor<8x4x16xf32> {
  %e = tensor.empty() : tensor<8x32x16xf32>
  %b = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%w : tensor<32x16xf32>) outs(%e : tensor<8x32x16xf32>) attrs = {hybrid.operator = "broadcast_to"} {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<8x32x16xf32>
  %zero = arith.constant 0.0 : f32
  %s = tensor.empty() : tensor<8x4x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%s : tensor<8x4x16xf32>) -> tensor<8x4x16xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d3, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x, %b : tensor<8x4x32xf32>, tensor<8x32x16xf32>) outs(%f : tensor<8x4x16xf32>) attrs = {hybrid.operator = "matmul"} {
  ^bb0(%p: f32, %q: f32, %t: f32):
    %m = arith.mulf %p, %q : f32
    %a = arith.addf %t, %m : f32
    linalg.yield %a : f32
  } -> tensor<8x4x16xf32>
  func.return %y : tensor<8x4x16xf32>
}

// -----
// What is broadcast along the summed loop is not: no algorithm for matmuls has such operands.
// CHECK-LABEL: func.func @forward
// CHECK:         linalg.generic
// CHECK:         linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>
func.func @forward(%x: tensor<4x32xf32>, %w: tensor<16xf32>) -> tensor<4x16xf32> {
  %e = tensor.empty() : tensor<32x16xf32>
  %b = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<16xf32>) outs(%e : tensor<32x16xf32>) attrs = {hybrid.operator = "broadcast_to"} {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<32x16xf32>
  %zero = arith.constant 0.0 : f32
  %s = tensor.empty() : tensor<4x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%s : tensor<4x16xf32>) -> tensor<4x16xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %b : tensor<4x32xf32>, tensor<32x16xf32>) outs(%f : tensor<4x16xf32>) attrs = {hybrid.operator = "matmul"} {
  ^bb0(%p: f32, %q: f32, %t: f32):
    %m = arith.mulf %p, %q : f32
    %a = arith.addf %t, %m : f32
    linalg.yield %a : f32
  } -> tensor<4x16xf32>
  func.return %y : tensor<4x16xf32>
}
