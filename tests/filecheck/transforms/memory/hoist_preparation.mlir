// What depends on parameters alone comes first, with views of its own; memory that is kept has what other calls read.
// RUN: hybridc-opt %s -p hoist-preparation --split-input-file | filecheck %s
// RUN: hybridc-opt %s -p hoist-preparation,plan-memory,verify-plan --split-input-file | filecheck %s --check-prefix PLAN

// CHECK-LABEL: func.func @forward
// CHECK-NEXT:    %wt = tensor.collapse_shape %w
// CHECK-NEXT:    %a = func.call @k(%wt) {hybrid.preparation}
// CHECK-NEXT:    %b = func.call @k(%a) {hybrid.preparation}
// CHECK-NEXT:    %c = func.call @k(%x)
// CHECK-NEXT:    %d = func.call @k2(%c, %b)
// CHECK-NEXT:    func.return %d
// PLAN-LABEL: func.func @forward
// PLAN-NEXT:     [[M:%.*]] = hybrid_rt.arena : memref<64xi8>
// PLAN-NEXT:     [[K:%.*]] = hybrid_rt.kept : memref<64xi8>
// PLAN:          %a = hybrid_rt.view [[M]]
// PLAN-NEXT:     hybrid_rt.launch @k {{.*}} {hybrid.preparation}
// PLAN-NEXT:     %b = hybrid_rt.view [[K]]
// PLAN-NEXT:     hybrid_rt.launch @k {{.*}} {hybrid.preparation}
// PLAN-NEXT:     %c = hybrid_rt.view [[M]]
// PLAN-NEXT:     hybrid_rt.launch @k ins(%x : memref<16xf32>) outs(%c : memref<16xf32>)
// PLAN-NEXT:     %d = hybrid_rt.alloc : memref<16xf32>
// PLAN-NEXT:     hybrid_rt.launch @k2 ins(%c, %b : memref<16xf32>, memref<16xf32>) outs(%d : memref<16xf32>)
func.func @forward(%x: tensor<16xf32>, %w: tensor<4x4xf32>) -> tensor<16xf32> attributes {hybrid.roles = ["data", "parameter"]} {
  %c = func.call @k(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %wt = tensor.collapse_shape %w [[0, 1]] : tensor<4x4xf32> into tensor<16xf32>
  %a = func.call @k(%wt) : (tensor<16xf32>) -> tensor<16xf32>
  %b = func.call @k(%a) : (tensor<16xf32>) -> tensor<16xf32>
  %d = func.call @k2(%c, %b) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  func.return %d : tensor<16xf32>
}
func.func private @k(%x: tensor<16xf32>) -> tensor<16xf32> {
  %y = math.exp %x : tensor<16xf32>
  func.return %y : tensor<16xf32>
}
func.func private @k2(%x: tensor<16xf32>, %w: tensor<16xf32>) -> tensor<16xf32> {
  %y = arith.addf %x, %w : tensor<16xf32>
  func.return %y : tensor<16xf32>
}

// -----
// A result of the caller's is made in every call, and so is what a host call reads; in training nothing is prepared.
// CHECK-LABEL: func.func @forward
// CHECK-NOT:     hybrid.preparation
// CHECK-LABEL: func.func private
func.func @forward(%w: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) attributes {hybrid.roles = ["parameter"]} {
  %a = func.call @k(%w) : (tensor<16xf32>) -> tensor<16xf32>
  %b = func.call @k(%a) : (tensor<16xf32>) -> tensor<16xf32>
  %c = func.call @host(%b) : (tensor<16xf32>) -> tensor<16xf32>
  func.return %a, %c : tensor<16xf32>, tensor<16xf32>
}
func.func private @k(%x: tensor<16xf32>) -> tensor<16xf32> {
  %y = math.exp %x : tensor<16xf32>
  func.return %y : tensor<16xf32>
}
func.func private @host(tensor<16xf32>) -> tensor<16xf32> attributes {hybrid.operator = "hybrid.sort", hybrid.attributes = {}}

// -----
// CHECK-LABEL: func.func @forward
// CHECK-NOT:     hybrid.preparation
// CHECK-LABEL: func.func private
func.func @forward(%x: tensor<16xf32>, %w: tensor<16xf32>) -> tensor<16xf32> attributes {hybrid.roles = ["data", "parameter"], hybrid.training} {
  %a = func.call @k(%w) : (tensor<16xf32>) -> tensor<16xf32>
  %d = func.call @k2(%x, %a) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  func.return %d : tensor<16xf32>
}
func.func private @k(%x: tensor<16xf32>) -> tensor<16xf32> {
  %y = math.exp %x : tensor<16xf32>
  func.return %y : tensor<16xf32>
}
func.func private @k2(%x: tensor<16xf32>, %w: tensor<16xf32>) -> tensor<16xf32> {
  %y = arith.addf %x, %w : tensor<16xf32>
  func.return %y : tensor<16xf32>
}
