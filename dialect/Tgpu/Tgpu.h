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

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_DIALECT_TGPU_TGPU_H
