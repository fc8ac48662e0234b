// Elementwise operators and row reductions over one domain become one kernel.
// RUN: hybridc-opt %s -p fuse-kernels --split-input-file | filecheck %s

// A chain, a matrix product, and a softmax: three kernels; a transpose is a view and stays outside.
// CHECK-LABEL: func.func @chain
// CHECK-NEXT:    %t = func.call @fused_add_tanh(%x, %b)
// CHECK-NEXT:    %m = func.call @k_matmul(%t, %w)
// CHECK-NEXT:    %d = func.call @fused_exp_sum_divide(%m)
// CHECK-NEXT:    %v = hybrid.transpose %t {axes = array<i64: 1, 0>}
// CHECK-NEXT:    func.return %d, %v
// CHECK:       func.func private @fused_exp_sum_divide([[X:%.*]]: tensor<8x4xf32>) -> tensor<8x4xf32> {
// CHECK-NEXT:    %e = hybrid.exp [[X]]
// CHECK-NEXT:    %s = hybrid.sum %e {axis = 1 : i64, keepdims = true}
// CHECK-NEXT:    %d = hybrid.divide %e, %s
func.func @chain(%x: tensor<8x4xf32>, %b: tensor<4xf32>, %w: tensor<4x4xf32>) -> (tensor<8x4xf32>, tensor<4x8xf32>) {
  %a = hybrid.add %x, %b : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  %t = hybrid.tanh %a : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %m = hybrid.matmul %t, %w : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %e = hybrid.exp %m : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %s = hybrid.sum %e {axis = 1 : i64, keepdims = true} : (tensor<8x4xf32>) -> tensor<8x1xf32>
  %d = hybrid.divide %e, %s : (tensor<8x4xf32>, tensor<8x1xf32>) -> tensor<8x4xf32>
  %v = hybrid.transpose %t {axes = array<i64: 1, 0>} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  func.return %d, %v : tensor<8x4xf32>, tensor<4x8xf32>
}

// -----
// sin may not join exp and multiply in one kernel: the matrix product between them must run in the middle.
// CHECK-LABEL: func.func @between
// CHECK-NEXT:    %e = func.call @k_exp(%x)
// CHECK-NEXT:    %m = func.call @k_matmul(%e, %w)
// CHECK-NEXT:    %y = func.call @k_multiply(%e, %m)
func.func @between(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %e = hybrid.exp %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %m = hybrid.matmul %e, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = hybrid.multiply %e, %m : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %y : tensor<4x4xf32>
}

// -----
// Equal kernels are one function; numbers belong to the kernel.
// CHECK-LABEL: func.func @shared
// CHECK-NEXT:    [[A:%.*]] = func.call @k_[[K:.*]](%x)
// CHECK-NEXT:    [[B:%.*]] = func.call @k_matmul([[A]], %x)
// CHECK-NEXT:    [[C:%.*]] = func.call @k_[[K]]([[B]])
// CHECK:       func.func private @k_[[K]](
// CHECK:         hybrid.constant {value = 2.000000e+00 : f64}
// CHECK-NOT:     hybrid.constant
func.func @shared(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %two = hybrid.constant {value = 2.0 : f64} : () -> tensor<f32>
  %a = hybrid.multiply %x, %two : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %b = hybrid.matmul %a, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = hybrid.multiply %b, %two : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  func.return %c : tensor<4x4xf32>
}

// -----
// Kernels that differ in a number only are not equal, not even for the two zeros.
// CHECK-LABEL: func.func @differ
// CHECK-NEXT:    func.call @k_multiply(
// CHECK-NEXT:    func.call @k_multiply_1(
// CHECK-NEXT:    func.return
func.func @differ(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %zero = hybrid.constant {value = 0.0 : f64} : () -> tensor<f32>
  %minus = hybrid.constant {value = -0.0 : f64} : () -> tensor<f32>
  %a = hybrid.multiply %x, %zero : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %b = hybrid.multiply %y, %minus : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  func.return %a, %b : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----
// What is returned must be memory of its own: inputs, their views, doubles and broadcasts are copied.
// CHECK-LABEL: func.func @returned
// CHECK-DAG:     [[X:%.*]] = func.call @k_identity(%x)
// CHECK-DAG:     %e, [[E:%.*]] = func.call @fused_exp_identity(%x)
// CHECK-DAG:     %w = hybrid.broadcast_to
// CHECK-DAG:     [[W:%.*]] = func.call @k_identity_1(%w)
// CHECK:         func.return [[X]], %e, [[E]], [[W]]
func.func @returned(%x: tensor<1x4xf32>) -> (tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>, tensor<3x4xf32>) {
  %e = hybrid.exp %x : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %s = hybrid.sin %x : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %w = hybrid.broadcast_to %s {shape = array<i64: 3, 4>} : (tensor<1x4xf32>) -> tensor<3x4xf32>
  func.return %x, %e, %e, %w : tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>, tensor<3x4xf32>
}
