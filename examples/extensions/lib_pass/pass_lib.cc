// Two graph passes: my_simplify removes log(exp(x)); my_shift adds a new argument to the graph's first output.
//
//     sym.optimize_for("my_simplify")
//     sym.optimize_for("my_shift", args, shift=2.5)     # `args` then also holds the new array
#include <iostream>
#include <string>
#include <unordered_map>
#include <vector>

#include "mxnet/lib_api.h"

using namespace mxnet::ext;

typedef std::unordered_map<std::string, std::string> Attrs;

// log(exp(x)) is x: whatever reads the logarithm reads x instead. What nobody reads then is not written.
MXReturnValue simplify(Graph* graph, const Attrs& options) {
  for (Node* node : graph->topological_sort()) {
    if (node->op != "log" || node->inputs[0].node->op != "exp") continue;
    NodeEntry x = node->inputs[0].node->inputs[0];
    for (NodeEntry& use : node->outputs) use.node->inputs[use.entry] = x;
    for (NodeEntry& output : graph->outputs) {
      if (output.node == node) output = x;
    }
  }
  return MX_SUCCESS;
}

REGISTER_PASS(my_simplify)
.setBody(simplify);

// output[0] + shift, where the shift is an array of one element that the pass makes: an argument of the graph.
MXReturnValue shift(Graph* graph, const Attrs& options) {
  if (options.count("shift") == 0) {
    MX_ERROR_MSG << "my_shift: expected the option shift";
    return MX_FAIL;
  }
  Node* amount = graph->addNode("shift_amount", "null");
  amount->alloc_arg({1}, MXContext::CPU(0), kFloat32);
  amount->tensor->data<float>()[0] = std::stof(options.at("shift"));
  Node* sum = graph->addNode("shifted", "broadcast_add");
  sum->inputs = {graph->outputs[0], NodeEntry{amount, 0}};
  graph->outputs[0] = NodeEntry{sum, 0};
  return MX_SUCCESS;
}

REGISTER_PASS(my_shift)
.setBody(shift);

MXReturnValue initialize(int version) { return MX_SUCCESS; }
