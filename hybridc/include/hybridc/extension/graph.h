// Graphs of operators, read from and written to nnvm's JSON.
#ifndef HYBRIDC_EXTENSION_GRAPH_H_
#define HYBRIDC_EXTENSION_GRAPH_H_

#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "json.h"
#include "operators.h"

namespace hybridc {
namespace extension {

extern "C" typedef void (*nd_malloc_t)(const void* host, const int64_t* shape, int ndim, const char* device_type,
                                       int device_id, int type, const char* name, int is_argument, void** data);

class Graph;
class Node;

// An end of an edge. Of a node's input: the producer and which of its outputs. Of a node's output: a consumer and which
// of its inputs. Of a graph's output: the producer and which of its outputs.
struct NodeEntry {
  Node* node;
  int entry;
};

// The arrays of a graph's variables, by name, and how to make more of them.
class PassResource {
 public:
  PassResource(const std::unordered_map<std::string, MXTensor>& args,
               const std::unordered_map<std::string, MXTensor>& auxs, nd_malloc_t malloc_function, const void* host)
      : arguments_(args.begin(), args.end()), auxiliaries_(auxs.begin(), auxs.end()), malloc_(malloc_function),
        host_(host) {}

  // Null where the variable has no array.
  MXTensor* find(const std::string& name) {
    auto argument = arguments_.find(name);
    if (argument != arguments_.end()) return &argument->second;
    auto auxiliary = auxiliaries_.find(name);
    return auxiliary == auxiliaries_.end() ? nullptr : &auxiliary->second;
  }
  MXTensor* alloc_arg(const std::string& name, const std::vector<int64_t>& shape, const MXContext& ctx, MXDType type) {
    return allocate(&arguments_, name, shape, ctx, type, 1);
  }
  MXTensor* alloc_aux(const std::string& name, const std::vector<int64_t>& shape, const MXContext& ctx, MXDType type) {
    return allocate(&auxiliaries_, name, shape, ctx, type, 0);
  }

 private:
  typedef std::map<std::string, MXTensor> Arrays;
  MXTensor* allocate(Arrays* arrays, const std::string& name, const std::vector<int64_t>& shape, const MXContext& ctx,
                     MXDType type, int is_argument) {
    if (malloc_ == nullptr) throw std::runtime_error("arrays can be made in a graph pass only");
    void* data = nullptr;
    malloc_(host_, shape.data(), static_cast<int>(shape.size()), ctx.dev_type.c_str(), ctx.dev_id, type, name.c_str(),
            is_argument, &data);
    return &((*arrays)[name] = MXTensor(data, shape, type, 0, ctx));
  }

  Arrays arguments_, auxiliaries_;
  nd_malloc_t malloc_;
  const void* host_;
};

// One operator, or a variable: then `op` is "null".
class Node {
 public:
  Node() : tensor(nullptr), resource_(nullptr) {}
  ~Node();

  // Give a variable an array of its own, as an argument or an auxiliary state of the graph.
  void alloc_arg(const std::vector<int64_t>& shape, const MXContext& ctx, MXDType type) {
    tensor = resource().alloc_arg(name, shape, ctx, type);
  }
  void alloc_aux(const std::vector<int64_t>& shape, const MXContext& ctx, MXDType type) {
    tensor = resource().alloc_aux(name, shape, ctx, type);
  }

  std::string op;
  std::string name;  // unique in its graph
  MXTensor* tensor;  // a variable's array where there is one; else for the author's use
  std::vector<NodeEntry> inputs;
  std::vector<NodeEntry> outputs;
  std::vector<Graph*> subgraphs;  // owned
  std::unordered_map<std::string, std::string> attrs;

 private:
  friend class Graph;
  Node(const Node&);
  Node& operator=(const Node&);
  PassResource& resource() const {
    if (resource_ == nullptr) throw std::runtime_error("node " + name + ": arrays can be made in a graph pass only");
    return *resource_;
  }
  PassResource* resource_;
};

// Owns its nodes. Nodes that no output needs are not written.
class Graph {
 public:
  Graph() : resource_(nullptr) {}
  ~Graph() {
    for (Node* node : nodes_) delete node;
  }

