// From nnvm's tables to the library's operators.
#ifndef HYBRIDC_NNVM_EXPORT_H_
#define HYBRIDC_NNVM_EXPORT_H_

#include <string>
#include <vector>

#include "../extension/operators.h"
#include "gradient.h"
#include "op.h"

namespace mxnet {
namespace op {
namespace library {

using hybridc::extension::Attributes;
using hybridc::extension::MXReturnValue;
using hybridc::extension::MX_SUCCESS;
using hybridc::extension::OpResource;
using hybridc::extension::Shapes;
using hybridc::extension::Tensors;
using hybridc::extension::Types;

inline std::vector<TBlob> blobs(const Tensors& tensors, size_t first, size_t last) {
  std::vector<TBlob> all;
  for (size_t i = first; i < last; ++i) {
    const hybridc::extension::MXTensor& tensor = tensors.at(i);
    all.push_back(TBlob(tensor.data_ptr, TShape(tensor.shape.begin(), tensor.shape.end()), tensor.dtype,
                        tensor.ctx.dev_type == "gpu" ? gpu::kDevMask : cpu::kDevMask));
  }
  return all;
}

inline OpContext context(const OpResource& resource) {
  OpContext ctx;
  ctx.is_train = true;
  ctx.resource = &resource;
  return ctx;
}

inline MXReturnValue infer_shape(const nnvm::Op* op, const Attributes& dict, Shapes* inputs, Shapes* outputs) {
  const nnvm::FInferShape* infer = op->attribute<nnvm::FInferShape>("FInferShape");
  CHECK(infer != nullptr) << "operator " << op->name << " has no FInferShape";
  std::vector<TShape> in, out(outputs->size());
  for (const auto& shape : *inputs) in.push_back(TShape(shape.begin(), shape.end()));
  (*infer)(op->use(dict), &in, &out);
  for (size_t i = 0; i < in.size(); ++i) (*inputs)[i].assign(in[i].begin(), in[i].end());
  for (size_t i = 0; i < out.size(); ++i) (*outputs)[i].assign(out[i].begin(), out[i].end());
  return MX_SUCCESS;
}

// Without FInferType all types are one.
inline MXReturnValue infer_type(const nnvm::Op* op, const Attributes& dict, Types* inputs, Types* outputs) {
  const nnvm::FInferType* infer = op->attribute<nnvm::FInferType>("FInferType");
  if (infer != nullptr) {
    (*infer)(op->use(dict), inputs, outputs);
    return MX_SUCCESS;
  }
  int known = -1;
  for (int type : *inputs) known = known == -1 ? type : known;
  for (int& type : *inputs) type = type == -1 ? known : type;
  outputs->assign(outputs->size(), known);
  return MX_SUCCESS;
}

inline MXReturnValue forward(const nnvm::Op* op, const FCompute& compute, const Attributes& dict, Tensors* inputs,
                             Tensors* outputs, const OpResource& resource) {
  compute(op->use(dict), context(resource), blobs(*inputs, 0, inputs->size()),
          std::vector<OpReqType>(outputs->size(), kWriteTo), blobs(*outputs, 0, outputs->size()));
  return MX_SUCCESS;
}

// [gradients of the outputs, inputs, outputs] → gradients of the inputs, by the nodes that FGradient makes.
inline MXReturnValue backward(const nnvm::Op* op, const Attributes& dict, Tensors* given, Tensors* results,
                              const OpResource& resource) {
  nnvm::NodePtr node = nnvm::Node::Create();
  node->attrs = op->use(dict);
  node->attrs.name = op->name;
  size_t num_out = op->outputs_of(node->attrs), num_in = op->inputs_of(node->attrs);
  CHECK_EQ(given->size(), num_in + 2 * num_out) << "arrays of the gradient of " << op->name;
  GradientRun run(context(resource));
  std::vector<nnvm::NodeEntry> ograds;
  for (size_t i = 0; i < num_out + num_in; ++i) {
    nnvm::NodePtr variable = nnvm::Node::Create();
    run.know(variable.get(), blobs(*given, i, i + 1));
    (i < num_out ? ograds : node->inputs).push_back(nnvm::NodeEntry(variable, 0));
  }
  run.know(node.get(), blobs(*given, num_out + num_in, given->size()));
  std::vector<nnvm::NodeEntry> gradients = (*op->attribute<nnvm::FGradient>("FGradient"))(node, ograds);
  CHECK_EQ(gradients.size(), num_in) << "gradients from FGradient of " << op->name;
  std::vector<TBlob> targets = blobs(*results, 0, results->size());
  for (size_t i = 0; i < num_in; ++i) run.aim(gradients[i], targets[i]);
  for (size_t i = 0; i < num_in; ++i) {
    if (gradients[i].node == nullptr || !run.wrote(gradients[i], targets[i])) run.write(gradients[i], targets[i]);
  }
  return MX_SUCCESS;
}

inline void add(const nnvm::Op* op, const std::string& name,
                hybridc::extension::Registry<hybridc::extension::CustomOp>* registry) {
  hybridc::extension::CustomOp& custom = registry->add(name);
  custom.parse_attrs = [op](const Attributes& dict, int* num_in, int* num_out) {
    nnvm::NodeAttrs attrs = op->use(dict);
    *num_in = static_cast<int>(op->inputs_of(attrs));
    *num_out = static_cast<int>(op->outputs_of(attrs));
    return MX_SUCCESS;
  };
  custom.infer_shape = [op](const Attributes& dict, Shapes* in, Shapes* out) { return infer_shape(op, dict, in, out); };
  custom.infer_type = [op](const Attributes& dict, Types* in, Types* out) { return infer_type(op, dict, in, out); };
  if (op->attribute<nnvm::FMutateInputs>("FMutateInputs") != nullptr) {
    custom.mutate_inputs = [op](const Attributes& dict, std::vector<int>* indices) {
      std::vector<uint32_t> mutated = (*op->attribute<nnvm::FMutateInputs>("FMutateInputs"))(op->use(dict));
      indices->assign(mutated.begin(), mutated.end());
      return MX_SUCCESS;
    };
  }
  for (const char* device : {"cpu", "gpu"}) {
    const FCompute* compute = op->attribute<FCompute>(std::string("FCompute<") + device + ">");
    if (compute == nullptr) continue;
    custom.forward[device] = [op, compute](const Attributes& dict, Tensors* in, Tensors* out, const OpResource& res) {
      return forward(op, *compute, dict, in, out, res);
    };
  }
  if (op->attribute<nnvm::FGradient>("FGradient") == nullptr || custom.forward.count("cpu") == 0) return;
  custom.backward["cpu"] = [op](const Attributes& dict, Tensors* given, Tensors* results, const OpResource& res) {
    return backward(op, dict, given, results, res);
  };
}

inline void add_all(hybridc::extension::Registry<hybridc::extension::CustomOp>* registry) {
  for (const auto& entry : nnvm::Op::all()) {
    const nnvm::Op* op = entry.second.get();
    if (op->is_internal()) continue;
    add(op, op->name, registry);
    for (const std::string& alias : op->aliases) add(op, alias, registry);
  }
}

// Several source files may include this: the registry is asked once.
HYBRIDC_LOCAL inline bool scheduled() {
  static const bool done = (hybridc::extension::operators().later(add_all), true);
  return done;
}
static const bool hybridc_scheduled __attribute__((unused)) = scheduled();

}  // namespace library
}  // namespace op
}  // namespace mxnet

#endif  // HYBRIDC_NNVM_EXPORT_H_
