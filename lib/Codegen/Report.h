// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The resources and instructions of a mapped kernel, for users: tilewrightc --report.

#ifndef TILEWRIGHT_LIB_CODEGEN_REPORT_H
#define TILEWRIGHT_LIB_CODEGEN_REPORT_H

#include "base/Layout/BankConflicts.h"
#include "dialect/Tgpu/Tgpu.h"
#include "lib/Codegen/GpuCompiler.h"

#include <map>
#include <optional>

namespace tilewright {

/// Wavefronts of the accesses to shared memory by threads, summed over all warps.
struct SharedTraffic {
  layout::Wavefronts reads, writes, copies;
  layout::Wavefronts worst; ///< the access with the most conflicts
  std::string worstPlace;   ///< its location

  void add(const SharedTraffic &other);
};

/// One iteration of a loop, or the code outside all loops. For a condition, the branch with more
/// matrix instructions counts; inner loops are not included.
struct LoopReport {
  std::string place; ///< file:line:column; empty outside of loops
  std::string role;  ///< empty if all warps execute the same code
  int depth = 0;     ///< number of enclosing loops
  std::string skeleton;
  int64_t stages = 0;       ///< from the schedule; 0 if the loop has none
  std::string notPipelined; ///< why a loop that loads tiles has no schedule
  /// "mma.sync m16n8k16", for each warp; "wgmma m64n128k16", for each warpgroup; "fma", for each
  /// thread.
  std::map<std::string, int64_t> matrixInstructions;
  /// "cp.async", "wgmma", "mbarrier", "bulk", "turn", "barrier".
  std::map<std::string, int64_t> waits;
  SharedTraffic shared;
};

struct RingReport {
  std::string slot; ///< "64x64xbf16, b128"
  int64_t stages = 0, bytes = 0;
};

struct RoleReport {
  std::string name;
  int64_t warps = 0;
  int64_t registers = 0; ///< per thread, as set at run time; 0: as at entry
};

/// The number of blocks that a multiprocessor holds at a time, and the limiting resource.
struct Occupancy {
  int64_t blocks = 0;
  std::string limit; ///< "registers", "shared memory", "warps", "blocks"
};

struct KernelReport {
  std::string kernel, target;
  std::string blocks;   ///< the chosen blocks, and the reason; empty if none were chosen
  std::string strategy; ///< how instances share a sum; empty for a kernel as its author wrote it
  std::string noRoles;  ///< why a kernel has no roles on a target that has them
  std::vector<std::string> notes; ///< what else is slower than the target allows, and why
  int64_t warps = 0;
  int64_t sharedBytes = 0; ///< dynamic, as planned
  std::vector<RoleReport> roles;
  std::vector<RingReport> rings;
  std::vector<LoopReport> loops;      ///< code outside of loops first, then in textual order
  std::vector<std::string> unchecked; ///< places of synchronization that was not checked
};

/// Precondition: the module is mapped and its shared memory is planned.
std::vector<KernelReport> describeKernels(mlir::ModuleOp module);

/// Without `registers`, only the other limits count: an upper bound.
Occupancy computeOccupancy(const KernelReport &kernel, std::optional<int64_t> registers);

/// The workspaces of the programs, as products of extents and bytes.
void printWorkspaces(llvm::raw_ostream &os, mlir::ModuleOp module);

/// How much a report says: of each kernel all, or one line, and what is slower than it could be.
enum class ReportLength { Full, Summary };

/// Describes the module to `os`; registers and spills come from ptxas, if the machine has it and it
/// accepts the code. Precondition: as for describeKernels.
void reportOn(mlir::ModuleOp module, const GpuOptions &options, llvm::raw_ostream &os,
              ReportLength length = ReportLength::Full);

/// `resources` come from ptxas; without them, its figures are "unknown".
void printSummary(llvm::raw_ostream &os, const std::vector<KernelReport> &kernels,
                  const std::vector<KernelResources> &resources);
void printReport(llvm::raw_ostream &os, const std::vector<KernelReport> &kernels,
                 const std::vector<KernelResources> &resources);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_CODEGEN_REPORT_H
