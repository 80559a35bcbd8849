// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How many registers the passes plan with: measured limits, each with its reason. The figures of a
// machine are in base/Target; RegisterPressure.h counts what tiles take.

#ifndef TILEWRIGHT_PASSES_TGPU_ANALYSIS_REGISTERLIMITS_H
#define TILEWRIGHT_PASSES_TGPU_ANALYSIS_REGISTERLIMITS_H

#include "base/Target/Target.h"

namespace tilewright::tgpu {

/// 32-bit registers of one thread, unless the comment says otherwise.
struct RegisterLimits {
  //===--- Kernels without roles -----------------------------------------------===//

  /// For tiles, of a thread's 255; the rest holds addresses, indices and operands in flight. A
  /// kernel with mma whose tiles need more gets more warps.
  static constexpr int64_t forTiles = 208;

  /// For tiles, if some can be read again instead of being kept: products then read operands in
  /// steps, and hold two steps in registers.
  static constexpr int64_t forKeeping = 184;

  /// A product by mma reads its operands in steps if the tiles at it take more than the first. All
  /// products of a kernel do if those at one product take more than the second. Both derive from
  /// the spills of ptxas 13.0 on this project's kernels and from their times on an H200.
  static constexpr int64_t stepAbove = 112, stepAllAbove = 136;

  /// For a kernel without products: ptxas needed up to this multiple of the registers of the live
  /// tiles, for masks, addresses and loads in flight, and did not spill then.
  static constexpr int64_t timesTilesOfRows = 2;
  /// The limit for such a kernel if possible: a multiprocessor then holds 16 warps. Otherwise, the
  /// maximum of a thread.
  static constexpr int64_t ofRows = 128, mostOfRows = Target::registersOfThread + 1;

  /// For indices of a kernel that loads its tiles once, with all loads in flight, and for the
  /// address of each view. At D 64 and 128, the first kernel of a backward then takes 39 and 61
  /// registers, and spills none.
  static constexpr int64_t besideLoads = 10, ofAddress = 2;

  //===--- Roles ----------------------------------------------------------------===//

  /// The registers of the load role. With fewer than the second, bounds of parts of views and
  /// nested loops spilled three to nine registers; the first suffices for other kernels with
  /// several products, whose compute roles need the rest.
  static constexpr int64_t ofLoadRole = 24, ofDeepLoadRole = 40;
  /// The role "spread" waits for memory with as many loads in flight as it has registers for: with
  /// the first number of registers, it holds the first number of elements of each tile (twice as
  /// fast: 1.18 of a causal backward at D 128, S 512), otherwise the second. It gets the first if
  /// the compute roles then have this many registers in addition to their tiles: at D 128 they
  /// spilled two, which cost half a percent, with fewer seven.
  static constexpr int64_t ofDeepSpreadRole = 56, ofDeepSpreadTile = 32, ofSpreadTile = 16;
  static constexpr int64_t besideTilesOfRoles = 16;
  /// The load role has 40 registers, not 24, if the compute roles then have this many in addition
  /// to their tiles: with 68, the forward of D 256 did not spill, with 56, two attentions of D 64
  /// did.
  static constexpr int64_t besideTilesOfLooseRoles = 64;
  /// It has the first number if the compute roles then have the second in addition to their tiles:
  /// numbers of eight pages, and what boxes of them need, spilled 60 bytes with 40.
  static constexpr int64_t ofRoomyLoadRole = 56, besideTilesOfRoomyRoles = 144;
  /// From this number of compute warps on, registers are so scarce that the load role gets the
  /// minimum.
  static constexpr int64_t warpsOfShortRegisters = 12;

  /// A role that takes tiles with fewer registers publishes only scalars that take few operations:
  /// with 24, a load role spilled 64 bytes for a window, whose full blocks take 86 operations. A
  /// causal mask takes 21, and the first iterations of three warpgroups 66.
  static constexpr int64_t toPublishAll = 32;
  static constexpr int64_t operationsOfFew = 64, operationsOfAll = 128;

  /// Values per row, one of each tile, that are read ahead for the next tile: they are live
  /// together with the results of the current one.
  static constexpr int64_t valuesReadAhead = 4;

  /// A tile is worth deferring to the next iteration from this size on: at 32 (D 64) it was not, at
  /// 64 and 128 it was.
  static constexpr int64_t ofDeferredTile = 64;

  /// Columns by which a product is computed that threads add to a sum: 32 registers, and
  /// instructions that last about as long as the addition of the columns before.
  static constexpr int64_t columnsOfTerm = 64;

  /// Elements of a row that is read as soon as its product is issued: 24 registers per thread if
  /// columns lie along it.
  static constexpr int64_t elementsOfEarlyRow = 96;

  /// Registers that a compute role needs in addition to the tiles of a loop, before loads may run
  /// ahead in the remaining ones.
  static constexpr int64_t forScalars = 28;

  /// Steps of wgmma in a loop from which on ptxas lacks registers for loop-invariant descriptors.
  /// It computes those of each step before the loop: those of operand a, which depend on the
  /// warpgroup, into two registers each. With 32 steps, dQ of D 256 spilled 512 bytes, and the
  /// forward moved 14 of 16 to uniform registers in every iteration.
  static constexpr int64_t stepsOfManyDescriptors = 12;
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_ANALYSIS_REGISTERLIMITS_H
