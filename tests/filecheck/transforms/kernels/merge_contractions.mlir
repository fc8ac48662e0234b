// Products of all the parts of an array with one matrix are one product.
// RUN: hybridc-opt %s -p 'hybrid-to-linalg,cse,dce,fold-views,cse,dce,fuse-kernels,split-contractions,merge-contractions' --split-input-file | filecheck %s

// Two steps of a recurrent network: the products of the inputs are one, those of the states stay, one after the other.
// CHECK-LABEL: func.func @steps
// CHECK-NEXT:    [[H:%.*]] = func.call @[[STATE:k_matmul.*]](%h, %u)
// CHECK-NEXT:    [[X:%.*]] = tensor.collapse_shape %x {{\[\[0 : i64, 1 : i64\], \[2 : i64\]\]}}
// CHECK-NEXT:    [[P:%.*]] = func.call @[[ALL:k_matmul.*]]([[X]], %w) : (tensor<8x3xf32>, tensor<3x5xf32>) -> tensor<8x5xf32>
// CHECK-NEXT:    [[A:%.*]] = tensor.extract_slice [[P]][0, 0] [4, 5] [1, 1]
// CHECK-NEXT:    [[B:%.*]] = tensor.extract_slice [[P]][4, 0] [4, 5] [1, 1]
// CHECK-NEXT:    [[S:%.*]] = func.call @{{.*}}([[A]], [[H]])
// CHECK-NEXT:    [[T:%.*]] = func.call @[[STATE]]([[S]], %u)
// CHECK-NEXT:    func.call @{{.*}}([[B]], [[T]])
// CHECK-NEXT:    func.return
// CHECK:       func.func private @[[ALL]]({{.*}}: tensor<8x3xf32>, {{.*}}: tensor<3x5xf32>) -> tensor<8x5xf32> attributes {hybrid.domains = [array<i64: 8, 5>]} {
// CHECK:         -> tensor<8x5xf32>
// CHECK-NOT:   tensor<4x3xf32>
func.func @steps(%x: tensor<2x4x3xf32>, %h: tensor<4x5xf32>, %w: tensor<3x5xf32>, %u: tensor<5x5xf32>) -> tensor<4x5xf32> {
  %0 = hybrid.slice_axis %x {axis = 0 : i64, begin = 0 : i64, end = 1 : i64} : (tensor<2x4x3xf32>) -> tensor<1x4x3xf32>
  %1 = hybrid.reshape %0 {shape = array<i64: 4, 3>} : (tensor<1x4x3xf32>) -> tensor<4x3xf32>
  %2 = hybrid.matmul %1, %w : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
  %3 = hybrid.matmul %h, %u : (tensor<4x5xf32>, tensor<5x5xf32>) -> tensor<4x5xf32>
  %4 = hybrid.add %2, %3 : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  %5 = hybrid.slice_axis %x {axis = 0 : i64, begin = 1 : i64, end = 2 : i64} : (tensor<2x4x3xf32>) -> tensor<1x4x3xf32>
  %6 = hybrid.reshape %5 {shape = array<i64: 4, 3>} : (tensor<1x4x3xf32>) -> tensor<4x3xf32>
  %7 = hybrid.matmul %6, %w : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
  %8 = hybrid.matmul %4, %u : (tensor<4x5xf32>, tensor<5x5xf32>) -> tensor<4x5xf32>
  %9 = hybrid.add %7, %8 : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  func.return %9 : tensor<4x5xf32>
}

// -----
// Parts may be rows of a matrix, in any order.
// CHECK-LABEL: func.func @rows
// CHECK-NEXT:    [[P:%.*]] = func.call @[[ALL:k_matmul.*]](%x, %w) : (tensor<8x3xf32>, tensor<3x5xf32>) -> tensor<8x5xf32>
// CHECK-NEXT:    [[A:%.*]] = tensor.extract_slice [[P]][0, 0] [4, 5] [1, 1]
// CHECK-NEXT:    [[B:%.*]] = tensor.extract_slice [[P]][4, 0] [4, 5] [1, 1]
// CHECK-NEXT:    func.call @fused_subtract([[B]], [[A]])
func.func @rows(%x: tensor<8x3xf32>, %w: tensor<3x5xf32>) -> tensor<4x5xf32> {
  %0 = hybrid.slice_axis %x {axis = 0 : i64, begin = 4 : i64, end = 8 : i64} : (tensor<8x3xf32>) -> tensor<4x3xf32>
  %1 = hybrid.matmul %0, %w : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
  %2 = hybrid.slice_axis %x {axis = 0 : i64, begin = 0 : i64, end = 4 : i64} : (tensor<8x3xf32>) -> tensor<4x3xf32>
  %3 = hybrid.matmul %2, %w : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
  %4 = hybrid.subtract %1, %3 : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  func.return %4 : tensor<4x5xf32>
}

// -----
// What is returned is an array of its own; a part that is missing, or comes twice, is no whole.
// CHECK-LABEL: func.func @apart
// CHECK-COUNT-3: func.call @k_matmul
// CHECK-NOT:     tensor.extract_slice
func.func @apart(%x: tensor<8x3xf32>, %w: tensor<3x5xf32>, %v: tensor<3x5xf32>) -> (tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>) {
  %0 = hybrid.slice_axis %x {axis = 0 : i64, begin = 0 : i64, end = 4 : i64} : (tensor<8x3xf32>) -> tensor<4x3xf32>
  %1 = hybrid.matmul %0, %w : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
  %2 = hybrid.slice_axis %x {axis = 0 : i64, begin = 4 : i64, end = 8 : i64} : (tensor<8x3xf32>) -> tensor<4x3xf32>
  %3 = hybrid.matmul %2, %w : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
  %4 = hybrid.matmul %0, %v : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
  %5 = hybrid.exp %4 : (tensor<4x5xf32>) -> tensor<4x5xf32>
  func.return %1, %3, %5 : tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>
}
