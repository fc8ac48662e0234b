// The gradient rules, written into a second function; the first returns what the second needs.
// RUN: hybridc-opt %s -p differentiate --split-input-file | filecheck %s

// sin needs its input, which is an argument of the forward already: number 0.
// CHECK-LABEL: func.func @forward(%x: tensor<3xf32>) -> tensor<3xf32>
// CHECK-SAME:    hybrid.outputs = array<i64: 1>
// CHECK:         func.return %y : tensor<3xf32>
// CHECK:       func.func @backward(%x: tensor<3xf32>, %ograd0: tensor<3xf32>) -> tensor<3xf32> attributes {{.*}}hybrid.saved = array<i64: 0>
// CHECK-NEXT:    [[C:%.*]] = hybrid.cos %x
// CHECK-NEXT:    [[G:%.*]] = hybrid.multiply {{.*}}[[C]]
// CHECK-NEXT:    func.return [[G]]
func.func @forward(%x: tensor<3xf32>) -> tensor<3xf32> attributes {hybrid.grads = array<i64: 0>} {
  %y = hybrid.sin %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

// -----
// exp needs its own result: here one that the forward must return besides its visible result, as number 1 + 1.
// CHECK-LABEL: func.func @forward
// CHECK-SAME:    -> (tensor<3xf32>, tensor<3xf32>)
// CHECK-SAME:    hybrid.outputs = array<i64: 1>
// CHECK:         func.return %y, %e : tensor<3xf32>, tensor<3xf32>
// CHECK:       func.func @backward(%e: tensor<3xf32>, %ograd0: tensor<3xf32>) -> tensor<3xf32> attributes {{.*}}hybrid.saved = array<i64: 2>
func.func @forward(%x: tensor<3xf32>) -> tensor<3xf32> attributes {hybrid.grads = array<i64: 0>} {
  %e = hybrid.exp %x : (tensor<3xf32>) -> tensor<3xf32>
  %two = hybrid.constant {value = 2.0 : f64} : () -> tensor<f32>
  %y = hybrid.multiply %e, %two : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

// -----
// A broadcast input's gradient is summed; only the inputs that were asked for get one.
// CHECK-LABEL: func.func @forward(%x: tensor<2x3xf32>, %b: tensor<3xf32>)
// CHECK:       func.func @backward
// CHECK:         [[G:%.*]] = hybrid.multiply
// CHECK-NEXT:    [[S:%.*]] = hybrid.sum_to [[G]] {shape = array<i64: 3>} : (tensor<2x3xf32>) -> tensor<3xf32>
// CHECK-NEXT:    func.return [[S]] : tensor<3xf32>
func.func @forward(%x: tensor<2x3xf32>, %b: tensor<3xf32>) -> tensor<2x3xf32> attributes {hybrid.grads = array<i64: 1>} {
  %y = hybrid.multiply %x, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}

// -----
// No gradient flows to %b: it gets zeros. A value used twice sums what comes back.
// CHECK-LABEL: func.func @forward(%x: tensor<3xf32>, %b: tensor<3xf32>)
// CHECK:       func.func @backward(%ograd0: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) attributes {{.*}}hybrid.saved = array<i64>
// CHECK-NEXT:    [[S:%.*]] = hybrid.add %ograd0, %ograd0
// CHECK-NEXT:    [[Z:%.*]] = hybrid.zeros {shape = array<i64: 3>
// CHECK-NEXT:    func.return [[S]], [[Z]]
func.func @forward(%x: tensor<3xf32>, %b: tensor<3xf32>) -> tensor<3xf32> attributes {hybrid.grads = array<i64: 0, 1>} {
  %y = hybrid.add %x, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

// -----
// Without the attribute there is nothing to do.
// CHECK-LABEL: func.func @forward
// CHECK-NOT:   @backward
func.func @forward(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = hybrid.sin %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

// -----
// Gradients that start from the second of two results: a function beside the backward from both.
// CHECK-LABEL: func.func @forward
// CHECK:         func.return %a, %b
// CHECK:       func.func @backward({{.*}}, %ograd0: tensor<3xf32>, %ograd1: tensor<3xf32>)
// CHECK:       func.func @backward_of_heads(%x: tensor<3xf32>, %ograd0: tensor<3xf32>) -> tensor<3xf32> attributes {{.*}}hybrid.saved = array<i64: 0>
// CHECK-NEXT:    [[C:%.*]] = hybrid.cos %x
// CHECK-NEXT:    [[G:%.*]] = hybrid.multiply {{.*}}[[C]]
// CHECK-NEXT:    func.return [[G]]
func.func @forward(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) attributes {hybrid.grads = array<i64: 0>, hybrid.heads = array<i64: 1>} {
  %a = hybrid.exp %x : (tensor<3xf32>) -> tensor<3xf32>
  %b = hybrid.sin %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %a, %b : tensor<3xf32>, tensor<3xf32>
}
