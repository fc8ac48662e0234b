// The graph in upstream's dialects; each operator is asked for what it is.
// RUN: hybridc-opt %s -p hybrid-to-linalg | filecheck %s

// An elementwise operator is one linalg.generic with its scalar body; a number is a constant of the body, and what
// broadcasts does so by its indexing map.
// CHECK-LABEL: func.func @elementwise
// CHECK-NEXT:    [[R:%.*]] = tensor.collapse_shape %b {{.*}} : tensor<1x3xf32> into tensor<3xf32>
// CHECK-NEXT:    [[E:%.*]] = tensor.empty() : tensor<2x3xf32>
// CHECK-NEXT:    %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%a, [[R]] : tensor<2x3xf32>, tensor<3xf32>) outs([[E]] : tensor<2x3xf32>) attrs =  {hybrid.operator = "add"} {
// CHECK-NEXT:    ^bb0([[A:%.*]]: f32, [[B:%.*]]: f32, {{%.*}}: f32):
// CHECK-NEXT:      [[S:%.*]] = arith.addf [[A]], [[B]] : f32
// CHECK-NEXT:      linalg.yield [[S]] : f32
// CHECK-NEXT:    } -> tensor<2x3xf32>
// CHECK:         %z = linalg.generic {{.*}} ins(%y : tensor<2x3xf32>)
// CHECK:           [[TWO:%.*]] = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      arith.mulf {{%.*}}, [[TWO]] : f32
// CHECK:         func.return %z : tensor<2x3xf32>
func.func @elementwise(%a: tensor<2x3xf32>, %b: tensor<1x3xf32>) -> tensor<2x3xf32> {
  %y = hybrid.add %a, %b : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  %two = hybrid.constant {value = 2.0 : f64} : () -> tensor<f32>
  %z = hybrid.multiply %y, %two : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  func.return %z : tensor<2x3xf32>
}

// A reduction runs from its neutral element. What reads its result needs no reshape; what returns it does.
// CHECK-LABEL: func.func @reduction
// CHECK-NEXT:    [[LOW:%.*]] = arith.constant 0xff800000 : f32
// CHECK-NEXT:    [[E:%.*]] = tensor.empty() : tensor<2xf32>
// CHECK-NEXT:    [[START:%.*]] = linalg.fill ins([[LOW]] : f32) outs([[E]] : tensor<2xf32>) -> tensor<2xf32>
// CHECK-NEXT:    [[M:%.*]] = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<2x3xf32>) outs([[START]] : tensor<2xf32>) attrs =  {hybrid.operator = "max"} {
// CHECK:           arith.maximumf
// CHECK:         %d = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, [[M]] : tensor<2x3xf32>, tensor<2xf32>)
// CHECK:         [[R:%.*]] = tensor.expand_shape [[M]] {{.*}} output_shape [2, 1] {hybrid.operator = "max"} : tensor<2xf32> into tensor<2x1xf32>
// CHECK-NEXT:    func.return %d, [[R]]
func.func @reduction(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x1xf32>) {
  %m = hybrid.max %x {axis = 1 : i64, keepdims = true} : (tensor<2x3xf32>) -> tensor<2x1xf32>
  %d = hybrid.subtract %x, %m : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  func.return %d, %m : tensor<2x3xf32>, tensor<2x1xf32>
}

// A sum of half precision adds up in single; its one element becomes an array by a reshape.
// CHECK-LABEL: func.func @half
// CHECK:         linalg.generic {{.*}} ins(%x : tensor<8xf16>) outs({{%.*}} : tensor<f32>)
// CHECK:           arith.extf {{.*}} : f16 to f32
// CHECK:           arith.addf {{.*}} : f32
// CHECK:           arith.truncf {{.*}} : f32 to f16
// CHECK:         tensor.expand_shape %s {{\[\]}} output_shape [1] {hybrid.operator = "sum"} : tensor<f16> into tensor<1xf16>
func.func @half(%x: tensor<8xf16>) -> tensor<1xf16> {
  %s = hybrid.sum %x {axis = 0 : i64, keepdims = true} : (tensor<8xf16>) -> tensor<1xf16>
  func.return %s : tensor<1xf16>
}

