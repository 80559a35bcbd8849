// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// JSON and expressions of a bundle's manifest.

#include "RuntimeTesting.h"

#include "runtime/ExprCode.h"

#include <limits>

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

namespace {

TEST(RuntimeJson, ReadsAndWrites) {
  const char *text =
      R"({"a":[1,-2,9223372036854775807,true,null,1.5],"b":{"c":"x\"\\\u0001"},"d":[]})";
  Result<Json> json = Json::parse(text);
  ASSERT_TRUE(json.ok()) << json.status().message();
  EXPECT_EQ(json->write(), text);
  EXPECT_EQ(Json::parse(R"( "\u00e9\ud83d\ude00\n\/" )")->text, "\u00e9\U0001f600\n/");
}

TEST(RuntimeJson, RejectsWhatIsNotJson) {
  struct Case {
    std::string text;
    const char *message;
  };
  const Case cases[] = {
      {"", "0: expected a value, but got the end of the text"},
      {"[1,]", "3: expected a value, but got ']'"},
      {"[1 2]", "3: expected ',' or ']' after an item of an array, but got '2]'"},
      {"{1:2}", "1: expected a key, which is a string, but got '1:2}'"},
      {R"({"a" 2})", "5: expected ':' after a key, but got '2}'"},
      {R"({"a":2 "b"})", "7: expected ',' or '}' after a member of an object, but got '\"b\"}'"},
      {R"({"a":1,"a":2})", "10: the keys of an object must differ, but got 'a' twice"},
      {"1 2", "2: expected the end of the text after the value, but got '2'"},
      {"01", "2: a number must not begin with a zero before other digits, but got '01'"},
      {"-", "1: expected a digit, but got the end of the text"},
      {"1.", "2: expected a digit, but got the end of the text"},
      {"1e+x", "3: expected a digit, but got 'x'"},
      {"9223372036854775808",
       "19: a number must be in the range of i64, but got '9223372036854775808'"},
      {"\"abc", "4: expected a quotation mark at the end of a string, but got the end of the text"},
      {"\"a\nb\"",
       "2: a control character in a string must be an escape, but got byte 10; write \\u000a"},
      {R"("\x")", "3: expected an escape, which is \\u or a backslash with one of \" \\ / b f n r "
                  "t, but got '\\x\"'"},
      {R"("\u12g4")", "5: expected four hexadecimal digits after \\u, but got '12g4\"'"},
      {R"("\ud800")",
       "7: expected two \\u escapes for a surrogate pair, the high one first, but got '\\ud800\"'"},
      {R"("\ud800\u0041")", "13: expected two \\u escapes for a surrogate pair, the high one "
                            "first, but got '\\ud800\\u0041\"'"},
      {std::string(200, '['),
       "101: a text must have at most 100 levels of nesting, but got level 101"}};
  for (const Case &wrong : cases)
    EXPECT_FAILURE(Json::parse(wrong.text).status(), Code::BadBundle,
                   std::string("malformed JSON at offset ") + wrong.message);
}

class RuntimeExpr : public ::testing::Test {
protected:
  RuntimeExpr() {
    specs = {ArgumentSpec::view("q", ElementType::F32, {-1, -1}),
             ArgumentSpec::scalar("n", ElementType::I64),
             ArgumentSpec::scalar("on", ElementType::I1),
             ArgumentSpec::view("absent", ElementType::F32, {-1}, true),
             ArgumentSpec::scalar("p", ElementType::F32),
             ArgumentSpec::scalar("w", ElementType::F64)};
  }
  Expr read(const std::string &text) {
    Result<Json> json = Json::parse(text);
    EXPECT_TRUE(json.ok()) << json.status().message();
    Result<Expr> expr = parseExpr(*json);
    EXPECT_TRUE(expr.ok()) << expr.status().message();
    EXPECT_EQ(toJson(*expr).write(), text);
    return *expr;
  }
  Status resolve(Expr &expr, expr::Kind wanted) {
    return resolveExpr(expr, wanted,
                       {{"BLOCK", Expr::integer(64)},
                        {"T", Expr::symbol(Expr::Kind::Type, "bf16")},
                        {"CAUSAL", Expr::symbol(Expr::Kind::Enum, "top_left")}},
                       specs, "kernel 'k'", /*isCondition=*/true);
  }
  int64_t value(const std::string &text, expr::Kind wanted) {
    int64_t value = -12345;
    Expr expr = read(text);
    EXPECT_OK(resolve(expr, wanted));
    EXPECT_OK(ExprCode(expr, specs).evaluate(inputs, value));
    return value;
  }
  int64_t integer(const std::string &text) { return value(text, expr::Kind::Integer); }
  bool flag(const std::string &text) { return value(text, expr::Kind::Flag) != 0; }
  /// Results that no integer type can represent.
  std::string failure(const std::string &text) {
    int64_t value;
    Expr expr = read(text);
    Status status = resolve(expr, expr::Kind::Integer);
    return (status ? ExprCode(expr, specs).evaluate(inputs, value) : status).message();
  }

