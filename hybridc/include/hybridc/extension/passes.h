// REGISTER_PARTITIONER(name).addStrategy(…)… and REGISTER_PASS(name).setBody(…): what changes whole graphs.
#ifndef HYBRIDC_EXTENSION_PASSES_H_
#define HYBRIDC_EXTENSION_PASSES_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph.h"

namespace hybridc {
namespace extension {

// Grows subgraphs from nodes that it selects. Node numbers are positions in the graph.
class CustomOpSelector {
 public:
  virtual ~CustomOpSelector() {}
  // Whether a subgraph may begin at this node.
  virtual bool Select(int node) = 0;
  // Whether a subgraph that has `node` takes in the producer of one of its inputs.
  virtual bool SelectInput(int node, int input_node) = 0;
  // Whether a subgraph that has `node` takes in a consumer of one of its outputs.
  virtual bool SelectOutput(int node, int output_node) = 0;
  // What of a grown subgraph to keep; nothing, for no subgraph.
  virtual void Filter(const std::vector<int>& candidates, std::vector<int>* keep) {
    keep->insert(keep->end(), candidates.begin(), candidates.end());
  }
  // Before the next subgraph.
  virtual void Reset() {}
};

// One way to partition: which nodes form subgraphs, and which operator runs them.
class Strategy {
 public:
  typedef std::function<MXReturnValue(const Graph*, std::vector<int>*, const Attributes&)> SupportedOps;
  typedef std::function<MXReturnValue(const Graph*, CustomOpSelector**, const Attributes&)> CreateSelector;
  typedef std::function<MXReturnValue(const Graph*, int, bool*, const Attributes&, Attributes*)> ReviewSubgraph;

  Strategy(const std::string& given, const std::string& op) : name(given), op_name(op) {}

  const std::string name, op_name;
  SupportedOps supported_ops;
  CreateSelector create_selector;
  ReviewSubgraph review_subgraph;
};

// A backend's strategies, in the order in which they are applied.
class CustomPartitioner {
 public:
  explicit CustomPartitioner(const std::string& given) : name(given) {}

  // Nodes in subgraphs are replaced by operators `op_name`, which is registered with setIsSubgraphOp().
  CustomPartitioner& addStrategy(const char* strategy, const char* op_name) {
    strategies.push_back(std::unique_ptr<Strategy>(new Strategy(strategy, op_name)));
    return *this;
  }
  // (graph, ids, options): ids[i] of node i is -2, for no subgraph, until set to -1, for any, or to a subgraph's number
  template <typename F>
  CustomPartitioner& setSupportedOps(const char* strategy, F f) {
    of(strategy).supported_ops = [f](const Graph* graph, std::vector<int>* ids, const Attributes& options) {
      return status(f(graph, VectorArgument<int>(ids), AttributesArgument(options)));
    };
    return *this;
  }
  // (graph, CustomOpSelector** selector, options); instead of setSupportedOps
  template <typename F>
  CustomPartitioner& setCreateSelector(const char* strategy, F f) {
    of(strategy).create_selector = [f](const Graph* graph, CustomOpSelector** selector, const Attributes& options) {
      return status(f(graph, selector, AttributesArgument(options)));
    };
    return *this;
  }
  // (subgraph, number, bool* accept, options, attributes of the operator that replaces it)
  template <typename F>
  CustomPartitioner& setReviewSubgraph(const char* strategy, F f) {
    of(strategy).review_subgraph = [f](const Graph* graph, int number, bool* accept, const Attributes& options,
                                       Attributes* attrs) {
      return status(f(graph, number, accept, AttributesArgument(options), attrs));
    };
    return *this;
  }

  const std::string name;
  std::vector<std::unique_ptr<Strategy>> strategies;

 private:
  CustomPartitioner(const CustomPartitioner&);
  CustomPartitioner& operator=(const CustomPartitioner&);
  // A strategy that is only named here has no operator; the host says so when it loads the library.
  Strategy& of(const char* strategy) {
    for (const auto& known : strategies) {
      if (known->name == strategy) return *known;
    }
    addStrategy(strategy, "");
    return *strategies.back();
  }
};

class CustomPass {
 public:
  typedef std::function<MXReturnValue(Graph*, const Attributes&)> Body;

  explicit CustomPass(const std::string& given) : name(given) {}

  // (graph, options): changes the graph in place
  template <typename F>
  CustomPass& setBody(F f) {
    body = [f](Graph* graph, const Attributes& options) { return status(f(graph, AttributesArgument(options))); };
    return *this;
  }

  const std::string name;
  Body body;
};

HYBRIDC_LOCAL inline Registry<CustomPartitioner>& partitioners() {
  static Registry<CustomPartitioner> all;
  return all;
}

HYBRIDC_LOCAL inline Registry<CustomPass>& passes() {
  static Registry<CustomPass> all;
  return all;
}

}  // namespace extension
}  // namespace hybridc

#define REGISTER_PARTITIONER(Name) HYBRIDC_REGISTER(CustomPartitioner, partitioners, #Name)
#define REGISTER_PASS(Name) HYBRIDC_REGISTER(CustomPass, passes, #Name)

#endif  // HYBRIDC_EXTENSION_PASSES_H_
