// Functions that processors lack are calls of formulas, which are written once for each type.
// RUN: hybridc-opt %s -t llvm-ir | filecheck %s

// exp(x) is 2**n exp(r), the power in two halves: limits, n and r, a polynomial, two products.
// CHECK:       define internal float @exp_f32.0(float %a0) alwaysinline
// CHECK:         fcmp ogt
// CHECK-NEXT:    select
// CHECK:         fcmp olt
// CHECK-NEXT:    select
// CHECK:         [[SHIFTED:%v[0-9]+]] = call float @llvm.fma.f32
// CHECK:         [[N:%v[0-9]+]] = fsub float [[SHIFTED]]
// CHECK:         call float @llvm.fma.f32(float [[N]]
// CHECK:         call float @llvm.fma.f32(float [[N]]
// CHECK:         [[BITS:%v[0-9]+]] = bitcast float [[SHIFTED]] to i32
// CHECK:         [[HALF:%v[0-9]+]] = lshr i32 [[BITS]]
// CHECK:         [[UP:%v[0-9]+]] = shl i32 [[HALF]]
// CHECK-NEXT:    [[S:%v[0-9]+]] = bitcast i32 [[UP]] to float
// CHECK-NEXT:    sub i32 [[BITS]], [[HALF]]
// CHECK:         [[T:%v[0-9]+]] = bitcast i32 {{.*}} to float
// CHECK-NEXT:    [[SUM:%v[0-9]+]] = call float @llvm.fma.f32(float {{.*}}, float [[S]], float [[S]])
// CHECK-NEXT:    [[RESULT:%v[0-9]+]] = fmul float [[SUM]], [[T]]
// CHECK-NEXT:    ret float [[RESULT]]

// Half precision is computed in single. A power with a simple exponent is a product.
// CHECK:       define internal void @region.body.1(
// CHECK:         [[A:%v[0-9]+]] = call float @exp_f32.0(
// CHECK-NEXT:    [[B:%v[0-9]+]] = call float @exp_f32.0(float [[A]])
// CHECK-NEXT:    [[C:%v[0-9]+]] = fmul float [[B]], [[B]]
// CHECK:         [[W:%v[0-9]+]] = fpext half {{.*}} to float
// CHECK-NEXT:    [[E:%v[0-9]+]] = call float @exp_f32.0(float [[W]])
// CHECK-NEXT:    fptrunc float [[E]] to half
func.func @region(%x: memref<?xf32>, %y: memref<?xf16>, %lo: index, %hi: index, %scratch: memref<?xi8>)
    attributes {hybrid.region} {
  %two = arith.constant 2.0 : f32
  %v = memref.load %x[%lo] : memref<?xf32>
  %a = math.exp %v : f32
  %b = math.exp %a : f32
  %c = math.powf %b, %two : f32
  memref.store %c, %x[%lo] : memref<?xf32>
  %h = memref.load %y[%lo] : memref<?xf16>
  %e = math.exp %h : f16
  memref.store %e, %y[%lo] : memref<?xf16>
  func.return
}