  std::vector<ArgumentSpec> specs;
  Arguments arguments = {Argument::dense(16, ElementType::F32, {300, 7}),
                         Argument::scalar(std::numeric_limits<int64_t>::min()),
                         Argument::scalar(true),
                         Argument::absent(),
                         Argument::scalar(0.5f),
                         Argument::scalar(-std::numeric_limits<double>::infinity())};
  ExprInputs inputs{arguments.data(), 132};
};

TEST_F(RuntimeExpr, Evaluates) {
  EXPECT_EQ(integer(R"(["ceildiv",["dim","q",0],["name","BLOCK"]])"), 5);
  EXPECT_EQ(integer(R"(["ceildiv",-7,2])"), -3);
  EXPECT_EQ(integer(R"(["floordiv",-7,2])"), -4);
  EXPECT_EQ(integer(R"(["mod",-7,2])"), 1);
  EXPECT_EQ(integer(R"(["mod",7,-2])"), -1);
  EXPECT_EQ(integer(R"(["mod",["name","n"],-1])"), 0);
  EXPECT_EQ(integer(R"(["*",["+",2,3],["-",2,3]])"), -5);
  EXPECT_EQ(integer(R"(["min",["max",1,2],9])"), 2);
  EXPECT_EQ(integer(R"(["sm_count"])"), 132);
  EXPECT_EQ(integer(R"(["dim","absent",0])"), 0);
  EXPECT_EQ(integer(R"(["bits",["name","T"]])"), 16);
  EXPECT_EQ(integer(R"(["bits",["accumulator",["name","T"]]])"), 32);
  EXPECT_EQ(integer(R"(["bits",["accumulator",["type","f64"]]])"), 64);
  EXPECT_EQ(integer(R"(["select",["name","on"],1,["floordiv",1,0]])"), 1) << "the other is not due";
  EXPECT_TRUE(flag(R"(["==",["name","CAUSAL"],["enum","top_left"]])"));
  EXPECT_TRUE(flag(R"(["ne",["name","CAUSAL"],["enum","none"]])"));
  EXPECT_TRUE(flag(R"(["or",true,["<",["floordiv",1,0],1]])"));
  EXPECT_FALSE(flag(R"(["and",false,["<",["floordiv",1,0],1]])"));
  EXPECT_TRUE(flag(R"(["and",["<=",1,1],["and",[">=",1,1],["not",[">",1,1]]]])"));
  EXPECT_TRUE(flag(R"(["and",[">=",["name","p"],0],["<",["name","p"],1]])"));
  EXPECT_FALSE(flag(R"(["<",1,["name","p"]])"));
  EXPECT_TRUE(flag(R"(["and",["<=",["name","w"],["name","p"]],["ne",["name","p"],1]])"));
  EXPECT_TRUE(flag(R"(["and",["finite",["name","p"]],["not",["finite",["name","w"]]]])"));
}

