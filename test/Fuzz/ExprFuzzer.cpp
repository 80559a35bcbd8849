// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// libFuzzer target: expressions of bundles. They are read, written, resolved and evaluated, alone
// and as conditions, which must agree.
//
// The first byte selects whether the rest of the input is the JSON of an expression, or controls
// the generation of an expression that is valid in most cases, whose JSON is also read.

#include "RuntimeFuzzing.h"

#include "runtime/Launch.h"

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

namespace {

const std::vector<ArgumentSpec> contract = {
    ArgumentSpec::view("q", ElementType::F32, {-1, -1}),
    ArgumentSpec::view("bias", ElementType::F32, {-1, -1, -1}, true),
    ArgumentSpec::scalar("left", ElementType::I32),
    ArgumentSpec::scalar("offset", ElementType::I64),
    ArgumentSpec::scalar("flag", ElementType::I1),
    ArgumentSpec::scalar("scale", ElementType::F32),
    ArgumentSpec::scalar("wide", ElementType::F64)};
const Params params = {{"D", Expr::integer(64)},
                       {"T", Expr::symbol(Expr::Kind::Type, "bf16")},
                       {"CAUSAL", Expr::symbol(Expr::Kind::Enum, "none")},
                       {"WINDOW", Expr::flag(true)}};

Json makeExpression(FuzzedDataProvider &data, int depth) {
  static const char *const functions[] = {
      "+",  "-",   "*",  "ceildiv", "floordiv", "mod",         "min",      "max",
      "<",  "<=",  "lt", "gt",      "==",       "eq",          "ne",       "and",
      "or", "not", "ge", "bits",    "select",   "accumulator", "sm_count", "finite"};
  static const unsigned arities[] = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
                                     2, 2, 2, 2, 2, 1, 2, 1, 3, 1, 0, 1};
  static const char *const names[] = {"left", "offset", "flag", "scale",  "wide", "D",
                                      "T",    "CAUSAL", "q",    "WINDOW", "none"};
  static constexpr int64_t numbers[] = {
      0, 1, -1, 2, 64, INT32_MAX, INT64_MAX, INT64_MIN, int64_t(1) << 33};
  unsigned choice = depth == 0 || data.remaining_bytes() == 0
                        ? data.ConsumeIntegralInRange(0u, 5u)
                        : data.ConsumeIntegralInRange(0u, 15u);
  switch (choice) {
  case 0:
    return Json::integer(data.PickValueInArray(numbers));
  case 1:
    return Json::flag(data.ConsumeBool());
  case 2:
    return Json::array({Json::string("enum"), Json::string(data.PickValueInArray(names))});
  case 3:
    return Json::array({Json::string("type"), Json::string(data.ConsumeBool() ? "bf16" : "i1")});
  case 4:
    return Json::array({Json::string("name"), Json::string(data.PickValueInArray(names))});
  case 5:
    return Json::array({Json::string("dim"), Json::string(data.ConsumeBool() ? "q" : "bias"),
                        Json::integer(data.ConsumeIntegralInRange(-1, 3))});
  default:
    size_t function = data.ConsumeIntegralInRange<size_t>(0, std::size(functions) - 1);
    Json call = Json::array({Json::string(functions[function])});
    for (unsigned i = 0; i < arities[function]; ++i)
      call.items.push_back(makeExpression(data, depth - 1));
    return call;
  }
}

/// A resolved expression has a value or an error. The first condition that has no value, or is
/// false, is the first that does not hold, unless it reads an absent view.
void evaluate(const Expr &expr, expr::Kind kind, const ExprInputs &inputs) {
  int64_t value = 0;
  Status status = ExprCode(expr, contract).evaluate(inputs, value);
  require(status.ok() || !status.message().empty());
  if (kind != expr::Kind::Flag)
    return;
  std::vector<Expr> conditions(3, expr);
  ExprCode::End end = ExprCode(conditions, contract).findBroken(inputs);
  bool holds = status.ok() && value != 0;
  require(!holds || !end.expr);
  require(!end.expr || (end.fault == expr::Fault::None) == status.ok());
  require(!end.expr || end.fault != expr::Fault::None || end.expr == &conditions[0]);
}

void check(const Json &json, FuzzedDataProvider &data) {
  Result<Expr> expr = parseExpr(json);
  if (!expr)
    return;
  std::string text = toJson(*expr).write();
  Result<Json> written = Json::parse(text);
  require(written.ok());
  Result<Expr> again = parseExpr(*written);
  require(again.ok() && again->toString() == expr->toString() && toJson(*again).write() == text);
  expr::Kind kind = data.ConsumeBool() ? expr::Kind::Flag : expr::Kind::Integer;
  bool isCondition = data.ConsumeBool();
  if (!resolveExpr(*expr, kind, params, contract, "the fuzzer", isCondition).ok())
    return;
  for (int i = 0; i < 3; ++i) {
    std::vector<Argument> values;
    std::vector<const Argument *> pointers;
    for (const ArgumentSpec &spec : contract)
      values.push_back(makeArgument(data, spec));
    for (const Argument &value : values)
      pointers.push_back(&value);
    // Expressions are evaluated for valid arguments of a contract.
    if (ContractCheck(contract).check(pointers.data(), pointers.size(), "the", "fuzzer").ok())
      evaluate(*expr, kind, {pointers.data(), data.ConsumeIntegralInRange<int64_t>(0, 200)});
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  if (size == 0)
    return 0;
  FuzzedDataProvider data(bytes + 1, size - 1);
  if (bytes[0] % 2) {
    check(makeExpression(data, int(data.ConsumeIntegralInRange(0, 70))), data);
    return 0;
  }
  if (Result<Json> json = Json::parse({reinterpret_cast<const char *>(bytes + 1), size - 1}))
    check(*json, data);
  return 0;
}
