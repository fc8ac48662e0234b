// Two partitioners that replace groups of elementwise operators by one operator of this library, which runs the group.
//
//     sym.optimize_for("my_partitioner", args, reject=True)     # by a list of supported operators
//     sym.optimize_for("my_selector", args)                     # grown from node to node
#include <cmath>
#include <iostream>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "mxnet/lib_api.h"

using namespace mxnet::ext;

typedef std::unordered_map<std::string, std::string> Attrs;

// What my_subgraph_op can run, on float32 arrays of one shape.
bool supported(const std::string& op) {
  return op == "exp" || op == "log" || op == "sqrt" || op == "elemwise_add" || op == "elemwise_mul";
}

float apply(const std::string& op, float x, float y) {
  if (op == "exp") return std::exp(x);
  if (op == "log") return std::log(x);
  if (op == "sqrt") return std::sqrt(x);
  return op == "elemwise_add" ? x + y : x * y;
}

// One use of the operator: holds the subgraph that it stands for.
class SubgraphOp : public CustomStatefulOp {
 public:
  SubgraphOp(const std::string& json, const Attrs& attrs) : graph_(Graph::fromString(json)) {}

  MXReturnValue Forward(std::vector<MXTensor>* inputs, std::vector<MXTensor>* outputs,
                        const OpResource& resource) override {
    std::unordered_map<const Node*, std::vector<float>> values;
    size_t next_input = 0;
    for (size_t i = 0; i < graph_->size(); ++i) {  // a graph as it was read: each node after its inputs
      const Node* node = graph_->getNode(i);
      std::vector<float>& value = values[node];
      if (node->op == "null") {
        MXTensor& input = inputs->at(next_input++);
        value.assign(input.data<float>(), input.data<float>() + input.size());
        continue;
      }
      const std::vector<float>&x = values.at(node->inputs.front().node), &y = values.at(node->inputs.back().node);
      value.resize(x.size());
      for (size_t j = 0; j < x.size(); ++j) value[j] = apply(node->op, x[j], y[j]);
    }
    for (size_t i = 0; i < graph_->outputs.size(); ++i) {
      const std::vector<float>& value = values.at(graph_->outputs[i].node);
      std::copy(value.begin(), value.end(), outputs->at(i).data<float>());
    }
    return MX_SUCCESS;
  }

 private:
  std::unique_ptr<Graph> graph_;
};

MXReturnValue createOpState(const Attrs& attrs, const MXContext& context,
                            const std::vector<std::vector<unsigned int>>& in_shapes, const std::vector<int> in_types,
                            CustomStatefulOp** op_inst) {
  if (attrs.count(MX_STR_SUBGRAPH_SYM_JSON) == 0) {
    MX_ERROR_MSG << "my_subgraph_op runs a subgraph, and was created without one";
    return MX_FAIL;
  }
  *op_inst = CustomStatefulOp::create<SubgraphOp>(attrs.at(MX_STR_SUBGRAPH_SYM_JSON), attrs);
  return MX_SUCCESS;
}

REGISTER_OP(my_subgraph_op)
.setIsSubgraphOp()
.setCreateOpState(createOpState, "cpu");

// Nodes of which something is supported go to whichever subgraph: -1.
MXReturnValue supportedOps(const Graph* graph, std::vector<int>* ids, const Attrs& options) {
  for (size_t i = 0; i < graph->size(); ++i) {
    if (supported(graph->getNode(i)->op)) ids->at(i) = -1;
  }
  return MX_SUCCESS;
}

// The option `reject` turns all subgraphs down; else the operator that replaces one is told how many nodes it runs.
MXReturnValue reviewSubgraph(const Graph* subgraph, int subgraph_id, bool* accept, const Attrs& options,
                             Attrs* attrs) {
  *accept = options.count("reject") == 0 || options.at("reject") != "True";
  (*attrs)["nodes"] = std::to_string(subgraph->size() - subgraph->inputs.size());
  return MX_SUCCESS;
}

REGISTER_PARTITIONER(my_partitioner)
.addStrategy("by_name", "my_subgraph_op")
.setSupportedOps("by_name", supportedOps)
.setReviewSubgraph("by_name", reviewSubgraph);

// Starts at any supported node, and takes in supported neighbours.
class MySelector : public CustomOpSelector {
 public:
  explicit MySelector(const Graph* graph) : graph_(graph) {}

  bool Select(int node) override { return supported(graph_->getNode(node)->op); }
  bool SelectInput(int node, int input_node) override { return Select(input_node); }
  bool SelectOutput(int node, int output_node) override { return Select(output_node); }
  // One operator alone is not worth a subgraph.
  void Filter(const std::vector<int>& candidates, std::vector<int>* keep) override {
    if (candidates.size() > 1) *keep = candidates;
  }

 private:
  const Graph* graph_;
};

MXReturnValue createSelector(const Graph* graph, CustomOpSelector** sel_inst, const Attrs& options) {
  *sel_inst = new MySelector(graph);
  return MX_SUCCESS;
}

REGISTER_PARTITIONER(my_selector)
.addStrategy("by_selector", "my_subgraph_op")
.setCreateSelector("by_selector", createSelector)
.setReviewSubgraph("by_selector", reviewSubgraph);

MXReturnValue initialize(int version) { return MX_SUCCESS; }
