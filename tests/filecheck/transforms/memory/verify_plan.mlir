// Plans with one fault each; the pass knows nothing of the planner and finds them all.
// RUN: hybridc-opt %s -p verify-plan --split-input-file --verify-diagnostics | filecheck %s

// %b is placed on %a, which is read afterwards.
func.func @overwritten(%x: memref<16xf32>) -> memref<16xf32> {
  %m = hybrid_rt.arena : memref<64xi8>
  %a = hybrid_rt.view %m[0 : i64] : memref<64xi8> -> memref<16xf32>
  hybrid_rt.launch @k ins(%x : memref<16xf32>) outs(%a : memref<16xf32>)
  %b = hybrid_rt.view %m[0 : i64] : memref<64xi8> -> memref<16xf32>
  hybrid_rt.launch @k ins(%x : memref<16xf32>) outs(%b : memref<16xf32>)
  %c = hybrid_rt.alloc : memref<16xf32>
  hybrid_rt.launch @k ins(%a : memref<16xf32>) outs(%c : memref<16xf32>)
  func.return %c : memref<16xf32>
}
func.func private @k(%x: tensor<16xf32>) -> tensor<16xf32> {
  %y = math.exp %x : tensor<16xf32>
  func.return %y : tensor<16xf32>
}
// CHECK: memory plan of @overwritten, operation 6 (hybrid_rt.launch): reads the view at 0 (a) of type memref<16xf32>, whose memory the view at 0 (b) of type memref<16xf32> has overwritten

// -----
// Half an array is enough.
func.func @overwritten_in_part(%x: memref<32xf32>) -> memref<32xf32> {
  %m = hybrid_rt.arena : memref<256xi8>
  %a = hybrid_rt.view %m[0 : i64] : memref<256xi8> -> memref<32xf32>
  hybrid_rt.launch @k ins(%x : memref<32xf32>) outs(%a : memref<32xf32>)
  %b = hybrid_rt.view %m[64 : i64] : memref<256xi8> -> memref<32xf32>
  hybrid_rt.launch @k ins(%x : memref<32xf32>) outs(%b : memref<32xf32>)
  %c = hybrid_rt.alloc : memref<32xf32>
  hybrid_rt.launch @k ins(%a : memref<32xf32>) outs(%c : memref<32xf32>)
  func.return %c : memref<32xf32>
}
func.func private @k(%x: tensor<32xf32>) -> tensor<32xf32> {
  %y = math.exp %x : tensor<32xf32>
  func.return %y : tensor<32xf32>
}
// CHECK: operation 6 (hybrid_rt.launch): reads the view at 0 (a) of type memref<32xf32>, whose memory the view at 64 (b) of type memref<32xf32> has overwritten

// -----
// In place although the kernel does not declare it.
func.func @not_declared(%x: memref<16xf32>) -> memref<16xf32> {
  %m = hybrid_rt.arena : memref<64xi8>
  %a = hybrid_rt.view %m[0 : i64] : memref<64xi8> -> memref<16xf32>
  hybrid_rt.launch @k ins(%x : memref<16xf32>) outs(%a : memref<16xf32>)
  %b = hybrid_rt.view %m[0 : i64] : memref<64xi8> -> memref<16xf32>
  hybrid_rt.launch @k ins(%a : memref<16xf32>) outs(%b : memref<16xf32>)
  %c = hybrid_rt.alloc : memref<16xf32>
  hybrid_rt.launch @k ins(%b : memref<16xf32>) outs(%c : memref<16xf32>)
  func.return %c : memref<16xf32>
}
func.func private @k(%x: tensor<16xf32>) -> tensor<16xf32> {
  %y = math.exp %x : tensor<16xf32>
  func.return %y : tensor<16xf32>
}
// CHECK: operation 4 (hybrid_rt.launch): writes the view at 0 (b) of type memref<16xf32> over its argument the view at 0 (a) of type memref<16xf32>, which @k does not declare

