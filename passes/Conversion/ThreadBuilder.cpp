// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Constants, arithmetic, pointers and instructions.

#include "passes/Conversion/ThreadBuilder.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

#include <optional>
#include <string>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

//===----------------------------------------------------------------------===//
// Constants and arithmetic
//===----------------------------------------------------------------------===//

/// Constants are shared by the whole kernel.
Value ThreadBuilder::constant(TypedAttr value) {
  Value &known = threads.constants[value];
  if (!known) {
    OpBuilder::InsertionGuard guard(*this);
    setInsertionPoint(threads.endOfEntry);
    known = arith::ConstantOp::create(*this, value);
  }
  return known;
}
Value ThreadBuilder::i32(int64_t value) {
  return constant(getI32IntegerAttr(static_cast<int32_t>(value)));
}
Value ThreadBuilder::i64(int64_t value) { return constant(getI64IntegerAttr(value)); }
Value ThreadBuilder::zero(Type type) { return constant(getZeroAttr(type)); }

static std::optional<int64_t> getConstant(Value value) {
  if (auto op = value.getDefiningOp<arith::ConstantOp>())
    if (auto integer = dyn_cast<IntegerAttr>(op.getValue()))
      return integer.getInt();
  return std::nullopt;
}

Value ThreadBuilder::add(Value x, Value y) {
  std::optional<int64_t> ca = getConstant(x), cb = getConstant(y);
  if (ca == 0)
    return y;
  if (cb == 0)
    return x;
  if (ca && cb)
    return x.getType().isInteger(32) ? i32(*ca + *cb) : i64(*ca + *cb);
  return arith::AddIOp::create(*this, x, y);
}
Value ThreadBuilder::mul(Value x, Value y) {
  std::optional<int64_t> ca = getConstant(x), cb = getConstant(y);
  if (ca == 1 || cb == 0)
    return y;
  if (cb == 1 || ca == 0)
    return x;
  if (ca && cb)
    return x.getType().isInteger(32) ? i32(*ca * *cb) : i64(*ca * *cb);
  return arith::MulIOp::create(*this, x, y);
}
Value ThreadBuilder::conjunction(Value x, Value y) {
  if (!x || !y)
    return x ? x : y;
  return arith::AndIOp::create(*this, x, y);
}
Value ThreadBuilder::less(Value x, Value y) {
  return arith::CmpIOp::create(*this, arith::CmpIPredicate::ult, x, y);
}
Value ThreadBuilder::equal(Value x, Value y) {
  return arith::CmpIOp::create(*this, arith::CmpIPredicate::eq, x, y);
}
Value ThreadBuilder::notEqual(Value x, Value y) {
  return arith::CmpIOp::create(*this, arith::CmpIPredicate::ne, x, y);
}
Value ThreadBuilder::toI64(Value x) {
  if (x.getType().isInteger(64))
    return x;
  if (std::optional<int64_t> known = getConstant(x))
    return i64(*known);
  return arith::ExtSIOp::create(*this, getI64Type(), x);
}
Value ThreadBuilder::toU64(Value x) {
  if (x.getType().isInteger(64))
    return x;
  if (std::optional<int64_t> known = getConstant(x))
    return i64(static_cast<uint32_t>(*known));
  return arith::ExtUIOp::create(*this, getI64Type(), x);
}
Value ThreadBuilder::bitcast(Value value, Type type) {
  return value.getType() == type ? value : LLVM::BitcastOp::create(*this, type, value).getResult();
}

//===----------------------------------------------------------------------===//
// LLVM operations
//===----------------------------------------------------------------------===//

