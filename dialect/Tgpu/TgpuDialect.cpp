// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Registration of the tgpu dialect; attributes and types: assembly format and verification.

#include "base/Abi/TensorMapRank.h"
#include "base/Layout/WgmmaDescriptor.h"
#include "dialect/Tgpu/MatrixShape.h"
#include "dialect/Tgpu/TgpuVerify.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

#include "dialect/Tgpu/TgpuDialect.cpp.inc"
#include "dialect/Tgpu/TgpuEnums.cpp.inc"

/// 128x64xbf16
static ParseResult parseShapeAndElement(AsmParser &parser, SmallVector<int64_t> &shape,
                                        Type &elementType) {
  return failure(parser.parseDimensionList(shape, /*allowDynamic=*/false) ||
                 parser.parseType(elementType));
}
static void printShapeAndElement(AsmPrinter &printer, ArrayRef<int64_t> shape, Type elementType) {
  for (int64_t extent : shape)
    printer << extent << 'x';
  printer << elementType;
}

/// b128
static ParseResult parseSwizzle(AsmParser &parser, Swizzle &swizzle) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  if (succeeded(parser.parseOptionalKeyword(&word)))
    for (const layout::NamedSwizzle &each : layout::swizzleNames)
      if (StringRef(each.name) == word) {
        swizzle = each.swizzle;
        return success();
      }
  auto names = llvm::map_range(layout::swizzleNames, [](auto &each) { return each.name; });
  return parser.emitError(loc) << "a swizzle must be one of " << llvm::join(names, ", ")
                               << ", but got '" << word << "'";
}
static void printSwizzle(AsmPrinter &printer, Swizzle swizzle) {
  for (const layout::NamedSwizzle &each : layout::swizzleNames)
    if (each.swizzle == swizzle)
      printer << StringRef(each.name);
}

#define GET_ATTRDEF_CLASSES
#include "dialect/Tgpu/TgpuAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialect/Tgpu/TgpuTypes.cpp.inc"

void TgpuDialect::initialize() {
  registerTypes();
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "dialect/Tgpu/TgpuOps.cpp.inc"
      >();
}

void TgpuDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialect/Tgpu/TgpuTypes.cpp.inc"
      >();
}

void TgpuDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/Tgpu/TgpuAttrs.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

using EmitError = function_ref<InFlightDiagnostic()>;

LogicalResult MmaAttr::verify(EmitError emitError, int64_t warpsM, int64_t warpsN) {
  if (warpsM >= 1 && warpsN >= 1 && warpsM <= 32 && warpsN <= 32 && warpsM * warpsN <= 32)
    return success();
  return emitError() << "warps of an mma layout must be at least 1 and at most 32 in all, but got "
                     << warpsM << " by " << warpsN;
}

LogicalResult WgmmaAttr::verify(EmitError emitError, int64_t warpgroups, bool) {
  if (warpgroups >= 1 && warpgroups <= 8)
    return success();
  return emitError() << "a wgmma layout must have 1 to 8 warpgroups, but got " << warpgroups;
}

LogicalResult ScheduleAttr::verify(EmitError emitError, Skeleton skeleton, int64_t stages,
                                   int64_t inFlight, int64_t turns) {
  constexpr int64_t mostStages = 32, mostInFlight = 7;
  if (stages < 1 || stages > mostStages)
    return emitError() << "stages must be 1 to " << mostStages << " stages, but got " << stages;
  if (skeleton != Skeleton::Synchronous && stages < 2)
    return emitError() << "skeleton " << stringifySkeleton(skeleton)
                       << " needs at least 2 stages, but got " << stages;
  if (inFlight < 0 || inFlight > mostInFlight)
    return emitError() << "in_flight must be 0 to " << mostInFlight << ", but got " << inFlight;
  if (turns < 0 || turns > 2 || (turns == 2 && inFlight != 0))
    return emitError() << "turns must be 0 or 1, or 2 with in_flight 0, but got " << turns;
  return success();
}

