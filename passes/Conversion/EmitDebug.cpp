// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile.print and tile.assert, in code with --debug-ops: calls of functions that the driver links to
// the code when it loads it.
//
//   vprintf(format, values)       appends to a buffer that the host prints when it synchronizes
//   __assertfail(message, ...)    prints file, line, block and thread, and ends the launch with
//                                 CUDA_ERROR_ASSERT
//
// ptxas lets no wgmma run across a call: it waits for each of them in such code.

#include "passes/Conversion/ElementOps.h"
#include "passes/Conversion/KernelEmitter.h"
#include "passes/Conversion/LoweringTable.h"
#include "passes/Conversion/ThreadCoords.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using layout::RegisterLayout;

namespace {

/// The values of calls of vprintf, as the members of a struct of C, in the thread's memory: one
/// buffer for all calls.
struct PrintBuffer {
  LLVM::AllocaOp buffer;
  int64_t words = 0; ///< of 8 bytes
};

/// A line of output in the making.
class Line {
public:
  Line(KernelEmitter &e, Operation *op) : e(e), b(e.b) {
    StringRef kernel = StringRef(e.kernel.getSymName()).split('.').first;
    append("@" + kernel.str());
    auto names = op->getAttrOfType<ArrayAttr>(tile::PrintOp::getInstanceName());
    ValueRange ids = isa<tile::AssertOp>(op) ? ValueRange(cast<tile::AssertOp>(op).getInstance())
                                             : ValueRange(op->getOperands());
    if (names && names.size() <= ids.size())
      for (auto [name, id] : llvm::zip(names.getAsRange<StringAttr>(), ids)) {
        append((" " + name.getValue() + " = ").str());
        append("%d", e.getScalar(id));
      }
    append(": ");
  }

  void append(StringRef text) {
    for (char c : text)
      format += c == '%' ? std::string("%%") : std::string(1, c);
  }
  void append(StringRef conversion, Value value) {
    format += conversion;
    values.push_back(value);
  }
  /// An element or scalar of the type, with all digits that tell its values apart.
  void append(Value value, Type type) {
    if (isa<FloatType>(type)) {
      Type wide = type.isF64() ? type : Type(b.getF32Type());
      value = castElements(b, value, type, wide).front();
      if (!type.isF64())
        value = arith::ExtFOp::create(b, b.getF64Type(), value);
      append(type.isF64() ? "%.17g" : "%.9g", value);
      return;
    }
    unsigned bits = value.getType().getIntOrFloatBitWidth();
    if (bits == 1)
      value = arith::ExtUIOp::create(b, b.getI32Type(), value);
    else if (bits < 32)
      value = arith::ExtSIOp::create(b, b.getI32Type(), value);
    append(bits == 64 ? "%lld" : "%d", value);
  }
  /// "[3, 4]" of the element at these positions of a tile.
  void appendPlace(const RegisterLayout &layout, ArrayRef<int64_t> shape, Value row, Value column) {
    Values indices;
    if (layout.rank() == 1) {
      indices.push_back(row);
    } else {
      indices = splitRow(b, row, shape);
      indices.push_back(column);
    }
    for (auto [i, index] : llvm::enumerate(indices)) {
      append(i ? ", " : "[");
      append("%d", index);
    }
    append("]");
  }

  void write() {
    append("\n");
    SmallVector<int64_t> offsets;
    int64_t end = 0;
    for (Value value : values) {
      int64_t bytes = value.getType().getIntOrFloatBitWidth() / 8;
      offsets.push_back(static_cast<int64_t>(llvm::alignTo(end, bytes)));
      end = offsets.back() + bytes;
    }
    Value buffer = getBuffer(std::max<int64_t>(llvm::divideCeil(end, 8), 1));
    for (auto [value, offset] : llvm::zip_equal(values, offsets))
      LLVM::StoreOp::create(b, value, b.advance(buffer, offset));
    Type pointer = LLVM::LLVMPointerType::get(b.getContext());
    auto vprintf = getFunction(e, "vprintf", b.getI32Type(), {pointer, pointer});
    LLVM::CallOp::create(b, vprintf, ValueRange{getText(e, format), buffer});
  }

  /// A constant with the text, as a generic pointer. Equal texts are one constant.
  static Value getText(KernelEmitter &e, StringRef text) {
    ThreadBuilder &b = e.b;
    LLVM::GlobalOp global;
    unsigned count = 0;
    StringAttr value = b.getStringAttr(text + StringRef("\0", 1));
    for (auto known : e.module.getOps<LLVM::GlobalOp>()) {
      count += known.getSymName().starts_with(textPrefix);
      if (known.getValueAttr() == value)
        global = known;
    }
    if (!global) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(e.module.getBody());
      auto type = LLVM::LLVMArrayType::get(b.getI8Type(), value.size());
      global = LLVM::GlobalOp::create(b, type, /*isConstant=*/true, LLVM::Linkage::Internal,
                                      (textPrefix + Twine(count)).str(), value,
                                      /*alignment=*/1, globalSpace);
    }
    Value address = LLVM::AddressOfOp::create(b, global);
    return LLVM::AddrSpaceCastOp::create(b, LLVM::LLVMPointerType::get(b.getContext()), address);
  }

