// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention by one description, through the C interface; RuntimeAttentionTest.c is a part in C.

#include "RuntimeAttentionBundle.h"
#include "RuntimeTesting.h"

#include "runtime/AttentionDecode.h"
#include "runtime/CApi.h"
#include "runtime/tilewright.h"

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

/// Defined in C, and shown in docs/runtime.md: attention of packed sequences.
extern "C" tilewright_code tilewrightRunPackedFromC(const tilewright_bundle *bundle, void *memory,
                                                    void *stream);

namespace {

constexpr tilewright_code invalid = TILEWRIGHT_INVALID_ARGUMENT;

/// Arguments by name, with the storage of their views and scalars.
class Call {
public:
  Call &view(const char *name, tilewright_type type, std::vector<int64_t> extents) {
    remove(name);
    Item &item = add(name);
    item.extents = std::move(extents);
    item.view = {sizeof(item.view),
                 reinterpret_cast<void *>(0x10000 * items.size()),
                 type,
                 uint32_t(item.extents.size()),
                 item.extents.data(),
                 nullptr};
    item.argument.view = &item.view;
    return *this;
  }
  template <typename T> Call &scalar(const char *name, tilewright_type type, T value) {
    remove(name);
    Item &item = add(name);
    std::memcpy(item.scalar, &value, sizeof(value));
    item.argument.scalar = item.scalar;
    item.argument.scalar_type = type;
    return *this;
  }
  Call &remove(const char *name) {
    for (size_t i = 0; i < items.size(); ++i)
      if (!std::strcmp(items[i]->argument.name, name))
        items.erase(items.begin() + long(i));
    return *this;
  }
  const tilewright_argument *data() {
    list.clear();
    for (const auto &item : items)
      list.push_back(item->argument);
    return list.data();
  }
  size_t size() const { return items.size(); }

private:
  struct Item {
    tilewright_argument argument;
    tilewright_view view;
    std::vector<int64_t> extents;
    char scalar[8];
  };
  Item &add(const char *name) {
    items.push_back(std::make_shared<Item>());
    items.back()->argument = {sizeof(tilewright_argument), name, nullptr, nullptr, TILEWRIGHT_F32};
    return *items.back();
  }
  std::vector<std::shared_ptr<Item>> items;
  std::vector<tilewright_argument> list;
};

Call forwardCall(int64_t batch = 2, int64_t rows = 300) {
  Call call;
  call.view("q", TILEWRIGHT_BF16, {batch, 8, rows, 64})
      .view("k", TILEWRIGHT_BF16, {batch, 2, 500, 64})
      .view("v", TILEWRIGHT_BF16, {batch, 2, 500, 64})
      .view("o", TILEWRIGHT_BF16, {batch, 8, rows, 64})
      .scalar("scale", TILEWRIGHT_F32, 0.125f);
  return call;
}

/// Of attention_forward with a cache.
Call cachedCall(int64_t rows, bool hasTable) {
  Call call = forwardCall(3);
  call.view("k", TILEWRIGHT_BF16, {hasTable ? 9 : 3, rows, 2, 64})
      .view("v", TILEWRIGHT_BF16, {hasTable ? 9 : 3, rows, 2, 64})
      .view("seq_lens", TILEWRIGHT_I32, {3});
  if (hasTable)
    call.view("block_table", TILEWRIGHT_I32, {3, 4});
  return call;
}

class AttentionPlans : public RuntimeTest {
protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    setDriverForTesting(&driver);
    load(featureBundle());
    desc.struct_size = sizeof(desc);
    desc.type = TILEWRIGHT_BF16;
    desc.head_dim = 64;
  }
  void TearDown() override {
    tilewright_attention_destroy(plan);
    tilewright_bundle_close(bundle);
    setDriverForTesting(nullptr);
  }
  void load(const BundleWriter &writer) {
    tilewright_bundle_close(bundle);
    Result<std::string> bytes = writer.bytes();
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    ASSERT_EQ(tilewright_bundle_load(bytes->data(), bytes->size(), &bundle), TILEWRIGHT_OK);
  }
  tilewright_code create() {
    tilewright_attention_destroy(plan);
    plan = nullptr;
    return tilewright_attention_create(bundle, &desc, &plan);
  }
  void createPlan() {
    ASSERT_EQ(create(), TILEWRIGHT_OK) << tilewright_last_error();
    ASSERT_EQ(tilewright_attention_prepare(plan, 0), TILEWRIGHT_OK) << tilewright_last_error();
  }
  tilewright_code run(Call &call) {
    uint64_t bytes = 0;
    tilewright_code code =
        tilewright_attention_workspace_size(plan, call.data(), call.size(), 0, &bytes);
    return code ? code
                : tilewright_attention_run(plan, call.data(), call.size(),
                                           reinterpret_cast<void *>(0x1000000), bytes, streamOf(0));
  }
  /// The entry that a run launched, which is told by its threads.
  unsigned launched(Call &call) {
    fake().launches.clear();
    EXPECT_EQ(run(call), TILEWRIGHT_OK) << tilewright_last_error();
    return fake().launches.empty() ? 0 : fake().launches[0].block[0];
  }
  std::string names() {
    std::string text;
    for (size_t i = 0; i < tilewright_attention_num_arguments(plan); ++i)
      text += (i ? " " : "") + std::string(tilewright_attention_argument_name(plan, i));
    return text;
  }
  std::string signature() {
    const char *text = nullptr;
    tilewright_code code = tilewright_attention_signature(&desc, &text);
    return code ? tilewright_last_error() : text;
  }
  std::string params() {
    const char *text = nullptr;
    tilewright_code code = tilewright_attention_params(&desc, &text);
    return code ? tilewright_last_error() : text;
  }

  tilewright_bundle *bundle = nullptr;
  tilewright_attention *plan = nullptr;
  tilewright_attention_desc desc = {};
};

TEST_F(AttentionPlans, RunThePlainestForward) {
  createPlan();
  EXPECT_EQ(names(), "q k v o lse scale window_left window_right");
  EXPECT_EQ(tilewright_attention_argument_name(plan, 8), nullptr);
  Call call = forwardCall();
  EXPECT_EQ(launched(call), threadsOf::plain);
  EXPECT_EQ(tilewright_attention_check_support(plan, 9, 0, 0), TILEWRIGHT_OK);
  EXPECT_EQ(tilewright_attention_check_indices(plan, 1), TILEWRIGHT_OK);
  call.view("lse", TILEWRIGHT_F32, {2, 8, 300}).scalar("window_left", TILEWRIGHT_I32, int32_t(-1));
  EXPECT_EQ(tilewright_attention_check_indices(plan, 0), TILEWRIGHT_OK);
  EXPECT_EQ(launched(call), threadsOf::plain);
}

