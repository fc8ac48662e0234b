// Operators by attributes: gradients of several kinds, parameters of every type, counts that follow from attributes.
#include <string>
#include <vector>

#include <dmlc/parameter.h>
#include <operator_common.h>

namespace mxnet {
namespace op {

// Two inputs and two outputs: product and quotient. The gradient uses everything.
void MulDiv(const NodeAttrs& attrs, const OpContext& ctx, const std::vector<TBlob>& in,
            const std::vector<OpReqType>& req, const std::vector<TBlob>& out) {
  BinaryCompute<cpu, mshadow_op::mul>(attrs, ctx, in, {req[0]}, {out[0]});
  BinaryCompute<cpu, mshadow_op::div>(attrs, ctx, in, {req[1]}, {out[1]});
}
// dp, dq, a, b, p, q → da, db
void MulDivGrad(const NodeAttrs& attrs, const OpContext& ctx, const std::vector<TBlob>& in,
                const std::vector<OpReqType>& req, const std::vector<TBlob>& out) {
  CHECK_EQ(in.size(), 6U) << "arrays";
  MSHADOW_REAL_TYPE_SWITCH(out[0].type_flag_, DType, {
    DType *dp = in[0].dptr<DType>(), *dq = in[1].dptr<DType>(), *a = in[2].dptr<DType>(), *b = in[3].dptr<DType>();
    DType* q = in[5].dptr<DType>();
    for (size_t i = 0; i < out[0].Size(); ++i) {
      KERNEL_ASSIGN(out[0].dptr<DType>()[i], req[0], dp[i] * b[i] + dq[i] / b[i]);
      KERNEL_ASSIGN(out[1].dptr<DType>()[i], req[1], dp[i] * a[i] - dq[i] * q[i] / b[i]);
    }
  });
}
NNVM_REGISTER_OP(mul_div)
.describe("a * b and a / b")
.set_num_inputs(2)
.set_num_outputs(2)
.add_alias("mul_div_too")
.set_attr<nnvm::FInferShape>("FInferShape", ElemwiseShape<2, 2>)
.set_attr<nnvm::FInferType>("FInferType", ElemwiseType<2, 2>)
.set_attr<FCompute>("FCompute<cpu>", MulDiv)
.set_attr<nnvm::FGradient>("FGradient", ElemwiseGradUseInOut{"_backward_mul_div"});
NNVM_REGISTER_OP(_backward_mul_div)
.set_num_inputs(6)
.set_num_outputs(2)
.set_attr<nnvm::TIsBackward>("TIsBackward", true)
.set_attr<FCompute>("FCompute<cpu>", MulDivGrad);

// A gradient of several nodes, with intermediates: d sin(a)·b = dy·cos(a)·b, dy·sin(a); and one that is passed on.
NNVM_REGISTER_OP(t_sin)
.set_attr<nnvm::FInferShape>("FInferShape", ElemwiseShape<1, 1>)
.set_attr<FCompute>("FCompute<cpu>", UnaryCompute<cpu, mshadow_op::sin>);
NNVM_REGISTER_OP(t_cos)
.set_attr<nnvm::FInferShape>("FInferShape", ElemwiseShape<1, 1>)
.set_attr<FCompute>("FCompute<cpu>", UnaryCompute<cpu, mshadow_op::cos>);
NNVM_REGISTER_OP(t_mul)
.set_num_inputs(2)
.set_attr<nnvm::FInferShape>("FInferShape", ElemwiseShape<2, 1>)
.set_attr<nnvm::FInferType>("FInferType", ElemwiseType<2, 1>)
.set_attr<FCompute>("FCompute<cpu>", BinaryCompute<cpu, mshadow_op::mul>);

void SinMul(const NodeAttrs& attrs, const OpContext& ctx, const std::vector<TBlob>& in,
            const std::vector<OpReqType>& req, const std::vector<TBlob>& out) {
  UnaryCompute<cpu, mshadow_op::sin>(attrs, ctx, {in[0]}, req, out);
  BinaryCompute<cpu, mshadow_op::mul>(attrs, ctx, {out[0], in[1]}, req, out);
  BinaryCompute<cpu, mshadow_op::plus>(attrs, ctx, {out[0], in[2]}, req, out);
}
std::vector<nnvm::NodeEntry> SinMulGradient(const nnvm::NodePtr& n, const std::vector<nnvm::NodeEntry>& dy) {
  const nnvm::NodeEntry &a = n->inputs[0], &b = n->inputs[1];
  nnvm::NodeEntry cosine = MakeGradNode("t_cos", n, {a}, {})[0], sine = MakeGradNode("t_sin", n, {a}, {})[0];
  nnvm::NodeEntry slope = MakeGradNode("t_mul", n, {cosine, b}, {})[0];
  return {MakeGradNode("t_mul", n, {slope, dy[0]}, {})[0], MakeGradNode("t_mul", n, {sine, dy[0]}, {})[0], dy[0],
          nnvm::NodeEntry()};
}
NNVM_REGISTER_OP(sin_mul_add)  // sin(a)·b + c; d has no part
.set_num_inputs(4)
.set_attr<nnvm::FInferShape>("FInferShape", ElemwiseShape<4, 1>)
.set_attr<FCompute>("FCompute<cpu>", SinMul)
.set_attr<nnvm::FGradient>("FGradient", SinMulGradient);

NNVM_REGISTER_OP(lost_gradient)
.set_attr<nnvm::FInferShape>("FInferShape", ElemwiseShape<1, 1>)
.set_attr<FCompute>("FCompute<cpu>", UnaryCompute<cpu, mshadow_op::exp>)
.set_attr<nnvm::FGradient>("FGradient", ElemwiseGradUseOut{"_backward_nowhere"});

// Every type of field; the output tells what was read.
struct AllParam : public dmlc::Parameter<AllParam> {
  int count;
  int64_t large;
  float real;
  double fine;
  bool flag;
  std::string text;
  TShape shape;
  DMLC_DECLARE_PARAMETER(AllParam) {
    DMLC_DECLARE_FIELD(count).set_range(1, 8).describe("Number of inputs.");
    DMLC_DECLARE_FIELD(large).set_default(-5).set_lower_bound(-10);
    DMLC_DECLARE_FIELD(real).set_default(0.5f);
    DMLC_DECLARE_FIELD(fine).set_default(0.25);
    DMLC_DECLARE_FIELD(flag).set_default(false);
    DMLC_DECLARE_FIELD(text).set_default("none");
    DMLC_DECLARE_FIELD(shape).set_default(TShape({2, 3}));
  }
};
DMLC_REGISTER_PARAMETER(AllParam);

NNVM_REGISTER_OP(all_params)
.set_num_inputs([](const NodeAttrs& attrs) { return static_cast<uint32_t>(nnvm::get<AllParam>(attrs.parsed).count); })
.set_num_outputs(1)
.set_attr_parser(ParamParser<AllParam>)
.add_arguments(AllParam::__FIELDS__())
.set_attr<nnvm::FMutateInputs>("FMutateInputs", [](const NodeAttrs& attrs) {
  return std::vector<uint32_t>{static_cast<uint32_t>(nnvm::get<AllParam>(attrs.parsed).count) - 1};
})
.set_attr<nnvm::FInferShape>("FInferShape", [](const NodeAttrs& attrs, std::vector<TShape>* in,
                                               std::vector<TShape>* out) {
  const AllParam& param = nnvm::get<AllParam>(attrs.parsed);
  for (size_t i = 0; i < in->size(); ++i) SHAPE_ASSIGN_CHECK(*in, i, param.shape);
  SHAPE_ASSIGN_CHECK(*out, 0, TShape({6 + static_cast<dim_t>(param.text.size())}));
  return true;
})
.set_attr<nnvm::FInferType>("FInferType", [](const NodeAttrs& attrs, std::vector<int>* in, std::vector<int>* out) {
  for (size_t i = 0; i < in->size(); ++i) TYPE_ASSIGN_CHECK(*in, i, mshadow::kInt32);
  TYPE_ASSIGN_CHECK(*out, 0, mshadow::kFloat64);
  return true;
})
.set_attr<FCompute>("FCompute<cpu>", [](const NodeAttrs& attrs, const OpContext& ctx, const std::vector<TBlob>& in,
                                        const std::vector<OpReqType>& req, const std::vector<TBlob>& out) {
  const AllParam& param = nnvm::get<AllParam>(attrs.parsed);
  double told[] = {double(param.count), double(param.large), param.real, param.fine, double(param.flag),
                   double(param.shape.Size())};
  double* to = out[0].dptr<double>();
  to = std::copy(told, told + 6, to);
  for (char c : param.text) *to++ = c;
});

// Registered in two places; a higher level wins, whatever the order.
NNVM_REGISTER_OP(two_places).set_attr<std::string>("TOrigin", "first", 11);
NNVM_REGISTER_OP(two_places)
.set_attr<std::string>("TOrigin", "second")
.set_attr<nnvm::FInferShape>("FInferShape", ElemwiseShape<1, 1>)
.set_attr<FCompute>("FCompute<cpu>", [](const NodeAttrs& attrs, const OpContext& ctx, const std::vector<TBlob>& in,
                                        const std::vector<OpReqType>& req, const std::vector<TBlob>& out) {
  nnvm::OpMap<std::string> origins = nnvm::Op::GetAttr<std::string>("TOrigin");
  CHECK_EQ(origins.count(nnvm::Op::Get("mul_div")), 0);
  CHECK_EQ(origins.get(nnvm::Op::Get("mul_div"), "none"), "none");
  out[0].dptr<float>()[0] = origins[attrs.op] == "first" ? 1.0f : 2.0f;
});

// Writes past what an exception can tell: a parsed value of another type.
NNVM_REGISTER_OP(wrong_get)
.set_attr_parser([](NodeAttrs* attrs) { attrs->parsed = 1; })
.set_attr<nnvm::FInferShape>("FInferShape", [](const NodeAttrs& attrs, std::vector<TShape>*, std::vector<TShape>*) {
  return nnvm::get<double>(attrs.parsed) > 0;
})
.set_attr<FCompute>("FCompute<cpu>", UnaryCompute<cpu, mshadow_op::identity>);

}  // namespace op
}  // namespace mxnet
