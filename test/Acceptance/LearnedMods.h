// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Score modifiers with their captures, and formulas for the derivatives with respect to each
// capture.

#ifndef TILEWRIGHT_TEST_ACCEPTANCE_LEARNEDMODS_H
#define TILEWRIGHT_TEST_ACCEPTANCE_LEARNEDMODS_H

#include "test/Acceptance/AttentionCall.h"

namespace tilewright::acceptance {

/// A captured array or scalar that has a gradient.
struct LearnedTable {
  std::string name;
  std::vector<int64_t> shape; ///< empty for a scalar
  std::vector<double> values; ///< values representable in the type
  /// The entry that the pair reads (negative: none), and the derivative of its modified score with
  /// respect to that entry. Null if a test does not need it.
  std::function<std::pair<int64_t, double>(double s, int64_t b, int64_t h, int64_t i, int64_t j)>
      derivative;
  ElementType type = ElementType::F32;
  /// The entry that a pair reads depends on both of its positions: then each pair is added to the
  /// gradient separately.
  bool isByPair = false;

  /// The shape of the gradient: a scalar has one element.
  std::vector<int64_t> gradientShape() const {
    return shape.empty() ? std::vector<int64_t>{1} : shape;
  }
};

struct LearnedMod {
  std::string name;
  std::string file; ///< path relative to kernels/, without ".mlir"
  std::vector<LearnedTable> tables;
  std::function<void(KernelCall &)> bindIntegers;
  reference::ScoreMod score;       ///< empty if a test does not use it
  std::vector<std::string> more{}; ///< files linked after the first
};
inline void PrintTo(const LearnedMod &mod, std::ostream *os) { *os << mod.name; }

/// softcap, alibi, relative_bias and t5_bias of kernels/mods/, and, of test/Acceptance/Inputs/,
/// `learned`, with all kinds of tables, and `offset`, with a 16-bit table that is also read out of
/// bounds. All with formulas.
std::vector<LearnedMod> learnedMods(const reference::AttentionProblem &problem);

/// `smooth` of test/Acceptance/Inputs/: every function of math that has a derivative, without
/// formulas.
LearnedMod smoothMod();

/// relative_bias, softcap, a mask, alibi, bias with extents of 1, dropout, learned weights, sinks:
/// all linked, without formulas.
LearnedMod chainedMod(const reference::AttentionProblem &problem);

/// Links the modifier and binds its captures, and on request its gradients as outputs. Refers to
/// the mod.
CallOptions optionsFor(const LearnedMod &mod, bool withGradients, RunSettings run = {});

struct LearnedGradients {
  reference::BackwardResult result;
  std::vector<std::vector<double>> tables; ///< one per table of the mod
};

/// attention_backward with the gradients of all captures. `twice` runs it again on other threads
/// and expects equal bits.
LearnedGradients runLearnedBackward(const reference::AttentionProblem &problem,
                                    reference::Type type, const reference::AttentionInputs &inputs,
                                    const reference::ForwardResult &saved, const LearnedMod &mod,
                                    const Params &params, RunSettings run = {}, bool twice = false);

} // namespace tilewright::acceptance

#endif // TILEWRIGHT_TEST_ACCEPTANCE_LEARNEDMODS_H
