// Arrays as an author's function sees them, and what a call offers beside them: workspace, stream, random states.
#ifndef HYBRIDC_EXTENSION_TENSOR_H_
#define HYBRIDC_EXTENSION_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "message.h"

#if defined(__NVCC__)
#include <cuda_runtime.h>
#include <curand_kernel.h>
#endif

#define MX_LIBRARY_VERSION 11
#define MX_NUM_CPU_RANDOM_STATES 1024
#define MX_NUM_GPU_RANDOM_STATES 32768

namespace hybridc {
namespace extension {

// Element types; the numbers are the binary interface's. -1 stands for a type that is not known yet.
enum MXDType {
  kFloat32 = 0,
  kFloat64 = 1,
  kFloat16 = 2,
  kUint8 = 3,
  kInt32 = 4,
  kInt8 = 5,
  kInt64 = 6,
  kUNSET = 100
};

enum MXStorageType { kDefaultStorage = 0, kRowSparseStorage = 1, kCSRStorage = 2 };

// Where an array lives: "cpu" or "gpu", and which.
struct MXContext {
  MXContext() : dev_type("error"), dev_id(-1) {}
  MXContext(const std::string& type, int id) : dev_type(type), dev_id(id) {}
  static MXContext CPU(int id = 0) { return MXContext("cpu", id); }
  static MXContext GPU(int id = 0) { return MXContext("gpu", id); }

  std::string dev_type;
  int dev_id;
};

// The tensor structure of DLPack 0.2, which DLPack libraries of that time read.
enum DLDeviceType { kDLCPU = 1, kDLGPU = 2 };
enum DLDataTypeCode { kDLInt = 0, kDLUInt = 1, kDLFloat = 2 };
struct DLContext {
  DLDeviceType device_type;
  int device_id;
};
struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLContext ctx;
  int ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;  // null: row-major without gaps
  uint64_t byte_offset;
};

// The parts of a sparse array: values, their column or row indices, and, for CSR, where each row begins.
struct MXSparse {
  MXSparse() : data(nullptr), data_len(0), indices(nullptr), indices_len(0), indptr(nullptr), indptr_len(0) {}

  // As stored: one value for each index in CSR; one row, of the trailing dimensions' size, for each index otherwise.
  void set(void* values, const int64_t* shape, int ndim, void* index, int64_t index_count, void* row_starts = nullptr,
           int64_t row_starts_count = 0) {
    data = values;
    indices = static_cast<int64_t*>(index);
    indices_len = data_len = index_count;
    indptr = static_cast<int64_t*>(row_starts);
    indptr_len = row_starts_count;
    for (int i = 1; row_starts == nullptr && i < ndim; ++i) data_len *= shape[i];
  }

  void* data;
  int64_t data_len;
  int64_t* indices;
  int64_t indices_len;
  int64_t* indptr;
  int64_t indptr_len;
};

HYBRIDC_LOCAL inline DLDataType dlpack_type(MXDType type) {
  static const DLDataType known[] = {{kDLFloat, 32, 1}, {kDLFloat, 64, 1}, {kDLFloat, 16, 1}, {kDLUInt, 8, 1},
                                     {kDLInt, 32, 1},   {kDLInt, 8, 1},    {kDLInt, 64, 1}};
  if (type < kFloat32 || type > kInt64) {
    throw std::invalid_argument("element type " + std::to_string(static_cast<int>(type)) +
                                ": expected 0 to 6 (float32, float64, float16, uint8, int32, int8, int64)");
  }
  return known[type];
}

// A view of an array: row-major without gaps. The memory is the host's.
struct MXTensor {
  MXTensor() : data_ptr(nullptr), dtype(kUNSET), verID(0), dltensor(), stype(kDefaultStorage) {}
  MXTensor(void* data, const std::vector<int64_t>& dims, MXDType type, size_t version = 0,
           const MXContext& context = MXContext::CPU(), MXStorageType storage = kDefaultStorage)
      : data_ptr(data), shape(dims), dtype(type), verID(version), ctx(context), dltensor(), stype(storage) {
    setDLTensor();
  }
  MXTensor(const MXTensor& other)
      : data_ptr(other.data_ptr), shape(other.shape), dtype(other.dtype), verID(other.verID), ctx(other.ctx),
        dltensor(other.dltensor), stype(other.stype) {
    dltensor.shape = shape.data();
  }
  MXTensor& operator=(const MXTensor& other) {
    data_ptr = other.data_ptr;
    shape = other.shape;
    dtype = other.dtype;
    verID = other.verID;
    ctx = other.ctx;
    dltensor = other.dltensor;
    dltensor.shape = shape.data();
    stype = other.stype;
    return *this;
  }

