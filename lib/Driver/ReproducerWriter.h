// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collects the inputs of a run into a reproducer.

#ifndef TILEWRIGHT_LIB_DRIVER_REPRODUCERWRITER_H
#define TILEWRIGHT_LIB_DRIVER_REPRODUCERWRITER_H

#include "lib/Driver/FileRun.h"
#include "lib/Driver/Reproducer.h"

namespace tilewright {

struct ReproducerRequest {
  FileRunRequest run;
  std::vector<std::pair<std::string, std::string>> params; ///< including those inferred from arrays
  std::string text;                                        ///< text of run.file
  std::string compare, tolerance;                          ///< as given on the command line
  bool embedsData = false; ///< include .npy files; without it, random numbers replace floats
};

/// The maximum size of the .npy files of a reproducer.
constexpr size_t mostReproducerData = size_t(1) << 20;

/// Files that run.file, the linked files and the sides of the comparison name by tile.link are
/// included if they exist; those of the compiler's library are not. Results go to /dev/null.
/// `replaced` gets the names of the arrays that random numbers replace. Errors: files that
/// cannot be read, more data than the most, an array of integers without `embedsData` that is too
/// large.
llvm::Expected<Reproducer> makeReproducer(const ReproducerRequest &request,
                                          std::vector<std::string> &replaced);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_DRIVER_REPRODUCERWRITER_H
