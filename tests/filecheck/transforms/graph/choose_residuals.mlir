// What the backward uses is computed again where that is cheap; the rest is kept.
// RUN: hybridc-opt %s -p choose-residuals,dce --split-input-file | filecheck %s

// The sum is not kept, only made again of the arguments, just before the exponential that wants it.
// CHECK-LABEL: func.func @forward(%x: tensor<3xf32>, %b: tensor<3xf32>) -> tensor<3xf32>
// CHECK:         func.return %y : tensor<3xf32>
// CHECK:       func.func @backward(%b: tensor<3xf32>, %x: tensor<3xf32>, %g: tensor<3xf32>)
// CHECK-SAME:    hybrid.saved = array<i64: 1, 0>
// CHECK-NEXT:    hybrid.negative
// CHECK-NEXT:    [[S:%.*]] = hybrid.add %x, %b
// CHECK-NEXT:    hybrid.exp [[S]]
func.func @forward(%x: tensor<3xf32>, %b: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) attributes {hybrid.outputs = array<i64: 1>} {
  %s = hybrid.add %x, %b : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %y = hybrid.exp %s : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y, %s : tensor<3xf32>, tensor<3xf32>
}
func.func @backward(%s: tensor<3xf32>, %g: tensor<3xf32>) -> tensor<3xf32> attributes {hybrid.saved = array<i64: 3>} {
  %n = hybrid.negative %g : (tensor<3xf32>) -> tensor<3xf32>
  %e = hybrid.exp %s : (tensor<3xf32>) -> tensor<3xf32>
  %d = hybrid.multiply %n, %e : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  func.return %d : tensor<3xf32>
}

// -----
// A hyperbolic tangent is not cheap. What is made of it, is.
// CHECK-LABEL: func.func @forward
// CHECK:         func.return %y, %e : tensor<3xf32>, tensor<3xf32>
// CHECK:       func.func @backward(%e: tensor<3xf32>, %g: tensor<3xf32>)
// CHECK-SAME:    hybrid.saved = array<i64: 2>
// CHECK-NEXT:    [[P:%.*]] = hybrid.square %e
// CHECK-NEXT:    hybrid.multiply %e, [[P]]
func.func @forward(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) attributes {hybrid.outputs = array<i64: 1>} {
  %e = hybrid.tanh %x : (tensor<3xf32>) -> tensor<3xf32>
  %p = hybrid.square %e : (tensor<3xf32>) -> tensor<3xf32>
  %y = hybrid.sin %p : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y, %p, %e : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}
func.func @backward(%p: tensor<3xf32>, %e: tensor<3xf32>, %g: tensor<3xf32>) -> tensor<3xf32> attributes {hybrid.saved = array<i64: 2, 3>} {
  %m = hybrid.multiply %e, %p : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %d = hybrid.multiply %m, %g : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  func.return %d : tensor<3xf32>
}

// -----
// Six additions are cheap, seven are not.
// CHECK-LABEL: func.func @forward
// CHECK:         func.return %y, %g : tensor<3xf32>, tensor<3xf32>
// CHECK:       func.func @backward(%g: tensor<3xf32>, %o: tensor<3xf32>)
// CHECK-SAME:    hybrid.saved = array<i64: 2>
// CHECK-NEXT:    hybrid.multiply
func.func @forward(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) attributes {hybrid.outputs = array<i64: 1>} {
  %a = hybrid.add %x, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %b = hybrid.add %a, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %c = hybrid.add %b, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %d = hybrid.add %c, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %e = hybrid.add %d, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %f = hybrid.add %e, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %g = hybrid.add %f, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %y = hybrid.sin %g : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y, %g : tensor<3xf32>, tensor<3xf32>
}
func.func @backward(%g: tensor<3xf32>, %o: tensor<3xf32>) -> tensor<3xf32> attributes {hybrid.saved = array<i64: 2>} {
  %m = hybrid.multiply %o, %g : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  func.return %m : tensor<3xf32>
}

// -----
// What is computed again anyway costs nothing: the seventh is one more.
// CHECK-LABEL: func.func @forward
// CHECK:         func.return %y : tensor<3xf32>
// CHECK:       func.func @backward(%x: tensor<3xf32>, %o: tensor<3xf32>)
// CHECK-SAME:    hybrid.saved = array<i64: 0>
// CHECK-COUNT-7: hybrid.add
// CHECK-NEXT:    hybrid.multiply
func.func @forward(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) attributes {hybrid.outputs = array<i64: 1>} {
  %a = hybrid.add %x, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %b = hybrid.add %a, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %c = hybrid.add %b, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %d = hybrid.add %c, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %e = hybrid.add %d, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %f = hybrid.add %e, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %g = hybrid.add %f, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %y = hybrid.sin %g : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y, %f, %g : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}
