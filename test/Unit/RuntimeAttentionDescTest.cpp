// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Descriptions of attention: what they reject, their signatures, and how arguments of a call say
// them.

#include "RuntimeAttentionTesting.h"

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

namespace {

class AttentionDescriptions : public AttentionPlans {};

TEST_F(AttentionDescriptions, ChecksDescriptions) {
  tilewright_attention_desc plain = desc;
  auto refuses = [&](auto tilewright_attention_desc::*field, auto value, const std::string &text) {
    desc.*field = value;
    EXPECT_C_FAILURE(create(), invalid, text.c_str());
    EXPECT_EQ(signature(), text);
    desc = plain;
  };
  using D = tilewright_attention_desc;
  refuses(&D::struct_size, size_t(176),
          "struct_size of tilewright_attention_desc must be at least 184, but got 176; set it to "
          "sizeof of the struct");
  refuses(&D::kind, tilewright_attention_kind(5),
          "the kind of the description of attention must be a tilewright_attention_kind, a number "
          "from 0 to 4, but got 5");
  refuses(&D::type, tilewright_type(10),
          "the element type of the description of attention must be a tilewright_type, a number "
          "from 0 to 9, but got 10");
  refuses(&D::causal, tilewright_causal(3),
          "the causal mode of the description of attention must be a tilewright_causal, a number "
          "from 0 to 2, but got 3");
  refuses(&D::places, tilewright_places(3),
          "the places of the description of attention must be a tilewright_places, a number from 0 "
          "to 2, but got 3");
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
                   "the further parameters must not follow from the description, but got 'D'; set "
                   "the field of the description instead");
  param.value = nullptr;
  EXPECT_C_FAILURE(create(), invalid,
                   "the value of parameter 'D' must be a valid pointer, but got null");
  desc.params = nullptr;
  EXPECT_C_FAILURE(create(), invalid,
                   "the list of parameters must be a valid pointer, but got null");
  desc = plain;
  EXPECT_C_FAILURE(tilewright_attention_create(nullptr, &desc, &plan), invalid,
                   "bundle must be a valid pointer, but got null");
  EXPECT_C_FAILURE(tilewright_attention_signature(&desc, nullptr), invalid,
                   "signature must be a valid pointer, but got null");
  EXPECT_C_FAILURE(tilewright_attention_params(&desc, nullptr), invalid,
                   "params must be a valid pointer, but got null");
}

/// Strings that caches are keyed by: they must not change.
TEST_F(AttentionDescriptions, HaveSignatures) {
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
TEST_F(AttentionDescriptions, AreDescribedByArguments) {
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
                   "struct_size of tilewright_attention_desc must include the field cache_type for "
                   "a cache of another type, but got 184; set it to sizeof of the struct");

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
                   "the name of an argument must be a valid pointer, but got null");
  EXPECT_C_FAILURE(tilewright_attention_describe(nullptr, &first, 1), invalid,
                   "desc must be a valid pointer, but got null");
}

} // namespace
