// Operations with attributes of every kind print and parse again.
// RUN: hybridc-opt %s | filecheck %s
// RUN: hybridc-opt %s | hybridc-opt | filecheck %s
// RUN: hybridc-opt %s --print-op-generic | hybridc-opt | filecheck %s

func.func @forward(%x: tensor<2x3xf32>, %i: tensor<2xi32>, %key: tensor<2xui64>) -> tensor<2x3xf16> {
  %number = hybrid.constant {value = 2.5 : f64} : () -> tensor<f32>
  %whole = hybrid.constant {value = 3 : i64, dtype = i32} : () -> tensor<i32>
  %truth = hybrid.constant {value = true, dtype = i1} : () -> tensor<i1>
  %sum = hybrid.sum %x {axis = 1 : i64, keepdims = true} : (tensor<2x3xf32>) -> tensor<2x1xf32>
  %all = hybrid.sum %x : (tensor<2x3xf32>) -> tensor<1xf32>
  %two = hybrid.sum %x {axis = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<1xf32>
  %turned = hybrid.transpose %x {axes = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %part = hybrid.slice %x {begin = [none, 1 : i64], end = array<i64: 2, 3>} : (tensor<2x3xf32>) -> tensor<2x2xf32>
  %named = hybrid.activation %x {act_type = "tanh"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %clipped = hybrid.clip %named {a_min = -1.0 : f64, a_max = 0x7ff0000000000000 : f64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %half = hybrid.cast %clipped {dtype = f16} : (tensor<2x3xf32>) -> tensor<2x3xf16>
  %joined = hybrid.concat %x, %x, %sum {dim = 1 : i64} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x7xf32>
  %parts:3 = hybrid.split %x {num_outputs = 3 : i64} : (tensor<2x3xf32>) -> (tensor<2x1xf32>, tensor<2x1xf32>, tensor<2x1xf32>)
  func.return %half : tensor<2x3xf16>
}

// CHECK:       func.func @forward(%x: tensor<2x3xf32>, %i: tensor<2xi32>, %key: tensor<2xui64>) -> tensor<2x3xf16> {
// CHECK-NEXT:    %number = hybrid.constant {value = 2.500000e+00 : f64} : () -> tensor<f32>
// CHECK-NEXT:    %whole = hybrid.constant {value = 3 : i64, dtype = i32} : () -> tensor<i32>
// CHECK-NEXT:    %truth = hybrid.constant {value = true, dtype = i1} : () -> tensor<i1>
// CHECK-NEXT:    %sum = hybrid.sum %x {axis = 1 : i64, keepdims = true} : (tensor<2x3xf32>) -> tensor<2x1xf32>
// CHECK-NEXT:    %all = hybrid.sum %x : (tensor<2x3xf32>) -> tensor<1xf32>
// CHECK-NEXT:    %two = hybrid.sum %x {axis = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<1xf32>
// CHECK-NEXT:    %turned = hybrid.transpose %x {axes = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
// CHECK-NEXT:    %part = hybrid.slice %x {begin = [none, 1 : i64], end = array<i64: 2, 3>} : (tensor<2x3xf32>) -> tensor<2x2xf32>
// CHECK-NEXT:    %named = hybrid.activation %x {act_type = "tanh"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT:    %clipped = hybrid.clip %named {a_min = -1.000000e+00 : f64, a_max = 0x7ff0000000000000 : f64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT:    %half = hybrid.cast %clipped {dtype = f16} : (tensor<2x3xf32>) -> tensor<2x3xf16>
// CHECK-NEXT:    %joined = hybrid.concat %x, %x, %sum {dim = 1 : i64} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x7xf32>
// CHECK-NEXT:    %parts, %parts_1, %parts_2 = hybrid.split %x {num_outputs = 3 : i64} : (tensor<2x3xf32>) -> (tensor<2x1xf32>, tensor<2x1xf32>, tensor<2x1xf32>)
// CHECK-NEXT:    func.return %half : tensor<2x3xf16>
