// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A call of attention, by one description for all shipped kernels: the code that serves it, and its
// arguments by name. AttentionForward.h, AttentionBackward.h and AttentionDecode.h have structs for
// the arguments of the plainest calls.
//
//   AttentionDesc desc;
//   desc.headDim = 128;
//   desc.isPacked = true;
//   auto plan = AttentionPlan::create(**driver, *bundle, desc);
//   for (const ArgumentSpec &argument : plan->arguments())
//     ... // q, k, v, o, lse, cu_seqlens_q, cu_seqlens_k, scale, window_left, window_right
//
// A plan is a thin layer: what a kernel requires of its arguments is in the bundle, and an
// Operation checks it. A plan adds what a bundle cannot say: which parameters describe a call,
// which of several entries takes the pages of a cache, and equal extents of custom entries.

#ifndef TILEWRIGHT_RUNTIME_ATTENTIONPLAN_H
#define TILEWRIGHT_RUNTIME_ATTENTIONPLAN_H

#include "runtime/AttentionDesc.h"
#include "runtime/Operation.h"

namespace tilewright::runtime {

class AttentionPlan {
public:
  /// Needs no GPU. MissingVariant, with the command that compiles it, if the bundle has no such
  /// code.
  static Result<AttentionPlan> create(const DriverTable &driver,
                                      std::shared_ptr<const Bundle> bundle,
                                      const AttentionDesc &desc);

  /// Of all functions that take arguments: they have this order, and none is null. Scalars may be
  /// absent if they have a default, which windows always have: -1.
  const std::vector<ArgumentSpec> &arguments() const { return contract; }
  const std::string &signature() const { return text; }

  /// Whether there is code for such a device. Needs no GPU.
  Status checkSupport(const Target &target) const;
  Status prepare(int device);
  /// As Operation::checkIndices.
  void checkIndices(bool isWanted);
  /// As Operation::overlapPrevious.
  void overlapPrevious(bool isWanted);
  Status workspaceSize(const Argument *const *arguments, size_t numArguments, int device,
                       uint64_t &bytes) const;
  Status run(const Argument *const *arguments, size_t numArguments, uint64_t workspace,
             uint64_t workspaceBytes, cuda::Stream stream) const;
  /// Whether the description allows these sides of a window, also for an entry without arguments
  /// for them.
  Status checkWindow(int64_t left, int64_t right) const;
  /// As Operation::report; `call` begins with the signature.
  Result<RunReport> report(const Argument *const *arguments, size_t numArguments, int device) const;
  Result<RunReport> report(const Argument *const *arguments, size_t numArguments,
                           const Target &target, int multiprocessors) const;

private:
  /// Code for pages whose rows are a multiple of `pageRows`; 0: without a table, without a cache,
  /// or independent of pages.
  struct Variant {
    int64_t pageRows;
    Operation operation;
    std::vector<uint8_t> sources; // number in `contract` of each of its arguments
  };
  /// The arguments of one variant.
  struct Bound {
    const Variant *variant;
    const Argument *arguments[maxArguments];
    size_t count() const { return variant->sources.size(); }
  };
  /// An extent that must be that of another argument.
  struct EqualExtent {
    uint8_t place, like, dim;
  };

  AttentionPlan(const AttentionDesc &desc, std::string bundleName);
  Status add(int64_t pageRows, Operation operation);
  void finish();
  int find(const char *name) const; // -1: no such argument
  Result<const Variant *> choose(const Argument *const *arguments) const;
  Status checkExtents(const Argument *const *arguments) const;
  Status checkGradients(const Argument *const *arguments) const;
  Status bind(const Argument *const *arguments, size_t numArguments, Bound &bound) const;
  template <typename... Device>
  Result<RunReport> reportOn(const Argument *const *arguments, size_t numArguments,
                             Device... device) const;

  AttentionDesc desc;
  std::string bundleName, entry, text;
  std::vector<Variant> variants; // those of the most rows first
  bool choosesByPages = false;   // else there is one variant, for all pages that it takes
  std::vector<ArgumentSpec> contract;
  std::vector<EqualExtent> equalExtents;
  std::vector<std::pair<size_t, size_t>> gradients; // d_x and x of captures
  int q = -1, k = -1, blockTable = -1, windows[2] = {-1, -1};
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_ATTENTIONPLAN_H
