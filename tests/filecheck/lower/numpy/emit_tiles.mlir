// Large kernels walk their domain in tiles, shared by threads; the last one may be smaller than the others.
// RUN: hybridc-opt %s -p 'hybrid-to-linalg,cse,dce,fold-views,cse,dce,fuse-kernels,tile-kernels{threads=2},plan-memory,verify-plan' -t numpy | filecheck %s
// RUN: hybridc-opt %s -p 'hybrid-to-linalg,cse,dce,fold-views,cse,dce,fuse-kernels,tile-kernels{threads=1},plan-memory,verify-plan' -t 'numpy{threads=1}' | filecheck %s --check-prefix ONE

// CHECK:       from hybridc.lower.numpy.tile_threads import parallel
// CHECK:       def fused_add_tanh_sum(x0, x1, y0, scratch):
// CHECK-NEXT:      """Over 5003x211 in tiles of {{.*}}, shared by 2 threads."""
// CHECK:           def tiles(lo, hi, scratch):
// CHECK:               for i in range(lo, hi, [[N:[0-9]+]]):
// CHECK-NEXT:              j = min(i + [[N]], hi)
// CHECK:                   np.add(x0[i:j], x1, out=
// CHECK:                   np.einsum("ij->i", {{.*}}, out=y0[i:j])
// CHECK:           parallel(tiles, 5003, [[N]],

// ONE-NOT:     parallel
// ONE:         for i in range(0, 5003, [[N:[0-9]+]]):
// ONE-NEXT:        j = min(i + [[N]], 5003)
func.func @forward(%x: tensor<5003x211xf32>, %b: tensor<211xf32>) -> tensor<5003x1xf32> {
  %a = hybrid.add %x, %b : (tensor<5003x211xf32>, tensor<211xf32>) -> tensor<5003x211xf32>
  %t = hybrid.tanh %a : (tensor<5003x211xf32>) -> tensor<5003x211xf32>
  %s = hybrid.sum %t {axis = 1 : i64, keepdims = true} : (tensor<5003x211xf32>) -> tensor<5003x1xf32>
  func.return %s : tensor<5003x1xf32>
}
