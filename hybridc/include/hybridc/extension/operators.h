// REGISTER_OP(name).setForward(…)…: operators and the functions that define them.
#ifndef HYBRIDC_EXTENSION_OPERATORS_H_
#define HYBRIDC_EXTENSION_OPERATORS_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "message.h"
#include "tensor.h"

// Attributes that the host adds: a subgraph operator's graph, and how many inputs a pass appended.
#define MX_STR_SUBGRAPH_SYM_JSON "subgraph_sym_json"
#define MX_STR_EXTRA_INPUTS "__ext_extra_inputs__"
// Attributes of a graph's nodes: what is known of their outputs, as "[[3,2]]" and "[0]".
#define MX_STR_SHAPE "__ext_shape__"
#define MX_STR_DTYPE "__ext_dtype__"

namespace hybridc {
namespace extension {

typedef std::unordered_map<std::string, std::string> Attributes;
typedef std::vector<int> Types;
typedef std::vector<std::vector<unsigned int>> Shapes;
typedef std::vector<MXTensor> Tensors;

// An operator with state: one object for each use of the operator, which the host deletes.
class CustomStatefulOp {
 public:
  CustomStatefulOp() : ignore_warn(true), created_(true) {}
  virtual ~CustomStatefulOp() {}

  virtual MXReturnValue Forward(Tensors* inputs, Tensors* outputs, const OpResource& resource) = 0;
  virtual MXReturnValue Backward(Tensors*, Tensors*, const OpResource&) {
    MX_ERROR_MSG << "Operator does not support backward";
    return MX_FAIL;
  }

  // *state = CustomStatefulOp::create<MyOp>(arguments of its constructor);
  template <typename Op, typename... Arguments>
  static CustomStatefulOp* create(Arguments&&... arguments) {
    return new Op(std::forward<Arguments>(arguments)...);
  }
  bool wasCreated() const { return created_; }

  bool ignore_warn;  // MXNet reads these two, by position: they must come first

 private:
  bool created_;
};

// What an author's function is called with. Each converts to every spelling of its parameter that MXNet's versions and
// documents know: maps ordered or not, vectors by pointer, reference or value.
struct AttributesArgument {
  explicit AttributesArgument(const Attributes& given) : attributes(given) {}
  operator const Attributes&() const { return attributes; }  // NOLINT(runtime/explicit)
  operator std::map<std::string, std::string>() const {      // NOLINT(runtime/explicit)
    return std::map<std::string, std::string>(attributes.begin(), attributes.end());
  }
  const Attributes& attributes;
};

template <typename T>
struct VectorArgument {
  explicit VectorArgument(std::vector<T>* given) : vector(given) {}
  operator std::vector<T>*() const { return vector; }   // NOLINT(runtime/explicit)
  operator std::vector<T>&() const { return *vector; }  // NOLINT(runtime/explicit)
  std::vector<T>* vector;
};

// Everything that an author said about one operator. The host holds pointers to these functions, so nothing moves.
class CustomOp {
 public:
  typedef std::function<MXReturnValue(const Attributes&, int*, int*)> ParseAttrs;
  typedef std::function<MXReturnValue(const Attributes&, Types*, Types*)> InferType;
  typedef std::function<MXReturnValue(const Attributes&, Shapes*, Shapes*)> InferShape;
  typedef std::function<MXReturnValue(const Attributes&, std::vector<int>*)> MutateInputs;
  typedef std::function<MXReturnValue(const Attributes&, Tensors*, Tensors*, const OpResource&)> Compute;
  typedef std::function<MXReturnValue(const Attributes&, const MXContext&, const Shapes&, const Types&,
                                      CustomStatefulOp**)>
      CreateOpState;

  explicit CustomOp(const std::string& given) : name(given), is_subgraph(false) {}

  // (attributes, int* number of inputs, int* number of outputs)
  template <typename F>
  CustomOp& setParseAttrs(F f) {
    parse_attrs = [f](const Attributes& attrs, int* inputs, int* outputs) {
      return status(f(AttributesArgument(attrs), inputs, outputs));
    };
    return *this;
  }
  // (attributes, input types, output types): fills what is -1
  template <typename F>
  CustomOp& setInferType(F f) {
    infer_type = types_function(f);
    return *this;
  }
  // (attributes, input storage types, output storage types)
  template <typename F>
  CustomOp& setInferSType(F f) {
    infer_storage = types_function(f);
    return *this;
  }
  // (attributes, input shapes, output shapes): a dimension of 0 and a shape without dimensions are unknown
  template <typename F>
  CustomOp& setInferShape(F f) {
    infer_shape = [f](const Attributes& attrs, Shapes* inputs, Shapes* outputs) {
      typedef VectorArgument<std::vector<unsigned int>> Argument;
      return status(f(AttributesArgument(attrs), Argument(inputs), Argument(outputs)));
    };
    return *this;
  }
  // (attributes, indices of the inputs that the operator updates)
  template <typename F>
  CustomOp& setMutateInputs(F f) {
    mutate_inputs = [f](const Attributes& attrs, std::vector<int>* indices) {
      return status(f(AttributesArgument(attrs), VectorArgument<int>(indices)));
    };
    return *this;
  }
  // (attributes, inputs, outputs, resource)
  template <typename F>
  CustomOp& setForward(F f, const char* context = "cpu") {
    set(&forward, "setForward", context, compute_function(f));
    return *this;
  }
  // (attributes, [gradients of the outputs, inputs, outputs], gradients of the inputs, resource)
  template <typename F>
  CustomOp& setBackward(F f, const char* context = "cpu") {
    set(&backward, "setBackward", context, compute_function(f));
    return *this;
  }
  // (attributes, [context, input shapes, input types,] CustomStatefulOp** state)
  template <typename F>
  CustomOp& setCreateOpState(F f, const char* context = "cpu") {
    set(&create_state, "setCreateOpState", context, state_function(f, 0));
    return *this;
  }
  // The operator of a partitioner: its number of inputs, shapes and types follow from its subgraph.
  CustomOp& setIsSubgraphOp() {
    is_subgraph = true;
    return *this;
  }

