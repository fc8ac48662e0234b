// Contractions with the rows between them are one kernel where they share a grid, if what lies between is large.
// RUN: hybridc-opt %s -p 'decompose,hybrid-to-linalg,cse,dce,fold-views,cse,dce,fuse-kernels,split-contractions,fuse-contractions' --split-input-file | filecheck %s

// Attention: heads and queries are the grid of all three nests; of the last one they are axes 0 and 1, too.
// CHECK-LABEL: func.func @attention
// CHECK-NEXT:    [[O:%.*]] = func.call @[[FUSED:fused_matmul_max.*]](%q, %k, %v)
// CHECK-NEXT:    func.return [[O]]
// CHECK:       func.func private @[[FUSED]]({{.*}}) -> tensor<16x256x32xf32> attributes {hybrid.domains = [array<i64: 16, 256, 256>, array<i64: 16, 256, 256>, array<i64: 16, 256, 32>], hybrid.grid = [array<i64: 0, 1>, array<i64: 0, 1>, array<i64: 0, 1>]}
// CHECK-NOT:   func.func private
func.func @attention(%q: tensor<16x256x32xf32>, %k: tensor<16x256x32xf32>, %v: tensor<16x256x32xf32>) -> tensor<16x256x32xf32> {
  %s = hybrid.batch_dot %q, %k {transpose_b = true} : (tensor<16x256x32xf32>, tensor<16x256x32xf32>) -> tensor<16x256x256xf32>
  %m = hybrid.max %s {axis = 2 : i64, keepdims = true} : (tensor<16x256x256xf32>) -> tensor<16x256x1xf32>
  %d = hybrid.subtract %s, %m : (tensor<16x256x256xf32>, tensor<16x256x1xf32>) -> tensor<16x256x256xf32>
  %e = hybrid.exp %d : (tensor<16x256x256xf32>) -> tensor<16x256x256xf32>
  %o = hybrid.batch_dot %e, %v : (tensor<16x256x256xf32>, tensor<16x256x32xf32>) -> tensor<16x256x32xf32>
  func.return %o : tensor<16x256x32xf32>
}

// -----
// Two contractions read what lies between; one sums the queries, which are no part of the grid then.
// CHECK-LABEL: func.func @gradients
// CHECK-NEXT:    func.call @[[FUSED:.*]](%g, %v, %p, %k, %q)
// CHECK-NEXT:    func.return
// CHECK:       func.func private @[[FUSED]]({{.*}}hybrid.grid = [array<i64: 0>, array<i64: 0>, array<i64: 0>, array<i64: 0>]
func.func @gradients(%g: tensor<16x256x32xf32>, %v: tensor<16x256x32xf32>, %p: tensor<16x256x256xf32>, %k: tensor<16x256x32xf32>, %q: tensor<16x256x32xf32>) -> (tensor<16x256x32xf32>, tensor<16x256x32xf32>) {
  %s = hybrid.batch_dot %g, %v {transpose_b = true} : (tensor<16x256x32xf32>, tensor<16x256x32xf32>) -> tensor<16x256x256xf32>
  %d = hybrid.multiply %s, %p : (tensor<16x256x256xf32>, tensor<16x256x256xf32>) -> tensor<16x256x256xf32>
  %a = hybrid.batch_dot %d, %k : (tensor<16x256x256xf32>, tensor<16x256x32xf32>) -> tensor<16x256x32xf32>
  %b = hybrid.batch_dot %d, %q {transpose_a = true} : (tensor<16x256x256xf32>, tensor<16x256x32xf32>) -> tensor<16x256x32xf32>
  func.return %a, %b : tensor<16x256x32xf32>, tensor<16x256x32xf32>
}

// -----
// Scores that are small stay in a cache anyway.
// CHECK-LABEL: func.func @small
// CHECK-COUNT-3: func.call
// CHECK-NOT:   hybrid.grid
func.func @small(%q: tensor<16x32x32xf32>, %k: tensor<16x32x32xf32>, %v: tensor<16x32x32xf32>) -> tensor<16x32x32xf32> {
  %s = hybrid.batch_dot %q, %k {transpose_b = true} : (tensor<16x32x32xf32>, tensor<16x32x32xf32>) -> tensor<16x32x32xf32>
  %e = hybrid.softmax %s : (tensor<16x32x32xf32>) -> tensor<16x32x32xf32>
  %o = hybrid.batch_dot %e, %v : (tensor<16x32x32xf32>, tensor<16x32x32xf32>) -> tensor<16x32x32xf32>
  func.return %o : tensor<16x32x32xf32>
}

// -----
// Layers multiply by matrices that no point of the batch has of its own.
// CHECK-LABEL: func.func @layers
// CHECK-COUNT-3: func.call
// CHECK-NOT:   hybrid.grid
func.func @layers(%x: tensor<4096x64xf32>, %u: tensor<64x256xf32>, %w: tensor<256x64xf32>) -> tensor<4096x64xf32> {
  %s = hybrid.matmul %x, %u : (tensor<4096x64xf32>, tensor<64x256xf32>) -> tensor<4096x256xf32>
  %e = hybrid.tanh %s : (tensor<4096x256xf32>) -> tensor<4096x256xf32>
  %o = hybrid.matmul %e, %w : (tensor<4096x256xf32>, tensor<256x64xf32>) -> tensor<4096x64xf32>
  func.return %o : tensor<4096x64xf32>
}

// -----
// A sum over the batch leaves no grid.
// CHECK-LABEL: func.func @summed
// CHECK-COUNT-3: func.call
// CHECK-NOT:   hybrid.grid
func.func @summed(%q: tensor<16x256x32xf32>, %k: tensor<16x256x32xf32>, %v: tensor<16x256x32xf32>) -> (tensor<16x256x32xf32>, tensor<256x256xf32>) {
  %s = hybrid.batch_dot %q, %k {transpose_b = true} : (tensor<16x256x32xf32>, tensor<16x256x32xf32>) -> tensor<16x256x256xf32>
  %e = hybrid.exp %s : (tensor<16x256x256xf32>) -> tensor<16x256x256xf32>
  %t = hybrid.sum %e {axis = 0 : i64} : (tensor<16x256x256xf32>) -> tensor<256x256xf32>
  %o = hybrid.batch_dot %e, %v : (tensor<16x256x256xf32>, tensor<16x256x32xf32>) -> tensor<16x256x32xf32>
  func.return %o, %t : tensor<16x256x32xf32>, tensor<256x256xf32>
}

// -----
// The second contraction needs the first one's rows by way of the host: all stay.
// CHECK-LABEL: func.func @crossed
// CHECK-NOT:   hybrid.grid
func.func @crossed(%q: tensor<16x256x32xf32>, %k: tensor<16x256x32xf32>) -> tensor<16x256x32xf32> {
  %s = hybrid.batch_dot %q, %k {transpose_b = true} : (tensor<16x256x32xf32>, tensor<16x256x32xf32>) -> tensor<16x256x256xf32>
  %e = hybrid.exp %s : (tensor<16x256x256xf32>) -> tensor<16x256x256xf32>
  %i = hybrid.argsort %e {axis = 2 : i64} : (tensor<16x256x256xf32>) -> tensor<16x256x256xf32>
  %v = hybrid.slice_axis %i {axis = 2 : i64, begin = 0 : i64, end = 32 : i64} : (tensor<16x256x256xf32>) -> tensor<16x256x32xf32>
  %o = hybrid.batch_dot %e, %v : (tensor<16x256x256xf32>, tensor<16x256x32xf32>) -> tensor<16x256x32xf32>
  func.return %o : tensor<16x256x32xf32>
}