/// These were operations that the caller had to put together from parameters.
TEST_F(AttentionPlans, RunPackedSequencesAndLists) {
  desc.packed = 1;
  createPlan();
  EXPECT_EQ(names(), "q k v o lse cu_seqlens_q cu_seqlens_k scale window_left window_right");
  Call packed = forwardCall(1);
  packed.view("cu_seqlens_q", TILEWRIGHT_I32, {4}).view("cu_seqlens_k", TILEWRIGHT_I32, {4});
  EXPECT_EQ(launched(packed), threadsOf::packed);
  desc.packed = 0;
  desc.list_block_m = 128;
  desc.list_block_n = 64;
  createPlan();
  EXPECT_EQ(names(), "q k v o lse kv_indices kv_num_blocks scale window_left window_right");
  Call listed = forwardCall();
  listed.view("kv_indices", TILEWRIGHT_I32, {2, 8, 3, 8})
      .view("kv_num_blocks", TILEWRIGHT_I32, {2, 8, 3});
  EXPECT_EQ(launched(listed), threadsOf::listed);
  desc.list_block_n = 0; // as many keys as queries, for which there is no code
  EXPECT_C_FAILURE(
      create(), TILEWRIGHT_MISSING_VARIANT,
      "'bundle' has no variant of 'attention_forward' for D = 64, DV = 64, T = bf16, "
      "CAUSAL = \"none\", WINDOW = false, PACKED = false, LISTED = true, LIST_BLOCK_M = 128, "
      "LIST_BLOCK_N = 128, CACHED = false; compile it with: tilewrightc "
      "kernels/attention_forward.mlir --kernel=attention_forward --param=D=64 --param=DV=64 "
      "--param=T=bf16 --param=CAUSAL=none --param=WINDOW=false --param=PACKED=false "
      "--param=LISTED=true --param=LIST_BLOCK_M=128 --param=LIST_BLOCK_N=128 "
      "--param=CACHED=false --emit=bundle -o FILE");
}

/// A prefill over pages: one plan for all sizes of pages, and for a cache without a table.
TEST_F(AttentionPlans, RunAPrefillOverPages) {
  desc.cached = 1;
  createPlan();
  EXPECT_EQ(names(), "q k v o lse block_table seq_lens scale window_left window_right");
  for (auto [rows, threads] : {std::pair(64, threadsOf::pages64),
                               {128, threadsOf::pages64},
                               {16, threadsOf::pages16},
                               {48, threadsOf::pages16}}) {
    Call call = cachedCall(rows, true);
    EXPECT_EQ(launched(call), threads) << rows;
  }
  Call whole = cachedCall(512, false);
  EXPECT_EQ(launched(whole), threadsOf::noTable);
  Call odd = cachedCall(20, true);
  EXPECT_C_FAILURE(run(odd), TILEWRIGHT_MISSING_VARIANT,
                   "'bundle' has no variant of 'attention_forward' for pages of 20 rows, but "
                   "PAGE_ROWS = 64, 16, 0; compile it with --param=PAGE_ROWS=1");
  Call missing = cachedCall(64, true);
  missing.remove("seq_lens");
  EXPECT_C_FAILURE(run(missing), invalid,
                   "argument 'seq_lens' of kernel 'attention_forward' is missing; it is not an "
                   "optional argument");
  // A size that is fixed.
  desc.page_rows = 16;
  createPlan();
  Call call = cachedCall(64, true);
  EXPECT_EQ(launched(call), threadsOf::pages16);
  EXPECT_C_FAILURE(run(whole), TILEWRIGHT_MISSING_VARIANT,
                   "'bundle' has no variant of 'attention_forward' for a cache without a table, "
                   "but PAGE_ROWS = 16; compile it with --param=PAGE_ROWS=0");
  desc.page_rows = TILEWRIGHT_NO_TABLE;
  createPlan();
  EXPECT_EQ(names(), "q k v o lse seq_lens scale window_left window_right");
  EXPECT_EQ(launched(whole), threadsOf::noTable);
  desc.page_rows = 32;
  EXPECT_EQ(create(), TILEWRIGHT_MISSING_VARIANT);
}

TEST_F(AttentionPlans, RunAnAppend) {
  desc.kind = TILEWRIGHT_ATTENTION_APPEND;
  createPlan();
  EXPECT_EQ(names(), "k v k_pages v_pages slots q q_out");
  Call call;
  call.view("k", TILEWRIGHT_BF16, {5, 2, 64})
      .view("v", TILEWRIGHT_BF16, {5, 2, 64})
      .view("k_pages", TILEWRIGHT_BF16, {9, 64, 2, 64})
      .view("v_pages", TILEWRIGHT_BF16, {9, 64, 2, 64})
      .view("slots", TILEWRIGHT_I32, {5});
  EXPECT_EQ(launched(call), threadsOf::append);
  call.remove("slots");
  EXPECT_C_FAILURE(run(call), invalid,
                   "argument 'slots' of kernel 'attention_append' is missing; it is not an "
                   "optional argument");
  desc.places = TILEWRIGHT_PLACES_TABLE;
  EXPECT_EQ(create(), TILEWRIGHT_MISSING_VARIANT);
  EXPECT_NE(std::string(tilewright_last_error()).find("--param=PLACES=table"), std::string::npos);
}

TEST_F(AttentionPlans, RunABackwardWithAllItsFeatures) {
  desc.kind = TILEWRIGHT_ATTENTION_BACKWARD;
  desc.deterministic = desc.score_gradient = 1;
  createPlan();
  EXPECT_EQ(names(), "q k v o do lse dlse dq dk dv d_score scale window_left window_right bias");
  Call call = forwardCall();
  call.view("do", TILEWRIGHT_BF16, {2, 8, 300, 64})
      .view("lse", TILEWRIGHT_F32, {2, 8, 300})
      .view("dq", TILEWRIGHT_BF16, {2, 8, 300, 64})
      .view("dk", TILEWRIGHT_BF16, {2, 2, 500, 64})
      .view("dv", TILEWRIGHT_BF16, {2, 2, 500, 64})
      .view("d_score", TILEWRIGHT_F32, {1, 8, 300, 500})
      .view("bias", TILEWRIGHT_F32, {1, 8, 300, 500});
  EXPECT_EQ(launched(call), threadsOf::scoreGradient);
  call.view("dk", TILEWRIGHT_BF16, {2, 2, 400, 64});
  EXPECT_C_FAILURE(run(call), invalid,
                   "argument 'dk' of attention must have extent 500 along dimension 2, as 'k' has, "
                   "but got 400");
  desc.score_gradient = 0;
  EXPECT_EQ(create(), TILEWRIGHT_MISSING_VARIANT); // the code with it needs d_score
}

/// A plan of max_rows 3 has code for 4, and used to take 4.
TEST_F(AttentionPlans, DecodeAtMostTheRowsOfTheDescription) {
  desc.kind = TILEWRIGHT_ATTENTION_DECODE;
  desc.group = 4;
  desc.max_rows = 3;
  createPlan();
  auto call = [](int64_t rows) {
    Call made;
    made.view("q", TILEWRIGHT_BF16, {3, 8, rows, 64})
        .view("k_pages", TILEWRIGHT_BF16, {9, 64, 2, 64})
        .view("v_pages", TILEWRIGHT_BF16, {9, 64, 2, 64})
        .view("o", TILEWRIGHT_BF16, {3, 8, rows, 64})
        .view("block_table", TILEWRIGHT_I32, {3, 4})
        .view("seq_lens", TILEWRIGHT_I32, {3})
        .scalar("scale", TILEWRIGHT_F64, 0.125);
    return made;
  };
  Call three = call(3), four = call(4);
  EXPECT_EQ(launched(three), threadsOf::decode);
  EXPECT_C_FAILURE(run(four), invalid,
                   "the queries of a sequence must be at most 3, max_rows of the description of "
                   "decoding, but got 4");
  desc.max_rows = 4;
  createPlan();
  EXPECT_EQ(launched(four), threadsOf::decode);
}