  // The spellings of the design proposal.
  template <typename F>
  CustomOp& setFCompute_cpu(F f) {
    return setForward(f, "cpu");
  }
  template <typename F>
  CustomOp& setFCompute_gpu(F f) {
    return setForward(f, "gpu");
  }

  // A mistake of the registration is told by the operator's first call: before, nobody listens.
  void finish() {
    if (mistake_.empty()) return;
    std::string text = name + ": " + mistake_;
    parse_attrs = [text](const Attributes&, int*, int*) {
      messages().add(text);
      return MX_FAIL;
    };
  }

  const std::string name;
  bool is_subgraph;
  ParseAttrs parse_attrs;
  InferType infer_type, infer_storage;
  InferShape infer_shape;
  MutateInputs mutate_inputs;
  std::map<std::string, Compute> forward, backward;  // by context
  std::map<std::string, CreateOpState> create_state;

 private:
  CustomOp(const CustomOp&);
  CustomOp& operator=(const CustomOp&);

  template <typename F>
  static InferType types_function(F f) {
    return [f](const Attributes& attrs, Types* inputs, Types* outputs) {
      return status(f(AttributesArgument(attrs), VectorArgument<int>(inputs), VectorArgument<int>(outputs)));
    };
  }
  template <typename F>
  static Compute compute_function(F f) {
    return [f](const Attributes& attrs, Tensors* inputs, Tensors* outputs, const OpResource& resource) {
      typedef VectorArgument<MXTensor> Argument;
      return status(f(AttributesArgument(attrs), Argument(inputs), Argument(outputs), resource));
    };
  }
  // With all five parameters, where `f` takes them …
  template <typename F>
  static auto state_function(F f, int)
      -> decltype(f(std::declval<AttributesArgument>(), std::declval<const MXContext&>(),
                    std::declval<const Shapes&>(), std::declval<const Types&>(), std::declval<CustomStatefulOp**>()),
                  CreateOpState()) {
    return [f](const Attributes& attrs, const MXContext& context, const Shapes& shapes, const Types& types,
               CustomStatefulOp** state) {
      return status(f(AttributesArgument(attrs), context, shapes, types, state));
    };
  }
  // … else with two.
  template <typename F>
  static CreateOpState state_function(F f, ...) {
    return [f](const Attributes& attrs, const MXContext&, const Shapes&, const Types&, CustomStatefulOp** state) {
      return status(f(AttributesArgument(attrs), state));
    };
  }

  template <typename Function>
  void set(std::map<std::string, Function>* functions, const char* what, const char* context, const Function& f) {
    if (functions->count(context) != 0) {
      mistake_ = std::string(what) + " was called twice for context \"" + context + "\": an operator has one function "
                "for each context";
    }
    (*functions)[context] = f;
  }

  std::string mistake_;
};

// What a library registers under names, in order; the elements never move.
template <typename T>
class Registry {
 public:
  T& add(const std::string& name) {
    entries_.push_back(std::unique_ptr<T>(new T(name)));
    return *entries_.back();
  }
  // Runs once, before the host first asks: adds what can be said only when all of a library is known.
  void later(const std::function<void(Registry*)>& add_more) { later_.push_back(add_more); }
  int size() {
    std::vector<std::function<void(Registry*)>> due;
    due.swap(later_);
    for (const auto& add_more : due) add_more(this);
    return static_cast<int>(entries_.size());
  }
  // Null outside the range.
  T* get(int index) { return index >= 0 && index < size() ? entries_[index].get() : nullptr; }

 private:
  std::vector<std::unique_ptr<T>> entries_;
  std::vector<std::function<void(Registry*)>> later_;
};

HYBRIDC_LOCAL inline Registry<CustomOp>& operators() {
  static Registry<CustomOp> all;
  return all;
}

}  // namespace extension
}  // namespace hybridc

#define HYBRIDC_JOIN_(a, b) a##b
#define HYBRIDC_JOIN(a, b) HYBRIDC_JOIN_(a, b)
// Declares the variable whose initialization registers something when the library is loaded.
#define HYBRIDC_REGISTER(type, registry, name)                                                     \
  static ::hybridc::extension::type& HYBRIDC_JOIN(hybridc_registered_, __COUNTER__) __attribute__((unused)) = \
      ::hybridc::extension::registry().add(name)

#define REGISTER_OP(Name) HYBRIDC_REGISTER(CustomOp, operators, #Name)

#endif  // HYBRIDC_EXTENSION_OPERATORS_H_
