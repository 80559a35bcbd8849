// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Score modifiers as formulas, written without tile IR.

#include "test/Acceptance/LearnedMods.h"

#include "test/Reference/Modifiers.h"

#include <algorithm>
#include <cmath>

namespace tilewright::acceptance {

using namespace reference;

namespace {

constexpr int64_t radius = 9, reach = 12;

LearnedMod softcapMod() {
  constexpr double cap = 1.5;
  LearnedMod mod{"softcap", "mods/softcap", {}, {}, softcap(cap)};
  mod.tables = {{"softcap", {}, {cap}, [](double s, int64_t, int64_t, int64_t, int64_t) {
                   double t = std::tanh(s / cap);
                   return std::pair<int64_t, double>(0, t - s / cap * (1 - t * t));
                 }}};
  return mod;
}

LearnedMod alibiMod(const AttentionProblem &p) {
  LearnedMod mod{"alibi", "mods/alibi", {}, {}, alibi(alibiSlopes(p.Hq))};
  mod.tables = {
      {"slopes", {p.Hq}, alibiSlopes(p.Hq), [](double, int64_t, int64_t h, int64_t i, int64_t j) {
         return std::pair<int64_t, double>(h, -std::abs(double(i - j)));
       }}};
  return mod;
}

LearnedMod relativeBiasMod(const AttentionProblem &p) {
  std::vector<double> table = normals(p.Hq * (2 * radius + 1), 77, Type::F32);
  LearnedMod mod{"relative_bias", "mods/relative_bias", {}, {}, relativeBias(table, radius)};
  mod.tables = {{"relative_bias",
                 {p.Hq, 2 * radius + 1},
                 table,
                 [](double, int64_t, int64_t h, int64_t i, int64_t j) {
                   int64_t column = std::clamp(j - i, -radius, radius) + radius;
                   return std::pair<int64_t, double>(h * (2 * radius + 1) + column, 1.0);
                 },
                 ElementType::F32,
                 /*isByPair=*/true}};
  mod.bindIntegers = [](KernelCall &call) { call.integer("relative_radius", radius); };
  return mod;
}

/// In both directions without a causal mask.
LearnedMod t5BiasMod(const AttentionProblem &p) {
  constexpr int64_t buckets = 14, maxDistance = 70;
  bool isBidirectional = p.causal == Causal::None;
  std::vector<double> table = normals(p.Hq * buckets, 75, Type::F32);
  LearnedMod mod{
      "t5_bias", "mods/t5_bias", {}, {}, t5Bias(table, buckets, maxDistance, isBidirectional)};
  mod.tables = {{"t5_bias",
                 {p.Hq, buckets},
                 table,
                 [=](double, int64_t, int64_t h, int64_t i, int64_t j) {
                   int64_t bucket = t5Bucket(i, j, buckets, maxDistance, isBidirectional);
                   return std::pair<int64_t, double>(h * buckets + bucket, 1.0);
                 },
                 ElementType::F32,
                 /*isByPair=*/true}};
  mod.bindIntegers = [=](KernelCall &call) {
    call.integer("t5_max_distance", maxDistance);
    call.integer("t5_bidirectional", isBidirectional);
  };
  return mod;
}

LearnedMod everyFormMod(const AttentionProblem &p) {
  auto numbers = [](int64_t n, uint64_t seed) { return normals(n, seed, Type::F32, 0.5); };
  constexpr double temperature = 0.75;
  std::vector<double> gain = numbers(p.Hq, 1), row = numbers(p.Sq, 2),
                      key = numbers(p.B * p.Skv, 3), slope = numbers(p.Hq * (reach + 1), 4);
  int64_t keys = p.Skv;
  auto slopeAt = [](int64_t h, int64_t i, int64_t j) {
    return h * (reach + 1) + std::min(std::abs(i - j), reach);
  };
  LearnedMod mod{"learned", "../test/Acceptance/Inputs/learned", {}, {}, {}};
  mod.score.value = [=](double s, int64_t b, int64_t h, int64_t i, int64_t j) {
    return temperature * s + gain[h] * std::tanh(s) + row[i] + key[b * keys + j] +
           slope[slopeAt(h, i, j)] * s / 4;
  };
  mod.score.derivative = [=](double s, int64_t, int64_t h, int64_t i, int64_t j) {
    double t = std::tanh(s);
    return temperature + gain[h] * (1 - t * t) + slope[slopeAt(h, i, j)] / 4;
  };
  using Entry = std::pair<int64_t, double>;
  mod.tables = {
      {"temperature",
       {},
       {temperature},
       [](double s, int64_t, int64_t, int64_t, int64_t) { return Entry(0, s); }},
      {"gain",
       {p.Hq},
       gain,
       [](double s, int64_t, int64_t h, int64_t, int64_t) { return Entry(h, std::tanh(s)); }},
      {"row",
       {p.Sq},
       row,
       [](double, int64_t, int64_t, int64_t i, int64_t) { return Entry(i, 1.0); }},
      {"key",
       {p.B, p.Skv},
       key,
       [=](double, int64_t b, int64_t, int64_t, int64_t j) { return Entry(b * keys + j, 1.0); }},
      {"slope",
       {p.Hq, reach + 1},
       slope,
       [=](double s, int64_t, int64_t h, int64_t i, int64_t j) {
         return Entry(slopeAt(h, i, j), s / 4);
       },
       ElementType::F32,
       /*isByPair=*/true}};
  mod.bindIntegers = [](KernelCall &call) { call.integer("reach", reach); };
  return mod;
}

LearnedMod offsetMod(const AttentionProblem &p) {
  constexpr int64_t columns = 21;
  std::vector<double> table = normals(p.Hq * columns, 6, Type::F16);
  auto entryOf = [](int64_t h, int64_t i, int64_t j) {
    return j >= i && j - i < columns ? h * columns + j - i : -1;
  };
  LearnedMod mod{"offset", "../test/Acceptance/Inputs/offset", {}, {}, {}};
  mod.score.value = [=](double s, int64_t, int64_t h, int64_t i, int64_t j) {
    int64_t entry = entryOf(h, i, j);
    return entry < 0 ? s : s + table[entry];
  };
  mod.score.derivative = [](double, int64_t, int64_t, int64_t, int64_t) { return 1.0; };
  mod.tables = {{"offset",
                 {p.Hq, columns},
                 table,
                 [=](double, int64_t, int64_t h, int64_t i, int64_t j) {
                   return std::pair<int64_t, double>(entryOf(h, i, j), 1.0);
                 },
                 ElementType::F16,
                 /*isByPair=*/true}};
  return mod;
}

} // namespace

std::vector<LearnedMod> learnedMods(const AttentionProblem &problem) {
  return {softcapMod(),       alibiMod(problem),     relativeBiasMod(problem),
          t5BiasMod(problem), everyFormMod(problem), offsetMod(problem)};
}

LearnedMod smoothMod() {
  LearnedMod mod{"smooth", "../test/Acceptance/Inputs/smooth", {}, {}, {}};
  mod.tables = {{"shifts", {24}, normals(24, 5, Type::F32, 0.1), {}}};
  return mod;
}

LearnedMod chainedMod(const AttentionProblem &p) {
  LearnedMod mod{"chained", "mods/relative_bias", {}, {}, {}};
  mod.more = {"mods/softcap", "mods/sink_window", "mods/alibi",
              "mods/bias",    "mods/dropout",     "../test/Acceptance/Inputs/weights",
              "mods/sink"};
  mod.tables = {{"relative_bias",
                 {p.Hq, 2 * radius + 1},
                 normals(p.Hq * (2 * radius + 1), 77, Type::F32),
                 {}},
                {"softcap", {}, {1.5}, {}},
                {"slopes", {p.Hq}, alibiSlopes(p.Hq), {}},
                {"bias", {1, p.Hq, p.Sq, 1}, normals(p.Hq * p.Sq, 78), {}, ElementType::F64},
                {"weight", {p.Hq, 8}, normals(p.Hq * 8, 79, Type::F32), {}},
                {"sinks", {p.Hq}, normals(p.Hq, 80, Type::F32), {}}};
  int64_t keys = p.Skv;
  mod.bindIntegers = [keys](KernelCall &call) {
    call.integer("relative_radius", radius);
    call.integer("sink_size", 2);
    call.integer("sink_window", keys / 2);
    call.scalar("dropout", 0.25);
    call.integers("dropout_seed", {1}, {7}, ElementType::I64);
    call.integers("dropout_offset", {1}, {3}, ElementType::I64);
  };
  return mod;
}

CallOptions optionsFor(const LearnedMod &mod, bool withGradients, RunSettings run) {
  CallOptions options;
  options.with = {mod.file};
  options.with.insert(options.with.end(), mod.more.begin(), mod.more.end());
  options.run = run;
  if (withGradients)
    options.params = {{"CAPTURE_GRADIENTS", "true"}};
  bool isF64 = run.f64;
  options.bind = [&mod, withGradients, isF64](KernelCall &call) {
    for (const LearnedTable &table : mod.tables) {
      if (table.shape.empty())
        call.scalar(table.name, table.values[0]);
      else
        call.input(table.name, isF64 ? ElementType::F64 : table.type, table.shape, table.values);
      if (withGradients)
        call.output("d_" + table.name, isF64 ? ElementType::F64 : ElementType::F32,
                    table.gradientShape());
    }
    if (mod.bindIntegers)
      mod.bindIntegers(call);
  };
  return options;
}

LearnedGradients runLearnedBackward(const AttentionProblem &problem, Type type,
                                    const AttentionInputs &inputs, const ForwardResult &saved,
                                    const LearnedMod &mod, const Params &params, RunSettings run,
                                    bool twice) {
  CallOptions options = optionsFor(mod, /*withGradients=*/true, run);
  options.params.insert(options.params.end(), params.begin(), params.end());
  Params all = attentionParams(problem, type);
  all.insert(all.end(), options.params.begin(), options.params.end());
  KernelCall call("attention_backward", all, options.with);
  bindInputs(call, problem, type, inputs, options);
  bindBackward(call, problem, type, inputs, saved, options);
  options.bind(call);
  if (twice)
    call.runTwice();
  else
    call.run(run);
  LearnedGradients gradients{readBackward(call), {}};
  for (const LearnedTable &table : mod.tables)
    gradients.tables.push_back(call.read("d_" + table.name));
  return gradients;
}

} // namespace tilewright::acceptance