TEST_F(AttentionPlans, ChecksArguments) {
  createPlan();
  auto fails = [&](Call call, const char *text) { EXPECT_C_FAILURE(run(call), invalid, text); };
  // Those of the contract come first: a missing q is not an extent of k.
  fails(forwardCall().remove("q"),
        "argument 'q' of kernel 'attention_forward' is missing; it is not an optional argument");
  fails(forwardCall().view("k", TILEWRIGHT_BF16, {2, 500, 64}),
        "argument 'k' of kernel 'attention_forward' must have rank 4, but got rank 3");
  fails(forwardCall().view("k", TILEWRIGHT_BF16, {3, 2, 500, 64}),
        "argument 'k' of attention must have extent 2 along dimension 0, as 'q' has, but got 3");
  fails(
      forwardCall().remove("scale"),
      "argument 'scale' of kernel 'attention_forward' is missing; it is not an optional argument");
  fails(
      forwardCall().scalar("window_left", TILEWRIGHT_I32, int32_t(4)),
      "the window of attention must be -1 and -1, since it was planned without one, but got 4 and "
      "-1; set has_window in the description");
  fails(
      forwardCall().scalar("window_left", TILEWRIGHT_I64, int64_t(-1)),
      "argument 'window_left' of kernel 'attention_forward' must be a scalar of type i32, but got "
      "i64");
  fails(forwardCall().view("cu_seqlens_q", TILEWRIGHT_I32, {4}),
        "there is no argument 'cu_seqlens_q'; the names are: q, k, v, o, lse, scale, window_left, "
        "window_right");
  fails(forwardCall()
            .view("k", TILEWRIGHT_BF16, {2, 3, 500, 64})
            .view("v", TILEWRIGHT_BF16, {2, 3, 500, 64}),
        "the heads of 'q' must be a multiple of those of 'k', but got 8 and 3");
  EXPECT_TRUE(fake().launches.empty());
  Call call = forwardCall();
  EXPECT_C_FAILURE(tilewright_attention_run(nullptr, call.data(), call.size(), nullptr, 0, nullptr),
                   invalid, "plan must not be null");
  EXPECT_C_FAILURE(tilewright_attention_workspace_size(plan, call.data(), call.size(), 0, nullptr),
                   invalid, "plan and bytes must not be null");
  EXPECT_C_FAILURE(tilewright_attention_run(plan, nullptr, 2, nullptr, 0, nullptr), invalid,
                   "the list of arguments must not be null");
  EXPECT_C_FAILURE(tilewright_attention_check_indices(plan, 2), invalid,
                   "wanted must be 0 or 1, but got 2");
}

TEST_F(AttentionPlans, ChecksDescriptions) {
  tilewright_attention_desc plain = desc;
  auto refuses = [&](auto tilewright_attention_desc::*field, auto value, const std::string &text) {
    desc.*field = value;
    EXPECT_C_FAILURE(create(), invalid, text.c_str());
    EXPECT_EQ(signature(), text);
    desc = plain;
  };
  using D = tilewright_attention_desc;
  refuses(&D::struct_size, size_t(176),
          "struct_size of tilewright_attention_desc is 176, less than 184");
  refuses(&D::kind, tilewright_attention_kind(5),
          "the description of attention has the unknown kind 5");
  refuses(&D::type, tilewright_type(10),
          "the description of attention has the unknown element type 10");
  refuses(&D::causal, tilewright_causal(3),
          "the description of attention has the unknown causal mode 3");
  refuses(&D::places, tilewright_places(3),
          "the description of attention has the unknown places 3");
  refuses(&D::head_dim, 0,
          "the head dimension of attention must be positive, but got 0 and, for values, 0");
  refuses(&D::packed, 2, "packed must be 0 or 1, but got 2");
  refuses(&D::list_block_n, 64,
          "the blocks of the lists of attention must be numbers of queries and keys, or both 0 "
          "without lists, but got 0 and 64");
  refuses(&D::page_rows, -2,
          "page_rows must be a number of rows, 0 for any, or TILEWRIGHT_NO_TABLE, but got -2");
  refuses(&D::page_rows, 16, "page_rows is of a cache, but the description has none; set cached");
  refuses(&D::leftpad, 1, "leftpad is of a cache, but the description has none; set cached");
  static const tilewright_type bytes = TILEWRIGHT_E4M3;
  refuses(&D::cache_type, &bytes,
          "cache_type is of a cache, but the description has none; set cached");
  // It was padding of the struct, of any content.
  refuses(&D::leftpad, 7, "leftpad must be 0 or 1, but got 7");
  // Fields of another kind would have no effect.
  for (auto [field, name, kinds] : {std::tuple(&D::deterministic, "deterministic", "a backward"),
                                    {&D::ordered, "ordered", "a backward"},
                                    {&D::score_gradient, "score_gradient", "a backward"},
                                    {&D::capture_gradients, "capture_gradients", "a backward"},
                                    {&D::wide_indices, "wide_indices", "an append"},
                                    {&D::positions, "positions", "an append"},
                                    {&D::rotary_pairs, "rotary_pairs", "an append"},
                                    {&D::rotary_first, "rotary_first", "an append"}})
    refuses(field, 1,
            std::string(name) + " is of the description of " + kinds +
                ", but this one is of a forward");
  refuses(&D::max_rows, 2,
          "max_rows is of the description of a decode, but this one is of a forward");
  refuses(&D::num_splits, 2,
          "num_splits is of the description of a decode, but this one is of a forward");
  plain.kind = TILEWRIGHT_ATTENTION_DECODE;
  desc = plain;
  plain.max_rows = 4;
  desc = plain;
  refuses(&D::list_block_m, 48,
          "the blocks of the lists of decoding must have 16, 32, 64, 128 or 256 keys, and the "
          "queries of a sequence, up to 4, but got 48 and 48; a forward takes others");
  plain.list_block_n = 64;
  desc = plain;
  refuses(&D::list_block_m, 3,
          "the blocks of the lists of decoding must have 16, 32, 64, 128 or 256 keys, and the "
          "queries of a sequence, up to 4, but got 64 and 3; a forward takes others");
  plain.list_block_m = 4;
  desc = plain;
  refuses(&D::leftpad, 1,
          "lists of blocks of decoding are not supported with padding before the keys, but the "
          "description has list_block_m of 4 and leftpad");
  plain.list_block_m = plain.list_block_n = plain.max_rows = 0;
  desc = plain;
  refuses(
      &D::max_rows, 17,
      "the rows of decoding must be a number of queries from 1 to 16 for each sequence, but got "
      "17");
  plain.kind = TILEWRIGHT_ATTENTION_APPEND;
  desc = plain;
  refuses(&D::list_block_m, 64,
          "list_block_m is of the description of a forward or backward or decode, but this one is "
          "of an append");
  desc = plain;
  refuses(&D::rotary, -16,
          "the rotary columns of appending must be a number of columns, or 0 without a rotation, "
          "but got -16");
  refuses(&D::causal, TILEWRIGHT_CAUSAL_TOP_LEFT,
          "causal is of the description of a forward or backward or decode, but this one is of an "
          "append");
  plain.kind = TILEWRIGHT_ATTENTION_FORWARD;
  desc = plain;
  tilewright_param param = {"D", "32"};
  desc.params = &param;
  desc.num_params = 1;
  EXPECT_C_FAILURE(create(), invalid,
                   "parameter 'D' follows from the description, and must not be among the further "
                   "parameters");
  param.value = nullptr;
  EXPECT_C_FAILURE(create(), invalid, "name and value of a parameter must not be null");
  desc.params = nullptr;
  EXPECT_C_FAILURE(create(), invalid, "the list of parameters must not be null");
  desc = plain;
  EXPECT_C_FAILURE(tilewright_attention_create(nullptr, &desc, &plan), invalid,
                   "bundle, desc and plan must not be null");
  EXPECT_C_FAILURE(tilewright_attention_signature(&desc, nullptr), invalid,
                   "signature must not be null");
  EXPECT_C_FAILURE(tilewright_attention_params(&desc, nullptr), invalid, "params must not be null");
}

