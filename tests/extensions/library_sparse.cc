// Operators of an extension library on sparse arrays: transposes of csr matrices and of rows, and a dense input made
// sparse.
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include "mxnet/lib_api.h"

using namespace mxnet::ext;

typedef std::unordered_map<std::string, std::string> Attrs;
typedef std::vector<MXTensor> Tensors;
typedef std::vector<unsigned int> Shape;

MXReturnValue one(const Attrs& attrs, int* num_in, int* num_out) {
  *num_in = *num_out = 1;
  return MX_SUCCESS;
}

MXReturnValue same_type(const Attrs& attrs, std::vector<int>* in, std::vector<int>* out) {
  out->at(0) = in->at(0);
  return MX_SUCCESS;
}

MXReturnValue turned(const Attrs& attrs, std::vector<Shape>* in, std::vector<Shape>* out) {
  const Shape& shape = in->at(0);
  out->at(0) = {shape.at(1), shape.at(0)};
  return MX_SUCCESS;
}

MXReturnValue same_shape(const Attrs& attrs, std::vector<Shape>* in, std::vector<Shape>* out) {
  out->at(0) = in->at(0);
  return MX_SUCCESS;
}

template <int storage>
MXReturnValue keeps(const Attrs& attrs, std::vector<int>* in, std::vector<int>* out) {
  if (in->at(0) != storage) {
    MX_ERROR_MSG << "this operator takes storage type " << storage;
    return MX_FAIL;
  }
  out->at(0) = storage;
  return MX_SUCCESS;
}

MXReturnValue transpose_csr(const Attrs& attrs, Tensors* in, Tensors* out, const OpResource& res) {
  MXSparse *a = in->at(0).data<MXSparse>(), *b = out->at(0).data<MXSparse>();
  const int64_t rows = in->at(0).shape[0], columns = in->at(0).shape[1];
  std::vector<int64_t> next(columns + 1, 0);
  for (int64_t i = 0; i < a->indices_len; i++) next[a->indices[i] + 1]++;
  for (int64_t i = 0; i < columns; i++) next[i + 1] += next[i];
  res.alloc_sparse(b, 0, a->data_len, columns + 1);
  std::memcpy(b->indptr, next.data(), next.size() * sizeof(int64_t));
  const float* from = static_cast<float*>(a->data);
  float* to = static_cast<float*>(b->data);
  for (int64_t row = 0; row < rows; row++)
    for (int64_t i = a->indptr[row]; i < a->indptr[row + 1]; i++) {
      const int64_t place = next[a->indices[i]]++;
      to[place] = from[i];
      b->indices[place] = row;
    }
  return MX_SUCCESS;
}

MXReturnValue transpose_rows(const Attrs& attrs, Tensors* in, Tensors* out, const OpResource& res) {
  MXSparse *a = in->at(0).data<MXSparse>(), *b = out->at(0).data<MXSparse>();
  const int64_t rows = in->at(0).shape[0], columns = in->at(0).shape[1];
  const float* from = static_cast<float*>(a->data);
  std::vector<int64_t> kept;
  for (int64_t column = 0; column < columns; column++)
    for (int64_t i = 0; i < a->indices_len; i++)
      if (from[i * columns + column] != 0) {
        kept.push_back(column);
        break;
      }
  res.alloc_sparse(b, 0, kept.size());
  float* to = static_cast<float*>(b->data);
  std::memset(to, 0, kept.size() * rows * sizeof(float));
  for (size_t j = 0; j < kept.size(); j++) {
    b->indices[j] = kept[j];
    for (int64_t i = 0; i < a->indices_len; i++) to[j * rows + a->indices[i]] = from[i * columns + kept[j]];
  }
  return MX_SUCCESS;
}

MXReturnValue to_rows(const Attrs& attrs, std::vector<int>* in, std::vector<int>* out) {
  out->at(0) = kRowSparseStorage;
  return MX_SUCCESS;
}

MXReturnValue first_row(const Attrs& attrs, Tensors* in, Tensors* out, const OpResource& res) {
  if (attrs.count("forget")) return MX_SUCCESS;
  MXSparse* b = out->at(0).data<MXSparse>();
  res.alloc_sparse(b, 0, 1);
  b->indices[0] = 0;
  std::memcpy(b->data, in->at(0).data<float>(), in->at(0).shape[1] * sizeof(float));
  return MX_SUCCESS;
}

REGISTER_OP(lib_transpose_csr)
    .setForward(transpose_csr, "cpu")
    .setParseAttrs(one)
    .setInferType(same_type)
    .setInferSType(keeps<kCSRStorage>)
    .setInferShape(turned);

REGISTER_OP(lib_transpose_rows)
    .setForward(transpose_rows, "cpu")
    .setParseAttrs(one)
    .setInferType(same_type)
    .setInferSType(keeps<kRowSparseStorage>)
    .setInferShape(turned);

REGISTER_OP(lib_first_row)
    .setForward(first_row, "cpu")
    .setParseAttrs(one)
    .setInferType(same_type)
    .setInferSType(to_rows)
    .setInferShape(same_shape);

MXReturnValue initialize(int version) { return version >= 10700 ? MX_SUCCESS : MX_FAIL; }

// A transpose with a state, which counts its calls; its backward transposes the gradient.
class Transposing : public CustomStatefulOp {
 public:
  explicit Transposing(const Attrs& attrs) : attrs_(attrs), calls_(0) {}
  MXReturnValue Forward(Tensors* in, Tensors* out, const OpResource& res) {
    if (++calls_ > 3) {
      MX_ERROR_MSG << "called " << calls_ << " times";
      return MX_FAIL;
    }
    return transpose_csr(attrs_, in, out, res);
  }
  MXReturnValue Backward(Tensors* in, Tensors* out, const OpResource& res) {
    if (attrs_.count("forget")) return MX_SUCCESS;
    return transpose_csr(attrs_, in, out, res);
  }

 private:
  const Attrs attrs_;
  int calls_;
};

MXReturnValue transposing(const Attrs& attrs, const MXContext& ctx, const std::vector<Shape>& shapes,
                          const std::vector<int> types, CustomStatefulOp** made) {
  *made = CustomStatefulOp::create<Transposing>(attrs);
  return MX_SUCCESS;
}

REGISTER_OP(lib_transposing)
    .setParseAttrs(one)
    .setInferType(same_type)
    .setInferSType(keeps<kCSRStorage>)
    .setInferShape(turned)
    .setCreateOpState(transposing, "cpu");

REGISTER_OP(lib_transpose_csr_both)
    .setForward(transpose_csr, "cpu")
    .setBackward(transpose_csr, "cpu")
    .setParseAttrs(one)
    .setInferType(same_type)
    .setInferSType(keeps<kCSRStorage>)
    .setInferShape(turned);
