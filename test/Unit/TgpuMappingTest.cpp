// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-to-tgpu preserves the semantics of kernels: the mapped kernel, run without threads on the
// CPU, gives the results of the tile kernel, bitwise unless a test states a reason.

#include "InterpreterTesting.h"

#include "lib/Interpreter/TgpuKernels.h"
#include "passes/Conversion/TileLayouts.h"
#include "passes/Passes.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

namespace tilewright {
namespace {

using Params = std::vector<std::pair<std::string, std::string>>;

/// Pseudo-random numbers in [-1, 1) that depend only on the position.
double noise(int64_t i, int64_t stream) {
  uint64_t x = (static_cast<uint64_t>(i) + 1) * 0x9e3779b97f4a7c15u;
  x += static_cast<uint64_t>(stream) * 0xbf58476d1ce4e5b9u;
  x ^= x >> 31;
  x *= 0x94d049bb133111ebu;
  x ^= x >> 29;
  return static_cast<double>(x >> 11) * 0x1p-52 - 1;
}

class TgpuMappingTest : public InterpreterTest {
protected:
  Tensor input(ElementType type, llvm::SmallVector<int64_t> shape) {
    int64_t stream = ++streams;
    return Tensor(type, std::move(shape), [=](int64_t i) { return noise(i, stream); });
  }

  mlir::OwningOpRef<mlir::ModuleOp> compile(const std::string &file, const Params &params) {
    TilePipelineOptions options;
    options.params = params;
    return compileFile(context, file, options);
  }

  /// The passes up to the assignment of offsets to buffers.
  bool mapOntoGpu(mlir::ModuleOp module, int64_t warps) {
    mlir::PassManager manager(&context);
    manager.addPass(createTileToTgpu({target, warps}));
    manager.addPass(mlir::createCanonicalizerPass());
    manager.addPass(mlir::createCSEPass());
    manager.addPass(createTgpuPlanSharedMemory());
    return mlir::succeeded(manager.run(module));
  }

  bool runModule(mlir::ModuleOp module, const Arguments &arguments) {
    mlir::Operation *entry = findEntry(module);
    if (!entry)
      return false;
    llvm::StringMap<Argument> map;
    for (const auto &[name, argument] : arguments)
      map[name] = argument;
    RunOptions options;
    options.threads = 1; // gives atomic additions a fixed order
    return mlir::succeeded(runOnCpu(entry, map, options));
  }

  /// Runs the kernel before and after mapping, and compares `outputs`.
  void compare(const std::string &file, const Params &params, Arguments arguments,
               std::map<std::string, Tensor *> outputs, double tolerance = 0, int64_t warps = 4) {
    messages.clear();
    mlir::OwningOpRef<mlir::ModuleOp> module = compile("kernels/" + file, params);
    ASSERT_TRUE(module) << messages;
    for (auto &[name, tensor] : outputs)
      arguments[name] = tensor->argument();
    ASSERT_TRUE(runModule(*module, arguments)) << messages;

    ASSERT_TRUE(mapOntoGpu(*module, warps)) << messages;
    unwrapTgpuKernels(*module);
    std::map<std::string, Tensor> mapped;
    for (auto &[name, tensor] : outputs) {
      auto [it, isNew] = mapped.emplace(name, Tensor(tensor->type, tensor->shape, 0.875));
      arguments[name] = it->second.argument();
    }
    ASSERT_TRUE(runModule(*module, arguments)) << messages;
    for (auto &[name, expected] : outputs) {
      Tensor &got = mapped.at(name);
      if (tolerance == 0 && got.memory == expected->memory)
        continue;
      for (int64_t i = 0; i < got.count; ++i) {
        expectValue(got.get(i), expected->get(i), tolerance, name + "[" + std::to_string(i) + "]");
        if (HasFailure())
          return; // one failure is enough
      }
    }
  }

  /// Expects mapping to fail with this text among its diagnostics.
  void expectRejected(const std::string &file, const Params &params, const std::string &message,
                      int64_t warps = 4) {
    messages.clear();
    mlir::OwningOpRef<mlir::ModuleOp> module = compile("kernels/" + file, params);
    ASSERT_TRUE(module) << messages;
    EXPECT_FALSE(mapOntoGpu(*module, warps));
    EXPECT_NE(messages.find(message), std::string::npos) << messages << "expected: " << message;
  }

