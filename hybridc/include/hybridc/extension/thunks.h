// The C functions of abi.h.
#ifndef HYBRIDC_EXTENSION_THUNKS_H_
#define HYBRIDC_EXTENSION_THUNKS_H_

// Inside these functions, names of the library's namespaces are visible, and only there.
#define HYBRIDC_NAMES                  \
  using namespace hybridc::extension; \
  using namespace hybridc::extension::abi

HYBRIDC_ABI int _opVersion() { return MX_LIBRARY_VERSION; }

HYBRIDC_ABI int _msgSize() { return hybridc::extension::messages().size(); }

HYBRIDC_ABI void _msgGet(int index, const char** text) { *text = hybridc::extension::messages().get(index); }

HYBRIDC_ABI void _opCallFree(void* memory) { std::free(memory); }

HYBRIDC_ABI int _opRegSize() { return hybridc::extension::operators().size(); }

HYBRIDC_ABI void _opRegGet(int index, const char** name, int* is_subgraph, const char*** forward_contexts,
                           const void*** forward, int* forward_count, const char*** backward_contexts,
                           const void*** backward, int* backward_count, const char*** create_contexts,
                           const void*** create, int* create_count, const void** parse_attrs, const void** infer_type,
                           const void** infer_storage, const void** infer_shape, const void** mutate_inputs) {
  HYBRIDC_NAMES;
  CustomOp* op = operators().get(index);
  if (op == nullptr) return;
  op->finish();
  ContextArrays& arrays = context_arrays(op);
  by_context(op->forward, &arrays.names[0], &arrays.pointers[0]);
  by_context(op->backward, &arrays.names[1], &arrays.pointers[1]);
  by_context(op->create_state, &arrays.names[2], &arrays.pointers[2]);
  const char*** contexts[] = {forward_contexts, backward_contexts, create_contexts};
  const void*** functions[] = {forward, backward, create};
  int* counts[] = {forward_count, backward_count, create_count};
  for (int i = 0; i < 3; ++i) {
    *contexts[i] = arrays.names[i].data();
    *functions[i] = arrays.pointers[i].data();
    *counts[i] = static_cast<int>(arrays.names[i].size());
  }
  *name = op->name.c_str();
  *is_subgraph = op->is_subgraph;
  *parse_attrs = pointer(op->parse_attrs);
  *infer_type = pointer(op->infer_type);
  *infer_storage = pointer(op->infer_storage);
  *infer_shape = pointer(op->infer_shape);
  *mutate_inputs = pointer(op->mutate_inputs);
}

HYBRIDC_ABI int _opCallParseAttrs(const void* function, HYBRIDC_ATTRIBUTES, int* num_in, int* num_out) {
  HYBRIDC_NAMES;
  return guarded([=]() {
    return pointed<CustomOp::ParseAttrs>(function)(attributes(keys, values, count), num_in, num_out);
  });
}

HYBRIDC_ABI int _opCallInferType(const void* function, HYBRIDC_ATTRIBUTES, int* in, int num_in, int* out, int num_out) {
  HYBRIDC_NAMES;
  return guarded(
      [=]() { return infer_types(function, keys, values, count, in, num_in, out, num_out, "types"); });
}

HYBRIDC_ABI int _opCallInferSType(const void* function, HYBRIDC_ATTRIBUTES, int* in, int num_in, int* out,
                                  int num_out) {
  HYBRIDC_NAMES;
  return guarded(
      [=]() { return infer_types(function, keys, values, count, in, num_in, out, num_out, "storage types"); });
}

HYBRIDC_ABI int _opCallInferShape(const void* function, HYBRIDC_ATTRIBUTES, const unsigned int* const* in_dims,
                                  const int* in_ndims, int num_in, unsigned int*** new_in_dims, int** new_in_ndims,
                                  unsigned int*** out_dims, int** out_ndims, int num_out) {
  HYBRIDC_NAMES;
  return guarded([=]() {
    Shapes inputs = shapes(in_dims, in_ndims, num_in), outputs(num_out);
    MXReturnValue result = pointed<CustomOp::InferShape>(function)(attributes(keys, values, count), &inputs, &outputs);
    if (result != MX_SUCCESS) return result;
    require_count(inputs, num_in, "input shapes");
    require_count(outputs, num_out, "output shapes");
    copy(inputs, new_in_dims, new_in_ndims);
    copy(outputs, out_dims, out_ndims);
    return result;
  });
}

