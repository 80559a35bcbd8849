// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The description of the code in a bundle: kernels, programs, the contracts of their arguments, and
// the devices that each can run on. Filled by the compiler, or read from the JSON of a bundle.

#ifndef TILEWRIGHT_RUNTIME_MANIFEST_H
#define TILEWRIGHT_RUNTIME_MANIFEST_H

#include "base/Abi/KernelAbi.h"
#include "base/Layout/Swizzle.h"
#include "base/Numeric/ElementRule.h"
#include "runtime/ArgumentSpec.h"
#include "runtime/Expr.h"

#include <array>

namespace tilewright::runtime {

/// The limits of a manifest, in addition to those of a kernel's ABI and of JSON (KernelAbi.h,
/// Json.h).
inline constexpr size_t maxKernels = 4096; // also programs, and variants of a launch
inline constexpr size_t maxForms = 64;     // of a program
inline constexpr size_t maxLaunches = 32;  // of a form
/// Of the address of a program's workspaces, in bytes.
inline constexpr uint64_t workspaceAlignment = 256;

using Params = std::vector<std::pair<std::string, Expr>>; // literals

/// Whether the first list has no condition that the second one lacks.
bool isWithin(const std::vector<Expr> &conditions, const std::vector<Expr> &others);

/// Whether both accept the same arguments.
bool haveOneContract(const std::vector<ArgumentSpec> &a, const std::vector<ArgumentSpec> &b);

/// An architecture such as sm_80 or sm_90a. Code for sm_90a runs only on 9.0.
struct Arch {
  int major = 0, minor = 0;
  bool isExact = false;

  static std::optional<Arch> parse(const std::string &text);
  std::string toString() const;
  bool operator==(const Arch &other) const {
    return major == other.major && minor == other.minor && isExact == other.isExact;
  }
};

struct CodeSpec {
  enum class Kind { Ptx, Cubin };
  Kind kind = Kind::Ptx;
  Arch arch;
  int ptxVersion = 0; // 80 for ".version 8.0"; PTX only
  size_t blob = 0;    // a PTX blob ends with a NUL

  /// PTX runs on its architecture and later ones; a cubin within its major version. Exact code runs
  /// only on its architecture.
  bool runsOn(int major, int minor) const;
};

/// The requirements on a view for a use of the kernel, in addition to the contract.
struct ViewRequirement {
  uint32_t argument = 0;
  int64_t alignment = 1;    // in bytes: of the address and of all strides except the last
  bool isUnitInner = false; // the last stride is 1
};

/// A constraint on the elements of an index array. A run checks it on request only, since it has to
/// read device memory: see IndexCheck.h.
struct ElementRuleSpec {
  numeric::ElementRule rule = numeric::ElementRule::Ascending;
  uint32_t argument = 0; // a view of i32
  Expr low, high;        // not for ascending; the range is low to high - 1
  uint32_t counts = 0;   // for within_first: a view of i32 of rank 1
  Expr size;             // for within_first

  /// As the author wrote it.
  std::string toString(const std::vector<ArgumentSpec> &arguments) const;
};

using layout::Swizzle;

/// A tensor map over a whole view; `box` has one extent for each dimension of the view.
struct TensorMapSpec {
  uint32_t argument = 0;
  std::vector<uint32_t> box;
  Swizzle swizzle = Swizzle::None;
  /// Whether tiles are written through it. A GPU writes whole chunks of 16 bytes, so rows must end
  /// at one.
  bool isStored = false;
  /// The dimension along which copies access parts of the view (KernelAbi.h); -1: the whole view.
  int ragged = -1;
  /// Copies take rows of pages: dimension 0 of the view counts pages, and dimension 1, the ragged
  /// one, the rows of a page (KernelAbi.h).
  bool isPaged = false;
};

/// The events that a kernel writes to its argument `timeline`: see base/Abi/TimelineFormat.h.
struct TimelineEventSpec {
  std::string kind;     // wait, copy, product, store, shared, loop
  std::string name;     // for display
  std::string line;     // line of the source; may be empty
  int64_t pending = -1; // for waits for products: groups that may remain in flight
  bool commits = false; // for products: the group ends here
};
struct TimelineSpec {
  uint32_t tag = 0;
  uint32_t words = 0; // 64-bit words per chunk; 0: no timeline
  std::vector<std::string> roles;
  std::vector<TimelineEventSpec> events;
};

/// One compiled variant of a kernel. Variants of one name are tried in the order of the bundle.
struct KernelSpec {
  std::string name;
  Params params;
  std::vector<ArgumentSpec> arguments;
  std::string entry; // symbol in the code
  std::vector<CodeSpec> codes;
  std::vector<Expr> grid; // 1 to 3 axes: x, y, z
  std::array<uint32_t, 3> block = {1, 1, 1};
  std::array<uint32_t, 3> cluster = {1, 1, 1};
  uint32_t sharedBytes = 0;       // dynamic
  uint32_t staticSharedBytes = 0; // static shared memory of the code, in addition
  std::vector<TensorMapSpec> tensorMaps;
  std::vector<ViewRequirement> requirements;
  /// Flags over shapes and scalars: the conditions of this variant. A condition that reads the
  /// extent of an absent view holds.
  std::vector<Expr> conditions;
  std::vector<ElementRuleSpec> elements;
  /// Why this code is slower than the chip allows, as text.
  std::vector<std::string> remarks;
  TimelineSpec timeline;
  /// The types in which its products are summed, each once; none without products.
  std::vector<ElementType> sums;
  /// Whether it adds floats to memory in an order that differs between runs, so that results may.
  /// Before ABI 4, a manifest does not say.
  std::optional<bool> addsInAnyOrder;
  /// Whether it waits for the end of the previous launch before it accesses memory, so that it may
  /// start before; and whether it lets the next launch of its program start when all its blocks
  /// have started and, if they wait, have waited.
  bool awaitsLaunch = false, allowsLaunch = false;

