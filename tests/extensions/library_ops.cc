// Operators of an extension library, each for one thing that the loader must get right.
#include <cmath>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include "mxnet/lib_api.h"

using namespace mxnet::ext;

typedef std::unordered_map<std::string, std::string> Attrs;
typedef std::vector<MXTensor> Tensors;
typedef std::vector<unsigned int> Shape;

static std::string get(const Attrs& attrs, const char* key, const char* missing) {
  const auto found = attrs.find(key);
  return found == attrs.end() ? missing : found->second;
}

template <int inputs, int outputs>
MXReturnValue counts(const Attrs& attrs, int* num_in, int* num_out) {
  *num_in = inputs;
  *num_out = outputs;
  return MX_SUCCESS;
}

MXReturnValue same_type(const Attrs& attrs, std::vector<int>* in, std::vector<int>* out) {
  int known = -1;
  for (int type : *in)
    if (type != -1) known = type;
  for (int& type : *in)
    if (type == -1) type = known;
  for (int& type : *out) type = known;
  return MX_SUCCESS;
}

MXReturnValue same_shape(const Attrs& attrs, std::vector<Shape>* in, std::vector<Shape>* out) {
  for (Shape& shape : *out) shape = in->at(0);
  return MX_SUCCESS;
}

// --- matrix product: a plain operator ----------------------------------------------------------------------

static void product(const float* a, const float* b, float* c, int64_t n, int64_t k, int64_t m, bool ta, bool tb) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < m; j++) {
      float sum = 0;
      for (int64_t p = 0; p < k; p++) sum += (ta ? a[p * n + i] : a[i * k + p]) * (tb ? b[j * k + p] : b[p * m + j]);
      c[i * m + j] = sum;
    }
}

static MXReturnValue multiply(Tensors* in, Tensors* out) {
  Tensors& x = *in;
  product(x[0].data<float>(), x[1].data<float>(), out->at(0).data<float>(), x[0].shape[0], x[0].shape[1],
          x[1].shape[1], false, false);
  return MX_SUCCESS;
}

static MXReturnValue multiply_backward(Tensors* in, Tensors* out) {
  Tensors& x = *in;  // the gradient of C, then A, B and C
  const int64_t n = x[1].shape[0], k = x[1].shape[1], m = x[2].shape[1];
  product(x[0].data<float>(), x[2].data<float>(), out->at(0).data<float>(), n, m, k, false, true);
  product(x[1].data<float>(), x[0].data<float>(), out->at(1).data<float>(), k, n, m, true, false);
  return MX_SUCCESS;
}

MXReturnValue gemm_forward(const Attrs& attrs, Tensors* in, Tensors* out, const OpResource& res) {
  return multiply(in, out);
}

MXReturnValue gemm_backward(const Attrs& attrs, Tensors* in, Tensors* out, const OpResource& res) {
  return multiply_backward(in, out);
}

MXReturnValue gemm_type(const Attrs& attrs, std::vector<int>* in, std::vector<int>* out) {
  for (int& type : *in) {
    if (type == -1) type = kFloat32;
    if (type != kFloat32) {
      MX_ERROR_MSG << "Expected all inputs to be float32";
      return MX_FAIL;
    }
  }
  out->at(0) = kFloat32;
  return MX_SUCCESS;
}

MXReturnValue gemm_shape(const Attrs& attrs, std::vector<Shape>* in, std::vector<Shape>* out) {
  Shape& a = in->at(0);
  Shape& b = in->at(1);
  if (a.size() != 2 || b.size() != 2 || a[1] != b[0]) {
    MX_ERROR_MSG << "first input's columns must match second input's rows";
    return MX_FAIL;
  }
  out->at(0) = {a[0], b[1]};
  return MX_SUCCESS;
}

REGISTER_OP(lib_gemm)
    .setForward(gemm_forward, "cpu")
    .setBackward(gemm_backward, "cpu")
    .setParseAttrs(counts<2, 1>)
    .setInferType(gemm_type)
    .setInferShape(gemm_shape);

// --- matrix product with state: how often it ran is written by `lib_state_gemm` into every element -----------

class StateGemm : public CustomStatefulOp {
 public:
  explicit StateGemm(int start) : count(start) {}

  MXReturnValue Forward(Tensors* in, Tensors* out, const OpResource& res) override {
    multiply(in, out);
    float* c = out->at(0).data<float>();
    for (int64_t i = 0; i < out->at(0).size(); i++) c[i] += count;
    count++;
    return MX_SUCCESS;
  }

