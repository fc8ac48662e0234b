// Parts of the graph become operations with the part in their region.
// RUN: hybridc-opt %s --load %S/partition_graph.py -p partition-graph{backend=check} --split-input-file | filecheck %s
// RUN: hybridc-opt %s --load %S/partition_graph.py -p partition-graph{backend=check} --split-input-file \
// RUN:   | hybridc-opt --split-input-file | filecheck %s

// A number belongs to whoever uses it; what flows in is an argument, what is used outside is a result.
// CHECK-LABEL: func.func @forward
// CHECK-NEXT:    [[P:%.*]], [[Q:%.*]], {{%.*}} = hybrid.subgraph %x {name = "check0", backend = "check", partitioner = "ExpLogAdd", arguments = ["x"], properties = {{\[}}["size", 3 : i64]], train = false} : (tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<1x!hybrid.state>) {
// CHECK-NEXT:    ^bb0([[A:%.*]]: tensor<3xf32>):
// CHECK-NEXT:      [[C:%.*]] = hybrid.constant {value = 1.000000e+00 : f64} : () -> tensor<f32>
// CHECK-NEXT:      [[E:%.*]] = hybrid.exp [[A]] : (tensor<3xf32>) -> tensor<3xf32>
// CHECK-NEXT:      [[S:%.*]] = hybrid.add [[E]], [[C]] : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
// CHECK-NEXT:      [[L:%.*]] = hybrid.log [[S]] : (tensor<3xf32>) -> tensor<3xf32>
// CHECK-NEXT:      hybrid.yield [[E]], [[L]] : tensor<3xf32>, tensor<3xf32>
// CHECK-NEXT:    }
// CHECK:         hybrid.multiply [[P]], [[Q]]
func.func @forward(%x: tensor<3xf32>) -> tensor<3xf32> {
  %one = hybrid.constant {value = 1.0 : f64} : () -> tensor<f32>
  %e = hybrid.exp %x : (tensor<3xf32>) -> tensor<3xf32>
  %s = hybrid.add %e, %one : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %l = hybrid.log %s : (tensor<3xf32>) -> tensor<3xf32>
  %y = hybrid.multiply %e, %l : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

// -----
// sin lies between exp and the sum, so that these two cannot be one part; one operator alone is turned down.
// CHECK-LABEL: func.func @forward
// CHECK-NEXT:    [[P:%.*]], [[Q:%.*]], {{%.*}} = hybrid.subgraph %x {name = "check0"
// CHECK:           hybrid.yield
// CHECK:         [[S:%.*]] = hybrid.sin [[P]]
// CHECK-NEXT:    [[Y:%.*]] = hybrid.add [[S]], [[Q]]
// CHECK-NEXT:    func.return [[Y]]
func.func @forward(%x: tensor<3xf32>) -> tensor<3xf32> {
  %e = hybrid.exp %x : (tensor<3xf32>) -> tensor<3xf32>
  %s = hybrid.sin %e : (tensor<3xf32>) -> tensor<3xf32>
  %l = hybrid.log %e : (tensor<3xf32>) -> tensor<3xf32>
  %y = hybrid.add %s, %l : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

// -----
// cos stands between the operators of the part and uses one of them: it moves behind the part.
// CHECK-LABEL: func.func @forward
// CHECK:         hybrid.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    hybrid.cos
func.func @forward(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %e = hybrid.exp %x : (tensor<3xf32>) -> tensor<3xf32>
  %c = hybrid.cos %e : (tensor<3xf32>) -> tensor<3xf32>
  %l = hybrid.log %e : (tensor<3xf32>) -> tensor<3xf32>
  func.return %c, %l : tensor<3xf32>, tensor<3xf32>
}
