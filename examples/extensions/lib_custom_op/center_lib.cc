// my_center(x, mean): x less its columns' means. `mean` is an auxiliary state, the running mean, which each call moves:
// mean ← momentum·mean + (1 - momentum)·(the columns' means of x).
#include <string>
#include <unordered_map>
#include <vector>

#include "mxnet/lib_api.h"

using namespace mxnet::ext;

typedef std::unordered_map<std::string, std::string> Attrs;

// y = x less its columns' means, which go to `means`.
void center(const float* x, int64_t rows, int64_t columns, float* means, float* y) {
  for (int64_t j = 0; j < columns; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < rows; ++i) sum += x[i * columns + j];
    means[j] = static_cast<float>(sum / rows);
    for (int64_t i = 0; i < rows; ++i) y[i * columns + j] = x[i * columns + j] - means[j];
  }
}

MXReturnValue forward(const Attrs& attrs, std::vector<MXTensor>* inputs, std::vector<MXTensor>* outputs,
                      const OpResource& resource) {
  float momentum = attrs.count("momentum") != 0 ? std::stof(attrs.at("momentum")) : 0.9f;
  MXTensor& x = inputs->at(0);
  int64_t rows = x.shape[0], columns = x.shape[1];
  float* running = inputs->at(1).data<float>();
  float* means = static_cast<float*>(resource.alloc_cpu(static_cast<int>(columns * sizeof(float))));
  center(x.data<float>(), rows, columns, means, outputs->at(0).data<float>());
  for (int64_t j = 0; j < columns; ++j) running[j] = momentum * running[j] + (1 - momentum) * means[j];
  return MX_SUCCESS;
}

// [dy, x, mean, y] → [dx, dmean]: centering is its own transpose; the running mean has no part in the output.
MXReturnValue backward(const Attrs& attrs, std::vector<MXTensor>* inputs, std::vector<MXTensor>* outputs,
                       const OpResource& resource) {
  MXTensor& dy = inputs->at(0);
  MXTensor& dmean = outputs->at(1);
  float* means = static_cast<float*>(resource.alloc_cpu(static_cast<int>(dy.shape[1] * sizeof(float))));
  center(dy.data<float>(), dy.shape[0], dy.shape[1], means, outputs->at(0).data<float>());
  for (int64_t j = 0; j < dmean.size(); ++j) dmean.data<float>()[j] = 0;
  return MX_SUCCESS;
}

MXReturnValue parseAttrs(const Attrs& attrs, int* num_in, int* num_out) {
  *num_in = 2;
  *num_out = 1;
  return MX_SUCCESS;
}

MXReturnValue inferType(const Attrs& attrs, std::vector<int>* intypes, std::vector<int>* outtypes) {
  for (int& type : *intypes) {
    if (type == -1) type = kFloat32;
    if (type == kFloat32) continue;
    MX_ERROR_MSG << "my_center: expected float32, got type " << type;
    return MX_FAIL;
  }
  outtypes->at(0) = kFloat32;
  return MX_SUCCESS;
}

// The state's shape follows from the data, so a network need not know it before its first call.
MXReturnValue inferShape(const Attrs& attrs, std::vector<std::vector<unsigned int>>* inshapes,
                         std::vector<std::vector<unsigned int>>* outshapes) {
  const std::vector<unsigned int>& x = inshapes->at(0);
  if (x.size() != 2) {
    MX_ERROR_MSG << "my_center: expected a matrix, got " << x.size() << " dimensions";
    return MX_FAIL;
  }
  inshapes->at(1) = {x[1]};
  outshapes->at(0) = x;
  return MX_SUCCESS;
}

MXReturnValue mutateInputs(const Attrs& attrs, std::vector<int>* input_indices) {
  input_indices->push_back(1);
  return MX_SUCCESS;
}

REGISTER_OP(my_center)
.setForward(forward, "cpu")
.setBackward(backward, "cpu")
.setParseAttrs(parseAttrs)
.setInferType(inferType)
.setInferShape(inferShape)
.setMutateInputs(mutateInputs);

MXReturnValue initialize(int version) { return MX_SUCCESS; }
