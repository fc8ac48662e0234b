// Functions that processors lack become calls of formulas, which are added to the module once for each type.
// RUN: hybridc-opt %s -p expand-math | filecheck %s

// CHECK-LABEL: func.func @single
// CHECK-NEXT:    %a = func.call @exp_f32(%x) : (f32) -> f32
// CHECK-NEXT:    %b = func.call @exp_f32(%a) : (f32) -> f32
// CHECK-NEXT:    %r = math.sqrt %b : f32
// CHECK-NEXT:    func.return %r : f32
func.func @single(%x: f32) -> f32 {
  %a = math.exp %x : f32
  %b = math.exp %a : f32
  %r = math.sqrt %b : f32
  func.return %r : f32
}

// Half precision is computed in single.
// CHECK-LABEL: func.func @half
// CHECK-NEXT:    [[W:%.*]] = arith.extf %x : f16 to f32
// CHECK-NEXT:    [[E:%.*]] = func.call @exp_f32([[W]]) : (f32) -> f32
// CHECK-NEXT:    {{%.*}} = arith.truncf [[E]] : f32 to f16
func.func @half(%x: f16) -> f16 {
  %r = math.exp %x : f16
  func.return %r : f16
}

// A power with a simple exponent is a product.
// CHECK-LABEL: func.func @square
// CHECK:         %r = arith.mulf %x, %x : f32
func.func @square(%x: f32) -> f32 {
  %two = arith.constant 2.0 : f32
  %r = math.powf %x, %two : f32
  func.return %r : f32
}

// exp(x) is 2**n exp(r), the power in two halves: limits, n and r, a polynomial, two products.
// CHECK-LABEL: func.func private @exp_f32
// CHECK:         arith.cmpf ogt
// CHECK-NEXT:    arith.select
// CHECK:         arith.cmpf olt
// CHECK-NEXT:    arith.select
// CHECK:         [[SHIFTED:%.*]] = math.fma
// CHECK:         [[N:%.*]] = arith.subf [[SHIFTED]]
// CHECK:         math.fma [[N]]
// CHECK:         math.fma [[N]]
// CHECK:         [[BITS:%.*]] = arith.bitcast [[SHIFTED]] : f32 to i32
// CHECK:         [[HALF:%.*]] = arith.shrui [[BITS]]
// CHECK:         [[UP:%.*]] = arith.shli [[HALF]]
// CHECK-NEXT:    [[S:%.*]] = arith.bitcast [[UP]] : i32 to f32
// CHECK-NEXT:    arith.subi [[BITS]], [[HALF]]
// CHECK:         [[T:%.*]] = arith.bitcast {{%.*}} : i32 to f32
// CHECK-NEXT:    [[SUM:%.*]] = math.fma {{%.*}}, [[S]], [[S]] : f32
// CHECK-NEXT:    [[RESULT:%.*]] = arith.mulf [[SUM]], [[T]] : f32
// CHECK-NEXT:    func.return [[RESULT]] : f32
// CHECK-NOT:     func.func