  MXReturnValue Backward(Tensors* in, Tensors* out, const OpResource& res) override {
    multiply_backward(in, out);
    float* a = out->at(0).data<float>();
    for (int64_t i = 0; i < out->at(0).size(); i++) a[i] += count;
    return MX_SUCCESS;
  }

 private:
  int count;
};

MXReturnValue state_create(const Attrs& attrs, const MXContext& ctx, const std::vector<Shape>& shapes,
                           const std::vector<int> types, CustomStatefulOp** op) {
  const int start = std::stoi(get(attrs, "start", "0"));  // throws for what is no number
  if (start < 0) {
    MX_ERROR_MSG << "start must not be negative";
    return MX_FAIL;
  }
  *op = CustomStatefulOp::create<StateGemm>(start);
  return MX_SUCCESS;
}

REGISTER_OP(lib_state_gemm)
    .setParseAttrs(counts<2, 1>)
    .setInferType(gemm_type)
    .setInferShape(gemm_shape)
    .setCreateOpState(state_create, "cpu");

class NoBackward : public CustomStatefulOp {
 public:
  MXReturnValue Forward(Tensors* in, Tensors* out, const OpResource& res) override {
    std::memcpy(out->at(0).data<char>(), in->at(0).data<char>(), in->at(0).size() * sizeof(float));
    return MX_SUCCESS;
  }
};

MXReturnValue no_backward_create(const Attrs& attrs, const MXContext& ctx, const std::vector<Shape>& shapes,
                                 const std::vector<int> types, CustomStatefulOp** op) {
  if (get(attrs, "nothing", "0") == "0") *op = CustomStatefulOp::create<NoBackward>();
  return MX_SUCCESS;
}

REGISTER_OP(lib_state_no_backward)
    .setParseAttrs(counts<1, 1>)
    .setInferType(same_type)
    .setInferShape(same_shape)
    .setCreateOpState(no_backward_create, "cpu");

// --- attributes, dtypes and workspace: y = scale * x ---------------------------------------------------------

template <typename T>
static void scale(const T* x, T* y, int64_t size, double factor, const OpResource& res) {
  T* first = static_cast<T*>(res.alloc_cpu(size * sizeof(T)));
  T* second = static_cast<T*>(res.alloc_cpu(size * sizeof(T)));  // the first one must still be there
  for (int64_t i = 0; i < size; i++) first[i] = static_cast<T>(factor * x[i]);
  for (int64_t i = 0; i < size; i++) second[i] = -first[i];
  for (int64_t i = 0; i < size; i++) y[i] = (first[i] - second[i]) / 2;
}

MXReturnValue scale_forward(const Attrs& attrs, Tensors* in, Tensors* out, const OpResource& res) {
  const double factor = std::stod(get(attrs, "scale", "1"));
  MXTensor& x = in->at(0);
  MXTensor& y = out->at(0);
  if (x.dtype == kFloat64)
    scale(x.data<double>(), y.data<double>(), x.size(), factor, res);
  else if (x.dtype == kFloat32)
    scale(x.data<float>(), y.data<float>(), x.size(), factor, res);
  else if (x.dtype == kInt32)
    scale(x.data<int32_t>(), y.data<int32_t>(), x.size(), factor, res);
  else {
    MX_ERROR_MSG << "scale works on float32, float64 and int32 only";
    return MX_FAIL;
  }
  return MX_SUCCESS;
}

REGISTER_OP(lib_scale)
    .setForward(scale_forward, "cpu")
    .setBackward(scale_forward, "cpu")  // its first input is the gradient of the output
    .setParseAttrs(counts<1, 1>)
    .setInferType(same_type)
    .setInferShape(same_shape);

// --- several inputs and outputs, inference in both directions ------------------------------------------------

MXReturnValue sum_counts(const Attrs& attrs, int* num_in, int* num_out) {
  *num_in = std::stoi(get(attrs, "num", "2"));
  *num_out = 2;
  return MX_SUCCESS;
}

