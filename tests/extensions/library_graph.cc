// Partitioners and a graph pass that show what a loader gives to them, and fail when they are told to.
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "mxnet/lib_api.h"

using namespace mxnet::ext;

typedef std::unordered_map<std::string, std::string> Attrs;

static std::string get(const Attrs& attrs, const char* key) {
  const auto found = attrs.find(key);
  return found == attrs.end() ? "" : found->second;
}

static MXReturnValue fail(const Attrs& options, const std::string& where) {
  if (get(options, "where") == "throw " + where) throw std::runtime_error("thrown in " + where);
  if (get(options, "where") != where) return MX_SUCCESS;
  MX_ERROR_MSG << "told to fail in " << where;
  return MX_FAIL;
}

// Runs any subgraph as the sum of its inputs, the first once, the second twice and so on; adds what the review said,
// and 100 for every forward before.
class WeightedSum : public CustomStatefulOp {
 public:
  explicit WeightedSum(float more) : more_(more) {}

  MXReturnValue Forward(std::vector<MXTensor>* inputs, std::vector<MXTensor>* outputs, const OpResource& res) override {
    for (MXTensor& out : *outputs)
      for (int64_t i = 0; i < out.size(); i++) {
        out.data<float>()[i] = more_ + 100 * count_;
        for (size_t n = 0; n < inputs->size(); n++) out.data<float>()[i] += (n + 1) * inputs->at(n).data<float>()[i];
      }
    count_++;
    return MX_SUCCESS;
  }

 private:
  float more_;
  int count_ = 0;
};

MXReturnValue create(const Attrs& attrs, const MXContext& ctx, const std::vector<std::vector<unsigned int>>& shapes,
                     const std::vector<int> types, CustomStatefulOp** op) {
  if (fail(attrs, "create") == MX_FAIL) return MX_FAIL;
  if (get(attrs, "subgraph_sym_json").empty() || get(attrs, "__ext_shape__").empty()) {
    MX_ERROR_MSG << "the subgraph or its shapes are missing";
    return MX_FAIL;
  }
  const std::string more = get(attrs, "more");
  *op = CustomStatefulOp::create<WeightedSum>(more.empty() ? 0.0f : std::stof(more));
  return MX_SUCCESS;
}

REGISTER_OP(graph_sum).setIsSubgraphOp().setCreateOpState(create, "cpu");

// exp and log belong to subgraph 0, sin to subgraph 1, additions and products to any.
MXReturnValue groups(const Graph* graph, std::vector<int>* ids, const Attrs& options) {
  if (fail(options, "supported") == MX_FAIL) return MX_FAIL;
  for (size_t i = 0; i < graph->size(); i++) {
    const std::string& op = graph->getNode(i)->op;
    if (op == "exp" || op == "log") ids->at(i) = 0;
    if (op == "sin") ids->at(i) = 1;
    if (op == "elemwise_add" || op == "elemwise_mul") ids->at(i) = -1;
  }
  return MX_SUCCESS;
}

// Says what it sees: the number of the subgraph, and the first elements of arguments whose arrays are known.
MXReturnValue review(const Graph* graph, int number, bool* accept, const Attrs& options, Attrs* attrs) {
  if (fail(options, "review") == MX_FAIL) return MX_FAIL;
  *accept = get(options, "reject") != std::to_string(number);
  float more = 1000 * number;
  for (const Node* node : graph->inputs)
    if (node->tensor != nullptr && node->tensor->data_ptr != nullptr) more += node->tensor->data<float>()[0];
  if (get(options, "sum") == "arrays") (*attrs)["more"] = std::to_string(more);
  if (get(options, "where") == "create") (*attrs)["where"] = "create";
  return MX_SUCCESS;
}

REGISTER_PARTITIONER(graph_groups)
    .addStrategy("by_group", "graph_sum")
    .setSupportedOps("by_group", groups)
    .setReviewSubgraph("by_group", review);

REGISTER_PARTITIONER(graph_wrong_op)
    .addStrategy("wrong", "no_such_op")
    .setSupportedOps("wrong", groups);

REGISTER_PARTITIONER(graph_cached_op)
    .addStrategy("cached", "_CachedOp")
    .setSupportedOps("cached", groups);

// Takes chains through the first input of each node only, and drops the last node of each.
class Chain : public CustomOpSelector {
 public:
  explicit Chain(const Graph* graph) : graph_(graph) {}
  bool Select(int node) override { return graph_->getNode(node)->op == "exp"; }
  bool SelectInput(int node, int input) override { return false; }
  bool SelectOutput(int node, int output) override {
    return graph_->getNode(output)->inputs[0].node == graph_->getNode(node) && ++taken_ <= 3;
  }
  void Filter(const std::vector<int>& candidates, std::vector<int>* keep) override {
    for (size_t i = 0; i + 1 < candidates.size(); i++) keep->push_back(candidates[i]);
  }
  void Reset() override { taken_ = 0; }

 private:
  const Graph* graph_;
  int taken_ = 0;
};

MXReturnValue chain(const Graph* graph, CustomOpSelector** selector, const Attrs& options) {
  if (fail(options, "selector") == MX_FAIL) return MX_FAIL;
  if (get(options, "where") != "nothing") *selector = new Chain(graph);
  return MX_SUCCESS;
}

REGISTER_PARTITIONER(graph_chain).addStrategy("chains", "graph_sum").setCreateSelector("chains", chain);

// Every second argument that it knows is doubled in place; exp becomes sin.
MXReturnValue swap(Graph* graph, const Attrs& options) {
  if (fail(options, "pass") == MX_FAIL) return MX_FAIL;
  for (size_t i = 0; i < graph->size(); i++) {
    Node* node = graph->getNode(i);
    if (node->op == "exp") node->op = "sin";
    if (get(options, "to") == "nonsense" && node->op == "sin") node->op = "no_such_op";
    if (get(options, "double") == node->name && node->tensor != nullptr)
      for (int64_t j = 0; j < node->tensor->size(); j++) node->tensor->data<float>()[j] *= 2;
  }
  if (get(options, "to") == "two results") graph->outputs.push_back(graph->outputs[0]);
  return MX_SUCCESS;
}

REGISTER_PASS(graph_swap).setBody(swap);

MXReturnValue initialize(int version) { return MX_SUCCESS; }
