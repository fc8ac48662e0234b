// Planned programs print and parse again.
// RUN: hybridc-opt %s | filecheck %s
// RUN: hybridc-opt %s | hybridc-opt -p verify-plan | filecheck %s
// RUN: hybridc-opt %s --print-op-generic | hybridc-opt | filecheck %s

func.func @forward(%x: memref<2x3xf32>) -> memref<3x2xf32> {
  %arena = hybrid_rt.arena : memref<128xi8>
  %two = hybrid_rt.constant dense<2.0> : tensor<f32> : memref<f32>
  %a = hybrid_rt.view %arena[64 : i64] : memref<128xi8> -> memref<2x3xf32>
  %scratch = hybrid_rt.view %arena[0 : i64] : memref<128xi8> -> memref<64xi8>
  hybrid_rt.launch @k_exp ins(%x : memref<2x3xf32>) outs(%a : memref<2x3xf32>) scratch(%scratch : memref<64xi8>)
  %turned = hybrid_rt.alias "transpose" %a {order = array<i64: 1, 0>} : memref<2x3xf32> -> memref<3x2xf32>
  %y = hybrid_rt.alloc : memref<3x2xf32>
  hybrid_rt.launch @k_multiply ins(%turned, %two : memref<3x2xf32>, memref<f32>) outs(%y : memref<3x2xf32>)
  func.return %y : memref<3x2xf32>
}
func.func private @k_exp(%x: tensor<2x3xf32>) -> tensor<2x3xf32> attributes {hybrid.scratch = 64 : i64} {
  %y = math.exp %x : tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}
func.func private @k_multiply(%x: tensor<3x2xf32>, %n: tensor<f32>) -> tensor<3x2xf32> {
  %y = tensor.empty() : tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// CHECK:      func.func @forward(%x: memref<2x3xf32>) -> memref<3x2xf32> {
// CHECK-NEXT:   %arena = hybrid_rt.arena : memref<128xi8>
// CHECK-NEXT:   %two = hybrid_rt.constant dense<2.000000e+00> : tensor<f32> : memref<f32>
// CHECK-NEXT:   %a = hybrid_rt.view %arena[64 : i64] : memref<128xi8> -> memref<2x3xf32>
// CHECK-NEXT:   %scratch = hybrid_rt.view %arena[0 : i64] : memref<128xi8> -> memref<64xi8>
// CHECK-NEXT:   hybrid_rt.launch @k_exp ins(%x : memref<2x3xf32>) outs(%a : memref<2x3xf32>) scratch(%scratch : memref<64xi8>)
// CHECK-NEXT:   %turned = hybrid_rt.alias "transpose" %a {order = array<i64: 1, 0>} : memref<2x3xf32> -> memref<3x2xf32>
// CHECK-NEXT:   %y = hybrid_rt.alloc : memref<3x2xf32>
// CHECK-NEXT:   hybrid_rt.launch @k_multiply ins(%turned, %two : memref<3x2xf32>, memref<f32>) outs(%y : memref<3x2xf32>)
// CHECK-NEXT:   func.return %y : memref<3x2xf32>

func.func @update(%w: memref<2xf32>) -> memref<2xf32> attributes {hybrid.donated = array<i64: 0, 0>} {
  %arena = hybrid_rt.arena : memref<64xi8>
  %a = hybrid_rt.view %arena[0 : i64] : memref<64xi8> -> memref<2xf32>
  hybrid_rt.launch @k_sin ins(%w : memref<2xf32>) outs(%a : memref<2xf32>)
  %v = hybrid_rt.donated %w : memref<2xf32> -> memref<2xf32>
  hybrid_rt.copy %a into %v : memref<2xf32> -> memref<2xf32>
  func.return %v : memref<2xf32>
}
func.func private @k_sin(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = math.sin %x : tensor<2xf32>
  func.return %y : tensor<2xf32>
}
// CHECK:        %v = hybrid_rt.donated %w : memref<2xf32> -> memref<2xf32>
// CHECK-NEXT:   hybrid_rt.copy %a into %v : memref<2xf32> -> memref<2xf32>

func.func @prepared(%w: memref<2xf32>) -> memref<2xf32> {
  %arena = hybrid_rt.arena : memref<64xi8>
  %kept = hybrid_rt.kept : memref<64xi8>
  %a = hybrid_rt.view %kept[0 : i64] : memref<64xi8> -> memref<2xf32>
  hybrid_rt.launch @k_sin ins(%w : memref<2xf32>) outs(%a : memref<2xf32>) {hybrid.preparation}
  %y = hybrid_rt.alloc : memref<2xf32>
  hybrid_rt.launch @k_sin ins(%a : memref<2xf32>) outs(%y : memref<2xf32>)
  func.return %y : memref<2xf32>
}
// CHECK:        %kept = hybrid_rt.kept : memref<64xi8>
// CHECK-NEXT:   %a = hybrid_rt.view %kept[0 : i64] : memref<64xi8> -> memref<2xf32>
// CHECK-NEXT:   hybrid_rt.launch @k_sin ins(%w : memref<2xf32>) outs(%a : memref<2xf32>) {hybrid.preparation}