  static Graph* fromString(const std::string& json) { return fromJson(JsonVal::parse(json)); }
  static Graph* fromJson(const JsonVal& json) {
    std::unique_ptr<Graph> graph(new Graph());
    for (const JsonVal& node : json.at("nodes").list) graph->read_node(node);
    for (const JsonVal& head : json.at("heads").list) graph->outputs.push_back(graph->read_entry(head));
    for (const auto& field : json.map) {
      if (structural(field.first.str)) continue;
      graph->attrs[field.first.str] = field.second;
    }
    return graph.release();
  }
  std::string toString() const { return toJson().dump(); }
  JsonVal toJson() const {
    std::vector<Node*> order = producers_first();
    std::map<const Node*, int> counts = output_counts(order), index;
    JsonVal json(MAP), nodes(LIST), arguments(LIST), heads(LIST), rows(LIST);
    int row = 0;
    for (int i = 0; i < static_cast<int>(order.size()); ++i) {
      rows.list.push_back(JsonVal(row));
      row += counts[order[i]];
      if (order[i]->op == "null") arguments.list.push_back(JsonVal(i));
      nodes.list.push_back(write_node(*order[i], index));
      index[order[i]] = i;
    }
    rows.list.push_back(JsonVal(row));
    for (const NodeEntry& output : outputs) heads.list.push_back(write_entry(output, index));
    for (const auto& attribute : attrs) json[attribute.first] = attribute.second;
    json["nodes"] = nodes;
    json["arg_nodes"] = arguments;
    json["node_row_ptr"] = rows;
    json["heads"] = heads;
    return json;
  }

  // Every node that an output needs, each before its inputs, as in MXNet. getNode(0), getNode(1), … are the other way.
  std::vector<Node*> topological_sort() const {
    std::vector<Node*> order = producers_first();
    return std::vector<Node*>(order.rbegin(), order.rend());
  }
  void DFS(const std::function<void(Node*)>& handler) const {
    for (Node* node : topological_sort()) handler(node);
  }
  // Every node that an output needs, each after its inputs.
  std::vector<Node*> producers_first() const {
    std::vector<Node*> order;
    std::set<const Node*> seen;
    std::vector<NodeEntry> path;  // nodes being visited, each with its next input: no recursion, graphs may be deep
    for (const NodeEntry& output : outputs) {
      path.push_back(NodeEntry{output.node, 0});
      while (!path.empty()) {
        NodeEntry& top = path.back();
        if (seen.count(top.node) != 0) {
          path.pop_back();
        } else if (top.entry < static_cast<int>(top.node->inputs.size())) {
          Node* input = top.node->inputs[top.entry++].node;
          if (path.size() > nodes_.size()) throw std::runtime_error("graph: node " + input->name + " needs itself");
          path.push_back(NodeEntry{input, 0});
        } else {
          seen.insert(top.node);
          order.push_back(top.node);
          path.pop_back();
        }
      }
    }
    return order;
  }

  Node* addNode(const std::string& name, const std::string& op) {
    Node* node = new Node();
    nodes_.push_back(node);
    node->name = name;
    node->op = op;
    node->resource_ = resource_;
    return node;
  }
  Node* getNode(size_t index) { return nodes_.at(index); }
  const Node* getNode(size_t index) const { return nodes_.at(index); }
  size_t size() const { return nodes_.size(); }
  const JsonVal& getAttr(const std::string& key) const {
    if (attrs.count(key) == 0) throw std::runtime_error("graph: no attribute \"" + key + "\"");
    return attrs.find(key)->second;
  }

