// Operands of half precision are cast before contractions in which each element is in many products.
// RUN: hybridc-opt %s -p hybrid-to-linalg,widen-contractions | filecheck %s

// CHECK-LABEL: func.func @many
// CHECK:         [[X:%.*]] = linalg.generic {{.*}} ins(%x : tensor<16x9xf16>)
// CHECK:           arith.extf {{%.*}} : f16 to f32
// CHECK:         [[W:%.*]] = linalg.generic {{.*}} ins(%w : tensor<9x20xf16>)
// CHECK:         linalg.generic {{.*}} ins([[X]], [[W]] : tensor<16x9xf32>, tensor<9x20xf32>)
// CHECK-NOT:       arith.extf
// CHECK:           arith.mulf
func.func @many(%x: tensor<16x9xf16>, %w: tensor<9x20xf16>) -> tensor<16x20xf16> {
  %y = hybrid.matmul %x, %w : (tensor<16x9xf16>, tensor<9x20xf16>) -> tensor<16x20xf16>
  func.return %y : tensor<16x20xf16>
}

// CHECK-LABEL: func.func @few
// CHECK:         linalg.generic {{.*}} ins(%x, %w : tensor<2x9xf16>, tensor<9x3xf16>)
func.func @few(%x: tensor<2x9xf16>, %w: tensor<9x3xf16>) -> tensor<2x3xf16> {
  %y = hybrid.matmul %x, %w : (tensor<2x9xf16>, tensor<9x3xf16>) -> tensor<2x3xf16>
  func.return %y : tensor<2x3xf16>
}
