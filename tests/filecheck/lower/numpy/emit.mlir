// The Python that a planned program becomes.
// RUN: hybridc-opt %s -p tile-kernels,plan-memory,verify-plan -t numpy | filecheck %s

// CHECK:       import numpy as np
// CHECK:       def softmax(x0, y0, scratch):
// CHECK-NEXT:      """Over 8x4; model.py:3."""
// CHECK-NEXT:      (t0,) = scratch
// CHECK-NEXT:      np.exp(x0, out=y0)
// CHECK-NEXT:      np.einsum("ij->i", y0, out=t0[:, 0])
// CHECK-NEXT:      np.divide(y0, t0, out=y0)
// CHECK:       def workspace(arena):
// CHECK:       def forward(ws, x):
// CHECK:           sort_0.call_out(([[M:v[0-9]+]], ), x)  # model.py:2
// CHECK-NEXT:      [[Y:y[0-9]+]] = np.empty((8, 4), 'float32')
// CHECK-NEXT:      softmax([[M]], [[Y]], {{s[0-9]+}})
// CHECK-NEXT:      [[A:a[0-9]+]] = [[Y]].transpose((1, 0))
// CHECK-NEXT:      return ([[A]], )
func.func @forward(%x: tensor<8x4xf32>) -> tensor<4x8xf32> {
  %m = func.call @host_sort(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32> loc("model.py":2:0)
  %d = func.call @softmax(%m) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %t = linalg.transpose ins(%d : tensor<8x4xf32>) outs(%e : tensor<4x8xf32>) permutation = [1, 0]
  func.return %t : tensor<4x8xf32>
}
func.func private @host_sort(tensor<8x4xf32>) -> tensor<8x4xf32>
  attributes {hybrid.operator = "hybrid.sort", hybrid.attributes = {}}
func.func private @softmax(%x: tensor<8x4xf32>) -> tensor<8x4xf32> attributes {hybrid.domains = [array<i64: 8, 4>]} {
  %n = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x4xf32>
  %r = tensor.empty() : tensor<8xf32>
  %z = linalg.fill ins(%n : f32) outs(%r : tensor<8xf32>) -> tensor<8xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<8x4xf32>) outs(%e : tensor<8x4xf32>) attrs = {hybrid.axes = array<i64: 0, 1>} {
  ^bb0(%a: f32, %b: f32):
    %c = math.exp %a : f32
    linalg.yield %c : f32
  } -> tensor<8x4xf32> loc("model.py":3:0)
  %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]}
    ins(%p : tensor<8x4xf32>) outs(%z : tensor<8xf32>) attrs = {hybrid.axes = array<i64: 0, 1>} {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %b, %a : f32
    linalg.yield %c : f32
  } -> tensor<8xf32> loc("model.py":3:0)
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%p, %s : tensor<8x4xf32>, tensor<8xf32>) outs(%e : tensor<8x4xf32>) attrs = {hybrid.axes = array<i64: 0, 1>} {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %c = arith.divf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<8x4xf32> loc("model.py":3:0)
  func.return %y : tensor<8x4xf32>
}
