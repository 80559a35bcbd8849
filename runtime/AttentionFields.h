// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The common part of the plans whose calls are structs: their fields are arguments of an
// AttentionPlan, and what they have no field for is in a list.

#ifndef TILEWRIGHT_RUNTIME_ATTENTIONFIELDS_H
#define TILEWRIGHT_RUNTIME_ATTENTIONFIELDS_H

#include "runtime/AttentionPlan.h"

#include <array>

namespace tilewright::runtime {

/// The arguments of a call besides its views.
struct AttentionArguments {
  double scale = 1;                          // rounded to f32, unless the entry takes it in f64
  int32_t windowLeft = -1, windowRight = -1; // -1: no limit; both are, unless hasWindow is set
  /// What the entry takes besides the fields, in the order of captures(): captures of replaced
  /// functions, and the arrays of a description with more features than the plainest.
  const Argument *captures = nullptr;
  size_t numCaptures = 0;
};

/// A view that an entry takes by name. Entries must have it if it is required; in a call, the
/// contract says which views are optional.
struct AttentionField {
  const char *name;
  bool isRequired;
};

class AttentionFields {
public:
  /// `fields` must outlive the result.
  static Result<AttentionFields> create(const DriverTable &driver,
                                        std::shared_ptr<const Bundle> bundle,
                                        const AttentionDesc &desc, const AttentionField *fields,
                                        size_t numFields);

  const AttentionPlan &getPlan() const { return plan; }
  AttentionPlan &getPlan() { return plan; }
  const std::vector<std::string> &captures() const { return captureNames; }
  /// `views` in the order of the fields.
  Status workspaceSize(const Argument *const *views, const AttentionArguments &arguments,
                       int device, uint64_t &bytes) const;
  Status run(const Argument *const *views, const AttentionArguments &arguments, uint64_t workspace,
             uint64_t workspaceBytes, cuda::Stream stream) const;
  Result<RunReport> report(const Argument *const *views, const AttentionArguments &arguments,
                           const Target &target, int multiprocessors) const;

private:
  struct Bound {
    Argument scale, windowLeft, windowRight;
    const Argument *arguments[maxArguments];
  };
  AttentionFields(AttentionPlan plan, const AttentionField *fields, size_t numFields)
      : plan(std::move(plan)), fields(fields), numFields(numFields) {}
  Status bind(const Argument *const *views, const AttentionArguments &arguments,
              Bound &bound) const;

  AttentionPlan plan;
  const AttentionField *fields;
  size_t numFields;
  std::string entry, noun;
  bool hasWindows = false;      // whether the plan checks them
  std::vector<uint8_t> sources; // source of each argument of the plan: a field, or a SourceKind
  std::vector<std::string> captureNames;
};

/// A plan for one direction. A call is an Arguments, of which listViews gives the views in the
/// order of fieldsOf a Desc.
template <typename Desc, typename Arguments> class Attention {
public:
  /// Needs no GPU. MissingVariant, with the command that compiles it, if the bundle has no such
  /// code.
  static Result<Attention> create(const DriverTable &driver, std::shared_ptr<const Bundle> bundle,
                                  const Desc &desc) {
    const auto &fields = fieldsOf(desc);
    Result<AttentionFields> plan =
        AttentionFields::create(driver, std::move(bundle), desc, fields.data(), fields.size());
    if (!plan)
      return plan.status();
    return Attention(std::move(*plan));
  }

  /// Whether there is code for such a device. Needs no GPU.
  Status checkSupport(const Target &target) const { return plan.getPlan().checkSupport(target); }
  /// Names of the captures that run takes.
  const std::vector<std::string> &captures() const { return plan.captures(); }
  const std::string &signature() const { return plan.getPlan().signature(); }

  Status prepare(int device) { return plan.getPlan().prepare(device); }
  /// As Operation::checkIndices.
  void checkIndices(bool isWanted) { plan.getPlan().checkIndices(isWanted); }
  /// As Operation::overlapPrevious.
  void overlapPrevious(bool isWanted) { plan.getPlan().overlapPrevious(isWanted); }
  Status workspaceSize(const Arguments &arguments, int device, uint64_t &bytes) const {
    return plan.workspaceSize(listViews(arguments).data(), arguments, device, bytes);
  }
  Status run(const Arguments &arguments, uint64_t workspace, uint64_t workspaceBytes,
             cuda::Stream stream) const {
    return plan.run(listViews(arguments).data(), arguments, workspace, workspaceBytes, stream);
  }
  /// As AttentionPlan::report.
  Result<RunReport> report(const Arguments &arguments, const Target &target,
                           int multiprocessors) const {
    return plan.report(listViews(arguments).data(), arguments, target, multiprocessors);
  }

private:
  explicit Attention(AttentionFields plan) : plan(std::move(plan)) {}
  AttentionFields plan;
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_ATTENTIONFIELDS_H
