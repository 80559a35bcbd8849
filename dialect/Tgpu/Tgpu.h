// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tgpu dialect: layouts, shared memory, barriers, asynchronous copies and matrix instructions.

#ifndef TILEWRIGHT_DIALECT_TGPU_TGPU_H
#define TILEWRIGHT_DIALECT_TGPU_TGPU_H

#include "base/Layout/Swizzle.h"
#include "base/Target/Target.h"
#include "dialect/Tile/Tile.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialect/Tgpu/TgpuDialect.h.inc"
#include "dialect/Tgpu/TgpuEnums.h.inc"

namespace tilewright::tgpu {

using layout::Swizzle;

// The resources of memory effects. Operations of other dialects on views (tile.at) have effects on
// the default resource, which aliases all memory.

struct SharedMemoryResource : mlir::SideEffects::Resource::Base<SharedMemoryResource> {
  llvm::StringRef getName() final { return "SharedMemory"; }
};

struct GlobalMemoryResource : mlir::SideEffects::Resource::Base<GlobalMemoryResource> {
  llvm::StringRef getName() final { return "GlobalMemory"; }
};

/// Phases of mbarriers, named barriers, and turns.
struct BarrierResource : mlir::SideEffects::Resource::Base<BarrierResource> {
  llvm::StringRef getName() final { return "Barriers"; }
};

} // namespace tilewright::tgpu

#define GET_ATTRDEF_CLASSES
#include "dialect/Tgpu/TgpuAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialect/Tgpu/TgpuTypes.h.inc"

#define GET_OP_CLASSES
#include "dialect/Tgpu/TgpuOps.h.inc"