Value ThreadBuilder::advance(Value pointer, Value bytes) {
  if (getConstant(bytes) == 0)
    return pointer;
  return LLVM::GEPOp::create(*this, pointer.getType(), getI8Type(), pointer,
                             ArrayRef<LLVM::GEPArg>{bytes});
}
Value ThreadBuilder::advance(Value pointer, int64_t bytes) {
  return bytes ? advance(pointer, i64(bytes)) : pointer;
}
Value ThreadBuilder::intrinsic(StringRef name, Type result, ValueRange operands) {
  return LLVM::CallIntrinsicOp::create(*this, result, getStringAttr(name), operands).getResult(0);
}
void ThreadBuilder::intrinsic(StringRef name, ValueRange operands) {
  LLVM::CallIntrinsicOp::create(*this, getStringAttr(name), operands);
}
Value ThreadBuilder::inlineAsm(StringRef text, StringRef constraints, Type result,
                               ValueRange operands) {
  auto op = LLVM::InlineAsmOp::create(
      *this, result ? TypeRange(result) : TypeRange(), operands, text, constraints,
      /*has_side_effects=*/true, /*is_align_stack=*/false, LLVM::TailCallKind::None,
      LLVM::AsmDialectAttr(), ArrayAttr());
  return result ? op.getResult(0) : Value();
}
Value ThreadBuilder::vectorOf(ArrayRef<Value> elements) {
  auto type = VectorType::get(static_cast<int64_t>(elements.size()), elements.front().getType());
  Value vector = LLVM::PoisonOp::create(*this, type);
  for (auto [i, element] : llvm::enumerate(elements))
    vector = LLVM::InsertElementOp::create(*this, vector, element, i32(i));
  return vector;
}
Value ThreadBuilder::extract(Value aggregate, int64_t index) {
  if (isa<VectorType>(aggregate.getType()))
    return LLVM::ExtractElementOp::create(*this, aggregate, i32(index));
  return LLVM::ExtractValueOp::create(*this, aggregate, ArrayRef<int64_t>{index});
}
Values ThreadBuilder::packWords(ArrayRef<Value> elements, unsigned wordBits) {
  Values words;
  size_t perWord = wordBits / elements.front().getType().getIntOrFloatBitWidth();
  for (size_t i = 0; i < elements.size(); i += perWord)
    words.push_back(bitcast(perWord == 1 ? elements[i] : vectorOf(elements.slice(i, perWord)),
                            getIntegerType(wordBits)));
  return words;
}

Values ThreadBuilder::unpackWords(ArrayRef<Value> words, Type element) {
  Values elements;
  for (Value word : words) {
    unsigned perWord = word.getType().getIntOrFloatBitWidth() / element.getIntOrFloatBitWidth();
    if (perWord == 1) {
      elements.push_back(bitcast(word, element));
      continue;
    }
    Value vector = bitcast(word, VectorType::get(perWord, element));
    for (unsigned i = 0; i < perWord; ++i)
      elements.push_back(extract(vector, i));
  }
  return elements;
}

std::string tgpu::operandList(size_t first, size_t count, StringRef separator) {
  std::string text;
  for (size_t i = 0; i < count; ++i)
    text += (i ? separator.str() : "") + "$" + std::to_string(first + i);
  return text;
}

/// Results "=f", or "=r" for words, for each value, and operands tied to them.
static std::string tiedConstraints(ArrayRef<Value> values) {
  std::string results, operands;
  for (auto [i, value] : llvm::enumerate(values)) {
    results += value.getType().isF32() ? "=f," : "=r,";
    operands += std::to_string(i) + ",";
  }
  return results + operands;
}

Values ThreadBuilder::tiedAsm(StringRef text, StringRef moreConstraints, ArrayRef<Value> tied,
                              ValueRange more) {
  Values operands(tied);
  llvm::append_range(operands, more);
  SmallVector<Type> types(ValueRange(tied).getTypes());
  Type result =
      tied.size() == 1 ? types[0] : Type(LLVM::LLVMStructType::getLiteral(getContext(), types));
  Value out = inlineAsm(text, tiedConstraints(tied) + moreConstraints.str(), result, operands);
  Values list;
  for (size_t i = 0; i < tied.size(); ++i)
    list.push_back(tied.size() == 1 ? out : extract(out, static_cast<int64_t>(i)));
  return list;
}

Value ThreadBuilder::readThread() {
  Value thread = inlineAsm("mov.u32 $0, %tid.x;", "=r", getI32Type(), {});
  return arith::SubIOp::create(*this, thread, i32(threads.first));
}

Value ThreadBuilder::readLane() {
  return inlineAsm("mov.u32 $0, %laneid;", "=r", getI32Type(), {});
}

Value ThreadBuilder::voteAny(Value condition) {
  return intrinsic("llvm.nvvm.vote.any.sync", getI1Type(), {i32(-1), condition});
}

void ThreadBuilder::onlyIf(Value condition, llvm::function_ref<void()> body) {
  auto branch = scf::IfOp::create(*this, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPoint(branch.thenBlock()->getTerminator());
  body();
}
