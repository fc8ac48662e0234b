// An attention is one kernel of three nests over a grid of batches and queries; what needs scores or weights elsewhere
// stays three kernels, unless weights may be saved.
// RUN: hybridc-opt %s -p 'mark-kernels{target=triton},hybrid-to-linalg,cse,dce,fold-views,cse,dce,fuse-attention,fuse-kernels' --split-input-file | filecheck %s

// CHECK-LABEL: func.func @plain
// CHECK-NEXT:    [[Y:%.*]] = func.call @fused_attention(%q, %k, %v)
// CHECK-NEXT:    func.return [[Y]]
// CHECK-NOT:   func.func private @k_matmul
// CHECK:       func.func private @fused_attention({{.*}}) -> tensor<2x4x6xf32> attributes {hybrid.domains = [array<i64: 2, 4, 5>, array<i64: 2, 4, 5>, array<i64: 2, 4, 6>], hybrid.grid = [array<i64: 0, 1>, array<i64: 0, 1>, array<i64: 0, 1>], hybrid.attention = [array<i64: 1>, array<i64: 2>]} {
// CHECK:         linalg.generic {{.*}} {hybrid.operator = "matmul", hybrid.axes = array<i64: 0, 1, 2, -1>}
// CHECK:         linalg.generic {{.*}} {hybrid.operator = "max", hybrid.axes = array<i64: 0, 1, 2>, hybrid.loop_nest = 1 : i64}
// CHECK:         linalg.generic {{.*}} {hybrid.operator = "matmul", hybrid.axes = array<i64: 0, 1, 2, -1>, hybrid.loop_nest = 2 : i64}
// CHECK-NOT:   func.func
func.func @plain(%q: tensor<2x4x3xf32>, %k: tensor<2x5x3xf32>, %v: tensor<2x5x6xf32>) -> tensor<2x4x6xf32> {
  %0 = hybrid.matmul %q, %k {transpose_b = true} : (tensor<2x4x3xf32>, tensor<2x5x3xf32>) -> tensor<2x4x5xf32>
  %1 = hybrid.max %0 {axis = array<i64: 2>, keepdims = true} : (tensor<2x4x5xf32>) -> tensor<2x4x1xf32>
  %2 = hybrid.subtract %0, %1 : (tensor<2x4x5xf32>, tensor<2x4x1xf32>) -> tensor<2x4x5xf32>
  %3 = hybrid.exp %2 : (tensor<2x4x5xf32>) -> tensor<2x4x5xf32>
  %4 = hybrid.sum %3 {axis = array<i64: 2>, keepdims = true} : (tensor<2x4x5xf32>) -> tensor<2x4x1xf32>
  %5 = hybrid.divide %3, %4 : (tensor<2x4x5xf32>, tensor<2x4x1xf32>) -> tensor<2x4x5xf32>
  %6 = hybrid.matmul %5, %v : (tensor<2x4x5xf32>, tensor<2x5x6xf32>) -> tensor<2x4x6xf32>
  func.return %6 : tensor<2x4x6xf32>
}

// -----
// The weights are a result, too.
// CHECK-LABEL: func.func @weights
// CHECK-NEXT:    [[S:%.*]] = func.call @k_matmul(%q, %k)
// CHECK-NEXT:    [[W:%.*]] = func.call @fused_{{.*}}([[S]])
// CHECK-NEXT:    [[Y:%.*]] = func.call @{{.*}}([[W]], %v)
// CHECK-NEXT:    func.return [[W]], [[Y]]
func.func @weights(%q: tensor<2x4x3xf32>, %k: tensor<2x5x3xf32>, %v: tensor<2x5x6xf32>) -> (tensor<2x4x5xf32>, tensor<2x4x6xf32>) {
  %0 = hybrid.matmul %q, %k {transpose_b = true} : (tensor<2x4x3xf32>, tensor<2x5x3xf32>) -> tensor<2x4x5xf32>
  %1 = hybrid.max %0 {axis = array<i64: 2>, keepdims = true} : (tensor<2x4x5xf32>) -> tensor<2x4x1xf32>
  %2 = hybrid.subtract %0, %1 : (tensor<2x4x5xf32>, tensor<2x4x1xf32>) -> tensor<2x4x5xf32>
  %3 = hybrid.exp %2 : (tensor<2x4x5xf32>) -> tensor<2x4x5xf32>
  %4 = hybrid.sum %3 {axis = array<i64: 2>, keepdims = true} : (tensor<2x4x5xf32>) -> tensor<2x4x1xf32>
  %5 = hybrid.divide %3, %4 : (tensor<2x4x5xf32>, tensor<2x4x1xf32>) -> tensor<2x4x5xf32>
  %6 = hybrid.matmul %5, %v : (tensor<2x4x5xf32>, tensor<2x5x6xf32>) -> tensor<2x4x6xf32>
  func.return %5, %6 : tensor<2x4x5xf32>, tensor<2x4x6xf32>
}

