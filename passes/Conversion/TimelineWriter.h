// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Samples of the clock (EmitTimeline.cpp). Nothing is emitted if the kernel has no timeline.
// Internal to convert-tgpu-to-nvvm.

#ifndef TILEWRIGHT_PASSES_CONVERSION_TIMELINEWRITER_H
#define TILEWRIGHT_PASSES_CONVERSION_TIMELINEWRITER_H

#include "passes/Conversion/KernelEmitter.h"
#include "passes/Conversion/Timeline.h"

namespace tilewright::tgpu {

class TimelineWriter {
public:
  /// At the entry of the kernel.
  void begin(KernelEmitter &e);
  /// The following code is executed by the warpgroups of a role; `roleNumber` counts roles.
  void open(ThreadBuilder &b, int64_t roleNumber);
  void close(ThreadBuilder &b);
  /// Before and after an operation, or at the ends of a loop's body, if it is an event.
  void sample(ThreadBuilder &b, mlir::Operation *op, bool isEnd);
  /// Whether operations of the region are events.
  bool hasEvents(mlir::Region &region) const;

private:
  std::optional<Timeline> timeline;
  mlir::Value state, buffer, chunks;
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_CONVERSION_TIMELINEWRITER_H
