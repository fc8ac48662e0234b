// The binary interface, version 11: the C functions through which hybridc and MXNet 1.9 read and call a library.
//
// A host finds these by name. It holds the author's functions as opaque pointers, which it got from _opRegGet,
// _partRegGet and _passRegGet and gives back to the _…Call… functions; here they point to the std::functions of the
// registries. Every call returns 1 for success and 0 for failure, whose texts _msgSize and _msgGet tell. What a call
// allocates for its caller is freed with _opCallFree. No exception leaves.
#ifndef HYBRIDC_EXTENSION_ABI_H_
#define HYBRIDC_EXTENSION_ABI_H_

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <unordered_map>
#include <vector>

#include "message.h"
#include "operators.h"
#include "passes.h"
#include "tensor.h"

// Emitted by every source file that includes this; the linker keeps one.
#define HYBRIDC_ABI extern "C" __attribute__((weak, visibility("default")))

extern "C" {
// Written by the author: called once, with 10000 * major + 100 * minor + patch of the MXNet that the host stands for.
__attribute__((visibility("default"))) ::hybridc::extension::MXReturnValue initialize(int version);
}

namespace hybridc {
namespace extension {
namespace abi {

typedef const char* const* Strings;

template <typename Function>
const Function& pointed(const void* function) {
  if (function == nullptr) throw std::invalid_argument("the host called a function that the library does not have");
  return *static_cast<const Function*>(function);
}

template <typename Function>
const void* pointer(const Function& function) {
  return function ? &function : nullptr;
}

inline Attributes attributes(Strings keys, Strings values, int count) {
  Attributes all;
  for (int i = 0; i < count; ++i) all[keys[i]] = values[i];
  return all;
}

inline std::vector<std::vector<unsigned int>> shapes(const unsigned int* const* dims, const int* ndims, int count) {
  std::vector<std::vector<unsigned int>> all(count);
  for (int i = 0; i < count; ++i) {
    if (ndims[i] > 0) all[i].assign(dims[i], dims[i] + ndims[i]);  // -1: unknown
  }
  return all;
}

// Memory that the host frees with _opCallFree.
template <typename T>
T* allocate(size_t count) {
  void* memory = std::malloc(count == 0 ? 1 : count * sizeof(T));
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<T*>(memory);
}

inline char* copy(const std::string& text) {
  return std::strcpy(allocate<char>(text.size() + 1), text.c_str());
}

inline void copy(const std::vector<std::vector<unsigned int>>& all, unsigned int*** dims, int** ndims) {
  *ndims = allocate<int>(all.size());
  *dims = allocate<unsigned int*>(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    (*ndims)[i] = static_cast<int>(all[i].size());
    (*dims)[i] = allocate<unsigned int>(all[i].size());
    std::copy(all[i].begin(), all[i].end(), (*dims)[i]);
  }
}

template <typename T>
void require_count(const std::vector<T>& vector, int expected, const char* what) {
  if (static_cast<int>(vector.size()) == expected) return;
  throw std::length_error("the function left " + std::to_string(vector.size()) + " " + what + ", expected " +
                          std::to_string(expected));
}

inline MXReturnValue infer_types(const void* function, Strings keys, Strings values, int count, int* in, int num_in,
                                 int* out, int num_out, const char* what) {
  std::vector<int> inputs(in, in + num_in), outputs(num_out, -1);
  MXReturnValue result = pointed<CustomOp::InferType>(function)(attributes(keys, values, count), &inputs, &outputs);
  if (result != MX_SUCCESS) return result;
  require_count(inputs, num_in, what);
  require_count(outputs, num_out, what);
  std::copy(inputs.begin(), inputs.end(), in);
  std::copy(outputs.begin(), outputs.end(), out);
  return result;
}

// The arrays of one side of a call.
struct Side {
  const int64_t* const* shapes;
  const int* ndims;
  void* const* data;
  const int* types;
  const size_t* ids;
  Strings device_types;
  const int* device_ids;
  int count;
  const int* storage;
  void* const* indices;
  void* const* indptr;
  const int64_t* indices_counts;
  const int64_t* indptr_counts;

