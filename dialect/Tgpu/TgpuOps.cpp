// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Directives of the assembly formats, and the generated definitions of the operations.

#include "dialect/Tgpu/TgpuParsing.h"

#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace tilewright::tgpu {

ParseResult parseSlotType(OpAsmParser &parser, Type &ring, Type &slot) {
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseType(ring))
    return failure();
  auto type = dyn_cast<RingType>(ring);
  if (!type)
    return parser.emitError(loc, "expected the type of a ring, but got ") << ring;
  slot = type.getSlot();
  return succeeded(parser.parseOptionalKeyword("as")) ? parser.parseType(slot) : success();
}
void printSlotType(OpAsmPrinter &printer, Operation *, Type ring, Type slot) {
  printer << ring;
  if (cast<RingType>(ring).getSlot() != slot)
    printer << " as " << slot;
}

ParseResult parseSameType(OpAsmParser &parser, Type &a, Type &b) {
  if (parser.parseType(a))
    return failure();
  b = a;
  return success();
}
void printSameType(OpAsmPrinter &printer, Operation *, Type a, Type) { printer << a; }

/// The type of a register tile, and what is pending on it; an error where none can be.
static ParseResult parsePending(OpAsmParser &parser, RankedTensorType &tile, Type &pending) {
  SMLoc loc = parser.getCurrentLocation();
  Type type;
  if (parser.parseType(type))
    return failure();
  tile = dyn_cast<RankedTensorType>(type);
  if (!tile)
    return parser.emitError(loc, "expected the type of a register tile, but got ") << type;
  pending =
      PendingType::getChecked([&] { return parser.emitError(loc); }, parser.getContext(), tile);
  return success(static_cast<bool>(pending));
}

ParseResult parsePendingTile(OpAsmParser &parser, Type &pending) {
  RankedTensorType tile;
  return parsePending(parser, tile, pending);
}
void printPendingTile(OpAsmPrinter &printer, Operation *, Type pending) {
  printer << cast<PendingType>(pending).getTile();
}

ParseResult parseWaitTypes(OpAsmParser &parser, SmallVectorImpl<Type> &pending,
                           SmallVectorImpl<Type> &tiles) {
  if (failed(parser.parseOptionalColon()))
    return success();
  return parser.parseCommaSeparatedList([&]() -> ParseResult {
    RankedTensorType tile;
    if (parsePending(parser, tile, pending.emplace_back()))
      return failure();
    tiles.push_back(tile);
    return success();
  });
}
void printWaitTypes(OpAsmPrinter &printer, Operation *, TypeRange, TypeRange tiles) {
  if (!tiles.empty())
    printer << ": " << tiles;
}

} // namespace tilewright::tgpu

#define GET_OP_CLASSES
#include "dialect/Tgpu/TgpuOps.cpp.inc"
