// Operators on numbers become numbers, one after the other; what depends on an input stays.
// RUN: hybridc-opt %s -p constant-fold,dce | filecheck %s

// CHECK-LABEL: func.func @chain
// CHECK-NEXT:    [[N:%.*]] = hybrid.constant {value = 7.000000e+00 : f64} : () -> tensor<f32>
// CHECK-NEXT:    %y = hybrid.multiply %x, [[N]] : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
// CHECK-NEXT:    func.return %y
func.func @chain(%x: tensor<4xf32>) -> tensor<4xf32> {
  %two = hybrid.constant {value = 2.0 : f64} : () -> tensor<f32>
  %three = hybrid.constant {value = 3.0 : f64} : () -> tensor<f32>
  %six = hybrid.multiply %two, %three : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %root = hybrid.sqrt %six : (tensor<f32>) -> tensor<f32>
  %square = hybrid.square %root : (tensor<f32>) -> tensor<f32>
  %rounded = hybrid.rint %square : (tensor<f32>) -> tensor<f32>
  %one = hybrid.constant {value = 1.0 : f64} : () -> tensor<f32>
  %n = hybrid.add %rounded, %one : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %y = hybrid.multiply %x, %n : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// The arithmetic is that of the element type: integers stay integers.
// CHECK-LABEL: func.func @integers
// CHECK-NEXT:    [[N:%.*]] = hybrid.constant {value = 6 : i64, dtype = i32} : () -> tensor<i32>
// CHECK-NEXT:    hybrid.add %x, [[N]]
func.func @integers(%x: tensor<4xi32>) -> tensor<4xi32> {
  %two = hybrid.constant {value = 2 : i64, dtype = i32} : () -> tensor<i32>
  %three = hybrid.constant {value = 3 : i64, dtype = i32} : () -> tensor<i32>
  %six = hybrid.multiply %two, %three : (tensor<i32>, tensor<i32>) -> tensor<i32>
  %y = hybrid.add %x, %six : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  func.return %y : tensor<4xi32>
}

// Division by zero is a number too, and no warning.
// CHECK-LABEL: func.func @infinity
// CHECK-NEXT:    hybrid.constant {value = 0x7ff0000000000000 : f64} : () -> tensor<f32>
func.func @infinity(%x: tensor<4xf32>) -> tensor<4xf32> {
  %one = hybrid.constant {value = 1.0 : f64} : () -> tensor<f32>
  %zero = hybrid.constant {value = 0.0 : f64} : () -> tensor<f32>
  %n = hybrid.divide %one, %zero : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %y = hybrid.add %x, %n : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