  // `sparse` holds what a sparse tensor's data points to.
  std::vector<MXTensor> tensors(std::vector<MXSparse>* sparse) const {
    std::vector<MXTensor> all;
    all.reserve(count);
    sparse->resize(count);
    for (int i = 0; i < count; ++i) {
      MXStorageType stype = storage == nullptr ? kDefaultStorage : static_cast<MXStorageType>(storage[i]);
      void* pointer = data[i];
      if (stype != kDefaultStorage) {
        bool csr = stype == kCSRStorage;
        (*sparse)[i].set(data[i], shapes[i], ndims[i], indices[i], indices_counts[i], csr ? indptr[i] : nullptr,
                         csr ? indptr_counts[i] : 0);
        pointer = &(*sparse)[i];
      }
      all.push_back(MXTensor(pointer, std::vector<int64_t>(shapes[i], shapes[i] + ndims[i]),
                             static_cast<MXDType>(types[i]), ids[i], MXContext(device_types[i], device_ids[i]), stype));
    }
    return all;
  }
};

template <typename Call>
MXReturnValue compute(const Side& in, const Side& out, const OpResource& resource, Call call) {
  std::vector<MXSparse> in_sparse, out_sparse;
  std::vector<MXTensor> inputs = in.tensors(&in_sparse), outputs = out.tensors(&out_sparse);
  return call(&inputs, &outputs, resource);
}

inline std::unordered_map<std::string, MXTensor> arrays(Strings names, const Side& side) {
  std::unordered_map<std::string, MXTensor> all;
  std::vector<MXSparse> none;
  std::vector<MXTensor> tensors = side.tensors(&none);
  for (int i = 0; i < side.count; ++i) all[names[i]] = tensors[i];
  return all;
}

// What the host holds of a selector: with the graph, which the author's object may point to.
struct Selector {
  std::unique_ptr<Graph> graph;
  CustomOpSelector* selector;
};

template <typename Function>
void by_context(const std::map<std::string, Function>& functions, std::vector<const char*>* names,
                std::vector<const void*>* pointers) {
  names->clear();
  pointers->clear();
  for (const auto& entry : functions) {
    names->push_back(entry.first.c_str());
    pointers->push_back(pointer(entry.second));
  }
}

// The arrays that _opRegGet gives out, kept for the host.
struct ContextArrays {
  std::vector<const char*> names[3];
  std::vector<const void*> pointers[3];
};

HYBRIDC_LOCAL inline ContextArrays& context_arrays(const CustomOp* op) {
  static std::unordered_map<const CustomOp*, ContextArrays> all;
  return all[op];
}

}  // namespace abi
}  // namespace extension
}  // namespace hybridc

#define HYBRIDC_ATTRIBUTES const char *const *keys, const char *const *values, int count
#define HYBRIDC_SIDE(s)                                                                                    \
  const int64_t *const *s##_shapes, const int *s##_ndims, void *const *s##_data, const int *s##_types,     \
      const size_t *s##_ids, const char *const *s##_device_types, const int *s##_device_ids, int s##_count
#define HYBRIDC_SIDE_VALUES(s) \
  s##_shapes, s##_ndims, s##_data, s##_types, s##_ids, s##_device_types, s##_device_ids, s##_count
#define HYBRIDC_COMPUTE                                                                                           \
  HYBRIDC_SIDE(in), HYBRIDC_SIDE(out), ::hybridc::extension::xpu_malloc_t cpu_malloc, void *cpu_host,             \
      ::hybridc::extension::xpu_malloc_t gpu_malloc, void *gpu_host, void *stream,                                \
      ::hybridc::extension::sparse_malloc_t sparse_malloc, void *sparse_host, const int *in_storage,              \
      const int *out_storage, void *const *in_indices, void *const *out_indices, void *const *in_indptr,          \
      void *const *out_indptr, const int64_t *in_indices_counts, const int64_t *out_indices_counts,               \
      const int64_t *in_indptr_counts, const int64_t *out_indptr_counts, void *cpu_random, void *gpu_random
#define HYBRIDC_COMPUTE_VALUES                                                                                         \
  ::hybridc::extension::abi::Side{HYBRIDC_SIDE_VALUES(in), in_storage, in_indices, in_indptr, in_indices_counts,       \
                                  in_indptr_counts},                                                                   \
      ::hybridc::extension::abi::Side{HYBRIDC_SIDE_VALUES(out), out_storage, out_indices, out_indptr,                  \
                                      out_indices_counts, out_indptr_counts},                                          \
      ::hybridc::extension::OpResource(cpu_malloc, cpu_host, gpu_malloc, gpu_host, stream, sparse_malloc, sparse_host, \
                                       cpu_random, gpu_random)
// A graph's variables with arrays: names and one side, without storage types.
#define HYBRIDC_VARIABLES(s)                                                                                    \
  const char *const *s##_names, int s##_count, void *const *s##_data, const int64_t *const *s##_shapes,         \
      const int *s##_ndims, const int *s##_types, const size_t *s##_ids, const char *const *s##_device_types,   \
      const int *s##_device_ids
#define HYBRIDC_VARIABLES_VALUE(s)                                                                      \
  ::hybridc::extension::abi::arrays(                                                                    \
      s##_names, ::hybridc::extension::abi::Side{HYBRIDC_SIDE_VALUES(s), nullptr, nullptr, nullptr, nullptr, nullptr})

#include "thunks.h"

#endif  // HYBRIDC_EXTENSION_ABI_H_
