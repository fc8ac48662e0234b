// Operators, graph partitioners and graph passes in C++11, as a library that hybridc and MXNet 1.9 load.
//
//     #include <hybridc/extension.h>
//     using namespace mxnet::ext;
//
//     MXReturnValue forward(const std::unordered_map<std::string, std::string>& attrs, std::vector<MXTensor>* inputs,
//                           std::vector<MXTensor>* outputs, const OpResource& resource) { ... }
//     REGISTER_OP(my_op).setForward(forward, "cpu").setParseAttrs(...).setInferType(...).setInferShape(...);
//     MXReturnValue initialize(int version) { return MX_SUCCESS; }
//
// Header only: `g++ -std=c++11 -shared -fPIC my_op.cc -o libmy_op.so -I <mx.library.include_path()>`, then
// `mx.library.load("/path/libmy_op.so")`. What crosses between library and host are C arrays and opaque pointers
// (extension/abi.h); an exception that leaves the author's code becomes an error message of the library.
#ifndef HYBRIDC_EXTENSION_H_
#define HYBRIDC_EXTENSION_H_

#if __cplusplus < 201103L
#error "hybridc/extension.h needs C++11: compile with -std=c++11 or newer"
#endif

#include "extension/message.h"
#include "extension/tensor.h"
#include "extension/operators.h"
#include "extension/json.h"
#include "extension/graph.h"
#include "extension/passes.h"
#include "extension/abi.h"

// The names of MXNet 1.9.
namespace mxnet {
namespace ext {
using namespace ::hybridc::extension;  // NOLINT(build/namespaces): that namespace is made for this one
}  // namespace ext
}  // namespace mxnet

#endif  // HYBRIDC_EXTENSION_H_