LogicalResult RoleScheduleAttr::verify(EmitError emitError, int64_t loadRegisters,
                                       int64_t computeRegisters, int64_t group,
                                       int64_t storeBuffers, int64_t dynamic, int64_t tileStages,
                                       int64_t reduceStages, int64_t scratchStages,
                                       int64_t computeRoles, int64_t lateProducts,
                                       int64_t loadRoles) {
  constexpr int64_t fewest = Target::leastRoleRegisters, most = Target::mostRoleRegisters;
  constexpr int64_t unit = Target::roleRegisterUnit, mostBuffers = 8;
  for (int64_t registers : {loadRegisters, computeRegisters})
    if (registers < fewest || registers > most || registers % unit != 0)
      return emitError() << "registers of a role must be a multiple of " << unit << " from "
                         << fewest << " to " << most << ", but got " << registers;
  if (group < 0)
    return emitError() << "group must not be negative, but got " << group;
  if (storeBuffers < 0 || storeBuffers > mostBuffers)
    return emitError() << "store_buffers must be 0 to " << mostBuffers << " buffers, but got "
                       << storeBuffers;
  if (dynamic != 0 && (dynamic != 1 || group == 0))
    return emitError() << "dynamic must be 0, or 1 if group > 0, but got " << dynamic;
  constexpr int64_t mostTileStages = 2;
  if (tileStages < 1 || tileStages > mostTileStages)
    return emitError() << "tile_stages must be 1 or 2, but got " << tileStages;
  constexpr int64_t mostReduceStages = 4;
  if (reduceStages < 0 || reduceStages > mostReduceStages)
    return emitError() << "reduce_stages must be 0 to " << mostReduceStages << " buffers, but got "
                       << reduceStages;
  constexpr int64_t mostScratchStages = 2;
  if (scratchStages < 1 || scratchStages > mostScratchStages)
    return emitError() << "scratch_stages must be 1 or 2, but got " << scratchStages;
  constexpr int64_t mostComputeRoles = 2;
  if (computeRoles < 1 || computeRoles > mostComputeRoles)
    return emitError() << "compute_roles must be 1 or 2, but got " << computeRoles;
  if (lateProducts != 0 && (lateProducts != 1 || scratchStages < 2))
    return emitError() << "late_products must be 0, or 1 if scratch_stages is 2, but got "
                       << lateProducts;
  if (loadRoles != 1 && (loadRoles != 2 || dynamic == 0))
    return emitError() << "load_roles must be 1, or 2 if dynamic is 1, but got " << loadRoles
                       << "; use dynamic=1 for two";
  return success();
}

LogicalResult OperandAttr::verify(EmitError emitError, MatrixOperand operand, Attribute parent) {
  if (isa_and_nonnull<MmaAttr>(parent))
    return success();
  if (!isa_and_nonnull<WgmmaAttr>(parent))
    return emitError() << "the parent of an operand layout must be an mma or wgmma layout, but got "
                       << parent;
  if (operand == MatrixOperand::A)
    return success();
  return emitError()
         << "operand b of wgmma must be in shared memory, but got a register layout; use "
            "a shared buffer";
}

LogicalResult SliceAttr::verify(EmitError emitError, int64_t dim, Attribute parent) {
  if (dim != 0 && dim != 1)
    return emitError() << "a slice must remove dimension 0 or 1 of its parent, but got " << dim;
  if (parent && isLayout(parent) && !isa<SliceAttr>(parent))
    return success();
  return emitError() << "the parent of a slice must be a layout of rank 2, but got " << parent;
}

LogicalResult ByThreadAttr::verify(EmitError emitError, int64_t dim, Attribute parent) {
  if (dim != 0 && dim != 1)
    return emitError() << "by_thread must combine elements along dimension 0 or 1, but got " << dim;
  if (isa_and_nonnull<MmaAttr, WgmmaAttr>(parent))
    return success();
  return emitError() << "the parent of a by_thread layout must be an mma or wgmma layout, but got "
                     << parent;
}

LogicalResult BlockedAttr::verify(EmitError emitError, int64_t vector, int64_t lanes,
                                  int64_t warpsM, int64_t warpsN) {
  if (vector < 1 || vector > 16 || !llvm::isPowerOf2_64(vector))
    return emitError()
           << "a blocked layout must have a vector of 1, 2, 4, 8 or 16 elements, but got "
           << vector;
  if (lanes < 1 || lanes > 32 || !llvm::isPowerOf2_64(lanes))
    return emitError() << "a blocked layout must have 1, 2, 4, 8, 16 or 32 lanes along its last "
                          "dimension, but got "
                       << lanes;
  if (warpsM >= 1 && warpsN >= 1 && warpsM <= 32 && warpsN <= 32 && warpsM * warpsN <= 32)
    return success();
  return emitError() << "warps of a blocked layout must be at least 1 and at most 32 in all, but "
                        "got "
                     << warpsM << " by " << warpsN;
}