  /// A function that the driver defines.
  static LLVM::LLVMFuncOp getFunction(KernelEmitter &e, StringRef name, Type result,
                                      ArrayRef<Type> operands) {
    if (auto known = e.module.lookupSymbol<LLVM::LLVMFuncOp>(name))
      return known;
    OpBuilder::InsertionGuard guard(e.b);
    e.b.setInsertionPointToStart(e.module.getBody());
    return LLVM::LLVMFuncOp::create(e.b, name, LLVM::LLVMFunctionType::get(result, operands));
  }

private:
  Value getBuffer(int64_t words) {
    auto &state = e.state<PrintBuffer>();
    if (!state.buffer) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(&e.func.getBody().front());
      Value count = LLVM::ConstantOp::create(b, b.getI64Type(), b.getI64IntegerAttr(0));
      state.buffer = LLVM::AllocaOp::create(b, LLVM::LLVMPointerType::get(b.getContext()),
                                            b.getI64Type(), count, /*alignment=*/8);
    }
    if (words > state.words) {
      state.words = words;
      auto count = state.buffer.getArraySize().getDefiningOp<LLVM::ConstantOp>();
      count.setValueAttr(b.getI64IntegerAttr(words));
    }
    return state.buffer;
  }

  static constexpr llvm::StringLiteral textPrefix = "debug_text_";
  static constexpr unsigned globalSpace = 1;

  KernelEmitter &e;
  ThreadBuilder &b;
  std::string format;
  Values values;
};

bool isTileValue(Value value) { return isa<RankedTensorType>(value.getType()); }

/// The place of an element among those of a tile in row-major order.
int64_t getOrder(const RegisterLayout &layout, layout::Coord at) {
  return layout.rank() == 1 ? at[0] : at[0] * layout.shape().back() + at[1];
}

} // namespace

/// A called function takes registers that a role which copies has given away.
static LogicalResult checkRole(KernelEmitter &e, Operation *op) {
  if (!e.role)
    return success();
  auto roles = cast<RolesOp>(e.role->getParentOp());
  // The first role of a warpgroup says how many registers it has.
  size_t first = 0;
  int64_t end = 0;
  for (size_t i = 0; i < e.role->getRegionNumber(); ++i) {
    end += roles.getWarps()[i];
    if (end % Target::warpsOfGroup == 0)
      first = i + 1;
  }
  int64_t registers = roles.getRegisters()[first];
  int64_t least =
      std::min(Target::getRegistersAtEntry(e.kernel.getWarps()), Target::mostRoleRegisters);
  if (registers == 0 || registers >= least)
    return success();
  return op->emitOpError()
         << "must be in a role of at least " << least
         << " registers, since it calls a function, but got " << registers
         << "; move it to a role that computes, or run the kernel on the simulator";
}

/// Code for one of the threads that execute the operation.
static void onlyOnce(KernelEmitter &e, llvm::function_ref<void()> body) {
  if (e.isOneThread)
    return body();
  e.b.onlyIf(e.b.equal(e.b.readThread(), e.b.i32(0)), body);
}

static LogicalResult printTile(KernelEmitter &e, tile::PrintOp op, Value tile, StringRef text) {
  ThreadBuilder &b = e.b;
  auto type = cast<RankedTensorType>(tile.getType());
  const RegisterLayout *layout = e.getLayout(op, type);
  if (!layout)
    return failure();
  Values elements = e.getElements(tile);
  int64_t count = type.getNumElements(), limit = op.getLimitFor(count);
  Value isMine = isCanonicalThread(b, *layout);
  bool hasColumns = layout->rank() == 2;
  auto printAll = [&] {
    for (auto [i, element] : llvm::enumerate(elements)) {
      int reg = static_cast<int>(i);
      if (!isCanonicalRegister(*layout, reg) ||
          getOrder(*layout, layout->registerPart(reg)) >= limit)
        continue;
      Value row = getCoord(b, *layout, 0, reg);
      Value column = hasColumns ? getCoord(b, *layout, 1, reg) : Value();
      auto printOne = [&, element = element] {
        Line line(e, op);
        line.append(text);
        line.append(" ");
        line.appendPlace(*layout, type.getShape(), row, column);
        line.append(" ");
        line.append(element, type.getElementType());
        line.write();
      };
      if (limit == count) {
        printOne();
        continue;
      }
      Value order = hasColumns ? b.add(b.mul(row, b.i32(type.getShape().back())), column) : row;
      b.onlyIf(b.less(order, b.i32(limit)), printOne);
    }
  };
  if (isMine)
    b.onlyIf(isMine, printAll);
  else
    printAll();
  return success();
}

