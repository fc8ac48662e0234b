// Loops over memory become LLVM IR: a phase as a function of its own arguments, and one of the shape of all.
// RUN: hybridc-opt %s -t llvm-ir | filecheck %s

// CHECK:       define internal float @half.0(float %a0) alwaysinline nounwind
// CHECK:       define internal void @region.body.1(ptr noalias %a0, ptr noalias %a1, i64 %a2, i64 %a3, i64 %a4,
// CHECK-SAME:    ptr noalias %a5) noinline nounwind "prefer-vector-width"="256"
// CHECK:       b4:
// CHECK-NEXT:    [[J:%v[0-9]+]] = phi i64 [ 0, %b2 ], [ [[NEXT:%v[0-9]+]], %b5 ]
// CHECK-NEXT:    [[S:%v[0-9]+]] = phi float [ 0x0000000000000000, %b2 ], [ [[SUM:%v[0-9]+]], %b5 ]
// CHECK-NEXT:    [[GO:%v[0-9]+]] = icmp slt i64 [[J]], %a2
// CHECK-NEXT:    br i1 [[GO]], label %b5, label %b6
// CHECK:         [[AT:%v[0-9]+]] = getelementptr inbounds float, ptr %a0, i64
// CHECK-NEXT:    [[X:%v[0-9]+]] = load float, ptr [[AT]]
// CHECK-NEXT:    [[SUM]] = fadd contract reassoc float [[S]], [[X]]
// CHECK-NEXT:    [[NEXT]] = add nsw i64 [[J]], 1
// CHECK-NEXT:    br label %b4, !llvm.loop [[CARRIED:![0-9]+]]
// CHECK:         call float @half.0(float [[S]])
// CHECK:         !llvm.loop [[SUMS:![0-9]+]]
// CHECK:       define void @region(ptr %a0, ptr %a1, i64 %a2, i64 %a3, ptr %a4)
// CHECK:         [[CELL:%v[0-9]+]] = getelementptr inbounds i64, ptr %a1, i64 0
// CHECK-NEXT:    %{{.*}} = load i64, ptr [[CELL]]
// CHECK-NEXT:    call void @region.body.1(
// CHECK:       [[FOUR:![0-9]+]] = !{!"llvm.loop.interleave.count", i32 4}
// CHECK:       [[CARRIED]] = distinct !{[[CARRIED]], {{.*}}, [[FOUR]]}
// CHECK:       [[SUMS]] = distinct
func.func @region(%x: memref<?xf32>, %y: memref<?xf32>, %n: index, %lo: index, %hi: index, %scratch: memref<?xi8>)
    attributes {hybrid.region} {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  scf.for %i = %lo to %hi step %one {
    %row = arith.muli %i, %n : index
    %s = scf.for %j = %zero to %n step %one iter_args(%a = %z) -> (f32) {
      %p = arith.addi %row, %j : index
      %v = memref.load %x[%p] : memref<?xf32>
      %w = arith.addf %a, %v fastmath<reassoc, contract> : f32
      scf.yield %w : f32
    }
    %h = func.call @half(%s) : (f32) -> f32
    memref.store %h, %y[%i] : memref<?xf32>
  }
  func.return
}
func.func private @half(%x: f32) -> f32 {
  %h = arith.constant 0.5 : f32
  %0 = arith.mulf %x, %h : f32
  func.return %0 : f32
}
