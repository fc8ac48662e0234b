// Gradients: what FGradient returns (ElemwiseGradUseIn{"_backward_x"}, MakeGradNode), and how it is run.
#ifndef HYBRIDC_NNVM_GRADIENT_H_
#define HYBRIDC_NNVM_GRADIENT_H_

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "compute.h"

namespace mxnet {
namespace op {

// One gradient for each of the operator's outputs: `op_name` applied to `heads`, with the forward's attributes `dict`.
inline std::vector<nnvm::NodeEntry> MakeGradNode(const char* op_name, const nnvm::NodePtr& n,
                                                 const std::vector<nnvm::NodeEntry>& heads,
                                                 const std::unordered_map<std::string, std::string>& dict) {
  nnvm::NodePtr node = nnvm::Node::Create();
  node->attrs = nnvm::Op::Get(op_name)->use(dict);
  node->attrs.name = n->attrs.name + "_backward";
  if (n->op() != nullptr && !node->op()->attr_parser) node->attrs.parsed = n->attrs.parsed;
  node->inputs = heads;
  node->control_deps.push_back(n);
  std::vector<nnvm::NodeEntry> entries;
  for (uint32_t i = 0; i < node->num_outputs(); ++i) entries.push_back(nnvm::NodeEntry(node, i));
  return entries;
}

inline std::vector<nnvm::NodeEntry> joined(std::vector<nnvm::NodeEntry> first,
                                           const std::vector<nnvm::NodeEntry>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}
inline std::vector<nnvm::NodeEntry> outputs_of(const nnvm::NodePtr& n) {
  std::vector<nnvm::NodeEntry> entries;
  for (uint32_t i = 0; i < n->num_outputs(); ++i) entries.push_back(nnvm::NodeEntry(n, i));
  return entries;
}

// FGradient of operators whose gradient needs, beside the outputs' gradients, …
struct ElemwiseGradUseIn {  // … the inputs
  const char* op_name;
  std::vector<nnvm::NodeEntry> operator()(const nnvm::NodePtr& n, const std::vector<nnvm::NodeEntry>& ograds) const {
    return MakeGradNode(op_name, n, joined(ograds, n->inputs), n->attrs.dict);
  }
};
struct ElemwiseGradUseOut {  // … the outputs
  const char* op_name;
  std::vector<nnvm::NodeEntry> operator()(const nnvm::NodePtr& n, const std::vector<nnvm::NodeEntry>& ograds) const {
    return MakeGradNode(op_name, n, joined(ograds, outputs_of(n)), n->attrs.dict);
  }
};
struct ElemwiseGradUseInOut {  // … both
  const char* op_name;
  std::vector<nnvm::NodeEntry> operator()(const nnvm::NodePtr& n, const std::vector<nnvm::NodeEntry>& ograds) const {
    return MakeGradNode(op_name, n, joined(joined(ograds, n->inputs), outputs_of(n)), n->attrs.dict);
  }
};
struct ElemwiseGradUseNone {  // … nothing
  const char* op_name;
  std::vector<nnvm::NodeEntry> operator()(const nnvm::NodePtr& n, const std::vector<nnvm::NodeEntry>& ograds) const {
    return MakeGradNode(op_name, n, ograds, n->attrs.dict);
  }
};

// A gradient of zero: no node.
inline std::vector<nnvm::NodeEntry> MakeZeroGradNodes(const nnvm::NodePtr& n, const std::vector<nnvm::NodeEntry>&) {
  return std::vector<nnvm::NodeEntry>(n->inputs.size());
}

// Runs the nodes of one gradient on arrays.
class GradientRun {
 public:
  explicit GradientRun(const OpContext& ctx) : ctx_(ctx) {}

  void know(const nnvm::Node* node, const std::vector<TBlob>& outputs) { values_[node] = outputs; }

