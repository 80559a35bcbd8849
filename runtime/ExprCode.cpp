// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From expressions to flat code, and its evaluation.

#include "runtime/ExprCode.h"

#include "runtime/Manifest.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

/// An expression of 64 levels, as bundles hold, has one value waiting on each.
constexpr int maxStack = 80;
constexpr size_t maxCode = std::numeric_limits<uint16_t>::max();

int64_t extentOf(const Argument &view, unsigned dim) {
  return view.kind == Argument::Kind::View ? view.extents[dim] : 0;
}

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

/// Whether one of these views is absent, so that a condition over them holds.
bool isOneAbsent(uint64_t views, const ExprInputs &inputs) {
  for (; views; views &= views - 1)
    if (inputs.arguments[__builtin_ctzll(views)]->kind == Argument::Kind::Absent)
      return true;
  return false;
}

} // namespace

ExprCode ExprCode::ofInteger(const Expr &expr, const std::vector<ArgumentSpec> &contract) {
  ExprCode code;
  uint64_t views = 0;
  code.isComplete = code.append(expr, contract, views) == Kind::Integer && code.isRunnable();
  return code;
}

ExprCode ExprCode::ofConditions(const std::vector<Expr> &conditions,
                                const std::vector<ArgumentSpec> &contract) {
  ExprCode code;
  code.isComplete = true;
  for (const Expr &condition : conditions) {
    uint64_t views = 0;
    code.isComplete &= code.append(condition, contract, views) == Kind::Flag;
    if (!code.isComplete)
      return code;
    std::vector<Instruction> &list = code.code;
    size_t size = list.size();
    if (size >= 3 && condition.function == Expr::Function::Equal &&
        condition.kind == Expr::Kind::Call && condition.operands[0].kind == Expr::Kind::Dim &&
        condition.operands[1].kind == Expr::Kind::Dim) {
      Instruction equal = list[size - 3];
      equal.op = Op::RequireEqualDims;
      equal.otherArgument = list[size - 2].argument;
      equal.otherDim = list[size - 2].dim;
      list.resize(size - 3);
      list.push_back(equal);
    } else {
      list.push_back({Op::Require});
    }
    list.back().value = int64_t(views);
  }
  code.isComplete &= code.isRunnable();
  return code;
}

/// None where the tree must be asked: enum values and types, which bound kernels have folded, and
/// operands of a wrong kind.
ExprCode::Kind ExprCode::append(const Expr &expr, const std::vector<ArgumentSpec> &contract,
                                uint64_t &views) {
  Instruction instruction = {Op::Constant};
  instruction.argument = uint8_t(expr.argument);
  switch (expr.kind) {
  case Expr::Kind::Integer:
  case Expr::Kind::Flag:
    instruction.value = expr.value;
    code.push_back(instruction);
    return expr.kind == Expr::Kind::Flag ? Kind::Flag : Kind::Integer;
  case Expr::Kind::Enum:
  case Expr::Kind::Type:
    return Kind::None;
  case Expr::Kind::Name: {
    ElementType type = contract[size_t(expr.argument)].type;
    if (isFloat(type)) {
      instruction.op = Op::ScalarReal;
      code.push_back(instruction);
      return Kind::Real;
    }
    instruction.op = type == ElementType::I1    ? Op::ScalarFlag
                     : type == ElementType::I64 ? Op::Scalar64
                                                : Op::Scalar32;
    code.push_back(instruction);
    return type == ElementType::I1 ? Kind::Flag : Kind::Integer;
  }
  case Expr::Kind::Dim:
    instruction.op = Op::Dim;
    instruction.dim = uint8_t(expr.value);
    code.push_back(instruction);
    views |= uint64_t(1) << expr.argument;
    return Kind::Integer;
  case Expr::Kind::Call:
    return appendCall(expr, contract, views);
  case Expr::Kind::Real:
    break;
  }
  return Kind::None;
}

ExprCode::Kind ExprCode::appendCall(const Expr &expr, const std::vector<ArgumentSpec> &contract,
                                    uint64_t &views) {
  using Function = Expr::Function;
  auto appendOperand = [&](size_t i) { return append(expr.operands[i], contract, views); };
  auto jump = [&](Op op) {
    code.push_back({op});
    return code.size() - 1;
  };
  auto land = [&](size_t at) { code[at].target = uint16_t(std::min(code.size(), maxCode)); };
  switch (expr.function) {
  case Function::SmCount:
    code.push_back({Op::SmCount});
    return Kind::Integer;
  case Function::Accumulator:
  case Function::Bits:
    return Kind::None;
  case Function::Select: {
    if (appendOperand(0) != Kind::Flag)
      return Kind::None;
    size_t toElse = jump(Op::BranchIfFalse);
    Kind kind = appendOperand(1);
    size_t toEnd = jump(Op::Jump);
    land(toElse);
    if (appendOperand(2) != kind)
      return Kind::None;
    land(toEnd);
    return kind;
  }
  case Function::And:
  case Function::Or: {
    if (appendOperand(0) != Kind::Flag)
      return Kind::None;
    size_t toEnd = jump(expr.function == Function::And ? Op::JumpIfFalse : Op::JumpIfTrue);
    if (appendOperand(1) != Kind::Flag)
      return Kind::None;
    land(toEnd);
    return Kind::Flag;
  }
  case Function::Not:
    if (appendOperand(0) != Kind::Flag)
      return Kind::None;
    code.push_back({Op::Not});
    return Kind::Flag;
  case Function::Finite:
    if (appendOperand(0) != Kind::Real)
      return Kind::None;
    code.push_back({Op::Finite});
    return Kind::Flag;
  default:
    break;
  }
  Kind left = appendOperand(0);
  size_t behindLeft = code.size();
  Kind right = appendOperand(1);
  if (left == Kind::Real || right == Kind::Real) {
    bool areNumbers = (left == Kind::Real || left == Kind::Integer) &&
                      (right == Kind::Real || right == Kind::Integer);
    if (!areNumbers || expr.function < Function::Less || expr.function > Function::NotEqual)
      return Kind::None;
    if (right == Kind::Integer)
      code.push_back({Op::ToReal});
    if (left == Kind::Integer) {
      // In between, where jumps of the right operand would have to move.
      if (code.size() != behindLeft + 1)
        return Kind::None;
      code.insert(code.begin() + int64_t(behindLeft), Instruction{Op::ToReal});
    }
    code.push_back({Op(int(Op::LessReal) + int(expr.function) - int(Function::Less))});
    return Kind::Flag;
  }
  bool isEquality = expr.function == Function::Equal || expr.function == Function::NotEqual;
  if (left == Kind::None || left != right || (left == Kind::Flag && !isEquality))
    return Kind::None;
  static_assert(int(Op::NotEqual) - int(Op::Add) == int(Function::NotEqual) - int(Function::Add),
                "operators are in one order");
  code.push_back({Op(int(Op::Add) + int(expr.function) - int(Function::Add))});
  return expr.function >= Function::Less ? Kind::Flag : Kind::Integer;
}

