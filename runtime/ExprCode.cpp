// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles expressions to flat code, and evaluates it.

#include "runtime/ExprCode.h"

#include "base/Expr/Broken.h"
#include "runtime/ArgumentSpec.h"

#include <cmath>

using namespace tilewright;
using namespace tilewright::runtime;
using expr::Fault;
using expr::Function;

namespace {

/// An expression has at most one pending value per level, and resolveExpr bounds the levels.
constexpr int maxStack = int(maxExprDepth) + 2;

int64_t toBits(double value) {
  int64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

double toReal(int64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

/// Whether one of these views is absent, so that a condition on them holds.
bool isOneAbsent(uint64_t views, const ExprInputs &inputs) {
  for (; views; views &= views - 1)
    if (inputs.arguments[__builtin_ctzll(views)]->kind == Argument::Kind::Absent)
      return true;
  return false;
}

} // namespace

struct ExprCode::Builder {
  ExprCode &made;
  const std::vector<ArgumentSpec> &contract;
  std::vector<std::string> enums;
  uint64_t views = 0; // views that were read

  Instruction &append(const Expr &expr, Op op) {
    made.origins.push_back(&expr);
    made.code.push_back({op});
    return made.code.back();
  }

  void append(const Expr &expr) {
    switch (expr.kind()) {
    case Expr::Kind::Enum: {
      auto known = std::find(enums.begin(), enums.end(), expr.text());
      append(expr, Op::Constant).value = known - enums.begin();
      if (known == enums.end())
        enums.push_back(expr.text());
      return;
    }
    case Expr::Kind::Type:
      append(expr, Op::Constant).value = int64_t(*parseElementType(expr.text()));
      return;
    case Expr::Kind::Name: {
      ElementType type = contract[size_t(expr.argument())].type;
      Op op = isFloat(type)              ? Op::ScalarReal
              : type == ElementType::I1  ? Op::ScalarFlag
              : type == ElementType::I64 ? Op::Scalar64
                                         : Op::Scalar32;
      append(expr, op).argument = uint8_t(expr.argument());
      return;
    }
    case Expr::Kind::Dim: {
      Instruction &dim = append(expr, Op::Dim);
      dim.argument = uint8_t(expr.argument());
      dim.dim = uint8_t(expr.value());
      views |= uint64_t(1) << expr.argument();
      return;
    }
    case Expr::Kind::Call:
      appendCall(expr);
      return;
    default:
      append(expr, Op::Constant).value = expr.value();
      return;
    }
  }

  void appendCall(const Expr &expr) {
    const std::vector<Expr> &operands = expr.operands();
    auto jump = [&](Op op) {
      append(expr, op);
      return made.code.size() - 1;
    };
    auto land = [&](size_t at) { made.code[at].value = int64_t(made.code.size()); };
    switch (Function function = expr.function()) {
    case Function::SmCount:
      append(expr, Op::SmCount);
      return;
    case Function::Select: {
      append(operands[0]);
      size_t toElse = jump(Op::BranchIfFalse);
      append(operands[1]);
      size_t toEnd = jump(Op::Jump);
      land(toElse);
      append(operands[2]);
      land(toEnd);
      return;
    }
    case Function::And:
    case Function::Or: {
      append(operands[0]);
      size_t toEnd = jump(function == Function::And ? Op::JumpIfFalse : Op::JumpIfTrue);
      append(operands[1]);
      land(toEnd);
      return;
    }
    case Function::Not:
    case Function::Finite:
    case Function::Bits:
    case Function::Accumulator:
      append(operands[0]);
      append(expr, function == Function::Not      ? Op::Not
                   : function == Function::Finite ? Op::Finite
                   : function == Function::Bits   ? Op::Bits
                                                  : Op::Accumulator);
      return;
    default: {
      bool isReal[] = {kindOf(operands[0], contract) == Expr::Kind::Real,
                       kindOf(operands[1], contract) == Expr::Kind::Real};
      for (int i : {0, 1}) {
        append(operands[size_t(i)]);
        if (!isReal[i] && isReal[1 - i])
          append(expr, Op::ToReal);
      }
      append(expr, isReal[0] || isReal[1] ? Op::CompareReals : Op::Compute).function = function;
      return;
    }
    }
  }

  void require(const Expr &condition) {
    std::vector<Instruction> &list = made.code;
    size_t size = list.size();
    views = 0;
    append(condition);
    Instruction required = {Op::Require};
    if (list.size() == size + 3 && list.back().function == Function::Equal &&
        list[size].op == Op::Dim && list[size + 1].op == Op::Dim) {
      required = list[size];
      required.op = Op::RequireEqualDims;
      required.otherArgument = list[size + 1].argument;
      required.otherDim = list[size + 1].dim;
      list.resize(size);
      made.origins.resize(size);
    }
    required.value = int64_t(views);
    append(condition, Op::Require) = required;
  }
};

ExprCode::ExprCode(const Expr &expr, const std::vector<ArgumentSpec> &contract) {
  Builder{*this, contract, {}}.append(expr);
}

ExprCode::ExprCode(const std::vector<Expr> &conditions, const std::vector<ArgumentSpec> &contract) {
  Builder builder{*this, contract, {}};
  for (const Expr &condition : conditions)
    builder.require(condition);
}

Status ExprCode::failure(const End &end) {
  return Status::failure(Code::BadBundle, faultText(end.fault, end.expr->toString()));
}

std::string ExprCode::describe(const End &end, const ExprInputs &inputs) {
  auto valueOf = [&](const Expr &leaf) -> std::string {
    if (leaf.argument() < 0)
      return "unknown";
    const Argument &argument = *inputs.arguments[leaf.argument()];
    if (leaf.kind() == Expr::Kind::Dim)
      return std::to_string(argument.extents[leaf.value()]);
    switch (argument.type) {
    case ElementType::I1:
      return (argument.bits & 0xff) != 0 ? "true" : "false";
    case ElementType::I32:
      return std::to_string(int32_t(uint32_t(argument.bits)));
    case ElementType::I64:
      return std::to_string(int64_t(argument.bits));
    default:
      return Expr::real(argument.real()).toString();
    }
  };
  return "its condition '" + end.expr->toString() + "' does not hold" +
         expr::listOperands(*end.expr, valueOf) + expr::suggestValues(*end.expr, valueOf);
}

ExprCode::End ExprCode::endBehind(Stop stop, const ExprInputs &inputs) const {
  const Instruction *const end = code.data() + code.size();
  while (stop.at && stop.fault != Fault::None) {
    // An error does not count if the condition holds because of an absent view.
    const Instruction *at = stop.at;
    while (at->op < Op::Require)
      ++at;
    if (!isOneAbsent(uint64_t(at->value), inputs))
      break;
    int64_t unused;
    stop = at + 1 == end ? Stop{nullptr, Fault::None} : run(at + 1, inputs, unused);
  }
  return stop.at ? endAt(stop) : End();
}

ExprCode::Stop ExprCode::run(const Instruction *from, const ExprInputs &inputs,
                             int64_t &result) const {
  int64_t stack[maxStack];
  int64_t *top = stack; // one past the last value
  const Instruction *const begin = code.data(), *const end = begin + code.size();
  for (const Instruction *at = from; at != end; ++at) {
    const Instruction &instruction = *at;
    switch (instruction.op) {
    case Op::Constant:
      *top++ = instruction.value;
      continue;
    case Op::Scalar32:
      *top++ = int32_t(uint32_t(inputs.arguments[instruction.argument]->bits));
      continue;
    case Op::Scalar64:
      *top++ = int64_t(inputs.arguments[instruction.argument]->bits);
      continue;
    case Op::ScalarFlag:
      *top++ = (inputs.arguments[instruction.argument]->bits & 0xff) != 0;
      continue;
    case Op::ScalarReal:
      *top++ = toBits(inputs.arguments[instruction.argument]->real());
      continue;
    case Op::Dim: // of an absent view all is zero
      *top++ = inputs.arguments[instruction.argument]->extents[instruction.dim];
      continue;
    case Op::SmCount:
      *top++ = inputs.smCount;
      continue;
    case Op::Not:
      top[-1] = !top[-1];
      continue;
    case Op::Finite:
      top[-1] = std::isfinite(toReal(top[-1]));
      continue;
    case Op::ToReal:
      top[-1] = toBits(double(top[-1]));
      continue;
    case Op::Bits: {
      auto type = ElementType(top[-1]);
      top[-1] = type == ElementType::I1 ? 1 : int64_t(byteWidth(type)) * 8;
      continue;
    }
    case Op::Accumulator:
      top[-1] =
          int64_t(ElementType(top[-1]) == ElementType::F64 ? ElementType::F64 : ElementType::F32);
      continue;
    case Op::JumpIfFalse:
    case Op::JumpIfTrue:
      if ((top[-1] != 0) == (instruction.op == Op::JumpIfTrue))
        at = begin + instruction.value - 1;
      else
        --top;
      continue;
    case Op::BranchIfFalse:
      if (!*--top)
        at = begin + instruction.value - 1;
      continue;
    case Op::Jump:
      at = begin + instruction.value - 1;
      continue;
    case Op::Require:
      if (!*--top && !isOneAbsent(uint64_t(instruction.value), inputs))
        return {at, Fault::None};
      continue;
    case Op::RequireEqualDims:
      if (inputs.arguments[instruction.argument]->extents[instruction.dim] !=
              inputs.arguments[instruction.otherArgument]->extents[instruction.otherDim] &&
          !isOneAbsent(uint64_t(instruction.value), inputs))
        return {at, Fault::None};
      continue;
    case Op::CompareReals:
      --top;
      top[-1] = compareReals(instruction.function, toReal(top[-1]), toReal(*top));
      continue;
    case Op::Compute:
      break;
    }
    --top;
    Fault fault = compute(instruction.function, top[-1], *top, top[-1]);
    if (fault != Fault::None)
      return {at, fault};
  }
  if (top != stack)
    result = top[-1];
  return {nullptr, Fault::None};
}
