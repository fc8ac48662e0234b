// NNVM_REGISTER_OP(name).set_attr<Type>("Key", value): operators as tables of attributes; nodes that use them.
#ifndef HYBRIDC_NNVM_OP_H_
#define HYBRIDC_NNVM_OP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../extension/operators.h"
#include "logging.h"
#include "parameter.h"
#include "shape.h"

namespace nnvm {

class Op;

// One use of an operator: its attributes as texts and, after the operator's parser ran, as the author's value.
struct NodeAttrs {
  NodeAttrs() : op(nullptr) {}
  const Op* op;
  std::string name;
  std::unordered_map<std::string, std::string> dict;
  any parsed;
};

class Node;
typedef std::shared_ptr<Node> NodePtr;
typedef NodePtr ObjectPtr;

// One output of a node.
struct NodeEntry {
  NodeEntry() : index(0), version(0) {}
  NodeEntry(const NodePtr& producer, uint32_t output, uint32_t mutation = 0)
      : node(producer), index(output), version(mutation) {}
  NodePtr node;
  uint32_t index;
  uint32_t version;
};

class Node {
 public:
  static NodePtr Create() { return std::make_shared<Node>(); }
  const Op* op() const { return attrs.op; }
  bool is_variable() const { return attrs.op == nullptr; }
  inline uint32_t num_inputs() const;
  inline uint32_t num_outputs() const;

  NodeAttrs attrs;
  std::vector<NodeEntry> inputs;
  std::vector<NodePtr> control_deps;
};

// The attributes that have a meaning here; under other names anything may be kept.
typedef std::function<bool(const NodeAttrs&, std::vector<TShape>*, std::vector<TShape>*)> FInferShape;
typedef std::function<bool(const NodeAttrs&, std::vector<int>*, std::vector<int>*)> FInferType;
typedef std::function<std::vector<NodeEntry>(const NodePtr&, const std::vector<NodeEntry>&)> FGradient;
typedef std::function<std::vector<std::pair<int, int>>(const NodeAttrs&)> FInplaceOption;
typedef std::function<std::vector<std::string>(const NodeAttrs&)> FListInputNames;
typedef std::function<std::vector<std::string>(const NodeAttrs&)> FListOutputNames;
typedef std::function<uint32_t(const NodeAttrs&)> FNumVisibleOutputs;
typedef std::function<std::vector<uint32_t>(const NodeAttrs&)> FMutateInputs;
typedef bool TIsBackward;

// Values of one attribute for all operators that have it.
template <typename T>
class OpMap {
 public:
  explicit OpMap(const std::string& key) : key_(key) {}
  inline bool contains(const Op* op) const;
  int count(const Op* op) const { return contains(op); }
  inline const T& operator[](const Op* op) const;
  const T& get(const Op* op, const T& otherwise) const { return contains(op) ? (*this)[op] : otherwise; }

 private:
  std::string key_;
};

class Op {
 public:
  typedef std::function<uint32_t(const NodeAttrs&)> Count;

  explicit Op(const std::string& given) : name(given), num_inputs(1), num_outputs(1) {}

  // The operator of this name; an error names a missing one.
  static const Op* Get(const std::string& name) {
    auto found = all().find(name);
    if (found == all().end()) throw dmlc::Error("operator " + name + " is not registered in this library");
    return found->second.get();
  }
  // The same, made where it is missing: registrations in several places add up.
  static Op& get_or_make(const std::string& name) {
    std::unique_ptr<Op>& op = all()[name];
    if (!op) op.reset(new Op(name));
    return *op;
  }
  HYBRIDC_LOCAL static std::map<std::string, std::unique_ptr<Op>>& all() {
    static std::map<std::string, std::unique_ptr<Op>> operators;
    return operators;
  }
  template <typename T>
  static OpMap<T> GetAttr(const std::string& key) {
    return OpMap<T>(key);
  }

