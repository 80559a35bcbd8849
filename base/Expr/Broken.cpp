// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "base/Expr/Broken.h"

#include <algorithm>

using namespace tilewright;
using namespace tilewright::expr;

namespace {

bool isRead(const Expr &expr) {
  return expr.kind() == Expr::Kind::Name || expr.kind() == Expr::Kind::Dim;
}

bool isCallOf(const Expr &expr, Function function) {
  return expr.kind() == Expr::Kind::Call && expr.function() == function;
}

void collectRead(const Expr &expr, std::vector<const Expr *> &read) {
  bool isNew = std::none_of(read.begin(), read.end(), [&](auto *other) { return *other == expr; });
  if (isRead(expr) && isNew)
    read.push_back(&expr);
  for (const Expr &operand : expr.operands())
    collectRead(operand, read);
}

/// Whether the condition is a disjunction of equations for one subject.
bool collectValues(const Expr &condition, const Expr *&subject, std::vector<const Expr *> &values) {
  if (isCallOf(condition, Function::Or))
    return collectValues(condition.operands()[0], subject, values) &&
           collectValues(condition.operands()[1], subject, values);
  if (!isCallOf(condition, Function::Equal) || !isRead(condition.operands()[0]))
    return false;
  const Expr &own = condition.operands()[0], &value = condition.operands()[1];
  if (subject && !(*subject == own))
    return false;
  subject = &own;
  values.push_back(&value);
  return isRead(value) || value.isLiteral();
}

} // namespace

std::string expr::listOperands(const Expr &condition,
                               const std::function<std::string(const Expr &)> &valueOf) {
  std::vector<const Expr *> read;
  collectRead(condition, read);
  std::string text;
  for (const Expr *leaf : read)
    text += (text.empty() ? ", but got " : ", ") + leaf->toString() + " = " + valueOf(*leaf);
  return text;
}

std::string expr::suggestValues(const Expr &condition,
                                const std::function<std::string(const Expr &)> &valueOf) {
  const Expr *subject = nullptr;
  std::vector<const Expr *> values;
  if (!collectValues(condition, subject, values))
    return "";
  std::vector<std::string> texts;
  for (const Expr *value : values) {
    std::string text = value->isLiteral() ? value->toString() : valueOf(*value);
    if (std::find(texts.begin(), texts.end(), text) == texts.end())
      texts.push_back(text);
  }
  std::string list;
  for (const std::string &text : texts)
    list += (list.empty() ? "" : " or ") + text;
  if (subject->kind() == Expr::Kind::Name)
    return "; give '" + subject->text() + "' the value " + list;
  return "; give '" + subject->text() + "' an extent of " + list + " along dimension " +
         std::to_string(subject->value());
}
