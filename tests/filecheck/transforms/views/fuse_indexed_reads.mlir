// What is read at computed indices is computed there.
// RUN: hybridc-opt %s -p fuse-indexed-reads --split-input-file | filecheck %s

// One element of each row: its operand is read at the index, the row's number in the loop.
// CHECK-LABEL: func.func @picked
// CHECK:         linalg.generic {{.*}} ins(%i, %m : tensor<3xi64>, tensor<3xf32>)
// CHECK:           [[X:%.*]] = tensor.extract %x[{{%.*}}, {{%.*}}]
// CHECK:           arith.subf [[X]], {{%.*}}
// CHECK-NOT:     linalg.generic
// CHECK:         func.return
func.func @picked(%x: tensor<3x4xf32>, %m: tensor<3xf32>, %i: tensor<3xi64>) -> tensor<3xf32> {
  %e = tensor.empty() : tensor<3x4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %m : tensor<3x4xf32>, tensor<3xf32>) outs(%e : tensor<3x4xf32>) attrs = {hybrid.operator = "subtract"} {
  ^bb0(%0: f32, %1: f32, %2: f32):
    %3 = arith.subf %0, %1 : f32
    linalg.yield %3 : f32
  } -> tensor<3x4xf32>
  %f = tensor.empty() : tensor<3xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%i : tensor<3xi64>) outs(%f : tensor<3xf32>) attrs = {hybrid.operator = "pick"} {
  ^bb0(%0: i64, %1: f32):
    %2 = linalg.index 0 : index
    %3 = arith.index_cast %0 : i64 to index
    %4 = tensor.extract %y[%2, %3] : tensor<3x4xf32>
    linalg.yield %4 : f32
  } -> tensor<3xf32>
  func.return %p : tensor<3xf32>
}

// -----
// More reads than elements: each is computed once, before.
// CHECK-LABEL: func.func @often
// CHECK:         [[Y:%.*]] = linalg.generic
// CHECK:         linalg.generic
// CHECK:           tensor.extract [[Y]]
func.func @often(%x: tensor<4xf32>, %i: tensor<9xi64>) -> tensor<9xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) attrs = {hybrid.operator = "exp"} {
  ^bb0(%0: f32, %1: f32):
    %2 = math.exp %0 : f32
    linalg.yield %2 : f32
  } -> tensor<4xf32>
  %f = tensor.empty() : tensor<9xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%i : tensor<9xi64>) outs(%f : tensor<9xf32>) attrs = {hybrid.operator = "take"} {
  ^bb0(%0: i64, %1: f32):
    %2 = arith.index_cast %0 : i64 to index
    %3 = tensor.extract %y[%2] : tensor<4xf32>
    linalg.yield %3 : f32
  } -> tensor<9xf32>
  func.return %p : tensor<9xf32>
}
