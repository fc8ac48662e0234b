// What an author's function reports: success or failure, and the text of the failure.
#ifndef HYBRIDC_EXTENSION_MESSAGE_H_
#define HYBRIDC_EXTENSION_MESSAGE_H_

#include <deque>
#include <exception>
#include <iostream>
#include <mutex>
#include <sstream>
#include <string>

// A function with state of its own is local to its library: without this, libraries in one process would share the
// state, as the dynamic linker makes static variables of inline functions unique.
#define HYBRIDC_LOCAL __attribute__((visibility("hidden")))

namespace hybridc {
namespace extension {

enum MXReturnValue { MX_FAIL = 0, MX_SUCCESS = 1 };

// The texts of failures, oldest first. The host reads them after each call; they live as long as the library.
class Messages {
 public:
  void add(const std::string& text) {
    std::lock_guard<std::mutex> lock(mutex_);
    texts_.push_back(text);
  }
  int size() {
    std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<int>(texts_.size());
  }
  // Null outside the range. The pointer stays valid: a deque does not move what it holds.
  const char* get(int index) {
    std::lock_guard<std::mutex> lock(mutex_);
    return index >= 0 && index < static_cast<int>(texts_.size()) ? texts_[index].c_str() : nullptr;
  }

 private:
  std::mutex mutex_;
  std::deque<std::string> texts_;
};

HYBRIDC_LOCAL inline Messages& messages() {
  static Messages all;
  return all;
}

// One message while it is being written; it is added at the end of the statement that writes it.
class Message {
 public:
  Message(const char* file, int line) { text_ << file << "[" << line << "]: "; }
  ~Message() { messages().add(text_.str()); }
  std::ostream& stream() { return text_; }

 private:
  Message(const Message&);
  Message& operator=(const Message&);
  std::ostringstream text_;
};

// Runs what may throw; an exception becomes a message and a failure.
template <typename Body>
MXReturnValue guarded(Body body) {
  try {
    return body();
  } catch (const std::exception& error) {
    messages().add(std::string("C++ exception: ") + error.what());
  } catch (const std::string& text) {
    messages().add("C++ exception: " + text);
  } catch (const char* text) {
    messages().add(std::string("C++ exception: ") + text);
  } catch (...) {
    messages().add("C++ exception of unknown type");
  }
  return MX_FAIL;
}

// Authors' functions return MXReturnValue, or an int or bool that says whether they succeeded.
inline MXReturnValue status(MXReturnValue value) { return value; }
inline MXReturnValue status(int value) { return value ? MX_SUCCESS : MX_FAIL; }
inline MXReturnValue status(bool value) { return value ? MX_SUCCESS : MX_FAIL; }

}  // namespace extension
}  // namespace hybridc

// MX_ERROR_MSG << "expected 2 inputs, got " << n; return MX_FAIL;
#define MX_ERROR_MSG (::hybridc::extension::Message(__FILE__, __LINE__).stream())

#endif  // HYBRIDC_EXTENSION_MESSAGE_H_
