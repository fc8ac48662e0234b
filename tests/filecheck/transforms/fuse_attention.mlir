// An attention is one kernel of three nests; what needs scores or weights elsewhere stays three kernels.
// RUN: hybridc-opt %s -p 'hybrid-to-linalg{library=triton},cse,dce,fold-views,cse,dce,fuse-kernels,fuse-attention' --split-input-file | filecheck %s

// CHECK-LABEL: func.func @plain
// CHECK-NEXT:    [[Y:%.*]] = func.call @fused_attention(%q, %k, %v)
// CHECK-NEXT:    func.return [[Y]]
// CHECK-NOT:   func.func private @k_matmul
// CHECK:       func.func private @fused_attention({{.*}}) -> tensor<2x4x6xf32> attributes {hybrid.domains = [array<i64: 2, 4, 5>, array<i64: 2, 4, 5>, array<i64: 2, 4, 6>]} {
// CHECK:         linalg.generic {{.*}} {hybrid.operator = "matmul", hybrid.axes = array<i64: 0, 1, 2, -1>}
// CHECK:         linalg.generic {{.*}} {hybrid.operator = "max", hybrid.axes = array<i64: 0, 1, 2>, hybrid.nest = 1 : i64}
// CHECK:         linalg.generic {{.*}} {hybrid.operator = "matmul", hybrid.axes = array<i64: 0, 1, 2, -1>, hybrid.nest = 2 : i64}
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
