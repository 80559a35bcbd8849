// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Constraints on the elements of index arrays in GPU memory, with the kernels that have them. The
// unit tests check the errors of every constraint.

#include "test/Gpu/GpuTesting.h"

using namespace tilewright;
using namespace tilewright::gputest;

namespace {

struct Indices {
  std::vector<int32_t> values;
  std::vector<int64_t> shape;

  ArrayArgument array() {
    ArrayArgument argument;
    argument.type = ElementType::I32;
    argument.shape.assign(shape.begin(), shape.end());
    argument.strides.assign(shape.size(), 1);
    if (shape.size() == 2)
      argument.strides[0] = shape[1];
    argument.data = values.data();
    return argument;
  }
};

class IndexCheckGpu : public GpuTest {
protected:
  /// A row-major bf16 array.
  static ArrayArgument rows(std::vector<uint8_t> &bytes, std::vector<int64_t> shape) {
    ArrayArgument argument;
    argument.type = type;
    argument.shape.assign(shape.begin(), shape.end());
    argument.strides.assign(shape.size(), 1);
    for (size_t dim = shape.size(); dim-- > 1;)
      argument.strides[dim - 1] = argument.strides[dim] * shape[dim];
    argument.data = bytes.data();
    return argument;
  }
  std::string run(GpuOperation &operation, const llvm::StringMap<Argument> &arguments,
                  bool checksIndices) {
    operation.checkIndices(checksIndices);
    llvm::Expected<std::unique_ptr<GpuCall>> call = GpuCall::create(operation, arguments);
    llvm::Error error = call ? (*call)->run() : call.takeError();
    operation.checkIndices(false);
    return llvm::toString(std::move(error));
  }
};

TEST_F(IndexCheckGpu, OffsetsOfSequences) {
  constexpr int64_t tokens = 300, D = 64;
  auto operation = compile("attention_forward", {{"D", "64"}, {"T", "bf16"}, {"PACKED", "true"}});
  ASSERT_TRUE(operation);
  std::vector<uint8_t> q = normal(tokens * 2 * D, 1), k = normal(tokens * 2 * D, 2),
                       v = normal(tokens * 2 * D, 3), o(q.size()), unchecked;
  Indices queries{{0, 100, 100, 300}, {4}}, keys = queries;
  llvm::StringMap<Argument> arguments;
  arguments["q"] = rows(q, {1, 2, tokens, D});
  arguments["k"] = rows(k, {1, 2, tokens, D});
  arguments["v"] = rows(v, {1, 2, tokens, D});
  arguments["o"] = rows(o, {1, 2, tokens, D});
  arguments["cu_seqlens_q"] = queries.array();
  arguments["cu_seqlens_k"] = keys.array();
  arguments["scale"] = 0.125;
  arguments["window_left"] = arguments["window_right"] = int64_t(-1);
  EXPECT_EQ(run(*operation, arguments, false), "");
  unchecked = o;
  std::fill(o.begin(), o.end(), 0xff);
  EXPECT_EQ(run(*operation, arguments, true), "");
  EXPECT_TRUE(o == unchecked) << "a check changes nothing";
  queries.values[2] = 50;
  EXPECT_EQ(run(*operation, arguments, true),
            "kernel 'attention_forward' requires 'ascending(cu_seqlens_q)', but got "
            "cu_seqlens_q[2] = 50 after 100");
  queries.values[2] = 100;
  keys.values[3] = 301;
  EXPECT_EQ(run(*operation, arguments, true),
            "kernel 'attention_forward' requires 'within(cu_seqlens_k, 0, dim(k, 2) + 1)', "
            "but got cu_seqlens_k[3] = 301; it must be from 0 to 300");
  EXPECT_EQ(run(*operation, arguments, false), "") << "the kernel takes what exists";
}

TEST_F(IndexCheckGpu, PageTables) {
  constexpr int64_t D = 64, page = 16;
  auto operation = compile("attention_decode", {{"D", "64"}, {"PAGE_ROWS", "16"}, {"T", "bf16"}});
  ASSERT_TRUE(operation);
  std::vector<uint8_t> q = normal(2 * D, 1), k = normal(5 * page * D, 2),
                       v = normal(5 * page * D, 3), o(q.size());
  Indices table{{4, 0, 2, -7}, {2, 2}}, lengths{{32, 16}, {2}};
  llvm::StringMap<Argument> arguments;
  arguments["q"] = rows(q, {2, 1, 1, D});
  arguments["k_pages"] = rows(k, {5, page, 1, D});
  arguments["v_pages"] = rows(v, {5, page, 1, D});
  arguments["o"] = rows(o, {2, 1, 1, D});
  arguments["block_table"] = table.array();
  arguments["seq_lens"] = lengths.array();
  arguments["scale"] = 0.125;
  arguments["window_left"] = arguments["window_right"] = int64_t(-1);
  EXPECT_EQ(run(*operation, arguments, true), "");
  lengths.values[1] = 17;
  EXPECT_EQ(run(*operation, arguments, true),
            "program 'attention_decode' requires 'within_first(block_table, 0, dim(k_pages, 0), "
            "seq_lens, max(dim(k_pages, 1), 1))', but got block_table[1, 1] = -7; it must be from "
            "0 to 4");
  lengths.values[1] = -1;
  EXPECT_EQ(run(*operation, arguments, true),
            "program 'attention_decode' requires 'within(seq_lens, 0, dim(block_table, 1) * "
            "dim(k_pages, 1) + 1)', but got seq_lens[1] = -1; it must be from 0 to 32");
}

} // namespace