// A plain product is linalg.matmul; a transposed input or a stack is what its loops say.
// CHECK-LABEL: func.func @contraction
// CHECK:         %y = linalg.matmul {hybrid.operator = "matmul"} ins(%a, %b : tensor<2x3xf32>, tensor<3x4xf32>) outs({{%.*}} : tensor<2x4xf32>) -> tensor<2x4xf32>
// CHECK:         %z = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %c :
// CHECK:           arith.mulf
// CHECK-NEXT:      arith.addf
func.func @contraction(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>, %c: tensor<4x3xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %y = hybrid.matmul %a, %b : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %z = hybrid.matmul %a, %c {transpose_b = true} : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
  func.return %y, %z : tensor<2x4xf32>, tensor<2x4xf32>
}

// Loops of size 1 are left out: of elementwise operators, of reductions, of products. What else reads the result has
// its axes of size 1 by a view; a product over one element is elementwise.
// CHECK-LABEL: func.func @units
// CHECK-NEXT:    [[X:%.*]] = tensor.collapse_shape %x {{.*}} : tensor<2x1x3xf32> into tensor<2x3xf32>
// CHECK:         linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]} ins([[X]] : tensor<2x3xf32>)
// CHECK:           math.exp
// CHECK:         %s = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
// CHECK:         [[V:%.*]] = tensor.collapse_shape %v {{.*}} : tensor<1x3xf32> into tensor<3xf32>
// CHECK:         %p = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins([[V]], %w :
// CHECK:         %o = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%p, [[V]] :
// CHECK:           arith.mulf
// CHECK-NEXT:      linalg.yield
// CHECK:         [[S:%.*]] = tensor.expand_shape %s {{.*}} output_shape [1, 1, 3] {hybrid.operator = "sum"} : tensor<3xf32> into tensor<1x1x3xf32>
// CHECK-NEXT:    func.return [[S]], %o
func.func @units(%x: tensor<2x1x3xf32>, %v: tensor<1x3xf32>, %w: tensor<4x3xf32>) -> (tensor<1x1x3xf32>, tensor<4x3xf32>) {
  %y = hybrid.exp %x : (tensor<2x1x3xf32>) -> tensor<2x1x3xf32>
  %s = hybrid.sum %y {axis = [0 : i64, 1 : i64], keepdims = true} : (tensor<2x1x3xf32>) -> tensor<1x1x3xf32>
  %p = hybrid.matmul %v, %w {transpose_b = true} : (tensor<1x3xf32>, tensor<4x3xf32>) -> tensor<1x4xf32>
  %o = hybrid.matmul %p, %v {transpose_a = true} : (tensor<1x4xf32>, tensor<1x3xf32>) -> tensor<4x3xf32>
  func.return %s, %o : tensor<1x1x3xf32>, tensor<4x3xf32>
}

