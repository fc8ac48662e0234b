// Movements as loops for native code, and the kernels that they become.
// RUN: hybridc-opt %s -p mark-kernels{target=llvm},hybrid-to-linalg | filecheck %s
// RUN: hybridc-opt %s -p 'mark-kernels{target=llvm},hybrid-to-linalg,cse,dce,fold-views,cse,dce,fuse-kernels' | filecheck %s --check-prefix KERNELS

// What a body reads at its own loops' indices is an operand; only the table is read at computed ones. There are no
// loops of size 1.
// CHECK-LABEL: func.func @gather
// CHECK:         [[I:%.*]] = tensor.collapse_shape %i {{.*}} : tensor<3x1xi32> into tensor<3xi32>
// CHECK:         linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], {{.*}}} ins([[I]] : tensor<3xi32>)
// CHECK-NEXT:    ^bb0([[E:%.*]]: i32, {{%.*}}: f32):
// CHECK:           [[C:%.*]] = linalg.index 1 : index
// CHECK:           tensor.extract %a[{{%.*}}, [[C]]] : tensor<9x4xf32>

// The gather is part of the kernel around it.
// KERNELS-LABEL: func.func @gather
// KERNELS:         func.call @fused_take_exp({{%.*}}, %a) : (tensor<3xi32>, tensor<9x4xf32>) -> tensor<3x4xf32>
func.func @gather(%a: tensor<9x4xf32>, %i: tensor<3x1xi32>) -> tensor<3x1x4xf32> {
  %t = hybrid.take %a, %i : (tensor<9x4xf32>, tensor<3x1xi32>) -> tensor<3x1x4xf32>
  %e = hybrid.exp %t : (tensor<3x1x4xf32>) -> tensor<3x1x4xf32>
  func.return %e : tensor<3x1x4xf32>
}

// What is read at computed indices must be complete: tanh is a kernel of its own, exp belongs to the gather.
// KERNELS-LABEL: func.func @complete
// KERNELS-NEXT:    %t = func.call @k_tanh(%a)
// KERNELS-NEXT:    %e = func.call @fused_flip_exp(%t)
func.func @complete(%a: tensor<9x4xf32>) -> tensor<9x4xf32> {
  %t = hybrid.tanh %a : (tensor<9x4xf32>) -> tensor<9x4xf32>
  %f = hybrid.flip %t {axis = array<i64: 1>} : (tensor<9x4xf32>) -> tensor<9x4xf32>
  %e = hybrid.exp %f : (tensor<9x4xf32>) -> tensor<9x4xf32>
  func.return %e : tensor<9x4xf32>
}

// An insertion in the midst is one loop that asks which elements are whose; the number is one of the body's.
// CHECK-LABEL: func.func @insert
// CHECK:         linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], {{.*}}} outs
// CHECK:           tensor.extract {{%.*}}[
// CHECK:           arith.select
func.func @insert(%x: tensor<1x1x2x2xf32>) -> tensor<1x1x4x2xf32> {
  %y = hybrid.pad %x {mode = "constant", pad_width = array<i64: 0, 0, 0, 0, 1, 1, 0, 0>} : (tensor<1x1x2x2xf32>) -> tensor<1x1x4x2xf32>
  func.return %y : tensor<1x1x4x2xf32>
}

// Parts are results of kernels; an argument is copied.
// KERNELS-LABEL: func.func @parts
// KERNELS-NEXT:    %e, [[C:%.*]] = func.call @fused_exp_copy(%x)
// KERNELS-NEXT:    %y = tensor.concat dim(1) %e, [[C]]
// KERNELS-NEXT:    func.return %y
func.func @parts(%x: tensor<2x3xf32>) -> tensor<2x6xf32> {
  %e = hybrid.exp %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %y = hybrid.concat %e, %x {dim = 1 : i64} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>
  func.return %y : tensor<2x6xf32>
}
