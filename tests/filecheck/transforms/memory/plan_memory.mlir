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
  %y = math.exp %x : tensor<16xf32>
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
  %y = math.exp %x : tensor<16xf32>
  func.return %y : tensor<16xf32>
}
func.func private @two(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<16xf32> {
  %z = arith.addf %x, %y : tensor<16xf32>
  func.return %z : tensor<16xf32>
}

// -----
// A view keeps its buffer alive, and what the backward needs stays to the end: nothing may take their place.
// CHECK-LABEL: func.func @kept
// CHECK-NEXT:    [[M:%.*]] = hybrid_rt.arena : memref<192xi8>
// CHECK:         hybrid_rt.alias "reshape" %a : memref<16xf32> -> memref<4x4xf32>
// CHECK:         func.return %d, %b
func.func @kept(%x: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) attributes {hybrid.outputs = array<i64: 1>} {
  %a = func.call @k(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %v = tensor.expand_shape %a [[0, 1]] output_shape [4, 4] : tensor<16xf32> into tensor<4x4xf32>
  %b = func.call @k(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %c = func.call @k(%b) : (tensor<16xf32>) -> tensor<16xf32>
  %d = func.call @two(%v, %c) : (tensor<4x4xf32>, tensor<16xf32>) -> tensor<16xf32>
  func.return %d, %b : tensor<16xf32>, tensor<16xf32>
}
func.func private @k(%x: tensor<16xf32>) -> tensor<16xf32> attributes {hybrid.inplace = array<i64: 0, 0>} {
  %y = math.exp %x : tensor<16xf32>
  func.return %y : tensor<16xf32>
}
func.func private @two(%x: tensor<4x4xf32>, %y: tensor<16xf32>) -> tensor<16xf32> {
  %z = math.exp %y : tensor<16xf32>
  func.return %z : tensor<16xf32>
}

// -----
// Views keep what the structured form says of them; the empty tensor of a transpose is no memory, a constant neither.
// CHECK-LABEL: func.func @views
// CHECK-NEXT:    [[M:%.*]] = hybrid_rt.arena : memref<0xi8>
// CHECK-NEXT:    %t = hybrid_rt.alias "transpose" %x {order = array<i64: 1, 0>} : memref<4x6xf32> -> memref<6x4xf32>
// CHECK-NEXT:    %s = hybrid_rt.alias "slice" %t {begin = array<i64: 1, 0>, step = array<i64: 2, 1>} : memref<6x4xf32> -> memref<2x4xf32>
// CHECK-NEXT:    [[C:%.*]] = hybrid_rt.constant dense<2.000000e+00> : tensor<f32> : memref<f32>
// CHECK-NEXT:    %y = hybrid_rt.alloc : memref<8xf32>
// CHECK-NEXT:    hybrid_rt.launch @k ins(%s, [[C]] : memref<2x4xf32>, memref<f32>) outs(%y : memref<8xf32>)
// CHECK-NEXT:    %v = hybrid_rt.alias "reshape" %y : memref<8xf32> -> memref<2x4xf32>
// CHECK-NEXT:    func.return %v : memref<2x4xf32>
func.func @views(%x: tensor<4x6xf32>) -> tensor<2x4xf32> {
  %e = tensor.empty() : tensor<6x4xf32>
  %t = linalg.transpose ins(%x : tensor<4x6xf32>) outs(%e : tensor<6x4xf32>) permutation = [1, 0]
  %s = tensor.extract_slice %t[1, 0] [2, 4] [2, 1] : tensor<6x4xf32> to tensor<2x4xf32>
  %c = arith.constant dense<2.0> : tensor<f32>
  %y = func.call @k(%s, %c) : (tensor<2x4xf32>, tensor<f32>) -> tensor<8xf32>
  %v = tensor.expand_shape %y [[0, 1]] output_shape [2, 4] : tensor<8xf32> into tensor<2x4xf32>
  func.return %v : tensor<2x4xf32>
}
func.func private @k(%x: tensor<2x4xf32>, %c: tensor<f32>) -> tensor<8xf32> {
  %y = tensor.empty() : tensor<8xf32>
  func.return %y : tensor<8xf32>
}

// -----
// What the host may do in place, its operator says; unsigned arrays keep their dtype.
// CHECK-LABEL: func.func @host
// CHECK:         %a = hybrid_rt.view {{%.*}}[0 : i64] : memref<64xi8> -> memref<16xui8>
// CHECK:         %b = hybrid_rt.view {{%.*}}[0 : i64] : memref<64xi8> -> memref<16xui8>
// CHECK-NEXT:    hybrid_rt.launch @host_maximum ins(%a, %x : memref<16xui8>, memref<16xui8>) outs(%b : memref<16xui8>)
// CHECK:         hybrid_rt.launch @host_sort ins(%b : memref<16xui8>)
// CHECK:       func.func private @host_maximum
// CHECK-SAME:    hybrid.inplace = array<i64: 0, 0, 1, 0>
func.func @host(%x: tensor<16xi8>) -> tensor<16xi8> attributes {hybrid.dtypes = ["uint8", "uint8"]} {
  %a = func.call @host_sort(%x) : (tensor<16xi8>) -> tensor<16xi8>
  %b = func.call @host_maximum(%a, %x) : (tensor<16xi8>, tensor<16xi8>) -> tensor<16xi8>
  %c = func.call @host_sort(%b) : (tensor<16xi8>) -> tensor<16xi8>
  func.return %c : tensor<16xi8>
}
func.func private @host_sort(tensor<16xi8>) -> tensor<16xi8>
  attributes {hybrid.operator = "hybrid.sort", hybrid.attributes = {}, hybrid.dtypes = ["uint8", "uint8"]}
func.func private @host_maximum(tensor<16xi8>, tensor<16xi8>) -> tensor<16xi8>
  attributes {hybrid.operator = "hybrid.maximum", hybrid.attributes = {}, hybrid.dtypes = ["uint8", "uint8", "uint8"]}

// -----
// A kernel writes what the caller donates where it may; elsewhere the result is copied there when nobody reads it.
// CHECK-LABEL: func.func @donated
// CHECK:         %a = hybrid_rt.donated %w
// CHECK-NEXT:    hybrid_rt.launch @k ins(%w, %g : memref<16xf32>, memref<16xf32>) outs(%a : memref<16xf32>)
// CHECK-NEXT:    %b = hybrid_rt.view
// CHECK-NEXT:    hybrid_rt.launch @k ins(%g, %m : memref<16xf32>, memref<16xf32>) outs(%b : memref<16xf32>)
// CHECK-NEXT:    [[D:%.*]] = hybrid_rt.donated %m
// CHECK-NEXT:    hybrid_rt.copy %b into [[D]]
// CHECK-NEXT:    func.return %a, [[D]]
func.func @donated(%w: tensor<16xf32>, %m: tensor<16xf32>, %g: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>)
  attributes {hybrid.donated = array<i64: 0, 0, 1, 1>} {
  %a = func.call @k(%w, %g) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %b = func.call @k(%g, %m) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  func.return %a, %b : tensor<16xf32>, tensor<16xf32>
}
func.func private @k(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<16xf32> attributes {hybrid.inplace = array<i64: 0, 0>} {
  %z = arith.addf %x, %y : tensor<16xf32>
  func.return %z : tensor<16xf32>
}