  int64_t streams = 0;
  std::string target = "sm_80";
};

TEST_F(TgpuMappingTest, MatMul) {
  for (auto [name, type] : {std::pair("f16", ElementType::F16),
                            {"bf16", ElementType::BF16},
                            {"f32", ElementType::F32},
                            {"f64", ElementType::F64}}) {
    Tensor a = input(type, {70, 90}), b = input(type, {90, 50}), bias = input(type, {50});
    Tensor c(type, {70, 50});
    Params params{{"T", name},
                  {"BLOCK_M", "64"},
                  {"BLOCK_N", "32"},
                  {"BLOCK_K", "32"},
                  {"ACTIVATION", "gelu_tanh"}};
    compare("matmul.mlir", params,
            {{"a", a.argument()}, {"b", b.argument()}, {"bias", bias.argument()}, {"alpha", 0.5}},
            {{"c", &c}});
  }
}

TEST_F(TgpuMappingTest, MatMulByWarpsSideBySide) {
  Tensor a = input(ElementType::F16, {40, 64}), b = input(ElementType::F16, {64, 64});
  Tensor c(ElementType::F16, {40, 64});
  Params params{{"T", "f16"}, {"BLOCK_M", "32"}, {"BLOCK_N", "64"}, {"BLOCK_K", "16"}};
  compare("matmul.mlir", params, {{"a", a.argument()}, {"b", b.argument()}, {"alpha", 1.0}},
          {{"c", &c}}, 0, 8);
}

TEST_F(TgpuMappingTest, MatMulByWarpgroups) {
  target = "sm_90a";
  for (auto [name, type] : {std::pair("f16", ElementType::F16), {"bf16", ElementType::BF16}}) {
    Tensor a = input(type, {140, 90}), b = input(type, {90, 100}), bias = input(type, {100});
    Tensor c(type, {140, 100});
    Params params{{"T", name}, {"BLOCK_M", "128"}, {"BLOCK_N", "64"}, {"ACTIVATION", "silu"}};
    compare("matmul.mlir", params,
            {{"a", a.argument()}, {"b", b.argument()}, {"bias", bias.argument()}, {"alpha", 0.5}},
            {{"c", &c}}, 0, 8);
  }
}

TEST_F(TgpuMappingTest, RowSoftmax) {
  for (auto [name, type] : {std::pair("f16", ElementType::F16), {"f64", ElementType::F64}}) {
    Tensor x = input(type, {7, 300}), y(type, {7, 300});
    compare("row_softmax.mlir", {{"T", name}, {"BLOCK_N", "128"}},
            {{"x", x.argument()}, {"scale", 3.0}}, {{"y", &y}});
  }
}

TEST_F(TgpuMappingTest, LayerNorm) {
  Tensor x = input(ElementType::F16, {9, 100}), weight = input(ElementType::F16, {100});
  Tensor y(ElementType::F16, {9, 100}), mean(ElementType::F32, {9}), rstd(ElementType::F32, {9});
  compare("layer_norm.mlir", {{"T", "f16"}, {"N", "100"}},
          {{"x", x.argument()}, {"weight", weight.argument()}, {"eps", 1e-5}},
          {{"y", &y}, {"mean", &mean}, {"rstd", &rstd}});
}

class AttentionMappingTest : public TgpuMappingTest {
protected:
  void forward(ElementType type, Params params, int64_t d, int64_t sq, int64_t skv,
               int64_t windowLeft = -1, int64_t windowRight = -1, double tolerance = 0) {
    Tensor q = input(type, {1, 2, sq, d}), k = input(type, {1, 1, skv, d}),
           v = input(type, {1, 1, skv, d});
    Tensor o(type, {1, 2, sq, d}),
        lse(type == ElementType::F64 ? type : ElementType::F32, {1, 2, sq});
    params.push_back({"D", std::to_string(d)});
    compare("attention_forward.mlir", params,
            {{"q", q.argument()},
             {"k", k.argument()},
             {"v", v.argument()},
             {"scale", 0.5},
             {"window_left", windowLeft},
             {"window_right", windowRight}},
            {{"o", &o}, {"lse", &lse}}, tolerance);
  }
};

TEST_F(AttentionMappingTest, Forward) {
  for (const char *causal : {"none", "top_left", "bottom_right"})
    forward(ElementType::F16,
            {{"T", "f16"}, {"CAUSAL", causal}, {"BLOCK_M", "64"}, {"BLOCK_N", "32"}}, 64, 150, 170);
}

TEST_F(AttentionMappingTest, ForwardOfOtherElements) {
  forward(ElementType::BF16, {{"T", "bf16"}, {"BLOCK_M", "64"}, {"BLOCK_N", "32"}}, 32, 70, 70);
  forward(ElementType::F32, {{"T", "f32"}, {"BLOCK_M", "64"}, {"BLOCK_N", "32"}}, 32, 70, 70);
}

TEST_F(AttentionMappingTest, ForwardByWarpgroups) {
  target = "sm_90a";
  forward(ElementType::BF16,
          {{"T", "bf16"}, {"CAUSAL", "top_left"}, {"BLOCK_M", "64"}, {"BLOCK_N", "64"}}, 64, 150,
          170);
}

TEST_F(AttentionMappingTest, ForwardWithinAWindow) {
  // Rows without keys, and blocks within the ranges that contain no pair.
  forward(ElementType::F16,
          {{"T", "f16"},
           {"WINDOW", "true"},
           {"CAUSAL", "top_left"},
           {"BLOCK_M", "64"},
           {"BLOCK_N", "16"}},
          32, 130, 60, 20, 5);
}

TEST_F(AttentionMappingTest, ForwardRoundsTheInnerExtentUp) {
  // 72 becomes 80: the same sums, but the CPU adds them in another order.
  forward(ElementType::F16, {{"T", "f16"}, {"BLOCK_M", "64"}, {"BLOCK_N", "32"}}, 72, 70, 70, -1,
          -1, 2e-3);
}

TEST_F(AttentionMappingTest, ListedBlocks) {
  // Unordered; one beyond the keys, one negative, some beyond the count. An entry covers one block,
  // or two.
  Tensor q = input(ElementType::F16, {1, 2, 100, 32}), k = input(ElementType::F16, {1, 1, 70, 32}),
         v = input(ElementType::F16, {1, 1, 70, 32});
  const double numbers[] = {3, 0, 7, 4, 1, -1, 2, 0, 1, 1, 4, 2, 3, 0, 9, 1};
  Tensor blocks(ElementType::I32, {1, 2, 2, 4}, [&](int64_t i) { return numbers[i]; });
  Tensor counts(ElementType::I32, {1, 2, 2}, [](int64_t i) { return 4 - i; });
  Tensor o(ElementType::F16, {1, 2, 100, 32}), lse(ElementType::F32, {1, 2, 100});
  for (auto [causal, keysOfEntry] : {std::pair("none", "16"), {"top_left", "16"}, {"none", "32"}})
    compare("attention_forward.mlir",
            {{"T", "f16"},
             {"D", "32"},
             {"CAUSAL", causal},
             {"LISTED", "true"},
             {"LIST_BLOCK_M", "64"},
             {"LIST_BLOCK_N", keysOfEntry},
             {"BLOCK_M", "64"},
             {"BLOCK_N", "16"}},
            {{"q", q.argument()},
             {"k", k.argument()},
             {"v", v.argument()},
             {"kv_indices", blocks.argument()},
             {"kv_num_blocks", counts.argument()},
             {"scale", 0.5},
             {"window_left", int64_t(-1)},
             {"window_right", int64_t(-1)}},
            {{"o", &o}, {"lse", &lse}});
}

TEST_F(AttentionMappingTest, Backward) {
  constexpr int64_t d = 32, sq = 70, skv = 100;
  for (auto [name, type] : {std::pair("f16", ElementType::F16), {"f32", ElementType::F32}})
    for (const char *deterministic : {"false", "true"}) {
      Tensor q = input(type, {1, 2, sq, d}), k = input(type, {1, 1, skv, d}),
             v = input(type, {1, 1, skv, d}), o = input(type, {1, 2, sq, d}),
             dO = input(type, {1, 2, sq, d}), lse = input(ElementType::F32, {1, 2, sq});
      Tensor dq(type, {1, 2, sq, d}), dk(type, {1, 1, skv, d}), dv(type, {1, 1, skv, d});
      compare("attention_backward.mlir",
              {{"T", name},
               {"D", std::to_string(d)},
               {"CAUSAL", "top_left"},
               {"DETERMINISTIC", deterministic},
               {"BLOCK_M", "32"},
               {"BLOCK_N", "64"}},
              {{"q", q.argument()},
               {"k", k.argument()},
               {"v", v.argument()},
               {"o", o.argument()},
               {"do", dO.argument()},
               {"lse", lse.argument()},
               {"scale", 0.25},
               {"window_left", int64_t(-1)},
               {"window_right", int64_t(-1)}},
              {{"dq", &dq}, {"dk", &dk}, {"dv", &dv}});
    }
}

TEST_F(AttentionMappingTest, ForwardInF64) {
  forward(ElementType::F64, {{"T", "f64"}, {"BLOCK_M", "32"}, {"BLOCK_N", "32"}}, 32, 70, 70);
}

TEST_F(AttentionMappingTest, Float8) {
  // Products of f16 represent those of 8 bits; the CPU adds as before.
  for (auto [name, type] : {std::pair("e4m3", ElementType::E4M3), {"e5m2", ElementType::E5M2}}) {
    Tensor q = input(type, {1, 2, 70, 32}), k = input(type, {1, 1, 90, 32}),
           v = input(type, {1, 1, 90, 32});
    Tensor one(ElementType::F32, {1}, [](int64_t) { return 0.5; });
    Tensor o(ElementType::BF16, {1, 2, 70, 32}), lse(ElementType::F32, {1, 2, 70});
    compare(
        "attention_forward.mlir",
        {{"T", name}, {"D", "32"}, {"CAUSAL", "top_left"}, {"BLOCK_M", "64"}, {"BLOCK_N", "32"}},
        {{"q", q.argument()},
         {"k", k.argument()},
         {"v", v.argument()},
         {"q_descale", one.argument()},
         {"k_descale", one.argument()},
         {"v_descale", one.argument()},
         {"scale", 0.5}},
        {{"o", &o}, {"lse", &lse}});
    Tensor a = input(type, {70, 90}), b = input(type, {90, 64}), c(ElementType::F16, {70, 64});
    compare("matmul.mlir",
            {{"T", name}, {"TC", "f16"}, {"BLOCK_M", "64"}, {"BLOCK_N", "32"}, {"BLOCK_K", "32"}},
            {{"a", a.argument()}, {"b", b.argument()}, {"alpha", 1.0}}, {{"c", &c}});
  }
}

TEST_F(AttentionMappingTest, QueriesOfAGroupAsRows) {
  constexpr int64_t keys = 50;
  for (auto [name, type] : {std::pair("f16", ElementType::F16), {"f32", ElementType::F32}})
    for (auto [group, d] : {std::pair<int64_t, int64_t>(4, 32), {3, 32}, {4, 40}}) {
      Tensor q = input(type, {2, 2 * group, 7, d}), k = input(type, {2, keys, 2, d}),
             v = input(type, {2, keys, 2, d});
      Tensor lengths(ElementType::I32, {2}, [](int64_t i) { return i ? 33. : 50.; });
      Tensor o(type, {2, 2 * group, 7, d}), lse(ElementType::F32, {2, 2 * group, 7});
      compare("attention_decode.mlir",
              {{"T", name},
               {"D", std::to_string(d)},
               {"GROUP", std::to_string(group)},
               {"ROWS", "8"},
               {"CAUSAL", "bottom_right"},
               {"BLOCK_N", "32"}},
              {{"q", q.argument()},
               {"k_pages", k.argument()},
               {"v_pages", v.argument()},
               {"seq_lens", lengths.argument()},
               {"scale", 0.5},
               {"window_left", int64_t(-1)},
               {"window_right", int64_t(-1)}},
              {{"o", &o}, {"lse", &lse}},
              d % 16 == 0 ? 0 : 2e-3); // 40 is padded to 48: the order of additions differs
    }
}

TEST_F(AttentionMappingTest, PagesAndParts) {
  constexpr int64_t page = 16;
  ElementType type = ElementType::F16;
  Tensor q = input(type, {2, 4, 1, 32}), k = input(type, {5, page, 2, 32}),
         v = input(type, {5, page, 2, 32});
  const double pages[] = {3, 0, 1, 4, 2, 0}, lengths[] = {40, 17};
  Tensor table(ElementType::I32, {2, 3}, [&](int64_t i) { return pages[i]; });
  Tensor keys(ElementType::I32, {2}, [&](int64_t i) { return lengths[i]; });
  Tensor o(type, {2, 4, 1, 32}), lse(ElementType::F32, {2, 4, 1});
  // A product of 16 x 16 is divided between two warps, though four are available.
  compare("attention_decode.mlir",
          {{"T", "f16"},
           {"D", "32"},
           {"GROUP", "2"},
           {"PAGE_ROWS", "16"},
           {"BLOCK_N", "16"},
           {"SPLITS", "2"}},
          {{"q", q.argument()},
           {"k_pages", k.argument()},
           {"v_pages", v.argument()},
           {"block_table", table.argument()},
           {"seq_lens", keys.argument()},
           {"scale", 0.5},
           {"window_left", int64_t(-1)},
           {"window_right", int64_t(-1)}},
          {{"o", &o}, {"lse", &lse}});
}

TEST_F(TgpuMappingTest, TilesOfHigherRankAndIndices) {
  Tensor x = input(ElementType::F32, {7, 6, 16}), table = input(ElementType::F32, {9, 12});
  // Some indices twice, some out of bounds.
  const double which[] = {3, 0, 11, 8, -1, 3, 20, 5, 1, 7, 2, 8, 6, 4, 10, 3};
  Tensor rows(ElementType::I32, {16}, [&](int64_t i) { return which[i]; });
  Tensor y(ElementType::F32, {7, 6, 16}), sums(ElementType::F32, {7, 6});
  Tensor added(ElementType::F32, {9, 12}, [](int64_t) { return 0.875; });
  compare("../test/Unit/Inputs/rearranged.mlir", {},
          {{"x", x.argument()}, {"table", table.argument()}, {"rows", rows.argument()}},
          {{"y", &y}, {"sums", &sums}, {"added", &added}}, 1e-6);
}

TEST_F(TgpuMappingTest, Rejections) {
  expectRejected("attention_forward.mlir", {{"D", "256"}, {"T", "f32"}},
                 "bytes of shared memory, but the limit of sm_80 is 166912; use smaller blocks");
  expectRejected("matmul.mlir", {{"T", "f16"}},
                 "must be a power of two from 1 to 32, on sm_90a also a multiple of 4, or 0 for an "
                 "automatic choice, but got 3",
                 3);
}

/// The simulator counts the threads of a row by a formula, code generation from the layout.
TEST_F(TgpuMappingTest, ThreadsOfARowAreCountedAlike) {
  context.loadDialect<tgpu::TgpuDialect>();
  mlir::Type f32 = mlir::Float32Type::get(&context);
  mlir::Attribute layouts[] = {tgpu::MmaAttr::get(&context, 2, 2),
                               tgpu::MmaAttr::get(&context, 4, 1),
                               tgpu::WgmmaAttr::get(&context, 1, false)};
  for (mlir::Attribute parent : layouts)
    for (int64_t dim : {0, 1}) {
      auto whole = *tgpu::getRegisterLayout(mlir::RankedTensorType::get({64, 48}, f32, parent));
      int64_t shape[] = {64, 48};
      shape[dim] = tgpu::getThreadsAlong(parent, dim);
      auto byThread = *tgpu::getRegisterLayout(
          mlir::RankedTensorType::get(shape, f32, tgpu::ByThreadAttr::get(&context, dim, parent)));
      EXPECT_EQ(byThread.shape(), std::vector<int64_t>(std::begin(shape), std::end(shape)));
      for (int64_t index = 0; index < whole.shape()[dim]; ++index) {
        layout::Coord at = {0, 0}, thread = {0, 0};
        at[dim] = index;
        thread[dim] = tgpu::getThreadAlong(parent, dim, index);
        layout::Owner holder = whole.owners(at).front(), counted = byThread.owners(thread).front();
        EXPECT_EQ(holder.warp, counted.warp);
        EXPECT_EQ(holder.lane, counted.lane);
      }
    }
}

} // namespace
} // namespace tilewright
