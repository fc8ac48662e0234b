/* Operators in C99, as a library that hybridc and MXNet 1.9 load. For C++ there is extension.h, which does more.
 *
 *     #include <hybridc/extension_c.h>
 *
 *     static int forward(const hybridc_attributes* attributes, const hybridc_tensor* inputs, int num_inputs,
 *                        const hybridc_tensor* outputs, int num_outputs, const hybridc_resource* resource) { ... }
 *
 *     const hybridc_operator hybridc_operators[] = {
 *         {.name = "my_op", .num_inputs = 1, .num_outputs = 1, .forward = forward, .backward = backward},
 *     };
 *     const int hybridc_operator_count = 1;
 *
 * cc -std=c99 -shared -fPIC my_op.c -o libmy_op.so -I <mx.library.include_path()>
 *
 * Functions return 1, or, after hybridc_error("expected %d, got %d", …), 0.
 */
#ifndef HYBRIDC_EXTENSION_C_H_
#define HYBRIDC_EXTENSION_C_H_

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HYBRIDC_MAX_DIMENSIONS 32

/* Element types; -1 is a type that is not known yet. */
enum hybridc_type {
  HYBRIDC_FLOAT32 = 0,
  HYBRIDC_FLOAT64 = 1,
  HYBRIDC_FLOAT16 = 2,
  HYBRIDC_UINT8 = 3,
  HYBRIDC_INT32 = 4,
  HYBRIDC_INT8 = 5,
  HYBRIDC_INT64 = 6
};

typedef struct {
  const char* const* keys;
  const char* const* values;
  int count;
} hybridc_attributes;

/* Unknown where ndim is 0; an unknown dimension is 0. */
typedef struct {
  int ndim;
  unsigned dims[HYBRIDC_MAX_DIMENSIONS];
} hybridc_shape;

/* A dense array, row-major without gaps, in the host's memory. */
typedef struct {
  void* data;
  const int64_t* shape;
  int ndim;
  int type;
  size_t version; /* changes whenever the array was written */
  const char* device_type;
  int device_id;
} hybridc_tensor;

typedef struct {
  void* (*cpu_malloc)(void* host, int size);
  void* cpu_host;
} hybridc_resource;

typedef int (*hybridc_compute)(const hybridc_attributes* attributes, const hybridc_tensor* inputs, int num_inputs,
                               const hybridc_tensor* outputs, int num_outputs, const hybridc_resource* resource);

typedef struct {
  const char* name;
  int num_inputs, num_outputs;
  /* Null: the numbers above. */
  int (*parse_attributes)(const hybridc_attributes* attributes, int* num_inputs, int* num_outputs);
  /* Null: one type for all. Fills what is -1. */
  int (*infer_type)(const hybridc_attributes* attributes, int* inputs, int num_inputs, int* outputs, int num_outputs);
  /* Null: one shape for all. Fills what is unknown. */
  int (*infer_shape)(const hybridc_attributes* attributes, hybridc_shape* inputs, int num_inputs,
                     hybridc_shape* outputs, int num_outputs);
  hybridc_compute forward;
  /* Null: not differentiable. Its inputs: the outputs' gradients, inputs, outputs. Its outputs: the inputs' gradients. */
  hybridc_compute backward;
  /* Which inputs the forward updates. */
  const int* mutated_inputs;
  int num_mutated_inputs;
} hybridc_operator;

