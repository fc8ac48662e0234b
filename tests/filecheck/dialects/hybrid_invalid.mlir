// What an operation infers must be what it says.
// RUN: hybridc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

func.func @wrong_shape(%x: tensor<2x3xf32>) -> tensor<2x1xf32> {
  %y = hybrid.sum %x {axis = 0 : i64, keepdims = true} : (tensor<2x3xf32>) -> tensor<2x1xf32>
  func.return %y : tensor<2x1xf32>
}
// CHECK: hybrid.sum: result types are tensor<2x1xf32>, inferred tensor<1x3xf32>

// -----
func.func @wrong_dtype(%x: tensor<2xf32>) -> tensor<2xf64> {
  %y = hybrid.exp %x : (tensor<2xf32>) -> tensor<2xf64>
  func.return %y : tensor<2xf64>
}
// CHECK: hybrid.exp: result types are tensor<2xf64>, inferred tensor<2xf32>

// -----
func.func @wrong_number(%x: tensor<2x4xf32>) -> tensor<2x2xf32> {
  %y = hybrid.split %x {num_outputs = 2 : i64} : (tensor<2x4xf32>) -> tensor<2x2xf32>
  func.return %y : tensor<2x2xf32>
}
// CHECK: hybrid.split: result types are tensor<2x2xf32>, inferred tensor<2x2xf32>, tensor<2x2xf32>

// -----
func.func @inputs_that_do_not_fit(%x: tensor<2x3xf32>, %y: tensor<4xf32>) -> tensor<2x3xf32> {
  %z = hybrid.add %x, %y : (tensor<2x3xf32>, tensor<4xf32>) -> tensor<2x3xf32>
  func.return %z : tensor<2x3xf32>
}
// CHECK: shapes do not broadcast: lhs (2, 3), rhs (4,); axis 1 has sizes [3, 4], which must be equal or 1

// -----
func.func @unknown_attribute(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = hybrid.exp %x {base = 2 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}
// CHECK: exp: no attribute 'base'; it takes no attributes

// -----
func.func @bad_attribute(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = hybrid.activation %x {act_type = "rleu"} : (tensor<2xf32>) -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}
// CHECK: Activation: attribute act_type takes one of 'relu', 'sigmoid', 'tanh', 'softrelu', 'softsign', 'log_sigmoid', 'silu', 'gelu', got 'rleu'

// -----
func.func @too_few_operands(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = hybrid.add %x : (tensor<2xf32>) -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}
// CHECK: add: takes 2 inputs (lhs, rhs), got 1

// -----
func.func @no_function_type(%x: tensor<2xf32>) {
  %y = hybrid.exp %x : tensor<2xf32>
}
// CHECK: expected the function type of the operation

// -----
func.func @unknown_operation(%x: tensor<2xf32>) {
  %y = hybrid.nothing %x : (tensor<2xf32>) -> tensor<2xf32>
}
// CHECK: hybrid.nothing
