// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan of attention and the C interface. RuntimeCApiTest.c is the same interface from C.

#include "RuntimePlanTesting.h"

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

/// Defined in C: the number of the first check that fails there, or 0.
extern "C" int tilewrightCheckFromC(const void *bundle, size_t size);
/// Defined in C: runs rms_norm, as in docs/runtime.md.
extern "C" tilewright_code tilewrightRunKernelFromC(const tilewright_bundle *bundle, void *x,
                                                    void *y, void *stream);

namespace {

/// A bundle of attention_forward for D 64, bf16, top_left, with one capture.
BundleWriter attentionBundle() {
  KernelSpec kernel;
  kernel.name = "attention_forward";
  kernel.params = {{"D", Expr::integer(64)},
                   {"DV", Expr::integer(64)},
                   {"T", Expr::symbol(Expr::Kind::Type, "bf16")},
                   {"CAUSAL", Expr::symbol(Expr::Kind::Enum, "top_left")},
                   {"WINDOW", Expr::flag(false)}};
  auto view = [](const char *name) {
    return ArgumentSpec::view(name, ElementType::BF16, {-1, -1, -1, 64});
  };
  kernel.arguments = {view("q"),
                      view("k"),
                      view("v"),
                      view("o"),
                      ArgumentSpec::view("lse", ElementType::F32, {-1, -1, -1}, true),
                      ArgumentSpec::scalar("scale", ElementType::F32),
                      ArgumentSpec::scalar("window_left", ElementType::I32),
                      ArgumentSpec::scalar("window_right", ElementType::I32),
                      ArgumentSpec::view("slopes", ElementType::F32, {-1})};
  kernel.arguments.back().isCapture = true;
  kernel.entry = "attention_forward_0";
  kernel.codes = {{CodeSpec::Kind::Ptx, *Arch::parse("sm_80"), 80, 0}};
  // Batch times heads may exceed 65,535: all in x.
  kernel.grid = {*Expr::call("*", {*Expr::call("ceildiv", {Expr::dim("q", 2), Expr::integer(128)}),
                                   *Expr::call("*", {Expr::dim("q", 0), Expr::dim("q", 1)})})};
  kernel.block = {128, 1, 1};
  BundleWriter writer;
  writer.addPtx(".version 8.0\n.entry attention_forward_0()");
  writer.manifest.source = "kernels/attention_forward.mlir";
  writer.manifest.kernels = {kernel};
  return writer;
}

AttentionForwardDesc describe() {
  AttentionForwardDesc desc;
  desc.headDim = 64;
  desc.causal = AttentionForwardDesc::Causal::TopLeft;
  return desc;
}

AttentionForwardArguments attentionArguments(const Argument &slopes, int64_t batch = 2,
                                             int64_t heads = 8) {
  AttentionForwardArguments arguments;
  arguments.q = Argument::dense(0x10000, ElementType::BF16, {batch, heads, 300, 64});
  arguments.k = Argument::dense(0x20000, ElementType::BF16, {batch, heads / 4, 500, 64});
  arguments.v = Argument::dense(0x30000, ElementType::BF16, {batch, heads / 4, 500, 64});
  arguments.o = Argument::dense(0x40000, ElementType::BF16, {batch, heads, 300, 64});
  arguments.scale = 0.125f;
  arguments.captures = &slopes;
  arguments.numCaptures = 1;
  return arguments;
}

class Attention : public RuntimeTest {
protected:
  Result<AttentionForward> create(const BundleWriter &writer, const AttentionForwardDesc &desc) {
    return AttentionForward::create(driver, read(writer), desc);
  }
  Argument slopes = Argument::dense(0x50000, ElementType::F32, {8});
};

TEST_F(Attention, Runs) {
  Result<AttentionForward> plan = create(attentionBundle(), describe());
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->captures(), std::vector<std::string>{"slopes"});
  EXPECT_OK(plan->checkSupport({8, 0, 0}));
  EXPECT_OK(plan->prepare(0));
  uint64_t bytes = 1;
  EXPECT_OK(plan->workspaceSize(attentionArguments(slopes), 0, bytes));
  EXPECT_EQ(bytes, 0u);
  EXPECT_OK(plan->run(attentionArguments(slopes), 0, 0, streamOf(0)));
  EXPECT_EQ(fake().launches.at(0).grid[0], 3u * 2 * 8);
  // Batch times heads beyond 65,535.
  EXPECT_OK(plan->run(attentionArguments(slopes, 20000, 8), 0, 0, streamOf(0)));
  EXPECT_EQ(fake().launches.at(1).grid[0], 3u * 20000 * 8);
}

