// What the verifier says about an operation with a graph inside.
// RUN: hybridc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics --allow-unregistered-dialect | filecheck %s

// CHECK: the arguments of its region are tensor<2xf32>, but its operands are tensor<3xf32>
func.func @forward(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y, %s = hybrid.subgraph %x {name = "a", arguments = ["x"]} : (tensor<3xf32>) -> (tensor<3xf32>, tensor<1x!hybrid.state>) {
  ^bb0(%a: tensor<2xf32>):
    %e = hybrid.exp %a : (tensor<2xf32>) -> tensor<2xf32>
    hybrid.yield %e : tensor<2xf32>
  }
  func.return %y : tensor<3xf32>
}

// -----
// CHECK: hybrid.subgraph: result types are tensor<2xf32>, tensor<1x!hybrid.state>, inferred tensor<3xf32>, tensor<1x!hybrid.state>
func.func @forward(%x: tensor<3xf32>) -> tensor<2xf32> {
  %y, %s = hybrid.subgraph %x {name = "a", arguments = ["x"]} : (tensor<3xf32>) -> (tensor<2xf32>, tensor<1x!hybrid.state>) {
  ^bb0(%a: tensor<3xf32>):
    %e = hybrid.exp %a : (tensor<3xf32>) -> tensor<3xf32>
    hybrid.yield %e : tensor<3xf32>
  }
  func.return %y : tensor<2xf32>
}

// -----
// CHECK: cannot be inside the graph of an operator; hybrid operations can
func.func @forward(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y, %s = hybrid.subgraph %x {name = "a", arguments = ["x"]} : (tensor<3xf32>) -> (tensor<3xf32>, tensor<1x!hybrid.state>) {
  ^bb0(%a: tensor<3xf32>):
    "test.op"() : () -> ()
    hybrid.yield %a : tensor<3xf32>
  }
  func.return %y : tensor<3xf32>
}
