// CHECK_EQ(a, b) << "why": a condition that must hold, or the call fails with this text.
#ifndef HYBRIDC_NNVM_LOGGING_H_
#define HYBRIDC_NNVM_LOGGING_H_

#include <sstream>
#include <stdexcept>
#include <string>

namespace dmlc {

struct Error : public std::runtime_error {
  explicit Error(const std::string& text) : std::runtime_error(text) {}
};

// Thrown when it ends, at the end of the statement that writes it.
class FatalMessage {
 public:
  FatalMessage(const char* file, int line) { text_ << file << "[" << line << "]: "; }
  ~FatalMessage() noexcept(false) { throw Error(text_.str()); }
  std::ostream& stream() { return text_; }

 private:
  std::ostringstream text_;
};

}  // namespace dmlc

#ifndef CHECK
#define HYBRIDC_FATAL ::dmlc::FatalMessage(__FILE__, __LINE__).stream()
#define CHECK(condition) \
  if (condition) {       \
  } else                 \
    HYBRIDC_FATAL << "Check failed: " #condition " "
#define HYBRIDC_CHECK_OP(a, op, b) \
  if ((a)op(b)) {                  \
  } else                           \
    HYBRIDC_FATAL << "Check failed: " #a " " #op " " #b " (" << (a) << " vs. " << (b) << ") "
#define CHECK_EQ(a, b) HYBRIDC_CHECK_OP(a, ==, b)
#define CHECK_NE(a, b) HYBRIDC_CHECK_OP(a, !=, b)
#define CHECK_LT(a, b) HYBRIDC_CHECK_OP(a, <, b)
#define CHECK_LE(a, b) HYBRIDC_CHECK_OP(a, <=, b)
#define CHECK_GT(a, b) HYBRIDC_CHECK_OP(a, >, b)
#define CHECK_GE(a, b) HYBRIDC_CHECK_OP(a, >=, b)
#endif

#endif  // HYBRIDC_NNVM_LOGGING_H_
