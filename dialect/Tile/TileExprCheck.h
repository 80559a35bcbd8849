// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kinds of expressions: shared by the verifiers of kernels, programs and parameters.

#ifndef TILEWRIGHT_DIALECT_TILE_TILEEXPRCHECK_H
#define TILEWRIGHT_DIALECT_TILE_TILEEXPRCHECK_H

#include "dialect/Tile/Tile.h"

namespace tilewright::tile {

/// The values that an expression may read besides literals.
enum class ExprScope {
  Parameters, ///< parameters of the signature
  Default,    ///< also which functions linked files replace
  Launch,     ///< parameters, argument shapes, scalar arguments and the device
  Let,        ///< what Default and Launch may read: derived parameters of programs
  Constraint, ///< all of these, and shapes of captures
};

/// Checks names, positions and operand kinds, and returns the kind of the value (Int, Flag, Enum or
/// Type); ExprKind::Name where it depends on a parameter that is not known here. A null
/// `signature` stands for a scalar function, whose parameters are those of the kernel that reaches
/// it.
mlir::FailureOr<ExprKind> checkExpr(mlir::Operation *op, ExprAttr expr, const Signature *signature,
                                    ExprScope scope, llvm::StringRef what);

/// As above; the value must also be of kind `wanted`.
mlir::LogicalResult checkExprKind(mlir::Operation *op, ExprAttr expr, const Signature *signature,
                                  ExprScope scope, llvm::StringRef what, ExprKind wanted);

/// As above for an expression over the parameters of the kernel around `op`; in a function, of any
/// kernel that reaches it. A null `expr` is valid.
mlir::LogicalResult checkParameterExpr(mlir::Operation *op, ExprAttr expr, llvm::StringRef what,
                                       ExprKind wanted);

/// Whether a derived parameter of a program depends on arguments or the device, directly or through
/// other parameters: then each launch computes it, and only conditions of launches, extents of
/// workspaces, constraints and other such parameters may read it.
bool isOfLaunch(const Signature &signature, ParamDeclAttr param);

/// The constraints and the defaults of arguments: kinds, and names of what is declared.
mlir::LogicalResult verifyConstraints(const Signature &signature);
mlir::LogicalResult verifyDefaults(const Signature &signature);

/// Whether `op`, in the body of a program, may pass the value for argument `i` of a kernel or
/// program.
mlir::LogicalResult checkArgument(mlir::Operation *op, const Signature &callee, unsigned i,
                                  mlir::Value value);

/// For a call or launch that passes arguments by name, the value for each argument of the callee:
/// that of its name, else the caller's argument of that name. It is null if a program's view is
/// absent. An error is emitted if an argument has no value, or one of another type.
mlir::FailureOr<llvm::SmallVector<mlir::Value>> matchByName(mlir::Operation *op,
                                                            const Signature &callee,
                                                            mlir::OperandRange args,
                                                            mlir::ArrayAttr names);

/// "it has a, b" or "it has none", for a list of names or of parameters.
std::string listNames(mlir::ArrayAttr names);

/// Whether the names of a call or launch are as many strings as arguments, and no two are the same.
mlir::LogicalResult verifyArgumentNames(mlir::Operation *op, mlir::OperandRange args,
                                        mlir::ArrayAttr names);

/// Types name parameters that the signature declares. Before the operations of the body are
/// verified: there a mistyped name is a mismatch of types.
mlir::LogicalResult verifyNamesAreDeclared(const Signature &signature);

/// An expression of a signature that is being parsed, and its place.
struct Clause {
  llvm::SMLoc loc;
  ExprAttr expr;
  ExprScope scope; ///< Launch for a grid extent, or Constraint
};

/// Checks what the verifier would, which knows the place of the whole operation only.
mlir::ParseResult checkClauses(mlir::OpAsmParser &parser, const mlir::OperationState &parsed,
                               llvm::ArrayRef<mlir::OpAsmParser::Argument> arguments,
                               llvm::ArrayRef<Clause> clauses);

/// A function of scalars is mapped over tiles, not called with them: func.call says only that types
/// differ. The scope need not have been verified.
mlir::LogicalResult verifyCallsOfScalars(mlir::Operation *scope,
                                         mlir::SymbolTableCollection &symbols);

/// Parameters, constraints and arguments of a kernel or program: names, kinds, cycles.
mlir::LogicalResult verifySignature(const Signature &signature,
                                    llvm::ArrayRef<mlir::Attribute> gridNames);

} // namespace tilewright::tile

#endif // TILEWRIGHT_DIALECT_TILE_TILEEXPRCHECK_H
