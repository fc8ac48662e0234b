// Loops over one domain become one kernel. The graph is lowered to loops first.
// RUN: hybridc-opt %s -p 'hybrid-to-linalg,cse,dce,fold-views,cse,dce,fuse-kernels' --split-input-file | filecheck %s

// A chain, a matrix product, and a softmax: three kernels; the first also writes the transpose that is returned.
// CHECK-LABEL: func.func @chain
// CHECK-NEXT:    %t, [[V:%.*]] = func.call @fused_add_tanh_transpose(%x, %b)
// CHECK-NEXT:    %m = func.call @k_matmul(%t, %w)
// CHECK-NEXT:    %d = func.call @fused_exp_sum_divide(%m)
// CHECK-NEXT:    func.return %d, [[V]]
// CHECK:       func.func private @fused_exp_sum_divide([[X:%.*]]: tensor<8x4xf32>) -> tensor<8x4xf32> attributes {hybrid.domains = [array<i64: 8, 4>]} {
// CHECK:         %e = linalg.generic {{.*}} ins([[X]] : tensor<8x4xf32>) {{.*}} attrs = {{{.*}}hybrid.axes = array<i64: 0, 1>}
// CHECK:         %s = linalg.generic {{.*}}"reduction"]} ins(%e : tensor<8x4xf32>) {{.*}} attrs = {{{.*}}hybrid.axes = array<i64: 0, 1>}
// CHECK:         linalg.generic {{.*}} ins(%e, %s : tensor<8x4xf32>, tensor<8xf32>)
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
// multiply may not join exp, which reads the same: the matrix product between them must run in the middle.
// CHECK-LABEL: func.func @between
// CHECK-NEXT:    %e = func.call @k_exp(%x)
// CHECK-NEXT:    %y = func.call @fused_matmul_multiply(%e, %w)
func.func @between(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %e = hybrid.exp %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %m = hybrid.matmul %e, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = hybrid.multiply %e, %m : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %y : tensor<4x4xf32>
}

// -----
// Equal kernels are one function; numbers belong to the kernel.
// CHECK-LABEL: func.func @shared
// CHECK-NEXT:    [[A:%.*]] = func.call @k_multiply(%x)
// CHECK-NEXT:    [[B:%.*]] = func.call @host_sort([[A]])
// CHECK-NEXT:    [[C:%.*]] = func.call @k_multiply([[B]])
// CHECK:       func.func private @k_multiply(
// CHECK:         arith.constant 2.000000e+00 : f32
// CHECK-NOT:     arith.constant
func.func @shared(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %two = hybrid.constant {value = 2.0 : f64} : () -> tensor<f32>
  %a = hybrid.multiply %x, %two : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %b = hybrid.sort %a : (tensor<4x4xf32>) -> tensor<4x4xf32>
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
// What is returned must be memory of its own: inputs, their views, doubles are copied; a broadcast is written by loops.
// CHECK-LABEL: func.func @returned
// CHECK-NEXT:    %e, [[X:%.*]], [[E:%.*]] = func.call @fused_exp_copy_copy(%x)
// CHECK-NEXT:    [[W:%.*]] = func.call @fused_sin_broadcast_to(%x)
// CHECK-NEXT:    func.return [[X]], %e, [[E]], [[W]]
func.func @returned(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<3x2x4xf32>) {
  %e = hybrid.exp %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %s = hybrid.sin %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %w = hybrid.broadcast_to %s {shape = array<i64: 3, 2, 4>} : (tensor<2x4xf32>) -> tensor<3x2x4xf32>
  func.return %x, %e, %e, %w : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<3x2x4xf32>
}

// -----
// Bias and activation are the epilogue of their product; a row reduction after it is a kernel of its own, with the bias.
// CHECK-LABEL: func.func @epilogue
// CHECK-NEXT:    %r = func.call @fused_matmul_add_relu(%x, %w, %b)
// CHECK-NEXT:    %n = func.call @k_matmul(%r, %w)
// CHECK-NEXT:    %s = func.call @fused_add_sum(%n, %b)
func.func @epilogue(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %b: tensor<4xf32>) -> tensor<4x1xf32> {
  %m = hybrid.matmul %x, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %a = hybrid.add %m, %b : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %r = hybrid.relu %a : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %n = hybrid.matmul %r, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = hybrid.add %n, %b : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %s = hybrid.sum %c {axis = 1 : i64, keepdims = true} : (tensor<4x4xf32>) -> tensor<4x1xf32>
  func.return %s : tensor<4x1xf32>
}

// -----
// Sums over all of a large array exist after the last tile: two of one array share a walk, what reads them comes after,
// and computes the mean again instead of having it from a kernel of one number.
// CHECK-LABEL: func.func @across
// CHECK-NEXT:    %s, %m = func.call @fused_sum_max(%x)
// CHECK-NEXT:    %y = func.call @fused_divide_subtract_multiply(
// CHECK-NEXT:    func.return %y
func.func @across(%x: tensor<1000x1000xf32>) -> tensor<1000x1000xf32> {
  %n = hybrid.constant {value = 1.0e6 : f64} : () -> tensor<f32>
  %s = hybrid.sum %x {axis = array<i64: 0, 1>, keepdims = true} : (tensor<1000x1000xf32>) -> tensor<1x1xf32>
  %m = hybrid.max %x {axis = array<i64: 0, 1>, keepdims = true} : (tensor<1000x1000xf32>) -> tensor<1x1xf32>
  %d = hybrid.divide %s, %n : (tensor<1x1xf32>, tensor<f32>) -> tensor<1x1xf32>
  %c = hybrid.subtract %x, %d : (tensor<1000x1000xf32>, tensor<1x1xf32>) -> tensor<1000x1000xf32>
  %y = hybrid.multiply %c, %m : (tensor<1000x1000xf32>, tensor<1x1xf32>) -> tensor<1000x1000xf32>
  func.return %y : tensor<1000x1000xf32>
}

// -----
// What updates its arguments is one kernel, a nest for each.
// CHECK-LABEL: func.func @update
// CHECK-NEXT:    func.call @fused_add_negative(
// CHECK-NEXT:    func.return
// CHECK:       func.func private @fused_add_negative
// CHECK-SAME:    hybrid.domains = [array<i64: 4>, array<i64: 2, 3>]
// CHECK:         hybrid.operator = "negative", hybrid.axes = array<i64: 0, 1>, hybrid.loop_nest = 1 : i64
func.func @update(%v: tensor<4xf32>, %w: tensor<2x3xf32>) -> (tensor<4xf32>, tensor<2x3xf32>) attributes {hybrid.donated = array<i64: 0, 0, 1, 1>} {
  %a = hybrid.add %v, %v : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = hybrid.negative %w : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %a, %b : tensor<4xf32>, tensor<2x3xf32>
}
