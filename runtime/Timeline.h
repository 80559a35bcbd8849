// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Converts kernels' timelines to a trace that Perfetto and chrome://tracing read.

#ifndef TILEWRIGHT_RUNTIME_TIMELINE_H
#define TILEWRIGHT_RUNTIME_TIMELINE_H

#include "runtime/Manifest.h"

namespace tilewright::runtime {

/// The trace in JSON: a process for each block, in it a track for each warpgroup of a role with its
/// waits, copies, stores, the issue of its products and the work between them, nested in
/// iterations of loops; products in flight are a track of their own. Times are microseconds from
/// the first sample. `buffer` is a copy of what launches wrote, 8-byte aligned.
/// Code::InvalidArgument: no kernel of the manifest has a timeline, or the buffer was not written
/// by one of them.
Result<std::string> timelineToJson(const Manifest &manifest, const void *buffer, size_t bytes);

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_TIMELINE_H