/// Strings that caches are keyed by: they must not change.
TEST_F(AttentionPlans, HaveSignatures) {
  EXPECT_EQ(signature(), "attention_forward D=64,DV=64,T=bf16");
  EXPECT_EQ(params(), "D=64,DV=64,T=bf16,CAUSAL=none,WINDOW=false,PACKED=false,LISTED=false,"
                      "CACHED=false");
  desc.value_dim = 64; // as by default
  EXPECT_EQ(signature(), "attention_forward D=64,DV=64,T=bf16");
  desc.entry = "attention_forward";
  EXPECT_EQ(signature(), "attention_forward D=64,DV=64,T=bf16");
  desc.entry = nullptr;
  desc.list_block_m = 128;
  const std::string lists = signature();
  desc.list_block_n = 128;
  EXPECT_EQ(signature(), lists);
  desc.causal = TILEWRIGHT_CAUSAL_TOP_LEFT;
  desc.has_window = desc.packed = 1;
  EXPECT_EQ(signature(), "attention_forward D=64,DV=64,T=bf16,CAUSAL=top_left,WINDOW=true,"
                         "PACKED=true,LISTED=true,LIST_BLOCK_M=128,LIST_BLOCK_N=128");
  // Further parameters in any order.
  const tilewright_param more[] = {{"BLOCK_N", "64"}, {"BLOCK_M", "128"}, {"BLOCK_N", "64"}};
  desc.num_params = 2;
  desc.params = more;
  const std::string first = signature();
  desc.params = more + 1;
  EXPECT_EQ(signature(), first);
  EXPECT_EQ(first.substr(first.size() - 27), "=128,BLOCK_M=128,BLOCK_N=64");
  desc = {};
  desc.struct_size = sizeof(desc);
  desc.type = TILEWRIGHT_F16;
  desc.head_dim = 128;
  desc.kind = TILEWRIGHT_ATTENTION_DECODE;
  EXPECT_EQ(signature(), "attention_decode D=128,DV=128,T=f16");
  desc.group = 1;
  EXPECT_EQ(signature(), "attention_decode D=128,DV=128,T=f16");
  desc.group = 8;
  desc.max_rows = 3;
  desc.page_rows = 16;
  EXPECT_EQ(signature(), "attention_decode D=128,DV=128,T=f16,GROUP=8,ROWS=4,PAGE_ROWS=16");
  EXPECT_EQ(params(), "D=128,DV=128,T=f16,CAUSAL=none,WINDOW=false,GROUP=8,ROWS=4,PAGE_ROWS=16,"
                      "PACKED=false,LEFTPAD=false,SPLITS=0,CACHE=f16,LISTED=false");
  desc.page_rows = TILEWRIGHT_NO_TABLE;
  EXPECT_EQ(signature(), "attention_decode D=128,DV=128,T=f16,GROUP=8,ROWS=4,PAGE_ROWS=0");
  desc.leftpad = 1;
  EXPECT_EQ(signature(),
            "attention_decode D=128,DV=128,T=f16,GROUP=8,ROWS=4,PAGE_ROWS=0,LEFTPAD=true");
  desc = {};
  desc.struct_size = sizeof(desc);
  desc.type = TILEWRIGHT_F16;
  desc.head_dim = 128;
  desc.kind = TILEWRIGHT_ATTENTION_BACKWARD;
  EXPECT_EQ(params(), "D=128,DV=128,T=f16,CAUSAL=none,WINDOW=false,DETERMINISTIC=false,"
                      "CAPTURE_GRADIENTS=false,PACKED=false,LISTED=false,SCORE_GRADIENT=false");
  desc.deterministic = desc.ordered = 1;
  EXPECT_EQ(signature(), "attention_backward D=128,DV=128,T=f16,DETERMINISTIC=true");
  desc.deterministic = desc.ordered = 0;
  desc.kind = TILEWRIGHT_ATTENTION_APPEND;
  desc.places = TILEWRIGHT_PLACES_TABLE;
  EXPECT_EQ(params(), "D=128,DV=128,T=f16,PLACES=table,INDICES=i32,PACKED=false,POSITIONS=false,"
                      "ROTARY=0,PAIRS=false,Q_FIRST=false,TR=f16,CACHE=f16");
  desc.rotary = 64;
  desc.rotary_type = TILEWRIGHT_F32;
  desc.rotary_pairs = 1;
  EXPECT_EQ(signature(), "attention_append D=128,DV=128,T=f16,PLACES=table,ROTARY=64,PAIRS=true,"
                         "TR=f32");
  // How nothing is rotated makes no difference; it used to be another signature, and other code.
  desc.rotary = 0;
  desc.rotary_first = 1;
  EXPECT_EQ(signature(), "attention_append D=128,DV=128,T=f16,PLACES=table");
  EXPECT_EQ(params(), "D=128,DV=128,T=f16,PLACES=table,INDICES=i32,PACKED=false,POSITIONS=false,"
                      "ROTARY=0,PAIRS=false,Q_FIRST=false,TR=f16,CACHE=f16");
}

