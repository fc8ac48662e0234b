// Every buffer gets an offset in the one arena, or is an allocation that the caller will own.
// RUN: hybridc-opt %s -p plan-memory,verify-plan --split-input-file | filecheck %s

// %a and %c are never alive together, %b is alive with both: two places for three buffers. The result is owned.
// CHECK-LABEL: func.func @reuse
// CHECK-NEXT:    [[M:%.*]] = hybrid_rt.arena : memref<128xi8>
// CHECK-NEXT:    %a = hybrid_rt.view [[M]][[[A:.*]] : i64]
// CHECK-NEXT:    hybrid_rt.launch @k ins(%x : memref<16xf32>) outs(%a : memref<16xf32>)
// CHECK-NEXT:    %b = hybrid_rt.view [[M]][[[B:.*]] : i64]
// CHECK-NEXT:    hybrid_rt.launch @k ins(%a : memref<16xf32>) outs(%b : memref<16xf32>)
// CHECK-NEXT:    %c = hybrid_rt.view [[M]][[[A]] : i64]
// CHECK-NEXT:    hybrid_rt.launch @k ins(%b : memref<16xf32>) outs(%c : memref<16xf32>)
// CHECK-NEXT:    %d = hybrid_rt.alloc : memref<16xf32>
// CHECK-NEXT:    hybrid_rt.launch @k ins(%c : memref<16xf32>) outs(%d : memref<16xf32>)
// CHECK-NEXT:    func.return %d : memref<16xf32>
func.func @reuse(%x: tensor<16xf32>) -> tensor<16xf32> {
  %a = func.call @k(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %b = func.call @k(%a) : (tensor<16xf32>) -> tensor<16xf32>
  %c = func.call @k(%b) : (tensor<16xf32>) -> tensor<16xf32>
  %d = func.call @k(%c) : (tensor<16xf32>) -> tensor<16xf32>
  func.return %d : tensor<16xf32>
}
func.func private @k(%x: tensor<16xf32>) -> tensor<16xf32> {
  %y = hybrid.exp %x : (tensor<16xf32>) -> tensor<16xf32>
  func.return %y : tensor<16xf32>
}

// -----
// In place where the kernel declares it and nobody needs the argument later: %b over %a, but %c not over %b.
// CHECK-LABEL: func.func @in_place
// CHECK-NEXT:    [[M:%.*]] = hybrid_rt.arena : memref<128xi8>
// CHECK:         %a = hybrid_rt.view [[M]][[[A:.*]] : i64]
// CHECK:         %b = hybrid_rt.view [[M]][[[A]] : i64]
// CHECK:         %c = hybrid_rt.view [[M]]
// CHECK-NOT:     [[[A]] : i64]
// CHECK-SAME:    memref<16xf32>
// CHECK:         func.return
func.func @in_place(%x: tensor<16xf32>) -> tensor<16xf32> {
  %a = func.call @k(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %b = func.call @k(%a) : (tensor<16xf32>) -> tensor<16xf32>
  %c = func.call @k(%b) : (tensor<16xf32>) -> tensor<16xf32>
  %d = func.call @two(%b, %c) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  func.return %d : tensor<16xf32>
}
func.func private @k(%x: tensor<16xf32>) -> tensor<16xf32> attributes {hybrid.inplace = array<i64: 0, 0>} {
  %y = hybrid.exp %x : (tensor<16xf32>) -> tensor<16xf32>
  func.return %y : tensor<16xf32>
}
func.func private @two(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<16xf32> {
  %z = hybrid.add %x, %y : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  func.return %z : tensor<16xf32>
}

// -----
// A view keeps its buffer alive, and what the backward needs stays to the end: nothing may take their place.
// CHECK-LABEL: func.func @kept
// CHECK-NEXT:    [[M:%.*]] = hybrid_rt.arena : memref<192xi8>
// CHECK:         hybrid_rt.alias "hybrid.reshape" %a
// CHECK:         func.return %d, %b
func.func @kept(%x: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) attributes {hybrid.outputs = array<i64: 1>} {
  %a = func.call @k(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %v = hybrid.reshape %a {shape = array<i64: 16>} : (tensor<16xf32>) -> tensor<16xf32>
  %b = func.call @k(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %c = func.call @k(%b) : (tensor<16xf32>) -> tensor<16xf32>
  %d = func.call @two(%v, %c) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  func.return %d, %b : tensor<16xf32>, tensor<16xf32>
}
func.func private @k(%x: tensor<16xf32>) -> tensor<16xf32> attributes {hybrid.inplace = array<i64: 0, 0>} {
  %y = hybrid.exp %x : (tensor<16xf32>) -> tensor<16xf32>
  func.return %y : tensor<16xf32>
}
func.func private @two(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<16xf32> {
  %z = hybrid.add %x, %y : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  func.return %z : tensor<16xf32>
}