TEST_F(Attention, NeedsADriverToRun) {
  driver = DriverTable();
  Result<AttentionForward> plan = create(attentionBundle(), describe());
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_OK(plan->checkSupport({8, 0, 0}));
  EXPECT_EQ(plan->prepare(0).code(), Code::NoDriver);
  EXPECT_EQ(plan->run(attentionArguments(slopes), 0, 0, nullptr).code(), Code::NoDriver);
}

/// The first lines of docs/runtime.md.
Status runAttention(const AttentionForwardArguments &arguments, uint64_t workspace, uint64_t bytes,
                    cuda::Stream stream) {
  auto driver = DriverTable::system();
  if (!driver)
    return driver.status(); // Code::NoDriver
  auto bundle = Bundle::open("attention.twb");
  if (!bundle)
    return bundle.status();
  AttentionForwardDesc desc;
  desc.headDim = 128;
  auto plan = AttentionForward::create(**driver, *bundle, desc); // no GPU needed
  if (!plan)
    return plan.status(); // names what is missing, and the command that compiles it
  if (Status status = plan->prepare(0); !status) // loads code, once per device
    return status;
  return plan->run(arguments, workspace, bytes, stream); // does not allocate or synchronize
}

TEST_F(Attention, ReportsWhatAMachineLacks) {
  Code code = runAttention(attentionArguments(slopes), 0, 0, nullptr).code();
  EXPECT_EQ(code, DriverTable::system() ? Code::Io : Code::NoDriver) << "there is no such bundle";
}

TEST_F(Attention, TakesNoWindowWithoutAPlanForIt) {
  Argument slopes = Argument::dense(0x40000, ElementType::F32, {8});
  AttentionForwardArguments arguments = attentionArguments(slopes);
  uint64_t bytes = 0;
  Result<AttentionForward> plan = create(attentionBundle(), describe());
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_OK(plan->workspaceSize(arguments, 0, bytes));
  for (auto [left, right] : {std::pair(3, -1), std::pair(-1, 0), std::pair(0, 0)}) {
    arguments.windowLeft = left;
    arguments.windowRight = right;
    EXPECT_FAILURE(plan->workspaceSize(arguments, 0, bytes), Code::InvalidArgument,
                   "the window of attention must be -1 and -1, since it was planned without one, "
                   "but got " +
                       std::to_string(left) + " and " + std::to_string(right) +
                       "; set has_window in the description");
  }
}

TEST_F(Attention, TakesMinusOneAloneForAnOpenSideOfTheWindow) {
  AttentionForwardDesc desc = describe();
  desc.hasWindow = true;
  BundleWriter writer = attentionBundle();
  writer.manifest.kernels[0].params.back().second = Expr::flag(true);
  Result<AttentionForward> plan = create(writer, desc);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_OK(plan->prepare(0));
  AttentionForwardArguments arguments = attentionArguments(slopes);
  for (int32_t side : {-1, 0, 7, INT32_MAX}) {
    arguments.windowLeft = arguments.windowRight = side;
    EXPECT_OK(plan->run(arguments, 0, 0, streamOf(0)));
  }
  for (int32_t side : {-2, INT32_MIN}) {
    const std::string rest =
        " of attention must be a number of keys, or -1 for no limit, but got " +
        std::to_string(side);
    arguments.windowLeft = side;
    arguments.windowRight = -1;
    EXPECT_FAILURE(plan->run(arguments, 0, 0, streamOf(0)), Code::InvalidArgument,
                   "window_left" + rest);
    std::swap(arguments.windowLeft, arguments.windowRight);
    EXPECT_FAILURE(plan->run(arguments, 0, 0, streamOf(0)), Code::InvalidArgument,
                   "window_right" + rest);
  }
  EXPECT_EQ(fake().launches.size(), 4u);
}

