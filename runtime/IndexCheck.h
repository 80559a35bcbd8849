// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The checking mode: rules for the elements of index arrays in device memory. It waits for the
// stream and copies the arrays to the host, so a run does it on request only.

#ifndef TILEWRIGHT_RUNTIME_INDEXCHECK_H
#define TILEWRIGHT_RUNTIME_INDEXCHECK_H

#include "runtime/DriverTable.h"
#include "runtime/ExprCode.h"
#include "runtime/Manifest.h"

namespace tilewright::runtime {

/// Whether TILEWRIGHT_CHECK_INDICES is set to anything but the empty string and 0.
bool checksIndicesByDefault();

/// Reads the arrays of the rules, in pieces, after the work that is in the stream, and waits for
/// it. `owner` is "kernel" or "program" and its name, to which the rules and the contract belong;
/// `inputs` satisfy the contract. The context of the stream is current.
///
/// Fails with InvalidArgument, and the array, index and value, if an element breaks a rule; with
/// Unsupported if the stream is being captured or the driver cannot copy; and if the driver fails.
Status checkElementRules(const DriverTable &driver, const std::vector<ElementRuleSpec> &rules,
                         const std::vector<ArgumentSpec> &contract, const ExprInputs &inputs,
                         const char *owner, const std::string &name, cuda::Stream stream);

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_INDEXCHECK_H
