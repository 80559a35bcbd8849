// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-verify-sync: evaluates the scalar arithmetic of loop bounds and use numbers.

#include "passes/Tgpu/VerifySync.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

std::optional<int64_t> sync::evaluateScalar(Operation *op, int64_t a, int64_t b) {
  constexpr int64_t least = std::numeric_limits<int64_t>::min();
  bool divides = b != 0 && !(a == least && b == -1);
  auto wrap = [](uint64_t value) { return static_cast<int64_t>(value); };
  uint64_t ua = a, ub = b;
  unsigned width = op->getOperand(0).getType().getIntOrFloatBitWidth();
  uint64_t mask = width < 64 ? (uint64_t(1) << width) - 1 : ~uint64_t(0);
  ua &= mask, ub &= mask;
  return TypeSwitch<Operation *, std::optional<int64_t>>(op)
      .Case<arith::AddIOp>([&](auto) { return wrap(uint64_t(a) + uint64_t(b)); })
      .Case<arith::SubIOp>([&](auto) { return wrap(uint64_t(a) - uint64_t(b)); })
      .Case<arith::MulIOp>([&](auto) { return wrap(uint64_t(a) * uint64_t(b)); })
      .Case<arith::AndIOp>([&](auto) { return a & b; })
      .Case<arith::OrIOp>([&](auto) { return a | b; })
      .Case<arith::XOrIOp>([&](auto) { return a ^ b; })
      .Case<arith::MinSIOp>([&](auto) { return std::min(a, b); })
      .Case<arith::MaxSIOp>([&](auto) { return std::max(a, b); })
      .Case<arith::MinUIOp>([&](auto) { return wrap(std::min(ua, ub)); })
      .Case<arith::MaxUIOp>([&](auto) { return wrap(std::max(ua, ub)); })
      .Case<arith::CmpIOp>([&](arith::CmpIOp cmp) -> int64_t {
        APInt x(width, ua), y(width, ub);
        return arith::applyCmpPredicate(cmp.getPredicate(), x, y) ? -1 : 0;
      })
      .Case<arith::DivSIOp, arith::RemSIOp, arith::DivUIOp, arith::RemUIOp, arith::CeilDivSIOp,
            arith::CeilDivUIOp, arith::FloorDivSIOp>([&](auto) -> std::optional<int64_t> {
        if (!divides || ub == 0)
          return std::nullopt;
        if (isa<arith::DivSIOp>(op))
          return a / b;
        if (isa<arith::RemSIOp>(op))
          return a % b;
        if (isa<arith::DivUIOp>(op))
          return wrap(ua / ub);
        if (isa<arith::RemUIOp>(op))
          return wrap(ua % ub);
        if (isa<arith::CeilDivUIOp>(op))
          return wrap(llvm::divideCeil(ua, ub));
        int64_t quotient = a / b, rest = a % b;
        bool isNegative = (a < 0) != (b < 0);
        if (isa<arith::CeilDivSIOp>(op))
          return quotient + (rest != 0 && !isNegative);
        return quotient - (rest != 0 && isNegative);
      })
      .Case<arith::ShLIOp, arith::ShRSIOp, arith::ShRUIOp>([&](auto) -> std::optional<int64_t> {
        if (ub >= width)
          return std::nullopt;
        if (isa<arith::ShLIOp>(op))
          return wrap(uint64_t(a) << ub);
        return isa<arith::ShRSIOp>(op) ? a >> ub : wrap(ua >> ub);
      })
      .Case<arith::ExtUIOp>([&](auto) { return wrap(ua); })
      .Case<arith::ExtSIOp, arith::TruncIOp>([&](auto) { return a; })
      .Default([](Operation *) { return std::nullopt; });
}