#ifdef __cplusplus
extern "C" {
#endif

/* The author's: all operators of the library. */
extern const hybridc_operator hybridc_operators[];
extern const int hybridc_operator_count;

#define HYBRIDC_C_ABI __attribute__((weak, visibility("default")))
#define HYBRIDC_C_LOCAL __attribute__((weak, visibility("hidden")))

/* The texts of failures so far; each stays until the process ends. */
HYBRIDC_C_LOCAL char** hybridc_messages;
HYBRIDC_C_LOCAL int hybridc_message_count;
HYBRIDC_C_LOCAL int hybridc_message_lock;

static inline void hybridc_lock(void) {
  while (__sync_lock_test_and_set(&hybridc_message_lock, 1)) {
  }
}
static inline void hybridc_unlock(void) { __sync_lock_release(&hybridc_message_lock); }

/* Adds a message, written as by printf. Returns 0, so that a function may end with `return hybridc_error(…)`. */
#define hybridc_error(...) hybridc_error_at(__FILE__, __LINE__, __VA_ARGS__)
__attribute__((format(printf, 3, 4))) static inline int hybridc_error_at(const char* file, int line,
                                                                         const char* format, ...) {
  char text[1024];
  int used = snprintf(text, sizeof text, "%s[%d]: ", file, line);
  va_list arguments;
  va_start(arguments, format);
  if (used > 0 && used < (int)sizeof text) vsnprintf(text + used, sizeof text - (size_t)used, format, arguments);
  va_end(arguments);
  hybridc_lock();
  char** grown = (char**)realloc(hybridc_messages, sizeof(char*) * ((size_t)hybridc_message_count + 1));
  char* kept = (char*)malloc(strlen(text) + 1);
  if (grown != NULL) hybridc_messages = grown;
  if (grown != NULL && kept != NULL) hybridc_messages[hybridc_message_count++] = strcpy(kept, text);
  hybridc_unlock();
  return 0;
}

/* An attribute's text, or `otherwise` where it is not given. */
static inline const char* hybridc_attribute(const hybridc_attributes* attributes, const char* key,
                                            const char* otherwise) {
  for (int i = 0; i < attributes->count; ++i) {
    if (strcmp(attributes->keys[i], key) == 0) return attributes->values[i];
  }
  return otherwise;
}

static inline int64_t hybridc_size(const hybridc_tensor* tensor) {
  int64_t count = 1;
  for (int i = 0; i < tensor->ndim; ++i) count *= tensor->shape[i];
  return count;
}

/* Temporary memory of the call. MXNet reuses it at the next request: ask once for all. */
static inline void* hybridc_allocate(const hybridc_resource* resource, int size) {
  return resource->cpu_malloc(resource->cpu_host, size);
}

/* What follows is the binary interface: the functions that the host finds by name. */

HYBRIDC_C_ABI int _opVersion(void) { return 11; }
HYBRIDC_C_ABI int initialize(int version) { return version > 0; }
HYBRIDC_C_ABI int _opRegSize(void) { return hybridc_operator_count; }
HYBRIDC_C_ABI int _partRegSize(void) { return 0; }
HYBRIDC_C_ABI int _passRegSize(void) { return 0; }
HYBRIDC_C_ABI void _opCallFree(void* memory) { free(memory); }
HYBRIDC_C_ABI int _msgSize(void) { return hybridc_message_count; }
HYBRIDC_C_ABI void _msgGet(int index, const char** text) {
  hybridc_lock();
  *text = index >= 0 && index < hybridc_message_count ? hybridc_messages[index] : NULL;
  hybridc_unlock();
}

/* The pointers that the host keeps: of functions, where they are in the table; else of the operator. */
HYBRIDC_C_ABI void _opRegGet(int index, const char** name, int* is_subgraph, const char*** forward_contexts,
                             const void*** forward, int* forward_count, const char*** backward_contexts,
                             const void*** backward, int* backward_count, const char*** create_contexts,
                             const void*** create, int* create_count, const void** parse, const void** type,
                             const void** storage, const void** shape, const void** mutate) {
  static const char* cpu[] = {"cpu"};
  const hybridc_operator* op = &hybridc_operators[index];
  const void** pointers = (const void**)malloc(2 * sizeof(void*)); /* for the host, until the process ends */
  if (pointers == NULL) return;
  pointers[0] = &op->forward;
  pointers[1] = &op->backward;
  *name = op->name;
  *is_subgraph = 0;
  *forward_contexts = *backward_contexts = *create_contexts = cpu;
  *forward = pointers;
  *backward = pointers + 1;
  *create = NULL;
  *forward_count = op->forward != NULL;
  *backward_count = op->backward != NULL;
  *create_count = 0;
  *parse = *type = *shape = op;
  *storage = NULL;
  *mutate = op->num_mutated_inputs > 0 ? op : NULL;
}

#define HYBRIDC_C_ATTRIBUTES const char *const *keys, const char *const *values, int count

HYBRIDC_C_ABI int _opCallParseAttrs(const void* pointer, HYBRIDC_C_ATTRIBUTES, int* num_in, int* num_out) {
  const hybridc_operator* op = (const hybridc_operator*)pointer;
  hybridc_attributes attributes = {keys, values, count};
  *num_in = op->num_inputs;
  *num_out = op->num_outputs;
  return op->parse_attributes == NULL || op->parse_attributes(&attributes, num_in, num_out);
}

HYBRIDC_C_ABI int _opCallInferType(const void* pointer, HYBRIDC_C_ATTRIBUTES, int* in, int num_in, int* out,
                                   int num_out) {
  const hybridc_operator* op = (const hybridc_operator*)pointer;
  hybridc_attributes attributes = {keys, values, count};
  for (int i = 0; i < num_out; ++i) out[i] = -1;
  if (op->infer_type != NULL) return op->infer_type(&attributes, in, num_in, out, num_out);
  int known = -1;
  for (int i = 0; i < num_in; ++i) {
    if (known == -1) known = in[i];
    if (in[i] != -1 && in[i] != known) return hybridc_error("%s: types %d and %d differ", op->name, known, in[i]);
  }
  for (int i = 0; i < num_in; ++i) in[i] = known;
  for (int i = 0; i < num_out; ++i) out[i] = known;
  return 1;
}

HYBRIDC_C_ABI int _opCallMutateInputs(const void* pointer, HYBRIDC_C_ATTRIBUTES, int** indices, int* num_indices) {
  const hybridc_operator* op = (const hybridc_operator*)pointer;
  (void)keys, (void)values, (void)count;
  *num_indices = op->num_mutated_inputs;
  *indices = (int*)malloc(sizeof(int) * (size_t)op->num_mutated_inputs);
  if (*indices == NULL) return hybridc_error("%s: out of memory", op->name);
  memcpy(*indices, op->mutated_inputs, sizeof(int) * (size_t)op->num_mutated_inputs);
  return 1;
}

/* Takes over what `value` knows; 0 where both know and differ. */
static inline int hybridc_take_shape(hybridc_shape* known, const hybridc_shape* value) {
  if (value->ndim == 0) return 1;
  if (known->ndim == 0) *known = *value;
  if (known->ndim != value->ndim) return 0;
  for (int i = 0; i < value->ndim; ++i) {
    if (known->dims[i] == 0) known->dims[i] = value->dims[i];
    if (value->dims[i] != 0 && value->dims[i] != known->dims[i]) return 0;
  }
  return 1;
}

static inline int hybridc_same_shapes(const hybridc_operator* op, hybridc_shape* all, int num_in, int total) {
  hybridc_shape known = {0};
  for (int i = 0; i < num_in; ++i) {
    if (!hybridc_take_shape(&known, &all[i])) return hybridc_error("%s: the inputs' shapes differ", op->name);
  }
  for (int i = 0; i < total; ++i) all[i] = known;
  return 1;
}

/* One block of memory would do, but the host frees each shape on its own. */
static inline void hybridc_copy_shapes(const hybridc_shape* all, int count, unsigned*** dims, int** ndims) {
  *dims = (unsigned**)malloc(sizeof(unsigned*) * (size_t)(count + 1));
  *ndims = (int*)malloc(sizeof(int) * (size_t)(count + 1));
  for (int i = 0; i < count; ++i) {
    (*ndims)[i] = all[i].ndim;
    (*dims)[i] = (unsigned*)malloc(sizeof(unsigned) * (size_t)(all[i].ndim + 1));
    memcpy((*dims)[i], all[i].dims, sizeof(unsigned) * (size_t)all[i].ndim);
  }
}

HYBRIDC_C_ABI int _opCallInferShape(const void* pointer, HYBRIDC_C_ATTRIBUTES, const unsigned* const* in_dims,
                                    const int* in_ndims, int num_in, unsigned*** new_in_dims, int** new_in_ndims,
                                    unsigned*** out_dims, int** out_ndims, int num_out) {
  const hybridc_operator* op = (const hybridc_operator*)pointer;
  hybridc_attributes attributes = {keys, values, count};
  hybridc_shape* all = (hybridc_shape*)calloc((size_t)(num_in + num_out + 1), sizeof(hybridc_shape));
  if (all == NULL) return hybridc_error("%s: out of memory", op->name);
  int good = 1;
  for (int i = 0; i < num_in && good; ++i) {
    if (in_ndims[i] > HYBRIDC_MAX_DIMENSIONS) good = hybridc_error("%s: %d dimensions", op->name, in_ndims[i]);
    all[i].ndim = good && in_ndims[i] > 0 ? in_ndims[i] : 0;
    if (all[i].ndim > 0) memcpy(all[i].dims, in_dims[i], sizeof(unsigned) * (size_t)all[i].ndim);
  }
  if (good) {
    good = op->infer_shape == NULL ? hybridc_same_shapes(op, all, num_in, num_in + num_out)
                                   : op->infer_shape(&attributes, all, num_in, all + num_in, num_out);
  }
  if (good) {
    hybridc_copy_shapes(all, num_in, new_in_dims, new_in_ndims);
    hybridc_copy_shapes(all + num_in, num_out, out_dims, out_ndims);
  }
  free(all);
  return good;
}

#define HYBRIDC_C_SIDE(s)                                                                              \
  const int64_t *const *s##_shapes, const int *s##_ndims, void *const *s##_data, const int *s##_types, \
      const size_t *s##_versions, const char *const *s##_device_types, const int *s##_device_ids, int s##_count
#define HYBRIDC_C_TENSORS(tensors, s)                                                                            \
  for (int i = 0; i < s##_count; ++i) {                                                                          \
    hybridc_tensor one = {s##_data[i],  s##_shapes[i],   s##_ndims[i],       s##_types[i],                       \
                          s##_versions[i], s##_device_types[i], s##_device_ids[i]};                              \
    (tensors)[i] = one;                                                                                          \
  }

/* Sparse arrays and random states are for C++: extension.h. */
HYBRIDC_C_ABI int _opCallFCompute(const void* pointer, HYBRIDC_C_ATTRIBUTES, HYBRIDC_C_SIDE(in), HYBRIDC_C_SIDE(out),
                                  void* (*cpu_malloc)(void*, int), void* cpu_host, void* (*gpu_malloc)(void*, int),
                                  void* gpu_host, void* stream, void* sparse_malloc, void* sparse_host,
                                  const int* in_storage, const int* out_storage, void* const* in_indices,
                                  void* const* out_indices, void* const* in_indptr, void* const* out_indptr,
                                  const int64_t* in_indices_counts, const int64_t* out_indices_counts,
                                  const int64_t* in_indptr_counts, const int64_t* out_indptr_counts, void* cpu_random,
                                  void* gpu_random) {
  const hybridc_compute* compute = (const hybridc_compute*)pointer;
  hybridc_attributes attributes = {keys, values, count};
  hybridc_resource resource = {cpu_malloc, cpu_host};
  hybridc_tensor* tensors = (hybridc_tensor*)malloc(sizeof(hybridc_tensor) * (size_t)(in_count + out_count + 1));
  (void)gpu_malloc, (void)gpu_host, (void)stream, (void)sparse_malloc, (void)sparse_host, (void)in_storage;
  (void)out_storage, (void)in_indices, (void)out_indices, (void)in_indptr, (void)out_indptr, (void)in_indices_counts;
  (void)out_indices_counts, (void)in_indptr_counts, (void)out_indptr_counts, (void)cpu_random, (void)gpu_random;
  if (tensors == NULL) return hybridc_error("out of memory");
  HYBRIDC_C_TENSORS(tensors, in)
  HYBRIDC_C_TENSORS(tensors + in_count, out)
  int good = (*compute)(&attributes, tensors, in_count, tensors + in_count, out_count, &resource);
  free(tensors);
  return good;
}

/* Operators in C have no state and no storage type but dense, and there are no partitioners and passes. The host asks
 * that these exist, and never calls them. */
#define HYBRIDC_C_UNUSED(name) \
  HYBRIDC_C_ABI int name(void) { return 0; }
HYBRIDC_C_UNUSED(_opCallInferSType)
HYBRIDC_C_UNUSED(_opCallCreateOpState)
HYBRIDC_C_UNUSED(_opCallFStatefulCompute)
HYBRIDC_C_UNUSED(_opCallDestroyOpState)
HYBRIDC_C_UNUSED(_partRegGetCount)
HYBRIDC_C_UNUSED(_partRegGet)
HYBRIDC_C_UNUSED(_partCallSupportedOps)
HYBRIDC_C_UNUSED(_partCallCreateSelector)
HYBRIDC_C_UNUSED(_partCallSelect)
HYBRIDC_C_UNUSED(_partCallSelectInput)
HYBRIDC_C_UNUSED(_partCallSelectOutput)
HYBRIDC_C_UNUSED(_partCallFilter)
HYBRIDC_C_UNUSED(_partCallReset)
HYBRIDC_C_UNUSED(_partCallReviewSubgraph)
HYBRIDC_C_UNUSED(_passRegGet)
HYBRIDC_C_UNUSED(_passCallGraphPass)

#ifdef __cplusplus
}
#endif

#endif /* HYBRIDC_EXTENSION_C_H_ */
