// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Binds .npy files and scalars to the arguments of an entry, and writes its results back to files.

#ifndef TILEWRIGHT_LIB_DRIVER_NPYBINDING_H
#define TILEWRIGHT_LIB_DRIVER_NPYBINDING_H

#include "lib/Driver/BindingOptions.h"
#include "lib/Driver/Compiler.h"
#include "lib/Driver/HostArray.h"
#include "lib/Interpreter/CpuDevice.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

#include <vector>

namespace tilewright {

class NpyBinding {
public:
  /// Checks the request against the arguments, reads the files and lays the arrays out in memory.
  /// Rejected: names that are no arguments or occur twice, arguments that are missing, views given
  /// as scalars and the reverse, element types, ranks and extents other than the view's, files that
  /// do not convert, strides that HostArray rejects, scalars that are no value of their type,
  /// results of captures, and two results in one file. Everything the request names is reported by
  /// its name. `explainAbsent` says why there is no argument of a name, or nothing.
  static llvm::Expected<NpyBinding>
  create(llvm::ArrayRef<ArgumentInfo> arguments, const BindingRequest &request,
         llvm::function_ref<std::string(llvm::StringRef)> explainAbsent = nullptr);

  /// The arguments for the device; valid during the lifetime of this object.
  const llvm::StringMap<Argument> &getArguments() const { return arguments; }

  /// Restores the initial contents of every array that a run may have changed.
  void reset();

  /// The arrays that have a result file, in the order of the request.
  struct ResultArray {
    llvm::StringRef name;
    const HostArray &memory;
  };
  std::vector<ResultArray> getResults() const;

  /// Writes the results. Errors: the run wrote memory between the elements of an array.
  llvm::Error writeResults() const;
  /// Only the check.
  llvm::Error checkGaps() const;

private:
  struct BoundArray {
    std::string name, output;
    ElementType type;
    HostArray memory;
    std::vector<uint8_t> initial; ///< dense elements; empty: poison
  };
  /// Checks shape and type against the view, then reads the file and lays out the array.
  llvm::Error bindArray(const ArgumentInfo &argument, const ArrayRequest &request,
                        llvm::ArrayRef<int64_t> strides, const BindingRequest &all);
  llvm::Error bindScalar(const ArgumentInfo &argument, llvm::StringRef text,
                         const BindingRequest &all);

  llvm::StringMap<Argument> arguments;
  std::vector<BoundArray> arrays;
};

} // namespace tilewright

#endif // TILEWRIGHT_LIB_DRIVER_NPYBINDING_H
