// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The shipped attention kernels on arrays in memory: what the demonstration and the benchmark run.
// An ordinary user of Compiler.h and CpuDevice.h; nothing else in lib knows what attention is.

#ifndef TILEWRIGHT_LIB_DRIVER_ATTENTIONRUN_H
#define TILEWRIGHT_LIB_DRIVER_ATTENTIONRUN_H

#include "lib/Driver/HostArray.h"
#include "lib/Interpreter/CpuDevice.h"
#include "lib/Numeric/ElementType.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tilewright {

struct AttentionConfig {
  int64_t B = 1, Hq = 1, Hkv = 1, Sq = 1, Skv = 1, D = 64, DV = 64;
  ElementType type = ElementType::F32;
  std::string causal = "none"; ///< none, top_left or bottom_right
  int64_t windowLeft = -1, windowRight = -1;
  double scale = 1.0;
  bool backward = false;
  std::vector<std::string> with;                           ///< paths below the kernels folder
  std::vector<std::pair<std::string, std::string>> params; ///< further parameters

  bool hasWindow() const { return windowLeft >= 0 || windowRight >= 0; }
  /// Pairs of a query and a key that CAUSAL and the window keep, over all heads.
  int64_t countPairs() const;
  /// Floating-point operations of the products over those pairs, two for a multiplication with its
  /// addition: Q K^T and P V, and five products in the backward.
  double countFlops() const;
};

/// A compiled kernel (or program) with its arguments.
class AttentionRun {
public:
  /// Compiles attention_forward.mlir or attention_backward.mlir and allocates row-major q, k, v, o
  /// and lse, and in the backward do, dlse, dq, dk and dv. Errors are the first diagnostic of the
  /// compiler.
  static llvm::Expected<std::unique_ptr<AttentionRun>> create(llvm::StringRef kernelsFolder,
                                                              const AttentionConfig &config);
  ~AttentionRun();

  /// Binds a capture: a scalar, or an f32 array.
  void capture(llvm::StringRef name, double value);
  llvm::Error capture(llvm::StringRef name, llvm::ArrayRef<int64_t> shape,
                      llvm::ArrayRef<double> values);

  /// Row-major elements of an array; writing rounds to its element type.
  void write(llvm::StringRef name, llvm::ArrayRef<double> values);
  std::vector<double> read(llvm::StringRef name) const;

  /// Seconds that it took.
  llvm::Expected<double> run(unsigned threads = 0);

private:
  struct Impl;
  explicit AttentionRun(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace tilewright

#endif // TILEWRIGHT_LIB_DRIVER_ATTENTIONRUN_H
