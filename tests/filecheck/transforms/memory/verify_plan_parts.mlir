// Plans that write an array part by part, with one fault each; the first has none.
// RUN: hybridc-opt %s -p verify-plan --split-input-file --verify-diagnostics | filecheck %s

// CHECK-LABEL: func.func @complete
func.func @complete(%x: memref<2x4xf32>) -> memref<2x8xf32> {
  %c = hybrid_rt.alloc : memref<2x8xf32>
  %l = hybrid_rt.alias "slice" %c {begin = array<i64: 0, 0>, step = array<i64: 1, 1>} : memref<2x8xf32> -> memref<2x4xf32>
  hybrid_rt.launch @k ins(%x : memref<2x4xf32>) outs(%l : memref<2x4xf32>)
  %r = hybrid_rt.alias "slice" %c {begin = array<i64: 0, 4>, step = array<i64: 1, 1>} : memref<2x8xf32> -> memref<2x4xf32>
  hybrid_rt.launch @k ins(%x : memref<2x4xf32>) outs(%r : memref<2x4xf32>)
  func.return %c : memref<2x8xf32>
}
func.func private @k(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %y = math.exp %x : tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}

// -----
// Columns 4 to 7 are missing.
func.func @missing(%x: memref<2x4xf32>) -> memref<2x8xf32> {
  %c = hybrid_rt.alloc : memref<2x8xf32>
  %l = hybrid_rt.alias "slice" %c {begin = array<i64: 0, 0>, step = array<i64: 1, 1>} : memref<2x8xf32> -> memref<2x4xf32>
  hybrid_rt.launch @k ins(%x : memref<2x4xf32>) outs(%l : memref<2x4xf32>)
  func.return %c : memref<2x8xf32>
}
func.func private @k(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %y = math.exp %x : tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}
// CHECK: memory plan of @missing, operation 3 (func.return): reads the alloc (c) of type memref<2x8xf32>, of which parts are not written

// -----
// Column 3 is written twice.
func.func @twice(%x: memref<2x4xf32>) -> memref<2x7xf32> {
  %c = hybrid_rt.alloc : memref<2x7xf32>
  %l = hybrid_rt.alias "slice" %c {begin = array<i64: 0, 0>, step = array<i64: 1, 1>} : memref<2x7xf32> -> memref<2x4xf32>
  hybrid_rt.launch @k ins(%x : memref<2x4xf32>) outs(%l : memref<2x4xf32>)
  %r = hybrid_rt.alias "slice" %c {begin = array<i64: 0, 3>, step = array<i64: 1, 1>} : memref<2x7xf32> -> memref<2x4xf32>
  hybrid_rt.launch @k ins(%x : memref<2x4xf32>) outs(%r : memref<2x4xf32>)
  func.return %c : memref<2x7xf32>
}
func.func private @k(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %y = math.exp %x : tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}
// CHECK: memory plan of @twice, operation 4 (hybrid_rt.launch): writes elements of the alloc (c) of type memref<2x7xf32> once more

// -----
// Something else is put where the left half is.
func.func @overwritten(%x: memref<2x4xf32>) -> memref<2x8xf32> {
  %m = hybrid_rt.arena : memref<64xi8>
  %c = hybrid_rt.view %m[0 : i64] : memref<64xi8> -> memref<2x8xf32>
  %l = hybrid_rt.alias "slice" %c {begin = array<i64: 0, 0>, step = array<i64: 1, 1>} : memref<2x8xf32> -> memref<2x4xf32>
  hybrid_rt.launch @k ins(%x : memref<2x4xf32>) outs(%l : memref<2x4xf32>)
  %b = hybrid_rt.view %m[0 : i64] : memref<64xi8> -> memref<2x4xf32>
  hybrid_rt.launch @k ins(%x : memref<2x4xf32>) outs(%b : memref<2x4xf32>)
  %r = hybrid_rt.alias "slice" %c {begin = array<i64: 0, 4>, step = array<i64: 1, 1>} : memref<2x8xf32> -> memref<2x4xf32>
  hybrid_rt.launch @k ins(%x : memref<2x4xf32>) outs(%r : memref<2x4xf32>)
  %d = hybrid_rt.alloc : memref<2x8xf32>
  hybrid_rt.launch @k2 ins(%c : memref<2x8xf32>) outs(%d : memref<2x8xf32>)
  func.return %d : memref<2x8xf32>
}
func.func private @k(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %y = math.exp %x : tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}
func.func private @k2(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %y = math.exp %x : tensor<2x8xf32>
  func.return %y : tensor<2x8xf32>
}
// CHECK: (hybrid_rt.launch): reads the view at 0 (c) of type memref<2x8xf32>, whose memory the view at 0 (b) of type memref<2x4xf32> has overwritten