TEST_F(Attention, NamesTheCommandForWhatIsMissing) {
  AttentionForwardDesc desc = describe();
  desc.headDim = 96;
  desc.type = ElementType::F16;
  desc.causal = AttentionForwardDesc::Causal::BottomRight;
  desc.hasWindow = true;
  EXPECT_FAILURE(
      create(attentionBundle(), desc).status(), Code::MissingVariant,
      "'test.twb' has no variant of 'attention_forward' for D = 96, DV = 96, T = f16, CAUSAL = "
      "\"bottom_right\", WINDOW = true, but has D = 64, DV = 64, T = bf16, CAUSAL = \"top_left\", "
      "WINDOW = false; compile it with: tilewrightc kernels/attention_forward.mlir "
      "--kernel=attention_forward --param=D=96 --param=DV=96 --param=T=f16 "
      "--param=CAUSAL=bottom_right --param=WINDOW=true --emit=bundle -o FILE");
  desc.headDim = 0;
  EXPECT_FAILURE(create(attentionBundle(), desc).status(), Code::InvalidArgument,
                 "the head dimension of attention must be positive, but got 0 and, for values, 0");
}

TEST_F(Attention, RejectsOtherKernels) {
  BundleWriter writer = attentionBundle();
  std::vector<ArgumentSpec> &arguments = writer.manifest.kernels[0].arguments;
  arguments[8].isCapture = false;
  EXPECT_FAILURE(create(writer, describe()).status(), Code::InvalidArgument,
                 "the arguments of 'attention_forward' must be those of attention, captures, or "
                 "optional, but got 'slopes'");
  arguments[8].isCapture = true;
  arguments[3].name = "out";
  arguments[3].isCapture = true;
  EXPECT_FAILURE(
      create(writer, describe()).status(), Code::InvalidArgument,
      "'attention_forward' must have the argument 'o' of attention, but has none of this name");
}

TEST_F(Attention, RejectsShapesThatDoNotMatch) {
  Result<AttentionForward> plan = create(attentionBundle(), describe());
  EXPECT_OK(plan->prepare(0));
  auto run = [&](auto change) {
    AttentionForwardArguments arguments = attentionArguments(slopes);
    change(arguments);
    return plan->run(arguments, 0, 0, nullptr);
  };
  EXPECT_FAILURE(run([](auto &a) { a.k.extents[0] = 3; }), Code::InvalidArgument,
                 "argument 'k' of attention must have extent 2 along dimension 0, as 'q' has, but "
                 "got 3");
  EXPECT_FAILURE(
      run([](auto &a) { a.v.extents[2] = 501; }), Code::InvalidArgument,
      "argument 'v' of attention must have extent 500 along dimension 2, as 'k' has, but "
      "got 501");
  EXPECT_FAILURE(run([](auto &a) { a.o.extents[1] = 7; }), Code::InvalidArgument,
                 "argument 'o' of attention must have extent 8 along dimension 1, as 'q' has, but "
                 "got 7");
  EXPECT_FAILURE(
      run([](auto &a) { a.lse = Argument::dense(0x60000, ElementType::F32, {2, 8, 299}); }),
      Code::InvalidArgument,
      "argument 'lse' of attention must have extent 300 along dimension 2, as 'q' has, "
      "but got 299");
  EXPECT_FAILURE(run([](auto &a) { a.k.extents[1] = a.v.extents[1] = 3; }), Code::InvalidArgument,
                 "the heads of 'q' must be a multiple of those of 'k', but got 8 and 3");
  // Extents of absent views and of other ranks say nothing about those of the others.
  const std::string attention = " of kernel 'attention_forward' ";
  EXPECT_FAILURE(run([](auto &a) { a.q = Argument::absent(); }), Code::InvalidArgument,
                 "argument 'q'" + attention + "is missing; it is not an optional argument");
  EXPECT_FAILURE(run([](auto &a) { a.k = Argument::absent(); }), Code::InvalidArgument,
                 "argument 'k'" + attention + "is missing; it is not an optional argument");
  EXPECT_FAILURE(run([](auto &a) { a.q.bits = 0; }), Code::InvalidArgument,
                 "argument 'q'" + attention + "is a null pointer, but its view has elements");
  auto rows = [](std::initializer_list<int64_t> extents) {
    return Argument::dense(0x60000, ElementType::BF16, extents);
  };
  EXPECT_FAILURE(run([&](auto &a) { a.q = rows({8, 300, 64}); }), Code::InvalidArgument,
                 "argument 'q'" + attention + "must have rank 4, but got rank 3");
  EXPECT_FAILURE(run([&](auto &a) { a.k = rows({2, 500, 64}); }), Code::InvalidArgument,
                 "argument 'k'" + attention + "must have rank 4, but got rank 3");
  EXPECT_FAILURE(run([&](auto &a) {
                   a.q = a.o = rows({8, 300, 64});
                   a.k = a.v = rows({2, 500, 64});
                 }),
                 Code::InvalidArgument,
                 "argument 'q'" + attention + "must have rank 4, but got rank 3");
  EXPECT_FAILURE(run([](auto &a) { a.numCaptures = 0; }), Code::InvalidArgument,
                 "attention takes 1 captures, but got 0");
  EXPECT_FAILURE(run([](auto &a) {
                   a.q = Argument::absent();
                   a.o = Argument::absent();
                   a.k = Argument::absent();
                   a.v = Argument::absent();
                 }),
                 Code::InvalidArgument,
                 "argument 'q' of kernel 'attention_forward' is missing; it is not an optional "
                 "argument");
}

