// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reading, writing and resolving expressions.

#include "runtime/Expr.h"

#include "runtime/ArgumentSpec.h"

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

Status bad(std::string message) { return Status::failure(Code::BadBundle, std::move(message)); }

Status tooDeep() {
  return bad("an expression must have at most " + std::to_string(maxExprDepth) +
             " levels of nesting, but got level " + std::to_string(maxExprDepth + 1));
}

/// The traversal of resolveExpr.
class Resolver {
public:
  Resolver(const std::vector<std::pair<std::string, Expr>> &params,
           const std::vector<ArgumentSpec> &arguments, const std::string &where, bool isCondition)
      : params(params), arguments(arguments), where(where), isCondition(isCondition) {}

  Status resolve(Expr &expr, int depth) {
    if (depth > int(maxExprDepth))
      return tooDeep();
    if (expr.kind() == Expr::Kind::Name || expr.kind() == Expr::Kind::Dim)
      return resolveName(expr);
    if (expr.kind() == Expr::Kind::Real)
      return bad("an expression of " + where + " must have no float literal, but got " +
                 expr.toString());
    if (expr.kind() != Expr::Kind::Call)
      return Status::success();
    if (expr.function() >= expr::Function::Block)
      return bad("the functions in an expression of " + where +
                 " must be those that a run evaluates, but got '" +
                 std::string(rowOf(expr.function()).name) + "', which the compiler replaces");
    for (Expr &operand : expr.operands())
      if (Status status = resolve(operand, depth + 1); !status)
        return status;
    if (std::string rejection = checkCall(expr, arguments).rejection; !rejection.empty())
      return bad(where + " " + rejection + ", in '" + expr.toString() + "'");
    return Status::success();
  }

  static expr::CallKind checkCall(const Expr &expr, const std::vector<ArgumentSpec> &arguments) {
    expr::Kind kinds[3] = {};
    for (size_t i = 0; i < expr.operands().size(); ++i)
      kinds[i] = kindOf(expr.operands()[i], arguments);
    return expr::checkCall(expr.function(), kinds);
  }

private:
  Status resolveName(Expr &expr) {
    bool isName = expr.kind() == Expr::Kind::Name;
    const std::string &text = expr.text();
    if (isName)
      for (const auto &param : params)
        if (param.first == text) {
          Expr bound = param.second; // the value may be part of this expression
          expr = std::move(bound);
          return Status::success();
        }
    for (size_t i = 0; i < arguments.size(); ++i) {
      const ArgumentSpec &spec = arguments[i];
      if (spec.name != text)
        continue;
      expr.setArgument(int(i));
      if (isName) {
        bool isReal = spec.type == ElementType::F32 || spec.type == ElementType::F64;
        if (spec.isView || (isFloat(spec.type) && !(isReal && isCondition)))
          return bad("'" + text + "' in an expression of " + where + " must be a parameter or an " +
                     (isCondition ? "integer, f32 or f64 scalar" : "integer scalar") +
                     ", but got a " + (spec.isView ? "view" : "scalar") + " of " +
                     std::string(elementTypeName(spec.type)));
      } else if (!spec.isView || expr.value() < 0 || expr.value() >= int64_t(spec.extents.size())) {
        return bad("an expression of " + where + " must name a dimension of a view, but got '" +
                   expr.toString() + "'");
      }
      return Status::success();
    }
    return bad("an expression of " + where + " must name a parameter or an argument, but got '" +
               text + "'");
  }

  const std::vector<std::pair<std::string, Expr>> &params;
  const std::vector<ArgumentSpec> &arguments;
  const std::string &where;
  bool isCondition;
};

} // namespace

