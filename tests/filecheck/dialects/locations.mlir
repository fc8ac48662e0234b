// The user's lines survive printing and parsing, and the passes hand them on to what replaces an operation.
// RUN: hybridc-opt %s --print-debuginfo | filecheck %s --check-prefix SAME
// RUN: hybridc-opt %s --print-debuginfo | hybridc-opt --print-debuginfo | filecheck %s --check-prefix SAME
// RUN: hybridc-opt %s -p decompose --print-debuginfo | filecheck %s --check-prefix PARTS
// RUN: hybridc-opt %s -p differentiate --print-debuginfo | filecheck %s --check-prefix BACK

func.func @forward(%x: tensor<2x3xf32>) -> tensor<2x3xf32> attributes {hybrid.grads = array<i64: 0>} {
  %a = hybrid.exp %x : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("net_dense0"("model.py":12:0))
  %b = hybrid.softmax %a : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("model.py":13:0)
  func.return %b : tensor<2x3xf32>
}

// SAME: hybrid.exp %x : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("net_dense0"("model.py":12:0))
// SAME: hybrid.softmax %a : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("model.py":13:0)

// PARTS:      hybrid.exp {{.*}} loc("net_dense0"("model.py":12:0))
// PARTS-NEXT: hybrid.max {{.*}} loc("model.py":13:0)
// PARTS-NEXT: hybrid.subtract {{.*}} loc("model.py":13:0)
// PARTS-NEXT: hybrid.exp {{.*}} loc("model.py":13:0)
// PARTS-NEXT: hybrid.sum {{.*}} loc("model.py":13:0)
// PARTS-NEXT: hybrid.reciprocal {{.*}} loc("model.py":13:0)
// PARTS-NEXT: hybrid.multiply {{.*}} loc("model.py":13:0)

// BACK:      func.func @backward
// BACK-NEXT: hybrid.multiply {{.*}} loc("model.py":13:0)
// BACK:      hybrid.multiply %{{.*}}, %a {{.*}} loc("net_dense0"("model.py":12:0))