static LogicalResult emitPrint(KernelEmitter &e, tile::PrintOp op) {
  if (failed(checkRole(e, op)))
    return failure();
  ValueRange values = op.getValues().drop_front(op.getInstanceNames().size());
  auto tiles = llvm::count_if(values, isTileValue);
  if (tiles == 0 || tiles < static_cast<int64_t>(values.size()))
    onlyOnce(e, [&] {
      Line line(e, op);
      line.append(op.getText());
      for (Value value : values)
        if (!isTileValue(value)) {
          line.append(" ");
          line.append(e.getScalar(value), value.getType());
        }
      line.write();
    });
  for (auto [i, value] : llvm::enumerate(values)) {
    // The number tells lines of several tiles apart, which mix.
    std::string text = op.getText().str();
    if (values.size() > 1)
      text += " #" + std::to_string(i);
    if (isTileValue(value) && failed(printTile(e, op, value, text)))
      return failure();
  }
  return success();
}

/// Ends the launch. `line` has no end yet.
static void failAssertion(KernelEmitter &e, tile::AssertOp op, Line &line) {
  ThreadBuilder &b = e.b;
  StringRef file = "<unknown>";
  int64_t number = 0;
  if (auto place = op->getAttrOfType<StringAttr>(tile::AssertOp::getPlaceName())) {
    auto parts = place.getValue().rsplit(':');
    if (!parts.second.getAsInteger(10, number))
      file = parts.first;
  }
  line.append((" (" + file + ":" + Twine(number) + ")").str());
  line.write();
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  auto fail = Line::getFunction(e, "__assertfail", LLVM::LLVMVoidType::get(b.getContext()),
                                {pointer, pointer, b.getI32Type(), pointer, b.getI64Type()});
  StringRef kernel = StringRef(e.kernel.getSymName()).split('.').first;
  auto text = [&](StringRef text) { return Line::getText(e, text); };
  Value message = text(op.getMessage()), name = text(file), function = text(kernel);
  LLVM::CallOp::create(
      b, fail, ValueRange{message, name, b.i32(number), function, b.i64(/*bytes of a char=*/1)});
  // It does not return, which ptxas does not know.
  b.inlineAsm("trap;", "~{memory}", nullptr, {});
}

static LogicalResult emitAssert(KernelEmitter &e, tile::AssertOp op) {
  if (failed(checkRole(e, op)))
    return failure();
  ThreadBuilder &b = e.b;
  Value condition = op.getCondition();
  std::string text = ("assertion fails: " + op.getMessage()).str();
  auto negated = [&](Value flag) {
    return arith::XOrIOp::create(b, flag, b.constant(b.getBoolAttr(true))).getResult();
  };
  if (!isTileValue(condition)) {
    Value fails = negated(e.getScalar(condition));
    onlyOnce(e, [&] {
      b.onlyIf(fails, [&] {
        Line line(e, op);
        line.append(text);
        failAssertion(e, op, line);
      });
    });
    return success();
  }
  auto type = cast<RankedTensorType>(condition.getType());
  const RegisterLayout *layout = e.getLayout(op, type);
  if (!layout)
    return failure();
  Values elements = e.getElements(condition);
  SmallVector<int> own;
  for (int reg = 0; reg < layout->registersPerThread(); ++reg)
    if (isCanonicalRegister(*layout, reg))
      own.push_back(reg);
  Value holds = elements[own.front()];
  for (int reg : ArrayRef(own).drop_front())
    holds = arith::AndIOp::create(b, holds, elements[reg]);
  Value fails = negated(holds), isMine = isCanonicalThread(b, *layout);
  b.onlyIf(b.conjunction(fails, isMine), [&] {
    // The first of the thread's elements that is false, by rows.
    llvm::sort(own,
               [&](int x, int y) { return layout->registerPart(x) < layout->registerPart(y); });
    bool hasColumns = layout->rank() == 2;
    Value row, column;
    for (int reg : llvm::reverse(own)) {
      auto choose = [&](int dim, Value &later) {
        Value here = getCoord(b, *layout, dim, reg);
        later = later ? arith::SelectOp::create(b, elements[reg], later, here).getResult() : here;
      };
      choose(0, row);
      if (hasColumns)
        choose(1, column);
    }
    Line line(e, op);
    line.append(text + "; the first element of a thread that is false is ");
    line.appendPlace(*layout, type.getShape(), row, column);
    failAssertion(e, op, line);
  });
  return success();
}

void tgpu::registerDebugLowerings(LoweringTable &table) {
  table.add<tile::PrintOp>(emitPrint);
  table.add<tile::AssertOp>(emitAssert);
}
