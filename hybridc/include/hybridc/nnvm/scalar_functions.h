// Functions of elements, as template arguments: Map of one or two values. `x_grad` is the derivative of `x`, as a
// function of the argument, or, where that is the custom, of the result; then its comment says so.
#ifndef HYBRIDC_NNVM_SCALAR_FUNCTIONS_H_
#define HYBRIDC_NNVM_SCALAR_FUNCTIONS_H_

#include <cmath>

namespace mxnet {
namespace op {
namespace mshadow_op {

#define HYBRIDC_UNARY(name, expression) \
  struct name {                         \
    template <typename DType>           \
    static DType Map(DType a) {         \
      return DType(expression);         \
    }                                   \
  };
#define HYBRIDC_BINARY(name, expression) \
  struct name {                          \
    template <typename DType>            \
    static DType Map(DType a, DType b) { \
      return DType(expression);          \
    }                                    \
  };

HYBRIDC_UNARY(identity, a)
HYBRIDC_UNARY(identity_grad, (void(a), 1))
HYBRIDC_UNARY(negation, -a)
HYBRIDC_UNARY(abs, a < DType(0) ? -a : a)
HYBRIDC_UNARY(sign, a < DType(0) ? DType(-1) : a > DType(0) ? DType(1) : a)  // nan stays nan
HYBRIDC_UNARY(reciprocal, DType(1) / a)
HYBRIDC_UNARY(reciprocal_grad, -DType(1) / (a * a))
HYBRIDC_UNARY(square, a * a)
HYBRIDC_UNARY(square_grad, DType(2) * a)
HYBRIDC_UNARY(square_root, std::sqrt(a))
HYBRIDC_UNARY(square_root_grad, DType(0.5) / a)  // of the result
HYBRIDC_UNARY(exp, std::exp(a))                  // its derivative is its result
HYBRIDC_UNARY(log, std::log(a))
HYBRIDC_UNARY(log_grad, DType(1) / a)
HYBRIDC_UNARY(sin, std::sin(a))
HYBRIDC_UNARY(sin_grad, std::cos(a))
HYBRIDC_UNARY(cos, std::cos(a))
HYBRIDC_UNARY(cos_grad, -std::sin(a))
HYBRIDC_UNARY(tanh, std::tanh(a))
HYBRIDC_UNARY(tanh_grad, DType(1) - a * a)  // of the result
HYBRIDC_UNARY(sigmoid, DType(1) / (DType(1) + std::exp(-a)))
HYBRIDC_UNARY(sigmoid_grad, a*(DType(1) - a))  // of the result
HYBRIDC_UNARY(relu, a <= DType(0) ? DType(0) : a)  // nan stays nan
HYBRIDC_UNARY(relu_grad, a > DType(0))  // of either
HYBRIDC_UNARY(softrelu, a > DType(20) ? a : std::log1p(std::exp(a)))
HYBRIDC_UNARY(softrelu_grad, -std::expm1(-a))  // of the result
HYBRIDC_UNARY(erf, std::erf(a))
HYBRIDC_UNARY(erf_grad, DType(1.1283791670955126) * std::exp(-a * a))

HYBRIDC_BINARY(plus, a + b)
HYBRIDC_BINARY(minus, a - b)
HYBRIDC_BINARY(mul, a* b)
HYBRIDC_BINARY(div, a / b)
HYBRIDC_BINARY(power, std::pow(a, b))
HYBRIDC_BINARY(maximum, a > b ? a : b)
HYBRIDC_BINARY(minimum, a < b ? a : b)
HYBRIDC_BINARY(left, (void(b), a))
HYBRIDC_BINARY(right, (void(a), b))

#undef HYBRIDC_UNARY
#undef HYBRIDC_BINARY

}  // namespace mshadow_op

// The gradient of an elementwise function: the output's times the derivative.
template <typename GRAD>
struct unary_bwd {
  template <typename DType>
  static DType Map(DType ograd, DType a) {
    return ograd * GRAD::Map(a);
  }
};

}  // namespace op
}  // namespace mxnet

#endif  // HYBRIDC_NNVM_SCALAR_FUNCTIONS_H_
