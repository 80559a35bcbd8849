// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Typed access to discardable attributes, by which a pass tells later ones what it decided. One
// object defines each: its name, the class of its value, and the operations that may have it.

#ifndef TILEWRIGHT_DIALECT_TILE_DISCARDABLE_H
#define TILEWRIGHT_DIALECT_TILE_DISCARDABLE_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

#include <optional>

namespace mlir::arith {
class MulFOp;
} // namespace mlir::arith
namespace mlir::func {
class FuncOp;
} // namespace mlir::func
namespace mlir::scf {
class ForOp;
class IfOp;
} // namespace mlir::scf

namespace tilewright {

struct I64Attr : mlir::IntegerAttr {
  using IntegerAttr::IntegerAttr;
  static constexpr llvm::StringLiteral name = "i64";
  static bool classof(mlir::Attribute value);
  static I64Attr get(mlir::MLIRContext *context, int64_t number);
};

struct StringsAttr : mlir::ArrayAttr {
  using ArrayAttr::ArrayAttr;
  static constexpr llvm::StringLiteral name = "array of strings";
  static bool classof(mlir::Attribute value);
};

/// Its spelling, since the class covers arrays of other numbers, too.
struct I64sAttr : mlir::DenseI64ArrayAttr {
  using DenseArrayAttrImpl::DenseArrayAttrImpl;
  static constexpr llvm::StringLiteral name = "array<i64: ...>";
};

/// The error that an attribute must \p rule one of \p allowed.
mlir::LogicalResult rejectDiscardable(mlir::Operation *op, llvm::StringRef name,
                                      llvm::StringRef rule, llvm::ArrayRef<llvm::StringRef> allowed,
                                      mlir::Attribute got);

/// A discardable attribute of class AttrT, on an operation of OpTs; if there are none, on any. OpTs
/// may be incomplete where it is not verified.
template <typename AttrT, typename... OpTs> struct DiscardableAttr {
  llvm::StringLiteral name;

  bool isOn(mlir::Operation *op) const { return static_cast<bool>(get(op)); }
  AttrT get(mlir::Operation *op) const {
    return mlir::dyn_cast_or_null<AttrT>(op->getDiscardableAttr(name));
  }
  void set(mlir::Operation *op, AttrT value) const { op->setDiscardableAttr(name, value); }
  /// From the arguments of AttrT::get: none for a unit.
  template <typename... Args> void set(mlir::Operation *op, Args &&...args) const {
    set(op, mlir::cast<AttrT>(AttrT::get(op->getContext(), std::forward<Args>(args)...)));
  }
  AttrT remove(mlir::Operation *op) const {
    return mlir::dyn_cast_or_null<AttrT>(op->removeDiscardableAttr(name));
  }

  /// The same on a result of a function.
  template <typename FuncT> AttrT getOfResult(FuncT function, unsigned result) const {
    return function.template getResultAttrOfType<AttrT>(result, name);
  }
  template <typename FuncT, typename... Args>
  void setOfResult(FuncT function, unsigned result, Args &&...args) const {
    function.setResultAttr(result, name, AttrT::get(function.getContext(), args...));
  }

  mlir::LogicalResult verify(mlir::Operation *op, mlir::NamedAttribute attribute) const {
    if (sizeof...(OpTs) > 0 && !(mlir::isa<OpTs>(op) || ...))
      return rejectDiscardable(op, name, "be on", {OpTs::getOperationName()...},
                               op->getName().getIdentifier());
    if constexpr (!std::is_same_v<AttrT, mlir::Attribute>)
      if (!mlir::isa<AttrT>(attribute.getValue()))
        return rejectDiscardable(op, name, "be of kind", {AttrT::name}, attribute.getValue());
    return mlir::success();
  }
};
template <typename... OpTs> using UnitMark = DiscardableAttr<mlir::UnitAttr, OpTs...>;

/// Verifies an attribute of a dialect, of which these are all.
template <typename... Defs>
mlir::LogicalResult verifyDiscardable(mlir::Operation *op, mlir::NamedAttribute attribute,
                                      const Defs &...all) {
  std::optional<mlir::LogicalResult> result;
  ((attribute.getName() == all.name && (result = all.verify(op, attribute))) || ...);
  return result
             ? *result
             : rejectDiscardable(op, attribute.getName(), "be", {all.name...}, attribute.getName());
}

} // namespace tilewright

#endif // TILEWRIGHT_DIALECT_TILE_DISCARDABLE_H