  ParamLayout layout; // computed by finalize
  uint32_t threads() const { return block[0] * block[1] * block[2]; }
  uint32_t clusterBlocks() const { return cluster[0] * cluster[1] * cluster[2]; }
  bool hasCodeFor(const Arch &target) const;
  /// Whether, on a device that can run both, it can replace the other variant of its contract: it
  /// has no requirements, no tensor maps, and no condition that the other one lacks.
  bool acceptsWhateverDoes(const KernelSpec &other) const;
  int64_t allSharedBytes() const { return int64_t(sharedBytes) + staticSharedBytes; }
};

struct WorkspaceSpec {
  std::string name;
  ElementType type = ElementType::F32;
  std::vector<Expr> extents;
  std::optional<uint32_t> fill; // the 32-bit pattern; see fillPattern
};

struct LaunchSpec {
  /// Variants with the same contract, in order of preference; all have code for the form's target.
  std::vector<size_t> kernels;
  std::vector<std::string> arguments; // names of arguments or workspaces of the program
  std::optional<Expr> condition;

  /// Computed: i for argument i of the program, numArguments + i for workspace i.
  std::vector<uint32_t> sources;
};

/// One way to run a program, with code for one target. A run takes the first form, in the order of
/// the bundle, whose target the device runs, whose conditions hold, and of which each launch has a
/// variant that accepts the arguments. So all kernels of a run have one target: what one launch
/// leaves for another may depend on it.
struct FormSpec {
  Arch target;
  Params params;                // in addition to those of the program, which all forms have
  std::vector<Expr> conditions; // as for a kernel; in addition to those of the program
  std::vector<WorkspaceSpec> workspaces;
  std::vector<LaunchSpec> launches;
};

struct ProgramSpec {
  std::string name;
  Params params;
  std::vector<ArgumentSpec> arguments;
  std::vector<Expr> conditions; // as for a kernel
  std::vector<ElementRuleSpec> elements;
  std::vector<FormSpec> forms; // in order of preference
};

struct Manifest {
  std::string producer; // "tilewrightc 0.1.0"
  std::string source;   // the .mlir file, for the command that compiles a missing variant
  std::vector<KernelSpec> kernels;
  std::vector<ProgramSpec> programs;

  Json toJson() const;
  static Result<Manifest> fromJson(const Json &json);

  /// Checks limits and references, resolves expressions and computes layouts; `numBlobs` bounds the
  /// blobs of codes. Both a reader and a writer call it.
  Status finalize(size_t numBlobs);
};

/// The pattern that fills memory of this type with `value`; nothing if it does not fit in 32 bits.
std::optional<uint32_t> fillPattern(ElementType type, double value);

/// A scalar of a float type with the nearest value, and the value of one.
Argument realScalar(ElementType type, double value);
double realValue(const Argument &scalar);
/// A scalar of i1, i32 or i64; nothing if the type does not have the value.
std::optional<Argument> integerScalar(ElementType type, int64_t value);

/// "D = 128, T = bf16".
std::string toString(const Params &params);

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_MANIFEST_H
