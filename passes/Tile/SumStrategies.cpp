// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the option --sums.

#include "passes/Tile/SumStrategies.h"

using namespace mlir;
using namespace tilewright;

FailureOr<SumStrategies> SumStrategies::parse(StringRef text,
                                              llvm::function_ref<InFlightDiagnostic()> emitError) {
  SumStrategies result;
  SmallVector<StringRef> strategies;
  text.split(strategies, ',');
  for (StringRef strategy : strategies) {
    StringRef number = strategy;
    if (strategy == "whole" || strategy == "apart") {
      result.apart = strategy;
    } else if (strategy == "ordered" || strategy == "unordered") {
      result.order = strategy;
    } else if (number.consume_front("shares=")) {
      if (number.getAsInteger(10, result.shares) || result.shares < 1 ||
          result.shares > mostShares) {
        emitError() << "the shares of a loop must be from 1 to " << mostShares << ", but got '"
                    << number << "'";
        return failure();
      }
    } else if (strategy != "auto") {
      emitError() << "strategies of sums must be auto, whole, apart, ordered, unordered or "
                     "shares=N, but got '"
                  << strategy << "'";
      return failure();
    }
  }
  return result;
}
