// Operators registered by attributes, as MXNet's own are: abs, which replaces the built-in one; scalar_op, with a plain
// attribute; Activation, whose attributes are the fields of a structure.
#include <dmlc/parameter.h>
#include <operator_common.h>

namespace mxnet {
namespace op {

NNVM_REGISTER_OP(abs)
.MXNET_DESCRIBE("Take absolute value of the src")
.set_num_inputs(1)
.set_num_outputs(1)
.set_attr<nnvm::FInferShape>("FInferShape", ElemwiseShape<1, 1>)
.set_attr<nnvm::FInferType>("FInferType", ElemwiseType<1, 1>)
.set_attr<nnvm::FInplaceOption>("FInplaceOption",
  [](const NodeAttrs& attrs){
    return std::vector<std::pair<int, int> >{{0, 0}};
  })
.set_attr<FCompute>("FCompute<cpu>", UnaryCompute<cpu, mshadow_op::abs>)
.set_attr<nnvm::FGradient>("FGradient", ElemwiseGradUseIn{"_backward_abs"})
.add_argument("data", "NDArray", "Source input");

NNVM_REGISTER_OP(_backward_abs)
.set_num_inputs(2)
.set_num_outputs(1)
.set_attr<nnvm::FInferShape>("FInferShape", ElemwiseShape<2, 1>)
.set_attr<nnvm::FInferType>("FInferType", ElemwiseType<2, 1>)
.set_attr<nnvm::FInplaceOption>("FInplaceOption",
  [](const NodeAttrs& attrs){
    return std::vector<std::pair<int, int> >{{0, 0}, {1, 0}};
  })
.set_attr<FCompute>("FCompute<cpu>", BinaryCompute<cpu, unary_bwd<mshadow_op::sign> >);

// scalar · data
struct scale {
  template <typename DType>
  static void Map(index_t i, DType* out, const DType* in, double alpha, OpReqType req) {
    KERNEL_ASSIGN(out[i], req, static_cast<DType>(alpha * in[i]));
  }
};

void ScaleCompute(const NodeAttrs& attrs, const OpContext& ctx, const std::vector<TBlob>& inputs,
                  const std::vector<OpReqType>& req, const std::vector<TBlob>& outputs) {
  double alpha = nnvm::get<double>(attrs.parsed);
  MSHADOW_TYPE_SWITCH(outputs[0].type_flag_, DType, {
    mxnet_op::Kernel<scale, cpu>::Launch(ctx.get_stream<cpu>(), outputs[0].Size(), outputs[0].dptr<DType>(),
                                         inputs[0].dptr<DType>(), alpha, req[0]);
  });
}

// The gradient is the same operator on the gradient: it needs neither inputs nor outputs.
NNVM_REGISTER_OP(scalar_op)
.set_num_inputs(1)
.set_num_outputs(1)
.set_attr_parser(
  [](NodeAttrs* attrs) {
    attrs->parsed = std::stod(attrs->dict["scalar"]);
  })
.set_attr<nnvm::FInferShape>("FInferShape", ElemwiseShape<1, 1>)
.set_attr<nnvm::FInferType>("FInferType", ElemwiseType<1, 1>)
.set_attr<FCompute>("FCompute<cpu>", ScaleCompute)
.set_attr<nnvm::FGradient>("FGradient", ElemwiseGradUseNone{"scalar_op"})
.add_argument("data", "NDArray", "Source input")
.add_argument("scalar", "float", "Factor");

namespace activation {
enum ActivationOpType { kReLU, kSigmoid, kTanh, kSoftReLU };
}

struct ActivationParam : public dmlc::Parameter<ActivationParam> {
  // use int for enumeration
  int act_type;
  DMLC_DECLARE_PARAMETER(ActivationParam) {
    DMLC_DECLARE_FIELD(act_type)
    .add_enum("relu", activation::kReLU)
    .add_enum("sigmoid", activation::kSigmoid)
    .add_enum("tanh", activation::kTanh)
    .add_enum("softrelu", activation::kSoftReLU)
    .describe("Activation function to be applied.");
  }
};

void ActivationCompute(const NodeAttrs& attrs, const OpContext& ctx, const std::vector<TBlob>& inputs,
                       const std::vector<OpReqType>& req, const std::vector<TBlob>& outputs) {
  const ActivationParam& param = nnvm::get<ActivationParam>(attrs.parsed);
  switch (param.act_type) {
    case activation::kReLU: return UnaryCompute<cpu, mshadow_op::relu>(attrs, ctx, inputs, req, outputs);
    case activation::kSigmoid: return UnaryCompute<cpu, mshadow_op::sigmoid>(attrs, ctx, inputs, req, outputs);
    case activation::kTanh: return UnaryCompute<cpu, mshadow_op::tanh>(attrs, ctx, inputs, req, outputs);
    default: return UnaryCompute<cpu, mshadow_op::softrelu>(attrs, ctx, inputs, req, outputs);
  }
}

// Each derivative is a function of the result.
void ActivationGradCompute(const NodeAttrs& attrs, const OpContext& ctx, const std::vector<TBlob>& inputs,
                           const std::vector<OpReqType>& req, const std::vector<TBlob>& outputs) {
  const ActivationParam& param = nnvm::get<ActivationParam>(attrs.parsed);
  using namespace mshadow_op;
  switch (param.act_type) {
    case activation::kReLU: return BinaryCompute<cpu, unary_bwd<relu_grad> >(attrs, ctx, inputs, req, outputs);
    case activation::kSigmoid: return BinaryCompute<cpu, unary_bwd<sigmoid_grad> >(attrs, ctx, inputs, req, outputs);
    case activation::kTanh: return BinaryCompute<cpu, unary_bwd<tanh_grad> >(attrs, ctx, inputs, req, outputs);
    default: return BinaryCompute<cpu, unary_bwd<softrelu_grad> >(attrs, ctx, inputs, req, outputs);
  }
}

NNVM_REGISTER_OP(my_activation)
.describe("An elementwise activation function")
.set_num_inputs(1)
.set_num_outputs(1)
.set_attr_parser(ParamParser<ActivationParam>)
.set_attr<nnvm::FListInputNames>("FListInputNames",
  [](const NodeAttrs& attrs) {
    return std::vector<std::string>{"data"};
  })
.set_attr<nnvm::FInferShape>("FInferShape", ElemwiseShape<1, 1>)
.set_attr<nnvm::FInferType>("FInferType", ElemwiseType<1, 1>)
.set_attr<FCompute>("FCompute<cpu>", ActivationCompute)
.set_attr<nnvm::FGradient>("FGradient", ElemwiseGradUseOut{"_backward_my_activation"})
.add_argument("data", "NDArray", "Source input")
.add_arguments(ActivationParam::__FIELDS__());

NNVM_REGISTER_OP(_backward_my_activation)
.set_num_inputs(2)
.set_num_outputs(1)
.set_attr_parser(ParamParser<ActivationParam>)
.set_attr<nnvm::TIsBackward>("TIsBackward", true)
.set_attr<FCompute>("FCompute<cpu>", ActivationGradCompute);

}  // namespace op
}  // namespace mxnet