MXReturnValue sum_shape(const Attrs& attrs, std::vector<Shape>* in, std::vector<Shape>* out) {
  Shape known;
  for (const Shape& shape : *in)
    if (shape.size()) known = shape;
  for (Shape& shape : *in) {
    if (shape.empty()) shape = known;
    for (size_t i = 0; i < shape.size(); i++)
      if (shape[i] == 0 || shape[i] == static_cast<unsigned>(-1)) shape[i] = in->at(0).at(i);
  }
  for (Shape& shape : *out) shape = in->at(0);
  return MX_SUCCESS;
}

MXReturnValue sum_forward(const Attrs& attrs, Tensors* in, Tensors* out, const OpResource& res) {
  for (int64_t i = 0; i < out->at(0).size(); i++) {
    float sum = 0, squares = 0;
    for (MXTensor& x : *in) {
      sum += x.data<float>()[i];
      squares += x.data<float>()[i] * x.data<float>()[i];
    }
    out->at(0).data<float>()[i] = sum;
    out->at(1).data<float>()[i] = squares;
  }
  return MX_SUCCESS;
}

MXReturnValue sum_backward(const Attrs& attrs, Tensors* in, Tensors* out, const OpResource& res) {
  for (size_t n = 0; n < out->size(); n++)
    for (int64_t i = 0; i < out->at(n).size(); i++)
      out->at(n).data<float>()[i] =
          in->at(0).data<float>()[i] + 2 * in->at(1).data<float>()[i] * in->at(2 + n).data<float>()[i];
  return MX_SUCCESS;
}

REGISTER_OP(lib_sums)
    .setForward(sum_forward, "cpu")
    .setBackward(sum_backward, "cpu")
    .setParseAttrs(sum_counts)
    .setInferType(same_type)
    .setInferShape(sum_shape);

// --- an input that the operator changes: y = x + seen, seen = seen + 1 ---------------------------------------

MXReturnValue seen_mutate(const Attrs& attrs, std::vector<int>* indices) {
  indices->push_back(1);
  return MX_SUCCESS;
}

MXReturnValue seen_shape(const Attrs& attrs, std::vector<Shape>* in, std::vector<Shape>* out) {
  in->at(1) = {1};
  out->at(0) = in->at(0);
  return MX_SUCCESS;
}

MXReturnValue seen_forward(const Attrs& attrs, Tensors* in, Tensors* out, const OpResource& res) {
  float* seen = in->at(1).data<float>();
  for (int64_t i = 0; i < out->at(0).size(); i++)
    out->at(0).data<float>()[i] = in->at(0).data<float>()[i] + seen[0];
  seen[0] += 1;
  return MX_SUCCESS;
}

MXReturnValue seen_backward(const Attrs& attrs, Tensors* in, Tensors* out, const OpResource& res) {
  for (int64_t i = 0; i < out->at(0).size(); i++) out->at(0).data<float>()[i] = in->at(0).data<float>()[i];
  for (int64_t i = 0; i < out->at(1).size(); i++) out->at(1).data<float>()[i] = 0;
  return MX_SUCCESS;
}

REGISTER_OP(lib_seen)
    .setForward(seen_forward, "cpu")
    .setBackward(seen_backward, "cpu")
    .setParseAttrs(counts<2, 1>)
    .setInferType(same_type)
    .setInferShape(seen_shape)
    .setMutateInputs(seen_mutate);

// --- random numbers ------------------------------------------------------------------------------------------

MXReturnValue noise_forward(const Attrs& attrs, Tensors* in, Tensors* out, const OpResource& res) {
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < in->at(0).size(); i++)
    out->at(0).data<float>()[i] = in->at(0).data<float>()[i] + normal(res.get_cpu_rand_states()[i % 1024]);
  return MX_SUCCESS;
}

REGISTER_OP(lib_noise)
    .setForward(noise_forward, "cpu")
    .setParseAttrs(counts<1, 1>)
    .setInferType(same_type)
    .setInferShape(same_shape);

// --- an integer result; no backward --------------------------------------------------------------------------

MXReturnValue count_type(const Attrs& attrs, std::vector<int>* in, std::vector<int>* out) {
  out->at(0) = kInt64;
  return MX_SUCCESS;
}

MXReturnValue count_shape(const Attrs& attrs, std::vector<Shape>* in, std::vector<Shape>* out) {
  out->at(0) = {1};
  return MX_SUCCESS;
}

MXReturnValue count_forward(const Attrs& attrs, Tensors* in, Tensors* out, const OpResource& res) {
  out->at(0).data<int64_t>()[0] = in->at(0).size();
  return MX_SUCCESS;
}