HYBRIDC_ABI int _opCallMutateInputs(const void* function, HYBRIDC_ATTRIBUTES, int** indices, int* num_indices) {
  HYBRIDC_NAMES;
  return guarded([=]() {
    std::vector<int> mutated;
    MXReturnValue result = pointed<CustomOp::MutateInputs>(function)(attributes(keys, values, count), &mutated);
    if (result != MX_SUCCESS) return result;
    *indices = allocate<int>(mutated.size());
    std::copy(mutated.begin(), mutated.end(), *indices);
    *num_indices = static_cast<int>(mutated.size());
    return result;
  });
}

HYBRIDC_ABI int _opCallFCompute(const void* function, HYBRIDC_ATTRIBUTES, HYBRIDC_COMPUTE) {
  HYBRIDC_NAMES;
  return guarded([=]() {
    return compute(HYBRIDC_COMPUTE_VALUES, [=](Tensors* inputs, Tensors* outputs, const OpResource& resource) {
      return pointed<CustomOp::Compute>(function)(attributes(keys, values, count), inputs, outputs, resource);
    });
  });
}

HYBRIDC_ABI int _opCallCreateOpState(const void* function, HYBRIDC_ATTRIBUTES, const char* device_type, int device_id,
                                     const unsigned int* const* in_dims, const int* in_ndims, int num_in,
                                     const int* in_types, void** state) {
  HYBRIDC_NAMES;
  return guarded([=]() {
    CustomStatefulOp* created = nullptr;
    std::vector<int> types(in_types, in_types + num_in);
    MXReturnValue result = pointed<CustomOp::CreateOpState>(function)(
        attributes(keys, values, count), MXContext(device_type, device_id), shapes(in_dims, in_ndims, num_in), types,
        &created);
    if (result == MX_SUCCESS && created == nullptr) {
      throw std::runtime_error("createOpState succeeded and set no state");
    }
    *state = created;
    return result;
  });
}

HYBRIDC_ABI void _opCallDestroyOpState(void* state) {
  delete static_cast<hybridc::extension::CustomStatefulOp*>(state);
}

HYBRIDC_ABI int _opCallFStatefulCompute(int is_forward, void* state, HYBRIDC_COMPUTE) {
  HYBRIDC_NAMES;
  return guarded([=]() {
    return compute(HYBRIDC_COMPUTE_VALUES, [=](Tensors* inputs, Tensors* outputs, const OpResource& resource) {
      CustomStatefulOp* op = static_cast<CustomStatefulOp*>(state);
      return is_forward ? op->Forward(inputs, outputs, resource) : op->Backward(inputs, outputs, resource);
    });
  });
}

HYBRIDC_ABI int _partRegSize() { return hybridc::extension::partitioners().size(); }

// The number of strategies.
HYBRIDC_ABI int _partRegGetCount(int index, const char** name) {
  const hybridc::extension::CustomPartitioner* partitioner = hybridc::extension::partitioners().get(index);
  if (partitioner == nullptr) return 0;
  *name = partitioner->name.c_str();
  return static_cast<int>(partitioner->strategies.size());
}

HYBRIDC_ABI void _partRegGet(int index, int strategy_index, const char** strategy, const void** supported_ops,
                             const void** create_selector, const void** review_subgraph, const char** op_name) {
  HYBRIDC_NAMES;
  const CustomPartitioner* partitioner = partitioners().get(index);
  if (partitioner == nullptr || strategy_index >= static_cast<int>(partitioner->strategies.size())) return;
  const Strategy& chosen = *partitioner->strategies[strategy_index];
  *strategy = chosen.name.c_str();
  *op_name = chosen.op_name.c_str();
  *supported_ops = pointer(chosen.supported_ops);
  *create_selector = pointer(chosen.create_selector);
  *review_subgraph = pointer(chosen.review_subgraph);
}

HYBRIDC_ABI int _partCallSupportedOps(const void* function, const char* json, int num_ids, int* ids,
                                      HYBRIDC_ATTRIBUTES) {
  HYBRIDC_NAMES;
  return guarded([=]() {
    std::unique_ptr<Graph> graph(Graph::fromString(json));
    std::vector<int> chosen(num_ids, -2);
    MXReturnValue result =
        pointed<Strategy::SupportedOps>(function)(graph.get(), &chosen, attributes(keys, values, count));
    if (result != MX_SUCCESS) return result;
    require_count(chosen, num_ids, "ids");
    std::copy(chosen.begin(), chosen.end(), ids);
    return result;
  });
}

// The host never says when it is done with a selector, so it and its graph stay.
HYBRIDC_ABI int _partCallCreateSelector(const void* function, const char* json, void** selector, HYBRIDC_ATTRIBUTES) {
  HYBRIDC_NAMES;
  return guarded([=]() {
    std::unique_ptr<Selector> made(new Selector{std::unique_ptr<Graph>(Graph::fromString(json)), nullptr});
    MXReturnValue result = pointed<Strategy::CreateSelector>(function)(made->graph.get(), &made->selector,
                                                                       attributes(keys, values, count));
    if (result != MX_SUCCESS) return result;
    if (made->selector == nullptr) throw std::runtime_error("createSelector succeeded and set no selector");
    *selector = made.release();
    return result;
  });
}