/// A description from the arguments alone.
TEST_F(AttentionPlans, AreDescribedByArguments) {
  auto described = [&](tilewright_attention_kind kind, Call call) {
    desc = {};
    desc.struct_size = sizeof(desc);
    desc.kind = kind;
    tilewright_code code = tilewright_attention_describe(&desc, call.data(), call.size());
    return code ? tilewright_last_error() : signature();
  };
  constexpr auto forward = TILEWRIGHT_ATTENTION_FORWARD, backward = TILEWRIGHT_ATTENTION_BACKWARD,
                 decode = TILEWRIGHT_ATTENTION_DECODE, append = TILEWRIGHT_ATTENTION_APPEND;
  EXPECT_EQ(described(forward, forwardCall()), "attention_forward D=64,DV=64,T=bf16");
  EXPECT_EQ(described(forward, forwardCall()
                                   .view("v", TILEWRIGHT_BF16, {2, 2, 500, 32})
                                   .scalar("window_left", TILEWRIGHT_I32, int32_t(-1))
                                   .scalar("window_right", TILEWRIGHT_I32, int32_t(0))),
            "attention_forward D=64,DV=32,T=bf16,WINDOW=true");
  // A window of the call before is gone.
  Call open = forwardCall();
  desc.value_dim = 0;
  ASSERT_EQ(desc.has_window, 1);
  ASSERT_EQ(tilewright_attention_describe(&desc, open.data(), open.size()), TILEWRIGHT_OK);
  EXPECT_EQ(signature(), "attention_forward D=64,DV=64,T=bf16");
  EXPECT_EQ(described(forward, forwardCall().scalar("window_left", TILEWRIGHT_I64, int64_t(4))),
            "attention_forward D=64,DV=64,T=bf16,WINDOW=true");
  Call packed = forwardCall(1).view("cu_seqlens_q", TILEWRIGHT_I32, {4});
  EXPECT_EQ(described(forward, packed), "attention_forward D=64,DV=64,T=bf16,PACKED=true");
  EXPECT_EQ(described(forward, cachedCall(48, true)),
            "attention_forward D=64,DV=64,T=bf16,CACHED=true,PAGE_ROWS=16");
  EXPECT_EQ(described(forward, cachedCall(48, false)),
            "attention_forward D=64,DV=64,T=bf16,CACHED=true,PAGE_ROWS=0");
  Call padded = cachedCall(48, false);
  padded.view("leftpad", TILEWRIGHT_I32, {3});
  EXPECT_EQ(described(forward, padded),
            "attention_forward D=64,DV=64,T=bf16,CACHED=true,PAGE_ROWS=0,LEFTPAD=true");
  Call gradients = forwardCall()
                       .view("d_score", TILEWRIGHT_F32, {1, 8, 300, 500})
                       .view("slopes", TILEWRIGHT_F32, {8});
  EXPECT_EQ(described(backward, gradients),
            "attention_backward D=64,DV=64,T=bf16,SCORE_GRADIENT=true");
  gradients.remove("d_score").view("d_slopes", TILEWRIGHT_F32, {8});
  EXPECT_EQ(described(backward, gradients),
            "attention_backward D=64,DV=64,T=bf16,CAPTURE_GRADIENTS=true");
  Call few;
  few.view("q", TILEWRIGHT_F16, {3, 8, 3, 64})
      .view("k_pages", TILEWRIGHT_F16, {9, 128, 2, 64})
      .view("v_pages", TILEWRIGHT_F16, {9, 128, 2, 64})
      .view("block_table", TILEWRIGHT_I32, {3, 4});
  EXPECT_EQ(described(decode, few),
            "attention_decode D=64,DV=64,T=f16,GROUP=4,ROWS=4,PAGE_ROWS=128");
  EXPECT_EQ(desc.max_rows, 3);
  // Packed queries of all sequences do not say how many one has; packed used to be refused.
  Call mixed = few;
  mixed.view("q", TILEWRIGHT_F16, {1, 8, 300, 64}).view("cu_seqlens_q", TILEWRIGHT_I32, {4});
  EXPECT_EQ(described(decode, mixed),
            "attention_decode D=64,DV=64,T=f16,GROUP=4,PAGE_ROWS=128,PACKED=true");
  EXPECT_EQ(desc.max_rows, 1);
  // Over a cache, the queries of the heads that share a key head choose the kernel: those of one
  // tile are decoded.
  constexpr auto cached = TILEWRIGHT_ATTENTION_CACHED;
  for (auto [queries, heads, columns, mostRows, isDecode] : {std::tuple(1, 256, 64, 0, true),
                                                             {1, 258, 64, 0, false},
                                                             {8, 32, 64, 0, true},
                                                             {9, 32, 64, 0, false},
                                                             {16, 16, 64, 0, true},
                                                             {17, 2, 64, 0, false},
                                                             {3, 16, 256, 9, true},
                                                             {3, 16, 264, 9, false},
                                                             {3, 32, 64, 9, false}}) {
    Call any;
    any.view("q", TILEWRIGHT_F16, {3, heads, queries, columns})
        .view("k", TILEWRIGHT_F16, {9, 48, 2, columns})
        .view("v", TILEWRIGHT_F16, {9, 48, 2, 64})
        .view("block_table", TILEWRIGHT_I32, {3, 4})
        .view("seq_lens", TILEWRIGHT_I32, {3});
    desc = {};
    desc.struct_size = sizeof(desc);
    desc.kind = cached;
    desc.max_rows = mostRows;
    desc.num_splits = 2;
    ASSERT_EQ(tilewright_attention_describe(&desc, any.data(), any.size()), TILEWRIGHT_OK)
        << tilewright_last_error();
    EXPECT_EQ(desc.kind, isDecode ? decode : forward) << queries << " queries, " << heads;
    EXPECT_EQ(desc.page_rows, 16);
    EXPECT_EQ(desc.group, isDecode ? heads / 2 : 1);
    EXPECT_EQ(desc.max_rows, isDecode ? std::max(queries, mostRows) : 1);
    EXPECT_EQ(desc.num_splits, isDecode ? 2 : 0);
    EXPECT_EQ(desc.cached, !isDecode);
    EXPECT_EQ(desc.packed, 0);
  }
  Call chunks = cachedCall(48, true);
  EXPECT_EQ(described(cached, chunks),
            "attention_forward D=64,DV=64,T=bf16,CACHED=true,PAGE_ROWS=16");
  chunks.view("q", TILEWRIGHT_BF16, {1, 8, 4, 64}).view("cu_seqlens_q", TILEWRIGHT_I32, {4});
  EXPECT_EQ(described(cached, chunks),
            "attention_forward D=64,DV=64,T=bf16,PACKED=true,CACHED=true,PAGE_ROWS=16");
  for (bool isFew : {true, false}) {
    Call bytes = cachedCall(48, true);
    bytes.view("k", TILEWRIGHT_E4M3, {9, 48, 2, 64}).view("v", TILEWRIGHT_E4M3, {9, 48, 2, 64});
    bytes.view("q", TILEWRIGHT_BF16, {3, 8, isFew ? 1 : 17, 64});
    EXPECT_EQ(described(cached, bytes),
              isFew ? "attention_decode D=64,DV=64,T=bf16,GROUP=4,PAGE_ROWS=16,CACHE=e4m3"
                    : "attention_forward D=64,DV=64,T=bf16,CACHED=true,PAGE_ROWS=16,CACHE=e4m3");
    EXPECT_TRUE(desc.cache_type && *desc.cache_type == TILEWRIGHT_E4M3);
  }
  // Lists of key heads, which all queries of a sequence share, are those of a decode.
  const std::string listed = "attention_decode D=64,DV=64,T=bf16,GROUP=4,PAGE_ROWS=16,LISTED=true,"
                             "LIST_BLOCK_N=64",
                    byHead = "attention_forward D=64,DV=64,T=bf16,LISTED=true,LIST_BLOCK_M=1,"
                             "LIST_BLOCK_N=64,CACHED=true,PAGE_ROWS=16";
  for (int64_t listHeads : {1, 2, 8}) {
    Call lists = cachedCall(48, true);
    lists.view("q", TILEWRIGHT_BF16, {3, 8, 1, 64});
    lists.view("kv_num_blocks", TILEWRIGHT_I32, {3, listHeads, 1});
    desc = {};
    desc.struct_size = sizeof(desc);
    desc.kind = cached;
    desc.list_block_m = 1;
    desc.list_block_n = 64;
    ASSERT_EQ(tilewright_attention_describe(&desc, lists.data(), lists.size()), TILEWRIGHT_OK);
    EXPECT_EQ(signature(), listHeads <= 2 ? listed : byHead);
  }
  EXPECT_EQ(described(cached, cachedCall(48, true).view("q", TILEWRIGHT_BF16, {3, 7, 1, 64})),
            "the heads of 'q' must be a multiple of those of 'k', but got 7 and 2");
  desc = {};
  desc.struct_size = sizeof(desc);
  desc.kind = cached;
  desc.head_dim = 64;
  EXPECT_C_FAILURE(create(), invalid,
                   "attention over a cache is a decode or a forward, as the arguments of a call "
                   "say; describe it by them");
  desc.kind = decode;
  // What is set is kept where the arguments allow it.
  desc.max_rows = 9;
  desc.page_rows = 16;
  desc.num_splits = 2;
  ASSERT_EQ(tilewright_attention_describe(&desc, few.data(), few.size()), TILEWRIGHT_OK);
  EXPECT_EQ(signature(), "attention_decode D=64,DV=64,T=f16,GROUP=4,ROWS=16,PAGE_ROWS=16,SPLITS=2");
  Call rows;
  rows.view("k", TILEWRIGHT_F32, {5, 2, 64})
      .view("slots_i64", TILEWRIGHT_I64, {5})
      .view("positions_i64", TILEWRIGHT_I64, {5})
      .view("cos", TILEWRIGHT_F32, {100, 16});
  EXPECT_EQ(described(append, rows), "attention_append D=64,DV=64,T=f32,INDICES=i64,"
                                     "POSITIONS=true,ROTARY=32,TR=f32");
  rows.remove("slots_i64").remove("positions_i64").remove("cos");
  EXPECT_EQ(described(append, rows.view("seq_lens", TILEWRIGHT_I32, {3})),
            "attention_append D=64,DV=64,T=f32,PLACES=sequences");
  EXPECT_EQ(described(append, rows.view("block_table", TILEWRIGHT_I32, {3, 4})),
            "attention_append D=64,DV=64,T=f32,PLACES=table");
  Call stored = rows;
  EXPECT_EQ(described(append, stored.view("k_pages", TILEWRIGHT_E5M2, {9, 16, 2, 64})),
            "attention_append D=64,DV=64,T=f32,PLACES=table,CACHE=e5m2");
  tilewright_type half = TILEWRIGHT_F16;
  desc.cache_type = &half;
  EXPECT_EQ(signature(), "a cache of appending must have the type of 'q', or be of e4m3, e5m2 or "
                         "i8 with one of 16 bits or more, but got f16 with f32");
  // Callers of an earlier version have no place for the type of a cache.
  desc = {};
  desc.struct_size = offsetof(tilewright_attention_desc, cache_type);
  desc.kind = append;
  EXPECT_C_FAILURE(tilewright_attention_describe(&desc, stored.data(), stored.size()), invalid,
                   "the description of attention must have the field cache_type for a cache of "
                   "another type, but struct_size is that of an earlier version");

  EXPECT_EQ(described(forward, forwardCall().remove("v")),
            "the description of attention follows from 'v', a view of rank 4, but got none");
  EXPECT_EQ(described(decode, few.view("q", TILEWRIGHT_F16, {3, 8, 64})),
            "the description of decoding follows from 'q', a view of rank 4, but got rank 3");
  EXPECT_EQ(described(append, rows.scalar("k", TILEWRIGHT_F32, 1.0f)),
            "the description of appending follows from 'k', a view of rank 3, but got a scalar");
  EXPECT_EQ(described(decode, few.view("q", TILEWRIGHT_F16, {3, 7, 1, 64})),
            "the heads of 'q' must be a multiple of those of 'k_pages', but got 7 and 2");
  EXPECT_EQ(described(decode, few.view("q", TILEWRIGHT_F16, {3, 8, 20, 64})),
            "the rows of decoding must be a number of queries from 1 to 16 for each sequence, but "
            "got 20");
  // The bits of an address or of a float were read as a number of keys.
  EXPECT_EQ(described(forward, forwardCall().view("window_left", TILEWRIGHT_I32, {1})),
            "argument 'window_left' must be a scalar of type i32 or i64, but got a view");
  EXPECT_EQ(described(forward, forwardCall().scalar("window_right", TILEWRIGHT_F32, -1.0f)),
            "argument 'window_right' must be a scalar of type i32 or i64, but got f32");
  // Twice as many columns overflowed: 2^62 + 8 columns were a rotation of 16.
  rows.view("k", TILEWRIGHT_F32, {5, 2, 64});
  for (int64_t columns : {(int64_t(1) << 62) + 8, (int64_t(1) << 31) + 1, INT64_MIN, int64_t(-1)}) {
    Call cos = rows;
    cos.view("cos", TILEWRIGHT_F32, {1, 1});
    EXPECT_EQ(described(append, cos.view("cos", TILEWRIGHT_F32, {1, columns})),
              "the columns of 'cos' must be a number up to 2147483648, but got " +
                  std::to_string(columns));
  }
  Call unnamed = forwardCall();
  tilewright_argument first = *unnamed.data();
  first.name = nullptr;
  EXPECT_C_FAILURE(tilewright_attention_describe(&desc, &first, 1), invalid,
                   "the name of an argument must not be null");
  EXPECT_C_FAILURE(tilewright_attention_describe(nullptr, &first, 1), invalid,
                   "desc must not be null");
}