  void print(int indent = 0) const {
    std::string margin(indent, ' ');
    for (size_t i = 0; i < nodes_.size(); ++i) {
      std::cout << margin << i << ": " << nodes_[i]->name << " = " << nodes_[i]->op << "(";
      for (const NodeEntry& input : nodes_[i]->inputs) std::cout << " " << input.node->name << ":" << input.entry;
      std::cout << " )" << std::endl;
      for (const Graph* subgraph : nodes_[i]->subgraphs) subgraph->print(indent + 2);
    }
    std::cout << margin << "outputs:";
    for (const NodeEntry& output : outputs) std::cout << " " << output.node->name << ":" << output.entry;
    std::cout << std::endl;
  }

  // The host's: variables get their arrays, and nodes that are added the means to make arrays.
  void set_resource(PassResource* resource) {
    resource_ = resource;
    for (Node* node : nodes_) {
      node->resource_ = resource;
      if (node->op == "null") node->tensor = resource->find(node->name);
    }
  }

  std::vector<Node*> inputs;  // the variables
  std::vector<NodeEntry> outputs;
  std::map<std::string, JsonVal> attrs;

 private:
  Graph(const Graph&);
  Graph& operator=(const Graph&);

  static bool structural(const std::string& key) {
    return key == "nodes" || key == "heads" || key == "arg_nodes" || key == "node_row_ptr";
  }
  NodeEntry read_entry(const JsonVal& json) {
    return NodeEntry{nodes_.at(json.at(size_t{0}).num), json.at(size_t{1}).num};
  }
  void read_node(const JsonVal& json) {
    Node* node = addNode(json.at("name").str, json.at("op").str);
    for (const JsonVal& input : json.at("inputs").list) {
      NodeEntry producer = read_entry(input);
      producer.node->outputs.push_back(NodeEntry{node, static_cast<int>(node->inputs.size())});
      node->inputs.push_back(producer);
    }
    if (json.has("attrs")) {
      for (const auto& attribute : json.at("attrs").map) node->attrs[attribute.first.str] = attribute.second.str;
    }
    if (json.has("subgraphs")) {
      for (const JsonVal& subgraph : json.at("subgraphs").list) node->subgraphs.push_back(fromJson(subgraph));
    }
    if (node->op == "null") inputs.push_back(node);
  }

  static JsonVal write_entry(const NodeEntry& entry, const std::map<const Node*, int>& index) {
    JsonVal json(LIST);
    json.list.push_back(JsonVal(index.at(entry.node)));
    json.list.push_back(JsonVal(entry.entry));
    json.list.push_back(JsonVal(0));
    return json;
  }
  static JsonVal write_node(const Node& node, const std::map<const Node*, int>& index) {
    JsonVal json(MAP), edges(LIST), attributes(MAP), subgraphs(LIST);
    for (const NodeEntry& input : node.inputs) edges.list.push_back(write_entry(input, index));
    for (const auto& attribute : node.attrs) attributes[attribute.first] = JsonVal(attribute.second);
    for (const Graph* subgraph : node.subgraphs) subgraphs.list.push_back(subgraph->toJson());
    json["op"] = JsonVal(node.op);
    json["name"] = JsonVal(node.name);
    json["inputs"] = edges;
    if (!node.attrs.empty()) json["attrs"] = attributes;
    if (!node.subgraphs.empty()) json["subgraphs"] = subgraphs;
    return json;
  }
  // Numbers of outputs, as far as the graph tells: one more than the highest that is used.
  std::map<const Node*, int> output_counts(const std::vector<Node*>& order) const {
    std::map<const Node*, int> counts;
    auto count = [&counts](const NodeEntry& use) {
      int& known = counts[use.node];
      if (use.entry >= known) known = use.entry + 1;
    };
    for (const Node* consumer : order) {
      for (const NodeEntry& input : consumer->inputs) count(input);
    }
    for (const NodeEntry& output : outputs) count(output);
    return counts;
  }

  std::vector<Node*> nodes_;
  PassResource* resource_;
};

inline Node::~Node() {
  for (Graph* subgraph : subgraphs) delete subgraph;
}

}  // namespace extension
}  // namespace hybridc

#endif  // HYBRIDC_EXTENSION_GRAPH_H_