namespace tilewright::tgpu {

bool isLayout(Attribute attribute) {
  return isa_and_nonnull<MmaAttr, WgmmaAttr, OperandAttr, SliceAttr, ByThreadAttr, BlockedAttr>(
      attribute);
}

/// The units of the extents of a tile, in the two dimensions of a layout of rank 2.
static std::array<int64_t, 2> getUnits(Attribute layout, Type element) {
  if (auto mma = dyn_cast<MmaAttr>(layout))
    return {16 * mma.getWarpsM(), 8 * mma.getWarpsN()};
  if (auto wgmma = dyn_cast<WgmmaAttr>(layout))
    return {rowsOfWarpgroup * wgmma.getWarpgroups(), 8};
  if (auto blocked = dyn_cast<BlockedAttr>(layout))
    return {1, blocked.getVector()};
  auto operand = cast<OperandAttr>(layout);
  auto [rows, columns] = getUnits(operand.getParent(), element);
  int64_t depth = getInstructionDepth(element);
  return operand.getOperand() == MatrixOperand::A ? std::array{rows, depth}
                                                  : std::array{depth, columns};
}

/// The number of warps along the rows, and along the columns.
static std::array<int64_t, 2> getWarpGrid(Attribute matrixLayout) {
  if (auto wgmma = dyn_cast<WgmmaAttr>(matrixLayout))
    return {Target::warpsOfGroup * wgmma.getWarpgroups(), 1};
  auto mma = cast<MmaAttr>(matrixLayout);
  return {mma.getWarpsM(), mma.getWarpsN()};
}

SliceAttr getSlice(Attribute layout, int64_t dim) {
  if (auto wgmma = dyn_cast<WgmmaAttr>(layout); wgmma && dim == 0)
    layout = WgmmaAttr::get(layout.getContext(), wgmma.getWarpgroups(), /*rowPairs=*/false);
  return SliceAttr::get(layout.getContext(), dim, layout);
}

int64_t getThreadsAlong(Attribute matrixLayout, int64_t dim) {
  return (dim == 0 ? 8 : 4) * getWarpGrid(matrixLayout)[dim];
}

int64_t getThreadAlong(Attribute matrixLayout, int64_t dim, int64_t index) {
  int64_t warps = getWarpGrid(matrixLayout)[dim];
  auto wgmma = dyn_cast<WgmmaAttr>(matrixLayout);
  bool hasPairs = wgmma && wgmma.getRowPairs();
  return dim == 0 ? (hasPairs ? index / 2 : index) % 8 + 8 * (index / 16 % warps)
                  : index / 2 % 4 + 4 * (index / 8 % warps);
}

static bool fits(Attribute layout, RankedTensorType tile) {
  ArrayRef<int64_t> shape = tile.getShape();
  Type element = tile.getElementType();
  if (auto slice = dyn_cast<SliceAttr>(layout))
    return shape.size() == 1 &&
           shape.front() % getUnits(slice.getParent(), element)[1 - slice.getDim()] == 0;
  if (auto byThread = dyn_cast<ByThreadAttr>(layout)) {
    int64_t dim = byThread.getDim(), other = 1 - dim;
    return shape.size() == 2 && shape[dim] == getThreadsAlong(byThread.getParent(), dim) &&
           shape[other] % getUnits(byThread.getParent(), element)[other] == 0;
  }
  auto [rows, columns] = getUnits(layout, element);
  if (shape.size() == 1 && isa<BlockedAttr>(layout))
    return shape.front() % columns == 0;
  if (isa<OperandAttr>(layout) && getElementBits(element) > 32)
    return false;
  if (shape.size() < 2)
    return false;
  SmallVector<int64_t> matrix = getMatrixShape(shape);
  return matrix[0] % rows == 0 && matrix[1] % columns == 0;
}

bool isRegisterTile(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tile::isTile(type) && isLayout(tensor.getEncoding()) &&
         fits(tensor.getEncoding(), tensor);
}

int64_t getNumWarps(Attribute layout) {
  return llvm::TypeSwitch<Attribute, int64_t>(layout)
      .Case<MmaAttr>([](MmaAttr mma) { return mma.getWarpsM() * mma.getWarpsN(); })
      .Case<WgmmaAttr>([](WgmmaAttr wgmma) { return Target::warpsOfGroup * wgmma.getWarpgroups(); })
      .Case<OperandAttr, SliceAttr, ByThreadAttr>(
          [](auto child) { return getNumWarps(child.getParent()); })
      .Case<BlockedAttr>(
          [](BlockedAttr blocked) { return blocked.getWarpsM() * blocked.getWarpsN(); })
      .Default(int64_t(0));
}

int64_t getExecutingWarps(Operation *op) {
  for (; Operation *parent = op->getParentOp(); op = parent) {
    if (auto roles = dyn_cast<RolesOp>(parent))
      return roles.getWarps()[op->getParentRegion()->getRegionNumber()];
    if (auto kernel = dyn_cast<KernelOp>(parent))
      return kernel.getWarps();
  }
  return 0;
}

const Target &getTargetOf(KernelOp kernel) {
  const Target *target = Target::find(kernel.getTarget());
  assert(target && "the kernel is verified");
  return *target;
}

LogicalResult verifyFeature(Operation *op, Feature feature) {
  auto kernel = op->getParentOfType<KernelOp>();
  if (!kernel || getTargetOf(kernel).has(feature))
    return success();
  return op->emitOpError() << "needs target " << Target::getNamesWith(feature)
                           << ", but the kernel's is " << kernel.getTarget();
}

LogicalResult verifyWarps(Operation *op) {
  int64_t executing = getExecutingWarps(op);
  auto isSpread = [&](Type type) {
    if (auto pending = dyn_cast<PendingType>(type))
      type = pending.getTile();
    auto tile = dyn_cast<RankedTensorType>(type);
    return !executing || !tile || !isLayout(tile.getEncoding()) ||
           getNumWarps(tile.getEncoding()) == executing;
  };
  for (TypeRange types : {TypeRange(op->getOperandTypes()), TypeRange(op->getResultTypes())})
    for (Type type : types)
      if (!isSpread(type))
        return op->emitOpError() << "is executed by " << executing
                                 << " warps, over which its tiles must be distributed, but got "
                                 << type;
  return success();
}

int64_t getInstructionDepth(Type elementType) {
  // That of mma.sync is the same.
  return layout::wgmmaDepth(static_cast<int>(getElementBits(elementType)));
}

int64_t getElementBits(Type elementType) {
  if (elementType.isIndex())
    return 64;
  int64_t bits = elementType.getIntOrFloatBitWidth();
  return bits == 1 ? 8 : bits;
}

int64_t getBytes(SharedType type) {
  int64_t rows = type.getShape().size() == 2 ? type.getShape().front() : 1;
  int64_t rowBytes = getElementBits(type.getElementType()) / 8 * type.getShape().back();
  if (int64_t width = layout::panelBytes(type.getSwizzle()))
    rowBytes = llvm::alignTo(rowBytes, width);
  return rows * rowBytes;
}

int64_t getAlignment(SharedType type) { return layout::alignmentOf(type.getSwizzle()); }

RankedTensorType getTensorType(SharedType type) {
  return RankedTensorType::get(type.getShape(), type.getElementType());
}

} // namespace tilewright::tgpu

