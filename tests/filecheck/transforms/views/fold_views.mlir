// Reshapes and transposes between loops disappear into the loops.
// RUN: hybridc-opt %s -p fold-views | filecheck %s

// What is transposed is read by another map; twice transposed is nothing.
// CHECK-LABEL: func.func @transposed
// CHECK-NEXT:    [[E:%.*]] = tensor.empty() : tensor<3x2xf32>
// CHECK-NEXT:    %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %b : tensor<2x3xf32>, tensor<3x2xf32>) outs([[E]] : tensor<3x2xf32>) attrs =  {hybrid.operator = "add"}
// CHECK-NOT:     linalg.transpose
func.func @transposed(%x: tensor<2x3xf32>, %b: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %e = tensor.empty() : tensor<3x2xf32>
  %t = linalg.transpose ins(%x:tensor<2x3xf32>) outs(%e:tensor<3x2xf32>) permutation = [1, 0]
  %f = tensor.empty() : tensor<2x3xf32>
  %u = linalg.transpose ins(%b:tensor<3x2xf32>) outs(%f:tensor<2x3xf32>) permutation = [1, 0]
  %v = linalg.transpose ins(%u:tensor<2x3xf32>) outs(%e:tensor<3x2xf32>) permutation = [1, 0]
  %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%t, %v : tensor<3x2xf32>, tensor<3x2xf32>) outs(%e : tensor<3x2xf32>) attrs = {hybrid.operator = "add"} {
  ^bb0(%0: f32, %1: f32, %2: f32):
    %3 = arith.addf %0, %1 : f32
    linalg.yield %3 : f32
  } -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// Loops on both sides of a reshape take its finer shape; the argument is seen in that shape, too.
// CHECK-LABEL: func.func @finer
// CHECK:         [[X:%.*]] = tensor.expand_shape %x {{.*}} output_shape [2, 3, 5]{{.*}} : tensor<6x5xf32> into tensor<2x3x5xf32>
// CHECK:         %y = linalg.generic {{.*}} ins([[X]] : tensor<2x3x5xf32>) {{.*}} attrs =  {hybrid.operator = "exp"}
// CHECK:         %z = linalg.generic {{.*}} ins(%y, %b : tensor<2x3x5xf32>, tensor<2x3x5xf32>) {{.*}} attrs =  {hybrid.operator = "add"}
// CHECK-NOT:     tensor.expand_shape
// CHECK:         func.return %z
func.func @finer(%x: tensor<6x5xf32>, %b: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %e = tensor.empty() : tensor<6x5xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<6x5xf32>) outs(%e : tensor<6x5xf32>) attrs = {hybrid.operator = "exp"} {
  ^bb0(%0: f32, %1: f32):
    %2 = math.exp %0 : f32
    linalg.yield %2 : f32
  } -> tensor<6x5xf32>
  %s = tensor.expand_shape %y [[0 : i64, 1 : i64], [2 : i64]] output_shape [2, 3, 5] : tensor<6x5xf32> into tensor<2x3x5xf32>
  %f = tensor.empty() : tensor<2x3x5xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s, %b : tensor<2x3x5xf32>, tensor<2x3x5xf32>) outs(%f : tensor<2x3x5xf32>) attrs = {hybrid.operator = "add"} {
  ^bb0(%3: f32, %4: f32, %5: f32):
    %6 = arith.addf %3, %4 : f32
    linalg.yield %6 : f32
  } -> tensor<2x3x5xf32>
  func.return %z : tensor<2x3x5xf32>
}

// The heads of attention: the product reads them transposed, and writes its result in the order in which they are
// merged for the next product, over whose summed axis they lie side by side.
// CHECK-LABEL: func.func @heads
// CHECK-NOT:     linalg.transpose
// CHECK:         [[H:%.*]] = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d1, d0, d3)>, affine_map<(d0, d1, d2, d3) -> (d1, d3, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%p, %v : tensor<2x3x3xf32>, tensor<2x3x4xf32>) outs({{%.*}} : tensor<3x2x4xf32>)
// CHECK:         [[M:%.*]] = tensor.collapse_shape [[H]] {{\[\[0 : i64\], \[1 : i64, 2 : i64\]\]}} : tensor<3x2x4xf32> into tensor<3x8xf32>
// CHECK:         %o = linalg.matmul ins([[M]], %w : tensor<3x8xf32>, tensor<8x5xf32>)
func.func @heads(%p: tensor<2x3x3xf32>, %v: tensor<2x3x4xf32>, %w: tensor<8x5xf32>) -> tensor<3x5xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x3x4xf32>
  %s = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %h = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d3, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%p, %v : tensor<2x3x3xf32>, tensor<2x3x4xf32>) outs(%s : tensor<2x3x4xf32>) {
  ^bb0(%0: f32, %1: f32, %2: f32):
    %3 = arith.mulf %0, %1 : f32
    %4 = arith.addf %2, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<2x3x4xf32>
  %f = tensor.empty() : tensor<3x2x4xf32>
  %t = linalg.transpose ins(%h:tensor<2x3x4xf32>) outs(%f:tensor<3x2x4xf32>) permutation = [1, 0, 2]
  %m = tensor.collapse_shape %t [[0 : i64], [1 : i64, 2 : i64]] : tensor<3x2x4xf32> into tensor<3x8xf32>
  %g = tensor.empty() : tensor<3x5xf32>
  %r = linalg.fill ins(%zero : f32) outs(%g : tensor<3x5xf32>) -> tensor<3x5xf32>
  %o = linalg.matmul ins(%m, %w : tensor<3x8xf32>, tensor<8x5xf32>) outs(%r : tensor<3x5xf32>) -> tensor<3x5xf32>
  func.return %o : tensor<3x5xf32>
}