class CApi
    : public PlanTest<tilewright_attention_forward, tilewright_attention_forward_desc,
                      tilewright_attention_forward_create, tilewright_attention_forward_prepare,
                      tilewright_attention_forward_destroy> {
protected:
  void SetUp() override {
    PlanTest::SetUp();
    load(attentionBundle());
    desc = {sizeof(desc), TILEWRIGHT_BF16, TILEWRIGHT_CAUSAL_TOP_LEFT, 64, 0, 0, nullptr};
    args.q = &q;
    args.k = args.v = &k;
    args.o = &q;
    args.captures = &capture;
    args.num_captures = 1;
  }
  void TearDown() override {
    tilewright_operation_destroy(operation);
    PlanTest::TearDown();
  }
  tilewright_code run() {
    return tilewright_attention_forward_run(plan, &args, nullptr, 0, streamOf(0));
  }

  tilewright_operation *operation = nullptr;
  int64_t qExtents[4] = {2, 8, 300, 64}, kExtents[4] = {2, 2, 500, 64}, slopeExtents[1] = {8};
  tilewright_view q = viewOf(0x10000, TILEWRIGHT_BF16, 4, qExtents);
  tilewright_view k = viewOf(0x20000, TILEWRIGHT_BF16, 4, kExtents);
  tilewright_view slopes = viewOf(0x30000, TILEWRIGHT_F32, 1, slopeExtents);
  tilewright_argument capture = {sizeof(capture), "slopes", &slopes, nullptr, TILEWRIGHT_F32};
  tilewright_attention_forward_args args = {
      sizeof(args), nullptr, nullptr, nullptr, nullptr, nullptr, 0.125f, -1, -1, nullptr, 0, 0};
};

