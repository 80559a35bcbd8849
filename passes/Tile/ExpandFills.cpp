// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels that store one value everywhere. An argument may have any strides, so that no copy engine
// can fill it in general; and a launch is what every device and every later pass knows.

#include "passes/Tile/ExpandFills.h"

#include "dialect/Tile/Tile.h"
#include "dialect/Tile/TileExpr.h"
#include "passes/Tile/LaunchNames.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

/// What an instance fills: of a view of one dimension, and the last two of others.
static constexpr int64_t longBlock = 1024;
static constexpr int64_t blockRows = 16, blockColumns = 256;

/// The parameters that a view's type names, of which a launch gives the kernel the program's.
static ArrayAttr getTypeParams(Builder &b, ViewType type, const Signature &program) {
  llvm::SetVector<StringRef> names;
  for (const Dim &dim : getDims(type))
    if (dim.isSymbol())
      names.insert(dim.symbol.getValue());
  if (auto element = dyn_cast<ParamType>(type.getElementType()))
    names.insert(element.getName());
  SmallVector<Attribute> params;
  for (StringRef name : names)
    if (ParamDeclAttr param =
            program.findParam(name)) // else the verifier of the program reports it
      params.push_back(ParamDeclAttr::get(b.getContext(), name, param.getKind(), param.getAllowed(),
                                          ExprAttr(), /*derived=*/false));
  return b.getArrayAttr(params);
}

static KernelOp makeFillKernel(FillOp fill, StringRef argument, bool isOptional,
                               SymbolTable &symbols) {
  auto program = fill->getParentOfType<ProgramOp>();
  Signature signature(program);
  auto type = cast<ViewType>(fill.getView().getType());
  MLIRContext *context = fill.getContext();
  Location loc = fill.getLoc();
  OpBuilder b(context);
  int64_t rank = type.getRank();
  std::string view = argument.str();
  while (signature.findParam(view))
    view += '_';

  // The ids of blocks, last dimension first, then of the other dimensions.
  SmallVector<int64_t> shape =
      rank == 1 ? SmallVector<int64_t>{longBlock} : SmallVector<int64_t>{blockRows, blockColumns};
  int64_t blocked = static_cast<int64_t>(shape.size());
  SmallVector<Attribute> gridNames, grid;
  auto addId = [&](int64_t dim, ExprAttr extent) {
    std::string name = "at" + std::to_string(dim);
    while (signature.findParam(name) || name == view)
      name += '_';
    gridNames.push_back(b.getStringAttr(name));
    grid.push_back(extent);
  };
  for (int64_t dim = rank - 1; dim >= rank - blocked; --dim)
    addId(dim, makeCall(context, expr::Function::CeilDiv,
                        {makeDim(context, view, dim),
                         ExprAttr::getInt(context, shape[dim - (rank - blocked)])}));
  for (int64_t dim = rank - blocked - 1; dim >= 0; --dim)
    addId(dim, makeDim(context, view, dim));

  auto kernel = KernelOp::create(
      b, loc, b.getStringAttr("fill_" + argument), getTypeParams(b, type, signature),
      b.getArrayAttr({}), b.getArrayAttr({b.getStringAttr(view)}),
      b.getDenseBoolArrayAttr({isOptional}), b.getArrayAttr(gridNames), b.getArrayAttr(grid),
      DictionaryAttr(), DictionaryAttr(), DictionaryAttr());
  symbols.insert(kernel, std::next(program->getIterator()));
  Block &body = kernel.getBody().emplaceBlock();
  body.addArgument(type, loc);
  for (int64_t i = 0; i < rank; ++i)
    body.addArgument(b.getI32Type(), loc);

  b.setInsertionPointToStart(&body);
  SmallVector<Dim> dims;
  for (int64_t extent : shape)
    dims.push_back({extent, StringAttr()});
  Type tile = makeTile(context, dims, type.getElementType(), /*symbolicForm=*/true);
  Value values = ConstantOp::create(b, loc, tile, fill.getValue());
  SmallVector<Value> indices(llvm::reverse(kernel.getGridIds()));
  for (int64_t i = 0; i < blocked; ++i) {
    Value &index = indices[rank - blocked + i];
    Value extent = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(shape[i]));
    index = arith::MulIOp::create(b, loc, index, extent);
  }
  SmallVector<int64_t> dynamic(rank, ShapedType::kDynamic);
  StoreOp::create(b, loc, values, body.getArgument(0), indices, dynamic, DenseI64ArrayAttr());
  return kernel;
}

void tilewright::expandFills(ModuleOp module) {
  SymbolTable symbols(module);
  SmallVector<FillOp> fills;
  module.walk([&](FillOp fill) { fills.push_back(fill); });
  for (FillOp fill : fills) {
    Signature program(fill->getParentOp());
    auto argument = dyn_cast<BlockArgument>(fill.getView());
    StringRef name = argument
                         ? cast<StringAttr>(program.argNames[argument.getArgNumber()]).getValue()
                         : "workspace";
    bool isOptional = argument && program.mayBeAbsent(argument.getArgNumber());
    KernelOp kernel = makeFillKernel(fill, name, isOptional, symbols);
    OpBuilder b(fill);
    LaunchOp::create(b, fill.getLoc(), kernel.getSymName(), ValueRange{fill.getView()},
                     b.getArrayAttr({}), b.getArrayAttr({}), fill.getConditionAttr(), ArrayAttr());
    fill.erase();
  }
}
