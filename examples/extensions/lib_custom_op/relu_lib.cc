// my_noisy_relu: the positive part of x + sigma·z, with z drawn anew in each call from the host's random states.
#include <algorithm>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "mxnet/lib_api.h"

using namespace mxnet::ext;

typedef std::unordered_map<std::string, std::string> Attrs;

float sigma(const Attrs& attrs) { return attrs.count("sigma") != 0 ? std::stof(attrs.at("sigma")) : 1.0f; }

MXReturnValue forward(const Attrs& attrs, std::vector<MXTensor>* inputs, std::vector<MXTensor>* outputs,
                      const OpResource& resource) {
  const float* x = inputs->at(0).data<float>();
  float* y = outputs->at(0).data<float>();
  int64_t size = inputs->at(0).size();
  // The noise first, in workspace of the call, as a kernel does that draws in several threads, one state for each.
  float* noise = static_cast<float*>(resource.alloc_cpu(static_cast<int>(size * sizeof(float))));
  std::normal_distribution<float> normal(0.0f, sigma(attrs));
  mx_cpu_rand_t* states = resource.get_cpu_rand_states();
  for (int64_t i = 0; i < size; ++i) noise[i] = normal(states[i % MX_NUM_CPU_RANDOM_STATES]);
  for (int64_t i = 0; i < size; ++i) y[i] = std::max(x[i] + noise[i], 0.0f);
  return MX_SUCCESS;
}

// The gradient passes where the output is positive: [dy, x, y] → dx.
MXReturnValue backward(const Attrs& attrs, std::vector<MXTensor>* inputs, std::vector<MXTensor>* outputs,
                       const OpResource& resource) {
  const float *dy = inputs->at(0).data<float>(), *y = inputs->at(2).data<float>();
  float* dx = outputs->at(0).data<float>();
  for (int64_t i = 0; i < inputs->at(0).size(); ++i) dx[i] = y[i] > 0 ? dy[i] : 0;
  return MX_SUCCESS;
}

MXReturnValue parseAttrs(const Attrs& attrs, int* num_in, int* num_out) {
  *num_in = 1;
  *num_out = 1;
  if (sigma(attrs) >= 0) return MX_SUCCESS;
  MX_ERROR_MSG << "my_noisy_relu: sigma is a standard deviation, got " << sigma(attrs);
  return MX_FAIL;
}

MXReturnValue inferType(const Attrs& attrs, std::vector<int>* intypes, std::vector<int>* outtypes) {
  if (intypes->at(0) == -1) intypes->at(0) = kFloat32;
  outtypes->at(0) = kFloat32;
  if (intypes->at(0) == kFloat32) return MX_SUCCESS;
  MX_ERROR_MSG << "my_noisy_relu: expected float32, got type " << intypes->at(0);
  return MX_FAIL;
}

MXReturnValue inferShape(const Attrs& attrs, std::vector<std::vector<unsigned int>>* inshapes,
                         std::vector<std::vector<unsigned int>>* outshapes) {
  outshapes->at(0) = inshapes->at(0);
  return MX_SUCCESS;
}

REGISTER_OP(my_noisy_relu)
.setForward(forward, "cpu")
.setBackward(backward, "cpu")
.setParseAttrs(parseAttrs)
.setInferType(inferType)
.setInferShape(inferShape);

MXReturnValue initialize(int version) { return MX_SUCCESS; }
