// Operators registered as MXNet's own are, by attributes under names, as a library that hybridc and MXNet 1.9 load.
//
//     #include <hybridc/nnvm.h>
//     namespace mxnet {
//     namespace op {
//     NNVM_REGISTER_OP(swish)
//     .describe("x * sigmoid(x)")
//     .set_num_inputs(1)
//     .set_num_outputs(1)
//     .set_attr<nnvm::FInferShape>("FInferShape", ElemwiseShape<1, 1>)
//     .set_attr<nnvm::FInferType>("FInferType", ElemwiseType<1, 1>)
//     .set_attr<FCompute>("FCompute<cpu>", ...)
//     .set_attr<nnvm::FGradient>("FGradient", ElemwiseGradUseIn{"_backward_swish"});
//     }  // namespace op
//     }  // namespace mxnet
//
// An operator with FCompute becomes one of the library's; gradients run inside the library, through the operators that
// FGradient names, which stay internal when TIsBackward is true or their name begins with "_backward". What the binary
// interface has no place for is kept for the library's own use (nnvm::Op::GetAttr) and has no effect on the host:
// FInplaceOption, FNumVisibleOutputs, the names of inputs and outputs, descriptions. `req` is kWriteTo.
//
// initialize() is defined here; an author who writes it defines HYBRIDC_OWN_INITIALIZE before.
#ifndef HYBRIDC_NNVM_H_
#define HYBRIDC_NNVM_H_

#include "extension.h"
#include "nnvm/logging.h"
#include "nnvm/shape.h"
#include "nnvm/parameter.h"
#include "nnvm/op.h"
#include "nnvm/compute.h"
#include "nnvm/scalar_functions.h"
#include "nnvm/elemwise.h"
#include "nnvm/gradient.h"
#include "nnvm/export.h"

#ifndef HYBRIDC_OWN_INITIALIZE
HYBRIDC_ABI ::hybridc::extension::MXReturnValue initialize(int) { return ::hybridc::extension::MX_SUCCESS; }
#endif

#endif  // HYBRIDC_NNVM_H_