// -----
// The other pair is declared.
func.func @wrong_pair(%x: memref<16xf32>) -> memref<16xf32> {
  %m = hybrid_rt.arena : memref<64xi8>
  %a = hybrid_rt.view %m[0 : i64] : memref<64xi8> -> memref<16xf32>
  hybrid_rt.launch @k ins(%x, %x : memref<16xf32>, memref<16xf32>) outs(%a : memref<16xf32>)
  %b = hybrid_rt.view %m[0 : i64] : memref<64xi8> -> memref<16xf32>
  hybrid_rt.launch @k ins(%x, %a : memref<16xf32>, memref<16xf32>) outs(%b : memref<16xf32>)
  %c = hybrid_rt.alloc : memref<16xf32>
  hybrid_rt.launch @k ins(%b, %x : memref<16xf32>, memref<16xf32>) outs(%c : memref<16xf32>)
  func.return %c : memref<16xf32>
}
func.func private @k(%x: tensor<16xf32>, %z: tensor<16xf32>) -> tensor<16xf32> attributes {hybrid.inplace = array<i64: 0, 0>} {
  %y = arith.addf %x, %z : tensor<16xf32>
  func.return %y : tensor<16xf32>
}
// CHECK: operation 4 (hybrid_rt.launch): writes the view at 0 (b) of type memref<16xf32> over its argument the view at 0 (a) of type memref<16xf32>, which @k does not declare

// -----
// Declared, and shifted by 64 bytes.
func.func @shifted(%x: memref<32xf32>) -> memref<32xf32> {
  %m = hybrid_rt.arena : memref<256xi8>
  %a = hybrid_rt.view %m[0 : i64] : memref<256xi8> -> memref<32xf32>
  hybrid_rt.launch @k ins(%x : memref<32xf32>) outs(%a : memref<32xf32>)
  %b = hybrid_rt.view %m[64 : i64] : memref<256xi8> -> memref<32xf32>
  hybrid_rt.launch @k ins(%a : memref<32xf32>) outs(%b : memref<32xf32>)
  %c = hybrid_rt.alloc : memref<32xf32>
  hybrid_rt.launch @k ins(%b : memref<32xf32>) outs(%c : memref<32xf32>)
  func.return %c : memref<32xf32>
}
func.func private @k(%x: tensor<32xf32>) -> tensor<32xf32> attributes {hybrid.inplace = array<i64: 0, 0>} {
  %y = math.exp %x : tensor<32xf32>
  func.return %y : tensor<32xf32>
}
// CHECK: over its argument the view at 0 (a) of type memref<32xf32>, but not exactly over the same array

