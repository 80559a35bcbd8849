// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The pipelines that the tools run, and the dialects they need.

#ifndef TILEWRIGHT_PASSES_PIPELINES_PIPELINES_H
#define TILEWRIGHT_PASSES_PIPELINES_PIPELINES_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace mlir {
class DialectRegistry;
class OpPassManager;
} // namespace mlir

namespace tilewright {

/// The dialects that a kernel file may use, with what inlining its scalar functions needs.
void registerDialects(mlir::DialectRegistry &registry);

struct TilePipelineOptions {
  /// Kernel or program to compile; empty: the only one that no program launches.
  std::string entry;
  /// Values of the entry's parameters, as text.
  std::vector<std::pair<std::string, std::string>> params;
  /// Files whose functions and captures replace those of the module.
  std::vector<std::string> with;
  /// The file that the module was read from: its tile.link may name files of the same folder. Empty
  /// for text from memory, which may only name files of the compiler.
  std::string source;
  /// Allows rewrites that change the rounding of the result (tile-fold-scale).
  bool fastMath = false;
  /// Leaves literals as written if the type of their parameter cannot represent them. For a device
  /// that holds every float in f64.
  bool exactLiterals = false;
  /// The target: cpu, or a name of base/Target. compileFile binds an enum parameter named TARGET to
  /// it if the caller did not bind it and its declaration allows the value; the passes ignore it.
  std::string target = "cpu";
  /// Options of block(): a file of rows that take precedence over the table's, the maximum number
  /// of positions that a loop runs over (0: any number), and the bytes of shared memory that a
  /// block may use (0: all that the target has).
  std::string blocks;
  int64_t length = 0;
  int64_t shared = 0;
  /// Keeps tile.print and tile.assert on targets other than cpu. For the simulator, and for code
  /// that executes them.
  bool keepDebug = false;
  /// How instances share the terms of a sum: auto, whole or apart (tile-combine-sums).
  std::string sums = "auto";
};

/// From an author's module to the `tile` IR of one entry with all parameters bound:
/// tile-link, tile-inline-calls (of tiles), tile-bind-target, tile-combine-sums,
/// tile-choose-blocks, tile-specialize,
/// tile-unroll, canonicalize, cse, tile-drop-debug (for GPUs), tile-expand-composites,
/// tile-drop-arguments, tile-differentiate, tile-analyze-masks,
/// tile-fold-scale, tile-load-captures, tile-hoist-uniforms, canonicalize, cse,
/// loop-invariant-code-motion, tile-scale-after-loop. Pipelines.cpp says why.
void buildTilePipeline(mlir::OpPassManager &manager, const TilePipelineOptions &options);

struct GpuPipelineOptions {
  std::string target = "sm_80";      ///< a name of base/Target, by default the first
  int64_t warps = 0;                 ///< 0: by the largest product of the kernel
  std::vector<std::string> schedule; ///< KEY=VALUE: overrides of tgpu-plan-schedule
};

/// From bound tile IR to `tgpu` with planned shared memory, verified. Pipelines.cpp has the order
/// of the passes, and why.
void buildGpuPipeline(mlir::OpPassManager &manager, const GpuPipelineOptions &options);

/// Makes `tile-pipeline{entry=.. params=NAME=VALUE,.. with=FILE,.. fast-math}` and
/// `gpu-pipeline{target=.. warps=.. schedule=KEY=VALUE,..}` known by name.
void registerTilewrightPipelines();

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_PIPELINES_PIPELINES_H
