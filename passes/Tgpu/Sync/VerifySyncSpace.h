// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-verify-sync: what the launches of a kernel have in common, from its program and constraints
// (VerifySyncSearch.cpp). One launch follows from it and a list of numbers (VerifySyncDerive.cpp).

#ifndef TILEWRIGHT_PASSES_TGPU_SYNC_VERIFYSYNCSPACE_H
#define TILEWRIGHT_PASSES_TGPU_SYNC_VERIFYSYNCSPACE_H

#include "passes/Tgpu/Sync/VerifySync.h"

#include "dialect/Tile/TileExpr.h"

#include "llvm/ADT/EquivalenceClasses.h"

#include <map>

namespace tilewright::tgpu::sync {

/// For each set of genes, the blocks that are traced.
constexpr int kBlocksOfLaunch = 2;
/// The first genes: the answer of conditions on data, the number of multiprocessors, the launch of
/// the program, which optional arguments are absent, and one gene for each traced block.
constexpr size_t kFirstGenes = 4 + kBlocksOfLaunch;

/// An extent: an argument (of the kernel or of its program) or capture, by name, and a dimension.
using Extent = std::pair<llvm::StringRef, int64_t>;

struct LaunchSpace::Impl {
  explicit Impl(KernelOp kernel);

  struct Variable {
    bool hasTiles = false;
    TilesOfDim tiles;
  };
  struct Array {
    llvm::StringRef name;
    llvm::SmallVector<int64_t, 4> variables; // or -1 for a known extent
    llvm::SmallVector<int64_t, 4> known;
    bool isOptional = false;
  };
  struct TableOf {
    mlir::Value argument;
    llvm::StringRef capture;
    size_t rank = 0;
    bool isNumber = false; ///< as findNumbers says
  };

  void addArray(llvm::StringRef name, mlir::Type type, bool isOptional);
  void readConstraints(mlir::ArrayAttr constraints);
  void equateExtents(const tile::Signature &signature);
  int64_t getVariable(const Extent &extent);
  const Array *findArray(llvm::StringRef name) const;

  KernelOp kernel;
  mlir::Operation *root; // the program that launches the kernel, or the kernel
  llvm::SmallVector<tile::LaunchOp> launches;
  std::vector<Array> arrays; // of the root, then captures
  size_t numArguments = 0;
  std::vector<llvm::StringRef> integers;
  std::vector<TableOf> tables;
  std::vector<Variable> variables;
  llvm::EquivalenceClasses<Extent> equal;
  std::map<Extent, int64_t> variableOf; // by leader
  std::vector<std::pair<Extent, tile::ExprAttr>> equations;
  llvm::SmallVector<tile::ExprAttr> conditions;         // of the root
  llvm::SmallVector<tile::ExprAttr> conditionsOfKernel; // if the root is a program
  TilesOfDim tiles;                                     // of all dimensions
};

} // namespace tilewright::tgpu::sync

#endif // TILEWRIGHT_PASSES_TGPU_SYNC_VERIFYSYNCSPACE_H