// -----
// Over a transposed view of itself.
func.func @transposed(%x: memref<4x4xf32>) -> memref<4x4xf32> {
  %m = hybrid_rt.arena : memref<64xi8>
  %a = hybrid_rt.view %m[0 : i64] : memref<64xi8> -> memref<4x4xf32>
  hybrid_rt.launch @k ins(%x : memref<4x4xf32>) outs(%a : memref<4x4xf32>)
  %t = hybrid_rt.alias "transpose" %a {order = array<i64: 1, 0>} : memref<4x4xf32> -> memref<4x4xf32>
  %b = hybrid_rt.view %m[0 : i64] : memref<64xi8> -> memref<4x4xf32>
  hybrid_rt.launch @k ins(%t : memref<4x4xf32>) outs(%b : memref<4x4xf32>)
  %c = hybrid_rt.alloc : memref<4x4xf32>
  hybrid_rt.launch @k ins(%b : memref<4x4xf32>) outs(%c : memref<4x4xf32>)
  func.return %c : memref<4x4xf32>
}
func.func private @k(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {hybrid.inplace = array<i64: 0, 0>} {
  %y = math.exp %x : tensor<4x4xf32>
  func.return %y : tensor<4x4xf32>
}
// CHECK: over its argument the alias (t) of type memref<4x4xf32>, but not exactly over the same array

// -----
func.func @outside(%x: memref<32xf32>) -> memref<32xf32> {
  %m = hybrid_rt.arena : memref<128xi8>
  %a = hybrid_rt.view %m[64 : i64] : memref<128xi8> -> memref<32xf32>
  func.return %x : memref<32xf32>
}
// CHECK: memory plan of @outside, operation 1 (hybrid_rt.view): bytes 64 to 192 lie outside the arena of 128 bytes

// -----
func.func @before_it_is_written(%x: memref<16xf32>) -> memref<16xf32> {
  %m = hybrid_rt.arena : memref<64xi8>
  %a = hybrid_rt.view %m[0 : i64] : memref<64xi8> -> memref<16xf32>
  %c = hybrid_rt.alloc : memref<16xf32>
  hybrid_rt.launch @k ins(%a : memref<16xf32>) outs(%c : memref<16xf32>)
  func.return %c : memref<16xf32>
}
func.func private @k(%x: tensor<16xf32>) -> tensor<16xf32> {
  %y = math.exp %x : tensor<16xf32>
  func.return %y : tensor<16xf32>
}
// CHECK: operation 3 (hybrid_rt.launch): reads the view at 0 (a) of type memref<16xf32> before it is written

// -----
func.func @writes_an_input(%x: memref<16xf32>, %y: memref<16xf32>) -> memref<16xf32> {
  hybrid_rt.launch @k ins(%y : memref<16xf32>) outs(%x : memref<16xf32>)
  func.return %x : memref<16xf32>
}
func.func private @k(%x: tensor<16xf32>) -> tensor<16xf32> attributes {hybrid.inplace = array<i64: 0, 0>} {
  %y = math.exp %x : tensor<16xf32>
  func.return %y : tensor<16xf32>
}
// CHECK: writes argument 0 (x), which is no view of the arena, no fresh array and not donated

// -----
func.func @scratch_on_an_argument(%x: memref<16xf32>) -> memref<16xf32> {
  %m = hybrid_rt.arena : memref<64xi8>
  %a = hybrid_rt.view %m[0 : i64] : memref<64xi8> -> memref<16xf32>
  hybrid_rt.launch @j ins(%x : memref<16xf32>) outs(%a : memref<16xf32>)
  %c = hybrid_rt.alloc : memref<16xf32>
  %s = hybrid_rt.view %m[0 : i64] : memref<64xi8> -> memref<64xi8>
  hybrid_rt.launch @k ins(%a : memref<16xf32>) outs(%c : memref<16xf32>) scratch(%s : memref<64xi8>)
  func.return %c : memref<16xf32>
}
func.func private @j(%x: tensor<16xf32>) -> tensor<16xf32> {
  %y = math.exp %x : tensor<16xf32>
  func.return %y : tensor<16xf32>
}
func.func private @k(%x: tensor<16xf32>) -> tensor<16xf32> attributes {hybrid.scratch = 64 : i64} {
  %y = math.exp %x : tensor<16xf32>
  func.return %y : tensor<16xf32>
}
// CHECK: scratch shares memory with the view at 0 (a) of type memref<16xf32>

// -----
func.func @too_little_scratch(%x: memref<16xf32>) -> memref<16xf32> {
  %m = hybrid_rt.arena : memref<64xi8>
  %c = hybrid_rt.alloc : memref<16xf32>
  %s = hybrid_rt.view %m[0 : i64] : memref<64xi8> -> memref<64xi8>
  hybrid_rt.launch @k ins(%x : memref<16xf32>) outs(%c : memref<16xf32>) scratch(%s : memref<64xi8>)
  func.return %c : memref<16xf32>
}
func.func private @k(%x: tensor<16xf32>) -> tensor<16xf32> attributes {hybrid.scratch = 128 : i64} {
  %y = math.exp %x : tensor<16xf32>
  func.return %y : tensor<16xf32>
}
// CHECK: @k needs 128 bytes of scratch

// -----
func.func @two_results_in_one_place(%x: memref<16xf32>) -> memref<16xf32> {
  %m = hybrid_rt.arena : memref<128xi8>
  %a = hybrid_rt.view %m[0 : i64] : memref<128xi8> -> memref<16xf32>
  %b = hybrid_rt.view %m[0 : i64] : memref<128xi8> -> memref<16xf32>
  hybrid_rt.launch @k ins(%x : memref<16xf32>) outs(%a, %b : memref<16xf32>, memref<16xf32>)
  func.return %x : memref<16xf32>
}
func.func private @k(%x: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
  %y = math.exp %x : tensor<16xf32>
  %z = math.sin %x : tensor<16xf32>
  func.return %y, %z : tensor<16xf32>, tensor<16xf32>
}
// CHECK: writes the view at 0 (b) of type memref<16xf32> and the view at 0 (a) of type memref<16xf32> to the same memory

// -----
func.func @returns_the_arena() -> memref<16xf32> {
  %m = hybrid_rt.arena : memref<64xi8>
  %a = hybrid_rt.view %m[0 : i64] : memref<64xi8> -> memref<16xf32>
  %one = hybrid_rt.constant dense<1.0> : tensor<f32> : memref<f32>
  hybrid_rt.launch @k ins(%one : memref<f32>) outs(%a : memref<16xf32>)
  func.return %a : memref<16xf32>
}
func.func private @k(%x: tensor<f32>) -> tensor<16xf32> {
  %y = tensor.empty() : tensor<16xf32>
  func.return %y : tensor<16xf32>
}
// CHECK: operation 4 (func.return): result 0 is not a fresh array that the caller may own

// -----
func.func @returns_an_input(%x: memref<16xf32>) -> memref<16xf32> {
  func.return %x : memref<16xf32>
}
// CHECK: result 0 is not a fresh array that the caller may own

// -----
func.func @returns_one_array_twice(%x: memref<16xf32>) -> (memref<16xf32>, memref<16xf32>) {
  %a = hybrid_rt.alloc : memref<16xf32>
  hybrid_rt.launch @k ins(%x : memref<16xf32>) outs(%a : memref<16xf32>)
  %b = hybrid_rt.alias "reshape" %a : memref<16xf32> -> memref<16xf32>
  func.return %a, %b : memref<16xf32>, memref<16xf32>
}
func.func private @k(%x: tensor<16xf32>) -> tensor<16xf32> {
  %y = math.exp %x : tensor<16xf32>
  func.return %y : tensor<16xf32>
}
// CHECK: result 1 shares memory with a result before it

// -----
// What the backward will need is overwritten before the end.
func.func @residual_lost(%x: memref<16xf32>) -> (memref<16xf32>, memref<16xf32>) attributes {hybrid.outputs = array<i64: 1>} {
  %m = hybrid_rt.arena : memref<64xi8>
  %a = hybrid_rt.view %m[0 : i64] : memref<64xi8> -> memref<16xf32>
  hybrid_rt.launch @k ins(%x : memref<16xf32>) outs(%a : memref<16xf32>)
  %b = hybrid_rt.view %m[0 : i64] : memref<64xi8> -> memref<16xf32>
  hybrid_rt.launch @k ins(%a : memref<16xf32>) outs(%b : memref<16xf32>)
  %c = hybrid_rt.alloc : memref<16xf32>
  hybrid_rt.launch @k ins(%b : memref<16xf32>) outs(%c : memref<16xf32>)
  func.return %c, %a : memref<16xf32>, memref<16xf32>
}
func.func private @k(%x: tensor<16xf32>) -> tensor<16xf32> attributes {hybrid.inplace = array<i64: 0, 0>} {
  %y = math.exp %x : tensor<16xf32>
  func.return %y : tensor<16xf32>
}
// CHECK: operation 7 (func.return): reads the view at 0 (a) of type memref<16xf32>, whose memory the view at 0 (b) of type memref<16xf32> has overwritten

// -----
func.func @no_kernel(%x: memref<16xf32>) -> memref<16xf32> {
  %a = hybrid_rt.alloc : memref<16xf32>
  hybrid_rt.launch @missing ins(%x : memref<16xf32>) outs(%a : memref<16xf32>)
  func.return %a : memref<16xf32>
}
// CHECK: kernel @missing does not exist

// -----
func.func @wrong_kernel(%x: memref<16xf32>) -> memref<16xf32> {
  %a = hybrid_rt.alloc : memref<16xf32>
  hybrid_rt.launch @k ins(%x : memref<16xf32>) outs(%a : memref<16xf32>)
  func.return %a : memref<16xf32>
}
func.func private @k(%x: tensor<16xf64>) -> tensor<16xf64> {
  %y = math.exp %x : tensor<16xf64>
  func.return %y : tensor<16xf64>
}
// CHECK: ins do not fit the signature of @k

// -----
func.func @unplanned(%x: tensor<16xf32>) -> tensor<16xf32> {
  %a = math.exp %x : tensor<16xf32>
  func.return %a : tensor<16xf32>
}
// CHECK: memory plan of @unplanned, operation 0 (math.exp): math.exp is not an operation of a planned program

// -----
// The new value may lie where the caller gives the old one away, and nowhere else.
func.func @donated(%w: memref<16xf32>, %g: memref<16xf32>) -> memref<16xf32> attributes {hybrid.donated = array<i64: 0, 0>} {
  %v = hybrid_rt.donated %w : memref<16xf32> -> memref<16xf32>
  hybrid_rt.launch @step ins(%w, %g : memref<16xf32>, memref<16xf32>) outs(%v : memref<16xf32>)
  func.return %v : memref<16xf32>
}
func.func private @step(%x: tensor<16xf32>, %z: tensor<16xf32>) -> tensor<16xf32> attributes {hybrid.inplace = array<i64: 0, 0>} {
  %y = arith.addf %x, %z : tensor<16xf32>
  func.return %y : tensor<16xf32>
}
// CHECK: func.func @donated

// -----
// In another shape, too, as long as the elements follow each other as before.
func.func @reshaped(%w: memref<4x4xf32>, %g: memref<16xf32>) -> memref<4x4xf32> attributes {hybrid.donated = array<i64: 0, 0>} {
  %x = hybrid_rt.alias "reshape" %w : memref<4x4xf32> -> memref<16xf32>
  %v = hybrid_rt.donated %w : memref<4x4xf32> -> memref<4x4xf32>
  %y = hybrid_rt.alias "reshape" %v : memref<4x4xf32> -> memref<16xf32>
  hybrid_rt.launch @step ins(%x, %g : memref<16xf32>, memref<16xf32>) outs(%y : memref<16xf32>)
  func.return %v : memref<4x4xf32>
}
func.func private @step(%x: tensor<16xf32>, %z: tensor<16xf32>) -> tensor<16xf32> attributes {hybrid.inplace = array<i64: 0, 0>} {
  %y = arith.addf %x, %z : tensor<16xf32>
  func.return %y : tensor<16xf32>
}
// CHECK: func.func @reshaped

// -----
func.func @donated_transposed(%w: memref<4x4xf32>, %g: memref<4x4xf32>) -> memref<4x4xf32> attributes {hybrid.donated = array<i64: 0, 0>} {
  %x = hybrid_rt.alias "transpose" %w {order = array<i64: 1, 0>} : memref<4x4xf32> -> memref<4x4xf32>
  %v = hybrid_rt.donated %w : memref<4x4xf32> -> memref<4x4xf32>
  hybrid_rt.launch @step ins(%x, %g : memref<4x4xf32>, memref<4x4xf32>) outs(%v : memref<4x4xf32>)
  func.return %v : memref<4x4xf32>
}
func.func private @step(%x: tensor<4x4xf32>, %z: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {hybrid.inplace = array<i64: 0, 0>} {
  %y = arith.addf %x, %z : tensor<4x4xf32>
  func.return %y : tensor<4x4xf32>
}
// CHECK: memory plan of @donated_transposed, operation 2 (hybrid_rt.launch): writes the donated (v) of type memref<4x4xf32> over its argument the alias (x) of type memref<4x4xf32>, but not exactly over the same array

// -----
func.func @not_donated(%w: memref<16xf32>, %g: memref<16xf32>) -> memref<16xf32> attributes {hybrid.donated = array<i64: 0, 0>} {
  %v = hybrid_rt.donated %g : memref<16xf32> -> memref<16xf32>
  func.return %v : memref<16xf32>
}
// CHECK: memory plan of @not_donated, operation 0 (hybrid_rt.donated): argument 1 (g) is not donated by the caller

// -----
func.func @donated_and_read(%w: memref<16xf32>) -> (memref<16xf32>, memref<16xf32>) attributes {hybrid.donated = array<i64: 0, 0>} {
  %v = hybrid_rt.donated %w : memref<16xf32> -> memref<16xf32>
  hybrid_rt.launch @step ins(%w : memref<16xf32>) outs(%v : memref<16xf32>)
  %b = hybrid_rt.alloc : memref<16xf32>
  hybrid_rt.launch @step ins(%w : memref<16xf32>) outs(%b : memref<16xf32>)
  func.return %v, %b : memref<16xf32>, memref<16xf32>
}
func.func private @step(%x: tensor<16xf32>) -> tensor<16xf32> attributes {hybrid.inplace = array<i64: 0, 0>} {
  %y = math.exp %x : tensor<16xf32>
  func.return %y : tensor<16xf32>
}
// CHECK: operation 3 (hybrid_rt.launch): reads argument 0 (w), whose memory the donated (v) of type memref<16xf32> has overwritten

// -----
func.func @donated_elsewhere(%w: memref<16xf32>) -> memref<16xf32> attributes {hybrid.donated = array<i64: 0, 0>} {
  %b = hybrid_rt.alloc : memref<16xf32>
  hybrid_rt.copy %w into %b : memref<16xf32> -> memref<16xf32>
  func.return %b : memref<16xf32>
}
// CHECK: result 0 is not in the memory of argument 0 (w), which is donated for it

// -----
func.func @copied_over_itself(%w: memref<16xf32>) -> memref<16xf32> attributes {hybrid.donated = array<i64: 0, 0>} {
  %v = hybrid_rt.donated %w : memref<16xf32> -> memref<16xf32>
  hybrid_rt.copy %w into %v : memref<16xf32> -> memref<16xf32>
  func.return %v : memref<16xf32>
}
// CHECK: operation 1 (hybrid_rt.copy): copies argument 0 (w) over itself

// -----
func.func @copied_too_early(%w: memref<16xf32>) -> memref<16xf32> attributes {hybrid.donated = array<i64: 0, 0>} {
  %m = hybrid_rt.arena : memref<64xi8>
  %a = hybrid_rt.view %m[0 : i64] : memref<64xi8> -> memref<16xf32>
  %v = hybrid_rt.donated %w : memref<16xf32> -> memref<16xf32>
  hybrid_rt.copy %a into %v : memref<16xf32> -> memref<16xf32>
  func.return %v : memref<16xf32>
}
// CHECK: operation 3 (hybrid_rt.copy): reads the view at 0 (a) of type memref<16xf32> before it is written

// -----
// A reshape of a transposed array would have to move elements.
func.func @moves(%x: memref<2x3xf32>) -> memref<6xf32> {
  %t = hybrid_rt.alias "transpose" %x {order = array<i64: 1, 0>} : memref<2x3xf32> -> memref<3x2xf32>
  %r = hybrid_rt.alias "reshape" %t : memref<3x2xf32> -> memref<6xf32>
  func.return %r : memref<6xf32>
}
// CHECK: operation 1 (hybrid_rt.alias): reshape of the alias (t) of type memref<3x2xf32> does not give a view of type memref<6xf32>

// -----
// Axes that still follow each other merge, and any axis splits.
func.func @stays(%x: memref<2x3x4xf32>) -> memref<12xf32> attributes {hybrid.donated = array<i64: 0, 0>, hybrid.outputs = array<i64: 0>} {
  %t = hybrid_rt.alias "transpose" %x {order = array<i64: 1, 2, 0>} : memref<2x3x4xf32> -> memref<3x4x2xf32>
  %r = hybrid_rt.alias "reshape" %t : memref<3x4x2xf32> -> memref<12x2xf32>
  %s = hybrid_rt.alias "reshape" %r : memref<12x2xf32> -> memref<2x6x1x2xf32>
  %p = hybrid_rt.alias "slice" %x {begin = array<i64: 1, 0, 0>, step = array<i64: 1, 1, 1>} : memref<2x3x4xf32> -> memref<1x3x4xf32>
  %q = hybrid_rt.alias "reshape" %p : memref<1x3x4xf32> -> memref<12xf32>
  func.return %q : memref<12xf32>
}
// CHECK: func.func @stays

// -----
func.func @slice_outside(%x: memref<2x3xf32>) -> memref<2x2xf32> {
  %p = hybrid_rt.alias "slice" %x {begin = array<i64: 0, 1>, step = array<i64: 1, 2>} : memref<2x3xf32> -> memref<2x2xf32>
  func.return %p : memref<2x2xf32>
}
// CHECK: slice of argument 0 (x) does not give a view of type memref<2x2xf32>

// -----
func.func @no_movement(%x: memref<2x3xf32>) -> memref<2x3xf32> {
  %p = hybrid_rt.alias "broadcast" %x : memref<2x3xf32> -> memref<2x3xf32>
  func.return %p : memref<2x3xf32>
}
// CHECK: broadcast of argument 0 (x) does not give a view of type memref<2x3xf32>

// -----
// Most calls skip the preparation, and find nothing of it in the arena.
func.func @left_in_the_arena(%w: memref<16xf32>) -> memref<16xf32> attributes {hybrid.roles = ["parameter"]} {
  %m = hybrid_rt.arena : memref<64xi8>
  %kept = hybrid_rt.kept : memref<64xi8>
  %a = hybrid_rt.view %m[0 : i64] : memref<64xi8> -> memref<16xf32>
  hybrid_rt.launch @k ins(%w : memref<16xf32>) outs(%a : memref<16xf32>) {hybrid.preparation}
  %c = hybrid_rt.alloc : memref<16xf32>
  hybrid_rt.launch @k ins(%a : memref<16xf32>) outs(%c : memref<16xf32>)
  func.return %c : memref<16xf32>
}
func.func private @k(%x: tensor<16xf32>) -> tensor<16xf32> {
  %y = math.exp %x : tensor<16xf32>
  func.return %y : tensor<16xf32>
}
// CHECK: memory plan of @left_in_the_arena, operation 5 (hybrid_rt.launch): reads the view at 0 (a) of type memref<16xf32> before it is written

// -----
// The preparation must not depend on data.
func.func @prepared_data(%x: memref<16xf32>) -> memref<16xf32> attributes {hybrid.roles = ["data"]} {
  %m = hybrid_rt.arena : memref<64xi8>
  %kept = hybrid_rt.kept : memref<64xi8>
  %a = hybrid_rt.view %kept[0 : i64] : memref<64xi8> -> memref<16xf32>
  hybrid_rt.launch @k ins(%x : memref<16xf32>) outs(%a : memref<16xf32>) {hybrid.preparation}
  %c = hybrid_rt.alloc : memref<16xf32>
  hybrid_rt.launch @k ins(%a : memref<16xf32>) outs(%c : memref<16xf32>)
  func.return %c : memref<16xf32>
}
func.func private @k(%x: tensor<16xf32>) -> tensor<16xf32> {
  %y = math.exp %x : tensor<16xf32>
  func.return %y : tensor<16xf32>
}
// CHECK: memory plan of @prepared_data, operation 3 (hybrid_rt.launch): is part of the preparation, but reads argument 0 (x), which may be another at each call

// -----
// What is kept serves later calls, too.
func.func @overwritten_though_kept(%w: memref<16xf32>) -> memref<16xf32> attributes {hybrid.roles = ["parameter"]} {
  %m = hybrid_rt.arena : memref<64xi8>
  %kept = hybrid_rt.kept : memref<64xi8>
  %a = hybrid_rt.view %kept[0 : i64] : memref<64xi8> -> memref<16xf32>
  hybrid_rt.launch @k ins(%w : memref<16xf32>) outs(%a : memref<16xf32>) {hybrid.preparation}
  %b = hybrid_rt.view %kept[0 : i64] : memref<64xi8> -> memref<16xf32>
  hybrid_rt.launch @k ins(%w : memref<16xf32>) outs(%b : memref<16xf32>)
  %c = hybrid_rt.alloc : memref<16xf32>
  hybrid_rt.launch @k ins(%b : memref<16xf32>) outs(%c : memref<16xf32>)
  func.return %c : memref<16xf32>
}
func.func private @k(%x: tensor<16xf32>) -> tensor<16xf32> {
  %y = math.exp %x : tensor<16xf32>
  func.return %y : tensor<16xf32>
}
// CHECK: memory plan of @overwritten_though_kept, operation 5 (hybrid_rt.launch): writes the view at 0 (b) of type memref<16xf32> in kept memory, but is not part of the preparation

// -----
// The preparation comes first.
func.func @prepared_late(%w: memref<16xf32>) -> memref<16xf32> attributes {hybrid.roles = ["parameter"]} {
  %m = hybrid_rt.arena : memref<64xi8>
  %kept = hybrid_rt.kept : memref<64xi8>
  %c = hybrid_rt.alloc : memref<16xf32>
  hybrid_rt.launch @k ins(%w : memref<16xf32>) outs(%c : memref<16xf32>)
  %a = hybrid_rt.view %kept[0 : i64] : memref<64xi8> -> memref<16xf32>
  hybrid_rt.launch @k ins(%w : memref<16xf32>) outs(%a : memref<16xf32>) {hybrid.preparation}
  func.return %c : memref<16xf32>
}
func.func private @k(%x: tensor<16xf32>) -> tensor<16xf32> {
  %y = math.exp %x : tensor<16xf32>
  func.return %y : tensor<16xf32>
}
// CHECK: memory plan of @prepared_late, operation 5 (hybrid_rt.launch): is part of the preparation, but comes after launches that are not
