// Scratch, threads and in-place pairs of every kernel.
// RUN: hybridc-opt %s -p hybrid-to-linalg,cse,dce,fold-views,cse,dce,fuse-kernels,tile-kernels | filecheck %s
// RUN: hybridc-opt %s -p 'hybrid-to-linalg,cse,dce,fold-views,cse,dce,fuse-kernels,tile-kernels{threads=1}' | filecheck %s --check-prefix ONE

// Small: one tile, no loops. The argument that the result may overwrite is declared; the broadcast one is not.
// CHECK-LABEL: func.func private @fused_add_tanh
// CHECK-SAME:    hybrid.scratch = 0 : i64, hybrid.threads = 1 : i64, hybrid.inplace = array<i64: 0, 0>
func.func @small(%x: tensor<8x4xf32>, %b: tensor<4xf32>) -> tensor<8x4xf32> {
  %a = hybrid.add %x, %b : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  %t = hybrid.tanh %a : (tensor<8x4xf32>) -> tensor<8x4xf32>
  func.return %t : tensor<8x4xf32>
}

// Large: shared by two threads, unless there is only one.
// CHECK-LABEL: func.func private @fused_exp_sum_divide
// CHECK-SAME:    hybrid.threads = 2 : i64
// ONE-LABEL:   func.func private @fused_exp_sum_divide
// ONE-SAME:      hybrid.threads = 1 : i64
func.func @large(%x: tensor<2000x500xf32>) -> tensor<2000x500xf32> {
  %a = hybrid.exp %x : (tensor<2000x500xf32>) -> tensor<2000x500xf32>
  %b = hybrid.sum %a {axis = 1 : i64, keepdims = true} : (tensor<2000x500xf32>) -> tensor<2000x1xf32>
  %c = hybrid.divide %a, %b : (tensor<2000x500xf32>, tensor<2000x1xf32>) -> tensor<2000x500xf32>
  func.return %c : tensor<2000x500xf32>
}

// %y is read by the second operation only, %x by both: a result takes the place of what is not read after it.
// CHECK-LABEL: func.func private @fused_exp_multiply
// CHECK-SAME:    hybrid.inplace = array<i64: 0, 1, 1, 1>
func.func @two_results(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %a = hybrid.exp %x : (tensor<8xf32>) -> tensor<8xf32>
  %p = hybrid.multiply %x, %y : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %b = hybrid.multiply %p, %a : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  func.return %a, %b : tensor<8xf32>, tensor<8xf32>
}

// Of another type or shape: nothing in place.
// CHECK-LABEL: func.func private @fused_cast_add
// CHECK-SAME:    hybrid.inplace = array<i64>
func.func @changes(%x: tensor<8x1xf32>, %y: tensor<8x4xf64>) -> tensor<8x4xf32> {
  %c = hybrid.cast %y {dtype = f32} : (tensor<8x4xf64>) -> tensor<8x4xf32>
  %a = hybrid.add %x, %c : (tensor<8x1xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  func.return %a : tensor<8x4xf32>
}
