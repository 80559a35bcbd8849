// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Small pieces of code: constants, intrinsics, and where the elements of a thread lie.

#include "passes/Conversion/KernelEmitter.h"

#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using layout::Coord;
using layout::Digit;
using layout::RegisterLayout;

//===----------------------------------------------------------------------===//
// Constants and arithmetic
//===----------------------------------------------------------------------===//

/// Constants are shared by the whole kernel.
Value KernelEmitter::constant(TypedAttr value) {
  Value &known = constants[value];
  if (!known) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(endOfEntry);
    known = arith::ConstantOp::create(b, value);
  }
  return known;
}
Value KernelEmitter::i32(int64_t value) {
  return constant(b.getI32IntegerAttr(static_cast<int32_t>(value)));
}
Value KernelEmitter::i64(int64_t value) { return constant(b.getI64IntegerAttr(value)); }
Value KernelEmitter::zero(Type type) { return constant(b.getZeroAttr(type)); }

static std::optional<int64_t> getConstant(Value value) {
  if (auto op = value.getDefiningOp<arith::ConstantOp>())
    if (auto integer = dyn_cast<IntegerAttr>(op.getValue()))
      return integer.getInt();
  return std::nullopt;
}

Value KernelEmitter::add(Value a, Value b2) {
  std::optional<int64_t> ca = getConstant(a), cb = getConstant(b2);
  if (ca == 0)
    return b2;
  if (cb == 0)
    return a;
  if (ca && cb)
    return a.getType().isInteger(32) ? i32(*ca + *cb) : i64(*ca + *cb);
  return arith::AddIOp::create(b, a, b2);
}
Value KernelEmitter::mul(Value a, Value b2) {
  std::optional<int64_t> ca = getConstant(a), cb = getConstant(b2);
  if (ca == 1 || cb == 0)
    return b2;
  if (cb == 1 || ca == 0)
    return a;
  if (ca && cb)
    return a.getType().isInteger(32) ? i32(*ca * *cb) : i64(*ca * *cb);
  return arith::MulIOp::create(b, a, b2);
}
Value KernelEmitter::conjunction(Value a, Value b2) {
  if (!a || !b2)
    return a ? a : b2;
  return arith::AndIOp::create(b, a, b2);
}
Value KernelEmitter::less(Value a, Value b2) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, a, b2);
}
Value KernelEmitter::toI64(Value a) {
  if (a.getType().isInteger(64))
    return a;
  if (std::optional<int64_t> known = getConstant(a))
    return i64(*known);
  return arith::ExtSIOp::create(b, b.getI64Type(), a);
}
Value KernelEmitter::toU64(Value a) {
  if (a.getType().isInteger(64))
    return a;
  if (std::optional<int64_t> known = getConstant(a))
    return i64(static_cast<uint32_t>(*known));
  return arith::ExtUIOp::create(b, b.getI64Type(), a);
}
Value KernelEmitter::bitcast(Value value, Type type) {
  return value.getType() == type ? value : LLVM::BitcastOp::create(b, type, value).getResult();
}

//===----------------------------------------------------------------------===//
// LLVM operations
//===----------------------------------------------------------------------===//

Value KernelEmitter::advance(Value pointer, Value bytes) {
  if (getConstant(bytes) == 0)
    return pointer;
  return LLVM::GEPOp::create(b, pointer.getType(), b.getI8Type(), pointer,
                             ArrayRef<LLVM::GEPArg>{bytes});
}
Value KernelEmitter::advance(Value pointer, int64_t bytes) {
  return bytes ? advance(pointer, i64(bytes)) : pointer;
}
Value KernelEmitter::intrinsic(StringRef name, Type result, ValueRange operands) {
  return LLVM::CallIntrinsicOp::create(b, result, b.getStringAttr(name), operands).getResult(0);
}
void KernelEmitter::intrinsic(StringRef name, ValueRange operands) {
  LLVM::CallIntrinsicOp::create(b, b.getStringAttr(name), operands);
}
Value KernelEmitter::inlineAsm(StringRef text, StringRef constraints, Type result,
                               ValueRange operands) {
  auto op = LLVM::InlineAsmOp::create(
      b, result ? TypeRange(result) : TypeRange(), operands, text, constraints,
      /*has_side_effects=*/true, /*is_align_stack=*/false, LLVM::TailCallKind::None,
      LLVM::AsmDialectAttr(), ArrayAttr());
  return result ? op.getResult(0) : Value();
}
Value KernelEmitter::vectorOf(ArrayRef<Value> elements) {
  auto type = VectorType::get(static_cast<int64_t>(elements.size()), elements.front().getType());
  Value vector = LLVM::PoisonOp::create(b, type);
  for (auto [i, element] : llvm::enumerate(elements))
    vector = LLVM::InsertElementOp::create(b, vector, element, i32(i));
  return vector;
}
Value KernelEmitter::extract(Value aggregate, int64_t index) {
  if (isa<VectorType>(aggregate.getType()))
    return LLVM::ExtractElementOp::create(b, aggregate, i32(index));
  return LLVM::ExtractValueOp::create(b, aggregate, ArrayRef<int64_t>{index});
}
void KernelEmitter::endScheduling() {
  // ptxas moves no instruction across a performance event (number 0, which users may count as
  // well); it is one instruction and does not wait. Warp barriers do not have this effect.
  intrinsic("llvm.nvvm.pm.event.mask", constant(b.getI16IntegerAttr(1)));
}
void KernelEmitter::barrier() {
  if (!role)
    return intrinsic("llvm.nvvm.barrier.cta.sync.aligned.all", i32(0));
  intrinsic("llvm.nvvm.barrier.cta.sync.aligned.count",
            ValueRange{i32(roleBarriers.lookup(role)), i32(layout::kLanes * numWarps)});
}

