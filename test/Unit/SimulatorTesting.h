// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels of test/Tgpu on the simulator, with small inputs and a naive reference in double.

#ifndef TILEWRIGHT_TEST_UNIT_SIMULATORTESTING_H
#define TILEWRIGHT_TEST_UNIT_SIMULATORTESTING_H

#include "InterpreterTesting.h"

#include "lib/Codegen/GpuCompiler.h"
#include "lib/Interpreter/Lowering.h"
#include "lib/Interpreter/Simulator/Simulate.h"
#include "passes/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cmath>
#include <limits>

namespace tilewright {

/// Pseudo-random numbers in [-1, 1) that depend only on the position.
inline double noise(int64_t i, int64_t stream) {
  uint64_t x = (static_cast<uint64_t>(i) + 1) * 0x9e3779b97f4a7c15u;
  x += static_cast<uint64_t>(stream) * 0xbf58476d1ce4e5b9u;
  x ^= x >> 31;
  x *= 0x94d049bb133111ebu;
  x ^= x >> 29;
  return static_cast<double>(x >> 11) * 0x1p-52 - 1;
}

inline Tensor randomTensor(ElementType type, llvm::SmallVector<int64_t> shape, int64_t stream) {
  return Tensor(type, std::move(shape), [=](int64_t i) { return noise(i, stream); });
}

/// One call of a kernel: inputs and expected outputs.
struct SimulatedCall {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, Argument> scalars;
  struct Expected {
    std::vector<double> values;
    double tolerance;
  };
  std::map<std::string, Expected> expected;

  llvm::StringMap<Argument> arguments() {
    llvm::StringMap<Argument> map;
    for (auto &[name, tensor] : tensors)
      map[name] = tensor.argument();
    for (auto &[name, value] : scalars)
      map[name] = value;
    return map;
  }
  void expectResults() {
    for (auto &[name, expectation] : expected) {
      const Tensor &tensor = tensors.at(name);
      for (int64_t i = 0; i < tensor.count; ++i) {
        expectValue(tensor.get(i), expectation.values[i], expectation.tolerance,
                    name + "[" + std::to_string(i) + "]");
        if (testing::Test::HasFailure())
          return; // one failure is enough
      }
    }
  }
};

/// Attention of one shape, with separate keys for all heads; without keys, O = 0 and LSE = -inf.
struct AttentionReference {
  AttentionReference(const Tensor &q, const Tensor &k, const Tensor &v, double scale)
      : heads(q.shape[0] * q.shape[1]), rows(q.shape[2]), keys(k.shape[2]), depth(q.shape[3]),
        scale(scale), q(q), k(k), v(v), p(heads * rows * keys), o(heads * rows * depth),
        lse(heads * rows) {
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < rows; ++i) {
        double max = -std::numeric_limits<double>::infinity(), sum = 0;
        double *row = p.data() + (h * rows + i) * keys;
        for (int64_t j = 0; j < keys; ++j) {
          row[j] = scale * dot(q, h, i, rows, k, j);
          max = std::max(max, row[j]);
        }
        for (int64_t j = 0; j < keys; ++j)
          sum += row[j] = std::exp(row[j] - max);
        for (int64_t j = 0; j < keys; ++j) {
          row[j] /= sum;
          for (int64_t d = 0; d < depth; ++d)
            o[(h * rows + i) * depth + d] += row[j] * v.get((h * keys + j) * depth + d);
        }
        lse[h * rows + i] = keys ? max + std::log(sum) : max;
      }
  }

  /// Row i of x, row j of y, of a head.
  double dot(const Tensor &x, int64_t h, int64_t i, int64_t xRows, const Tensor &y,
             int64_t j) const {
    double sum = 0;
    for (int64_t d = 0; d < depth; ++d)
      sum += x.get((h * xRows + i) * depth + d) * y.get((h * keys + j) * depth + d);
    return sum;
  }

  int64_t heads, rows, keys, depth;
  double scale;
  const Tensor &q, &k, &v;
  std::vector<double> p, o, lse;
};

inline SimulatedCall attentionForward(int64_t batch, int64_t heads, int64_t rows, int64_t keys,
                                      int64_t depth, ElementType type = ElementType::BF16) {
  SimulatedCall call;
  auto add = [&](const char *name, ElementType type, llvm::SmallVector<int64_t> shape) -> Tensor & {
    int64_t stream = static_cast<int64_t>(call.tensors.size());
    return call.tensors.emplace(name, randomTensor(type, std::move(shape), stream)).first->second;
  };
  Tensor &q = add("q", type, {batch, heads, rows, depth});
  Tensor &k = add("k", type, {batch, heads, keys, depth});
  Tensor &v = add("v", type, {batch, heads, keys, depth});
  add("o", type, {batch, heads, rows, depth});
  add("lse", ElementType::F32, {batch, heads, rows});
  double scale = 0.25;
  call.scalars["scale_log2"] = scale / std::log(2.0);
  AttentionReference reference(q, k, v, scale);
  call.expected["o"] = {reference.o, 0.02};
  call.expected["lse"] = {reference.lse, 1e-4};
  return call;
}

