// Slices and concatenations move through elementwise operations, to the loops that read and write parts.
// RUN: hybridc-opt %s -p hoist-slices,dce --split-input-file | filecheck %s

// Halves of an elementwise result: the operation on halves of its operand.
// CHECK-LABEL: func.func @halves
// CHECK-DAG:     [[A:%.*]] = tensor.extract_slice %x[0, 0] [2, 2] [1, 1]
// CHECK-DAG:     [[B:%.*]] = tensor.extract_slice %x[0, 2] [2, 2] [1, 1]
// CHECK-NOT:     tensor<2x4xf32>) outs
// CHECK:         func.return %p
func.func @halves(%x: tensor<2x4xf32>) -> tensor<2x2xf32> {
  %e = tensor.empty() : tensor<2x4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<2x4xf32>) outs(%e : tensor<2x4xf32>) attrs = {hybrid.operator = "exp"} {
  ^bb0(%0: f32, %1: f32):
    %2 = math.exp %0 : f32
    linalg.yield %2 : f32
  } -> tensor<2x4xf32>
  %a = tensor.extract_slice %y[0, 0] [2, 2] [1, 1] : tensor<2x4xf32> to tensor<2x2xf32>
  %b = tensor.extract_slice %y[0, 2] [2, 2] [1, 1] : tensor<2x4xf32> to tensor<2x2xf32>
  %f = tensor.empty() : tensor<2x2xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%a, %b : tensor<2x2xf32>, tensor<2x2xf32>) outs(%f : tensor<2x2xf32>) attrs = {hybrid.operator = "multiply"} {
  ^bb0(%0: f32, %1: f32, %2: f32):
    %3 = arith.mulf %0, %1 : f32
    linalg.yield %3 : f32
  } -> tensor<2x2xf32>
  func.return %p : tensor<2x2xf32>
}

// -----
// Slices of one array, one after the other, are the array.
// CHECK-LABEL: func.func @together
// CHECK-NEXT:    func.return %x
func.func @together(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %a = tensor.extract_slice %x[0, 0] [2, 3] [1, 1] : tensor<2x4xf32> to tensor<2x3xf32>
  %b = tensor.extract_slice %x[0, 3] [2, 1] [1, 1] : tensor<2x4xf32> to tensor<2x1xf32>
  %y = tensor.concat dim(1) %a, %b : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}

// -----
// In another order they stay.
// CHECK-LABEL: func.func @exchanged
// CHECK:         tensor.concat dim(1)
func.func @exchanged(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %a = tensor.extract_slice %x[0, 2] [2, 2] [1, 1] : tensor<2x4xf32> to tensor<2x2xf32>
  %b = tensor.extract_slice %x[0, 0] [2, 2] [1, 1] : tensor<2x4xf32> to tensor<2x2xf32>
  %y = tensor.concat dim(1) %a, %b : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}
