// RUN: hybridc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

func.func @unaligned() {
  %arena = hybrid_rt.arena : memref<128xi8>
  %a = hybrid_rt.view %arena[32 : i64] : memref<128xi8> -> memref<4xf32>
  func.return
}
// CHECK: offset 32 is not a multiple of 64

// -----
func.func @no_buffer(%x: tensor<4xf32>) {
  hybrid_rt.launch @k ins(%x : tensor<4xf32>) outs()
  func.return
}
// CHECK: {{tensor<4xf32>|memref}}

// -----
func.func @no_argument() {
  %a = hybrid_rt.alloc : memref<4xf32>
  %b = hybrid_rt.donated %a : memref<4xf32> -> memref<4xf32>
  func.return
}
// CHECK: the operand must be an argument of the function, and the result of its type
