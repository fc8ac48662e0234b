// Products widen eight bits themselves, of what other kernels made wider for them.
// RUN: hybridc-opt %s -p 'hybrid-to-linalg{library=triton},cse,dce,fold-views,cse,dce,fuse-kernels,fold-casts' --split-input-file | filecheck %s

// Both operands, one behind a view: the kernels that widened them are gone, and so is the product of half precision.
// CHECK-LABEL: func.func @both
// CHECK-NEXT:    [[X:%.*]] = tensor.extract_slice %x[2, 0] [8, 32] [1, 1] {{.*}} : tensor<12x32xf8E4M3FN> to tensor<8x32xf8E4M3FN>
// CHECK-NEXT:    [[Y:%.*]] = func.call @[[PRODUCT:.*_float8]]([[X]], %w) : (tensor<8x32xf8E4M3FN>, tensor<32x16xf8E5M2>) -> tensor<8x16xf16>
// CHECK-NEXT:    func.return [[Y]]
// CHECK-NOT:   f16>, tensor
// CHECK:       func.func private @[[PRODUCT]]
// CHECK:         ^bb0([[A:%.*]]: f8E4M3FN, [[B:%.*]]: f8E5M2, {{%.*}}: f32):
// CHECK-NEXT:      arith.extf [[A]] : f8E4M3FN to f32
// CHECK-NEXT:      arith.extf [[B]] : f8E5M2 to f32
func.func @both(%x: tensor<12x32xf8E4M3FN>, %w: tensor<32x16xf8E5M2>) -> tensor<8x16xf16> {
  %0 = hybrid.cast %x {dtype = "float16"} : (tensor<12x32xf8E4M3FN>) -> tensor<12x32xf16>
  %1 = hybrid.slice_axis %0 {axis = 0 : i64, begin = 2 : i64, end = 10 : i64} : (tensor<12x32xf16>) -> tensor<8x32xf16>
  %2 = hybrid.cast %w {dtype = "float16"} : (tensor<32x16xf8E5M2>) -> tensor<32x16xf16>
  %3 = hybrid.matmul %1, %2 : (tensor<8x32xf16>, tensor<32x16xf16>) -> tensor<8x16xf16>
  func.return %3 : tensor<8x16xf16>
}

// -----
// Of single precision, whose body had nothing to widen; one of the operands is no cast.
// CHECK-LABEL: func.func @single
// CHECK-NEXT:    func.call @{{.*}}_float8(%x, %w) : (tensor<8x32xf8E4M3FN>, tensor<32x16xf32>) -> tensor<8x16xf32>
// CHECK:         ^bb0([[A:%.*]]: f8E4M3FN, [[B:%.*]]: f32, {{%.*}}: f32):
// CHECK-NEXT:      [[WIDE:%.*]] = arith.extf [[A]] : f8E4M3FN to f32
// CHECK-NEXT:      arith.mulf [[WIDE]], [[B]] : f32
func.func @single(%x: tensor<8x32xf8E4M3FN>, %w: tensor<32x16xf32>) -> tensor<8x16xf32> {
  %0 = hybrid.cast %x {dtype = "float32"} : (tensor<8x32xf8E4M3FN>) -> tensor<8x32xf32>
  %1 = hybrid.matmul %0, %w : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
  func.return %1 : tensor<8x16xf32>
}

// -----
// What more than products read is widened once for all.
// CHECK-LABEL: func.func @shared
// CHECK-NEXT:    [[WIDE:%.*]] = func.call @k_cast
// CHECK-NEXT:    func.call @{{.*}}([[WIDE]], %w) : (tensor<8x32xf16>, tensor<32x16xf16>)
// CHECK-NOT:   _float8
func.func @shared(%x: tensor<8x32xf8E4M3FN>, %w: tensor<32x16xf16>) -> (tensor<8x16xf16>, tensor<8x32xf16>) {
  %0 = hybrid.cast %x {dtype = "float16"} : (tensor<8x32xf8E4M3FN>) -> tensor<8x32xf16>
  %1 = hybrid.matmul %0, %w : (tensor<8x32xf16>, tensor<32x16xf16>) -> tensor<8x16xf16>
  func.return %1, %0 : tensor<8x16xf16>, tensor<8x32xf16>
}
