// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan of decoding, through the C interface.

#include "RuntimePlanTesting.h"

#include "runtime/AttentionDecode.h"

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

namespace {

/// For D 64, DV 32, bf16 and groups of 4, with windows and a capture. The number of threads tells
/// the code.
KernelSpec decodeKernel(int64_t pageRows, unsigned threads) {
  KernelSpec kernel;
  kernel.name = "attention_decode";
  kernel.params = {{"D", Expr::integer(64)},
                   {"DV", Expr::integer(32)},
                   {"T", Expr::symbol(Expr::Kind::Type, "bf16")},
                   {"CAUSAL", Expr::symbol(Expr::Kind::Enum, "bottom_right")},
                   {"WINDOW", Expr::flag(true)},
                   {"GROUP", Expr::integer(4)},
                   {"ROWS", Expr::integer(4)},
                   {"PAGE_ROWS", Expr::integer(pageRows)},
                   {"SPLITS", Expr::integer(0)}};
  kernel.arguments = {ArgumentSpec::view("q", ElementType::BF16, {-1, -1, -1, 64}),
                      ArgumentSpec::view("k_pages", ElementType::BF16, {-1, -1, -1, 64}),
                      ArgumentSpec::view("v_pages", ElementType::BF16, {-1, -1, -1, 32}),
                      ArgumentSpec::view("o", ElementType::BF16, {-1, -1, -1, 32}),
                      ArgumentSpec::view("lse", ElementType::F32, {-1, -1, -1}, true),
                      ArgumentSpec::view("block_table", ElementType::I32, {-1, -1}, true),
                      ArgumentSpec::view("seq_lens", ElementType::I32, {-1}),
                      ArgumentSpec::scalar("scale", ElementType::F32),
                      ArgumentSpec::scalar("window_left", ElementType::I32),
                      ArgumentSpec::scalar("window_right", ElementType::I32),
                      ArgumentSpec::scalar("cap", ElementType::F32)};
  kernel.arguments.back().isCapture = true;
  kernel.entry = "decode_" + std::to_string(pageRows);
  kernel.codes = {{CodeSpec::Kind::Ptx, *Arch::parse("sm_80"), 80, 0}};
  kernel.grid = {*Expr::call("*", {Expr::dim("q", 0), Expr::dim("q", 1)})};
  kernel.block = {threads, 1, 1};
  return kernel;
}

BundleWriter decodeBundle() {
  BundleWriter writer;
  writer.addPtx(".version 8.0\n.entry decode_0()\n.entry decode_16()\n.entry decode_64()");
  writer.manifest.source = "kernels/attention_decode.mlir";
  writer.manifest.kernels = {decodeKernel(16, 16), decodeKernel(0, 128), decodeKernel(64, 64)};
  return writer;
}

class DecodePlan
    : public PlanTest<tilewright_attention_decode, tilewright_attention_decode_desc,
                      tilewright_attention_decode_create, tilewright_attention_decode_prepare,
                      tilewright_attention_decode_destroy> {
protected:
  void SetUp() override {
    PlanTest::SetUp();
    desc = {sizeof(desc),
            TILEWRIGHT_BF16,
            TILEWRIGHT_BF16,
            TILEWRIGHT_CAUSAL_BOTTOM_RIGHT,
            1,
            64,
            32,
            4,
            3,
            0,
            0,
            0,
            0,
            nullptr,
            0};
    load(decodeBundle());
    cache.k = &k;
    cache.v = &v;
    cache.block_table = &table;
    cache.seq_lens = &lengths;
    args.q = &q;
    args.o = &o;
    args.cache = &cache;
    args.captures = &capture;
    args.num_captures = 1;
  }
  void load(const BundleWriter &writer) {
    manifest = read(writer);
    fake().layout = &manifest->manifest().kernels[0].layout; // that of all variants
    PlanTest::load(writer);
  }
  tilewright_code run() {
    return tilewright_attention_decode_run(plan, &args, nullptr, 0, streamOf(0));
  }
  template <typename T> T paramAt(const FakeLaunch &launch, size_t index) {
    T value;
    std::memcpy(&value, launch.params.data() + fake().layout->params[index].offset, sizeof(T));
    return value;
  }

  std::shared_ptr<const Bundle> manifest;
  int64_t qExtents[4] = {3, 2, 8, 64}, qStrides[4] = {9000, 4000, 100, 1};
  int64_t oExtents[4] = {3, 2, 8, 32}, lseExtents[3] = {3, 8, 2};
  int64_t kExtents[4] = {9, 128, 2, 64}, vExtents[4] = {9, 128, 2, 32};
  int64_t tableExtents[2] = {3, 4}, lengthExtents[1] = {3};
  tilewright_view q = viewOf(0x10000, TILEWRIGHT_BF16, 4, qExtents, qStrides);
  tilewright_view o = viewOf(0x20000, TILEWRIGHT_BF16, 4, oExtents);
  tilewright_view lse = viewOf(0x30000, TILEWRIGHT_F32, 3, lseExtents);
  tilewright_view k = viewOf(0x40000, TILEWRIGHT_BF16, 4, kExtents);
  tilewright_view v = viewOf(0x50000, TILEWRIGHT_BF16, 4, vExtents);
  tilewright_view table = viewOf(0x60000, TILEWRIGHT_I32, 2, tableExtents);
  tilewright_view lengths = viewOf(0x70000, TILEWRIGHT_I32, 1, lengthExtents);
  tilewright_kv_cache cache = {sizeof(cache), nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};
  tilewright_attention_decode_args args = {sizeof(args), nullptr, nullptr, nullptr, nullptr,
                                           nullptr,      nullptr, nullptr, nullptr, 0.125f,
                                           -1,           -1,      0,       1,       1,
                                           nullptr,      0,       0,       nullptr, nullptr};
  float cap = 30;
  tilewright_argument capture = {sizeof(capture), "cap", nullptr, &cap, TILEWRIGHT_F32};
};

TEST_F(DecodePlan, TakesTheCodeForTheSizeOfPages) {
  createPlan();
  EXPECT_EQ(tilewright_attention_decode_check_support(plan, 9, 0, 0), TILEWRIGHT_OK);
  EXPECT_EQ(tilewright_attention_decode_check_support(plan, 7, 5, 0), TILEWRIGHT_UNSUPPORTED);
  EXPECT_EQ(tilewright_attention_decode_num_captures(plan), 1u);
  EXPECT_STREQ(tilewright_attention_decode_capture_name(plan, 0), "cap");
  EXPECT_EQ(tilewright_attention_decode_capture_name(plan, 1), nullptr);
  uint64_t size = 1;
  EXPECT_EQ(tilewright_attention_decode_workspace_size(plan, &args, 0, &size), TILEWRIGHT_OK);
  EXPECT_EQ(size, 0u);
  const std::map<std::string, int> before = fake().calls;
  for (int64_t rows : {64, 128, 16, 48}) {
    kExtents[1] = vExtents[1] = rows;
    EXPECT_EQ(run(), TILEWRIGHT_OK) << tilewright_last_error();
  }
  EXPECT_EQ(fake().launches.size(), 4u);
  const unsigned threads[] = {64, 64, 16, 16};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(fake().launches[i].block[0], threads[i]);
    EXPECT_EQ(fake().launches[i].grid[0], 3u * 8);
  }
  // A run launches, and does nothing else but look for its context.
  std::string made;
  for (const auto &[name, count] : fake().calls) {
    auto old = before.find(name);
    if ((old == before.end() || old->second != count) && name.rfind("cuCtx", 0) != 0 &&
        name != "cuStreamGetCtx")
      made += name + " " + std::to_string(count);
  }
  EXPECT_EQ(made, "cuLaunchKernel 4");
  cache.block_table = nullptr;
  kExtents[0] = vExtents[0] = 3;
  EXPECT_EQ(run(), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(fake().launches.back().block[0], 128u);
}

/// The code has heads before rows.
TEST_F(DecodePlan, PassesHeadsBeforeRows) {
  createPlan();
  args.lse = &lse;
  args.window_left = 100;
  args.window_right = 7;
  ASSERT_EQ(run(), TILEWRIGHT_OK) << tilewright_last_error();
  const FakeLaunch &launch = fake().launches.at(0);
  EXPECT_EQ(paramAt<uint64_t>(launch, 0), 0x10000u);
  for (auto [index, extent] : {std::pair(1, 3), std::pair(2, 8), std::pair(3, 2), std::pair(4, 64)})
    EXPECT_EQ(paramAt<int32_t>(launch, size_t(index)), extent);
  for (auto [index, stride] :
       {std::pair(5, 9000), std::pair(6, 100), std::pair(7, 4000), std::pair(8, 1)})
    EXPECT_EQ(paramAt<int64_t>(launch, size_t(index)), stride);
  // q, each cache and o have 9 parameters.
  constexpr size_t oAt = 3 * 9, lseAt = 4 * 9;
  for (auto [index, extent] : {std::pair(oAt + 1, 3), std::pair(oAt + 2, 8), std::pair(oAt + 3, 2)})
    EXPECT_EQ(paramAt<int32_t>(launch, index), extent);
  for (auto [index, stride] :
       {std::pair(oAt + 5, 2 * 8 * 32), std::pair(oAt + 6, 32), std::pair(oAt + 7, 8 * 32)})
    EXPECT_EQ(paramAt<int64_t>(launch, index), stride);
  EXPECT_EQ(paramAt<uint64_t>(launch, lseAt), 0x30000u);
  for (auto [index, extent] : {std::pair(1, 3), std::pair(2, 8), std::pair(3, 2)})
    EXPECT_EQ(paramAt<int32_t>(launch, lseAt + size_t(index)), extent);
  size_t end = fake().layout->params.size();
  EXPECT_EQ(paramAt<float>(launch, end - 4), 0.125f);
  EXPECT_EQ(paramAt<int32_t>(launch, end - 3), 100);
  EXPECT_EQ(paramAt<int32_t>(launch, end - 2), 7);
  EXPECT_EQ(paramAt<float>(launch, end - 1), 30.0f);
}

/// A factor for all keys, for each head, or for each sequence and head.
TEST_F(DecodePlan, TakesFactorsOfCachesOfBytes) {
  BundleWriter writer = decodeBundle();
  KernelSpec kernel = decodeKernel(64, 64);
  kernel.params.emplace_back("CACHE", Expr::symbol(Expr::Kind::Type, "e4m3"));
  for (ArgumentSpec &argument : kernel.arguments)
    if (argument.name == "k_pages" || argument.name == "v_pages")
      argument.type = ElementType::E4M3;
  for (const char *name : {"v_descale", "k_descale"})
    kernel.arguments.insert(kernel.arguments.begin(),
                            ArgumentSpec::view(name, ElementType::F32, {-1, -1}));
  writer.manifest.kernels = {kernel};
  load(writer);
  EXPECT_EQ(create(), TILEWRIGHT_MISSING_VARIANT);
  desc.cache_type = k.type = v.type = TILEWRIGHT_E4M3;
  createPlan();
  int64_t one[1] = {1}, ofHeads[1] = {2}, ofAll[2] = {3, 2}, step[1] = {5}, steps[2] = {7, 3};
  tilewright_view ofTensor = viewOf(0x80000, TILEWRIGHT_F32, 1, one),
                  heads = viewOf(0x90000, TILEWRIGHT_F32, 1, ofHeads, step),
                  all = viewOf(0xa0000, TILEWRIGHT_F32, 2, ofAll, steps);
  EXPECT_C_FAILURE(run(), TILEWRIGHT_INVALID_ARGUMENT,
                   "argument 'k_descale' of kernel 'attention_decode' is missing; it is not an "
                   "optional argument");
  cache.v_scale = &all;
  for (auto [given, stride] : {std::pair(&ofTensor, 0), std::pair(&heads, 5)}) {
    cache.k_scale = given;
    ASSERT_EQ(run(), TILEWRIGHT_OK) << tilewright_last_error();
    const FakeLaunch &launch = fake().launches.back();
    EXPECT_EQ(paramAt<uint64_t>(launch, 0), reinterpret_cast<uintptr_t>(given->data));
    for (size_t factors : {0, 5}) {
      EXPECT_EQ(paramAt<int32_t>(launch, factors + 1), 3);
      EXPECT_EQ(paramAt<int32_t>(launch, factors + 2), 2);
    }
    EXPECT_EQ(paramAt<int64_t>(launch, 3), 0);
    EXPECT_EQ(paramAt<int64_t>(launch, 4), stride);
    EXPECT_EQ(paramAt<int64_t>(launch, 8), 7);
    EXPECT_EQ(paramAt<int64_t>(launch, 9), 3);
  }
  ofHeads[0] = 4;
  EXPECT_C_FAILURE(run(), TILEWRIGHT_INVALID_ARGUMENT,
                   "argument 'k_descale' of kernel 'attention_decode' must have rank 2, but got "
                   "rank 1");
  desc.cache_type = TILEWRIGHT_F16;
  EXPECT_C_FAILURE(create(), TILEWRIGHT_INVALID_ARGUMENT,
                   "a cache of decoding must have the type of 'q', or be of e4m3, e5m2 or i8 with "
                   "one of 16 bits or more, but got f16 with bf16");
}

/// Lists of blocks; a caller of the first version has no fields for them, in which it may leave
/// anything.
TEST_F(DecodePlan, TakesListsOfBlocks) {
  BundleWriter writer = decodeBundle();
  for (KernelSpec &without : writer.manifest.kernels)
    without.params.emplace_back("LISTED", Expr::flag(false));
  KernelSpec kernel = decodeKernel(64, 64);
  kernel.params.emplace_back("LISTED", Expr::flag(true));
  kernel.params.emplace_back("LIST_BLOCK_N", Expr::integer(32));
  kernel.arguments.insert(kernel.arguments.begin(),
                          {ArgumentSpec::view("kv_indices", ElementType::I32, {-1, -1, -1, -1}),
                           ArgumentSpec::view("kv_num_blocks", ElementType::I32, {-1, -1, -1})});
  writer.manifest.kernels.push_back(kernel);
  load(writer);
  int64_t extents[4] = {3, 2, 1, 7};
  tilewright_view indices = viewOf(0x80000, TILEWRIGHT_I32, 4, extents),
                  counts = viewOf(0x90000, TILEWRIGHT_I32, 3, extents);
  args.kv_indices = &indices;
  args.kv_num_blocks = &counts;
  createPlan();
  EXPECT_C_FAILURE(run(), TILEWRIGHT_INVALID_ARGUMENT,
                   "'attention_decode' has no argument 'kv_indices', but got one");
  args.struct_size = offsetof(tilewright_attention_decode_args, kv_indices);
  EXPECT_EQ(run(), TILEWRIGHT_OK) << tilewright_last_error();
  args.struct_size = sizeof(args);
  desc.list_block_n = 32;
  desc.struct_size = offsetof(tilewright_attention_decode_desc, list_block_n);
  createPlan(); // without lists
  args.kv_indices = args.kv_num_blocks = nullptr;
  EXPECT_EQ(run(), TILEWRIGHT_OK) << tilewright_last_error();
  desc.struct_size = sizeof(desc);
  createPlan();
  EXPECT_C_FAILURE(run(), TILEWRIGHT_INVALID_ARGUMENT,
                   "argument 'kv_indices' of kernel 'attention_decode' is missing; it is not an "
                   "optional argument");
  args.kv_indices = &indices;
  args.kv_num_blocks = &counts;
  ASSERT_EQ(run(), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(paramAt<uint64_t>(fake().launches.back(), 0), 0x80000u);
  indices.type = tilewright_type(77);
  EXPECT_C_FAILURE(
      run(), TILEWRIGHT_INVALID_ARGUMENT,
      "the element type of kv_indices must be a tilewright_type, a number from 0 to 9, but got 77");
  indices.type = TILEWRIGHT_I32;
  counts.type = tilewright_type(77);
  EXPECT_C_FAILURE(run(), TILEWRIGHT_INVALID_ARGUMENT,
                   "the element type of kv_num_blocks must be a tilewright_type, a number from 0 "
                   "to 9, but got 77");
  desc.list_block_n = 48;
  EXPECT_C_FAILURE(create(), TILEWRIGHT_INVALID_ARGUMENT,
                   "the blocks of the lists of decoding must have 16, 32, 64, 128 or 256 keys, and "
                   "the queries of a sequence, up to 3, but got 48 and 3; a forward takes others");
}

/// Code for 4 queries serves a plan of max_rows 3, and used to take 4.
TEST_F(DecodePlan, TakesAtMostTheRowsOfTheDescription) {
  createPlan();
  for (int64_t rows : {1, 3}) {
    qExtents[1] = oExtents[1] = rows;
    EXPECT_EQ(run(), TILEWRIGHT_OK) << tilewright_last_error();
  }
  qExtents[1] = oExtents[1] = 4;
  EXPECT_C_FAILURE(run(), TILEWRIGHT_INVALID_ARGUMENT,
                   "the queries of a sequence must be at most 3, max_rows of the description of "
                   "decoding, but got 4");
  EXPECT_EQ(fake().launches.size(), 2u);
}

TEST_F(DecodePlan, NamesWhatIsMissing) {
  createPlan();
  kExtents[1] = vExtents[1] = 20;
  const char *rows = "'bundle' has no variant of 'attention_decode' for pages of 20 rows, but "
                     "PAGE_ROWS = 64, 16, 0; compile it with --param=PAGE_ROWS=1";
  EXPECT_C_FAILURE(run(), TILEWRIGHT_MISSING_VARIANT, rows);
  uint64_t size = 0;
  EXPECT_C_FAILURE(tilewright_attention_decode_workspace_size(plan, &args, 0, &size),
                   TILEWRIGHT_MISSING_VARIANT, rows);
  BundleWriter writer = decodeBundle();
  writer.manifest.kernels.erase(writer.manifest.kernels.begin() + 1);
  load(writer);
  createPlan();
  cache.block_table = nullptr;
  EXPECT_C_FAILURE(run(), TILEWRIGHT_MISSING_VARIANT,
                   "'bundle' has no variant of 'attention_decode' for a cache without a table, but "
                   "PAGE_ROWS = 64, 16; compile it with --param=PAGE_ROWS=0");
  desc.num_splits = 4;
  EXPECT_C_FAILURE(
      create(), TILEWRIGHT_MISSING_VARIANT,
      "'bundle' has no variant of 'attention_decode' for D = 64, DV = 32, T = bf16, CAUSAL = "
      "\"bottom_right\", WINDOW = true, GROUP = 4, ROWS = 4, PAGE_ROWS = 64, SPLITS = 4, but has "
      "PAGE_ROWS = 16, SPLITS = 0, or SPLITS = 0; compile it with: tilewrightc "
      "kernels/attention_decode.mlir --kernel=attention_decode --param=D=64 --param=DV=32 "
      "--param=T=bf16 --param=CAUSAL=bottom_right --param=WINDOW=true --param=GROUP=4 "
      "--param=ROWS=4 --param=PAGE_ROWS=64 --param=SPLITS=4 --emit=bundle -o FILE");
  desc.num_splits = 0;
  desc.entry = "decode";
  EXPECT_C_FAILURE(create(), TILEWRIGHT_MISSING_VARIANT,
                   "'bundle' has no kernel or program 'decode', but has 'attention_decode'");
}

TEST_F(DecodePlan, RejectsOtherKernels) {
  BundleWriter writer = decodeBundle();
  for (KernelSpec &kernel : writer.manifest.kernels)
    kernel.arguments[6].name = "lengths";
  load(writer);
  EXPECT_C_FAILURE(create(), TILEWRIGHT_INVALID_ARGUMENT,
                   "the arguments of 'attention_decode' must be those of decoding, captures, or "
                   "optional, but got 'lengths'");
  for (KernelSpec &kernel : writer.manifest.kernels)
    kernel.arguments.erase(kernel.arguments.begin() + 6);
  load(writer);
  EXPECT_C_FAILURE(create(), TILEWRIGHT_INVALID_ARGUMENT,
                   "'attention_decode' must have the argument 'seq_lens' of decoding, but has none "
                   "of this name");
}

TEST_F(DecodePlan, ChecksViews) {
  createPlan();
  auto fails = [&](tilewright_code code, const char *text) { EXPECT_C_FAILURE(run(), code, text); };
  o.rank = 3;
  fails(TILEWRIGHT_INVALID_ARGUMENT,
        "argument 'o' of decoding must have the shape [B, R, Hq, DV], but got rank 3");
  o.rank = 4;
  args.lse = &lse;
  lse.rank = 2;
  fails(TILEWRIGHT_INVALID_ARGUMENT,
        "argument 'lse' of kernel 'attention_decode' must have rank 3, but got rank 2");
  args.lse = nullptr;
  args.q = nullptr;
  fails(TILEWRIGHT_INVALID_ARGUMENT,
        "argument 'q' of kernel 'attention_decode' is missing; it is not an optional argument");
  args.q = &q;
  for (auto [field, name] : {std::pair(&cache.k, "k_pages"), std::pair(&cache.v, "v_pages"),
                             std::pair(&cache.seq_lens, "seq_lens")}) {
    const tilewright_view *kept = *field;
    *field = nullptr;
    fails(TILEWRIGHT_INVALID_ARGUMENT,
          (std::string("argument '") + name +
           "' of kernel 'attention_decode' is missing; it is not an optional argument")
              .c_str());
    *field = kept;
  }
  cache.struct_size = 8;
  fails(TILEWRIGHT_INVALID_ARGUMENT, "struct_size of tilewright_kv_cache must be at least 56, but "
                                     "got 8; set it to sizeof of the struct");
  cache.struct_size = sizeof(cache);
  args.cache = nullptr;
  fails(TILEWRIGHT_INVALID_ARGUMENT, "cache must be a valid pointer, but got null");
  args.cache = &cache;
  args.struct_size = 100;
  fails(TILEWRIGHT_INVALID_ARGUMENT, "struct_size of tilewright_attention_decode_args must be at "
                                     "least 120, but got 100; set it to sizeof of the struct");
  args.struct_size = sizeof(args);
  EXPECT_EQ(run(), TILEWRIGHT_OK);
  EXPECT_EQ(fake().launches.size(), 1u);
}

TEST_F(DecodePlan, RefusesWhatIsNotSupportedYet) {
  createPlan();
  auto refuses = [&](auto &field, auto value, const char *text) {
    auto kept = field;
    field = value;
    EXPECT_C_FAILURE(run(), TILEWRIGHT_UNSUPPORTED, text);
    field = kept;
  };
  refuses(args.cu_seqlens_q, &lengths,
          "cu_seqlens_q of decoding must be null, but got a view; it is not supported yet");
  refuses(args.row_positions, &lengths,
          "row_positions of decoding must be null, but got a view; it is not supported yet");
  refuses(args.tree_bits, &table,
          "tree_bits of decoding must be null, but got a view; it is not supported yet");
  refuses(args.q_scale, &lse,
          "q_scale of decoding must be null, but got a view; it is not supported yet");
  refuses(args.key_step, 2,
          "key_first, key_step, key_interleave of decoding must be 0, 1, 1, but got 0, 2, 1; other "
          "values are not supported yet");
  EXPECT_EQ(fake().launches.size(), 0u);
  EXPECT_EQ(run(), TILEWRIGHT_OK);
}

TEST_F(DecodePlan, ChecksWindowsAndCaptures) {
  createPlan();
  auto fails = [&](const char *text) {
    EXPECT_C_FAILURE(run(), TILEWRIGHT_INVALID_ARGUMENT, text);
  };
  args.num_captures = 0;
  fails("argument 'cap' of kernel 'attention_decode' is missing; it is not an optional argument");
  args.num_captures = 1;
  capture.name = "slope";
  fails("there is no argument 'slope'; the names are: cap");
  capture.name = "cap";
  // Code without windows.
  BundleWriter writer = decodeBundle();
  for (KernelSpec &kernel : writer.manifest.kernels)
    kernel.params[4].second = Expr::flag(false);
  load(writer);
  desc.has_window = 0;
  createPlan();
  args.window_left = 8;
  fails("the window of decoding must be -1 and -1, since it was planned without one, but got 8 and "
        "-1; set has_window in the description");
  args.window_left = -1;
  EXPECT_EQ(run(), TILEWRIGHT_OK) << tilewright_last_error();
  // Code with other captures for other pages.
  writer.manifest.kernels[0].arguments.back().name = "slope";
  load(writer);
  EXPECT_C_FAILURE(create(), TILEWRIGHT_INVALID_ARGUMENT,
                   "'attention_decode' must have the same captures for all sizes of pages, but got "
                   "'slope' for pages of 16 rows, and 'cap' for others");
}

TEST_F(DecodePlan, CountsTheCapturesOfACallInCxx) {
  AttentionDecodeDesc wanted;
  wanted.headDim = 64;
  wanted.valueDim = 32;
  wanted.causal = AttentionDesc::Causal::BottomRight;
  wanted.hasWindow = true;
  wanted.group = 4;
  wanted.maxRows = 3;
  Result<AttentionDecode> created = AttentionDecode::create(driver, manifest, wanted);
  ASSERT_TRUE(created.ok()) << created.status().message();
  uint64_t bytes = 0;
  EXPECT_EQ(created->workspaceSize(AttentionDecodeArguments(), 0, bytes).message(),
            "decoding takes 1 captures, but got 0");
}

TEST_F(DecodePlan, ChecksDescriptions) {
  auto refuses = [&](auto &field, auto value, const char *text,
                     tilewright_code code = TILEWRIGHT_UNSUPPORTED) {
    auto kept = field;
    field = value;
    EXPECT_C_FAILURE(create(), code, text);
    field = kept;
  };
  refuses(desc.lengths_are_older, 1,
          "lengths_are_older of decoding must be 0, but got 1; other values are not supported yet");
  refuses(desc.spare_sms, 4,
          "spare_sms of decoding must be 0, but got 4; other values are not supported yet");
  constexpr tilewright_code invalid = TILEWRIGHT_INVALID_ARGUMENT;
  refuses(desc.overlap_previous, 2, "overlap_previous must be 0 or 1, but got 2", invalid);
  for (int64_t rows : {-1, 17})
    refuses(desc.max_rows, rows,
            ("the rows of decoding must be a number of queries from 1 to 16 for each sequence, but "
             "got " +
             std::to_string(rows))
                .c_str(),
            invalid);
  refuses(desc.type, tilewright_type(10),
          "the element type of the description of decoding must be a tilewright_type, a number "
          "from 0 to 9, but got 10",
          invalid);
  refuses(desc.cache_type, tilewright_type(10),
          "the element type of the cache of the description of decoding must be a tilewright_type, "
          "a number from 0 to 9, but got 10",
          invalid);
  refuses(desc.causal, tilewright_causal(5),
          "the causal mode of the description of decoding must be a tilewright_causal, a number "
          "from 0 to 2, but got 5",
          invalid);
  refuses(desc.head_dim, 0,
          "the head dimension of decoding must be positive, but got 0 and, for values, 32",
          invalid);
  refuses(desc.group, 0,
          "the group of decoding must be a number of query heads for each key head, but got 0",
          invalid);
  refuses(desc.num_splits, -1,
          "the splits of decoding must be a number of parts, or 0 for any, but got -1", invalid);
  refuses(desc.struct_size, size_t(72),
          "struct_size of tilewright_attention_decode_desc must be at least 80, but got 72; set it "
          "to sizeof of the struct",
          invalid);
  EXPECT_C_FAILURE(tilewright_attention_decode_create(nullptr, &desc, &plan), invalid,
                   "bundle must be a valid pointer, but got null");
  desc.max_rows = 4;
  EXPECT_EQ(create(), TILEWRIGHT_OK) << tilewright_last_error();
  desc.max_rows = 0; // one
  EXPECT_EQ(create(), TILEWRIGHT_MISSING_VARIANT);
}

// By default, by the description, and by the function.
TEST_F(DecodePlan, OverlapsThePreviousRun) {
  BundleWriter writer = decodeBundle();
  for (KernelSpec &kernel : writer.manifest.kernels)
    kernel.awaitsLaunch = true;
  load(writer);
  auto overlaps = [&] {
    EXPECT_EQ(run(), TILEWRIGHT_OK) << tilewright_last_error();
    return fake().launches.back().overlaps;
  };
  for (const char *byDefault : {"1", "0"})
    for (int wanted : {0, 1}) {
      setenv("TILEWRIGHT_OVERLAP_PREVIOUS", byDefault, 1);
      desc.overlap_previous = wanted;
      tilewright_attention_decode_destroy(plan);
      plan = nullptr;
      tilewright_code created = create();
      unsetenv("TILEWRIGHT_OVERLAP_PREVIOUS");
      ASSERT_EQ(created, TILEWRIGHT_OK) << tilewright_last_error();
      ASSERT_EQ(tilewright_attention_decode_prepare(plan, 0), TILEWRIGHT_OK);
      EXPECT_EQ(overlaps(), wanted == 1 || *byDefault == '1');
    }
  EXPECT_EQ(tilewright_attention_decode_overlap_previous(plan, 0), TILEWRIGHT_OK);
  EXPECT_FALSE(overlaps());
  EXPECT_EQ(tilewright_attention_decode_overlap_previous(plan, 1), TILEWRIGHT_OK);
  EXPECT_TRUE(overlaps());
}

TEST_F(DecodePlan, AnswersWithoutADriver) {
  setDriverForTesting(nullptr);
  if (DriverTable::system().ok())
    GTEST_SKIP() << "there is a driver";
  ASSERT_EQ(create(), TILEWRIGHT_OK);
  EXPECT_EQ(tilewright_attention_decode_check_support(plan, 9, 0, 0), TILEWRIGHT_OK);
  EXPECT_EQ(tilewright_attention_decode_prepare(plan, 0), TILEWRIGHT_NO_DRIVER);
  EXPECT_EQ(run(), TILEWRIGHT_NO_DRIVER);
}

} // namespace