inline SimulatedCall attentionBackward(int64_t heads, int64_t rows, int64_t keys,
                                       int64_t depth = 64) {
  SimulatedCall call;
  auto add = [&](const char *name, ElementType type, llvm::SmallVector<int64_t> shape) -> Tensor & {
    int64_t stream = static_cast<int64_t>(call.tensors.size());
    return call.tensors.emplace(name, randomTensor(type, std::move(shape), stream)).first->second;
  };
  Tensor &q = add("q", ElementType::BF16, {1, heads, rows, depth});
  Tensor &k = add("k", ElementType::BF16, {1, heads, keys, depth});
  Tensor &v = add("v", ElementType::BF16, {1, heads, keys, depth});
  Tensor &gradient = add("do", ElementType::BF16, {1, heads, rows, depth});
  Tensor &lse = add("lse_log2", ElementType::F32, {1, heads, rows});
  Tensor &delta = add("delta", ElementType::F32, {1, heads, rows});
  Tensor &dq = add("dq", ElementType::F32, {1, heads, rows, depth});
  add("dk", ElementType::BF16, {1, heads, keys, depth});
  add("dv", ElementType::BF16, {1, heads, keys, depth});
  dq.fill([](int64_t) { return 0; });
  double scale = 0.25;
  call.scalars["scale"] = scale;
  call.scalars["scale_log2"] = scale / std::log(2.0);
  AttentionReference reference(q, k, v, scale);
  std::vector<double> dqs(dq.count), dks(heads * keys * depth), dvs(heads * keys * depth);
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t i = 0; i < rows; ++i) {
      int64_t row = h * rows + i;
      lse.set(row, reference.lse[row] / std::log(2.0));
      double sum = 0;
      for (int64_t d = 0; d < depth; ++d)
        sum += reference.o[row * depth + d] * gradient.get(row * depth + d);
      delta.set(row, sum);
      for (int64_t j = 0; j < keys; ++j) {
        double p = reference.p[row * keys + j];
        double ds = p * (reference.dot(gradient, h, i, rows, v, j) - sum);
        for (int64_t d = 0; d < depth; ++d) {
          dqs[row * depth + d] += ds * k.get((h * keys + j) * depth + d);
          dks[(h * keys + j) * depth + d] += scale * ds * q.get(row * depth + d);
          dvs[(h * keys + j) * depth + d] += p * gradient.get(row * depth + d);
        }
      }
    }
  call.expected["dq"] = {dqs, 0.02};
  call.expected["dk"] = {dks, 0.02};
  call.expected["dv"] = {dvs, 0.02};
  return call;
}

/// Of a kernel for dK and dV only.
inline SimulatedCall attentionBackwardKeys(int64_t heads, int64_t rows, int64_t keys,
                                           int64_t depth) {
  SimulatedCall call = attentionBackward(heads, rows, keys, depth);
  call.tensors.erase("dq");
  call.expected.erase("dq");
  return call;
}

inline SimulatedCall matmul(int64_t m, int64_t n, int64_t k, ElementType type = ElementType::BF16) {
  SimulatedCall call;
  Tensor &a = call.tensors.emplace("a", randomTensor(type, {m, k}, 1)).first->second;
  Tensor &b = call.tensors.emplace("b", randomTensor(type, {k, n}, 2)).first->second;
  call.tensors.emplace("c", randomTensor(type, {m, n}, 3));
  std::vector<double> c(m * n);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t l = 0; l < k; ++l)
        c[i * n + j] += a.get(i, l) * b.get(l, j);
  call.expected["c"] = {c, 0.02};
  return call;
}

/// Extents of a call with named arguments. There are two heads of queries.
struct CallExtents {
  static constexpr int64_t kExperts = 3; ///< of a grouped product
  int64_t rows = 130, keys = 250, depth = 16;
  int64_t blockM = 32, blockN = 16; ///< block sizes of lists of blocks
  int64_t batch = 1;
  bool isOneSequence = false; ///< keys have the length and the heads of queries
  bool isRowBias = false;     ///< the bias is the same for all queries
  int64_t keyHeads = 1;       ///< heads of keys, for two heads of queries
  int64_t pageRows = 0;       ///< rows of a page, where `rows` sequences have few queries each
  int64_t heads = 2;          ///< of these queries
  int64_t ropeDepth =
      0; ///< columns of these queries and keys besides `depth`, in a view of keys of their own
  int64_t decodeQueries = 1; ///< so many
  int64_t cacheRows = 0;     ///< rows of a page, where one sequence has all queries
  bool hasResult = true;     ///< o is given, where it is optional
  bool hasTwoMaps = false;   ///< queries and keys have two heads for each of v and o

