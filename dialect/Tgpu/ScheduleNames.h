// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The discardable attributes that record the decisions of tgpu-plan-schedule for later passes.

#ifndef TILEWRIGHT_DIALECT_TGPU_SCHEDULENAMES_H
#define TILEWRIGHT_DIALECT_TGPU_SCHEDULENAMES_H

#include "llvm/ADT/StringRef.h"

namespace tilewright::tgpu {

/// On a loop: a ScheduleAttr.
inline constexpr llvm::StringLiteral scheduleName = "tgpu.schedule";
/// On a kernel: a RoleScheduleAttr.
inline constexpr llvm::StringLiteral roleScheduleName = "tgpu.role_schedule";
/// On a tgpu.copy_async in a loop: the slots of its ring, if they differ from the loop's `stages`.
inline constexpr llvm::StringLiteral ringStagesName = "tgpu.ring_stages";
/// On a loop's tgpu.copy_async: after a tile's copies, the load role lends a slot of the ring to
/// the compute role, which stores its results through it.
inline constexpr llvm::StringLiteral lendSlotName = "tgpu.lend_slot";
/// Slots of a ring whose buffers are held during two iterations: one remains to copy into.
inline constexpr int64_t slotsOfTwoRounds = 3;
/// On a tgpu.read: hoist it out of the loops in which its buffer does not change.
inline constexpr llvm::StringLiteral keepName = "tgpu.keep_in_registers";

/// On a tile.load of a capture in a loop: it may be copied through shared memory.
inline constexpr llvm::StringLiteral copiedName = "tgpu.copied";
/// Schedule key: whether to mark such loads (tile-copy-captures).
inline constexpr llvm::StringLiteral copyCapturesKey = "copy_captures";
/// On a copy: no other instance of the kernel reads the same elements, as far as indices show.
inline constexpr llvm::StringLiteral readOnceName = "tgpu.read_once";
/// On a tile.kernel, by its author: tiles of fewer rows than wgmma multiplies are held transposed.
inline constexpr llvm::StringLiteral transposeFewRowsName = "tgpu.transpose_few_rows";
/// On a tile.for_blocks: its mask has a row for each position of the block.
inline constexpr llvm::StringLiteral transposedKeepName = "tgpu.transposed_keep";
/// On an access to a part of a view: its index along the part's dimension is not negative.
inline constexpr llvm::StringLiteral startsInsideName = "tgpu.starts_inside";
/// On an scf.if: its else branch is also valid where the condition is true.
inline constexpr llvm::StringLiteral specialCaseName = "tgpu.special_case";
/// On an scf.if whose condition is a range of iterations: in every launch at most one iteration
/// precedes the range. Also on the loop made of the iterations before the range.
inline constexpr llvm::StringLiteral oneBeforeName = "tgpu.one_before";
/// The same for the iterations after the range.
inline constexpr llvm::StringLiteral oneAfterName = "tgpu.one_after";
/// On a loop made of part of another loop's iterations: its body is valid for all of them.
inline constexpr llvm::StringLiteral generalName = "tgpu.general";
/// On a rarely executed loop: keep its code short.
inline constexpr llvm::StringLiteral rareName = "tgpu.rare";
/// On an operation of a loop: its stage, and its position in the order of an iteration.
inline constexpr llvm::StringLiteral placeName = "tgpu.place";
/// On an elementwise operation: code generation keeps it after the operations before it, including
/// products issued among them. On tgpu.take_turn in a loop: the same.
inline constexpr llvm::StringLiteral keepPlaceName = "tgpu.keep_place";
/// On the product of a tile, its first operand, and an expanded row that is one for most rows: a
/// warp all of whose rows have the factor one skips it.
inline constexpr llvm::StringLiteral skipOnesName = "tgpu.skip_ones";
/// On a maximum of f32 along the rows of a wgmma layout, whose NaNs are positive, as those of
/// products and sums are: threads compare the elements as integers.
inline constexpr llvm::StringLiteral asIntegersName = "tgpu.as_integers";
/// On a loop over the iterations that a warpgroup skips in the loop after it.
inline constexpr llvm::StringLiteral idleRoundsName = "tgpu.idle_rounds";
/// On a kernel: its last tiles may visit their blocks in another order than the others.
inline constexpr llvm::StringLiteral eitherOrderName = "tgpu.either_order";
/// Schedule key: whether to mark such products (tgpu-skip-ones).
inline constexpr llvm::StringLiteral skipOnesKey = "skip_ones";

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_DIALECT_TGPU_SCHEDULENAMES_H
