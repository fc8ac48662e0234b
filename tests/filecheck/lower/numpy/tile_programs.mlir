// The tile programs that the numpy target prints.
// RUN: hybridc-opt %s -p 'hybrid-to-linalg,cse,dce,fold-views,cse,dce,fuse-kernels' -t tile-programs | filecheck %s

// CHECK:       // fused_add_tanh_sum
// CHECK-NEXT:  tile_program {
// CHECK:         axes i0 < 5003, i1 < 211
// CHECK-NEXT:    tile i0 by [[N:[0-9]+]] grid masked
// CHECK-NEXT:    tile i1 by 211 whole
// CHECK-NEXT:    parallel i0 {
// CHECK:           map math.tanh
// CHECK-NEXT:      reduce arith.addf {{.*}} over i1
func.func @forward(%x: tensor<5003x211xf32>, %b: tensor<211xf32>) -> tensor<5003x1xf32> {
  %a = hybrid.add %x, %b : (tensor<5003x211xf32>, tensor<211xf32>) -> tensor<5003x211xf32>
  %t = hybrid.tanh %a : (tensor<5003x211xf32>) -> tensor<5003x211xf32>
  %s = hybrid.sum %t {axis = 1 : i64, keepdims = true} : (tensor<5003x211xf32>) -> tensor<5003x1xf32>
  func.return %s : tensor<5003x1xf32>
}
