// Shapes; and a value of any type, as parsed attributes are kept in.
#ifndef HYBRIDC_NNVM_SHAPE_H_
#define HYBRIDC_NNVM_SHAPE_H_

#include <cxxabi.h>

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "logging.h"

namespace nnvm {

typedef int64_t dim_t;

// Without dimensions a shape is unknown; a dimension of 0 is unknown.
class TShape {
 public:
  TShape() {}
  TShape(std::initializer_list<dim_t> dims) : dims_(dims) {}
  TShape(int ndim, dim_t value) : dims_(ndim, value) {}
  template <typename Iterator, typename = typename std::enable_if<!std::is_arithmetic<Iterator>::value>::type>
  TShape(Iterator begin, Iterator end) : dims_(begin, end) {}

  int ndim() const { return static_cast<int>(dims_.size()); }
  dim_t& operator[](size_t i) { return dims_[i]; }
  const dim_t& operator[](size_t i) const { return dims_[i]; }
  const dim_t* begin() const { return dims_.data(); }
  const dim_t* end() const { return dims_.data() + dims_.size(); }
  dim_t* begin() { return dims_.data(); }
  dim_t* end() { return dims_.data() + dims_.size(); }
  // Number of elements.
  size_t Size() const { return static_cast<size_t>(ProdShape(0, ndim())); }
  dim_t ProdShape(int first, int last) const {
    dim_t product = 1;
    for (int i = first; i < last; ++i) product *= dims_[i];
    return product;
  }
  bool operator==(const TShape& other) const { return dims_ == other.dims_; }
  bool operator!=(const TShape& other) const { return dims_ != other.dims_; }

 private:
  std::vector<dim_t> dims_;
};

inline std::ostream& operator<<(std::ostream& out, const TShape& shape) {
  out << "(";
  for (int i = 0; i < shape.ndim(); ++i) out << (i == 0 ? "" : ",") << shape[i];
  return out << ")";
}

class any {
 public:
  any() {}
  any(const any& other) : held_(other.held_) {}
  template <typename T>
  any(const T& value) : held_(new Holder<T>(value)) {}  // NOLINT(runtime/explicit): any value is meant
  any& operator=(const any& other) {
    held_ = other.held_;
    return *this;
  }
  bool empty() const { return held_ == nullptr; }

  template <typename T>
  const T& as() const {
    const Holder<T>* holder = dynamic_cast<const Holder<T>*>(held_.get());
    if (holder != nullptr) return holder->value;
    std::string held = empty() ? std::string("nothing") : readable(held_->type());
    throw dmlc::Error("expected a value of type " + readable(typeid(T)) + ", which was set to " + held);
  }

 private:
  struct Base {
    virtual ~Base() {}
    virtual const std::type_info& type() const = 0;
  };
  static std::string readable(const std::type_info& type) {
    int status = 0;
    std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
    return name ? name.get() : type.name();
  }
  template <typename T>
  struct Holder : public Base {
    explicit Holder(const T& given) : value(given) {}
    const std::type_info& type() const override { return typeid(T); }
    const T value;
  };
  std::shared_ptr<const Base> held_;  // what is held never changes, so copies share it
};

// The value in `holder`, of exactly this type.
template <typename T>
const T& get(const any& holder) {
  return holder.as<T>();
}

}  // namespace nnvm

namespace mxnet {
using nnvm::dim_t;
using nnvm::TShape;
typedef std::vector<TShape> ShapeVector;

inline bool shape_is_known(const TShape& shape) {
  if (shape.ndim() == 0) return false;
  for (dim_t dim : shape) {
    if (dim <= 0) return false;
  }
  return true;
}
}  // namespace mxnet

#endif  // HYBRIDC_NNVM_SHAPE_H_
