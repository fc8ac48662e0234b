// A library that no header helped to write: the functions that a loader calls, by hand, with what can go wrong.
//
// -DVERSION=10: another version; -DINITIALIZE=0: it refuses to start; -DLACKS=name: an operator without that function;
// -DINCOMPLETE: it does not export the functions of operators; -DNAME=name: another name for its operator.
// Its operator foreign_double throws C++ exceptions out of its functions, as those of MXNet's own header do.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#ifndef VERSION
#define VERSION 11
#endif
#ifndef INITIALIZE
#define INITIALIZE 1
#endif
#ifndef NAME
#define NAME foreign_double
#endif
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

extern "C" {
int _opVersion() { return VERSION; }

#ifndef INCOMPLETE
int initialize(int version) {
  if (INITIALIZE == 2) throw std::runtime_error("no licence");
  return INITIALIZE;
}
int _msgSize() { return INITIALIZE ? 0 : 1; }
void _msgGet(int, const char** text) { *text = "foreign.cc[1]: not today"; }
int _opRegSize() { return 1; }
void _opCallFree(void* memory) { std::free(memory); }

static bool told(int count, const char* const* keys, const char* const* values, const char* what) {
  for (int i = 0; i < count; i++)
    if (!std::strcmp(keys[i], "throw") && !std::strcmp(values[i], what)) return true;
  return false;
}

typedef const char* const* Strings;
static int function;  // its address stands for all functions of the author

int _opCallParseAttrs(void*, Strings keys, Strings values, int count, int* inputs, int* outputs) {
  if (told(count, keys, values, "parse")) throw std::invalid_argument("cannot parse");
  *inputs = *outputs = 1;
  return 1;
}
int _opCallInferType(void*, Strings keys, Strings values, int count, int* in, int, int* out, int) {
  if (told(count, keys, values, "type")) throw "a plain text";
  out[0] = in[0];
  return 1;
}
int _opCallInferSType(void*, Strings, Strings, int, int*, int, int*, int) { return 1; }
int _opCallInferShape(void*, Strings keys, Strings values, int count, unsigned** in, int* ranks, int, unsigned*** new_in,
                      int** new_ranks, unsigned*** out, int** out_ranks, int) {
  if (told(count, keys, values, "shape")) throw 7;
  unsigned*** shapes[] = {new_in, out};
  int** dims[] = {new_ranks, out_ranks};
  for (int i = 0; i < 2; i++) {
    *dims[i] = static_cast<int*>(std::malloc(sizeof(int)));
    **dims[i] = ranks[0];
    *shapes[i] = static_cast<unsigned**>(std::malloc(sizeof(unsigned*)));
    **shapes[i] = static_cast<unsigned*>(std::malloc(ranks[0] * sizeof(unsigned) + 1));
    std::memcpy(**shapes[i], in[0], ranks[0] * sizeof(unsigned));
  }
  return 1;
}
int _opCallMutateInputs(void*, Strings, Strings, int, int**, int*) { return 1; }
int _opCallCreateOpState(void*, Strings, Strings, int, const char*, int, unsigned**, int*, int, const int*, void**) {
  return 0;
}
void _opCallDestroyOpState(void*) {}

#define ARRAYS const int64_t **, int *, void **, int *, size_t *, const char **, int *, int
#define REST                                                                                                      \
  void *(*)(void *, int), void *, void *(*)(void *, int), void *, void *,                                         \
      void (*)(void *, int, int, int, void **, int64_t **, int64_t **), void *, int *, int *, void **, void **,   \
      void **, void **, int64_t *, int64_t *, int64_t *, int64_t *, void *, void *

int _opCallFCompute(void*, Strings keys, Strings values, int count, const int64_t** shapes, int* ranks, void** in, int*,
                    size_t*, const char**, int*, int, const int64_t**, int*, void** out, int*, size_t*, const char**,
                    int*, int, void* (*workspace)(void*, int), void* workspace_data, void* (*)(void*, int), void*,
                    void*, void (*)(void*, int, int, int, void**, int64_t**, int64_t**), void*, int*, int*, void**,
                    void**, void**, void**, int64_t*, int64_t*, int64_t*, int64_t*, void*, void*) {
  if (told(count, keys, values, "compute")) throw std::out_of_range("vector::at");
  int64_t size = 1;
  for (int i = 0; i < ranks[0]; i++) size *= shapes[0][i];
  float* twice = static_cast<float*>(workspace(workspace_data, static_cast<int>(size * sizeof(float))));
  for (int64_t i = 0; i < size; i++) twice[i] = 2 * static_cast<float*>(in[0])[i];
  std::memcpy(out[0], twice, size * sizeof(float));
  return 1;
}
int _opCallFStatefulCompute(int, void*, ARRAYS, ARRAYS, REST) { return 0; }

void _opRegGet(int, const char** name, int* subgraph, const char*** forward_devices, void*** forward, int* forwards,
               const char*** backward_devices, void*** backward, int* backwards, const char*** create_devices,
               void*** create, int* creates, void** parse, void** type, void** storage, void** shape, void** mutate) {
  static const char* devices[] = {"cpu"};
  static void* functions[] = {&function};
  const char* lacks = "";
#ifdef LACKS
  lacks = TEXT(LACKS);
#endif
  *name = TEXT(NAME);
  *subgraph = !std::strcmp(lacks, "CreateOpState");
  *forward_devices = *backward_devices = *create_devices = devices;
  *forward = *backward = *create = functions;
  *forwards = *backwards = std::strcmp(lacks, "Forward") ? 1 : 0;
  *creates = 0;
  *storage = *mutate = nullptr;
  *parse = std::strcmp(lacks, "ParseAttrs") ? &function : nullptr;
  *type = std::strcmp(lacks, "InferType") ? &function : nullptr;
  *shape = std::strcmp(lacks, "InferShape") ? &function : nullptr;
}
#endif
}
