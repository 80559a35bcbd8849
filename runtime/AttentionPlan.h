// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The common part of the plans of attention: an operation whose arguments are known by name.

#ifndef TILEWRIGHT_RUNTIME_ATTENTIONPLAN_H
#define TILEWRIGHT_RUNTIME_ATTENTIONPLAN_H

#include "runtime/Operation.h"

#include <array>

namespace tilewright::runtime {

struct AttentionDesc {
  enum class Causal { None, TopLeft, BottomRight };

  ElementType type = ElementType::BF16; // type of q, k, v, o and their gradients
  int64_t headDim = 0;
  int64_t valueDim = 0; // 0: headDim
  Causal causal = Causal::None;
  bool hasWindow = false;
};

/// The arguments of a call besides its views.
struct AttentionArguments {
  double scale = 1;                          // rounded to f32, unless the entry takes it in f64
  int32_t windowLeft = -1, windowRight = -1; // -1: no limit; both are, unless hasWindow is set
  /// Captures of replaced functions, and optional arguments of the entry that the plan does not
  /// name, in the order of captures().
  const Argument *captures = nullptr;
  size_t numCaptures = 0;
};

/// Views that an entry takes by name, and the extents that must be equal.
struct AttentionSignature {
  struct View {
    const char *name;
    bool isRequired; // required of entries; in a call, the contract says which are optional
    uint8_t like[3]; // numbers of the views that have the same extents along dimensions 0 to 2
  };
  const View *views; // the first are q and k
  size_t numViews;
};

/// The parameters of an entry for a description.
Params attentionParams(const AttentionDesc &desc);

class AttentionPlan {
public:
  /// `signature` must outlive the plan.
  static Result<AttentionPlan> create(const DriverTable &driver,
                                      std::shared_ptr<const Bundle> bundle,
                                      const std::string &entry, const AttentionDesc &desc,
                                      const Params &params, const AttentionSignature &signature);

  Status checkSupport(const Target &target) const { return operation.checkSupport(target); }
  const std::vector<std::string> &captures() const { return captureNames; }
  Status prepare(int device) { return operation.prepare(device); }
  void checkIndices(bool isWanted) { operation.checkIndices(isWanted); }
  /// `views` in the order of the signature.
  Status workspaceSize(const Argument *const *views, const AttentionArguments &arguments,
                       int device, uint64_t &bytes) const;
  Status run(const Argument *const *views, const AttentionArguments &arguments, uint64_t workspace,
             uint64_t workspaceBytes, cuda::Stream stream) const;

private:
  struct Scalars {
    Argument scale, windowLeft, windowRight;
  };
  AttentionPlan(Operation operation, const AttentionSignature &signature, std::string entry)
      : operation(std::move(operation)), signature(&signature), entry(std::move(entry)) {}
  Status checkViews(const Argument *const *views) const;
  Status checkGradients(const AttentionArguments &arguments) const;
  Status bind(const Argument *const *views, const AttentionArguments &arguments, Scalars &scalars,
              const Argument **bound) const;

  Operation operation;
  bool hasWindow = false;
  bool hasWideScale = false; // in f64
  const AttentionSignature *signature;
  std::string entry;
  std::vector<uint8_t> sources; // source of each argument of the contract: a view, or a SourceKind
  std::vector<uint8_t> ranks;   // of the views of the signature
  std::vector<std::string> captureNames;
  std::vector<std::pair<size_t, size_t>> gradients; // indices of d_x and x in the captures
};

/// A plan for one direction. A call is an Arguments, of which listViews gives the views in the
/// order of signatureOf a Desc; paramsOf gives the parameters of the entry.
template <typename Desc, typename Arguments> class Attention {
public:
  /// Needs no GPU. MissingVariant, with the command that compiles it, if the bundle has no such
  /// code.
  static Result<Attention> create(const DriverTable &driver, std::shared_ptr<const Bundle> bundle,
                                  const Desc &desc) {
    Result<AttentionPlan> plan = AttentionPlan::create(driver, std::move(bundle), desc.entry, desc,
                                                       paramsOf(desc), signatureOf(desc));
    if (!plan)
      return plan.status();
    return Attention(std::move(*plan));
  }

  /// Whether there is code for such a device. Needs no GPU.
  Status checkSupport(const Target &target) const { return plan.checkSupport(target); }
  /// Names of the captures that run takes.
  const std::vector<std::string> &captures() const { return plan.captures(); }

  Status prepare(int device) { return plan.prepare(device); }
  /// As Operation::checkIndices.
  void checkIndices(bool isWanted) { plan.checkIndices(isWanted); }
  Status workspaceSize(const Arguments &arguments, int device, uint64_t &bytes) const {
    return plan.workspaceSize(listViews(arguments).data(), arguments, device, bytes);
  }
  Status run(const Arguments &arguments, uint64_t workspace, uint64_t workspaceBytes,
             cuda::Stream stream) const {
    return plan.run(listViews(arguments).data(), arguments, workspace, workspaceBytes, stream);
  }

private:
  explicit Attention(AttentionPlan plan) : plan(std::move(plan)) {}
  AttentionPlan plan;
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_ATTENTIONPLAN_H