bool PlaceAttr::classof(Attribute value) {
  auto numbers = dyn_cast<DenseI64ArrayAttr>(value);
  return numbers && numbers.size() == 2;
}

LogicalResult TgpuDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  return verifyDiscardable(
      op, attribute, transposeFewRowsAttr, awaitsLaunchAttr, allowsLaunchAttr, allowsRunAttr,
      mostStagesAttr, transposedKeepAttr, copiedAttr, readOnceAttr, startsInsideAttr,
      specialCaseAttr, oneBeforeAttr, oneAfterAttr, eitherOrderAttr, scheduleAttr, roleScheduleAttr,
      ringStagesAttr, lendSlotAttr, keepInRegistersAttr, generalAttr, rareAttr, idleRoundsAttr,
      placeAttr, keepPlaceAttr, skipOnesAttr, asIntegersAttr, notesAttr, noRolesAttr,
      noRolesPlaceAttr, timelineAttr, warpsAttr, sharedBytesAttr, redundantAttr);
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

static LogicalResult verifyElements(EmitError emitError, Type elementType) {
  if (tile::isElementType(elementType) && !isa<tile::ParamType>(elementType))
    return success();
  return emitError() << "elements must be floats, i1, i8, i32 or i64, but got " << elementType;
}

LogicalResult SharedType::verify(EmitError emitError, ArrayRef<int64_t> shape, Type elementType,
                                 tgpu::Swizzle swizzle) {
  if (failed(verifyElements(emitError, elementType)))
    return failure();
  if (shape.empty() || shape.size() > 2)
    return emitError() << "a shared buffer must have rank 1 or 2, but got rank " << shape.size();
  // Also keeps products of extents small.
  const int64_t limit = Target::getMostShared();
  int64_t bytes = getElementBits(elementType) / 8;
  for (int64_t extent : shape) {
    if (extent < 1 || extent > limit)
      return emitError() << "an extent of a shared buffer must be 1 to " << limit << ", but got "
                         << extent;
    bytes *= extent;
    if (bytes > limit)
      return emitError() << "a shared buffer must have at most " << limit << " bytes, but got "
                         << bytes << (extent == shape.back() ? "" : " or more");
  }
  int64_t rowBytes = getElementBits(elementType) / 8 * shape.back();
  int64_t width = layout::panelBytes(swizzle);
  if (width && shape.size() != 2)
    return emitError() << "a buffer with a swizzle must have rank 2, but got rank " << shape.size();
  constexpr int64_t chunkBytes = 16; // unit that a swizzle permutes
  if (width && rowBytes % chunkBytes != 0)
    return emitError() << "rows of a swizzled buffer must be a multiple of " << chunkBytes
                       << " bytes, but got " << rowBytes << " bytes";
  return success();
}