expr::Kind tilewright::runtime::kindOf(const Expr &expr,
                                       const std::vector<ArgumentSpec> &arguments) {
  switch (expr.kind()) {
  case Expr::Kind::Name: {
    ElementType type = arguments[size_t(expr.argument())].type;
    return isFloat(type)             ? Expr::Kind::Real
           : type == ElementType::I1 ? Expr::Kind::Flag
                                     : Expr::Kind::Integer;
  }
  case Expr::Kind::Dim:
    return Expr::Kind::Integer;
  case Expr::Kind::Call:
    return Resolver::checkCall(expr, arguments).kind;
  default:
    return expr.kind();
  }
}

Status tilewright::runtime::resolveExpr(Expr &expr, expr::Kind wanted,
                                        const std::vector<std::pair<std::string, Expr>> &params,
                                        const std::vector<ArgumentSpec> &arguments,
                                        const std::string &where, bool isCondition) {
  if (Status status = Resolver(params, arguments, where, isCondition).resolve(expr, 0); !status)
    return status;
  expr::Kind kind = kindOf(expr, arguments);
  if (kind == wanted)
    return Status::success();
  return bad("'" + expr.toString() + "' of " + where + " must be of kind " +
             std::string(expr::kindName(wanted)) + ", but got kind " +
             std::string(expr::kindName(kind)));
}

Result<Expr> tilewright::runtime::parseExpr(const Json &json, int depth) {
  if (depth > int(maxExprDepth))
    return tooDeep();
  if (json.kind == Json::Kind::Integer)
    return Expr::integer(json.number);
  if (json.kind == Json::Kind::Flag)
    return Expr::flag(json.truth);
  if (json.kind != Json::Kind::Array || json.items.empty() ||
      json.items[0].kind != Json::Kind::String)
    return bad("an expression must be an integer, a flag or a list that starts with a string, but "
               "got '" +
               json.quote() + "'");
  const std::string &head = json.items[0].text;
  bool hasName = json.items.size() > 1 && json.items[1].kind == Json::Kind::String;
  if (head == "enum" || head == "type" || head == "name") {
    if (!hasName || json.items.size() != 2)
      return bad("'" + head + "' of an expression takes one string, but got '" + json.quote() +
                 "'");
    const std::string &text = json.items[1].text;
    if (head == "type" && !parseElementType(text))
      return bad("'type' of an expression takes an element type, such as f16, but got '" + text +
                 "'");
    return Expr::symbol(head == "enum"   ? Expr::Kind::Enum
                        : head == "type" ? Expr::Kind::Type
                                         : Expr::Kind::Name,
                        text);
  }
  if (head == "dim") {
    if (!hasName || json.items.size() != 3 || json.items[2].kind != Json::Kind::Integer)
      return bad("'dim' of an expression takes an argument and a position, but got '" +
                 json.quote() + "'");
    return Expr::dim(json.items[1].text, json.items[2].number);
  }
  std::vector<Expr> operands;
  for (size_t i = 1; i < json.items.size(); ++i) {
    Result<Expr> operand = parseExpr(json.items[i], depth + 1);
    if (!operand)
      return operand;
    operands.push_back(std::move(*operand));
  }
  return Expr::call(head, std::move(operands));
}

Json tilewright::runtime::toJson(const Expr &expr) {
  switch (expr.kind()) {
  case Expr::Kind::Flag:
    return Json::flag(expr.value() != 0);
  case Expr::Kind::Enum:
  case Expr::Kind::Type:
  case Expr::Kind::Name:
  case Expr::Kind::Dim: {
    Json json = Json::array(
        {Json::string(std::string(expr::kindName(expr.kind()))), Json::string(expr.text())});
    if (expr.kind() == Expr::Kind::Dim)
      json.items.push_back(Json::integer(expr.value()));
    return json;
  }
  case Expr::Kind::Call: {
    Json json = Json::array({Json::string(std::string(rowOf(expr.function()).name))});
    for (const Expr &operand : expr.operands())
      json.items.push_back(toJson(operand));
    return json;
  }
  default:
    return Json::integer(expr.value());
  }
}
