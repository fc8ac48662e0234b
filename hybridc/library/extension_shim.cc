// Calls of a compiled extension library that end in a value, never in a C++ exception.
//
// A library built with MXNet's own header lets the exceptions of its authors' code leave its extern "C" functions
// ("thunks"); a caller without C++ frames, as ctypes is, then ends the process. Each function here makes one such call
// inside try/catch. It is compiled on demand, with the system's compiler:
//
//     g++ -O2 -std=c++11 -shared -fPIC extension_shim.cc -o libextension_shim.so
//
// Interface (all functions extern "C"; `thunk` is the address of the library's function of the name in the comment):
//
//   * Every shim_* function but shim_abi and shim_error returns the thunk's own value (1 success, 0 failure; a thunk
//     that returns nothing counts as success), or -1: an exception was thrown, and shim_error() has its text.
//   * int shim_abi(void): 1; changes with any change of this interface.
//   * const char* shim_error(void): text of the calling thread's last exception, valid until its next one.
//   * The metadata calls take the thunk and then exactly the thunk's arguments.
//   * The compute calls take their many arguments as one `ShimCompute`, so that a caller prepares it once for a
//     signature and changes data pointers only: shim_call_fcompute(thunk, function, &compute),
//     shim_call_fstateful_compute(thunk, is_forward, state, &compute).
//     A null `cpu_malloc` selects the workspace built in here: each request gets a buffer of its own, aligned to
//     64 bytes and alive until the call returns; no callback into the caller's language is needed.
//   * Nothing here keeps state but the error text; any number of threads may call.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

namespace {

typedef const char* const* Strings;
typedef void* (*Malloc)(void*, int);
typedef void (*SparseMalloc)(void*, int, int, int, void**, int64_t**, int64_t**);
typedef void (*ArrayMalloc)(const void*, const int64_t*, int, const char*, int, int, const char*, int, void**);

thread_local std::string last_error;

template <typename Call>
int guarded(Call call) {
  try {
    return call();
  } catch (const std::exception& error) {
    last_error = error.what();
    if (last_error.empty()) last_error = typeid(error).name();
  } catch (const std::string& text) {
    last_error = text;
  } catch (const char* text) {
    last_error = text;
  } catch (...) {
    last_error = "an exception that is no std::exception";
  }
  return -1;
}

// One call's temporary memory.
class Workspace {
 public:
  Workspace() {}
  ~Workspace() {
    for (void* buffer : buffers_) std::free(buffer);
  }
  static void* allocate(void* workspace, int size) {
    void* buffer = nullptr;
    if (posix_memalign(&buffer, 64, size > 0 ? static_cast<size_t>(size) : 1) != 0) throw std::bad_alloc();
    static_cast<Workspace*>(workspace)->buffers_.push_back(buffer);
    return buffer;
  }

 private:
  Workspace(const Workspace&);
  Workspace& operator=(const Workspace&);
  std::vector<void*> buffers_;
};

}  // namespace

