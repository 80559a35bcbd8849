// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a run of an operation would launch: for logs, caches and tests. All of it is from the
// manifest and the arguments.

#ifndef TILEWRIGHT_RUNTIME_REPORT_H
#define TILEWRIGHT_RUNTIME_REPORT_H

#include "runtime/Manifest.h"

namespace tilewright::runtime {

/// Whether two runs on the same arguments have the same bits. Unknown: the bundle is of an ABI that
/// does not say.
enum class Determinism { Unknown, Yes, No };

struct LaunchReport {
  std::string kernel, entry; // entry: the symbol in the code
  std::string target;        // of the code: "sm_90a"
  bool isCubin = false;      // else PTX
  std::string params;        // "D=128,T=bf16,BLOCK_M=128"
  std::vector<ElementType> sums;
  Determinism determinism = Determinism::Unknown;
  std::array<uint32_t, 3> grid = {}, block = {}, cluster = {};
  uint32_t sharedBytes = 0; // dynamic and static
};

struct RunReport {
  std::string name;   // of the kernel or program
  std::string target; // of all launches; empty if nothing is launched
  std::string params; // those that all launches have in common
  std::vector<ElementType> sums;
  Determinism determinism = Determinism::Unknown;
  uint64_t workspaceBytes = 0;
  /// Calls with equal strings launch the same code in the same way, on one device, with one bundle:
  /// the signature of the operation or plan, then types, extents, strides and alignment of views,
  /// and values of scalars.
  std::string call;
  std::vector<LaunchReport> launches; // those whose condition holds; an empty grid is not launched
};

/// The syntax of --variant of tilewrightc.
std::string toVariantText(const Params &params);

/// "q=bf16[2,8,300,64]/153600,19200,64,1@256 scale=f32:0x3e000000", without absent arguments. What
/// follows @ is the largest power of two that divides the address, at most 256.
std::string toCallText(const std::vector<ArgumentSpec> &contract, const Argument *const *arguments);

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_REPORT_H