// Movements: reshapes collapse and expand, boxes are slices; what goes backwards is read by an affine map, and what
// indices pick by loops that know their place.
// CHECK-LABEL: func.func @movement
// CHECK-NEXT:    [[C:%.*]] = tensor.collapse_shape %x {{.*}} : tensor<2x6xf32> into tensor<12xf32>
// CHECK-NEXT:    %r = tensor.expand_shape [[C]] {{.*}} output_shape [3, 4] {{.*}} : tensor<12xf32> into tensor<3x4xf32>
// CHECK:         %t = linalg.transpose ins(%r:tensor<3x4xf32>) outs({{%.*}}:tensor<4x3xf32>) permutation = [1, 0]
// CHECK-NEXT:    %u = tensor.extract_slice %t[1, 0] [2, 3] [2, 1] {{.*}} : tensor<4x3xf32> to tensor<2x3xf32>
// CHECK:         %s = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (((d0 * -1) + 1), d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%u : tensor<2x3xf32>)
// CHECK:         linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<2xi32>)
// CHECK:           linalg.index 1 : index
// CHECK:           arith.extsi
// CHECK:           arith.maxsi
// CHECK:           arith.minsi
// CHECK:           tensor.extract %s[{{%.*}}, {{%.*}}] : tensor<2x3xf32>
func.func @movement(%x: tensor<2x6xf32>, %i: tensor<2xi32>) -> tensor<2x3xf32> {
  %r = hybrid.reshape_to %x {shape = array<i64: 3, 4>} : (tensor<2x6xf32>) -> tensor<3x4xf32>
  %t = hybrid.transpose %r : (tensor<3x4xf32>) -> tensor<4x3xf32>
  %u = hybrid.slice %t {begin = [1 : i64], end = [none], step = [2 : i64]} : (tensor<4x3xf32>) -> tensor<2x3xf32>
  %s = hybrid.flip %u {axis = 0 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %g = hybrid.take %s, %i : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<2x3xf32>
  func.return %g : tensor<2x3xf32>
}

// Of a small array each element finds out whether it is inserted; arrays are put together as a whole.
// CHECK-LABEL: func.func @parts
// CHECK:         %a = linalg.generic
// CHECK:           tensor.extract %x
// CHECK:           arith.select
// CHECK:         %b = tensor.concat dim(0) %a, %a
func.func @parts(%x: tensor<2x3xf32>) -> tensor<8x3xf32> {
  %a = hybrid.slice_scatter %x {shape = array<i64: 4, 3>, begin = [1 : i64], end = [3 : i64]} : (tensor<2x3xf32>) -> tensor<4x3xf32>
  %b = hybrid.concat %a, %a {dim = 0 : i64} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
  func.return %b : tensor<8x3xf32>
}

// Upstream integers have no sign: functions and operations say which ones are unsigned, bodies treat them so.
// CHECK-LABEL: func.func @unsigned
// CHECK-SAME:    (%x: tensor<4xi8>, %y: tensor<4xi8>) -> tensor<4xi8> attributes {hybrid.dtypes = ["uint8", "uint8", "uint8"]}
// CHECK:         %z = linalg.generic {{.*}} attrs =  {hybrid.operator = "maximum", hybrid.dtype = "uint8"}
// CHECK:           arith.maxui
func.func @unsigned(%x: tensor<4xui8>, %y: tensor<4xui8>) -> tensor<4xui8> {
  %z = hybrid.maximum %x, %y : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xui8>
  func.return %z : tensor<4xui8>
}

// What upstream cannot say is a call of the host, declared once: sorting, and functions that `math` lacks.
// CHECK-LABEL: func.func @host
// CHECK-NEXT:    {{%.*}} = func.call @host_sort(%x) : (tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT:    {{%.*}} = func.call @host_sort({{%.*}}) : (tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT:    {{%.*}} = func.call @host_sort_1({{%.*}}) : (tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT:    {{%.*}} = func.call @host_gamma({{%.*}}) : (tensor<4xf32>) -> tensor<4xf32>
// CHECK:       func.func private @host_sort(tensor<4xf32>) -> tensor<4xf32> attributes {hybrid.operator = "hybrid.sort", hybrid.attributes = {}}
// CHECK-NEXT:  func.func private @host_sort_1(tensor<4xf32>) -> tensor<4xf32> attributes {hybrid.operator = "hybrid.sort", hybrid.attributes = {is_ascend = false}}
// CHECK-NEXT:  func.func private @host_gamma
func.func @host(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = hybrid.sort %x : (tensor<4xf32>) -> tensor<4xf32>
  %b = hybrid.sort %a : (tensor<4xf32>) -> tensor<4xf32>
  %c = hybrid.sort %b {is_ascend = false} : (tensor<4xf32>) -> tensor<4xf32>
  %d = hybrid.gamma %c : (tensor<4xf32>) -> tensor<4xf32>
  func.return %d : tensor<4xf32>
}