REGISTER_OP(lib_count)
    .setForward(count_forward, "cpu")
    .setParseAttrs(counts<1, 1>)
    .setInferType(count_type)
    .setInferShape(count_shape);

// --- no input: size numbers 0, 1, 2, … ------------------------------------------------------------------------

MXReturnValue iota_type(const Attrs& attrs, std::vector<int>* in, std::vector<int>* out) {
  out->at(0) = kFloat32;
  return MX_SUCCESS;
}

MXReturnValue iota_shape(const Attrs& attrs, std::vector<Shape>* in, std::vector<Shape>* out) {
  out->at(0) = {static_cast<unsigned>(std::stoi(get(attrs, "size", "3")))};
  return MX_SUCCESS;
}

MXReturnValue iota_forward(const Attrs& attrs, Tensors* in, Tensors* out, const OpResource& res) {
  for (int64_t i = 0; i < out->at(0).size(); i++) out->at(0).data<float>()[i] = i;
  return MX_SUCCESS;
}

REGISTER_OP(lib_iota)
    .setForward(iota_forward, "cpu")
    .setParseAttrs(counts<0, 1>)
    .setInferType(iota_type)
    .setInferShape(iota_shape);

// --- failures: where="shape" and the like ---------------------------------------------------------------------

static MXReturnValue fail(const Attrs& attrs, const char* where) {
  if (get(attrs, "where", "") == std::string("throw ") + where) throw std::runtime_error(std::string("thrown in ") + where);
  if (get(attrs, "where", "") != where) return MX_SUCCESS;
  MX_ERROR_MSG << "told to fail in " << where;
  return MX_FAIL;
}

MXReturnValue fail_parse(const Attrs& attrs, int* num_in, int* num_out) {
  const std::string where = get(attrs, "where", "");
  if (where != "num_inputs") *num_in = 1;
  if (where != "num_outputs") *num_out = 1;
  return fail(attrs, "parse");
}

MXReturnValue fail_type(const Attrs& attrs, std::vector<int>* in, std::vector<int>* out) {
  out->at(0) = get(attrs, "where", "") == "bad type" ? 77 : in->at(0);
  return fail(attrs, "type");
}

MXReturnValue fail_shape(const Attrs& attrs, std::vector<Shape>* in, std::vector<Shape>* out) {
  out->at(0) = in->at(0);
  return fail(attrs, "shape");
}

MXReturnValue fail_mutate(const Attrs& attrs, std::vector<int>* indices) {
  if (get(attrs, "where", "") == "bad index") indices->push_back(7);
  return fail(attrs, "mutate");
}

MXReturnValue fail_storage(const Attrs& attrs, std::vector<int>* in, std::vector<int>* out) {
  out->at(0) = get(attrs, "where", "") == "sparse" ? 1 : 0;
  return fail(attrs, "storage");
}

MXReturnValue fail_forward(const Attrs& attrs, Tensors* in, Tensors* out, const OpResource& res) {
  std::memcpy(out->at(0).data<char>(), in->at(0).data<char>(), in->at(0).size() * sizeof(float));
  return fail(attrs, "forward");
}

MXReturnValue fail_backward(const Attrs& attrs, Tensors* in, Tensors* out, const OpResource& res) {
  std::memcpy(out->at(0).data<char>(), in->at(0).data<char>(), in->at(0).size() * sizeof(float));
  return fail(attrs, "backward");
}

REGISTER_OP(lib_fail)
    .setForward(fail_forward, "cpu")
    .setBackward(fail_backward, "cpu")
    .setParseAttrs(fail_parse)
    .setInferType(fail_type)
    .setInferSType(fail_storage)
    .setInferShape(fail_shape)
    .setMutateInputs(fail_mutate);

REGISTER_OP(lib_gpu_only)
    .setForward(fail_forward, "gpu")
    .setParseAttrs(counts<1, 1>)
    .setInferType(same_type)
    .setInferShape(same_shape);

// --- a name of a namespace ------------------------------------------------------

REGISTER_OP(_contrib_lib_scale)
    .setForward(scale_forward, "cpu")
    .setParseAttrs(counts<1, 1>)
    .setInferType(same_type)
    .setInferShape(same_shape);

MXReturnValue initialize(int version) {
  if (version >= 10900) return MX_SUCCESS;
  MX_ERROR_MSG << "MXNet version " << version << " is too old";
  return MX_FAIL;
}