TEST_F(AttentionPlans, ReportWhatTheyLaunch) {
  desc.cached = 1;
  ASSERT_EQ(create(), TILEWRIGHT_OK) << tilewright_last_error();
  const tilewright_target target = {sizeof(target), 9, 0, 232448, 132};
  std::string calls[3];
  for (int i = 0; i < 3; ++i) {
    Call call = cachedCall(i == 2 ? 16 : 64, true);
    tilewright_report *report = nullptr;
    ASSERT_EQ(tilewright_attention_report(plan, call.data(), call.size(), 0, &target, &report),
              TILEWRIGHT_OK)
        << tilewright_last_error();
    tilewright_run_info run = {};
    run.struct_size = sizeof(run);
    ASSERT_EQ(tilewright_report_run(report, &run), TILEWRIGHT_OK);
    EXPECT_STREQ(run.name, "attention_forward");
    EXPECT_STREQ(run.target, "sm_80");
    EXPECT_EQ(run.num_launches, 1u);
    EXPECT_STREQ(run.sums, "f32");
    EXPECT_EQ(run.determinism, TILEWRIGHT_DETERMINISM_YES);
    calls[i] = run.call;
    tilewright_launch_info launch = {};
    launch.struct_size = sizeof(launch);
    ASSERT_EQ(tilewright_report_launch(report, 0, &launch), TILEWRIGHT_OK);
    EXPECT_EQ(launch.block[0], i == 2 ? threadsOf::pages16 : threadsOf::pages64);
    tilewright_report_destroy(report);
  }
  EXPECT_EQ(calls[0], calls[1]);
  EXPECT_NE(calls[0], calls[2]);
  // The window has its default here, also in the string.
  EXPECT_EQ(calls[0].rfind(signature() + " q=bf16[3,8,300,64]/", 0), 0u) << calls[0];
  EXPECT_NE(calls[0].find("window_left=i32:0xffffffff"), std::string::npos) << calls[0];
  tilewright_report *report = nullptr;
  Call call = cachedCall(64, true);
  EXPECT_C_FAILURE(
      tilewright_attention_report(plan, call.data(), call.size(), 0, nullptr, &report),
      TILEWRIGHT_NOT_PREPARED,
      "kernel 'attention_forward' is not prepared for device 0; call prepare before report, or "
      "describe the device");
}