LogicalResult KernelEmitter::beginExchange(Operation *op, bool usesScratch) {
  if (!role)
    return success();
  if (usesScratch && scratchRole && scratchRole != role)
    return op->emitError("two roles exchange elements between their warps, but there is scratch "
                         "memory for one; give tiles of one role to one column of warps");
  if (usesScratch)
    scratchRole = role;
  if (roleBarriers.contains(role))
    return success();
  llvm::SmallBitVector taken(Target::namedBarriers);
  taken.set(0); // that of the whole block
  kernel.walk([&](Operation *other) {
    if (auto named = dyn_cast<NamedBarrierOp>(other))
      taken.set(named.getId().value_or(0));
    else if (auto turns = dyn_cast<TurnsOp>(other))
      for (uint64_t i = 0; turns.getId() && i < turns.getWarpgroups(); ++i)
        taken.set(*turns.getId() + i);
  });
  for (auto [region, number] : roleBarriers)
    taken.set(number);
  int number = taken.find_first_unset();
  if (number < 0)
    return op->emitError("warps of a role exchange elements at a named barrier, but the kernel "
                         "uses all ")
           << Target::namedBarriers - 1;
  roleBarriers[role] = number;
  return success();
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

const RegisterLayout *KernelEmitter::getLayout(Operation *op, Type tile) {
  std::unique_ptr<RegisterLayout> &known = registerLayouts[tile];
  if (known)
    return known.get();
  if (!isRegisterTile(tile)) {
    op->emitError() << "a tile must have a layout here, but got " << tile;
    return nullptr;
  }
  Result<RegisterLayout> layout = getRegisterLayout(cast<RankedTensorType>(tile));
  if (!layout) {
    op->emitError() << layout.message() << ", in " << tile;
    return nullptr;
  }
  if (layout->numWarps() != numWarps) {
    op->emitError() << "a layout must spread a tile over the " << numWarps
                    << " warps of the block, but got " << layout->numWarps() << ", in " << tile;
    return nullptr;
  }
  known = std::make_unique<RegisterLayout>(*layout);
  return known.get();
}

const layout::SharedLayout *KernelEmitter::getLayout(Operation *op, SharedType buffer) {
  std::unique_ptr<layout::SharedLayout> &known = sharedLayouts[buffer];
  if (known)
    return known.get();
  Result<layout::SharedLayout> layout = getSharedLayout(buffer);
  if (!layout) {
    op->emitError() << layout.message() << ", in " << buffer;
    return nullptr;
  }
  known = std::make_unique<layout::SharedLayout>(*layout);
  return known.get();
}

Value KernelEmitter::threadNumber(llvm::function_ref<int64_t(int, int)> compute,
                                  ArrayRef<Digit> warpDigits, bool atUse) {
  std::vector<int64_t> table;
  for (int w = 0; w < numWarps; ++w)
    for (int l = 0; l < layout::kLanes; ++l)
      table.push_back(compute(w, l));
  Value here;
  Value &known = atUse ? here : threadNumbers[table];
  if (known)
    return known;

  // The value is the sum of what each digit of the warp and each bit of the lane adds to that of
  // thread 0. Bits that add in proportion to their weight are taken together.
  int64_t base = table[0];
  SmallVector<std::array<int64_t, 4>> parts; // isLane, place, extent, factor
  int64_t place = 1;
  for (const Digit &digit : warpDigits) {
    if (digit.extent > 1 && place < numWarps)
      parts.push_back({0, place, digit.extent, table[place * layout::kLanes] - base});
    place *= digit.extent;
  }
  for (int bit = 0; bit < 5; ++bit) {
    int64_t factor = table[1 << bit] - base;
    if (!parts.empty() && parts.back()[0] && factor == parts.back()[3] * parts.back()[2] &&
        factor != 0)
      parts.back()[2] *= 2;
    else
      parts.push_back({1, 1 << bit, 2, factor});
  }
  for (int w = 0; w < numWarps; ++w)
    for (int l = 0; l < layout::kLanes; ++l) {
      int64_t sum = base;
      for (auto [isLane, from, extent, factor] : parts)
        sum += (isLane ? l : w) / from % extent * factor;
      if (sum != table[w * layout::kLanes + l])
        return nullptr;
    }

  OpBuilder::InsertionGuard guard(b);
  if (!atUse)
    b.setInsertionPoint(endOfEntry);
  Value sum = i32(base);
  for (auto [isLane, from, extent, factor] : parts) {
    if (factor == 0)
      continue;
    Value digit = isLane ? lane : warp;
    if (from > 1)
      digit = arith::DivUIOp::create(b, digit, i32(from));
    if (from * extent < (isLane ? layout::kLanes : numWarps))
      digit = arith::RemUIOp::create(b, digit, i32(extent));
    sum = add(sum, mul(digit, i32(factor)));
  }
  // Insertions into the map leave references to its elements valid.
  return known = sum;
}

Value KernelEmitter::threadCoord(const RegisterLayout &layout, int dim) {
  return threadNumber(
      [&](int w, int l) { return layout.warpPart(w)[dim] + layout.lanePart(l)[dim]; },
      // A few operations at the use: computed at entry, they would take registers in loops that use
      // no positions.
      layout.warpDigits(), /*atUse=*/true);
}

Value KernelEmitter::coord(const RegisterLayout &layout, int dim, int reg) {
  return add(threadCoord(layout, dim), i32(layout.registerPart(reg)[dim]));
}

/// Whether all digits of a number that are replicas are 0.
static bool isCanonical(ArrayRef<Digit> digits, int64_t number) {
  for (const Digit &digit : digits) {
    if (digit.isReplica() && number % digit.extent != 0)
      return false;
    number /= digit.extent;
  }
  return true;
}

bool KernelEmitter::isCanonicalRegister(const RegisterLayout &layout, int reg) {
  return isCanonical(layout.registerDigits(), reg);
}

Value KernelEmitter::isCanonicalThread(const RegisterLayout &layout) {
  auto isReplica = [](const Digit &digit) { return digit.isReplica() && digit.extent > 1; };
  if (llvm::none_of(layout.warpDigits(), isReplica) &&
      llvm::none_of(layout.laneDigits(), isReplica))
    return nullptr;
  // How many of the digits that are replicas are not 0 does not add up over their values; the
  // values themselves do.
  auto weight = [](ArrayRef<Digit> digits, int64_t number) {
    int64_t sum = 0, scale = 1;
    for (const Digit &digit : digits) {
      if (digit.isReplica())
        sum += number % digit.extent * scale;
      number /= digit.extent;
      scale *= digit.extent;
    }
    return sum;
  };
  Value replica = threadNumber(
      [&](int w, int l) {
        return weight(layout.warpDigits(), w) * layout::kLanes + weight(layout.laneDigits(), l);
      },
      layout.warpDigits());
  return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, replica, i32(0));
}

Value KernelEmitter::byteOffset(const layout::SharedLayout &buffer, Value row, Value col) {
  Value byte = mul(col, i32(buffer.bytesPerElement()));
  Value offset = mul(row, i32(buffer.rowPitch()));
  if (buffer.numPanels() > 1) {
    Value width = i32(buffer.panelBytes());
    Value panel = arith::DivUIOp::create(b, byte, width);
    byte = arith::RemUIOp::create(b, byte, width);
    offset = add(offset, mul(panel, i32(buffer.panelStride())));
  }
  offset = add(offset, byte);
  if (buffer.swizzle() == layout::Swizzle::None)
    return offset;
  int64_t mask = layout::swizzleMask(buffer.swizzle());
  Value bits = arith::AndIOp::create(b, offset, i32(mask << 7));
  return arith::XOrIOp::create(b, offset, arith::ShRUIOp::create(b, bits, i32(3)));
}
