// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A bundle without code that has an entry for each feature of attention, with the arguments of the
// kernels, for D 64 and bf16. The number of threads tells the entry.

#ifndef TILEWRIGHT_TEST_UNIT_RUNTIMEATTENTIONBUNDLE_H
#define TILEWRIGHT_TEST_UNIT_RUNTIMEATTENTIONBUNDLE_H

#include "RuntimeBackwardBundle.h"

namespace tilewright::runtime::testing {

namespace threadsOf {
inline constexpr unsigned plain = 32, packed = 64, listed = 96, pages64 = 128, pages16 = 160,
                          noTable = 192, decode = 224, append = 256, scoreGradient = 288;
}

inline ArgumentSpec indices(const char *name, unsigned rank) {
  return ArgumentSpec::view(name, ElementType::I32, std::vector<int64_t>(rank, -1));
}

/// `values` are those of parameters after D, DV, T, CAUSAL and WINDOW.
inline KernelSpec attentionKernel(const char *name, const char *entry, unsigned threads,
                                  Params values, std::vector<ArgumentSpec> arguments,
                                  bool hasMask = true) {
  KernelSpec kernel = kernelOf(name, {}, "q");
  kernel.entry = entry;
  kernel.params = {{"D", Expr::integer(64)},
                   {"DV", Expr::integer(64)},
                   {"T", Expr::symbol(Expr::Kind::Type, "bf16")}};
  if (hasMask) {
    kernel.params.emplace_back("CAUSAL", Expr::symbol(Expr::Kind::Enum, "none"));
    kernel.params.emplace_back("WINDOW", Expr::flag(false));
  }
  kernel.params.insert(kernel.params.end(), values.begin(), values.end());
  kernel.arguments = std::move(arguments);
  kernel.grid = {Expr::integer(1)};
  kernel.block = {threads, 1, 1};
  kernel.sums = {ElementType::F32};
  kernel.addsInAnyOrder = false;
  return kernel;
}

inline std::vector<ArgumentSpec> forwardSpecs(std::vector<ArgumentSpec> more) {
  std::vector<ArgumentSpec> list = {array("q"), array("k"), array("v"), array("o"),
                                    rows("lse", true)};
  list.insert(list.end(), more.begin(), more.end());
  const Argument open = Argument::scalar(int32_t(-1));
  list.push_back(ArgumentSpec::scalar("scale", ElementType::F32));
  list.push_back(ArgumentSpec::scalar("window_left", ElementType::I32, open));
  list.push_back(ArgumentSpec::scalar("window_right", ElementType::I32, open));
  return list;
}

inline Params forwardParams(bool isPacked, bool isListed, bool isCached, int64_t pageRows) {
  Params params = {{"PACKED", Expr::flag(isPacked)},
                   {"LISTED", Expr::flag(isListed)},
                   {"CACHED", Expr::flag(isCached)},
                   {"PAGE_ROWS", Expr::integer(pageRows)}};
  if (isListed) {
    params.emplace_back("LIST_BLOCK_M", Expr::integer(128));
    params.emplace_back("LIST_BLOCK_N", Expr::integer(64));
  }
  return params;
}

inline BundleWriter featureBundle() {
  BundleWriter writer;
  writer.addPtx(
      ".version 8.0\n.entry plain() .entry packed() .entry listed() .entry pages64() "
      ".entry pages16() .entry no_table() .entry decode() .entry append() .entry scores()");
  writer.manifest.source = "kernels/attention_forward.mlir";
  auto forward = [&](const char *entry, unsigned threads, Params params,
                     std::vector<ArgumentSpec> more) {
    writer.manifest.kernels.push_back(attentionKernel(
        "attention_forward", entry, threads, std::move(params), forwardSpecs(std::move(more))));
  };
  forward("plain", threadsOf::plain, forwardParams(false, false, false, 0), {});
  forward("packed", threadsOf::packed, forwardParams(true, false, false, 0),
          {indices("cu_seqlens_q", 1), indices("cu_seqlens_k", 1)});
  forward("listed", threadsOf::listed, forwardParams(false, true, false, 0),
          {indices("kv_indices", 4), indices("kv_num_blocks", 3)});
  // The order of the bundle is not that of the sizes.
  for (auto [entry, threads, size] : {std::tuple("pages16", threadsOf::pages16, 16),
                                      {"no_table", threadsOf::noTable, 0},
                                      {"pages64", threadsOf::pages64, 64}}) {
    std::vector<ArgumentSpec> more = {indices("seq_lens", 1)};
    if (size)
      more.insert(more.begin(), indices("block_table", 2));
    forward(entry, threads, forwardParams(false, false, true, size), more);
  }
  std::vector<ArgumentSpec> decode =
      forwardSpecs({indices("block_table", 2), indices("seq_lens", 1)});
  decode[1].name = "k_pages";
  decode[2].name = "v_pages";
  writer.manifest.kernels.push_back(attentionKernel("attention_decode", "decode", threadsOf::decode,
                                                    {{"GROUP", Expr::integer(4)},
                                                     {"ROWS", Expr::integer(4)},
                                                     {"PAGE_ROWS", Expr::integer(64)},
                                                     {"SPLITS", Expr::integer(0)}},
                                                    decode));
  auto heads = [](const char *name, bool isOptional = false) {
    return ArgumentSpec::view(name, ElementType::BF16, {-1, -1, 64}, isOptional);
  };
  writer.manifest.kernels.push_back(
      attentionKernel("attention_append", "append", threadsOf::append,
                      {{"PLACES", Expr::symbol(Expr::Kind::Enum, "slots")},
                       {"INDICES", Expr::symbol(Expr::Kind::Enum, "i32")},
                       {"PACKED", Expr::flag(false)},
                       {"POSITIONS", Expr::flag(false)},
                       {"ROTARY", Expr::integer(0)},
                       {"PAIRS", Expr::flag(false)},
                       {"Q_FIRST", Expr::flag(false)},
                       {"TR", Expr::symbol(Expr::Kind::Type, "bf16")}},
                      {heads("k"), heads("v", true), array("k_pages"), array("v_pages"),
                       indices("slots", 1), heads("q", true), heads("q_out", true)},
                      /*hasMask=*/false));

  ArgumentSpec score = ArgumentSpec::view("d_score", ElementType::F32, {-1, -1, -1, -1});
  ArgumentSpec bias = ArgumentSpec::view("bias", ElementType::F32, {-1, -1, -1, -1});
  bias.isCapture = true;
  const Argument open = Argument::scalar(int32_t(-1));
  ProgramSpec backward;
  backward.name = "attention_backward";
  backward.params = {{"D", Expr::integer(64)},
                     {"DV", Expr::integer(64)},
                     {"T", Expr::symbol(Expr::Kind::Type, "bf16")},
                     {"CAUSAL", Expr::symbol(Expr::Kind::Enum, "none")},
                     {"WINDOW", Expr::flag(false)},
                     {"DETERMINISTIC", Expr::flag(true)},
                     {"CAPTURE_GRADIENTS", Expr::flag(false)},
                     {"PACKED", Expr::flag(false)},
                     {"LISTED", Expr::flag(false)},
                     {"ORDERED", Expr::flag(false)},
                     {"SCORE_GRADIENT", Expr::flag(true)}};
  backward.arguments = {array("q"),
                        array("k"),
                        array("v"),
                        array("o"),
                        array("do"),
                        rows("lse"),
                        rows("dlse", true),
                        array("dq"),
                        array("dk"),
                        array("dv"),
                        score,
                        ArgumentSpec::scalar("scale", ElementType::F32),
                        ArgumentSpec::scalar("window_left", ElementType::I32, open),
                        ArgumentSpec::scalar("window_right", ElementType::I32, open),
                        bias};
  KernelSpec scores = kernelOf("scores", {array("q"), score, bias}, "q");
  scores.block = {threadsOf::scoreGradient, 1, 1};
  LaunchSpec launch;
  launch.kernels = {writer.manifest.kernels.size()};
  launch.arguments = {"q", "d_score", "bias"};
  writer.manifest.kernels.push_back(scores);
  formOf(backward).launches = {launch};
  writer.manifest.programs = {backward};
  return writer;
}

} // namespace tilewright::runtime::testing

#endif // TILEWRIGHT_TEST_UNIT_RUNTIMEATTENTIONBUNDLE_H