  Op& describe(const std::string& text) {
    description = text;
    return *this;
  }
  Op& add_argument(const std::string& argument, const std::string& type, const std::string& text) {
    arguments.push_back(dmlc::ParamFieldInfo{argument, type, type, text});
    return *this;
  }
  Op& add_arguments(const std::vector<dmlc::ParamFieldInfo>& infos) {
    arguments.insert(arguments.end(), infos.begin(), infos.end());
    return *this;
  }
  Op& add_alias(const std::string& other) {
    aliases.push_back(other);
    return *this;
  }
  Op& set_num_inputs(uint32_t count) {
    num_inputs = count;
    return *this;
  }
  Op& set_num_inputs(const Count& count) {
    get_num_inputs = count;
    return *this;
  }
  Op& set_num_outputs(uint32_t count) {
    num_outputs = count;
    return *this;
  }
  Op& set_num_outputs(const Count& count) {
    get_num_outputs = count;
    return *this;
  }
  Op& set_attr_parser(const std::function<void(NodeAttrs*)>& parser) {
    attr_parser = parser;
    return *this;
  }
  Op& set_support_level(uint32_t) { return *this; }
  // A later value replaces an earlier one of the same level or a lower one.
  template <typename T>
  Op& set_attr(const std::string& key, const T& value, int level = 10) {
    auto known = attributes_.find(key);
    if (known == attributes_.end() || known->second.second <= level) {
      attributes_[key] = std::make_pair(any(value), level);
    }
    return *this;
  }

  // Null where the operator has no such attribute; an error where it has another type.
  template <typename T>
  const T* attribute(const std::string& key) const {
    auto known = attributes_.find(key);
    return known == attributes_.end() ? nullptr : &known->second.first.as<T>();
  }
  // A use of this operator: runs its parser.
  NodeAttrs use(const std::unordered_map<std::string, std::string>& dict) const {
    NodeAttrs attrs;
    attrs.op = this;
    attrs.dict = dict;
    if (attr_parser) attr_parser(&attrs);
    return attrs;
  }
  uint32_t inputs_of(const NodeAttrs& attrs) const { return get_num_inputs ? get_num_inputs(attrs) : num_inputs; }
  uint32_t outputs_of(const NodeAttrs& attrs) const { return get_num_outputs ? get_num_outputs(attrs) : num_outputs; }
  // Whether it is for gradients inside the library only.
  bool is_internal() const {
    const TIsBackward* backward = attribute<TIsBackward>("TIsBackward");
    return name.compare(0, 9, "_backward") == 0 || (backward != nullptr && *backward);
  }

  const std::string name;
  std::string description;
  std::vector<dmlc::ParamFieldInfo> arguments;
  std::vector<std::string> aliases;
  uint32_t num_inputs, num_outputs;
  Count get_num_inputs, get_num_outputs;
  std::function<void(NodeAttrs*)> attr_parser;

 private:
  std::map<std::string, std::pair<any, int>> attributes_;
};

template <typename T>
bool OpMap<T>::contains(const Op* op) const {
  return op != nullptr && op->attribute<T>(key_) != nullptr;
}
template <typename T>
const T& OpMap<T>::operator[](const Op* op) const {
  if (!contains(op)) throw dmlc::Error("operator " + (op ? op->name : std::string("null")) + " has no " + key_);
  return *op->attribute<T>(key_);
}
uint32_t Node::num_inputs() const { return is_variable() ? 0 : op()->inputs_of(attrs); }
uint32_t Node::num_outputs() const { return is_variable() ? 1 : op()->outputs_of(attrs); }

}  // namespace nnvm

// Parses the attributes into a structure: .set_attr_parser(ParamParser<ActivationParam>)
template <typename Param>
void hybridc_parse_param(nnvm::NodeAttrs* attrs) {
  Param param;
  try {
    param.Init(attrs->dict);
  } catch (const dmlc::ParamError& error) {
    throw dmlc::ParamError(attrs->op->name + ": " + error.what());
  }
  attrs->parsed = param;
}

#define NNVM_REGISTER_OP(name)                                                                     \
  static ::nnvm::Op& HYBRIDC_JOIN(hybridc_nnvm_op_, __COUNTER__) __attribute__((unused)) = \
      ::nnvm::Op::get_or_make(#name)
// NNVM_REGISTER_OP(abs).MXNET_DESCRIBE("…"): the description ends with where it stands.
#define HYBRIDC_TEXT_(x) #x
#define HYBRIDC_TEXT(x) HYBRIDC_TEXT_(x)
#define MXNET_DESCRIBE(...) describe(__VA_ARGS__ "\n\nFrom:" __FILE__ ":" HYBRIDC_TEXT(__LINE__))

#endif  // HYBRIDC_NNVM_OP_H_
