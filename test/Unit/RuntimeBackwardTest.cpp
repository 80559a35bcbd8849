// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan of the attention backward, and its C interface, on a driver that records calls.

#include "RuntimeBackwardBundle.h"
#include "RuntimePlanTesting.h"

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

namespace {

class Backward : public RuntimeTest {
protected:
  Result<AttentionBackward> create(const BundleWriter &writer) {
    desc.headDim = 64;
    return AttentionBackward::create(driver, read(writer), desc);
  }
  Status runWith(void (*change)(AttentionBackwardArguments &)) {
    Result<AttentionBackward> plan = create(backwardBundle());
    if (!plan)
      return plan.status();
    if (Status status = plan->prepare(0); !status)
      return status;
    AttentionBackwardArguments given = arguments();
    change(given);
    return plan->run(given, 0x100000, workspaceBytes, streamOf(0));
  }
  AttentionBackwardArguments arguments() { return backwardArguments(captures); }
  AttentionBackwardDesc desc;
  Argument captures[2] = {Argument::dense(0xa0000, ElementType::F32, {8}), Argument::absent()};
};

TEST_F(Backward, RunsBothForms) {
  for (bool isDeterministic : {false, true}) {
    SCOPED_TRACE(isDeterministic);
    fake() = FakeDriver();
    desc.isDeterministic = isDeterministic;
    Result<AttentionBackward> plan = create(backwardBundle());
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_EQ(plan->captures(), (std::vector<std::string>{"slopes", "d_slopes"}));
    EXPECT_OK(plan->checkSupport({8, 6, 0}));
    EXPECT_OK(plan->prepare(0));
    uint64_t bytes = 0;
    EXPECT_OK(plan->workspaceSize(arguments(), 0, bytes));
    EXPECT_EQ(bytes, workspaceBytes);
    fake().calls.clear();
    EXPECT_OK(plan->run(arguments(), 0x100000, bytes, streamOf(0)));
    ASSERT_EQ(fake().launches.size(), isDeterministic ? 2u : 3u);
    EXPECT_EQ(fake().launches[0].grid[0], 5u * 2 * 8);
    EXPECT_EQ(fake().launches[1].grid[0], 8u * 2 * 2) << "a block of keys for each head of k";
    ASSERT_EQ(fake().fills.size(), 1u);
    EXPECT_EQ(fake().fills[0].address, 0x100000u + 2 * 8 * 300 * 4);
    for (const FakeLaunch &launch : fake().launches)
      EXPECT_EQ(launch.stream, streamOf(0));
    // The calls that a graph capture allows: launches and fills on the stream, and queries.
    for (const auto &call : fake().calls)
      EXPECT_TRUE(call.first == "cuLaunchKernel" || call.first == "cuLaunchKernelEx" ||
                  call.first == "cuMemsetD32Async" || call.first.rfind("cuCtx", 0) == 0 ||
                  call.first == "cuStreamGetCtx")
          << call.first;
  }
}

TEST_F(Backward, PassesStridesAndOptionalViews) {
  BundleWriter writer = backwardBundle();
  std::shared_ptr<const Bundle> bundle = read(writer);
  desc.headDim = 64;
  Result<AttentionBackward> plan = AttentionBackward::create(driver, bundle, desc);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_OK(plan->prepare(0));
  AttentionBackwardArguments given = arguments();
  given.dO.strides[0] = int64_t(5) << 31; // a slice of a concatenation
  given.dO.strides[2] = 3 * 64;
  given.dLse = Argument::dense(0xb0000, ElementType::F32, {2, 8, 300});
  captures[1] = Argument::dense(0xc0000, ElementType::F32, {8});
  fake().layout = &bundle->manifest().kernels[0].layout; // layout of delta, which is launched first
  fake().numWithLayout = 1;
  EXPECT_OK(plan->run(given, 0x100000, workspaceBytes, nullptr));
  auto paramAt = [&](size_t index, auto value) {
    std::memcpy(&value, fake().launches[0].params.data() + fake().layout->params[index].offset,
                sizeof(value));
    return value;
  };
  constexpr size_t perArray = 1 + 2 * 4;
  EXPECT_EQ(paramAt(perArray, uint64_t()), 0x50000u);
  EXPECT_EQ(paramAt(perArray + 5, int64_t()), int64_t(5) << 31);
  EXPECT_EQ(paramAt(perArray + 7, int64_t()), 3 * 64);
  EXPECT_EQ(paramAt(2 * perArray, uint64_t()), 0xb0000u);
}

/// A bundle in which the program and its kernels write the gradients.
BundleWriter writtenBundle(ElementType scaleType = ElementType::F32) {
  BundleWriter writer = backwardBundle();
  auto change = [&](std::vector<ArgumentSpec> &arguments) {
    for (ArgumentSpec &argument : arguments) {
      argument.isWritten = argument.name == "dq" || argument.name == "dk" || argument.name == "dv";
      if (argument.name == "scale")
        argument.type = scaleType;
    }
  };
  for (KernelSpec &kernel : writer.manifest.kernels)
    change(kernel.arguments);
  for (ProgramSpec &program : writer.manifest.programs)
    change(program.arguments);
  return writer;
}

TEST_F(Backward, RejectsResultsThatShareMemory) {
  desc.isDeterministic = true;
  Result<AttentionBackward> plan = create(writtenBundle());
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_OK(plan->prepare(0));
  auto run = [&](auto change) {
    AttentionBackwardArguments given = arguments();
    change(given);
    return plan->run(given, 0x100000, workspaceBytes, streamOf(0));
  };
  const std::string prefix = "argument 'dk' of program 'attention_backward' must have elements "
                             "that share no memory, since they are written, but got the stride ";
  // Inputs may.
  EXPECT_OK(run([](auto &a) { a.k.strides[1] = a.v.strides[1] = a.dO.strides[2] = 0; }));
  EXPECT_FAILURE(run([](auto &a) { a.dK.strides[1] = 0; }), Code::InvalidArgument,
                 prefix + "0 along dimension 1, where at least 1 is needed; pass an array of its "
                          "own for each");
  EXPECT_FAILURE(run([](auto &a) { a.dK.strides[2] = 63; }), Code::InvalidArgument,
                 prefix + "63 along dimension 2, where at least 64 is needed; pass an array of its "
                          "own for each");
  EXPECT_FAILURE(run([](auto &a) { a.dK.strides[0] = INT64_MAX; }), Code::InvalidArgument,
                 prefix + "9223372036854775807 along dimension 0, where at least 64000 is needed; "
                          "pass an array of its own for each");
  EXPECT_FAILURE(run([](auto &a) { a.dK.strides[0] = INT64_MIN; }), Code::InvalidArgument,
                 prefix + "-9223372036854775808 along dimension 0, where at least 64000 is needed; "
                          "pass an array of its own for each");
  EXPECT_OK(run([](auto &a) {
    a.dK.strides[2] = -64; // in reverse
    std::swap(a.dK.strides[0], a.dK.strides[1]);
    a.dK.strides[0] = 32000, a.dK.strides[1] = 64000;
  }));
}

/// Keys that are expanded to several heads, with gradients that are: the heads are one.
TEST_F(Backward, StoresTheSumOfExpandedHeads) {
  desc.isDeterministic = true;
  BundleWriter writer = writtenBundle();
  std::shared_ptr<const Bundle> bundle = read(writer);
  desc.headDim = 64;
  Result<AttentionBackward> plan = AttentionBackward::create(driver, bundle, desc);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_OK(plan->prepare(0));
  AttentionBackwardArguments given = arguments();
  for (Argument *view : {&given.k, &given.v, &given.dK, &given.dV}) {
    view->strides[0] = 500 * 64;
    view->strides[1] = 0;
  }
  uint64_t bytes = 0;
  EXPECT_OK(plan->workspaceSize(given, 0, bytes));
  EXPECT_OK(plan->run(given, 0x100000, bytes, streamOf(0)));
  ASSERT_EQ(fake().launches.size(), 2u);
  EXPECT_EQ(fake().launches[1].grid[0], 8u * 2) << "one head of k";
  given.dV.strides[1] = 500 * 64;
  given.dV.strides[0] = 2 * 500 * 64;
  EXPECT_FAILURE(plan->run(given, 0x100000, bytes, streamOf(0)), Code::InvalidArgument,
                 "argument 'dk' of program 'attention_backward' must have elements that share no "
                 "memory, since they are written, but got the stride 0 along dimension 1, where at "
                 "least 1 is needed; pass an array of its own for each");
}

/// The scale in the type that the entry takes.
TEST_F(Backward, PassesTheScaleInItsType) {
  for (ElementType type : {ElementType::F32, ElementType::F64}) {
    fake() = FakeDriver();
    BundleWriter writer = writtenBundle(type);
    std::shared_ptr<const Bundle> bundle = read(writer);
    desc.headDim = 64;
    Result<AttentionBackward> plan = AttentionBackward::create(driver, bundle, desc);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_OK(plan->prepare(0));
    AttentionBackwardArguments given = arguments();
    given.scale = 0.2;
    const ParamLayout &layout = bundle->manifest().kernels[2].layout; // of convert, the last launch
    fake().layout = &layout;
    EXPECT_OK(plan->run(given, 0x100000, workspaceBytes, nullptr));
    ASSERT_EQ(fake().launches.size(), 3u);
    auto scaleOf = [&](auto value) {
      std::memcpy(&value, fake().launches[2].params.data() + layout.params.back().offset,
                  sizeof(value));
      return double(value);
    };
    EXPECT_EQ(type == ElementType::F64 ? scaleOf(double()) : scaleOf(float()),
              type == ElementType::F64 ? 0.2 : double(0.2f));
  }
}

TEST_F(Backward, NamesTheCommandForWhatIsMissing) {
  desc.hasWindow = true;
  EXPECT_FAILURE(
      create(backwardBundle()).status(), Code::MissingVariant,
      "'test.twb' has no variant of 'attention_backward' for D = 64, DV = 64, T = bf16, CAUSAL = "
      "\"none\", WINDOW = true, DETERMINISTIC = false, but has WINDOW = false, DETERMINISTIC = "
      "true, or WINDOW = false; compile it with: tilewrightc kernels/attention_backward.mlir "
      "--program=attention_backward --param=D=64 --param=DV=64 --param=T=bf16 --param=CAUSAL=none "
      "--param=WINDOW=true --param=DETERMINISTIC=false --emit=bundle -o FILE");
  desc = AttentionBackwardDesc();
  desc.valueDim = -1;
  EXPECT_FAILURE(create(backwardBundle()).status(), Code::InvalidArgument,
                 "the head dimension of attention must be positive, but got 64 and, for values, "
                 "-1");
  desc = AttentionBackwardDesc();
  desc.entry = "attention_forward', but has 'attention_backward', 'delta', 'keys', 'convert";
  EXPECT_FAILURE(
      create(backwardBundle()).status(), Code::MissingVariant,
      "'test.twb' has no kernel or program 'attention_forward', but has 'attention_backward', "
      "'delta', 'keys', 'convert', but has 'attention_backward', 'delta', 'keys', 'convert'");
  desc = AttentionBackwardDesc();
  Result<AttentionBackward> plan = create(backwardBundle());
  for (auto [major, minor] : {std::pair(7, 5), std::pair(7, 0), std::pair(0, 0)})
    EXPECT_FAILURE(plan->checkSupport({major, minor, 0}), Code::Unsupported,
                   "program 'attention_backward' needs compute capability 8.0 or newer, but this "
                   "is " +
                       std::to_string(major) + "." + std::to_string(minor));
  BundleWriter exact = backwardBundle();
  for (KernelSpec &kernel : exact.manifest.kernels)
    kernel.codes[0].arch = *Arch::parse("sm_90a");
  for (ProgramSpec &program : exact.manifest.programs)
    program.forms[0].target = *Arch::parse("sm_90a");
  plan = create(exact);
  EXPECT_FAILURE(
      plan->checkSupport({8, 6, 0}), Code::MissingVariant,
      "no variant of kernel 'delta' runs on compute capability 8.6: that of entry "
      "'delta' is for sm_90a; compile it with: tilewrightc kernels/attention_backward.mlir "
      "--program=attention_backward --param=D=64 --param=DV=64 --param=T=bf16 "
      "--param=CAUSAL=none --param=WINDOW=false --param=DETERMINISTIC=false "
      "--target=sm_86 --emit=bundle -o FILE");
}

TEST_F(Backward, RejectsOtherPrograms) {
  BundleWriter writer = backwardBundle();
  auto each = [&](auto change) {
    for (ProgramSpec &program : writer.manifest.programs)
      change(program.arguments);
  };
  each([](auto &list) { list.push_back(ArgumentSpec::scalar("seed", ElementType::I64)); });
  EXPECT_FAILURE(create(writer).status(), Code::InvalidArgument,
                 "the arguments of 'attention_backward' must be those of attention, captures, or "
                 "optional, but got 'seed'");
  writer = backwardBundle();
  each([](auto &list) {
    list[3].name = "out"; // o
    list[3].isOptional = true;
  });
  for (ProgramSpec &program : writer.manifest.programs)
    formOf(program).launches[0].arguments[0] = "out";
  EXPECT_FAILURE(
      create(writer).status(), Code::InvalidArgument,
      "'attention_backward' must have the argument 'o' of attention, but has none of this name");
}

TEST_F(Backward, ChecksGradientsOfCaptures) {
  Result<AttentionBackward> plan = create(backwardBundle());
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  uint64_t bytes = 0;
  captures[1] = Argument::dense(0xb0000, ElementType::F32, {7});
  EXPECT_FAILURE(plan->workspaceSize(arguments(), 0, bytes), Code::InvalidArgument,
                 "argument 'd_slopes' of attention must have extent 8 along dimension 0, as the "
                 "capture 'slopes' has, but got 7");
  captures[1] = Argument::dense(0xb0000, ElementType::F32, {8});
  EXPECT_OK(plan->workspaceSize(arguments(), 0, bytes));

  desc.hasCaptureGradients = true;
  BundleWriter writer = backwardBundle();
  EXPECT_FAILURE(
      create(writer).status(), Code::MissingVariant,
      "'test.twb' has no variant of 'attention_backward' for D = 64, DV = 64, T = bf16, CAUSAL = "
      "\"none\", WINDOW = false, DETERMINISTIC = false, CAPTURE_GRADIENTS = true, but has "
      "DETERMINISTIC = true, no CAPTURE_GRADIENTS, or no CAPTURE_GRADIENTS; compile it with: "
      "tilewrightc kernels/attention_backward.mlir --program=attention_backward --param=D=64 "
      "--param=DV=64 --param=T=bf16 --param=CAUSAL=none --param=WINDOW=false "
      "--param=DETERMINISTIC=false --param=CAPTURE_GRADIENTS=true --emit=bundle -o FILE");
  for (ProgramSpec &program : writer.manifest.programs)
    program.params.emplace_back("CAPTURE_GRADIENTS", Expr::flag(true));
  EXPECT_TRUE(create(writer).ok());
  desc.hasCaptureGradients = false; // both are suitable
  EXPECT_TRUE(create(writer).ok());
}

TEST_F(Backward, RejectsAGradientOfLseThatTheProgramDoesNotTake) {
  BundleWriter writer = backwardBundle();
  for (ProgramSpec &program : writer.manifest.programs) {
    program.arguments.erase(program.arguments.begin() + 6);
    formOf(program).launches.erase(formOf(program).launches.begin());
  }
  Result<AttentionBackward> plan = create(writer);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  AttentionBackwardArguments given = arguments();
  uint64_t bytes = 0;
  EXPECT_OK(plan->workspaceSize(given, 0, bytes));
  given.dLse = Argument::dense(0xb0000, ElementType::F32, {2, 8, 300});
  EXPECT_FAILURE(plan->workspaceSize(given, 0, bytes), Code::InvalidArgument,
                 "'attention_backward' has no argument 'dlse', but got one");
}

TEST_F(Backward, RejectsShapesThatDoNotMatch) {
  struct Case {
    void (*change)(AttentionBackwardArguments &);
    const char *message;
  };
  const Case cases[] = {
      {[](auto &a) { a.o.extents[2] = 299; },
       "argument 'o' of attention must have extent 300 along dimension 2, as 'q' has, but got "
       "299"},
      {[](auto &a) { a.dO.extents[1] = 2; },
       "argument 'do' of attention must have extent 8 along dimension 1, as 'q' has, but got 2"},
      {[](auto &a) { a.lse.extents[2] = 304; },
       "argument 'lse' of attention must have extent 300 along dimension 2, as 'q' has, but got "
       "304"},
      {[](auto &a) { a.dLse = Argument::dense(0xb0000, ElementType::F32, {2, 1, 300}); },
       "argument 'dlse' of attention must have extent 8 along dimension 1, as 'q' has, but got 1"},
      {[](auto &a) { a.dQ.extents[0] = 1; },
       "argument 'dq' of attention must have extent 2 along dimension 0, as 'q' has, but got 1"},
      {[](auto &a) { a.dK.extents[1] = 8; }, // the kernel sums over the group
       "argument 'dk' of attention must have extent 2 along dimension 1, as 'k' has, but got 8"},
      {[](auto &a) { a.dV.extents[2] = 300; },
       "argument 'dv' of attention must have extent 500 along dimension 2, as 'v' has, but got "
       "300"},
      {[](auto &a) {
         for (Argument *view : {&a.k, &a.v, &a.dK, &a.dV})
           view->extents[1] = 5;
       },
       "the heads of 'q' must be a multiple of those of 'k', but got 8 and 5"},
      {[](auto &a) { a.numCaptures = 1; }, "attention takes 2 captures, but got 1"},
      // Not "argument 'k' must have extent 0, as 'q' has".
      {[](auto &a) { a.q = Argument::absent(); },
       "argument 'q' of program 'attention_backward' is missing; it is not an optional argument"},
      {[](auto &a) { a.v = Argument::absent(); },
       "argument 'v' of program 'attention_backward' is missing; it is not an optional argument"},
      {[](auto &a) { a.dO = Argument::absent(); },
       "argument 'do' of program 'attention_backward' is missing; it is not an optional argument"},
      {[](auto &a) { a.lse = Argument::absent(); },
       "argument 'lse' of program 'attention_backward' is missing; it is not an optional "
       "argument"},
      {[](auto &a) { a.dK = Argument::absent(); },
       "argument 'dk' of program 'attention_backward' is missing; it is not an optional "
       "argument"},
      {[](auto &a) { a.dQ.extents[3] = 128; },
       "argument 'dq' of program 'attention_backward' must have extent 64 along dimension 3, but "
       "got 128"},
      {[](auto &a) { a.dV.type = ElementType::F32; },
       "argument 'dv' of program 'attention_backward' must have element type bf16, but got f32"},
      {[](auto &a) { a.lse.type = ElementType::F64; },
       "argument 'lse' of program 'attention_backward' must have element type f32, but got f64"},
      {[](auto &a) { a.dO.rank = 3; },
       "argument 'do' of program 'attention_backward' must have rank 4, but got rank 3"},
      {[](auto &a) { a.dO.bits += 1; },
       "argument 'do' of program 'attention_backward' must begin at a multiple of the 2 bytes of "
       "its elements, but got an address with the remainder 1"},
      {[](auto &a) { a.dQ.bits = 0; },
       "argument 'dq' of program 'attention_backward' is a null pointer, but its view has "
       "elements"},
      {[](auto &a) { const_cast<Argument &>(a.captures[0]) = Argument::absent(); },
       "argument 'slopes' of program 'attention_backward' is missing; it is not an optional "
       "argument"},
      {[](auto &a) { const_cast<Argument &>(a.captures[1]) = Argument::scalar(1.0f); },
       "argument 'd_slopes' of program 'attention_backward' must be a view, but got a scalar"}};
  for (const Case &wrong : cases) {
    EXPECT_FAILURE(runWith(wrong.change), Code::InvalidArgument, wrong.message);
    EXPECT_TRUE(fake().launches.empty() && fake().fills.empty()) << wrong.message;
    captures[0] = Argument::dense(0xa0000, ElementType::F32, {8});
    captures[1] = Argument::absent();
  }
  EXPECT_OK(runWith([](auto &a) { // no queries: dK and dV are still written
    for (Argument *view : {&a.q, &a.o, &a.dO, &a.dQ, &a.lse})
      view->extents[2] = 0;
  }));
  EXPECT_EQ(fake().launches.size(), 1u);
}

TEST_F(Backward, ChecksTheWorkspaceAndThePreparation) {
  Result<AttentionBackward> plan = create(backwardBundle());
  EXPECT_FAILURE(plan->run(arguments(), 0x100000, workspaceBytes, streamOf(0)), Code::NotPrepared,
                 "program 'attention_backward' is not prepared for this device; call prepare "
                 "before run");
  EXPECT_OK(plan->prepare(0));
  EXPECT_FAILURE(plan->run(arguments(), 0x100000, workspaceBytes - 1, nullptr),
                 Code::InvalidArgument,
                 "program 'attention_backward' needs a workspace of 1248000 bytes, but got "
                 "1247999");
  EXPECT_FAILURE(plan->run(arguments(), 0, workspaceBytes, nullptr), Code::InvalidArgument,
                 "program 'attention_backward' needs a workspace of 1248000 bytes, but got 0");
  EXPECT_FAILURE(plan->run(arguments(), 0x100010, workspaceBytes, nullptr), Code::InvalidArgument,
                 "the workspace of program 'attention_backward' must be aligned to 256 bytes, but "
                 "got an address with the remainder 16");
}

TEST_F(Backward, ReportsEachDriverCallOfRun) {
  const std::pair<const char *, const char *> injections[] = {
      {"cuMemsetD32Async", "cannot fill workspace 'dq_sum' of program 'attention_backward'"},
      {"cuLaunchKernel", "cannot launch kernel 'delta' on a grid of 80 x 1 x 1"},
      {"cuStreamGetCtx", "cannot find the context of the stream"}};
  for (const auto &[call, message] : injections) {
    fake() = FakeDriver();
    Result<AttentionBackward> plan = create(backwardBundle());
    EXPECT_OK(plan->prepare(0));
    fake().failures[call] = 999;
    EXPECT_FAILURE(plan->run(arguments(), 0x100000, workspaceBytes, streamOf(0)), Code::Driver,
                   std::string(message) + ": " + call + " returned CUDA_ERROR_FAKE (999), as told");
    EXPECT_TRUE(fake().contexts.empty());
  }
}

class BackwardCApi
    : public PlanTest<tilewright_attention_backward, tilewright_attention_backward_desc,
                      tilewright_attention_backward_create, tilewright_attention_backward_prepare,
                      tilewright_attention_backward_destroy> {
protected:
  void SetUp() override {
    PlanTest::SetUp();
    load(backwardBundle());
    desc = {sizeof(desc), TILEWRIGHT_BF16, TILEWRIGHT_CAUSAL_NONE, 64, 0, 0, 1, 0, nullptr};
    args.struct_size = sizeof(args);
    args.q = args.o = args.d_o = args.d_q = &q;
    args.k = args.v = args.d_k = args.d_v = &k;
    args.lse = &lse;
    args.window_left = args.window_right = -1;
    args.captures = list;
    args.num_captures = 2;
  }
  tilewright_code run() {
    return tilewright_attention_backward_run(plan, &args, reinterpret_cast<void *>(0x100000),
                                             workspaceBytes, streamOf(0));
  }

  int64_t qExtents[4] = {2, 8, 300, 64}, kExtents[4] = {2, 2, 500, 64}, slopeExtents[1] = {8};
  tilewright_view q = viewOf(0x10000, TILEWRIGHT_BF16, 4, qExtents);
  tilewright_view k = viewOf(0x20000, TILEWRIGHT_BF16, 4, kExtents);
  tilewright_view lse = viewOf(0x30000, TILEWRIGHT_F32, 3, qExtents);
  tilewright_view slopes = viewOf(0x40000, TILEWRIGHT_F32, 1, slopeExtents);
  tilewright_view dSlopes = viewOf(0x50000, TILEWRIGHT_F32, 1, slopeExtents);
  tilewright_argument list[2] = {
      {sizeof(tilewright_argument), "d_slopes", &dSlopes, nullptr, TILEWRIGHT_F32},
      {sizeof(tilewright_argument), "slopes", &slopes, nullptr, TILEWRIGHT_F32}};
  tilewright_attention_backward_args args = {};
};

TEST_F(BackwardCApi, Runs) {
  ASSERT_EQ(create(), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(tilewright_attention_backward_num_captures(plan), 2u);
  EXPECT_STREQ(tilewright_attention_backward_capture_name(plan, 1), "d_slopes");
  EXPECT_EQ(tilewright_attention_backward_capture_name(plan, 2), nullptr);
  EXPECT_EQ(tilewright_attention_backward_num_captures(nullptr), 0u);
  EXPECT_EQ(tilewright_attention_backward_check_support(plan, 9, 0, 0), TILEWRIGHT_OK);
  uint64_t bytes = 0;
  EXPECT_EQ(tilewright_attention_backward_workspace_size(plan, &args, 0, &bytes), TILEWRIGHT_OK)
      << tilewright_last_error();
  EXPECT_EQ(bytes, workspaceBytes);
  args.window_right = 0; // as in a zeroed struct
  EXPECT_C_FAILURE(tilewright_attention_backward_workspace_size(plan, &args, 0, &bytes),
                   TILEWRIGHT_INVALID_ARGUMENT,
                   "the window of attention must be -1 and -1, since it was planned without one, "
                   "but got -1 and 0; set has_window in the description");
  args.window_right = -1;
  EXPECT_EQ(run(), TILEWRIGHT_NOT_PREPARED);
  ASSERT_EQ(tilewright_attention_backward_prepare(plan, 0), TILEWRIGHT_OK);
  EXPECT_EQ(run(), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(fake().launches.size(), 2u) << "the deterministic form";
  args.num_captures = 0; // slopes is required
  EXPECT_EQ(run(), TILEWRIGHT_INVALID_ARGUMENT);
}

TEST_F(BackwardCApi, ChecksStructs) {
  desc.struct_size = 8;
  EXPECT_C_FAILURE(create(), TILEWRIGHT_INVALID_ARGUMENT,
                   "struct_size of tilewright_attention_backward_desc must be at least 56, but got "
                   "8; set it to sizeof of the struct");
  desc.struct_size = sizeof(desc);
  desc.type = tilewright_type(-1);
  EXPECT_C_FAILURE(create(), TILEWRIGHT_INVALID_ARGUMENT,
                   "the element type of the description of attention must be a tilewright_type, a "
                   "number from 0 to 9, but got -1");
  desc.type = TILEWRIGHT_BF16;
  desc.causal = tilewright_causal(3);
  EXPECT_C_FAILURE(create(), TILEWRIGHT_INVALID_ARGUMENT,
                   "the causal mode of the description of attention must be a tilewright_causal, a "
                   "number from 0 to 2, but got 3");
  desc.causal = TILEWRIGHT_CAUSAL_NONE;
  EXPECT_C_FAILURE(tilewright_attention_backward_create(bundle, nullptr, &plan),
                   TILEWRIGHT_INVALID_ARGUMENT, "desc must be a valid pointer, but got null");
  ASSERT_EQ(create(), TILEWRIGHT_OK);
  ASSERT_EQ(tilewright_attention_backward_prepare(plan, 0), TILEWRIGHT_OK);
  EXPECT_C_FAILURE(tilewright_attention_backward_prepare(nullptr, 0), TILEWRIGHT_INVALID_ARGUMENT,
                   "plan must be a valid pointer, but got null");
  EXPECT_C_FAILURE(tilewright_attention_backward_run(plan, nullptr, nullptr, 0, nullptr),
                   TILEWRIGHT_INVALID_ARGUMENT, "args must be a valid pointer, but got null");
  EXPECT_C_FAILURE(tilewright_attention_backward_workspace_size(plan, &args, 0, nullptr),
                   TILEWRIGHT_INVALID_ARGUMENT, "bytes must be a valid pointer, but got null");
  args.struct_size = 16;
  EXPECT_C_FAILURE(run(), TILEWRIGHT_INVALID_ARGUMENT,
                   "struct_size of tilewright_attention_backward_args must be at least 120, but "
                   "got 16; set it to sizeof of the struct");
  args.struct_size = sizeof(args);
  lse.rank = 9;
  EXPECT_C_FAILURE(run(), TILEWRIGHT_INVALID_ARGUMENT, "lse has rank 9; the limit is 8");
  lse.rank = 3;
  list[0].name = "d_bias";
  EXPECT_C_FAILURE(run(), TILEWRIGHT_INVALID_ARGUMENT,
                   "there is no argument 'd_bias'; the names are: slopes, d_slopes");
  list[0].name = "slopes";
  EXPECT_C_FAILURE(run(), TILEWRIGHT_INVALID_ARGUMENT,
                   "each argument must be given once, but got 'slopes' twice");
  EXPECT_TRUE(fake().launches.empty());
}

} // namespace
