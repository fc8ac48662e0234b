// Authors' functions in the spellings that MXNet's versions and documents know, and what can go wrong in them.
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "mxnet/lib_api.h"

using namespace mxnet::ext;

typedef std::map<std::string, std::string> Map;
typedef std::unordered_map<std::string, std::string> Attrs;
typedef std::vector<std::vector<unsigned int>> ShapeLists;

MXReturnValue raise_power(const std::string& power, MXTensor x, MXTensor y) {
  for (int64_t i = 0; i < x.size(); ++i) y.data<float>()[i] = std::pow(x.data<float>()[i], std::stof(power));
  return MX_SUCCESS;
}

// Values: maps and vectors are copied.
MXReturnValue value_parse(Map attrs, int* num_in, int* num_out) {
  *num_in = *num_out = 1;
  return MX_SUCCESS;
}
MXReturnValue value_forward(Map attrs, std::vector<MXTensor> inputs, std::vector<MXTensor> outputs, OpResource res) {
  std::string kind = attrs["throw"];
  if (kind == "runtime_error") throw std::runtime_error("it broke");
  if (kind == "string") throw std::string("a string");
  if (kind == "text") throw "a text";
  if (kind == "int") throw 1;
  if (kind == "sparse") {
    MXSparse sparse;
    res.alloc_sparse(&sparse, 0, 1);
  }
  if (kind == "message") {
    MX_ERROR_MSG << "here: " << 1 << " of " << 2;
    return MX_FAIL;
  }
  return raise_power(attrs["power"], inputs[0], outputs[0]);
}
// References, and an int for success.
int reference_type(Map attrs, std::vector<int>& intypes, std::vector<int>& outtypes) {
  outtypes[0] = intypes[0];
  return 1;
}
int reference_shape(const Map& attrs, ShapeLists& inshapes, ShapeLists& outshapes) {
  outshapes[0] = inshapes[0];
  return 1;
}
int reference_forward(const Map& attrs, std::vector<MXTensor>& inputs, std::vector<MXTensor>& outputs,
                      const OpResource& res) {
  return raise_power(attrs.at("power"), inputs[0], outputs[0]);
}

REGISTER_OP(by_value)
.setForward(value_forward)
.setParseAttrs(value_parse)
.setInferType(reference_type)
.setInferShape(reference_shape);

REGISTER_OP(by_reference)
.setForward(reference_forward, "cpu")
.setParseAttrs(value_parse)
.setInferType(reference_type)
.setInferShape(reference_shape);

REGISTER_OP(proposal)
.setFCompute_cpu([](const Attrs& attrs, std::vector<MXTensor>* inputs, std::vector<MXTensor>* outputs,
                    const OpResource& res) { return raise_power(attrs.at("power"), inputs->at(0), outputs->at(0)); })
.setParseAttrs([](const Attrs& attrs, int* num_in, int* num_out) { return *num_in = *num_out = 1; })
.setInferType(reference_type)
.setInferShape(reference_shape);

struct Counter : public CustomStatefulOp {
  explicit Counter(int start) : count(start) {}
  MXReturnValue Forward(std::vector<MXTensor>* inputs, std::vector<MXTensor>* outputs, const OpResource& res) {
    outputs->at(0).data<float>()[0] = static_cast<float>(++count);
    return MX_SUCCESS;
  }
  int count;
};
MXReturnValue short_create(Map attrs, CustomStatefulOp** state) {
  if (attrs.count("start") > 0) *state = new Counter(std::stoi(attrs["start"]));
  return MX_SUCCESS;
}
REGISTER_OP(short_create)
.setParseAttrs(value_parse)
.setInferType(reference_type)
.setInferShape(reference_shape)
.setCreateOpState(short_create, "cpu");

REGISTER_OP(wrong_counts)
.setForward(value_forward)
.setParseAttrs(value_parse)
.setInferType([](Attrs attrs, std::vector<int>* in, std::vector<int>* out) { return in->clear(), 1; })
.setInferShape([](Attrs attrs, ShapeLists* in, ShapeLists* out) { return out->resize(2), true; });

REGISTER_OP(twice)
.setForward(value_forward, "cpu")
.setForward(value_forward, "cpu")
.setParseAttrs(value_parse)
.setInferType(reference_type)
.setInferShape(reference_shape);

MXReturnValue tell_dlpack(const Attrs& attrs, std::vector<MXTensor>* inputs, std::vector<MXTensor>* outputs,
                          const OpResource& res) {
  std::vector<MXTensor> copies(*inputs);
  inputs->clear();  // a copy's structure stands on its own
  const auto& t = copies[0].dltensor;
  int64_t told[] = {reinterpret_cast<int64_t>(t.data), t.ctx.device_type, t.ctx.device_id, t.ndim, t.dtype.code,
                    t.dtype.bits, t.dtype.lanes, t.shape[1], reinterpret_cast<int64_t>(t.strides)};
  std::copy(told, told + 9, outputs->at(0).data<int64_t>());
  return MX_SUCCESS;
}
REGISTER_OP(dlpack)
.setForward(tell_dlpack, "cpu")
.setParseAttrs(value_parse)
.setInferType(reference_type)
.setInferShape(reference_shape);

MXReturnValue initialize(int version) { return version == 10901 ? MX_SUCCESS : MX_FAIL; }
