// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which values the arrays of a command line suggest for parameters that were not given.

#ifndef TILEWRIGHT_LIB_DRIVER_PARAMHINTS_H
#define TILEWRIGHT_LIB_DRIVER_PARAMHINTS_H

#include "lib/Driver/BindingOptions.h"
#include "lib/Driver/Compiler.h"

namespace tilewright {

/// "--param D=64 --param T=f16" for the parameters of the entry that have neither a value nor a
/// default but occur in the type of a view that the request gives; empty if there are none, or if
/// the file cannot be read and parsed again. Diagnostics of that go to the context.
std::string suggestParams(mlir::MLIRContext &context, llvm::StringRef file,
                          const TilePipelineOptions &options, const BindingRequest &request);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_DRIVER_PARAMHINTS_H