  // Writes the entry's value to `target`, whose shape and type it has.
  void write(const nnvm::NodeEntry& entry, const TBlob& target) {
    size_t bytes = target.Size() * mshadow::mshadow_sizeof(target.type_flag_);
    if (bytes == 0) return;
    if (entry.node == nullptr) {
      std::memset(target.dptr_, 0, bytes);
      return;
    }
    const TBlob& value = value_of(entry);
    CHECK(value.shape_ == target.shape_ && value.type_flag_ == target.type_flag_)
        << "a gradient has shape " << value.shape_ << " and its input " << target.shape_;
    std::memcpy(target.dptr_, value.dptr_, bytes);
  }
  // Lets a node write straight to `target`, if it is not run yet and has no other target for this output. The shapes
  // of operators without FInferShape are those of their targets.
  void aim(const nnvm::NodeEntry& entry, const TBlob& target) {
    if (entry.node == nullptr || values_.count(entry.node.get()) != 0) return;
    targets_[entry.node.get()].insert(std::make_pair(entry.index, target));
  }
  bool wrote(const nnvm::NodeEntry& entry, const TBlob& target) { return value_of(entry).dptr_ == target.dptr_; }

 private:
  const TBlob& value_of(const nnvm::NodeEntry& entry) {
    if (values_.count(entry.node.get()) == 0) run(*entry.node);
    return values_[entry.node.get()].at(entry.index);
  }

  void run(const nnvm::Node& node) {
    CHECK(!node.is_variable()) << "a gradient needs an array that is neither input, output nor output's gradient";
    const FCompute* compute = node.op()->attribute<FCompute>("FCompute<cpu>");
    CHECK(compute != nullptr) << "operator " << node.op()->name << " of a gradient has no FCompute<cpu>";
    std::vector<TBlob> inputs;
    for (const nnvm::NodeEntry& input : node.inputs) inputs.push_back(value_of(input));
    std::vector<TBlob> outputs = allocated(node, inputs);
    std::vector<OpReqType> requests(outputs.size(), kWriteTo);
    (*compute)(node.attrs, ctx_, inputs, requests, outputs);
    values_[&node] = outputs;
  }

  std::vector<TBlob> allocated(const nnvm::Node& node, const std::vector<TBlob>& inputs) {
    std::map<uint32_t, TBlob>& targets = targets_[&node];
    std::vector<TShape> in_shapes, out_shapes(node.num_outputs());
    std::vector<int> in_types, out_types(node.num_outputs(), -1);
    for (const TBlob& input : inputs) {
      in_shapes.push_back(input.shape_);
      in_types.push_back(input.type_flag_);
    }
    for (const auto& target : targets) {
      out_shapes[target.first] = target.second.shape_;
      out_types[target.first] = target.second.type_flag_;
    }
    const nnvm::FInferShape* shape = node.op()->attribute<nnvm::FInferShape>("FInferShape");
    const nnvm::FInferType* type = node.op()->attribute<nnvm::FInferType>("FInferType");
    if (shape != nullptr) (*shape)(node.attrs, &in_shapes, &out_shapes);
    if (type != nullptr) (*type)(node.attrs, &in_types, &out_types);
    std::vector<TBlob> outputs;
    for (uint32_t i = 0; i < node.num_outputs(); ++i) {
      if (out_types[i] == -1 && !in_types.empty()) out_types[i] = in_types[0];
      outputs.push_back(targets.count(i) ? targets[i] : temporary(node, out_shapes[i], out_types[i]));
    }
    return outputs;
  }
  TBlob temporary(const nnvm::Node& node, const TShape& shape, int type) {
    CHECK(shape_is_known(shape)) << "the shape of an output of " << node.op()->name << " in a gradient is unknown";
    size_t bytes = shape.Size() * mshadow::mshadow_sizeof(type);
    temporaries_.push_back(std::unique_ptr<double[]>(new double[bytes / sizeof(double) + 1]));  // aligned for all types
    return TBlob(temporaries_.back().get(), shape, type);
  }

  const OpContext ctx_;
  std::unordered_map<const nnvm::Node*, std::vector<TBlob>> values_;
  std::unordered_map<const nnvm::Node*, std::map<uint32_t, TBlob>> targets_;
  std::vector<std::unique_ptr<double[]>> temporaries_;
};

}  // namespace op
}  // namespace mxnet

#endif  // HYBRIDC_NNVM_GRADIENT_H_
