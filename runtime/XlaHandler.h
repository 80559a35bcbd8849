// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calls of kernels from XLA, and so from JAX, by its foreign function interface. A custom call has
// the buffers of its operands and results, and one attribute, "call": the key of a registered call,
// which says what the buffers are to a kernel.

#ifndef TILEWRIGHT_RUNTIME_XLAHANDLER_H
#define TILEWRIGHT_RUNTIME_XLAHANDLER_H

#include "base/Support/Status.h"
#include "runtime/XlaFfiAbi.h"
#include "runtime/tilewright.h"

#include <functional>
#include <string>
#include <vector>

namespace tilewright::runtime::xla {

struct Call {
  /// A buffer, which is row-major, and the argument that it is.
  struct Operand {
    std::string name;
    std::vector<unsigned> order; ///< its dimensions, in the order of the argument's; none: the same
    bool isPairs = false; ///< elements are of i64, and those of the buffer their halves, of u32
  };
  struct Scalar {
    std::string name;
    tilewright_type type;
    uint64_t bits; ///< begins with the value
  };
  std::vector<Operand> operands; ///< then results
  std::vector<Scalar> scalars;
  bool hasWorkspace = false; ///< a last result, which `operands` does not list, of bytes
  std::function<tilewright_code(const tilewright_argument *arguments, size_t numArguments,
                                void *workspace, uint64_t workspaceBytes, void *stream)>
      run;
};

/// Calls that execute and others with this key find it from now on; an earlier one is replaced.
void registerCall(const std::string &key, Call call);

/// The handler of all calls. Null, or an error that the interface of `frame` created.
Error *handle(CallFrame *frame);

} // namespace tilewright::runtime::xla

#endif // TILEWRIGHT_RUNTIME_XLAHANDLER_H
