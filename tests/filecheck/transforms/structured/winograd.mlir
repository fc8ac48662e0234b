// A 3x3 convolution of many channels becomes transforms and a contraction for each of 36 points, in one kernel over a
// grid of images and tiles; the weight's transform is a kernel of its own. With steps it stays a contraction.
// RUN: hybridc-opt %s -p decompose,hybrid-to-linalg,fold-views,cse,dce,winograd | filecheck %s

// CHECK-LABEL: func.func @many
// CHECK:         [[W:%.*]] = func.call @weights_of_contract({{%.*}}) : (tensor<32x3x3x4x16xf32>) -> tensor<6x6x4x32x16xf32>
// CHECK-NEXT:    [[Y:%.*]] = func.call @winograd_contract({{%.*}}, [[W]]) : (tensor<8x30x30x32xf32>, tensor<6x6x4x32x16xf32>) -> tensor<8x7x4x7x4x4x16xf32>
// CHECK:         tensor.collapse_shape [[Y]]
func.func @many(%x: tensor<8x32x28x28xf32>, %w: tensor<64x32x3x3xf32>) -> tensor<8x64x28x28xf32> {
  %y = hybrid.convolution %x, %w {kernel = array<i64: 3, 3>, pad = array<i64: 1, 1>, num_filter = 64 : i64, no_bias = true} : (tensor<8x32x28x28xf32>, tensor<64x32x3x3xf32>) -> tensor<8x64x28x28xf32>
  func.return %y : tensor<8x64x28x28xf32>
}

// CHECK-LABEL: func.func @strided
// CHECK-NOT:     func.call
// CHECK:         func.return
func.func @strided(%x: tensor<8x32x28x28xf32>, %w: tensor<64x32x3x3xf32>) -> tensor<8x64x14x14xf32> {
  %y = hybrid.convolution %x, %w {kernel = array<i64: 3, 3>, stride = array<i64: 2, 2>, pad = array<i64: 1, 1>, num_filter = 64 : i64, no_bias = true} : (tensor<8x32x28x28xf32>, tensor<64x32x3x3xf32>) -> tensor<8x64x14x14xf32>
  func.return %y : tensor<8x64x14x14xf32>
}

// CHECK-LABEL: func.func private @weights_of_contract
// CHECK:         -> (d3, d5, d6, d2, d4)>
// CHECK-LABEL: func.func private @winograd_contract
// CHECK-SAME:    hybrid.grid = [array<i64: 0, 1, 2>, array<i64: 0, 1, 2>, array<i64: 0, 1, 3>]
// CHECK:         -> (d0, ((d1 * 4) + d6), ((d2 * 4) + d7), d5)>
// CHECK:         hybrid.loop_nest = 1
// CHECK:         hybrid.loop_nest = 2
