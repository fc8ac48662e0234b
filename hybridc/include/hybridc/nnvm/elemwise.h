// Attributes of operators on arrays of one shape: ElemwiseShape, ElemwiseType, UnaryCompute, BinaryCompute.
#ifndef HYBRIDC_NNVM_ELEMWISE_H_
#define HYBRIDC_NNVM_ELEMWISE_H_

#include <sstream>
#include <string>
#include <vector>

#include "compute.h"

namespace mxnet {
namespace op {

// Takes over what `value` knows; false where both know and differ.
inline bool shape_assign(TShape* known, const TShape& value) {
  if (value.ndim() == 0) return true;
  if (known->ndim() == 0) *known = value;
  if (known->ndim() != value.ndim()) return false;
  for (int i = 0; i < value.ndim(); ++i) {
    if ((*known)[i] <= 0) (*known)[i] = value[i];
    if (value[i] > 0 && (*known)[i] != value[i]) return false;
  }
  return true;
}
inline bool type_assign(int* known, int value) {
  if (value == -1) return true;
  if (*known == -1) *known = value;
  return *known == value;
}

#define SHAPE_ASSIGN_CHECK(shapes, index, shape)                                                             \
  if (!::mxnet::op::shape_assign(&(shapes)[index], shape)) {                                                 \
    HYBRIDC_FATAL << "shape " << (index) << ": expected " << ::mxnet::TShape(shape) << ", got " << (shapes)[index]; \
  }
#define TYPE_ASSIGN_CHECK(types, index, type)                                                    \
  if (!::mxnet::op::type_assign(&(types)[index], type)) {                                        \
    HYBRIDC_FATAL << "type " << (index) << ": expected " << (type) << ", got " << (types)[index]; \
  }

template <typename T>
void differ(const nnvm::NodeAttrs& attrs, const char* what, const T& one, const T& other) {
  std::ostringstream text;
  text << attrs.op->name << ": " << what << " " << one << " and " << other << " differ";
  throw dmlc::Error(text.str());
}
inline void require_counts(const nnvm::NodeAttrs& attrs, size_t in, size_t n_in, size_t out, size_t n_out) {
  if (in == n_in && out == n_out) return;
  std::ostringstream text;
  text << attrs.op->name << ": shapes and types are inferred for " << n_in << " inputs and " << n_out
       << " outputs, and there are " << in << " and " << out;
  throw dmlc::Error(text.str());
}

// All inputs and outputs have one shape; any of them may tell it. True where it is known then.
template <int n_in, int n_out>
bool ElemwiseShape(const nnvm::NodeAttrs& attrs, std::vector<TShape>* in_attrs, std::vector<TShape>* out_attrs) {
  require_counts(attrs, in_attrs->size(), n_in, out_attrs->size(), n_out);
  TShape shape;
  for (std::vector<TShape>* side : {in_attrs, out_attrs}) {
    for (const TShape& known : *side) {
      if (!shape_assign(&shape, known)) differ(attrs, "shapes", shape, known);
    }
  }
  for (std::vector<TShape>* side : {in_attrs, out_attrs}) {
    for (TShape& known : *side) known = shape;
  }
  return shape_is_known(shape);
}

// The same for element types.
template <int n_in, int n_out>
bool ElemwiseType(const nnvm::NodeAttrs& attrs, std::vector<int>* in_attrs, std::vector<int>* out_attrs) {
  require_counts(attrs, in_attrs->size(), n_in, out_attrs->size(), n_out);
  int type = -1;
  for (std::vector<int>* side : {in_attrs, out_attrs}) {
    for (int known : *side) {
      if (!type_assign(&type, known)) differ(attrs, "types", type, known);
    }
  }
  for (std::vector<int>* side : {in_attrs, out_attrs}) {
    for (int& known : *side) known = type;
  }
  return type != -1;
}

template <typename xpu, typename OP>
void UnaryCompute(const nnvm::NodeAttrs&, const OpContext&, const std::vector<TBlob>& inputs,
                  const std::vector<OpReqType>& req, const std::vector<TBlob>& outputs) {
  MSHADOW_TYPE_SWITCH(outputs[0].type_flag_, DType, {
    const DType* a = inputs[0].dptr<DType>();
    DType* out = outputs[0].dptr<DType>();
    for (size_t i = 0, size = outputs[0].Size(); i < size; ++i) KERNEL_ASSIGN(out[i], req[0], OP::Map(a[i]));
  });
}

template <typename xpu, typename OP>
void BinaryCompute(const nnvm::NodeAttrs&, const OpContext&, const std::vector<TBlob>& inputs,
                   const std::vector<OpReqType>& req, const std::vector<TBlob>& outputs) {
  MSHADOW_TYPE_SWITCH(outputs[0].type_flag_, DType, {
    const DType *a = inputs[0].dptr<DType>(), *b = inputs[1].dptr<DType>();
    DType* out = outputs[0].dptr<DType>();
    for (size_t i = 0, size = outputs[0].Size(); i < size; ++i) KERNEL_ASSIGN(out[i], req[0], OP::Map(a[i], b[i]));
  });
}

}  // namespace op
}  // namespace mxnet

#endif  // HYBRIDC_NNVM_ELEMWISE_H_