extern "C" {

// The arrays of one side, all of length `count`; the last five are null pointers, or hold null pointers, when dense.
struct ShimTensors {
  const int64_t** shapes;
  int* dims;
  void** data;
  int* types;
  size_t* ids;
  const char** device_types;
  int* device_ids;
  int count;
  int* storage_types;
  void** indices;
  void** indptr;
  int64_t* indices_lengths;
  int64_t* indptr_lengths;
};

// Everything _opCallFCompute takes beside the function. The attributes are ignored by a stateful call.
struct ShimCompute {
  Strings keys;
  Strings values;
  int attribute_count;
  ShimTensors inputs;
  ShimTensors outputs;
  Malloc cpu_malloc;
  void* cpu_alloc;
  Malloc gpu_malloc;
  void* gpu_alloc;
  void* cuda_stream;
  SparseMalloc sparse_malloc;
  void* sparse_alloc;
  void* cpu_random_states;
  void* gpu_random_states;
};

// Named arrays (a graph's arguments or auxiliary states), in the order in which the graph thunks take them.
#define SHIM_PARAMS(p)                                                                                          \
  Strings p##_names, int p##_count, void *const *p##_data, const int64_t *const *p##_shapes, const int *p##_dims, \
      const int *p##_types, const size_t *p##_ids, Strings p##_device_types, const int *p##_device_ids
#define SHIM_PASS(p) \
  p##_names, p##_count, p##_data, p##_shapes, p##_dims, p##_types, p##_ids, p##_device_types, p##_device_ids

#define SHIM_SIDE const int64_t **, int *, void **, int *, size_t *, const char **, int *, int
#define SHIM_REST                                                                                                    \
  SHIM_SIDE, SHIM_SIDE, Malloc, void *, Malloc, void *, void *, SparseMalloc, void *, int *, int *, void **, void **, \
      void **, void **, int64_t *, int64_t *, int64_t *, int64_t *, void *, void *

int shim_abi(void) { return 1; }

const char* shim_error(void) { return last_error.c_str(); }

// initialize
int shim_call_initialize(void* thunk, int version) {
  typedef int (*Thunk)(int);
  return guarded([=]() { return reinterpret_cast<Thunk>(thunk)(version); });
}

// _opCallParseAttrs
int shim_call_parse_attrs(void* thunk, void* function, Strings keys, Strings values, int count, int* num_inputs,
                          int* num_outputs) {
  typedef int (*Thunk)(void*, Strings, Strings, int, int*, int*);
  return guarded([=]() {
    return reinterpret_cast<Thunk>(thunk)(function, keys, values, count, num_inputs, num_outputs);
  });
}

// _opCallInferType, _opCallInferSType
int shim_call_infer_type(void* thunk, void* function, Strings keys, Strings values, int count, int* in_types,
                         int num_inputs, int* out_types, int num_outputs) {
  typedef int (*Thunk)(void*, Strings, Strings, int, int*, int, int*, int);
  return guarded([=]() {
    return reinterpret_cast<Thunk>(thunk)(function, keys, values, count, in_types, num_inputs, out_types, num_outputs);
  });
}

// _opCallInferShape
int shim_call_infer_shape(void* thunk, void* function, Strings keys, Strings values, int count,
                          unsigned** in_shapes, int* in_dims, int num_inputs, unsigned*** new_in_shapes,
                          int** new_in_dims, unsigned*** out_shapes, int** out_dims, int num_outputs) {
  typedef int (*Thunk)(void*, Strings, Strings, int, unsigned**, int*, int, unsigned***, int**, unsigned***, int**,
                       int);
  return guarded([=]() {
    return reinterpret_cast<Thunk>(thunk)(function, keys, values, count, in_shapes, in_dims, num_inputs, new_in_shapes,
                                          new_in_dims, out_shapes, out_dims, num_outputs);
  });
}

// _opCallMutateInputs
int shim_call_mutate_inputs(void* thunk, void* function, Strings keys, Strings values, int count, int** indices,
                            int* num_indices) {
  typedef int (*Thunk)(void*, Strings, Strings, int, int**, int*);
  return guarded(
      [=]() { return reinterpret_cast<Thunk>(thunk)(function, keys, values, count, indices, num_indices); });
}

// _opCallCreateOpState
int shim_call_create_op_state(void* thunk, void* function, Strings keys, Strings values, int count,
                              const char* device_type, int device_id, unsigned** in_shapes, int* in_dims,
                              int num_inputs, const int* in_types, void** state) {
  typedef int (*Thunk)(void*, Strings, Strings, int, const char*, int, unsigned**, int*, int, const int*, void**);
  return guarded([=]() {
    return reinterpret_cast<Thunk>(thunk)(function, keys, values, count, device_type, device_id, in_shapes, in_dims,
                                          num_inputs, in_types, state);
  });
}

// _opCallDestroyOpState
int shim_call_destroy_op_state(void* thunk, void* state) {
  typedef void (*Thunk)(void*);
  return guarded([=]() {
    reinterpret_cast<Thunk>(thunk)(state);
    return 1;
  });
}

#define SHIM_TENSORS(t) t.shapes, t.dims, t.data, t.types, t.ids, t.device_types, t.device_ids, t.count
#define SHIM_COMPUTE(c, malloc_function, malloc_data)                                                           \
  SHIM_TENSORS(c->inputs), SHIM_TENSORS(c->outputs), malloc_function, malloc_data, c->gpu_malloc, c->gpu_alloc, \
      c->cuda_stream, c->sparse_malloc, c->sparse_alloc, c->inputs.storage_types, c->outputs.storage_types,     \
      c->inputs.indices, c->outputs.indices, c->inputs.indptr, c->outputs.indptr, c->inputs.indices_lengths,    \
      c->outputs.indices_lengths, c->inputs.indptr_lengths, c->outputs.indptr_lengths, c->cpu_random_states,    \
      c->gpu_random_states

// _opCallFCompute
int shim_call_fcompute(void* thunk, void* function, const ShimCompute* c) {
  typedef int (*Thunk)(void*, Strings, Strings, int, SHIM_REST);
  return guarded([=]() {
    Workspace own;
    Malloc allocate = c->cpu_malloc ? c->cpu_malloc : &Workspace::allocate;
    void* allocator = c->cpu_malloc ? c->cpu_alloc : &own;
    return reinterpret_cast<Thunk>(thunk)(function, c->keys, c->values, c->attribute_count,
                                          SHIM_COMPUTE(c, allocate, allocator));
  });
}

// _opCallFStatefulCompute
int shim_call_fstateful_compute(void* thunk, int is_forward, void* state, const ShimCompute* c) {
  typedef int (*Thunk)(int, void*, SHIM_REST);
  return guarded([=]() {
    Workspace own;
    Malloc allocate = c->cpu_malloc ? c->cpu_malloc : &Workspace::allocate;
    void* allocator = c->cpu_malloc ? c->cpu_alloc : &own;
    return reinterpret_cast<Thunk>(thunk)(is_forward, state, SHIM_COMPUTE(c, allocate, allocator));
  });
}

// _partCallSupportedOps
int shim_call_supported_ops(void* thunk, void* function, const char* json, int num_ids, int* ids, Strings keys,
                            Strings values, int count) {
  typedef int (*Thunk)(void*, const char*, int, int*, Strings, Strings, int);
  return guarded([=]() { return reinterpret_cast<Thunk>(thunk)(function, json, num_ids, ids, keys, values, count); });
}

// _partCallCreateSelector
int shim_call_create_selector(void* thunk, void* function, const char* json, void** selector, Strings keys,
                              Strings values, int count) {
  typedef int (*Thunk)(void*, const char*, void**, Strings, Strings, int);
  return guarded([=]() { return reinterpret_cast<Thunk>(thunk)(function, json, selector, keys, values, count); });
}

// _partCallSelect
int shim_call_select(void* thunk, void* selector, int node, int* selected) {
  typedef void (*Thunk)(void*, int, int*);
  return guarded([=]() {
    reinterpret_cast<Thunk>(thunk)(selector, node, selected);
    return 1;
  });
}

// _partCallSelectInput, _partCallSelectOutput
int shim_call_select_neighbour(void* thunk, void* selector, int node, int neighbour, int* selected) {
  typedef void (*Thunk)(void*, int, int, int*);
  return guarded([=]() {
    reinterpret_cast<Thunk>(thunk)(selector, node, neighbour, selected);
    return 1;
  });
}

// _partCallFilter: *keep is the library's, freed with its _opCallFree
int shim_call_filter(void* thunk, void* selector, int* candidates, int num_candidates, int** keep, int* num_keep) {
  typedef void (*Thunk)(void*, int*, int, int**, int*);
  return guarded([=]() {
    reinterpret_cast<Thunk>(thunk)(selector, candidates, num_candidates, keep, num_keep);
    return 1;
  });
}

// _partCallReset
int shim_call_reset(void* thunk, void* selector) {
  typedef void (*Thunk)(void*);
  return guarded([=]() {
    reinterpret_cast<Thunk>(thunk)(selector);
    return 1;
  });
}

// _partCallReviewSubgraph
int shim_call_review_subgraph(void* thunk, void* function, const char* json, int subgraph, int* accept, Strings keys,
                              Strings values, int count, char*** new_keys, char*** new_values, int* num_new,
                              SHIM_PARAMS(arg), SHIM_PARAMS(aux)) {
  typedef int (*Thunk)(void*, const char*, int, int*, Strings, Strings, int, char***, char***, int*, SHIM_PARAMS(arg),
                       SHIM_PARAMS(aux));
  return guarded([=]() {
    return reinterpret_cast<Thunk>(thunk)(function, json, subgraph, accept, keys, values, count, new_keys, new_values,
                                          num_new, SHIM_PASS(arg), SHIM_PASS(aux));
  });
}

// _passCallGraphPass: *out_json is the library's, freed with its _opCallFree. `array_malloc` gets (array_alloc, shape,
// number of dimensions, "cpu"/"gpu", device id, type code, name, 1 argument or 0 auxiliary state, &data).
int shim_call_graph_pass(void* thunk, void* function, const char* json, char** out_json, Strings keys, Strings values,
                         int count, const char* name, SHIM_PARAMS(arg), SHIM_PARAMS(aux), ArrayMalloc array_malloc,
                         const void* array_alloc) {
  typedef int (*Thunk)(void*, const char*, char**, Strings, Strings, int, const char*, SHIM_PARAMS(arg),
                       SHIM_PARAMS(aux), ArrayMalloc, const void*);
  return guarded([=]() {
    return reinterpret_cast<Thunk>(thunk)(function, json, out_json, keys, values, count, name, SHIM_PASS(arg),
                                          SHIM_PASS(aux), array_malloc, array_alloc);
  });
}

}  // extern "C"
