// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which operations of a kernel write to its timeline, and what a reader needs to know of them. The
// code and the manifest are made from this one table. A kernel has a timeline if it has the
// attribute `tgpu.timeline`, words of a chunk (see base/Abi/TimelineFormat.h), and an argument
// `timeline`.

#ifndef TILEWRIGHT_PASSES_CONVERSION_TIMELINE_H
#define TILEWRIGHT_PASSES_CONVERSION_TIMELINE_H

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/IR/BuiltinOps.h"

#include <optional>

namespace tilewright::tgpu {

struct TimelineEvent {
  std::string kind;     ///< wait, copy, product, store, shared or loop
  std::string name;     ///< such as "wgmma 128x128x64"
  std::string line;     ///< FILE:LINE, if the operation has a location
  int64_t pending = -1; ///< tgpu.wgmma_wait: groups of products that may remain in flight
  bool commits = false; ///< tgpu.wgmma: it ends a group
  bool marksEnd = true; ///< false: the next event follows immediately
};

struct Timeline {
  int64_t words = 0;
  uint32_t tag = 0; ///< of the kernel, in each chunk
  std::vector<std::string> roles;
  std::vector<TimelineEvent> events;
  llvm::DenseMap<mlir::Operation *, unsigned> numbers;
};

/// Nothing if the kernel has no timeline.
std::optional<Timeline> getTimeline(KernelOp kernel);

/// Gives every kernel of a mapped module a timeline with chunks of so many words: the attribute,
/// and an optional argument, also of the programs that launch it. Kernels that have one keep it.
/// Fails with a diagnostic where the name of the argument is taken.
mlir::LogicalResult addTimeline(mlir::ModuleOp module, int64_t words);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_CONVERSION_TIMELINE_H
