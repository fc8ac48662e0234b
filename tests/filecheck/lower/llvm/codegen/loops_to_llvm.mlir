// Loops over memory become LLVM's dialect: a phase as a function of its own arguments, and one of the shape of all.
// RUN: hybridc-opt %s -p loops-to-llvm | filecheck %s
// RUN: hybridc-opt %s -p loops-to-llvm | hybridc-opt | filecheck %s

// CHECK:       llvm.func internal @region.body(%{{.*}}: !llvm.ptr {llvm.noalias}, %{{.*}}: !llvm.ptr {llvm.noalias},
// CHECK-SAME:    %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: !llvm.ptr {llvm.noalias})
// CHECK-SAME:    attributes {passthrough = ["noinline", "nounwind"]}
// CHECK:         llvm.br ^[[HEAD:bb[0-9]+]](%{{.*}} : i64)
// CHECK:       ^[[HEAD]](%[[I:[0-9]+]]: i64):
// CHECK-NEXT:    %[[GO:[0-9]+]] = llvm.icmp "slt" %[[I]], %{{.*}} : i64
// CHECK-NEXT:    llvm.cond_br %[[GO]], ^[[BODY:bb[0-9]+]], ^[[DONE:bb[0-9]+]]
// CHECK:         %[[AT:[0-9]+]] = llvm.getelementptr inbounds %{{.*}}[%{{.*}}] : (!llvm.ptr, i64) -> !llvm.ptr, f32
// CHECK-NEXT:    %[[X:[0-9]+]] = llvm.load %[[AT]] : !llvm.ptr -> f32
// CHECK-NEXT:    %[[S:[0-9]+]] = llvm.fadd %{{.*}}, %[[X]] {fastmathFlags = #llvm.fastmath<reassoc,contract>} : f32
// CHECK-NEXT:    %[[NEXT:[0-9]+]] = llvm.add %{{.*}}, %{{.*}} overflow<nsw> : i64
// CHECK-NEXT:    llvm.br ^{{.*}}(%[[NEXT]], %[[S]] : i64, f32) {hybrid.loop = "carried"}
// CHECK:         llvm.call @half(%{{.*}}) : (f32) -> f32
// CHECK:         {hybrid.loop = "sums", hybrid.encloses}
// CHECK:       llvm.func @region(%[[BUFFERS:.*]]: !llvm.ptr, %[[NUMBERS:.*]]: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64,
// CHECK:         %[[CELL:[0-9]+]] = llvm.getelementptr inbounds %[[NUMBERS]]
// CHECK-NEXT:    %{{.*}} = llvm.load %[[CELL]] : !llvm.ptr -> i64
// CHECK-NEXT:    llvm.call @region.body(
// CHECK:       llvm.func internal @half(%{{.*}}: f32) -> f32 attributes {passthrough = ["alwaysinline", "nounwind"]}
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