TEST_F(CApi, RunsAttention) {
  createPlan();
  EXPECT_EQ(tilewright_attention_forward_check_support(plan, 9, 0, 0), TILEWRIGHT_OK);
  uint64_t size = 1;
  EXPECT_EQ(tilewright_attention_forward_workspace_size(plan, &args, 0, &size), TILEWRIGHT_OK);
  EXPECT_EQ(size, 0u);
  tilewright_bundle_close(bundle); // the plan retains the data that it needs
  bundle = nullptr;
  EXPECT_EQ(run(), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(fake().launches.size(), 1u);
}

TEST_F(CApi, SaysWhyKernelsAreSlow) {
  EXPECT_STREQ(tilewright_bundle_remarks(bundle), "");
  EXPECT_STREQ(tilewright_bundle_remarks(nullptr), "");
  BundleWriter writer = attentionBundle();
  KernelSpec &kernel = writer.manifest.kernels[0];
  kernel.remarks = {"has no code for sm_90a: why", "has no tensor maps: why not"};
  KernelSpec other = kernel; // the same remark of another variant
  other.remarks.pop_back();
  writer.manifest.kernels.push_back(other);
  std::string bytes = *writer.bytes();
  tilewright_bundle_close(bundle);
  ASSERT_EQ(tilewright_bundle_load(bytes.data(), bytes.size(), &bundle), TILEWRIGHT_OK);
  EXPECT_STREQ(tilewright_bundle_remarks(bundle),
               "kernel 'attention_forward' has no code for sm_90a: why\n"
               "kernel 'attention_forward' has no tensor maps: why not\n");
}

TEST_F(CApi, IsC) {
  std::string bytes = *attentionBundle().bytes();
  EXPECT_EQ(tilewrightCheckFromC(bytes.data(), bytes.size()), 0) << tilewright_last_error();
}

TEST_F(CApi, RunsAKernelInC) {
  BundleWriter writer = scaleBundle();
  KernelSpec &kernel = writer.manifest.kernels[0];
  kernel.name = "rms_norm";
  kernel.params = {{"C", Expr::integer(1024)}, {"T", Expr::symbol(Expr::Kind::Type, "f16")}};
  kernel.arguments = {ArgumentSpec::view("x", ElementType::F16, {-1, 1024}),
                      ArgumentSpec::view("y", ElementType::F16, {-1, 1024}),
                      ArgumentSpec::scalar("epsilon", ElementType::F32)};
  std::string kernelBytes = *writer.bytes();
  tilewright_bundle *kernels = nullptr;
  ASSERT_EQ(tilewright_bundle_load(kernelBytes.data(), kernelBytes.size(), &kernels),
            TILEWRIGHT_OK);
  EXPECT_EQ(tilewrightRunKernelFromC(kernels, reinterpret_cast<void *>(0x10000),
                                     reinterpret_cast<void *>(0x20000), streamOf(0)),
            TILEWRIGHT_OK)
      << tilewright_last_error();
  EXPECT_EQ(fake().launches.size(), 1u);
  tilewright_bundle_close(kernels);
}

/// A value of an enum may spell the name of a type.
TEST_F(CApi, FindsVariantsByWords) {
  BundleWriter writer = scaleBundle();
  KernelSpec &kernel = writer.manifest.kernels[0];
  kernel.params = {{"T", Expr::symbol(Expr::Kind::Type, "f16")},
                   {"INDICES", Expr::symbol(Expr::Kind::Enum, "i64")}};
  std::string bytes = *writer.bytes();
  tilewright_bundle *words = nullptr;
  ASSERT_EQ(tilewright_bundle_load(bytes.data(), bytes.size(), &words), TILEWRIGHT_OK);
  tilewright_param params[] = {{"T", "f16"}, {"INDICES", "i64"}};
  EXPECT_EQ(tilewright_operation_create(words, kernel.name.c_str(), params, 2, &operation),
            TILEWRIGHT_OK)
      << tilewright_last_error();
  tilewright_operation_destroy(operation);
  operation = nullptr;
  for (auto [value, index] : {std::pair("f32", 0), {"i32", 1}}) {
    tilewright_param other[] = {{"T", "f16"}, {"INDICES", "i64"}};
    other[index].value = value;
    EXPECT_EQ(tilewright_operation_create(words, kernel.name.c_str(), other, 2, &operation),
              TILEWRIGHT_MISSING_VARIANT);
  }
  tilewright_bundle_close(words);
}

TEST_F(CApi, RunsOperationsByNameAndByPosition) {
  tilewright_param param = {"D", "64"};
  ASSERT_EQ(tilewright_operation_create(bundle, "attention_forward", &param, 1, &operation),
            TILEWRIGHT_OK);
  EXPECT_EQ(tilewright_operation_num_arguments(operation), 9u);
  EXPECT_STREQ(tilewright_operation_argument_name(operation, 4), "lse");
  EXPECT_EQ(tilewright_operation_argument_name(operation, 9), nullptr);
  EXPECT_EQ(tilewright_operation_check_support(operation, 8, 6, 0), TILEWRIGHT_OK);
  ASSERT_EQ(tilewright_operation_prepare(operation, 0), TILEWRIGHT_OK);
  float scale = 1;
  int32_t open = -1;
  auto view = [](const char *name, const tilewright_view *view) {
    return tilewright_argument{sizeof(tilewright_argument), name, view, nullptr, TILEWRIGHT_F32};
  };
  auto scalar = [](const char *name, const void *value, tilewright_type type) {
    return tilewright_argument{sizeof(tilewright_argument), name, nullptr, value, type};
  };
  // The first three by position; lse is left out.
  tilewright_argument list[] = {view(nullptr, &q),
                                view("k", &k),
                                view(nullptr, &k),
                                view("slopes", &slopes),
                                scalar("scale", &scale, TILEWRIGHT_F32),
                                scalar("window_right", &open, TILEWRIGHT_I32),
                                scalar("window_left", &open, TILEWRIGHT_I32),
                                view("o", &q)};
  auto runList = [&] {
    return tilewright_operation_run(operation, list, 8, nullptr, 0, streamOf(0));
  };
  uint64_t size = 1;
  EXPECT_EQ(tilewright_operation_workspace_size(operation, list, 8, 0, &size), TILEWRIGHT_OK);
  EXPECT_EQ(runList(), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(fake().launches.size(), 1u);
  // Structs of a later version, which are longer.
  struct Later {
    tilewright_argument known;
    char more[24];
  } later[8];
  for (size_t i = 0; i < 8; ++i) {
    later[i].known = list[i];
    later[i].known.struct_size = sizeof(Later);
  }
  EXPECT_EQ(tilewright_operation_run(operation, &later[0].known, 8, nullptr, 0, streamOf(0)),
            TILEWRIGHT_OK)
      << tilewright_last_error();
  ASSERT_EQ(fake().launches.size(), 2u);
  EXPECT_EQ(fake().launches[0].params, fake().launches[1].params);
  // A float in another type than that of the kernel.
  const double wide = 1;
  list[4] = scalar("scale", &wide, TILEWRIGHT_F64);
  EXPECT_EQ(runList(), TILEWRIGHT_OK) << tilewright_last_error();
  list[4] = scalar("scale", &scale, TILEWRIGHT_F32);
  list[7].name = "out";
  EXPECT_C_FAILURE(runList(), TILEWRIGHT_INVALID_ARGUMENT,
                   "there is no argument 'out'; the names are: q, k, v, o, lse, scale, "
                   "window_left, window_right, slopes");
  list[7].name = "q";
  EXPECT_C_FAILURE(runList(), TILEWRIGHT_INVALID_ARGUMENT,
                   "each argument must be given once, but got 'q' twice");
  list[7].name = "o";
  list[7].scalar = &scale;
  EXPECT_C_FAILURE(runList(), TILEWRIGHT_INVALID_ARGUMENT,
                   "o must be a view or a scalar, but got both");
  list[7].scalar = nullptr;
  list[4].scalar_type = tilewright_type(77);
  EXPECT_C_FAILURE(
      runList(), TILEWRIGHT_INVALID_ARGUMENT,
      "the element type of scale must be a tilewright_type, a number from 0 to 9, but got 77");
  list[4].scalar_type = TILEWRIGHT_F32;
  list[4].struct_size = 8;
  EXPECT_C_FAILURE(runList(), TILEWRIGHT_INVALID_ARGUMENT,
                   "struct_size of tilewright_argument must be at least 40, but got 8; set it to "
                   "sizeof of the struct");
  EXPECT_C_FAILURE(tilewright_operation_run(operation, nullptr, 8, nullptr, 0, nullptr),
                   TILEWRIGHT_INVALID_ARGUMENT,
                   "the list of arguments must be a valid pointer, but got null");
  tilewright_argument many[10];
  for (tilewright_argument &argument : many)
    argument = view(nullptr, nullptr);
  EXPECT_C_FAILURE(tilewright_operation_run(operation, many, 10, nullptr, 0, nullptr),
                   TILEWRIGHT_INVALID_ARGUMENT, "expected 9 arguments, but got 10");
}

TEST_F(CApi, ChecksStructs) {
  createPlan();
  q.struct_size = 3;
  EXPECT_C_FAILURE(run(), TILEWRIGHT_INVALID_ARGUMENT,
                   "struct_size of tilewright_view must be at least 40, but got 3; set it to "
                   "sizeof of the struct");
  q.struct_size = sizeof(q) + 64; // from a later version
  EXPECT_EQ(run(), TILEWRIGHT_OK);
  q.rank = 9;
  EXPECT_C_FAILURE(run(), TILEWRIGHT_INVALID_ARGUMENT, "q has rank 9; the limit is 8");
  q.rank = 4;
  q.extents = nullptr;
  EXPECT_C_FAILURE(run(), TILEWRIGHT_INVALID_ARGUMENT,
                   "extents of q must be a valid pointer, but got null");
  int64_t huge[4] = {int64_t(1) << 40, int64_t(1) << 40, 1, 64};
  q.extents = huge;
  EXPECT_C_FAILURE(run(), TILEWRIGHT_INVALID_ARGUMENT,
                   "q must have at most 2^63 elements, but got 1099511627776 times 70368744177664");
  q.extents = qExtents;
  args.struct_size = 0;
  EXPECT_C_FAILURE(run(), TILEWRIGHT_INVALID_ARGUMENT,
                   "struct_size of tilewright_attention_forward_args must be at least 80, but got "
                   "0; set it to sizeof of the struct");
  args.struct_size = sizeof(args);
  EXPECT_C_FAILURE(tilewright_attention_forward_run(plan, nullptr, nullptr, 0, nullptr),
                   TILEWRIGHT_INVALID_ARGUMENT, "args must be a valid pointer, but got null");
  EXPECT_C_FAILURE(tilewright_attention_forward_run(nullptr, &args, nullptr, 0, nullptr),
                   TILEWRIGHT_INVALID_ARGUMENT, "plan must be a valid pointer, but got null");
  EXPECT_C_FAILURE(tilewright_attention_forward_workspace_size(plan, &args, 0, nullptr),
                   TILEWRIGHT_INVALID_ARGUMENT, "bytes must be a valid pointer, but got null");
}

TEST_F(CApi, ChecksNumbersOfDevicesAndFlags) {
  createPlan();
  tilewright_param param = {"D", "64"};
  ASSERT_EQ(tilewright_operation_create(bundle, "attention_forward", &param, 1, &operation),
            TILEWRIGHT_OK);
  uint64_t size = 1;
  auto sizeOn = [&](int device) {
    return tilewright_attention_forward_workspace_size(plan, &args, device, &size);
  };
  // Device 1 exists, but is not prepared.
  fake().numDevices = 2;
  EXPECT_EQ(sizeOn(1), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_C_FAILURE(sizeOn(2), TILEWRIGHT_INVALID_ARGUMENT,
                   "the device must be one of the 2 of the driver, counted from 0, but got 2");
  EXPECT_C_FAILURE(sizeOn(77), TILEWRIGHT_INVALID_ARGUMENT,
                   "device must be from 0 to 63, but got 77");
  EXPECT_C_FAILURE(sizeOn(-1), TILEWRIGHT_INVALID_ARGUMENT,
                   "device must be from 0 to 63, but got -1");
  EXPECT_C_FAILURE(tilewright_operation_check_indices(operation, 7), TILEWRIGHT_INVALID_ARGUMENT,
                   "wanted must be 0 or 1, but got 7");
  EXPECT_C_FAILURE(tilewright_attention_forward_check_indices(plan, -1),
                   TILEWRIGHT_INVALID_ARGUMENT, "wanted must be 0 or 1, but got -1");
  for (int wanted : {1, 0}) {
    EXPECT_EQ(tilewright_operation_check_indices(operation, wanted), TILEWRIGHT_OK);
    EXPECT_EQ(tilewright_attention_forward_check_indices(plan, wanted), TILEWRIGHT_OK);
  }
}

TEST_F(CApi, RejectsResultsThatShareMemory) {
  BundleWriter writer = attentionBundle();
  writer.manifest.kernels[0].arguments[3].isWritten = true;
  tilewright_bundle_close(bundle);
  std::string bytes = *writer.bytes();
  ASSERT_EQ(tilewright_bundle_load(bytes.data(), bytes.size(), &bundle), TILEWRIGHT_OK);
  createPlan();
  tilewright_view o = q;
  args.o = &o;
  auto expect = [&](std::array<int64_t, 4> strides, const char *what) {
    o.strides = strides.data();
    EXPECT_C_FAILURE(run(), TILEWRIGHT_INVALID_ARGUMENT,
                     (std::string("argument 'o' of kernel 'attention_forward' must have elements "
                                  "that share no memory, since they are written, but got the "
                                  "stride ") +
                      what + " is needed; pass an array of its own for each")
                         .c_str());
  };
  constexpr int64_t most = INT64_MAX;
  expect({0, 0, 0, 0}, "0 along dimension 3, where at least 1");
  expect({153600, 19200, 1, 1}, "1 along dimension 2, where at least 64");
  expect({most, 19200, 64, 1}, "9223372036854775807 along dimension 0, where at least 153600");
  expect({most, most, most, most}, "9223372036854775807 along dimension 3, where at least 1");
  EXPECT_EQ(fake().launches.size(), 0u);
}

TEST_F(CApi, ChecksDescriptions) {
  auto create = [&] { return tilewright_attention_forward_create(bundle, &desc, &plan); };
  desc.causal = tilewright_causal(5);
  EXPECT_C_FAILURE(create(), TILEWRIGHT_INVALID_ARGUMENT,
                   "the causal mode of the description of attention must be a tilewright_causal, a "
                   "number from 0 to 2, but got 5");
  desc.causal = TILEWRIGHT_CAUSAL_NONE;
  EXPECT_EQ(create(), TILEWRIGHT_MISSING_VARIANT);
  desc.entry = "flash";
  EXPECT_C_FAILURE(create(), TILEWRIGHT_MISSING_VARIANT,
                   "'bundle' has no kernel or program 'flash', but has 'attention_forward'");
  desc.type = tilewright_type(10);
  EXPECT_C_FAILURE(create(), TILEWRIGHT_INVALID_ARGUMENT,
                   "the element type of the description of attention must be a tilewright_type, a "
                   "number from 0 to 9, but got 10");
  EXPECT_C_FAILURE(tilewright_attention_forward_create(nullptr, &desc, &plan),
                   TILEWRIGHT_INVALID_ARGUMENT, "bundle must be a valid pointer, but got null");
  EXPECT_C_FAILURE(tilewright_bundle_open("/nonexistent.twb", &bundle), TILEWRIGHT_IO,
                   "cannot open '/nonexistent.twb': No such file or directory");
  EXPECT_C_FAILURE(tilewright_bundle_open(nullptr, &bundle), TILEWRIGHT_INVALID_ARGUMENT,
                   "path must be a valid pointer, but got null");
  EXPECT_C_FAILURE(tilewright_bundle_load("x", 1, nullptr), TILEWRIGHT_INVALID_ARGUMENT,
                   "bundle must be a valid pointer, but got null");
  EXPECT_C_FAILURE(tilewright_operation_create(bundle, nullptr, nullptr, 0, &operation),
                   TILEWRIGHT_INVALID_ARGUMENT, "name must be a valid pointer, but got null");
  tilewright_param param = {"D", nullptr};
  EXPECT_C_FAILURE(tilewright_operation_create(bundle, "attention_forward", &param, 1, &operation),
                   TILEWRIGHT_INVALID_ARGUMENT,
                   "the value of parameter 'D' must be a valid pointer, but got null");
}

TEST_F(CApi, AnswersWithoutADriver) {
  setDriverForTesting(nullptr);
  if (DriverTable::system().ok())
    GTEST_SKIP() << "there is a driver";
  ASSERT_EQ(tilewright_attention_forward_create(bundle, &desc, &plan), TILEWRIGHT_OK);
  EXPECT_EQ(tilewright_attention_forward_check_support(plan, 9, 0, 0), TILEWRIGHT_OK);
  EXPECT_EQ(tilewright_attention_forward_prepare(plan, 0), TILEWRIGHT_NO_DRIVER);
  EXPECT_EQ(run(), TILEWRIGHT_NO_DRIVER);
}

} // namespace
