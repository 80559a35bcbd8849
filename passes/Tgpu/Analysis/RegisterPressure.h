// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The registers of a thread that tiles occupy: the only model of it. The limits are in
// RegisterLimits.h.

#ifndef TILEWRIGHT_PASSES_TGPU_ANALYSIS_REGISTERPRESSURE_H
#define TILEWRIGHT_PASSES_TGPU_ANALYSIS_REGISTERPRESSURE_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"

namespace tilewright::tgpu {

/// Whether a tile is recomputed at its uses and occupies no register: constants, positions and
/// expanded rows.
bool isMadeWhereUsed(mlir::Value value);

/// The registers of each of `threads` threads for a value of a mapped kernel, by its layout.
int64_t getRegistersOf(mlir::Type type, int64_t threads);

/// Called with each operation and the maximum of the registers that are live before and after it.
using PressureObserver = llvm::function_ref<void(mlir::Operation *, int64_t)>;

/// Counts the 32-bit registers of a thread that tiles occupy. Scalars, and tiles that are
/// recomputed at their uses, take none. The decisions that count differ in the location of operands
/// of products, and in the conditions under which their limits were measured; each has its own
/// function here.
class RegisterModel {
public:
  /// For the number of warps of a kernel that has no layouts yet (RegisterLimits::forTiles,
  /// ofRows). Tiles that are loaded only for products will be in shared memory. Rows, and parts of
  /// a register, are ignored: the limits leave room for them.
  static RegisterModel beforeMapping(int64_t threads) { return {Stage::BeforeMapping, threads}; }
  /// At the products of a mapped kernel (stepAbove). Operands of 16 bits are read by their product,
  /// few at a time; masks are predicates, one bit per element. Rows are ignored.
  static RegisterModel atProducts(int64_t threads) { return {Stage::AtProducts, threads}; }
  /// In a loop of a mapped kernel with reads that may be kept for all iterations (forKeeping): a
  /// read takes registers only if it is kept. Rows count.
  static RegisterModel besideReads(int64_t threads) { return {Stage::BesideReads, threads}; }

  /// The registers of a live value.
  int64_t getRegisters(mlir::Value value) const;
  /// The maximum in a block and its nested blocks, for values that it defines; a loop also keeps
  /// its carried values live until their last use in the body.
  int64_t getPressure(mlir::Block &block, PressureObserver observer = nullptr) const;

private:
  enum class Stage { BeforeMapping, AtProducts, BesideReads };
  RegisterModel(Stage stage, int64_t threads) : stage(stage), threads(threads) {}
  bool isOutsideRegisters(mlir::Value value) const;

  Stage stage;
  int64_t threads;
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_ANALYSIS_REGISTERPRESSURE_H
