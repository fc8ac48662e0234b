// A product and what follows it become two kernels.
// RUN: hybridc-opt %s -p 'hybrid-to-linalg,cse,dce,fold-views,cse,dce,fuse-kernels,split-contractions' --split-input-file | filecheck %s

// Both layers share the product, and the product with a kernel that is one already; the rest reads it first.
// CHECK-LABEL: func.func @layers
// CHECK-NEXT:    [[A:%.*]] = func.call @k_matmul(%x, %w)
// CHECK-NEXT:    %t = func.call @fused_add_tanh([[A]], %b)
// CHECK-NEXT:    [[B:%.*]] = func.call @k_matmul(%t, %w)
// CHECK-NEXT:    %u = func.call @fused_add_tanh([[B]], %b)
// CHECK-NEXT:    %p = func.call @k_matmul(%u, %w)
// CHECK-NEXT:    func.return %p
// CHECK:       func.func private @fused_add_tanh([[P:%.*]]: tensor<4x4xf32>, [[Q:%.*]]: tensor<4xf32>) -> tensor<4x4xf32> attributes {hybrid.domains = [array<i64: 4, 4>]} {
// CHECK-NOT:     linalg.fill
// CHECK-NOT:     "reduction"
// CHECK:         linalg.generic {{.*}} ins([[P]], [[Q]] : tensor<4x4xf32>, tensor<4xf32>)
// CHECK:       func.func private @k_matmul([[X:%.*]]: tensor<4x4xf32>, [[W:%.*]]: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {hybrid.domains = [array<i64: 4, 4>]} {
// CHECK:         [[C:%.*]] = linalg.generic {{.*}}"reduction"]} ins([[X]], [[W]]
// CHECK:         func.return [[C]]
func.func @layers(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %b: tensor<4xf32>) -> tensor<4x4xf32> {
  %m = hybrid.matmul %x, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %a = hybrid.add %m, %b : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %t = hybrid.tanh %a : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %n = hybrid.matmul %t, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = hybrid.add %n, %b : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %u = hybrid.tanh %c : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %p = hybrid.matmul %u, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %p : tensor<4x4xf32>
}

// -----
// A product that is a result itself comes from its own kernel; an argument that both read is given to both.
// CHECK-LABEL: func.func @kept
// CHECK-NEXT:    %m = func.call @k_matmul(%x)
// CHECK-NEXT:    %y = func.call @fused_exp_multiply(%m, %x)
// CHECK-NEXT:    func.return %m, %y
// CHECK:       func.func private @fused_exp_multiply({{%.*}}: tensor<4x4xf32>, {{%.*}}: tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK:       func.func private @k_matmul({{%.*}}: tensor<4x4xf32>) -> tensor<4x4xf32>
func.func @kept(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %m = hybrid.matmul %x, %x {transpose_b = true} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %e = hybrid.exp %m : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = hybrid.multiply %e, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %m, %y : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----
// Half precision is multiplied in single; turning the sums back is the rest.
// CHECK-LABEL: func.func @half
// CHECK-NEXT:    [[A:%.*]] = func.call @k_matmul(%x, %w) : (tensor<4x3xf16>, tensor<3x2xf16>) -> tensor<4x2xf32>
// CHECK-NEXT:    %m = func.call @fused_matmul([[A]]) : (tensor<4x2xf32>) -> tensor<4x2xf16>
func.func @half(%x: tensor<4x3xf16>, %w: tensor<3x2xf16>) -> tensor<4x2xf16> {
  %m = hybrid.matmul %x, %w : (tensor<4x3xf16>, tensor<3x2xf16>) -> tensor<4x2xf16>
  func.return %m : tensor<4x2xf16>
}

// -----
// What has no product stays as it is.
// CHECK-LABEL: func.func @alone
// CHECK-NEXT:    %s = func.call @fused_exp_sum(%x)
// CHECK-NOT:     func.call
func.func @alone(%x: tensor<4x4xf32>) -> tensor<4x1xf32> {
  %e = hybrid.exp %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = hybrid.sum %e {axis = 1 : i64, keepdims = true} : (tensor<4x4xf32>) -> tensor<4x1xf32>
  func.return %s : tensor<4x1xf32>
}