HYBRIDC_ABI void _partCallSelect(void* selector, int node, int* selected) {
  HYBRIDC_NAMES;
  *selected = 0;
  guarded([=]() {
    *selected = static_cast<Selector*>(selector)->selector->Select(node);
    return MX_SUCCESS;
  });
}

HYBRIDC_ABI void _partCallSelectInput(void* selector, int node, int input_node, int* selected) {
  HYBRIDC_NAMES;
  *selected = 0;
  guarded([=]() {
    *selected = static_cast<Selector*>(selector)->selector->SelectInput(node, input_node);
    return MX_SUCCESS;
  });
}

HYBRIDC_ABI void _partCallSelectOutput(void* selector, int node, int output_node, int* selected) {
  HYBRIDC_NAMES;
  *selected = 0;
  guarded([=]() {
    *selected = static_cast<Selector*>(selector)->selector->SelectOutput(node, output_node);
    return MX_SUCCESS;
  });
}

HYBRIDC_ABI void _partCallFilter(void* selector, int* candidates, int num_candidates, int** keep, int* num_keep) {
  HYBRIDC_NAMES;
  *keep = nullptr;
  *num_keep = 0;
  guarded([=]() {
    std::vector<int> all(candidates, candidates + num_candidates), kept;
    static_cast<Selector*>(selector)->selector->Filter(all, &kept);
    *keep = allocate<int>(kept.size());
    std::copy(kept.begin(), kept.end(), *keep);
    *num_keep = static_cast<int>(kept.size());
    return MX_SUCCESS;
  });
}

HYBRIDC_ABI void _partCallReset(void* selector) {
  HYBRIDC_NAMES;
  guarded([=]() {
    static_cast<Selector*>(selector)->selector->Reset();
    return MX_SUCCESS;
  });
}

HYBRIDC_ABI int _partCallReviewSubgraph(const void* function, const char* json, int subgraph_id, int* accept,
                                        HYBRIDC_ATTRIBUTES, char*** new_keys, char*** new_values, int* num_new,
                                        HYBRIDC_VARIABLES(arg), HYBRIDC_VARIABLES(aux)) {
  HYBRIDC_NAMES;
  return guarded([=]() {
    std::unique_ptr<Graph> graph(Graph::fromString(json));
    PassResource resource(HYBRIDC_VARIABLES_VALUE(arg), HYBRIDC_VARIABLES_VALUE(aux), nullptr, nullptr);
    graph->set_resource(&resource);
    bool accepted = true;
    Attributes added;
    MXReturnValue result = pointed<Strategy::ReviewSubgraph>(function)(graph.get(), subgraph_id, &accepted,
                                                                       attributes(keys, values, count), &added);
    if (result != MX_SUCCESS) return result;
    *accept = accepted;
    *num_new = static_cast<int>(added.size());
    *new_keys = allocate<char*>(added.size());
    *new_values = allocate<char*>(added.size());
    int i = 0;
    for (const auto& attribute : added) {
      (*new_keys)[i] = copy(attribute.first);
      (*new_values)[i++] = copy(attribute.second);
    }
    return result;
  });
}

HYBRIDC_ABI int _passRegSize() { return hybridc::extension::passes().size(); }

HYBRIDC_ABI void _passRegGet(int index, const void** body, const char** name) {
  const hybridc::extension::CustomPass* pass = hybridc::extension::passes().get(index);
  if (pass == nullptr) return;
  *body = hybridc::extension::abi::pointer(pass->body);
  *name = pass->name.c_str();
}

HYBRIDC_ABI int _passCallGraphPass(const void* function, const char* json, char** out_json, HYBRIDC_ATTRIBUTES,
                                   const char* /*name*/, HYBRIDC_VARIABLES(arg), HYBRIDC_VARIABLES(aux),
                                   hybridc::extension::nd_malloc_t array_malloc, const void* array_host) {
  HYBRIDC_NAMES;
  return guarded([=]() {
    std::unique_ptr<Graph> graph(Graph::fromString(json));
    PassResource resource(HYBRIDC_VARIABLES_VALUE(arg), HYBRIDC_VARIABLES_VALUE(aux), array_malloc, array_host);
    graph->set_resource(&resource);
    MXReturnValue result = pointed<CustomPass::Body>(function)(graph.get(), attributes(keys, values, count));
    if (result != MX_SUCCESS) return result;
    *out_json = copy(graph->toString());
    return result;
  });
}

#endif  // HYBRIDC_EXTENSION_THUNKS_H_
