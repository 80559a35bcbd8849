// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The discardable attributes by which tgpu-plan-schedule tells the passes that follow what to do.

#ifndef TILEWRIGHT_PASSES_TGPU_SCHEDULENAMES_H
#define TILEWRIGHT_PASSES_TGPU_SCHEDULENAMES_H

#include "llvm/ADT/StringRef.h"

namespace tilewright::tgpu {

/// On a loop: a ScheduleAttr.
inline constexpr llvm::StringLiteral scheduleName = "tgpu.schedule";
/// On a kernel: a RoleScheduleAttr.
inline constexpr llvm::StringLiteral roleScheduleName = "tgpu.role_schedule";
/// On a tgpu.copy_async in a loop: slots of its ring, where they are not the loop's `stages`.
inline constexpr llvm::StringLiteral ringStagesName = "tgpu.ring_stages";
/// On the tgpu.copy_async of a loop: when a tile's copies are made, the role that copies lends a
/// slot of their rings to the role that computes, whose results leave through it.
inline constexpr llvm::StringLiteral lendSlotName = "tgpu.lend_slot";
/// Slots of a ring whose buffers are held while two rounds run, so that one is left to copy into.
inline constexpr int64_t slotsOfTwoRounds = 3;
/// On a tgpu.read: it goes before the loops in which its buffer does not change.
inline constexpr llvm::StringLiteral keepName = "tgpu.keep_in_registers";

/// On a tile.load of a capture in a loop: it may be copied through shared memory.
inline constexpr llvm::StringLiteral copiedName = "tgpu.copied";
/// Key of a schedule: whether such loads are wanted (tile-copy-captures).
inline constexpr llvm::StringLiteral copyCapturesKey = "copy_captures";
/// On an access to a part of a view: along the dimension of the part its index is not negative.
inline constexpr llvm::StringLiteral startsInsideName = "tgpu.starts_inside";
/// On an scf.if: what stands in its else branch computes the same where the condition is true.
inline constexpr llvm::StringLiteral specialCaseName = "tgpu.special_case";
/// On an scf.if whose condition is a range of rounds: at most one round comes before the range, in
/// all launches. And on the loop made of those before it.
inline constexpr llvm::StringLiteral oneBeforeName = "tgpu.one_before";
/// The same of rounds behind the range.
inline constexpr llvm::StringLiteral oneAfterName = "tgpu.one_after";
/// On a loop made of a part of another's rounds: its body is right for all rounds of that.
inline constexpr llvm::StringLiteral generalName = "tgpu.general";
/// On a loop that hardly ever runs: it is kept short.
inline constexpr llvm::StringLiteral rareName = "tgpu.rare";
/// On an operation of a loop: the stage that it belongs to, and its place in the order of a round.
inline constexpr llvm::StringLiteral placeName = "tgpu.place";
/// On an elementwise operation: code generation keeps it behind what stands before it, products
/// that are issued among it.
inline constexpr llvm::StringLiteral keepPlaceName = "tgpu.keep_place";
/// On a product of a tile, its first operand, and an expanded row that is one for most rows: a warp
/// whose rows all have the factor one skips it.
inline constexpr llvm::StringLiteral skipOnesName = "tgpu.skip_ones";
/// On a loop over the rounds that a warpgroup leaves out of the loop behind it.
inline constexpr llvm::StringLiteral idleRoundsName = "tgpu.idle_rounds";
/// Key of a schedule: whether such products are marked (tgpu-skip-ones).
inline constexpr llvm::StringLiteral skipOnesKey = "skip_ones";

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_SCHEDULENAMES_H
