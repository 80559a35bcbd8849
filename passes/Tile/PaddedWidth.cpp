// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of rules for padded widths. A tile must be at least as wide as the row of an array that
// it holds; what exceeds the row reads as zero and is not stored. Wider tiles cost time and
// registers, so each use of a width has the least padding that its instructions, and the warps that
// divide it, permit. A number in a rule changes the code of every kernel that names it.

#include "passes/Tile/PaddedWidth.h"

#include "dialect/Tile/TileExpr.h"
#include "passes/Tile/LaunchNames.h"

#include "mlir/AsmParser/AsmParser.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

/// Expressions over WIDTH, which is padded, BESIDE, the other width of the kernel, and TYPE, the
/// type of elements.
struct Rule {
  llvm::StringLiteral use;
  const char *rule;
  /// On targets with roles, if it differs there; ELSE is `rule`.
  const char *withRoles = nullptr;
};

/// 16 bytes of 16-bit elements, the unit of copies; the mapping pads the depth of products.
constexpr const char *padded = "ceildiv(WIDTH, 8) * 8";

constexpr Rule rules[] = {
    // The depth of a product of resident rows and streamed columns: a matrix instruction takes 16
    // columns, or 32 of 8 bits. Buffers for wgmma consist of panels of 64 columns; if fewer than 32
    // are missing, whole ones are faster (docs/design/roles.md, "Wide panels": D 104 by 112 columns
    // has 0.89 to 1.02 of 128), and if more are, only narrower ones.
    {"depth",
     "ceildiv(WIDTH, select(eq(bits(TYPE), 8), 32, 16)) * select(eq(bits(TYPE), 8), 32, 16)",
     "select(and(eq(bits(TYPE), 16), and(gt(WIDTH, 64), eq(mod(ceildiv(WIDTH, 32), 2), 0))), "
     "ceildiv(WIDTH, 64) * 64, ELSE)"},
    // The columns of a product's result: wgmma reads multiples of 8, from partly used panels.
    {"columns",
     "ceildiv(WIDTH, select(eq(bits(TYPE), 8), 32, 16)) * select(eq(bits(TYPE), 8), 32, 16)",
     "select(and(eq(bits(TYPE), 16), gt(WIDTH, 32)), ceildiv(WIDTH, 8) * 8, ELSE)"},
    // Of gradients, whose width is the depth of some products and the columns of others. For wide
    // ones, multiples of 32: with 16, copies are of boxes of 32 bytes, and roles do not divide them
    // (commit f6385312).
    {"gradients",
     "select(eq(bits(TYPE), 16), ceildiv(WIDTH, select(gt(max(WIDTH, BESIDE), 128), 32, 16)) * "
     "select(gt(max(WIDTH, BESIDE), 128), 32, 16), ceildiv(WIDTH, 8) * 8)"},
    // The same where it is also the number of rows of a transposed product, of which a matrix
    // instruction takes 16.
    {"gradient_rows",
     "select(eq(bits(TYPE), 16), ceildiv(WIDTH, select(gt(max(WIDTH, BESIDE), 128), 32, 16)) * "
     "select(gt(max(WIDTH, BESIDE), 128), 32, 16), ceildiv(WIDTH, 16) * 16)"},
    // Only these rows: with wgmma those of whole warpgroups (docs/design/sums.md, "dQ of widths
    // that are no multiple of 64").
    {"transposed_rows",
     "select(eq(bits(TYPE), 16), ceildiv(WIDTH, select(gt(max(WIDTH, BESIDE), 128), 32, 16)) * "
     "select(gt(max(WIDTH, BESIDE), 128), 32, 16), ceildiv(WIDTH, 16) * 16)",
     "select(and(eq(bits(TYPE), 16), gt(WIDTH, 64)), ceildiv(WIDTH, 64) * 64, ELSE)"},
    // The same where the other side has too few rows for two warpgroups, such as 64 queries: then
    // these have whole rows of both. D 64 with dropout by 64 queries has 1.28 of the speed of mma,
    // which adds to memory by itself.
    {"shared_rows",
     "select(eq(bits(TYPE), 16), ceildiv(WIDTH, select(gt(max(WIDTH, BESIDE), 128), 32, 16)) * "
     "select(gt(max(WIDTH, BESIDE), 128), 32, 16), ceildiv(WIDTH, 16) * 16)",
     "select(and(eq(bits(TYPE), 16), gt(WIDTH, 32)), ceildiv(max(WIDTH, 65), 64) * 64, ELSE)"},
    // The same where the result is added in order, which only a role can do, and only with an
    // accumulator of wgmma: two warpgroups need 128 rows on either side. Blocks of wide values
    // (BESIDE) have fewer on the other one.
    {"ordered_rows",
     "select(eq(bits(TYPE), 16), ceildiv(WIDTH, select(gt(max(WIDTH, BESIDE), 128), 32, 16)) * "
     "select(gt(max(WIDTH, BESIDE), 128), 32, 16), ceildiv(WIDTH, 16) * 16)",
     "select(and(eq(bits(TYPE), 16), gt(max(WIDTH, BESIDE), 64)), ceildiv(max(WIDTH, 65), 64) * "
     "64, "
     "ELSE)"},
    // The depth of a product in blocks that are too small for roles.
    {"scores",
     "ceildiv(WIDTH, select(eq(bits(TYPE), 16), 16, 8)) * select(eq(bits(TYPE), 16), 16, 8)"},
    // The rows of a sum, which the warps of a block divide.
    {"state", "select(le(WIDTH, 64), ceildiv(WIDTH, 16) * 16, ceildiv(WIDTH, 128) * 128)"},
    // Whole rows of an array in one tile, of which threads have equal shares: other widths spill
    // (docs/guide/tune.md).
    {"shares", "ceildiv(WIDTH, select(le(WIDTH, 64), 8, select(le(WIDTH, 2048), 256, 1024))) * "
               "select(le(WIDTH, 64), 8, select(le(WIDTH, 2048), 256, 1024))"},
};

ExprAttr parse(const char *text, MLIRContext *context) {
  return cast<ExprAttr>(parseAttribute(("#tile.expr<" + llvm::Twine(text) + ">").str(), context));
}

ExprAttr substitute(ExprAttr expr, llvm::function_ref<ExprAttr(StringRef)> find) {
  return rewriteExpr(expr, [&](ExprAttr part) {
    return part.getKind() == ExprKind::Name ? std::optional(find(part.getName())) : std::nullopt;
  });
}

} // namespace

ExprAttr tilewright::expandPaddedWidth(ExprAttr call, bool hasRoles) {
  MLIRContext *context = call.getContext();
  ArrayRef<ExprAttr> operands = call.getOperands();
  if (getFunction(call) == expr::Function::Padded)
    return substitute(parse(padded, context), [&](StringRef) { return operands.front(); });
  auto rule = llvm::find_if(
      rules, [&](const Rule &each) { return each.use == operands.front().getName(); });
  if (rule == std::end(rules))
    return {};
  auto find = [&](StringRef name) -> ExprAttr {
    return operands[name == "WIDTH" ? 1 : name == "BESIDE" ? 2 : 3];
  };
  ExprAttr otherwise = substitute(parse(rule->rule, context), find);
  if (!hasRoles || !rule->withRoles)
    return otherwise;
  return substitute(parse(rule->withRoles, context),
                    [&](StringRef name) { return name == "ELSE" ? otherwise : find(name); });
}

std::string tilewright::listPaddedWidths() {
  return llvm::join(llvm::map_range(rules, [](const Rule &rule) { return rule.use; }), ", ");
}
