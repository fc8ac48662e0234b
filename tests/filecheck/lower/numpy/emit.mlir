// The Python that a planned program becomes.
// RUN: hybridc-opt %s -p tile-kernels,plan-memory,verify-plan -t numpy | filecheck %s

// CHECK:       import numpy as np
// CHECK:       def softmax(x0, y0, scratch):
// CHECK-NEXT:      """Over 8x4; model.py:3."""
// CHECK-NEXT:      (t0, t1,) = scratch
// CHECK-NEXT:      np.exp(x0, out=t0)
// CHECK-NEXT:      np.add.reduce(t0, axis=1, keepdims=True, out=t1)
// CHECK-NEXT:      np.divide(t0, t1, out=y0)
// CHECK:       def workspace():
// CHECK-NEXT:      arena = np.empty({{[0-9]+}}, np.uint8)
// CHECK:       def forward(ws, x, w):
// CHECK:           matmul_0.eager_out(([[M:v[0-9]+]], ), x, w)  # model.py:2
// CHECK:           [[Y:y[0-9]+]] = np.empty((8, 4), 'float32')
// CHECK-NEXT:      softmax([[M]], [[Y]], {{s[0-9]+}})
// CHECK-NEXT:      [[A:a[0-9]+]] = transpose_0.eager([[Y]])
// CHECK-NEXT:      return ([[A]], )
func.func @forward(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x8xf32> {
  %m = func.call @product(%x, %w) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %d = func.call @softmax(%m) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %t = hybrid.transpose %d {axes = array<i64: 1, 0>} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  func.return %t : tensor<4x8xf32>
}
func.func private @product(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>) -> tensor<8x4xf32> {
  %y = hybrid.matmul %x, %w : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("model.py":2:0)
  func.return %y : tensor<8x4xf32>
}
func.func private @softmax(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %e = hybrid.exp %x : (tensor<8x4xf32>) -> tensor<8x4xf32> loc("model.py":3:0)
  %s = hybrid.sum %e {axis = 1 : i64, keepdims = true} : (tensor<8x4xf32>) -> tensor<8x1xf32> loc("model.py":3:0)
  %y = hybrid.divide %e, %s : (tensor<8x4xf32>, tensor<8x1xf32>) -> tensor<8x4xf32> loc("model.py":3:0)
  func.return %y : tensor<8x4xf32>
}
