// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One entry of a file, compiled, with row-major arrays for its arguments: what the demonstration
// and the benchmark run.

#ifndef TILEWRIGHT_LIB_DRIVER_KERNELRUN_H
#define TILEWRIGHT_LIB_DRIVER_KERNELRUN_H

#include "lib/Driver/HostArray.h"
#include "lib/Interpreter/CpuDevice.h"
#include "passes/Pipelines/Pipelines.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <vector>

namespace mlir {
class Operation;
} // namespace mlir

namespace tilewright {

class KernelRun {
public:
  struct Array {
    std::string name;
    ElementType type;
    std::vector<int64_t> shape;
  };
  struct Request {
    std::string file;
    TilePipelineOptions options;
    std::vector<Array> arrays;
    std::vector<std::pair<std::string, Argument>> scalars;
  };

  /// Errors are the first diagnostic of the compiler.
  static llvm::Expected<std::unique_ptr<KernelRun>> create(const Request &request);
  ~KernelRun();

  /// Binds a capture: a scalar, or an f32 array.
  void capture(llvm::StringRef name, double value);
  llvm::Error capture(llvm::StringRef name, llvm::ArrayRef<int64_t> shape,
                      llvm::ArrayRef<double> values);

  /// Row-major elements of an array; writing rounds to its element type.
  void write(llvm::StringRef name, llvm::ArrayRef<double> values);
  std::vector<double> read(llvm::StringRef name) const;

  /// For other devices: the compiled entry, and its arguments.
  mlir::Operation *getEntry() const;
  const llvm::StringMap<Argument> &getArguments() const;
  /// The first error of the compiler since the last call, else `fallback`.
  llvm::Error takeError(llvm::StringRef fallback);

  /// Runs on the CPU. Returns the seconds that it took.
  llvm::Expected<double> run(unsigned threads = 0);

private:
  struct Impl;
  explicit KernelRun(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace tilewright

#endif // TILEWRIGHT_LIB_DRIVER_KERNELRUN_H
