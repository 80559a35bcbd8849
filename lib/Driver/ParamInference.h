// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parameters that the arrays of a command line determine.

#ifndef TILEWRIGHT_LIB_DRIVER_PARAMINFERENCE_H
#define TILEWRIGHT_LIB_DRIVER_PARAMINFERENCE_H

#include "lib/Driver/BindingOptions.h"
#include "lib/Driver/Compiler.h"

namespace tilewright {

/// Adds to `options.params` what the arrays determine of the entry's parameters and the caller has
/// not given: the extents that are a parameter by a view's type or by a constraint
/// `dim(view, position) == PARAM`, from all arrays, and the element types that are one, from the
/// arrays that are read or have a type stated. Both go before a default. A type does so only if the
/// parameter may have it and the default is not computed from other parameters: an array may be
/// converted, but no extent differs from its parameter. An array of integers says nothing of a
/// type, nor does one that does not fit its view's rank: what binds arguments rejects it. Errors:
/// two arrays that disagree, files that cannot be read, and, if a parameter remains without a
/// value, a name that is no argument. Precondition: the module is not
/// compiled yet.
llvm::Error inferParams(mlir::ModuleOp module, TilePipelineOptions &options,
                        const BindingRequest &request);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_DRIVER_PARAMINFERENCE_H
