// Where weights may be saved, they are a result of an attention's kernel, and its backward's is given them.
// RUN: hybridc-opt %s -p 'decompose,hybrid-to-linalg,cse,dce,fold-views,cse,dce,fuse-attention{saved=1000},fuse-kernels' --split-input-file | filecheck %s

// The gradient of values sums weights over queries: it is a product of its own. The others have batches as their grid.
// CHECK-LABEL: func.func @forward
// CHECK-NEXT:    [[Y:%.*]], [[W:%.*]] = func.call @fused_attention_kept(%q, %k, %v)
// CHECK-NEXT:    func.return [[Y]], [[W]] : tensor<8x4x6xf32>, tensor<8x4x5xf32>
// CHECK-LABEL: func.func @backward
// CHECK-NEXT:    [[E:%.*]], [[F:%.*]] = func.call @fused_attention_backward(%dy, %v, %w, %k, %q)
// CHECK-NEXT:    [[D:%.*]] = func.call @k_matmul{{.*}}(%w, %dy)
// CHECK-NEXT:    func.return [[E]], [[F]], [[D]]
// CHECK:       func.func private @fused_attention_backward({{.*}}hybrid.grid = [array<i64: 0>, array<i64: 0>, array<i64: 0>, array<i64: 0>]} {
// CHECK:       func.func private @fused_attention_kept
func.func @forward(%q: tensor<8x4x3xf32>, %k: tensor<8x5x3xf32>, %v: tensor<8x5x6xf32>) -> (tensor<8x4x6xf32>, tensor<8x4x5xf32>) attributes {hybrid.outputs = array<i64: 1>} {
  %0 = hybrid.matmul %q, %k {transpose_b = true} : (tensor<8x4x3xf32>, tensor<8x5x3xf32>) -> tensor<8x4x5xf32>
  %1 = hybrid.max %0 {axis = array<i64: 2>, keepdims = true} : (tensor<8x4x5xf32>) -> tensor<8x4x1xf32>
  %2 = hybrid.subtract %0, %1 : (tensor<8x4x5xf32>, tensor<8x4x1xf32>) -> tensor<8x4x5xf32>
  %3 = hybrid.exp %2 : (tensor<8x4x5xf32>) -> tensor<8x4x5xf32>
  %4 = hybrid.sum %3 {axis = array<i64: 2>, keepdims = true} : (tensor<8x4x5xf32>) -> tensor<8x4x1xf32>
  %5 = hybrid.divide %3, %4 : (tensor<8x4x5xf32>, tensor<8x4x1xf32>) -> tensor<8x4x5xf32>
  %6 = hybrid.matmul %5, %v : (tensor<8x4x5xf32>, tensor<8x5x6xf32>) -> tensor<8x4x6xf32>
  func.return %6, %5 : tensor<8x4x6xf32>, tensor<8x4x5xf32>
}
func.func @backward(%w: tensor<8x4x5xf32>, %v: tensor<8x5x6xf32>, %q: tensor<8x4x3xf32>, %k: tensor<8x5x3xf32>, %dy: tensor<8x4x6xf32>) -> (tensor<8x4x3xf32>, tensor<8x5x3xf32>, tensor<8x5x6xf32>) attributes {hybrid.saved = array<i64: 4, 2, 0, 1>} {
  %0 = hybrid.matmul %dy, %v {transpose_b = true} : (tensor<8x4x6xf32>, tensor<8x5x6xf32>) -> tensor<8x4x5xf32>
  %1 = hybrid.matmul %w, %dy {transpose_a = true} : (tensor<8x4x5xf32>, tensor<8x4x6xf32>) -> tensor<8x5x6xf32>
  %2 = hybrid.multiply %0, %w : (tensor<8x4x5xf32>, tensor<8x4x5xf32>) -> tensor<8x4x5xf32>
  %3 = hybrid.sum %2 {axis = array<i64: 2>, keepdims = true} : (tensor<8x4x5xf32>) -> tensor<8x4x1xf32>
  %4 = hybrid.multiply %w, %3 : (tensor<8x4x5xf32>, tensor<8x4x1xf32>) -> tensor<8x4x5xf32>
  %5 = hybrid.subtract %2, %4 : (tensor<8x4x5xf32>, tensor<8x4x5xf32>) -> tensor<8x4x5xf32>
  %6 = hybrid.matmul %5, %k : (tensor<8x4x5xf32>, tensor<8x5x3xf32>) -> tensor<8x4x3xf32>
  %7 = hybrid.matmul %5, %q {transpose_a = true} : (tensor<8x4x5xf32>, tensor<8x4x3xf32>) -> tensor<8x5x3xf32>
  func.return %6, %7, %1 : tensor<8x4x3xf32>, tensor<8x5x3xf32>, tensor<8x5x6xf32>
}

// -----
// The values need the weights by way of the host: all stay.
// CHECK-LABEL: func.func @crossed
// CHECK-NOT:   hybrid.grid
func.func @crossed(%q: tensor<8x4x3xf32>, %k: tensor<8x4x3xf32>) -> tensor<8x4x4xf32> {
  %s = hybrid.matmul %q, %k {transpose_b = true} : (tensor<8x4x3xf32>, tensor<8x4x3xf32>) -> tensor<8x4x4xf32>
  %e = hybrid.softmax %s : (tensor<8x4x4xf32>) -> tensor<8x4x4xf32>
  %v = hybrid.argsort %e {axis = 2 : i64} : (tensor<8x4x4xf32>) -> tensor<8x4x4xf32>
  %o = hybrid.matmul %e, %v : (tensor<8x4x4xf32>, tensor<8x4x4xf32>) -> tensor<8x4x4xf32>
  func.return %o : tensor<8x4x4xf32>
}