func.func @backward(%f: tensor<3xf32>, %g: tensor<3xf32>, %o: tensor<3xf32>) -> tensor<3xf32> attributes {hybrid.saved = array<i64: 2, 3>} {
  %m = hybrid.multiply %f, %g : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  func.return %m : tensor<3xf32>
}

// -----
// The mean of each row is kept in the place of the whole difference.
// CHECK-LABEL: func.func @forward
// CHECK-SAME:    -> (tensor<4x8xf32>, tensor<4x1xf32>)
// CHECK:       func.func @backward(%s: tensor<4x1xf32>, %x: tensor<4x8xf32>, %g: tensor<4x8xf32>)
// CHECK-SAME:    hybrid.saved = array<i64: 2, 0>
// CHECK-NEXT:    hybrid.subtract %x
func.func @forward(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) attributes {hybrid.outputs = array<i64: 1>} {
  %s = hybrid.sum %x {axis = array<i64: 1>, keepdims = true} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %d = hybrid.subtract %x, %s : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %y = hybrid.sin %d : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return %y, %d : tensor<4x8xf32>, tensor<4x8xf32>
}
func.func @backward(%d: tensor<4x8xf32>, %g: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {hybrid.saved = array<i64: 2>} {
  %c = hybrid.cos %d : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %m = hybrid.multiply %c, %g : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return %m : tensor<4x8xf32>
}

// -----
// A result of the forward is there anyway, be it an input's new value; so is what a view of it shows.
// CHECK-LABEL: func.func @forward
// CHECK:         func.return %y, %u : tensor<2x3xf32>, tensor<3xf32>
// CHECK:       func.func @backward(%u: tensor<3xf32>, %y: tensor<2x3xf32>, %g: tensor<2x3xf32>)
// CHECK-SAME:    hybrid.saved = array<i64: 3, 2>
// CHECK-NEXT:    [[T:%.*]] = hybrid.transpose %y
// CHECK-NEXT:    hybrid.sum [[T]]
// CHECK:         [[U:%.*]] = hybrid.negative %u
// CHECK-NEXT:    hybrid.multiply {{.*}}[[U]]
func.func @forward(%x: tensor<2x3xf32>, %a: tensor<3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3x2xf32>, tensor<3xf32>) attributes {hybrid.outputs = array<i64: 1>, hybrid.updates = array<i64: 1>} {
  %y = hybrid.exp %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %u = hybrid.exp %a : (tensor<3xf32>) -> tensor<3xf32>
  %t = hybrid.transpose %y : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %n = hybrid.negative %u : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y, %u, %t, %n : tensor<2x3xf32>, tensor<3xf32>, tensor<3x2xf32>, tensor<3xf32>
}
func.func @backward(%t: tensor<3x2xf32>, %n: tensor<3xf32>, %g: tensor<2x3xf32>) -> tensor<2x3xf32> attributes {hybrid.saved = array<i64: 4, 5>} {
  %s = hybrid.sum %t {axis = array<i64: 1>, keepdims = true} : (tensor<3x2xf32>) -> tensor<3x1xf32>
  %r = hybrid.reshape_to %s {shape = array<i64: 3>} : (tensor<3x1xf32>) -> tensor<3xf32>
  %m = hybrid.multiply %r, %n : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %d = hybrid.multiply %g, %m : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  func.return %d : tensor<2x3xf32>
}

// -----
// One product is kept in the place of its mask and of what the mask lets through.
// CHECK-LABEL: func.func @forward
// CHECK:         func.return %y, %h : tensor<2x2xf32>, tensor<2x2xf32>
// CHECK:       func.func @backward(%h: tensor<2x2xf32>, %g: tensor<2x2xf32>)
// CHECK-SAME:    hybrid.saved = array<i64: 2>
func.func @forward(%x: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) attributes {hybrid.outputs = array<i64: 1>} {
  %zero = hybrid.constant {value = 0.0 : f64} : () -> tensor<f32>
  %h = hybrid.matmul %x, %x : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %m = hybrid.greater %h, %zero : (tensor<2x2xf32>, tensor<f32>) -> tensor<2x2xf32>
  %p = hybrid.multiply %h, %m : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %y = hybrid.matmul %p, %p : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %y, %m, %p : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}
func.func @backward(%m: tensor<2x2xf32>, %p: tensor<2x2xf32>, %g: tensor<2x2xf32>) -> tensor<2x2xf32> attributes {hybrid.saved = array<i64: 2, 3>} {
  %a = hybrid.matmul %g, %p : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %d = hybrid.multiply %a, %m : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %d : tensor<2x2xf32>
}

// -----
// Two halves, one of them in another order, are kept as the whole that they show: they would be copied.
// CHECK-LABEL: func.func @forward
// CHECK:         func.return %y, %h : tensor<2x4xf32>, tensor<2x4xf32>
// CHECK:       func.func @backward(%h: tensor<2x4xf32>, %g: tensor<2x4xf32>)
// CHECK-SAME:    hybrid.saved = array<i64: 2>
// CHECK-DAG:     [[R:%.*]] = hybrid.slice_axis %h {axis = 1 : i64, begin = 2 : i64, end = 4 : i64}
// CHECK-DAG:     [[L:%.*]] = hybrid.slice_axis %h {axis = 1 : i64, begin = 0 : i64, end = 2 : i64}
// CHECK:         [[T:%.*]] = hybrid.transpose [[R]]
// CHECK:         hybrid.matmul [[L]], [[T]]
func.func @forward(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x2xf32>, tensor<2x2xf32>) attributes {hybrid.outputs = array<i64: 1>} {
  %h = hybrid.tanh %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %l = hybrid.slice_axis %h {axis = 1 : i64, begin = 0 : i64, end = 2 : i64} : (tensor<2x4xf32>) -> tensor<2x2xf32>
  %r = hybrid.slice_axis %h {axis = 1 : i64, begin = 2 : i64, end = 4 : i64} : (tensor<2x4xf32>) -> tensor<2x2xf32>
  %t = hybrid.transpose %r : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %y = hybrid.sin %h : (tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return %y, %l, %t : tensor<2x4xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}
func.func @backward(%l: tensor<2x2xf32>, %t: tensor<2x2xf32>, %g: tensor<2x4xf32>) -> tensor<2x4xf32> attributes {hybrid.saved = array<i64: 2, 3>} {
  %p = hybrid.matmul %l, %t : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %m = hybrid.matmul %p, %g : (tensor<2x2xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return %m : tensor<2x4xf32>
}

// -----
// Without a backward there is nothing to choose.
// CHECK-LABEL: func.func @forward(%x: tensor<3xf32>) -> tensor<3xf32> {
func.func @forward(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = hybrid.sin %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

// -----
// What only a contraction reads, and is computed from what nothing else reads, is saved: a kernel would write it again.
// CHECK-LABEL: func.func @forward
// CHECK:         func.return %y, %s : tensor<2x2xf32>, tensor<2x2xf32>
// CHECK:       func.func @backward(%s: tensor<2x2xf32>, %g: tensor<2x2xf32>)
func.func @forward(%x: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) attributes {hybrid.outputs = array<i64: 1>} {
  %s = hybrid.square %x : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %y = hybrid.matmul %s, %s : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %y, %s : tensor<2x2xf32>, tensor<2x2xf32>
}
func.func @backward(%s: tensor<2x2xf32>, %g: tensor<2x2xf32>) -> tensor<2x2xf32> attributes {hybrid.saved = array<i64: 2>} {
  %d = hybrid.matmul %g, %s : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %d : tensor<2x2xf32>
}

// -----
// It is computed again where something else reads the same array: one kernel does both.
// CHECK-LABEL: func.func @forward
// CHECK:         func.return %y : tensor<2x2xf32>
// CHECK:       func.func @backward(%x: tensor<2x2xf32>, %g: tensor<2x2xf32>)
// CHECK:         hybrid.square %x
func.func @forward(%x: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) attributes {hybrid.outputs = array<i64: 1>} {
  %s = hybrid.square %x : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %y = hybrid.matmul %s, %s : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %y, %s : tensor<2x2xf32>, tensor<2x2xf32>
}
func.func @backward(%s: tensor<2x2xf32>, %x: tensor<2x2xf32>, %g: tensor<2x2xf32>) -> tensor<2x2xf32> attributes {hybrid.saved = array<i64: 2, 0>} {
  %d = hybrid.matmul %g, %s : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %e = hybrid.multiply %d, %x : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %e : tensor<2x2xf32>
}

// -----
// A view that a contraction reads is none: it is read where it lies.
// CHECK-LABEL: func.func @forward
// CHECK:         func.return %y : tensor<3x3xf32>
// CHECK:       func.func @backward(%x: tensor<2x3xf32>, %g: tensor<3x3xf32>)
func.func @forward(%x: tensor<2x3xf32>) -> (tensor<3x3xf32>, tensor<3x2xf32>) attributes {hybrid.outputs = array<i64: 1>} {
  %t = hybrid.transpose %x : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %y = hybrid.matmul %t, %x : (tensor<3x2xf32>, tensor<2x3xf32>) -> tensor<3x3xf32>
  func.return %y, %t : tensor<3x3xf32>, tensor<3x2xf32>
}
func.func @backward(%t: tensor<3x2xf32>, %g: tensor<3x3xf32>) -> tensor<3x2xf32> attributes {hybrid.saved = array<i64: 2>} {
  %d = hybrid.matmul %g, %t : (tensor<3x3xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  func.return %d : tensor<3x2xf32>
}