/// Bundles of ABI 3 have no defaults, but windows are open there, too.
TEST_F(AttentionPlans, HaveOpenWindowsInOldBundles) {
  BundleWriter writer = featureBundle();
  for (KernelSpec &kernel : writer.manifest.kernels)
    for (ArgumentSpec &argument : kernel.arguments)
      argument.byDefault.reset();
  load(writer);
  createPlan();
  Call call = forwardCall();
  EXPECT_EQ(launched(call), threadsOf::plain);
}

/// Kernels for different pages may take different arguments, of which a call gets those of its own.
TEST_F(AttentionPlans, TakeTheArgumentsOfThePages) {
  auto bundleWith = [](int number, bool isForAll) {
    BundleWriter writer = featureBundle();
    for (KernelSpec &kernel : writer.manifest.kernels)
      for (int i = 0; i < number; ++i)
        if (kernel.entry == "pages16" || (isForAll && kernel.entry == "pages64"))
          kernel.arguments.push_back(rows((kernel.entry + std::to_string(i)).c_str(), true));
    return writer;
  };
  load(bundleWith(1, false));
  desc.cached = 1;
  createPlan();
  EXPECT_EQ(names(), "q k v o lse block_table seq_lens scale window_left window_right pages160");
  Call small = cachedCall(16, true).view("pages160", TILEWRIGHT_F32, {2, 8, 300});
  EXPECT_EQ(launched(small), threadsOf::pages16);
  Call large = cachedCall(64, true).view("pages160", TILEWRIGHT_F32, {2, 8, 300});
  EXPECT_C_FAILURE(run(large), invalid,
                   "'attention_forward' has no argument 'pages160' for pages of this size, but got "
                   "one");
  load(bundleWith(30, true));
  EXPECT_C_FAILURE(create(), invalid,
                   "'attention_forward' has more than 64 arguments for all sizes of pages");
  AttentionDesc wrong;
  wrong.headDim = 64;
  wrong.isCached = true;
  wrong.pageRows = -1;
  EXPECT_FAILURE(
      AttentionPlan::create(driver, read(featureBundle()), wrong).status(), Code::InvalidArgument,
      "the page rows of attention must be a number of rows, or 0 without a table, but got "
      "-1");
}

/// A kernel without masks is found where none is wanted, and is given what only it takes.
TEST_F(AttentionPlans, RunEntriesWithFewerParameters) {
  BundleWriter writer = featureBundle();
  KernelSpec &kernel = writer.manifest.kernels[0];
  kernel.name = "my_attention";
  kernel.params.resize(3); // D, DV and T
  kernel.params.emplace_back("GROUP", Expr::integer(4));
  kernel.arguments.resize(6); // without windows
  kernel.arguments.push_back(rows("weights"));
  load(writer);
  desc.entry = "my_attention";
  const tilewright_param group = {"GROUP", "4"};
  desc.params = &group;
  desc.num_params = 1;
  createPlan();
  EXPECT_EQ(names(), "q k v o lse scale weights");
  EXPECT_EQ(signature(), "my_attention D=64,DV=64,T=bf16,GROUP=4");
  Call call = forwardCall();
  call.view("weights", TILEWRIGHT_F32, {2, 8, 300});
  EXPECT_EQ(launched(call), threadsOf::plain);
  desc.causal = TILEWRIGHT_CAUSAL_TOP_LEFT;
  EXPECT_C_FAILURE(
      create(), TILEWRIGHT_MISSING_VARIANT,
      "'bundle' has no variant of 'my_attention' for D = 64, DV = 64, T = bf16, CAUSAL = "
      "\"top_left\", GROUP = 4; compile it with: tilewrightc kernels/attention_forward.mlir "
      "--kernel=my_attention --param=D=64 --param=DV=64 --param=T=bf16 --param=CAUSAL=top_left "
      "--param=GROUP=4 --emit=bundle -o FILE");
}

/// A description of a cache used to find no code in an entry without PAGE_ROWS, and to report
/// success without a plan. Such an entry takes all pages that its arguments describe.
TEST_F(AttentionPlans, RunEntriesWithoutPageRows) {
  BundleWriter writer = featureBundle();
  for (KernelSpec &kernel : writer.manifest.kernels)
    if (kernel.name == "attention_decode") {
      ASSERT_EQ(kernel.params[7].first, "PAGE_ROWS");
      kernel.params.erase(kernel.params.begin() + 7);
      kernel.name = "my_decode";
      kernel.arguments[5].isOptional = true; // block_table
    }
  load(writer);
  desc.kind = TILEWRIGHT_ATTENTION_DECODE;
  desc.entry = "my_decode";
  desc.group = desc.max_rows = 4;
  Call call;
  call.view("q", TILEWRIGHT_BF16, {3, 8, 4, 64})
      .view("k_pages", TILEWRIGHT_BF16, {9, 20, 2, 64})
      .view("v_pages", TILEWRIGHT_BF16, {9, 20, 2, 64})
      .view("o", TILEWRIGHT_BF16, {3, 8, 4, 64})
      .view("block_table", TILEWRIGHT_I32, {3, 4})
      .view("seq_lens", TILEWRIGHT_I32, {3})
      .scalar("scale", TILEWRIGHT_F64, 0.125);
  Call whole = call;
  whole.remove("block_table");
  createPlan();
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(names(), "q k_pages v_pages o lse block_table seq_lens scale window_left window_right");
  EXPECT_EQ(launched(call), threadsOf::decode);
  EXPECT_EQ(launched(whole), threadsOf::decode);
  // Without a table is what the entry does where it has no parameter for pages; 16 is not.
  desc.page_rows = TILEWRIGHT_NO_TABLE;
  createPlan();
  EXPECT_EQ(launched(whole), threadsOf::decode);
  EXPECT_EQ(signature(), "my_decode D=64,DV=64,T=bf16,GROUP=4,ROWS=4,PAGE_ROWS=0");
  desc.page_rows = 16;
  EXPECT_EQ(create(), TILEWRIGHT_MISSING_VARIANT);
  desc.page_rows = 0;
  desc.head_dim = 32;
  EXPECT_EQ(create(), TILEWRIGHT_MISSING_VARIANT);

  // Any entry may be named, also one that no decode is: its plan takes its arguments.
  desc.head_dim = 64;
  desc.group = desc.max_rows = 1;
  desc.entry = "attention_backward";
  ASSERT_EQ(create(), TILEWRIGHT_OK) << tilewright_last_error();
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(names(), "q k v o do lse dlse dq dk dv d_score scale window_left window_right bias");
  AttentionDecodeDesc decode;
  decode.headDim = 64;
  decode.entry = "attention_backward";
  EXPECT_FAILURE(AttentionDecode::create(driver, read(writer), decode).status(),
                 Code::InvalidArgument,
                 "'attention_backward' takes 'k', which is not an argument of decoding");
}

