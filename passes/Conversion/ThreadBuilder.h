// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The builder of the code of one thread: constants, arithmetic that folds, LLVM's operations, and
// the threads for which the code is written. Internal to convert-tgpu-to-nvvm.

#ifndef TILEWRIGHT_PASSES_CONVERSION_THREADBUILDER_H
#define TILEWRIGHT_PASSES_CONVERSION_THREADBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <map>
#include <string>
#include <vector>

namespace tilewright::tgpu {

/// Scalars of one thread, such as one for each register of a tile.
using Values = llvm::SmallVector<mlir::Value>;

class ThreadBuilder : public mlir::ImplicitLocOpBuilder {
public:
  using ImplicitLocOpBuilder::ImplicitLocOpBuilder;

  /// The threads that execute the emitted code: those of the block, or of a role, in which they are
  /// counted from 0.
  struct Threads {
    int64_t numWarps = 0;
    int64_t first = 0;              ///< number of the first thread in the block
    mlir::Value thread, warp, lane; ///< numbers, i32; warp and lane of this thread
    /// The code before it is computed once, at the entry of the kernel or the role.
    mlir::Operation *endOfEntry = nullptr;
    llvm::DenseMap<mlir::Attribute, mlir::Value> constants;
    /// Results of getThreadNumber, by their values for each warp and lane.
    std::map<std::vector<int64_t>, mlir::Value> numbers;
  };
  Threads threads;

  //===--- Constants, which are shared, and arithmetic, which folds them ---===//

  mlir::Value i32(int64_t value);
  mlir::Value i64(int64_t value);
  mlir::Value constant(mlir::TypedAttr value);
  mlir::Value zero(mlir::Type type);
  mlir::Value add(mlir::Value x, mlir::Value y);
  mlir::Value mul(mlir::Value x, mlir::Value y);
  mlir::Value conjunction(mlir::Value x, mlir::Value y); ///< null means true
  mlir::Value less(mlir::Value x, mlir::Value y);        ///< unsigned
  mlir::Value equal(mlir::Value x, mlir::Value y);
  mlir::Value notEqual(mlir::Value x, mlir::Value y);
  mlir::Value toI64(mlir::Value x); ///< signed
  mlir::Value toU64(mlir::Value x); ///< unsigned
  mlir::Value bitcast(mlir::Value value, mlir::Type type);

  //===--- Pointers, vectors, words ----------------------------------------===//

  mlir::Value advance(mlir::Value pointer, mlir::Value bytes);
  mlir::Value advance(mlir::Value pointer, int64_t bytes);
  mlir::Value vectorOf(mlir::ArrayRef<mlir::Value> elements);
  mlir::Value extract(mlir::Value aggregate, int64_t index);
  /// Words, and their elements, which are no wider.
  Values packWords(mlir::ArrayRef<mlir::Value> elements, unsigned wordBits = 32);
  Values unpackWords(mlir::ArrayRef<mlir::Value> words, mlir::Type element);

  //===--- Instructions ----------------------------------------------------===//

  mlir::Value intrinsic(llvm::StringRef name, mlir::Type result, mlir::ValueRange operands);
  void intrinsic(llvm::StringRef name, mlir::ValueRange operands);
  /// `result` is null if there is none.
  mlir::Value inlineAsm(llvm::StringRef text, llvm::StringRef constraints, mlir::Type result,
                        mlir::ValueRange operands);
  /// Inline assembly of f32, or of words, whose results are tied to its first operands.
  Values tiedAsm(llvm::StringRef text, llvm::StringRef moreConstraints,
                 mlir::ArrayRef<mlir::Value> tied, mlir::ValueRange more);
  /// The number of this thread, read here: it takes no register in loops before.
  mlir::Value readThread();
  /// The same for the number of its lane.
  mlir::Value readLane();
  /// Whether the condition holds in any lane of the warp; ptxas treats the result as uniform.
  mlir::Value voteAny(mlir::Value condition);
  /// A branch without results.
  void onlyIf(mlir::Value condition, llvm::function_ref<void()> body);
};

/// "$2, $3": operands of inline assembly, starting at `first`.
std::string operandList(size_t first, size_t count, llvm::StringRef separator = ", ");

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_CONVERSION_THREADBUILDER_H