bool ExprCode::isRunnable() const {
  int depth = 0;
  for (const Instruction &instruction : code) {
    if (instruction.op <= Op::SmCount)
      ++depth;
    else if (instruction.op != Op::Not && instruction.op != Op::Finite &&
             instruction.op != Op::ToReal && instruction.op != Op::RequireEqualDims)
      --depth; // behind a jump, the value of the other way is not there
    if (depth > maxStack)
      return false;
  }
  return code.size() <= maxCode;
}

bool ExprCode::evaluate(const ExprInputs &inputs, int64_t &result) const {
  return isComplete && run(inputs, result);
}

bool ExprCode::allHold(const ExprInputs &inputs) const {
  int64_t unused;
  return isComplete && run(inputs, unused);
}

bool ExprCode::run(const ExprInputs &inputs, int64_t &result) const {
  int64_t stack[maxStack];
  int64_t *top = stack; // beyond the last value
  const Instruction *const begin = code.data(), *const end = begin + code.size();
  for (const Instruction *at = begin; at != end; ++at) {
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
    case Op::Dim:
      *top++ = extentOf(*inputs.arguments[instruction.argument], instruction.dim);
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
    case Op::JumpIfFalse:
    case Op::JumpIfTrue:
      if ((top[-1] != 0) == (instruction.op == Op::JumpIfTrue))
        at = begin + instruction.target - 1;
      else
        --top;
      continue;
    case Op::BranchIfFalse:
      if (!*--top)
        at = begin + instruction.target - 1;
      continue;
    case Op::Jump:
      at = begin + instruction.target - 1;
      continue;
    case Op::Require:
      if (!*--top && !isOneAbsent(uint64_t(instruction.value), inputs))
        return false;
      continue;
    case Op::RequireEqualDims:
      if (extentOf(*inputs.arguments[instruction.argument], instruction.dim) !=
              extentOf(*inputs.arguments[instruction.otherArgument], instruction.otherDim) &&
          !isOneAbsent(uint64_t(instruction.value), inputs))
        return false;
      continue;
    default:
      break;
    }
    int64_t b = *--top, a = top[-1];
    int64_t &number = top[-1];
    switch (instruction.op) {
    case Op::Add:
      if (__builtin_add_overflow(a, b, &number))
        return false;
      continue;
    case Op::Sub:
      if (__builtin_sub_overflow(a, b, &number))
        return false;
      continue;
    case Op::Mul:
      if (__builtin_mul_overflow(a, b, &number))
        return false;
      continue;
    case Op::CeilDiv:
    case Op::FloorDiv:
    case Op::Mod: {
      if (b <= 0) // rare: the tree knows all signs
        return false;
      // Of nonnegative numbers the narrow division takes a third of the time.
      int64_t quotient, remainder;
      if (uint64_t(a | b) <= std::numeric_limits<uint32_t>::max()) {
        quotient = uint32_t(a) / uint32_t(b);
        remainder = uint32_t(a) % uint32_t(b);
      } else {
        quotient = a / b;
        remainder = a % b;
      }
      if (instruction.op == Op::CeilDiv)
        number = quotient + (remainder > 0);
      else if (instruction.op == Op::FloorDiv)
        number = quotient - (remainder < 0);
      else
        number = remainder < 0 ? remainder + b : remainder;
      continue;
    }
    case Op::Min:
      number = std::min(a, b);
      continue;
    case Op::Max:
      number = std::max(a, b);
      continue;
    case Op::Less:
      number = a < b;
      continue;
    case Op::LessEqual:
      number = a <= b;
      continue;
    case Op::Greater:
      number = a > b;
      continue;
    case Op::GreaterEqual:
      number = a >= b;
      continue;
    case Op::Equal:
      number = a == b;
      continue;
    case Op::LessReal:
      number = toReal(a) < toReal(b);
      continue;
    case Op::LessEqualReal:
      number = toReal(a) <= toReal(b);
      continue;
    case Op::GreaterReal:
      number = toReal(a) > toReal(b);
      continue;
    case Op::GreaterEqualReal:
      number = toReal(a) >= toReal(b);
      continue;
    case Op::EqualReal:
      number = toReal(a) == toReal(b);
      continue;
    case Op::NotEqualReal:
      number = toReal(a) != toReal(b);
      continue;
    default:
      number = a != b;
      continue;
    }
  }
  if (top != stack)
    result = top[-1];
  return true;
}
