// Operators with a kernel written by hand for the target are marked, and called; others are as they were.
// RUN: hybridc-opt %s -p mark-kernels{target=llvm} | filecheck %s
// RUN: hybridc-opt %s -p mark-kernels{target=llvm},hybrid-to-linalg | filecheck %s --check-prefix CALLED
// RUN: hybridc-opt %s -p mark-kernels{target=numpy} | filecheck %s --check-prefix NUMPY

// CHECK-LABEL: func.func @f
// CHECK:         hybrid.take_scatter {{.*}}hybrid.by_hand
// CHECK-NEXT:    hybrid.exp %
// CHECK-NOT:     hybrid.by_hand
// CALLED:        func.call @native_take_scatter
// CALLED:        math.exp
// CALLED:      func.func private @native_take_scatter{{.*}} attributes {{.*}}hybrid.kernel
// NUMPY-LABEL: func.func @f
// NUMPY-NOT:     hybrid.by_hand
func.func @f(%g: tensor<4x3xf32>, %i: tensor<4xi32>) -> tensor<5x3xf32> {
  %a = hybrid.take_scatter %g, %i {shape = array<i64: 5, 3>} : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<5x3xf32>
  %b = hybrid.exp %a : (tensor<5x3xf32>) -> tensor<5x3xf32>
  func.return %b : tensor<5x3xf32>
}
