// Half of a library: the other source file registers operators too.
#include <hybridc/nnvm.h>

namespace mxnet {
namespace op {
NNVM_REGISTER_OP(second).set_attr<FCompute>("FCompute<cpu>", UnaryCompute<cpu, mshadow_op::negation>);
}  // namespace op
}  // namespace mxnet

REGISTER_OP(third).setParseAttrs([](const hybridc::extension::Attributes&, int* in, int* out) {
  throw std::runtime_error("told by the second file");
  return false;
});
