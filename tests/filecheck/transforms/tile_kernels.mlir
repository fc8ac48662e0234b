// Scratch, threads and in-place pairs of every fused kernel.
// RUN: hybridc-opt %s -p tile-kernels | filecheck %s
// RUN: hybridc-opt %s -p 'tile-kernels{threads=1}' | filecheck %s --check-prefix ONE

// Small: one tile, no loops. The argument that the result may overwrite is declared; the broadcast one is not.
// CHECK-LABEL: @small
// CHECK-SAME:    hybrid.threads = 1 : i64, hybrid.inplace = array<i64: 0, 0>
func.func private @small(%x: tensor<8x4xf32>, %b: tensor<4xf32>) -> tensor<8x4xf32> {
  %a = hybrid.add %x, %b : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  %t = hybrid.tanh %a : (tensor<8x4xf32>) -> tensor<8x4xf32>
  func.return %t : tensor<8x4xf32>
}

// Large: shared by two threads, unless there is only one.
// CHECK-LABEL: @large
// CHECK-SAME:    hybrid.threads = 2 : i64
// ONE-LABEL:   @large
// ONE-SAME:      hybrid.threads = 1 : i64
func.func private @large(%x: tensor<2000x500xf32>) -> tensor<2000x500xf32> {
  %a = hybrid.exp %x : (tensor<2000x500xf32>) -> tensor<2000x500xf32>
  %b = hybrid.sum %a {axis = 1 : i64, keepdims = true} : (tensor<2000x500xf32>) -> tensor<2000x1xf32>
  %c = hybrid.divide %a, %b : (tensor<2000x500xf32>, tensor<2000x1xf32>) -> tensor<2000x500xf32>
  func.return %c : tensor<2000x500xf32>
}

// %x is read after the first result is written, so only the second may take its place; %y may give its place to both.
// CHECK-LABEL: @two_results
// CHECK-SAME:    hybrid.inplace = array<i64: 1, 0, 0, 1, 1, 1>
func.func private @two_results(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %a = hybrid.add %x, %y : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %b = hybrid.sin %x : (tensor<8xf32>) -> tensor<8xf32>
  func.return %a, %b : tensor<8xf32>, tensor<8xf32>
}

// Of another type or shape: nothing in place.
// CHECK-LABEL: @changes
// CHECK-SAME:    hybrid.inplace = array<i64>
func.func private @changes(%x: tensor<8x1xf32>, %y: tensor<8x4xf64>) -> tensor<8x4xf32> {
  %c = hybrid.cast %y {dtype = f32} : (tensor<8x4xf64>) -> tensor<8x4xf32>
  %a = hybrid.add %x, %c : (tensor<8x1xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  func.return %a : tensor<8x4xf32>
}

// A library call has no tiles.
// CHECK-LABEL: @library
// CHECK-NOT:     hybrid.scratch
func.func private @library(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %y = hybrid.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %y : tensor<4x4xf32>
}
