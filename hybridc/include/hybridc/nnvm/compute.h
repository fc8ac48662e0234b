// What FCompute works on: arrays without a type (TBlob), the request, the context; and dispatch on element types.
#ifndef HYBRIDC_NNVM_COMPUTE_H_
#define HYBRIDC_NNVM_COMPUTE_H_

#include <functional>
#include <vector>

#include "../extension/tensor.h"
#include "op.h"

namespace mshadow {

// Devices, as template arguments.
struct cpu {
  static const bool kDevCPU = true;
  static const int kDevMask = 1;
};
struct gpu {
  static const bool kDevCPU = false;
  static const int kDevMask = 2;
};

template <typename xpu>
struct Stream {
  hybridc::extension::mx_stream_t stream_;
};

enum TypeFlag { kFloat32, kFloat64, kFloat16, kUint8, kInt32, kInt8, kInt64 };

typedef int64_t index_t;

inline size_t mshadow_sizeof(int type) {
  static const size_t sizes[] = {4, 8, 2, 1, 4, 1, 8};
  CHECK(type >= kFloat32 && type <= kInt64) << "element type " << type;
  return sizes[type];
}

}  // namespace mshadow

namespace mxnet {

using mshadow::cpu;
using mshadow::gpu;
using mshadow::index_t;
using nnvm::NodeAttrs;

// How an output is to be written. The binary interface asks for kWriteTo only.
enum OpReqType { kNullOp, kWriteTo, kWriteInplace, kAddTo };

// A dense array on some device.
class TBlob {
 public:
  TBlob() : dptr_(nullptr), type_flag_(-1), dev_mask_(cpu::kDevMask) {}
  TBlob(void* data, const TShape& shape, int type, int dev_mask = cpu::kDevMask)
      : dptr_(data), shape_(shape), type_flag_(type), dev_mask_(dev_mask) {}

  template <typename DType>
  DType* dptr() const {
    return static_cast<DType*>(dptr_);
  }
  size_t Size() const { return shape_.Size(); }
  int ndim() const { return shape_.ndim(); }
  dim_t size(int axis) const { return shape_[axis]; }
  int dev_mask() const { return dev_mask_; }

  void* dptr_;
  TShape shape_;
  int type_flag_;

 private:
  int dev_mask_;
};

struct RunContext {
  template <typename xpu>
  mshadow::Stream<xpu>* get_stream() const {
    return nullptr;
  }
};

struct OpContext {
  template <typename xpu>
  mshadow::Stream<xpu>* get_stream() const {
    return run_ctx.get_stream<xpu>();
  }
  bool is_train;  // always true: the binary interface does not tell
  RunContext run_ctx;
  const hybridc::extension::OpResource* resource;  // workspace, stream, random states
};

typedef std::function<void(const nnvm::NodeAttrs&, const OpContext&, const std::vector<TBlob>&,
                           const std::vector<OpReqType>&, const std::vector<TBlob>&)>
    FCompute;

namespace op {

using nnvm::Node;
using nnvm::NodeEntry;
using nnvm::NodePtr;
using nnvm::ObjectPtr;
using mshadow::Stream;

template <typename Param>
void ParamParser(nnvm::NodeAttrs* attrs) {
  hybridc_parse_param<Param>(attrs);
}

namespace mxnet_op {
using mshadow::Stream;

// Kernel<OP, cpu>::Launch(stream, n, arguments…): OP::Map(i, arguments…) for each i < n.
template <typename OP, typename xpu>
struct Kernel {
  template <typename... Arguments>
  static void Launch(Stream<xpu>*, index_t n, Arguments... arguments) {
    for (index_t i = 0; i < n; ++i) OP::Map(i, arguments...);
  }
};
}  // namespace mxnet_op

}  // namespace op
}  // namespace mxnet

// Writes, or adds, a value as requested.
#define KERNEL_ASSIGN(out, req, val)  \
  {                                   \
    switch (req) {                    \
      case ::mxnet::kNullOp:          \
        break;                        \
      case ::mxnet::kWriteTo:         \
      case ::mxnet::kWriteInplace:    \
        (out) = (val);                \
        break;                        \
      case ::mxnet::kAddTo:           \
        (out) += (val);               \
        break;                        \
    }                                 \
  }

#define HYBRIDC_TYPE_CASE(flag, T, DType, ...) \
  case flag: {                                 \
    typedef T DType;                           \
    { __VA_ARGS__ }                            \
  } break;
// Runs the code with DType the type of this number. float16 needs a type of the author's own.
#define MSHADOW_TYPE_SWITCH(type, DType, ...)                                    \
  switch (type) {                                                                \
    HYBRIDC_TYPE_CASE(::mshadow::kFloat32, float, DType, __VA_ARGS__)            \
    HYBRIDC_TYPE_CASE(::mshadow::kFloat64, double, DType, __VA_ARGS__)           \
    HYBRIDC_TYPE_CASE(::mshadow::kUint8, uint8_t, DType, __VA_ARGS__)            \
    HYBRIDC_TYPE_CASE(::mshadow::kInt32, int32_t, DType, __VA_ARGS__)            \
    HYBRIDC_TYPE_CASE(::mshadow::kInt8, int8_t, DType, __VA_ARGS__)              \
    HYBRIDC_TYPE_CASE(::mshadow::kInt64, int64_t, DType, __VA_ARGS__)            \
    default:                                                                     \
      HYBRIDC_FATAL << "element type " << (type) << " is not supported here";    \
  }
#define MSHADOW_REAL_TYPE_SWITCH(type, DType, ...)                                                             \
  switch (type) {                                                                                              \
    HYBRIDC_TYPE_CASE(::mshadow::kFloat32, float, DType, __VA_ARGS__)                                          \
    HYBRIDC_TYPE_CASE(::mshadow::kFloat64, double, DType, __VA_ARGS__)                                         \
    default:                                                                                                   \
      HYBRIDC_FATAL << "element type " << (type) << " is not supported here: expected float32 or float64";     \
  }
#define MXNET_ASSIGN_REQ_SWITCH(req, ReqType, ...)                   \
  switch (req) {                                                     \
    case ::mxnet::kNullOp:                                           \
      break;                                                         \
    case ::mxnet::kWriteTo:                                          \
    case ::mxnet::kWriteInplace: {                                   \
      const ::mxnet::OpReqType ReqType = ::mxnet::kWriteTo;          \
      { __VA_ARGS__ }                                                \
    } break;                                                         \
    case ::mxnet::kAddTo: {                                          \
      const ::mxnet::OpReqType ReqType = ::mxnet::kAddTo;            \
      { __VA_ARGS__ }                                                \
    } break;                                                         \
  }

#endif  // HYBRIDC_NNVM_COMPUTE_H_
