// Matrix product as two operators: my_gemm keeps nothing between calls, state_gemm counts its forwards.
#include <iostream>
#include <string>
#include <unordered_map>
#include <vector>

#include "mxnet/lib_api.h"

using namespace mxnet::ext;

typedef std::unordered_map<std::string, std::string> Attrs;

// c (n × m) = op(a) · op(b), over k; op transposes where asked.
template <typename T>
void gemm(const T* a, const T* b, T* c, int64_t n, int64_t k, int64_t m, bool transpose_a, bool transpose_b) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < m; ++j) c[i * m + j] = 0;
    for (int64_t l = 0; l < k; ++l) {
      T left = transpose_a ? a[l * n + i] : a[i * k + l];
      for (int64_t j = 0; j < m; ++j) c[i * m + j] += left * (transpose_b ? b[j * k + l] : b[l * m + j]);
    }
  }
}

template <typename T>
void forward_of(std::vector<MXTensor>* inputs, std::vector<MXTensor>* outputs) {
  MXTensor &a = inputs->at(0), &b = inputs->at(1);
  gemm(a.data<T>(), b.data<T>(), outputs->at(0).data<T>(), a.shape[0], a.shape[1], b.shape[1], false, false);
}

// da = dc · bᵀ, db = aᵀ · dc; the inputs are dc, a, b and c.
template <typename T>
void backward_of(std::vector<MXTensor>* inputs, std::vector<MXTensor>* outputs) {
  MXTensor &dc = inputs->at(0), &a = inputs->at(1), &b = inputs->at(2);
  int64_t n = a.shape[0], k = a.shape[1], m = b.shape[1];
  gemm(dc.data<T>(), b.data<T>(), outputs->at(0).data<T>(), n, m, k, false, true);
  gemm(a.data<T>(), dc.data<T>(), outputs->at(1).data<T>(), k, n, m, true, false);
}

MXReturnValue forward(const Attrs& attrs, std::vector<MXTensor>* inputs, std::vector<MXTensor>* outputs,
                      const OpResource& resource) {
  inputs->at(0).dtype == kFloat64 ? forward_of<double>(inputs, outputs) : forward_of<float>(inputs, outputs);
  return MX_SUCCESS;
}

MXReturnValue backward(const Attrs& attrs, std::vector<MXTensor>* inputs, std::vector<MXTensor>* outputs,
                       const OpResource& resource) {
  inputs->at(0).dtype == kFloat64 ? backward_of<double>(inputs, outputs) : backward_of<float>(inputs, outputs);
  return MX_SUCCESS;
}

MXReturnValue parseAttrs(const Attrs& attrs, int* num_in, int* num_out) {
  *num_in = 2;
  *num_out = 1;
  return MX_SUCCESS;
}

MXReturnValue inferType(const Attrs& attrs, std::vector<int>* intypes, std::vector<int>* outtypes) {
  int known = intypes->at(0) != -1 ? intypes->at(0) : intypes->at(1);
  for (int& type : *intypes) {
    if (type == -1) type = known;
    if (type != known) {
      MX_ERROR_MSG << "gemm: both matrices have one element type, got types " << known << " and " << type;
      return MX_FAIL;
    }
  }
  if (known != -1 && known != kFloat32 && known != kFloat64) {
    MX_ERROR_MSG << "gemm: expected float32 or float64, got type " << known;
    return MX_FAIL;
  }
  outtypes->at(0) = known;
  return MX_SUCCESS;
}

MXReturnValue inferShape(const Attrs& attrs, std::vector<std::vector<unsigned int>>* inshapes,
                         std::vector<std::vector<unsigned int>>* outshapes) {
  const std::vector<unsigned int>&a = inshapes->at(0), &b = inshapes->at(1);
  if (a.size() != 2 || b.size() != 2) {
    MX_ERROR_MSG << "gemm: expected two matrices, got inputs of " << a.size() << " and " << b.size() << " dimensions";
    return MX_FAIL;
  }
  if (a[1] != b[0]) {
    MX_ERROR_MSG << "gemm: the first matrix has " << a[1] << " columns and the second " << b[0] << " rows";
    return MX_FAIL;
  }
  outshapes->at(0) = {a[0], b[1]};
  return MX_SUCCESS;
}

REGISTER_OP(my_gemm)
.setForward(forward, "cpu")
.setBackward(backward, "cpu")
.setParseAttrs(parseAttrs)
.setInferType(inferType)
.setInferShape(inferShape);

// Counts from the attribute `test_kw` on.
class MyStatefulGemm : public CustomStatefulOp {
 public:
  explicit MyStatefulGemm(int count, const Attrs& attrs) : count_(count), attrs_(attrs) {}

  MXReturnValue Forward(std::vector<MXTensor>* inputs, std::vector<MXTensor>* outputs,
                        const OpResource& resource) override {
    std::cout << "state_gemm: forward " << ++count_ << std::endl;
    return forward(attrs_, inputs, outputs, resource);
  }

  MXReturnValue Backward(std::vector<MXTensor>* inputs, std::vector<MXTensor>* outputs,
                         const OpResource& resource) override {
    return backward(attrs_, inputs, outputs, resource);
  }

 private:
  int count_;
  const Attrs attrs_;
};

MXReturnValue createOpState(const Attrs& attrs, const MXContext& context,
                            const std::vector<std::vector<unsigned int>>& in_shapes, const std::vector<int> in_types,
                            CustomStatefulOp** op_inst) {
  int count = attrs.count("test_kw") > 0 ? std::stoi(attrs.at("test_kw")) : 0;
  *op_inst = CustomStatefulOp::create<MyStatefulGemm>(count, attrs);
  return MX_SUCCESS;
}

// Nothing but the inputs may change a gemm, so none is named; an operator with auxiliary states names them here.
MXReturnValue mutateInputs(const Attrs& attrs, std::vector<int>* input_indices) { return MX_SUCCESS; }

REGISTER_OP(state_gemm)
.setParseAttrs(parseAttrs)
.setInferType(inferType)
.setInferShape(inferShape)
.setMutateInputs(mutateInputs)
.setCreateOpState(createOpState, "cpu");

MXReturnValue initialize(int version) {
  if (version >= 10900) return MX_SUCCESS;
  MX_ERROR_MSG << "version " << version << " of MXNet is older than 1.9";
  return MX_FAIL;
}
