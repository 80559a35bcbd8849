// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs problems of the oracle on the attention kernels: arguments, parameters and checks that all
// attention kernels share.

#ifndef TILEWRIGHT_TEST_ACCEPTANCE_ATTENTIONCALL_H
#define TILEWRIGHT_TEST_ACCEPTANCE_ATTENTIONCALL_H

#include "test/Acceptance/KernelCall.h"
#include "test/Acceptance/SupportMatrix.h"
#include "test/Reference/Accuracy.h"

#include <functional>
#include <map>

namespace tilewright::acceptance {

/// Options of a run, all optional.
struct CallOptions {
  Params params;                          ///< in addition to D, DV, T, CAUSAL and WINDOW
  std::vector<std::string> with;          ///< mods/softcap, ...
  std::function<void(KernelCall &)> bind; ///< captures and additional arguments
  std::map<std::string, Layout> layouts;  ///< indexed by array name
  RunSettings run;
  bool withLse = true; ///< output of the forward pass
  bool golden = false; ///< use the handwritten forward kernel; it is an error if there is none
  /// The elements of the batch are packed sequences of equal lengths: q is [1, Hq, B * Sq, D], and
  /// so on. Results are those of the batch. Layouts are those of the kernel's arguments.
  bool isPacked = false;
};

/// Values [n0, n1, ...] as [n1, n0, ...].
std::vector<double> swapOuter(const std::vector<double> &values, int64_t n0, int64_t n1);

/// D, DV, T and CAUSAL; and WINDOW for kernels that have one.
Params attentionParams(const reference::AttentionProblem &problem, reference::Type type,
                       bool hasWindow = true);

/// Whether the problem has a window that ends on a side.
bool usesWindow(const reference::AttentionProblem &problem);

/// q, k, v and scale; a window for kernels that have one.
void bindInputs(KernelCall &call, const reference::AttentionProblem &problem, reference::Type type,
                const reference::AttentionInputs &inputs, const CallOptions &options = {},
                bool hasWindow = true);
/// Binds the output o, and lse if `withLse` is set.
void bindForwardOutputs(KernelCall &call, const reference::AttentionProblem &problem,
                        reference::Type type, const CallOptions &options = {});
/// o, do and lse as inputs, dlse unless there is none, and the outputs dq, dk, dv.
void bindBackward(KernelCall &call, const reference::AttentionProblem &problem,
                  reference::Type type, const reference::AttentionInputs &inputs,
                  const reference::ForwardResult &saved, const CallOptions &options = {});
/// o, and lse if it was bound.
reference::ForwardResult readForward(const KernelCall &call, const CallOptions &options = {});
reference::BackwardResult readBackward(const KernelCall &call);
/// Converts results of packed sequences to those of the batch.
void unpack(const reference::AttentionProblem &problem, reference::ForwardResult &result);
void unpack(const reference::AttentionProblem &problem, reference::BackwardResult &result);

/// attention_forward on row-major arrays, or on those of the options.
reference::ForwardResult runForward(const reference::AttentionProblem &problem,
                                    reference::Type type, const reference::AttentionInputs &inputs,
                                    const CallOptions &options = {});
/// attention_backward on the results of a forward. DETERMINISTIC is a parameter of the options.
reference::BackwardResult runBackward(const reference::AttentionProblem &problem,
                                      reference::Type type,
                                      const reference::AttentionInputs &inputs,
                                      const reference::ForwardResult &saved,
                                      const CallOptions &options = {});

/// Checks every result by the accuracy rule.
void expectForward(const reference::ForwardOracle &oracle, const reference::ForwardResult &result,
                   const std::string &context = "");
void expectBackward(const reference::BackwardOracle &oracle,
                    const reference::BackwardResult &result, const std::string &context = "");

/// "f16_113x203_b2_h4_2_d64_dv40_top_left + window".
std::string describe(const reference::AttentionProblem &problem, reference::Type type);

/// A problem from the numbers that tests vary, with the default scale.
reference::AttentionProblem makeProblem(int64_t B, int64_t Hq, int64_t Hkv, int64_t Sq, int64_t Skv,
                                        int64_t D, int64_t DV,
                                        reference::Causal causal = reference::Causal::None,
                                        reference::Window window = {});

/// Problems without batches, heads, queries or keys.
std::vector<reference::AttentionProblem> emptyProblems();

/// A NaN in a query: its row becomes NaN; all other rows are bitwise equal to those of a run
/// without it. Every row of the problem has keys.
void expectNaNStaysInItsRow(
    const reference::AttentionProblem &problem, reference::Type type,
    const std::function<reference::ForwardResult(const reference::AttentionInputs &)> &run);

/// The types that kernels of attention are bound to.
inline const std::vector<reference::Type> allTypes = {reference::Type::F32, reference::Type::F16,
                                                      reference::Type::BF16, reference::Type::F64};

} // namespace tilewright::acceptance

#endif // TILEWRIGHT_TEST_ACCEPTANCE_ATTENTIONCALL_H
