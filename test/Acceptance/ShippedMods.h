// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The functions of kernels/mods/ and their equivalents in the oracle: files to link, captures to
// bind, semantics.

#ifndef TILEWRIGHT_TEST_ACCEPTANCE_SHIPPEDMODS_H
#define TILEWRIGHT_TEST_ACCEPTANCE_SHIPPEDMODS_H

#include "test/Acceptance/AttentionCall.h"

namespace tilewright::acceptance {

struct ShippedMod {
  std::string name; ///< name of the file
  /// Sets the oracle's mask or modifier in a problem whose sizes are set.
  std::function<void(reference::AttentionProblem &)> apply;
  /// Binds the captures for that problem.
  std::function<void(KernelCall &, const reference::AttentionProblem &)> bind;
};
inline void PrintTo(const ShippedMod &mod, std::ostream *os) { *os << mod.name; }

/// sink_window, prefix_lm, document, intervals, tree, used_lengths.
const std::vector<ShippedMod> &maskMods();
/// softcap, alibi, relative_bias, t5_bias.
const std::vector<ShippedMod> &scoreMods();

/// Options that link the mod and bind its captures.
CallOptions optionsFor(const ShippedMod &mod, const reference::AttentionProblem &problem);

} // namespace tilewright::acceptance

#endif // TILEWRIGHT_TEST_ACCEPTANCE_SHIPPEDMODS_H
