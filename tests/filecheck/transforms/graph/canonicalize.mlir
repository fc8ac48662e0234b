// Every operator gives way to a simpler form of itself; what it became is asked again.
// RUN: hybridc-opt %s -p canonicalize-graph,dce | filecheck %s

// CHECK-LABEL: func.func @neutral
// CHECK-NEXT:    func.return %x
func.func @neutral(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %one = hybrid.constant {value = 1.0 : f64} : () -> tensor<f32>
  %zero = hybrid.constant {value = 0.0 : f64} : () -> tensor<f32>
  %a = hybrid.multiply %x, %one : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %b = hybrid.divide %a, %one : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %c = hybrid.subtract %b, %zero : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  func.return %c : tensor<2x3xf32>
}

// A number that broadcasts its other operand to a larger shape cannot be dropped.
// CHECK-LABEL: func.func @grows
// CHECK:         hybrid.multiply
func.func @grows(%x: tensor<3xf32>) -> tensor<2x3xf32> {
  %ones = hybrid.ones {shape = array<i64: 2, 3>} : () -> tensor<2x3xf32>
  %a = hybrid.multiply %x, %ones : (tensor<3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %a : tensor<2x3xf32>
}

// 0 - x is not -x for x = 0, and x * 0 is not 0 for infinities: they stay.
// CHECK-LABEL: func.func @not_equal_for_all_numbers
// CHECK:         hybrid.multiply %x
func.func @not_equal_for_all_numbers(%x: tensor<3xf32>) -> tensor<3xf32> {
  %zero = hybrid.constant {value = 0.0 : f64} : () -> tensor<f32>
  %a = hybrid.multiply %x, %zero : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  func.return %a : tensor<3xf32>
}
