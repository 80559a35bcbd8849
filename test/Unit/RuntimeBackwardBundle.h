// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A bundle of attention_backward without code, and arguments for it.

#ifndef TILEWRIGHT_TEST_UNIT_RUNTIMEBACKWARDBUNDLE_H
#define TILEWRIGHT_TEST_UNIT_RUNTIMEBACKWARDBUNDLE_H

#include "RuntimeForms.h"

#include "runtime/AttentionBackward.h"

namespace tilewright::runtime::testing {

inline ArgumentSpec array(const char *name) {
  return ArgumentSpec::view(name, ElementType::BF16, {-1, -1, -1, 64});
}
inline ArgumentSpec rows(const char *name, bool isOptional = false) {
  return ArgumentSpec::view(name, ElementType::F32, {-1, -1, -1}, isOptional);
}

inline KernelSpec kernelOf(const char *name, std::vector<ArgumentSpec> arguments,
                           const char *rowsOf) {
  KernelSpec kernel;
  kernel.name = kernel.entry = name;
  kernel.arguments = std::move(arguments);
  kernel.codes = {{CodeSpec::Kind::Ptx, *Arch::parse("sm_80"), 80, 0}};
  kernel.grid = {
      *Expr::call("*", {*Expr::call("ceildiv", {Expr::dim(rowsOf, 2), Expr::integer(64)}),
                        *Expr::call("*", {Expr::dim(rowsOf, 0), Expr::dim(rowsOf, 1)})})};
  kernel.block = {128, 1, 1};
  return kernel;
}

/// attention_backward for D 64, bf16, both forms, with a capture and its gradient.
inline BundleWriter backwardBundle() {
  ArgumentSpec sums = ArgumentSpec::view("dq_sum", ElementType::F32, {-1, -1, -1, 64});
  ArgumentSpec slopes = ArgumentSpec::view("slopes", ElementType::F32, {-1});
  slopes.isCapture = true;
  ArgumentSpec dSlopes = ArgumentSpec::view("d_slopes", ElementType::F32, {-1}, true);
  ArgumentSpec scale = ArgumentSpec::scalar("scale", ElementType::F32);
  BundleWriter writer;
  writer.addPtx(".version 8.0\n.entry delta() .entry keys() .entry convert()");
  writer.manifest.source = "kernels/attention_backward.mlir";
  writer.manifest.kernels = {
      kernelOf("delta", {array("o"), array("do"), rows("dlse", true), rows("delta")}, "o"),
      kernelOf("keys",
               {array("q"), array("k"), array("v"), array("do"), rows("lse"), rows("delta"), sums,
                array("dk"), array("dv"), scale, slopes, dSlopes},
               "k"),
      kernelOf("convert", {sums, array("dq"), scale}, "dq")};
  for (bool isDeterministic : {true, false}) {
    ProgramSpec program;
    program.name = "attention_backward";
    program.params = {{"D", Expr::integer(64)},
                      {"DV", Expr::integer(64)},
                      {"T", Expr::symbol(Expr::Kind::Type, "bf16")},
                      {"CAUSAL", Expr::symbol(Expr::Kind::Enum, "none")},
                      {"WINDOW", Expr::flag(false)},
                      {"DETERMINISTIC", Expr::flag(isDeterministic)}};
    program.arguments = {array("q"),
                         array("k"),
                         array("v"),
                         array("o"),
                         array("do"),
                         rows("lse"),
                         rows("dlse", true),
                         array("dq"),
                         array("dk"),
                         array("dv"),
                         scale,
                         ArgumentSpec::scalar("window_left", ElementType::I32),
                         slopes,
                         dSlopes};
    Expr rowsOfQ[] = {Expr::dim("q", 0), Expr::dim("q", 1), Expr::dim("q", 2)};
    formOf(program).workspaces = {
        {"delta", ElementType::F32, {rowsOfQ[0], rowsOfQ[1], rowsOfQ[2]}, std::nullopt},
        {"dq_sum",
         ElementType::F32,
         {rowsOfQ[0], rowsOfQ[1], rowsOfQ[2], Expr::name("D")},
         fillPattern(ElementType::F32, 0.0)}};
    LaunchSpec delta, keys, convert;
    delta.kernels = {0};
    delta.arguments = {"o", "do", "dlse", "delta"};
    keys.kernels = {1};
    keys.arguments = {"q",      "k",  "v",  "do",    "lse",    "delta",
                      "dq_sum", "dk", "dv", "scale", "slopes", "d_slopes"};
    convert.kernels = {2};
    convert.arguments = {"dq_sum", "dq", "scale"};
    formOf(program).launches = {delta, keys};
    if (!isDeterministic)
      formOf(program).launches.push_back(convert);
    writer.manifest.programs.push_back(program);
  }
  return writer;
}

inline constexpr uint64_t workspaceBytes =
    2 * 8 * 300 * 4 + 2 * 8 * 300 * 64 * 4; // multiples of 256

/// For that bundle; `captures` are slopes and d_slopes.
inline AttentionBackwardArguments backwardArguments(const Argument *captures) {
  AttentionBackwardArguments a;
  auto dense = [](uint64_t address, int64_t heads, int64_t length) {
    return Argument::dense(address, ElementType::BF16, {2, heads, length, 64});
  };
  a.q = dense(0x10000, 8, 300);
  a.k = dense(0x20000, 2, 500);
  a.v = dense(0x30000, 2, 500);
  a.o = dense(0x40000, 8, 300);
  a.dO = dense(0x50000, 8, 300);
  a.dQ = dense(0x60000, 8, 300);
  a.dK = dense(0x70000, 2, 500);
  a.dV = dense(0x80000, 2, 500);
  a.lse = Argument::dense(0x90000, ElementType::F32, {2, 8, 300});
  a.scale = 0.125f;
  a.captures = captures;
  a.numCaptures = 2;
  return a;
}

} // namespace tilewright::runtime::testing

#endif // TILEWRIGHT_TEST_UNIT_RUNTIMEBACKWARDBUNDLE_H