  // The elements; of a sparse array its MXSparse.
  template <typename T>
  T* data() {
    return reinterpret_cast<T*>(data_ptr);
  }
  template <typename T>
  const T* data() const {
    return reinterpret_cast<const T*>(data_ptr);
  }

  // Number of elements of the dense shape.
  int64_t size() const {
    int64_t count = 1;
    for (int64_t dim : shape) count *= dim;
    return count;
  }

  // Whether both are the same version of the same array.
  bool isSame(const MXTensor& other) const {
    return data_ptr == other.data_ptr && dtype == other.dtype && verID == other.verID && shape == other.shape &&
           ctx.dev_type == other.ctx.dev_type && ctx.dev_id == other.ctx.dev_id && stype == other.stype;
  }

  void setTensor(void* data, MXDType type, const int64_t* dims, int ndim, size_t version,
                 const MXContext& context = MXContext::CPU(), MXStorageType storage = kDefaultStorage) {
    *this = MXTensor(data, std::vector<int64_t>(dims, dims + ndim), type, version, context, storage);
  }
  void setDLTensor() {
    dltensor.data = data_ptr;
    dltensor.ctx.device_type = ctx.dev_type == "gpu" ? kDLGPU : kDLCPU;
    dltensor.ctx.device_id = ctx.dev_id;
    dltensor.ndim = static_cast<int>(shape.size());
    dltensor.dtype = dlpack_type(dtype);
    dltensor.shape = shape.data();
    dltensor.strides = nullptr;
    dltensor.byte_offset = 0;
  }

  void* data_ptr;
  std::vector<int64_t> shape;
  MXDType dtype;
  size_t verID;  // changes whenever the array was written: what was derived from it may be kept until then
  MXContext ctx;
  DLTensor dltensor;
  MXStorageType stype;
};

// How the host gives memory to a call.
extern "C" {
typedef void* (*xpu_malloc_t)(void* host, int size);
typedef void (*sparse_malloc_t)(void* host, int output, int indices_count, int indptr_count, void** values,
                                int64_t** indices, int64_t** indptr);
}

typedef std::mt19937 mx_cpu_rand_t;
#if defined(__NVCC__)
typedef cudaStream_t mx_stream_t;
typedef curandStatePhilox4_32_10_t mx_gpu_rand_t;
#else
typedef void* mx_stream_t;
typedef void mx_gpu_rand_t;
#endif

// What a call offers beside its arrays. Everything ends with the call, but the random states, which go on.
class OpResource {
 public:
  OpResource(xpu_malloc_t cpu_malloc, void* cpu_host, xpu_malloc_t gpu_malloc, void* gpu_host, void* stream,
             sparse_malloc_t sparse_malloc, void* sparse_host, void* cpu_random, void* gpu_random)
      : cpu_malloc_(cpu_malloc), gpu_malloc_(gpu_malloc), cpu_host_(cpu_host), gpu_host_(gpu_host), stream_(stream),
        sparse_malloc_(sparse_malloc), sparse_host_(sparse_host), cpu_random_(cpu_random), gpu_random_(gpu_random) {}

  // Temporary memory. MXNet reuses it at the next request: ask once for all.
  void* alloc_cpu(int size) const { return require(cpu_malloc_, "CPU workspace")(cpu_host_, size); }
  void* alloc_gpu(int size) const { return require(gpu_malloc_, "GPU workspace")(gpu_host_, size); }

  // Memory of a sparse output; without `indptr_count` it is row-sparse, with it CSR.
  void alloc_sparse(MXSparse* sparse, int output, int indices_count, int indptr_count = 0) const {
    require(sparse_malloc_, "sparse outputs")(sparse_host_, output, indices_count, indptr_count, &sparse->data,
                                              &sparse->indices, &sparse->indptr);
    sparse->indices_len = indices_count;
    sparse->indptr_len = indptr_count;
  }

  mx_stream_t get_cuda_stream() const { return static_cast<mx_stream_t>(stream_); }

  // MX_NUM_CPU_RANDOM_STATES generators, one for each thread of a parallel loop, for example.
  mx_cpu_rand_t* get_cpu_rand_states() const {
    return static_cast<mx_cpu_rand_t*>(require(cpu_random_, "random states"));
  }
  mx_gpu_rand_t* get_gpu_rand_states() const { return static_cast<mx_gpu_rand_t*>(gpu_random_); }

 private:
  template <typename T>
  static T require(T offered, const char* what) {
    if (offered == nullptr) throw std::runtime_error(std::string("the host offers no ") + what + " to this call");
    return offered;
  }

  xpu_malloc_t cpu_malloc_, gpu_malloc_;
  void *cpu_host_, *gpu_host_, *stream_;
  sparse_malloc_t sparse_malloc_;
  void *sparse_host_, *cpu_random_, *gpu_random_;
};

}  // namespace extension
}  // namespace hybridc

#endif  // HYBRIDC_EXTENSION_TENSOR_H_
