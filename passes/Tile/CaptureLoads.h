// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Replaces a mapped function's reads of a captured view, at the positions of the tile, by loads of
// tiles before the map and operands of the function.
//
// A read in a mapped function computes an address, and tests bounds, per element. A load knows
// which neighboring elements of the tile read neighboring elements of a view.

#ifndef TILEWRIGHT_PASSES_TILE_CAPTURELOADS_H
#define TILEWRIGHT_PASSES_TILE_CAPTURELOADS_H

#include "dialect/Tile/Tile.h"
#include "passes/Tile/TilePositions.h"

#include <map>
#include <optional>
#include <vector>

namespace tilewright {

/// A tile, row or column of a view that the elements of an operation read together.
struct CaptureLoad {
  mlir::Location loc;
  mlir::RankedTensorType whole; ///< of the shape and layout of the operation's result
  mlir::Value view;
  mlir::ArrayRef<mlir::Value> indices;
  mlir::ArrayRef<int64_t> staticIndices;
  mlir::DenseI64ArrayAttr dims;      ///< of the load; null for the last dimensions of the view
  mlir::ArrayRef<int64_t> wholeDims; ///< dimensions of `whole` along which the load lies
};

class CaptureLoads {
public:
  /// Emits a load along `wholeDims`.
  using Create = llvm::function_ref<mlir::Value(mlir::OpBuilder &, const CaptureLoad &)>;

  static void run(mlir::ModuleOp module, mlir::ArrayRef<tile::MapOp> maps, Create create);

private:
  CaptureLoads(mlir::ModuleOp module, Create create)
      : module(module), symbols(module), create(create) {}

  void run(tile::MapOp op);
  struct Read;
  mlir::func::FuncOp getFlat(mlir::func::FuncOp function);
  bool mayRead(mlir::func::FuncOp function);
  std::optional<Read> getRead(tile::AtOp at, const TilePositions &positions, int64_t rank);
  mlir::Value load(mlir::OpBuilder &b, tile::MapOp op, const Read &read, TilePositions &positions);
  mlir::func::FuncOp getRest(mlir::func::FuncOp function, mlir::func::FuncOp copy,
                             mlir::ArrayRef<Read> reads);

  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
  Create create;
  llvm::DenseMap<mlir::Operation *, mlir::func::FuncOp> flat; ///< null if it reads no view
  std::map<std::pair<mlir::Operation *, std::vector<unsigned>>, mlir::func::FuncOp> rests;
};

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_CAPTURELOADS_H
