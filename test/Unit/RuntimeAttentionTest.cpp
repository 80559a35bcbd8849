// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention by one description, through the C interface; RuntimeAttentionTest.c is a part in C.

#include "RuntimeAttentionTesting.h"

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

/// Defined in C, and shown in docs/runtime.md: attention of packed sequences.
extern "C" tilewright_code tilewrightRunPackedFromC(const tilewright_bundle *bundle, void *memory,
                                                    void *stream);

namespace {

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
      "'bundle' has no variant of 'attention_forward' for D = 64, DV = 64, T = bf16, CAUSAL = "
      "\"none\", WINDOW = false, PACKED = false, LISTED = true, LIST_BLOCK_M = 128, LIST_BLOCK_N = "
      "128, CACHED = false, but has LISTED = false, no LIST_BLOCK_M, no LIST_BLOCK_N, or PACKED = "
      "true, LISTED = false, no LIST_BLOCK_M, no LIST_BLOCK_N, or LIST_BLOCK_N = 64 and 1 more; "
      "compile it with: tilewrightc kernels/attention_forward.mlir --kernel=attention_forward "
      "--param=D=64 --param=DV=64 --param=T=bf16 --param=CAUSAL=none --param=WINDOW=false "
      "--param=PACKED=false --param=LISTED=true --param=LIST_BLOCK_M=128 --param=LIST_BLOCK_N=128 "
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
                   invalid, "plan must be a valid pointer, but got null");
  EXPECT_C_FAILURE(tilewright_attention_workspace_size(plan, call.data(), call.size(), 0, nullptr),
                   invalid, "bytes must be a valid pointer, but got null");
  EXPECT_C_FAILURE(tilewright_attention_run(plan, nullptr, 2, nullptr, 0, nullptr), invalid,
                   "the list of arguments must be a valid pointer, but got null");
  EXPECT_C_FAILURE(tilewright_attention_check_indices(plan, 2), invalid,
                   "wanted must be 0 or 1, but got 2");
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
                   "'attention_forward' must have at most 64 arguments for all sizes of pages, but "
                   "got 'pages1624' as well");
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
      "\"top_left\", GROUP = 4, but has no CAUSAL; compile it with: tilewrightc "
      "kernels/attention_forward.mlir --kernel=my_attention --param=D=64 --param=DV=64 "
      "--param=T=bf16 --param=CAUSAL=top_left --param=GROUP=4 --emit=bundle -o FILE");
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
                 "the arguments of 'attention_backward' must be those of decoding, captures, or "
                 "optional, but got 'k'");
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
                   "'attention_forward' must have the same captures for all sizes of pages, but "
                   "got 'softcap' for pages of 16 rows, and none for others");
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
                 "the arguments of 'attention_forward' must be those of attention, captures, or "
                 "optional, but got 'softcap'");

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