namespace tilewright::tgpu {

/// One of the layout attributes.
bool isLayout(mlir::Attribute attribute);
/// A ranked tensor of static shape whose encoding is a layout.
bool isRegisterTile(mlir::Type type);
/// Warps over which a layout spreads a tile.
int64_t getNumWarps(mlir::Attribute layout);

/// Threads that share a row (`dim` 1) or column (`dim` 0) of an mma or wgmma layout, and which of
/// them, as #tgpu.by_thread counts them, holds the element `index` of it.
int64_t getThreadsAlong(mlir::Attribute matrixLayout, int64_t dim);
int64_t getThreadAlong(mlir::Attribute matrixLayout, int64_t dim, int64_t index);

/// The layout of what remains of a tile without dimension `dim`. Columns do not depend on the order
/// of rows.
SliceAttr getSlice(mlir::Attribute layout, int64_t dim);

/// The target of the kernel. Precondition: the kernel is verified.
const Target &getTargetOf(KernelOp kernel);

/// Warps that execute an operation: of its role, or of the block; 0 outside of a kernel.
int64_t getExecutingWarps(mlir::Operation *op);

/// Rows of a block of a wgmma product, which the four warps of a warpgroup hold; base/Layout
/// defines which warp holds which.
inline constexpr int64_t rowsOfWarpgroup = 64;

/// Elements along k that one matrix instruction multiplies: 32 bytes of an operand.
int64_t getInstructionDepth(mlir::Type elementType);

/// Whether the operation is a copy to memory of which each warpgroup makes its part.
bool isCopyPerWarpgroup(mlir::Operation *op);

/// Hardware barriers, of the Target::namedBarriers of a block, that an operation declares: one or
/// more of tgpu.named_barrier and tgpu.turns, numbered from its `id` on; 0 of others.
int64_t getNumHardwareBarriers(mlir::Operation *op);
/// The `id` of an operation that declares hardware barriers; none before it is assigned.
std::optional<int64_t> getFirstHardwareBarrier(mlir::Operation *op);
void setFirstHardwareBarrier(mlir::Operation *op, int64_t id);

/// Bits of one element in memory; i1 takes a byte.
int64_t getElementBits(mlir::Type elementType);
/// Bytes of one buffer, without padding for alignment.
int64_t getBytes(SharedType type);
/// The alignment that the swizzle requires of a buffer.
int64_t getAlignment(SharedType type);
/// Whether the first of the indices of an access is the constant 0.
bool startsWithZero(mlir::ValueRange indices, llvm::ArrayRef<int64_t> staticIndices);
/// A tensor of the buffer's shape and elements, without a layout.
mlir::RankedTensorType getTensorType(SharedType type);

// All discardable attributes of the dialect, mostly what a pass decides for later ones:

/// By an author: tiles of fewer rows than wgmma multiplies are held transposed.
inline constexpr UnitMark<tile::KernelOp> transposeFewRowsAttr{"tgpu.transpose_few_rows"};
/// Other launches of a program, or by an author other runs, come before the kernel's, which may
/// start while the last of them runs: the kernel waits for its end before it accesses global
/// memory.
inline constexpr UnitMark<tile::KernelOp, KernelOp> awaitsLaunchAttr{"tgpu.awaits_launch"};
/// Other launches of a program follow the kernel's. The next one may start as soon as all blocks of
/// the kernel have, and the launch that the kernel awaits has ended.
inline constexpr UnitMark<tile::KernelOp, KernelOp> allowsLaunchAttr{"tgpu.allows_launch"};
/// The kernel's launch is the last of a run. The next run may start as soon as all blocks of the
/// kernel have.
inline constexpr UnitMark<tile::KernelOp, KernelOp> allowsRunAttr{"tgpu.allows_run"};
/// The rings of the kernel's loops have at most this many slots, though more fit.
inline constexpr DiscardableAttr<I64Attr, tile::KernelOp, KernelOp> mostStagesAttr{
    "tgpu.most_stages"};
/// The mask is held transposed: [positions of the block, fixed positions].
inline constexpr UnitMark<tile::ForBlocksOp> transposedKeepAttr{"tgpu.transposed_keep"};
/// The tile may be copied through shared memory.
inline constexpr UnitMark<tile::LoadOp> copiedAttr{"tgpu.copied"};
/// No other instance of the kernel reads the same elements, as far as indices show.
inline constexpr UnitMark<CopyAsyncOp, TmaLoadOp> readOnceAttr{"tgpu.read_once"};
/// Of an access to a part of a view, the index along the part's dimension is not negative.
inline constexpr UnitMark<CopyAsyncOp, StoreOp, AtomicAddOp> startsInsideAttr{"tgpu.starts_inside"};
/// The else branch is also valid where the condition is true.
inline constexpr UnitMark<mlir::scf::IfOp> specialCaseAttr{"tgpu.special_case"};
/// Of a branch whose condition is a range of iterations: in every launch at most one iteration
/// precedes the range. Also on the loop made of the iterations before the range.
inline constexpr UnitMark<mlir::scf::IfOp, mlir::scf::ForOp> oneBeforeAttr{"tgpu.one_before"};
/// The same for the iterations after the range.
inline constexpr UnitMark<mlir::scf::IfOp, mlir::scf::ForOp> oneAfterAttr{"tgpu.one_after"};
/// The last tiles of the kernel may visit their blocks in another order than the others.
inline constexpr UnitMark<KernelOp> eitherOrderAttr{"tgpu.either_order"};

/// What tgpu-plan-schedule decides, unless an author has set it.
inline constexpr DiscardableAttr<ScheduleAttr, mlir::scf::ForOp, tile::LoopOp> scheduleAttr{
    "tgpu.schedule"};
inline constexpr DiscardableAttr<RoleScheduleAttr, KernelOp> roleScheduleAttr{"tgpu.role_schedule"};
/// The slots of a ring: of that of a tgpu.copy_async in a loop, if they differ from the loop's
/// `stages`, or of that by which a role hands the operation's result to another.
inline constexpr DiscardableAttr<I64Attr> ringStagesAttr{"tgpu.ring_stages"};
/// After a tile's copies, the load role lends a slot of the ring to the compute role, which stores
/// its results through it.
inline constexpr UnitMark<CopyAsyncOp> lendSlotAttr{"tgpu.lend_slot"};
/// Hoist the read out of the loops in which its buffer does not change.
inline constexpr UnitMark<ReadOp> keepInRegistersAttr{"tgpu.keep_in_registers"};

/// Of a loop made of part of another loop's iterations: its body is valid for all of them.
inline constexpr UnitMark<mlir::scf::ForOp> generalAttr{"tgpu.general"};
/// The loop is rarely executed: keep its code short.
inline constexpr UnitMark<mlir::scf::ForOp> rareAttr{"tgpu.rare"};
/// The loop is over the iterations that a warpgroup skips in the loop after it.
inline constexpr UnitMark<mlir::scf::ForOp> idleRoundsAttr{"tgpu.idle_rounds"};
/// Two numbers.
struct PlaceAttr : I64sAttr {
  using I64sAttr::I64sAttr;
  static constexpr llvm::StringLiteral name = "array<i64: STAGE, ORDER>";
  static bool classof(mlir::Attribute value);
};
/// Of an operation of a loop: its stage, and its position in the order of an iteration.
inline constexpr DiscardableAttr<PlaceAttr> placeAttr{"tgpu.place"};
/// Code generation keeps the operation, elementwise or the tgpu.take_turn of a loop, after the
/// operations before it, including products issued among them.
inline constexpr UnitMark<> keepPlaceAttr{"tgpu.keep_place"};

/// Of the product of a tile, its first operand, and an expanded row that is one for most rows: a
/// warp all of whose rows have the factor one skips it.
inline constexpr UnitMark<mlir::arith::MulFOp> skipOnesAttr{"tgpu.skip_ones"};
/// Of a maximum of f32 along the rows of a wgmma layout, whose NaNs are positive, as those of
/// products and sums are: threads compare the elements as integers.
inline constexpr UnitMark<tile::ReduceOp> asIntegersAttr{"tgpu.as_integers"};

/// Why the kernel is slower than its target allows, each "what: why (place)".
inline constexpr DiscardableAttr<StringsAttr, tile::KernelOp, KernelOp> notesAttr{"tgpu.notes"};
/// Why a kernel has no roles, although its target has them.
inline constexpr DiscardableAttr<mlir::StringAttr, KernelOp> noRolesAttr{"tgpu.no_roles"};
/// In addition: the place of the operation that prevents roles.
inline constexpr DiscardableAttr<mlir::StringAttr, KernelOp> noRolesPlaceAttr{
    "tgpu.no_roles_place"};
/// Words of a chunk of the kernel's timeline, its last argument: see base/Abi/TimelineFormat.h.
inline constexpr DiscardableAttr<I64Attr, KernelOp> timelineAttr{"tgpu.timeline"};
/// Properties of a mapped kernel that the tile.kernel lacks as which it is interpreted.
inline constexpr DiscardableAttr<I64Attr, tile::KernelOp> warpsAttr{"tgpu.warps"};
inline constexpr DiscardableAttr<I64Attr, tile::KernelOp> sharedBytesAttr{"tgpu.shared_bytes"};
/// The proof that a kernel is right without the operation.
inline constexpr DiscardableAttr<mlir::StringAttr> redundantAttr{"tgpu.redundant"};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_DIALECT_TGPU_TGPU_H