TEST_F(AttentionPlans, RejectOtherCapturesForOtherPages) {
  BundleWriter writer = featureBundle();
  for (KernelSpec &kernel : writer.manifest.kernels)
    if (kernel.entry == "pages16") {
      kernel.arguments.push_back(ArgumentSpec::scalar("softcap", ElementType::F32));
      kernel.arguments.back().isCapture = true;
    }
  load(writer);
  desc.cached = 1;
  EXPECT_C_FAILURE(create(), invalid,
                   "'attention_forward' has other captures for pages of 16 rows than for others");
  desc.page_rows = 16;
  EXPECT_EQ(create(), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(names(), "q k v o lse block_table seq_lens scale window_left window_right softcap");
}

/// The plans with structs take what these have no fields for in the list of captures.
TEST_F(AttentionPlans, StructsTakeFurtherArguments) {
  std::shared_ptr<const Bundle> bundle = read(featureBundle());
  AttentionForwardDesc forward;
  forward.headDim = 64;
  forward.isPacked = true;
  Result<AttentionForward> plan = AttentionForward::create(driver, bundle, forward);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->captures(), (std::vector<std::string>{"cu_seqlens_q", "cu_seqlens_k"}));
  EXPECT_EQ(plan->signature(), "attention_forward D=64,DV=64,T=bf16,PACKED=true");
  EXPECT_OK(plan->prepare(0));
  const Argument offsets[] = {Argument::dense(0x60000, ElementType::I32, {4}),
                              Argument::dense(0x70000, ElementType::I32, {4})};
  AttentionForwardArguments arguments;
  arguments.q = arguments.o = Argument::dense(0x10000, ElementType::BF16, {1, 8, 300, 64});
  arguments.k = arguments.v = Argument::dense(0x20000, ElementType::BF16, {1, 2, 500, 64});
  arguments.captures = offsets;
  arguments.numCaptures = 2;
  EXPECT_OK(plan->run(arguments, 0, 0, streamOf(0)));
  EXPECT_EQ(fake().launches.at(0).block[0], threadsOf::packed);
  const Target target = {8, 0, 166912};
  Result<RunReport> report = plan->report(arguments, target, 108);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->launches[0].block[0], threadsOf::packed);
  EXPECT_EQ(report->call.rfind(plan->signature() + " q=bf16[1,8,300,64]", 0), 0u) << report->call;
  arguments.numCaptures = 0;
  EXPECT_FAILURE(plan->report(arguments, target, 108).status(), Code::InvalidArgument,
                 "attention takes 2 captures, but got 0");

  // A further scalar with a default was refused.
  BundleWriter writer = featureBundle();
  std::vector<ArgumentSpec> &specs = writer.manifest.kernels[0].arguments;
  specs.push_back(ArgumentSpec::scalar("softcap", ElementType::F32, Argument::scalar(30.0f)));
  forward.isPacked = false;
  plan = AttentionForward::create(driver, read(writer), forward);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->captures(), std::vector<std::string>{"softcap"});
  const Argument softcap[] = {Argument::absent(), Argument::scalar(50.0f)};
  for (auto [capture, text] : {std::pair(0, " softcap=f32:0x41f00000"), {1, "0x42480000"}}) {
    arguments.captures = softcap + capture;
    arguments.numCaptures = 1;
    report = plan->report(arguments, target, 108);
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_NE(report->call.find(text), std::string::npos) << report->call;
  }
  specs.back().byDefault.reset();
  EXPECT_FAILURE(AttentionForward::create(driver, read(writer), forward).status(),
                 Code::InvalidArgument,
                 "'attention_forward' takes 'softcap', which is not an argument of attention");

  AttentionDecodeDesc decode;
  decode.headDim = 64;
  decode.group = decode.maxRows = 4;
  Result<AttentionDecode> decoding = AttentionDecode::create(driver, bundle, decode);
  ASSERT_TRUE(decoding.ok()) << decoding.status().message();
  EXPECT_EQ(decoding->signature(), "attention_decode D=64,DV=64,T=bf16,GROUP=4,ROWS=4");
  AttentionDecodeArguments call;
  call.q = call.o = Argument::dense(0x10000, ElementType::BF16, {3, 2, 8, 64});
  call.cache.k = call.cache.v = Argument::dense(0x20000, ElementType::BF16, {9, 64, 2, 64});
  call.cache.blockTable = Argument::dense(0x30000, ElementType::I32, {3, 4});
  call.cache.seqLens = Argument::dense(0x40000, ElementType::I32, {3});
  report = decoding->report(call, target, 108);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->launches[0].entry, "decode");
  // Heads before queries, as the kernel has them.
  EXPECT_NE(report->call.find(" q=bf16[3,8,2,64]/1024,64,512,1@256"), std::string::npos)
      << report->call;
}

TEST_F(AttentionPlans, RunInC) {
  EXPECT_EQ(tilewrightRunPackedFromC(bundle, reinterpret_cast<void *>(0x10000), streamOf(0)),
            TILEWRIGHT_OK)
      << tilewright_last_error();
  ASSERT_EQ(fake().launches.size(), 1u);
  EXPECT_EQ(fake().launches[0].block[0], threadsOf::packed);
}

TEST_F(AttentionPlans, AnswerWithoutADriver) {
  setDriverForTesting(nullptr);
  if (DriverTable::system().ok())
    GTEST_SKIP() << "there is a driver";
  ASSERT_EQ(create(), TILEWRIGHT_OK);
  EXPECT_EQ(tilewright_attention_check_support(plan, 9, 0, 0), TILEWRIGHT_OK);
  EXPECT_EQ(tilewright_attention_prepare(plan, 0), TILEWRIGHT_NO_DRIVER);
  Call call = forwardCall();
  EXPECT_EQ(run(call), TILEWRIGHT_NO_DRIVER);
}

} // namespace
