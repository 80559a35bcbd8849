// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs the shipped kernels of attention and of the matrix product on arrays in memory, for the
// demonstration and the benchmark. A user of KernelRun.h; no other code in lib is specific to
// attention.

#ifndef TILEWRIGHT_LIB_DRIVER_ATTENTIONRUN_H
#define TILEWRIGHT_LIB_DRIVER_ATTENTIONRUN_H

#include "base/Numeric/ElementType.h"
#include "lib/Driver/KernelRun.h"

#include <utility>

namespace tilewright {

struct AttentionConfig {
  int64_t B = 1, Hq = 1, Hkv = 1, Sq = 1, Skv = 1, D = 64, DV = 64;
  ElementType type = ElementType::F32;
  std::string causal = "none"; ///< none, top_left or bottom_right
  int64_t windowLeft = -1, windowRight = -1;
  double scale = 1.0;
  bool backward = false;
  std::vector<std::string> with;                           ///< paths relative to the kernels folder
  std::vector<std::pair<std::string, std::string>> params; ///< additional parameters
  std::string target = "cpu";                              ///< TilePipelineOptions::target

  bool hasWindow() const { return windowLeft >= 0 || windowRight >= 0; }
  /// The number of pairs of a query and a key that CAUSAL and the window keep, over all heads.
  int64_t countPairs() const;
  /// Floating-point operations of the products over those pairs, two for a multiplication with its
  /// addition: Q K^T and P V, and five products in the backward.
  double countFlops() const;
};

/// Compiles attention_forward.mlir or attention_backward.mlir and allocates row-major q, k, v, o
/// and lse, and in the backward do, dlse, dq, dk and dv. Errors are the first diagnostic of the
/// compiler.
llvm::Expected<std::unique_ptr<KernelRun>> createAttention(llvm::StringRef kernelsFolder,
                                                           const AttentionConfig &config);

struct MatmulConfig {
  int64_t M = 1, N = 1, K = 1;
  ElementType type = ElementType::F32;
  std::vector<std::pair<std::string, std::string>> params; ///< additional parameters
  std::string target = "cpu";                              ///< TilePipelineOptions::target

  double countFlops() const { return 2.0 * M * N * K; }
};

/// Compiles matmul.mlir and allocates row-major a, b and c; alpha is 1. Errors are the first
/// diagnostic of the compiler.
llvm::Expected<std::unique_ptr<KernelRun>> createMatmul(llvm::StringRef kernelsFolder,
                                                        const MatmulConfig &config);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_DRIVER_ATTENTIONRUN_H
