// Passes and a partitioner that do what tests of graphs need.
#include <string>
#include <vector>

#include "mxnet/lib_api.h"

using namespace mxnet::ext;

typedef std::unordered_map<std::string, std::string> Attrs;

REGISTER_PASS(same).setBody([](Graph* graph, const Attrs& options) { return MX_SUCCESS; });

REGISTER_PASS(name_by_sum).setBody([](Graph* graph, const Attrs& options) {
  for (Node* node : graph->inputs) {
    if (node->tensor == nullptr) continue;
    float sum = 0;
    for (int64_t i = 0; i < node->tensor->size(); ++i) sum += node->tensor->data<float>()[i];
    node->name += " is " + std::to_string(static_cast<int>(sum));
  }
  return MX_SUCCESS;
});

REGISTER_PASS(name_by_attributes).setBody([](Graph* graph, const Attrs& options) {
  Node* node = graph->getNode(0);
  std::string shapes = node->attrs[MX_STR_SHAPE];
  node->name.clear();
  for (unsigned i = 0; i < 3; ++i) node->name += getShapeAt(shapes, i) + " ";
  node->name += getDtypeAt(node->attrs[MX_STR_DTYPE], 1);
  return MX_SUCCESS;
});

REGISTER_PASS(name_by_order).setBody([](Graph* graph, const Attrs& options) {
  int position = 0;
  for (Node* node : graph->topological_sort()) node->name = std::to_string(position++);
  return MX_SUCCESS;
});

REGISTER_PASS(cycle).setBody([](Graph* graph, const Attrs& options) {
  graph->getNode(2)->inputs[0] = NodeEntry{graph->getNode(4), 0};
  return MX_SUCCESS;
});

struct Undecided : public CustomOpSelector {
  bool Select(int node) override { throw std::runtime_error("no choice"); }
  bool SelectInput(int node, int input) override { return false; }
  bool SelectOutput(int node, int output) override { return false; }
};

REGISTER_PARTITIONER(checks)
.addStrategy("s", "some_op")
.setCreateSelector("s", [](const Graph* graph, CustomOpSelector** selector, const Attrs& options) {
  if (options.count("make") > 0) *selector = new Undecided();
  return MX_SUCCESS;
})
.setReviewSubgraph("s", [](const Graph* graph, int id, bool* accept, const Attrs& options, Attrs* attrs) {
  const_cast<Graph*>(graph)->addNode("new", "null")->alloc_arg({1}, MXContext::CPU(), kFloat32);
  return MX_SUCCESS;
});

MXReturnValue initialize(int version) { return MX_SUCCESS; }