  int64_t pagesOfSequence() const { return (keys + pageRows - 1) / pageRows; }
  llvm::SmallVector<int64_t> shapeInDecode(llvm::StringRef name) const {
    if (name == "rope_pages")
      return {rows * pagesOfSequence(), pageRows, keyHeads, ropeDepth};
    if (name.ends_with("_scales")) // of latent rows: four factors of each
      return {rows * pagesOfSequence() * pageRows, ropeDepth > 0 ? 4 : keyHeads};
    if (name.ends_with("_pages"))
      return {rows * pagesOfSequence(), pageRows, keyHeads, depth};
    if (name == "block_table")
      return {rows, pagesOfSequence()};
    if (name == "seq_lens")
      return {rows};
    if (name == "kv_indices")
      return {rows, keyHeads, 1, (keys + blockN - 1) / blockN};
    if (name == "kv_num_blocks")
      return {rows, keyHeads, 1};
    llvm::SmallVector<int64_t> shape{rows, heads, decodeQueries};
    if (name != "lse")
      shape.push_back(depth + (name == "q" ? ropeDepth : 0));
    return shape;
  }

  llvm::SmallVector<int64_t> shapeOf(llvm::StringRef name, unsigned rank) const {
    if (pageRows > 0)
      return shapeInDecode(name);
    if (cacheRows > 0) {
      int64_t pages = (keys + cacheRows - 1) / cacheRows;
      if (name == "k" || name == "v")
        return {pages, cacheRows, keyHeads, depth};
      if (name == "block_table")
        return {1, pages};
      if (name == "seq_lens")
        return {1};
    }
    if (hasTwoMaps && (name == "lambda" || name == "d_lambda"))
      return {1};
    if (hasTwoMaps && rank == 4) {
      bool isOfKeys = name == "k" || name == "v" || name == "dk" || name == "dv";
      bool isOfMaps = name == "q" || name == "k" || name == "dq" || name == "dk";
      return {batch, isOfMaps ? 2 : 1, isOfKeys ? keys : rows, depth};
    }
    if (rank == 1)
      return {name.contains("descale") || name.starts_with("dropout_")               ? 1
              : name == "cu_seqlens_q" || name == "cu_seqlens_k" || name == "lambda" ? 2
              : name == "bias"                                                       ? keys
              : name == "ends"                                                       ? kExperts
              : name.ends_with("_shift")                                             ? batch
                                                                                     : rows};
    // Products: x [rows, depth] times w [depth, keys].
    if (name == "a" || name == "x")
      return {rows, depth};
    if (name == "b" && rank == 3)
      return {kExperts, depth, keys};
    if (name == "b" || name.starts_with("w_"))
      return {depth, keys};
    constexpr int64_t chunk = 512, words = 64, group = 128; // of int4_matmul
    if (name == "packed")
      return {(depth + chunk - 1) / chunk * words, keys};
    if (name == "scales" || name == "zeros")
      return {(depth + group - 1) / group, keys};
    if (name == "c" || name == "y")
      return {rows, keys};
    if (name.starts_with("state") || name.starts_with("dstate"))
      return {batch, 2, depth, depth};
    if (name.ends_with("_document"))
      return {batch, name == "key_document" ? keys : rows};
    bool isOfKeys = !isOneSequence && (name == "k" || name == "v" || name == "dk" || name == "dv" ||
                                       name == "k1" || name == "k2");
    bool isPacked =
        rank == 3 && name.size() <= 2 && name != "g" && name != "dg"; // sequences in one dimension
    if (isPacked)
      return {isOfKeys ? keys : rows, isOfKeys ? keyHeads : 2, depth};
    if (rank == 2)
      return {2, rows};
    if (isOfKeys)
      return {batch, keyHeads, keys, depth};
    if (name == "bias" || name == "d_score" || name == "p")
      return {batch, 2, isRowBias ? 1 : rows, keys};
    int64_t rowBlocks = (rows + blockM - 1) / blockM, keyBlocks = (keys + blockN - 1) / blockN;
    if (name == "kv_indices")
      return {batch, 2, rowBlocks, keyBlocks};
    if (name == "kv_num_blocks")
      return {batch, 2, rowBlocks};
    llvm::SmallVector<int64_t> shape{batch, 2, rows};
    if (rank == 4)
      shape.push_back(depth);
    return shape;
  }

