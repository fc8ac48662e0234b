// Composite operators become the primitive ones that they are made of; reductions keep their axes.
// RUN: hybridc-opt %s -p decompose | filecheck %s

// CHECK-LABEL: func.func @softmax
// CHECK-NEXT:    [[M:%.*]] = hybrid.max %x {axis = -1 : i64, keepdims = true} : (tensor<2x3xf32>) -> tensor<2x1xf32>
// CHECK-NEXT:    [[D:%.*]] = hybrid.subtract %x, [[M]] :
// CHECK-NEXT:    [[E:%.*]] = hybrid.exp [[D]] :
// CHECK-NEXT:    [[S:%.*]] = hybrid.sum [[E]] {axis = -1 : i64, keepdims = true} : (tensor<2x3xf32>) -> tensor<2x1xf32>
// CHECK-NEXT:    [[R:%.*]] = hybrid.reciprocal [[S]] :
// CHECK-NEXT:    %y = hybrid.multiply [[E]], [[R]] : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
// CHECK-NEXT:    func.return %y
func.func @softmax(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = hybrid.softmax %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @sum
// CHECK-NEXT:    [[S:%.*]] = hybrid.sum %x {axis = array<i64: 1>, keepdims = true} : (tensor<2x3xf32>) -> tensor<2x1xf32>
// CHECK-NEXT:    %y = hybrid.squeeze [[S]] {axis = array<i64: 1>} : (tensor<2x1xf32>) -> tensor<2xf32>
func.func @sum(%x: tensor<2x3xf32>) -> tensor<2xf32> {
  %y = hybrid.sum %x {axis = 1 : i64} : (tensor<2x3xf32>) -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}

// A layer becomes a matrix product and an addition; nothing composite is left.
// CHECK-LABEL: func.func @dense
// CHECK-NOT:     hybrid.fully_connected
// CHECK:         hybrid.matmul {{.*}} {transpose_b = true}
// CHECK-NEXT:    hybrid.add
func.func @dense(%x: tensor<2x3xf32>, %w: tensor<4x3xf32>, %b: tensor<4xf32>) -> tensor<2x4xf32> {
  %y = hybrid.fully_connected %x, %w, %b {num_hidden = 4 : i64} : (tensor<2x3xf32>, tensor<4x3xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}
