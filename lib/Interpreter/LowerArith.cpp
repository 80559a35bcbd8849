// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elementwise operations: arith, math, and those of tile.

#include "base/Numeric/Philox.h"
#include "lib/Interpreter/Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/StringSwitch.h"
#include <cstring>

using namespace mlir;

namespace tilewright::interpreter {

using numeric::BinaryOp;
using numeric::CastOp;
using numeric::Operand;
using numeric::UnaryOp;

namespace {

template <typename OpKind> struct NamedKind {
  const char *name;
  OpKind kind;
};

constexpr NamedKind<UnaryOp> unaryNames[] = {
    {"arith.negf", UnaryOp::NegF},  {"math.absf", UnaryOp::AbsF},
    {"math.exp", UnaryOp::Exp},     {"math.exp2", UnaryOp::Exp2},
    {"math.expm1", UnaryOp::ExpM1}, {"math.log", UnaryOp::Log},
    {"math.log2", UnaryOp::Log2},   {"math.log10", UnaryOp::Log10},
    {"math.log1p", UnaryOp::Log1p}, {"math.sqrt", UnaryOp::Sqrt},
    {"math.rsqrt", UnaryOp::Rsqrt}, {"math.cbrt", UnaryOp::Cbrt},
    {"math.sinh", UnaryOp::Sinh},   {"math.cosh", UnaryOp::Cosh},
    {"math.tanh", UnaryOp::Tanh},   {"math.sin", UnaryOp::Sin},
    {"math.cos", UnaryOp::Cos},     {"math.tan", UnaryOp::Tan},
    {"math.asin", UnaryOp::Asin},   {"math.acos", UnaryOp::Acos},
    {"math.atan", UnaryOp::Atan},   {"math.erf", UnaryOp::Erf},
    {"math.erfc", UnaryOp::Erfc},   {"math.floor", UnaryOp::Floor},
    {"math.ceil", UnaryOp::Ceil},   {"math.round", UnaryOp::Round},
    {"math.trunc", UnaryOp::Trunc}, {"math.roundeven", UnaryOp::RoundEven},
    {"math.absi", UnaryOp::AbsI},
};

constexpr NamedKind<BinaryOp> binaryNames[] = {
    {"arith.addf", BinaryOp::AddF},           {"arith.subf", BinaryOp::SubF},
    {"arith.mulf", BinaryOp::MulF},           {"arith.divf", BinaryOp::DivF},
    {"arith.remf", BinaryOp::RemF},           {"arith.maximumf", BinaryOp::MaximumF},
    {"arith.minimumf", BinaryOp::MinimumF},   {"arith.maxnumf", BinaryOp::MaxNumF},
    {"arith.minnumf", BinaryOp::MinNumF},     {"math.powf", BinaryOp::Pow},
    {"math.copysign", BinaryOp::CopySign},    {"math.atan2", BinaryOp::Atan2},
    {"arith.addi", BinaryOp::AddI},           {"arith.subi", BinaryOp::SubI},
    {"arith.muli", BinaryOp::MulI},           {"arith.divsi", BinaryOp::DivSI},
    {"arith.divui", BinaryOp::DivUI},         {"arith.remsi", BinaryOp::RemSI},
    {"arith.remui", BinaryOp::RemUI},         {"arith.floordivsi", BinaryOp::FloorDivSI},
    {"arith.ceildivsi", BinaryOp::CeilDivSI}, {"arith.ceildivui", BinaryOp::CeilDivUI},
    {"arith.andi", BinaryOp::AndI},           {"arith.ori", BinaryOp::OrI},
    {"arith.xori", BinaryOp::XorI},           {"arith.shli", BinaryOp::ShLI},
    {"arith.shrsi", BinaryOp::ShRSI},         {"arith.shrui", BinaryOp::ShRUI},
    {"arith.maxsi", BinaryOp::MaxSI},         {"arith.maxui", BinaryOp::MaxUI},
    {"arith.minsi", BinaryOp::MinSI},         {"arith.minui", BinaryOp::MinUI},
};

/// The entry of this operation in one of the tables above.
template <typename Table> auto kindOf(const Table &table, Operation *op) {
  for (const auto &entry : table)
    if (op->getName().getStringRef() == entry.name)
      return entry.kind;
  llvm_unreachable("registered from the same table");
}

llvm::SmallVector<ValueOperand> operandsOf(Lowering &lowering, Operation *op) {
  return llvm::map_to_vector(op->getOpOperands(),
                             [&](OpOperand &operand) { return lowering.operand(operand); });
}

LogicalResult lowerUnary(Lowering &lowering, Operation *op) {
  UnaryOp kind = kindOf(unaryNames, op);
  ValueResult result = lowering.result(op->getResult(0));
  return emitElementwise(lowering, op, operandsOf(lowering, op), result,
                         [=](Frame &, const Operand *in, void *out, size_t n) {
                           return numeric::unary(kind, result.storage, in[0], out, n);
                         });
}

LogicalResult lowerBinary(Lowering &lowering, Operation *op) {
  BinaryOp kind = kindOf(binaryNames, op);
  llvm::SmallVector<ValueOperand> operands = operandsOf(lowering, op);
  // The native loops have no division and no shift of single bits.
  bool needsWidth = (kind >= BinaryOp::DivSI && kind <= BinaryOp::CeilDivUI) ||
                    (kind >= BinaryOp::ShLI && kind <= BinaryOp::ShRUI);
  if (lowering.elementType(op->getOperand(0)) == ElementType::I8)
    return op->emitOpError("is not supported on i8 by the CPU device; convert it by tile.cast");
  bool isI1 = operands[0].storage == Storage::I1;
  if (needsWidth && isI1)
    return op->emitOpError("is not supported on i1 by the CPU device; convert it by arith.extui");
  ValueResult result = lowering.result(op->getResult(0));
  if (isI1 && (kind == BinaryOp::AndI || kind == BinaryOp::OrI)) {
    lowering.emit<LogicStep>(op, kind == BinaryOp::AndI, operands, result);
    return success();
  }
  return emitElementwise(lowering, op, operands, result,
                         [=](Frame &, const Operand *in, void *out, size_t n) {
                           return numeric::binary(kind, result.storage, in[0], in[1], out, n);
                         });
}

LogicalResult lowerFma(Lowering &lowering, Operation *op) {
  ValueResult result = lowering.result(op->getResult(0));
  return emitElementwise(lowering, op, operandsOf(lowering, op), result,
                         [=](Frame &, const Operand *in, void *out, size_t n) {
                           return numeric::fma(result.storage, in[0], in[1], in[2], out, n);
                         });
}

LogicalResult lowerSelect(Lowering &lowering, Operation *op) {
  if (Lowering::isView(op->getResult(0)))
    return op->emitOpError("of views is not supported by the CPU device; load a tile of each and "
                           "select between the tiles");
  lowering.emit<SelectStep>(op, operandsOf(lowering, op), lowering.result(op->getResult(0)));
  return success();
}

/// `compare` is the native loop for this type of predicate.
template <typename OpT, typename Predicate, auto compare>
LogicalResult lowerCompare(Lowering &lowering, Operation *op) {
  auto predicate = static_cast<Predicate>(cast<OpT>(op).getPredicate());
  Storage storage = lowering.storage(op->getOperand(0));
  return emitElementwise(lowering, op, operandsOf(lowering, op), lowering.result(op->getResult(0)),
                         [=](Frame &, const Operand *in, void *out, size_t n) {
                           return compare(predicate, storage, in[0], in[1],
                                          static_cast<uint8_t *>(out), n);
                         });
}

LogicalResult emitCast(Lowering &lowering, Operation *op, CastOp kind,
                       std::optional<double> largest = std::nullopt) {
  ValueOperand operand = lowering.operand(op->getOpOperand(0));
  ValueResult result = lowering.result(op->getResult(0));
  if (kind == CastOp::TruncI && lowering.elementType(op->getResult(0)) == ElementType::I8)
    return emitElementwise(
        lowering, op, {operand}, result,
        [from = operand.storage, to = result.storage](Frame &, const Operand *in, void *out,
                                                      size_t n) {
          numeric::OpError error = numeric::cast(CastOp::TruncI, from, in[0], to, out, n);
          for (int32_t &value : llvm::MutableArrayRef(static_cast<int32_t *>(out), n))
            value = int8_t(value);
          return error;
        });
  lowering.emit<CastStep>(op, kind, operand, result, largest);
  return success();
}

LogicalResult lowerArithCast(Lowering &lowering, Operation *op) {
  CastOp kind = llvm::StringSwitch<CastOp>(op->getName().getStringRef())
                    .Case("arith.sitofp", CastOp::SIToFP)
                    .Case("arith.uitofp", CastOp::UIToFP)
                    .Case("arith.fptosi", CastOp::FPToSI)
                    .Case("arith.fptoui", CastOp::FPToUI)
                    .Cases({"arith.extf", "arith.truncf"}, CastOp::FPToFP)
                    .Case("arith.extui", CastOp::ExtUI)
                    .Case("arith.trunci", CastOp::TruncI)
                    .Default(CastOp::ExtSI);
  return emitCast(lowering, op, kind);
}

LogicalResult lowerIndexCast(Lowering &lowering, Operation *op) {
  Storage from = lowering.storage(op->getOperand(0)), to = lowering.storage(op->getResult(0));
  bool widens = storageBytes(from) <= storageBytes(to);
  bool isUnsigned = op->getName().getStringRef() == "arith.index_castui";
  return emitCast(lowering, op,
                  !widens      ? CastOp::TruncI
                  : isUnsigned ? CastOp::ExtUI
                               : CastOp::ExtSI);
}

LogicalResult lowerBitcast(Lowering &lowering, Operation *op) {
  ElementType from = lowering.elementType(op->getOperand(0));
  ElementType to = lowering.elementType(op->getResult(0));
  bool keepsBits = byteWidth(from) == storageBytes(lowering.storage(op->getOperand(0))) &&
                   byteWidth(to) == storageBytes(lowering.storage(op->getResult(0)));
  if (!keepsBits && from != to)
    return op->emitOpError("is supported by the CPU device between f32 and i32, and between f64 "
                           "and i64 only")
           << (lowering.allF64() ? "; f32 is f64 in this run" : "");
  return emitCast(lowering, op, CastOp::Bitcast);
}

LogicalResult lowerTileCast(Lowering &lowering, Operation *op) {
  ElementType from = lowering.elementType(op->getOperand(0));
  ElementType to = lowering.elementType(op->getResult(0));
  CastOp kind;
  if (isFloat(from))
    kind = isFloat(to) ? CastOp::FPToFP : CastOp::FPToSI;
  else if (isFloat(to))
    kind = from == ElementType::I1 ? CastOp::UIToFP : CastOp::SIToFP;
  else if (from == ElementType::I1)
    kind = CastOp::ExtUI;
  else
    kind = byteWidth(to) < byteWidth(from) ? CastOp::TruncI : CastOp::ExtSI;
  bool saturates = cast<tile::CastOp>(op).getSaturate();
  if (saturates && to == ElementType::I8)
    return emitCast(lowering, op, kind, 127.0);
  // To other integers, every conversion saturates.
  if (!saturates || kind == CastOp::FPToSI)
    return emitCast(lowering, op, kind);
  auto type = cast<FloatType>(tile::getElementType(op->getResult(0).getType()));
  return emitCast(lowering, op, kind,
                  llvm::APFloat::getLargest(type.getFloatSemantics()).convertToDouble());
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

std::optional<Scalar> scalarOf(Attribute attribute, Storage storage) {
  if (auto integer = dyn_cast<IntegerAttr>(attribute))
    return Scalar::fromInt(integer.getValue().getSExtValue(), storage);
  if (auto real = dyn_cast<FloatAttr>(attribute)) {
    llvm::APFloat value = real.getValue();
    bool losesInfo;
    value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
    return Scalar::fromFloat(value.convertToDouble(), storage);
  }
  return std::nullopt;
}

LogicalResult lowerConstant(Lowering &lowering, Operation *op) {
  Attribute attribute = cast<arith::ConstantOp>(op).getValue();
  ValueResult result = lowering.result(op->getResult(0));
  auto elements = dyn_cast<DenseElementsAttr>(attribute);
  if (!elements || elements.isSplat()) {
    if (elements)
      attribute = elements.getSplatValue<Attribute>();
    std::optional<Scalar> scalar = scalarOf(attribute, result.storage);
    if (!scalar)
      return op->emitOpError("has a value that is not supported by the CPU device");
    lowering.addConstant({result.slot, *scalar, {}});
    return success();
  }
  std::vector<char> bytes(result.bytes());
  size_t width = storageBytes(result.storage), position = 0;
  for (Attribute element : elements.getValues<Attribute>()) {
    std::optional<Scalar> scalar = scalarOf(element, result.storage);
    if (!scalar)
      return op->emitOpError("has a value that is not supported by the CPU device");
    std::memcpy(bytes.data() + position, &*scalar, width);
    position += width;
  }
  lowering.addConstant({result.slot, Scalar(), std::move(bytes)});
  return success();
}

/// Seed, offset and the three counters in; numbers of `bits` random bits out.
numeric::OpError random(unsigned bits, unsigned rounds, const Operand *in, void *out, size_t n) {
  auto readAt = [](const Operand &operand, size_t i) {
    return static_cast<const uint64_t *>(operand.data)[operand.isSplat ? 0 : i];
  };
  // Seed and offset are uniform unless a scalar function computes them per element.
  bool uniform = in[0].isSplat && in[1].isSplat;
  size_t run = uniform ? n : 1;
  for (size_t start = 0; start < n; start += run) {
    uint64_t seed = readAt(in[0], start), offset = readAt(in[1], start);
    std::array<uint32_t, 2> key = {static_cast<uint32_t>(seed),
                                   static_cast<uint32_t>((seed >> 32) ^ (offset >> 32))};
    uint32_t low = static_cast<uint32_t>(offset);
    std::array<Operand, 4> counter;
    for (unsigned word = 0; word < 3; ++word) {
      const Operand &operand = in[2 + word];
      counter[word] = operand.isSplat
                          ? operand
                          : Operand::span(static_cast<const uint32_t *>(operand.data) + start);
    }
    counter[3] = Operand::splat(&low);
    numeric::philoxTile(key, bits, rounds, counter, static_cast<uint32_t *>(out) + start, run);
  }
  return numeric::OpError::None;
}

LogicalResult lowerRandom(Lowering &lowering, Operation *op) {
  auto number = cast<tile::RandomOp>(op);
  return emitElementwise(
      lowering, op, operandsOf(lowering, op), lowering.result(number.getResult()),
      [bits = unsigned(number.getBits()),
       rounds = unsigned(number.getRounds())](Frame &, const Operand *in, void *out, size_t n) {
        return random(bits, rounds, in, out, n);
      },
      /*mayReuseOperands=*/false);
}

} // namespace

void addArithLowerings(LoweringTable &table) {
  for (const auto &unary : unaryNames)
    table[unary.name] = lowerUnary;
  for (const auto &binary : binaryNames)
    table[binary.name] = lowerBinary;
  for (const char *name :
       {"arith.sitofp", "arith.uitofp", "arith.fptosi", "arith.fptoui", "arith.extf",
        "arith.truncf", "arith.extsi", "arith.extui", "arith.trunci"})
    table[name] = lowerArithCast;
  table["arith.index_cast"] = lowerIndexCast;
  table["arith.index_castui"] = lowerIndexCast;
  table["arith.bitcast"] = lowerBitcast;
  table["arith.cmpf"] = lowerCompare<arith::CmpFOp, numeric::CmpF, numeric::compareFloat>;
  table["arith.cmpi"] = lowerCompare<arith::CmpIOp, numeric::CmpI, numeric::compareInt>;
  table["arith.select"] = lowerSelect;
  table["arith.constant"] = lowerConstant;
  table["math.fma"] = lowerFma;
  table["tile.select"] = lowerSelect;
  table["tile.cast"] = lowerTileCast;
  table["tile.random"] = lowerRandom;
}

} // namespace tilewright::interpreter