  SimulatedCall makeCall(llvm::ArrayRef<ArgumentInfo> arguments, int64_t window = 40) const {
    SimulatedCall call;
    for (const ArgumentInfo &argument : arguments) {
      auto view = mlir::dyn_cast<tile::ViewType>(argument.type);
      if (!view) {
        if (argument.type.isF32())
          call.scalars[argument.name] = 0.25;
        else if (argument.name.rfind("window", 0) == 0)
          call.scalars[argument.name] = window;
        else // lengths
          call.scalars[argument.name] = std::max(rows, keys);
        continue;
      }
      if (!hasResult && argument.name == "o" && argument.isOptional)
        continue;
      ElementType type = *interpreter::elementTypeOf(view);
      Tensor tensor = randomTensor(type, shapeOf(argument.name, view.getRank()), 7);
      int64_t keyBlocks = (keys + blockN - 1) / blockN;
      if (argument.name == "kv_indices")
        tensor.fill([&](int64_t i) { return static_cast<double>(i * 5 % keyBlocks); });
      if (argument.name == "cu_seqlens_q" || argument.name == "cu_seqlens_k")
        tensor.fill([&](int64_t i) {
          return static_cast<double>(i * (argument.name.back() == 'q' ? rows : keys));
        });
      if (llvm::StringRef(argument.name).ends_with("_document"))
        tensor.fill([&, length = tensor.shape.back()](int64_t i) {
          return static_cast<double>(i % length / 100);
        });
      if (argument.name == "block_table")
        tensor.fill([](int64_t i) { return static_cast<double>(i); });
      if (argument.name == "seq_lens")
        tensor.fill([&](int64_t) { return static_cast<double>(keys); });
      if (argument.name == "ends") // of experts: the second has no rows
        tensor.fill([&](int64_t i) { return i == kExperts - 1 ? rows - 1 : rows / 3; });
      if (argument.name == "kv_num_blocks")
        tensor.fill([&](int64_t) { return static_cast<double>(keyBlocks); });
      call.tensors.emplace(argument.name, std::move(tensor));
    }
    return call;
  }
};

class SimulatorTest : public InterpreterTest {
protected:
  /// Loads a file of the source tree, where tests run, and assigns offsets to its buffers.
  mlir::OwningOpRef<mlir::ModuleOp> load(const std::string &path) {
    auto file = llvm::MemoryBuffer::getFile(path);
    EXPECT_TRUE(file) << path;
    if (!file)
      return nullptr;
    mlir::OwningOpRef<mlir::ModuleOp> module = parseBuffer(context, (*file)->getMemBufferRef());
    mlir::PassManager manager(&context);
    manager.addPass(createTgpuPlanSharedMemory());
    if (module && mlir::failed(manager.run(*module)))
      module = nullptr;
    EXPECT_TRUE(module) << messages;
    return module;
  }

  using Params = std::vector<std::pair<std::string, std::string>>;

  llvm::SmallVector<ArgumentInfo> entryArguments; ///< arguments of the entry mapped last

  /// A shipped kernel, as the compiler maps it; `with` are linked files.
  mlir::OwningOpRef<mlir::ModuleOp> map(const std::string &file, const Params &params,
                                        const std::string &target = "sm_80", int64_t warps = 4,
                                        const std::vector<std::string> &with = {},
                                        const std::vector<std::string> &schedule = {},
                                        const std::string &sums = "auto") {
    TilePipelineOptions options;
    options.sums = sums;
    options.with = with;
    options.target = target;
    GpuOptions gpu;
    gpu.target = target;
    gpu.warps = warps;
    gpu.schedule = schedule;
    options.params = params;
    mlir::OwningOpRef<mlir::ModuleOp> module = compileFile(context, "kernels/" + file, options);
    if (module)
      entryArguments = getArguments(findEntry(*module));
    if (module && mlir::failed(mapToGpu(*module, gpu)))
      module = nullptr;
    EXPECT_TRUE(module) << messages;
    return module;
  }

  void simulateCall(mlir::ModuleOp module, const std::string &entry, SimulatedCall call,
                    const SimulationOptions &options = {}) {
    messages.clear();
    ASSERT_TRUE(mlir::succeeded(simulate(module, entry, call.arguments(), options))) << messages;
    call.expectResults();
  }
};

} // namespace tilewright

#endif // TILEWRIGHT_TEST_UNIT_SIMULATORTESTING_H