// -----
// A backward is one kernel, too: the forward returns a peak and a total of each row for it, not the weights, and the
// result is there anyway.
// CHECK-LABEL: func.func @forward
// CHECK-NEXT:    [[Y:%.*]], [[P:%.*]], [[T:%.*]] = func.call @fused_attention_kept(%q, %k, %v)
// CHECK-NEXT:    func.return [[Y]], [[P]], [[T]] : tensor<2x4x6xf32>, tensor<2x4xf32>, tensor<2x4xf32>
// CHECK-LABEL: func.func @backward(%v: {{.*}}, %q: {{.*}}, %k: {{.*}}, [[Y:%.*]]: tensor<2x4x6xf32>, [[P:%.*]]: tensor<2x4xf32>, [[T:%.*]]: tensor<2x4xf32>, %dy: {{.*}} attributes {hybrid.saved = array<i64: 2, 0, 1, 3, 4, 5>}
// CHECK-NEXT:    [[D:%.*]], [[E:%.*]], [[F:%.*]] = func.call @fused_attention_backward(%dy, [[Y]], %q, %k, %v, [[P]], [[T]])
// CHECK-NEXT:    func.return [[E]], [[F]], [[D]]
// CHECK:       func.func private @fused_attention_backward({{.*}} attributes {hybrid.domains = [array<i64: 2, 4>, array<i64: 2, 4, 5>, array<i64: 2, 4, 5>, array<i64: 2, 4, 5>, array<i64: 2, 5, 6>, array<i64: 2, 4, 3>, array<i64: 2, 5, 3>], hybrid.grid = [array<i64: 0>, array<i64: 0>, array<i64: 0>, array<i64: 0>, array<i64: 0>, array<i64: 0>, array<i64: 0>], hybrid.attention = [array<i64: 1>, array<i64: 2>]} {
// CHECK:       func.func private @fused_attention_kept
// CHECK-NOT:   func.func
func.func @forward(%q: tensor<2x4x3xf32>, %k: tensor<2x5x3xf32>, %v: tensor<2x5x6xf32>) -> (tensor<2x4x6xf32>, tensor<2x4x5xf32>) attributes {hybrid.outputs = array<i64: 1>} {
  %0 = hybrid.matmul %q, %k {transpose_b = true} : (tensor<2x4x3xf32>, tensor<2x5x3xf32>) -> tensor<2x4x5xf32>
  %1 = hybrid.max %0 {axis = array<i64: 2>, keepdims = true} : (tensor<2x4x5xf32>) -> tensor<2x4x1xf32>
  %2 = hybrid.subtract %0, %1 : (tensor<2x4x5xf32>, tensor<2x4x1xf32>) -> tensor<2x4x5xf32>
  %3 = hybrid.exp %2 : (tensor<2x4x5xf32>) -> tensor<2x4x5xf32>
  %4 = hybrid.sum %3 {axis = array<i64: 2>, keepdims = true} : (tensor<2x4x5xf32>) -> tensor<2x4x1xf32>
  %5 = hybrid.divide %3, %4 : (tensor<2x4x5xf32>, tensor<2x4x1xf32>) -> tensor<2x4x5xf32>
  %6 = hybrid.matmul %5, %v : (tensor<2x4x5xf32>, tensor<2x5x6xf32>) -> tensor<2x4x6xf32>
  func.return %6, %5 : tensor<2x4x6xf32>, tensor<2x4x5xf32>
}
func.func @backward(%w: tensor<2x4x5xf32>, %v: tensor<2x5x6xf32>, %q: tensor<2x4x3xf32>, %k: tensor<2x5x3xf32>, %dy: tensor<2x4x6xf32>) -> (tensor<2x4x3xf32>, tensor<2x5x3xf32>, tensor<2x5x6xf32>) attributes {hybrid.saved = array<i64: 4, 2, 0, 1>} {
  %0 = hybrid.matmul %dy, %v {transpose_b = true} : (tensor<2x4x6xf32>, tensor<2x5x6xf32>) -> tensor<2x4x5xf32>
  %1 = hybrid.matmul %w, %dy {transpose_a = true} : (tensor<2x4x5xf32>, tensor<2x4x6xf32>) -> tensor<2x5x6xf32>
  %2 = hybrid.multiply %0, %w : (tensor<2x4x5xf32>, tensor<2x4x5xf32>) -> tensor<2x4x5xf32>
  %3 = hybrid.sum %2 {axis = array<i64: 2>, keepdims = true} : (tensor<2x4x5xf32>) -> tensor<2x4x1xf32>
  %4 = hybrid.multiply %w, %3 : (tensor<2x4x5xf32>, tensor<2x4x1xf32>) -> tensor<2x4x5xf32>
  %5 = hybrid.subtract %2, %4 : (tensor<2x4x5xf32>, tensor<2x4x5xf32>) -> tensor<2x4x5xf32>
  %6 = hybrid.matmul %5, %k : (tensor<2x4x5xf32>, tensor<2x5x3xf32>) -> tensor<2x4x3xf32>
  %7 = hybrid.matmul %5, %q {transpose_a = true} : (tensor<2x4x5xf32>, tensor<2x4x3xf32>) -> tensor<2x5x3xf32>
  func.return %6, %7, %1 : tensor<2x4x3xf32>, tensor<2x5x3xf32>, tensor<2x5x6xf32>
}
