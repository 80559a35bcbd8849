// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What tiles occupy of the registers of a thread: the one model of it. What they may occupy is in
// RegisterLimits.h.

#ifndef TILEWRIGHT_PASSES_TGPU_REGISTERPRESSURE_H
#define TILEWRIGHT_PASSES_TGPU_REGISTERPRESSURE_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"

namespace tilewright::tgpu {

/// Whether a tile is recomputed at its uses and occupies no register: constants, positions and
/// expanded rows.
bool isMadeWhereUsed(mlir::Value value);

/// The registers of each of `threads` threads for a value of a mapped kernel, by its layout.
int64_t getRegistersOf(mlir::Type type, int64_t threads);

/// Called with each operation and the registers that are live just before or after it, whichever is
/// more.
using PressureObserver = llvm::function_ref<void(mlir::Operation *, int64_t)>;

/// Counts the 32-bit registers of a thread that tiles occupy. Scalars, and tiles that are made
/// where they are used, take none. The decisions that count differ in where operands of products
/// are, and in what their limits were measured with; each has its own function here.
class RegisterModel {
public:
  /// For the number of warps of a kernel that has no layouts yet (RegisterLimits::forTiles,
  /// ofRows). Tiles that are loaded for products alone will be in shared memory. Rows are left out,
  /// and so are parts of a register: they are within what the limits leave.
  static RegisterModel beforeMapping(int64_t threads) { return {Stage::BeforeMapping, threads}; }
  /// At the products of a mapped kernel (stepAbove). Operands of 16 bits are read by their product,
  /// few at a time; masks are predicates, a bit for each element. Rows are left out.
  static RegisterModel atProducts(int64_t threads) { return {Stage::AtProducts, threads}; }
  /// In a loop of a mapped kernel where reads may be kept for all iterations (forKeeping): what is
  /// read takes registers only if it is kept. Rows count.
  static RegisterModel besideReads(int64_t threads) { return {Stage::BesideReads, threads}; }

  /// Of a value while it is live.
  int64_t getRegisters(mlir::Value value) const;
  /// The maximum in a block and what it contains, of values that it defines; a loop also keeps the
  /// values that it carries live until their last use in the body.
  int64_t getPressure(mlir::Block &block, PressureObserver observer = nullptr) const;

private:
  enum class Stage { BeforeMapping, AtProducts, BesideReads };
  RegisterModel(Stage stage, int64_t threads) : stage(stage), threads(threads) {}
  bool isOutsideRegisters(mlir::Value value) const;

  Stage stage;
  int64_t threads;
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_REGISTERPRESSURE_H