LogicalResult RingType::verify(EmitError emitError, int64_t stages, SharedType) {
  if (stages >= 1 && stages <= 32)
    return success();
  return emitError() << "a ring must have 1 to 32 stages, but got " << stages;
}

LogicalResult BarriersType::verify(EmitError emitError, int64_t stages) {
  if (stages >= 1 && stages <= 32)
    return success();
  return emitError() << "barriers must have 1 to 32 stages, but got " << stages;
}

LogicalResult PendingType::verify(EmitError emitError, RankedTensorType tile) {
  if (isRegisterTile(tile) && isa<WgmmaAttr>(tile.getEncoding()))
    return success();
  return emitError() << "only a tile of a wgmma layout that fits its shape can be pending, but got "
                     << tile;
}

int64_t TensorMapType::getRowDim() {
  int64_t rank = static_cast<int64_t>(getBox().size());
  for (int64_t dim = rank - 2; dim >= 0; --dim)
    if (getBox()[dim] > 1)
      return dim;
  return std::max<int64_t>(rank - 2, 0);
}

bool TensorMapType::leavesOutFirst() {
  return isRagged() && TensorMapRank::leavesOutFirst(static_cast<int64_t>(getBox().size()));
}

LogicalResult TensorMapType::verify(EmitError emitError, ArrayRef<int64_t> box, Type elementType,
                                    tgpu::Swizzle swizzle, int64_t ragged) {
  if (failed(verifyElements(emitError, elementType)))
    return failure();
  if (box.empty() || static_cast<int64_t>(box.size()) > TensorMapRank::most)
    return emitError() << "a tensor map must have rank 1 to " << TensorMapRank::most
                       << ", but got rank " << box.size();
  for (int64_t extent : box)
    if (extent < 1 || extent > Target::mostBoxExtent)
      return emitError() << "an extent of a box must be 1 to " << Target::mostBoxExtent
                         << ", but got " << extent;
  int64_t rowBytes = box.back() * getElementBits(elementType) / 8;
  int64_t width = layout::panelBytes(swizzle);
  if (rowBytes % 16 != 0 || (width && rowBytes > width))
    return emitError() << "rows of a box must be a multiple of 16 bytes"
                       << (width ? " and fit the swizzle" : "") << ", but got " << rowBytes
                       << " bytes";
  if (ragged == -1)
    return success();
  int64_t rank = static_cast<int64_t>(box.size());
  if (ragged < 0 || ragged >= rank - 1)
    return emitError()
           << "a tensor map may be ragged along any dimension except the innermost, 0 to "
           << rank - 2 << ", but got " << ragged;
  constexpr int64_t mostRank = TensorMapRank::mostOfRaggedView;
  if (rank > mostRank)
    return emitError() << "a ragged tensor map must have rank 2 to " << mostRank
                       << ", but got rank " << rank;
  if (rank == mostRank && (ragged == 0 || box.front() != 1))
    return emitError() << "a ragged tensor map of rank " << mostRank
                       << " omits the first dimension, so it must not be ragged there and its box "
                          "must have 1 element there, but got ragged "
                       << ragged << " and " << box.front() << " elements";
  return success();
}
