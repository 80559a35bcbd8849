// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The text of --compare: two runs that differ in the options of their sides.

#ifndef TILEWRIGHT_LIB_DRIVER_COMPARESIDES_H
#define TILEWRIGHT_LIB_DRIVER_COMPARESIDES_H

#include "lib/Driver/FileRun.h"

#include <array>

namespace tilewright {

struct ComparedSide {
  std::string text; ///< text of the option
  FileRunRequest request;
};

/// "SIDE,SIDE" with SIDE = "DEVICE[+NAME[=VALUE]]...". NAME is file, with, param, fast-math,
/// blocks, length, sums, target, schedule, warps or precision, and means the option of
/// tilewright-run with that name; file is another file to run. Options of a side take precedence
/// over the common ones: param and schedule replace the value of their key, with adds a file. Paths
/// may hold neither ',' nor '+'. Where one side computes in f64 and the other does not, the inputs
/// of both are rounded alike. Errors: another form.
llvm::Expected<std::array<ComparedSide, 2>> parseCompare(llvm::StringRef text,
                                                         const FileRunRequest &common);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_DRIVER_COMPARESIDES_H