TEST_F(RuntimeExpr, IsWrittenAsAnAuthorWritesIt) {
  auto text = [&](const std::string &json) { return read(json).toString(); };
  EXPECT_EQ(text(R"(["+",["*",["dim","q",0],16],1])"), "dim(q, 0) * 16 + 1");
  EXPECT_EQ(text(R"(["*",["+",["name","n"],1],2])"), "(n + 1) * 2");
  EXPECT_EQ(text(R"(["-",["-",1,2],["-",3,4]])"), "1 - 2 - (3 - 4)");
  EXPECT_EQ(text(R"(["==",["<",1,2],["+",1,2]])"), "(1 < 2) == 1 + 2");
  EXPECT_EQ(text(R"(["ceildiv",["+",1,2],["mod",3,4]])"), "ceildiv(1 + 2, mod(3, 4))");
  EXPECT_EQ(text(R"(["or",["ne",["name","n"],0],["not",["<=",1,2]]])"),
            "or(ne(n, 0), not(1 <= 2))");
}

TEST_F(RuntimeExpr, ReportsWhatHasNoValue) {
  EXPECT_EQ(failure(R"(["+",["name","n"],-1])"), "overflow of 64 bits in 'n + -1'");
  EXPECT_EQ(failure(R"(["-",["name","n"],1])"), "overflow of 64 bits in 'n - 1'");
  EXPECT_EQ(failure(R"(["*",["name","n"],-1])"), "overflow of 64 bits in 'n * -1'");
  EXPECT_EQ(failure(R"(["ceildiv",["name","n"],-1])"), "overflow of 64 bits in 'ceildiv(n, -1)'");
  EXPECT_EQ(failure(R"(["floordiv",1,["dim","absent",0]])"),
            "division by zero in 'floordiv(1, dim(absent, 0))'");
  EXPECT_EQ(failure(R"(["mod",1,0])"), "division by zero in 'mod(1, 0)'");
  auto rejects = [&](const char *text, const char *rule, const char *written) {
    EXPECT_EQ(failure(text),
              std::string("kernel 'k' must apply ") + rule + ", in '" + written + "'");
  };
  rejects(R"(["+",true,1])", "'+' to a value of kind int, but got flag", "true + 1");
  rejects(R"(["not",1])", "'not' to a value of kind flag, but got int", "not(1)");
  rejects(R"(["and",true,1])", "'and' to a value of kind flag, but got int", "and(true, 1)");
  rejects(R"(["bits",1])", "'bits' to a value of kind type, but got int", "bits(1)");
  rejects(R"(["+",["name","p"],1])", "'+' to a value of kind int, but got float", "p + 1");
  rejects(R"(["finite",1])", "'finite' to a value of kind float, but got int", "finite(1)");
  rejects(R"(["<",["type","f16"],1])", "'<' to a value of kind int, but got type", "f16 < 1");
  rejects(R"(["==",["enum","a"],1])", "'==' to values of one kind, but got enum and int",
          "\"a\" == 1");
  rejects(R"(["select",1,2,3])", "'select' to a value of kind flag, but got int",
          "select(1, 2, 3)");
  rejects(R"(["select",true,2,["name","p"]])",
          "'select' to values of one kind, but got int and float", "select(true, 2, p)");
  EXPECT_EQ(failure(R"(["name","p"])"),
            "'p' of kernel 'k' must be of kind int, but got kind float");
  EXPECT_EQ(failure(R"(["<",1,2])"),
            "'1 < 2' of kernel 'k' must be of kind int, but got kind flag");
  EXPECT_EQ(failure(R"(["block"])"),
            "the functions in an expression of kernel 'k' must be those that a run evaluates, but "
            "got 'block', which the compiler replaces");
  Expr real = Expr::real(0.5), chain = Expr::flag(true);
  EXPECT_EQ(resolve(real, expr::Kind::Real).message(),
            "an expression of kernel 'k' must have no float literal, but got 0.5");
  for (int i = 0; i < 70; ++i)
    chain = *Expr::call("not", {chain});
  EXPECT_EQ(resolve(chain, expr::Kind::Flag).message(),
            "an expression must have at most 64 levels of nesting, but got level 65");
  std::string deep = "1";
  for (int i = 0; i < 70; ++i)
    deep = "[\"not\"," + deep + "]";
  EXPECT_FAILURE(parseExpr(*Json::parse(deep)).status(), Code::BadBundle,
                 "an expression must have at most 64 levels of nesting, but got level 65");
}

} // namespace
