// In predict mode scale and shift after a contraction follow from parameters: the weight is scaled, one addition is left.
// Where a parameter is data, or the result has another reader, all stays as it is.
// RUN: hybridc-opt %s -p decompose,hybrid-to-linalg,fold-views,cse,dce,fold-scales,cse,dce | filecheck %s

// CHECK-LABEL: func.func @parameters
// CHECK:         [[S:%.*]] = linalg.generic {{.*}} ins(%w, %g : tensor<4x3xf32>, tensor<4xf32>)
// CHECK:           arith.mulf
// CHECK:         [[Y:%.*]] = linalg.generic {{.*}} ins(%x, [[S]] : tensor<8x3xf32>, tensor<4x3xf32>)
// CHECK:         [[R:%.*]] = linalg.generic {{.*}} ins([[Y]], {{%.*}} : tensor<8x4xf32>, tensor<4xf32>)
// CHECK:           arith.addf
// CHECK:         func.return [[R]]
func.func @parameters(%x: tensor<8x3xf32>, %w: tensor<4x3xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<8x4xf32>
    attributes {hybrid.roles = ["data", "parameter", "parameter", "parameter"]} {
  %y = hybrid.fully_connected %x, %w {num_hidden = 4 : i64, no_bias = true} : (tensor<8x3xf32>, tensor<4x3xf32>) -> tensor<8x4xf32>
  %s = hybrid.multiply %y, %g : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  %r = hybrid.add %s, %b : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  func.return %r : tensor<8x4xf32>
}

// CHECK-LABEL: func.func @data
// CHECK:         ins(%x, %w : tensor<8x3xf32>, tensor<4x3xf32>)
// CHECK:         ins({{%.*}}, %g : tensor<8x4xf32>, tensor<4xf32>)
// CHECK:         ins({{%.*}}, %b : tensor<8x4xf32>, tensor<4xf32>)
func.func @data(%x: tensor<8x3xf32>, %w: tensor<4x3xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<8x4xf32>
    attributes {hybrid.roles = ["data", "parameter", "data", "parameter"]} {
  %y = hybrid.fully_connected %x, %w {num_hidden = 4 : i64, no_bias = true} : (tensor<8x3xf32>, tensor<4x3xf32>) -> tensor<8x4xf32>
  %s = hybrid.multiply %y, %g : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  %r = hybrid.add %s, %b : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  func.return %r : tensor<8x4xf32>
}

// CHECK-LABEL: func.func @read_twice
// CHECK:         ins(%x, %w : tensor<8x3xf32>, tensor<4x3xf32>)
func.func @read_twice(%x: tensor<8x3xf32>, %w: tensor<4x3xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>)
    attributes {hybrid.roles = ["data", "parameter", "parameter", "parameter"]} {
  %y = hybrid.fully_connected %x, %w {num_hidden = 4 : i64, no_bias = true} : (tensor<8x3xf32>, tensor<4x3xf32>) -> tensor<8x4xf32>
  %s = hybrid.multiply %y, %g : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  %r = hybrid.add %s, %b : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  func.return %y, %r : tensor<8x4xf32>, tensor<8x4xf32>
}
