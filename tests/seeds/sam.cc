// The operator of the design of extension libraries, as its signatures are written there.
#include <map>
#include <string>
#include <vector>

#include "mxnet/lib_api.h"

using namespace mxnet::ext;

int myForward(std::map<std::string, std::string> attrs, std::vector<MXTensor> inputs, std::vector<MXTensor> outputs,
              OpResource res) {
  float factor = std::stof(attrs["myParam"]);
  for (int64_t i = 0; i < inputs[0].size(); ++i) {
    outputs[0].data<float>()[i] = factor * inputs[0].data<float>()[i] + 1;
  }
  return 1;
}

int parseAttrs(std::map<std::string, std::string> attrs, int* num_in, int* num_out) {
  if (attrs.count("myParam") == 0) {
    MX_ERROR_MSG << "sam: myParam is missing";
    return 0;
  }
  *num_in = 1;
  *num_out = 1;
  return 1;
}

int inferType(std::map<std::string, std::string> attrs, std::vector<int> &intypes, std::vector<int> &outtypes) {
  if (intypes[0] == -1) intypes[0] = kFloat32;
  if (intypes[0] != kFloat32) {
    MX_ERROR_MSG << "sam: expected float32, got type " << intypes[0];
    return 0;
  }
  outtypes[0] = intypes[0];
  return 1;
}

int inferShape(std::map<std::string, std::string> attrs, std::vector<std::vector<unsigned int>> &inshapes,
               std::vector<std::vector<unsigned int>> &outshapes) {
  if (inshapes[0].size() > 2) {
    MX_ERROR_MSG << "sam: expected at most 2 dimensions, got " << inshapes[0].size();
    return 0;
  }
  outshapes[0] = inshapes[0];
  return 1;
}

int myFailingForward(std::map<std::string, std::string> attrs, std::vector<MXTensor> inputs,
                     std::vector<MXTensor> outputs, OpResource res) {
  return 0;
}

REGISTER_OP(sam)
.setForward(myForward)
.setParseAttrs(parseAttrs)
.setInferType(inferType)
.setInferShape(inferShape);

REGISTER_OP(sam_that_fails)
.setForward(myFailingForward)
.setParseAttrs(parseAttrs)
.setInferType(inferType)
.setInferShape(inferShape);

MXReturnValue initialize(int version) { return MX_SUCCESS; }