// A slice of a transposed argument is a transposed slice, which a call takes as it is; what it takes reshaped, and what
// is returned, must lie in a row: copies.
// CHECK-LABEL: func.func @rows
// CHECK-NEXT:    [[S:%.*]] = tensor.extract_slice %x[0, 1] [4, 2] [1, 1] : tensor<4x6xf32> to tensor<4x2xf32>
// CHECK-NEXT:    [[E:%.*]] = tensor.empty() : tensor<2x4xf32>
// CHECK-NEXT:    [[T:%.*]] = linalg.transpose ins([[S]]:tensor<4x2xf32>) outs([[E]]:tensor<2x4xf32>) permutation = [1, 0]
// CHECK-NEXT:    %a = func.call @sorted([[T]])
// CHECK-NEXT:    [[C:%.*]] = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins([[S]] : tensor<4x2xf32>) outs([[E]] : tensor<2x4xf32>)
// CHECK:         [[F:%.*]] = tensor.collapse_shape [[C]] {{.*}} : tensor<2x4xf32> into tensor<8xf32>
// CHECK-NEXT:    %b = func.call @flat([[F]])
// CHECK-NEXT:    [[D:%.*]] = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins([[S]] : tensor<4x2xf32>) outs([[E]] : tensor<2x4xf32>)
// CHECK:         func.return %a, %b, [[D]]
func.func @rows(%x: tensor<4x6xf32>) -> (tensor<2x4xf32>, tensor<8xf32>, tensor<2x4xf32>) {
  %e = tensor.empty() : tensor<6x4xf32>
  %t = linalg.transpose ins(%x:tensor<4x6xf32>) outs(%e:tensor<6x4xf32>) permutation = [1, 0]
  %s = tensor.extract_slice %t[1, 0] [2, 4] [1, 1] : tensor<6x4xf32> to tensor<2x4xf32>
  %a = func.call @sorted(%s) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %c = tensor.collapse_shape %s [[0 : i64, 1 : i64]] : tensor<2x4xf32> into tensor<8xf32>
  %b = func.call @flat(%c) : (tensor<8xf32>) -> tensor<8xf32>
  func.return %a, %b, %s : tensor<2x4xf32>, tensor<8xf32>, tensor<2x4xf32>
}
func.func private @sorted(tensor<2x4xf32>) -> tensor<2x4xf32> attributes {hybrid.operator = "hybrid.sort", hybrid.attributes = {}}
func.func private @flat(tensor<8xf32>) -> tensor<8xf32> attributes {hybrid.operator = "hybrid.sort", hybrid.attributes = {}}

// One number everywhere is that number in bodies; where a sum starts it stays.
// CHECK-LABEL: func.func @number
// CHECK:         %y = linalg.generic {{.*}} ins(%x : tensor<2x3xf32>)
// CHECK-NEXT:    ^bb0([[A:%.*]]: f32, {{%.*}}: f32):
// CHECK-NEXT:      [[ONE:%.*]] = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:      arith.addf [[A]], [[ONE]] : f32
func.func @number(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<6xf32>
  %f = linalg.fill ins(%one : f32) outs(%e : tensor<6xf32>) -> tensor<6xf32>
  %o = tensor.expand_shape %f [[0 : i64, 1 : i64]] output_shape [2, 3] : tensor<6xf32> into tensor<2x3xf32>
  %i = tensor.empty() : tensor<2x3xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %o : tensor<2x3xf32>, tensor<2x3xf32>) outs(%i : tensor<2x3xf32>) attrs = {hybrid.operator = "add"} {
  ^bb0(%0: f32, %1: f32, %2: f32):
    %3 = arith.addf %0, %1 : f32
    linalg.yield %3 : f32
  } -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}
