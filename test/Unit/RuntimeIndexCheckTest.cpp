// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The checking mode: rules for elements of arrays in device memory, which is host memory here, and
// runs without the check.

#include "RuntimeTesting.h"

#include "runtime/AttentionBackward.h"
#include "runtime/CApiTesting.h"
#include "runtime/tilewright.h"

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

namespace {

using numeric::ElementRule;

struct Copy {
  uint64_t from;
  size_t bytes;
};
std::vector<Copy> copies;

DriverTable tableWithMemory() {
  DriverTable table = fakeTable();
  table.cuMemcpyDtoHAsync = [](void *to, cuda::DevicePtr from, size_t bytes,
                               cuda::Stream) -> cuda::Result {
    if (cuda::Result failure = fake().enter("cuMemcpyDtoHAsync"))
      return failure;
    copies.push_back({from, bytes});
    std::memcpy(to, reinterpret_cast<const void *>(from), bytes);
    return cuda::Success;
  };
  table.cuStreamSynchronize = [](cuda::Stream) -> cuda::Result {
    return fake().enter("cuStreamSynchronize");
  };
  return table;
}

Expr plusOne(Expr expr) { return *Expr::call("+", {std::move(expr), Expr::integer(1)}); }

/// Over x [?, 8] by offsets, and an optional page table with lengths.
KernelSpec indexedKernel() {
  KernelSpec kernel = scaleKernel();
  kernel.name = "indexed";
  kernel.entry = "plain";
  kernel.requirements.clear();
  kernel.params = {{"PAGE", Expr::integer(16)}};
  kernel.arguments = {ArgumentSpec::view("x", ElementType::F32, {-1, 8}),
                      ArgumentSpec::view("offsets", ElementType::I32, {-1}),
                      ArgumentSpec::view("table", ElementType::I32, {-1, -1}, true),
                      ArgumentSpec::view("lengths", ElementType::I32, {-1}, true),
                      ArgumentSpec::scalar("limit", ElementType::I32)};
  ElementRuleSpec ascending;
  ascending.argument = 1;
  kernel.elements = {
      ascending,
      {ElementRule::Within, 1, Expr::integer(0), plusOne(Expr::dim("x", 0)), 0, Expr()},
      {ElementRule::Within, 3, Expr::integer(0), Expr::name("limit"), 0, Expr()},
      {ElementRule::WithinFirst, 2, Expr::integer(0), Expr::dim("x", 0), 3, Expr::name("PAGE")}};
  return kernel;
}

BundleWriter indexedBundle() {
  BundleWriter writer = scaleBundle();
  writer.manifest.kernels = {indexedKernel()};
  return writer;
}

Argument viewOf(const std::vector<int32_t> &values, std::initializer_list<int64_t> extents) {
  return Argument::dense(reinterpret_cast<uintptr_t>(values.data()), ElementType::I32, extents);
}

class IndexChecks : public RuntimeTest {
protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    unsetenv("TILEWRIGHT_CHECK_INDICES");
    copies.clear();
  }
  void TearDown() override { unsetenv("TILEWRIGHT_CHECK_INDICES"); }

  Operation create(const BundleWriter &writer, const std::string &name = "indexed") {
    bundle = read(writer);
    Result<Operation> operation = Operation::create(driver, bundle, name);
    EXPECT_TRUE(operation.ok()) << operation.status().message();
    EXPECT_OK(operation->prepare(0));
    return std::move(*operation);
  }
  Operation createChecking(const BundleWriter &writer, const std::string &name = "indexed") {
    Operation operation = create(writer, name);
    operation.checkIndices(true);
    return operation;
  }
  Arguments arguments() const {
    return {Argument::dense(0x10000, ElementType::F32, {5, 8}), viewOf(offsets, {4}),
            viewOf(table, {2, 2}), viewOf(lengths, {2}), Argument::scalar(int32_t(33))};
  }
  Status run(const Operation &operation, const Arguments &arguments) const {
    return operation.run(arguments.data(), arguments.size(), 0, 0, streamOf(0));
  }
  Status run(const Operation &operation) const { return run(operation, arguments()); }

  DriverTable driver = tableWithMemory();
  std::shared_ptr<const Bundle> bundle;
  std::vector<int32_t> offsets = {0, 2, 2, 5}, table = {4, 0, 3, -1}, lengths = {32, 16};
};

TEST_F(IndexChecks, AreNotMadeUnlessAskedFor) {
  Operation operation = create(indexedBundle());
  offsets = {9, -9, 9, -9};
  EXPECT_OK(run(operation));
  fake().isCapturing = true;
  EXPECT_OK(run(operation));
  EXPECT_EQ(fake().launches.size(), 2u);
  for (const char *call : {"cuMemcpyDtoHAsync", "cuStreamSynchronize", "cuStreamIsCapturing"})
    EXPECT_EQ(fake().calls[call], 0) << call;
}

TEST_F(IndexChecks, AcceptWhatKernelsRequire) {
  Operation operation = createChecking(indexedBundle());
  EXPECT_OK(run(operation));
  EXPECT_EQ(fake().launches.size(), 1u);
  EXPECT_EQ(fake().calls["cuStreamSynchronize"], fake().calls["cuMemcpyDtoHAsync"]);
  EXPECT_TRUE(fake().contexts.empty()) << "the stack of contexts is left as it was";
  // Bounds are inclusive, and elements after a row's pages are arbitrary.
  offsets = {0, 0, 5, 5};
  lengths = {17, 0};
  table = {0, 4, -7, 2147483647};
  EXPECT_OK(run(operation));
  lengths = {16, 0};
  table[1] = -1;
  EXPECT_OK(run(operation));
  EXPECT_EQ(fake().launches.size(), 3u);
}

TEST_F(IndexChecks, NameTheElementThatBreaksARule) {
  Operation operation = createChecking(indexedBundle());
  const std::string kernel = "kernel 'indexed' requires '";
  auto rejects = [&](const std::string &text) {
    EXPECT_FAILURE(run(operation), Code::InvalidArgument, kernel + text);
  };
  offsets = {0, 5, 3, 5};
  rejects("ascending(offsets)', but got offsets[2] = 3 after 5");
  offsets = {0, 2, 2, 6};
  rejects("within(offsets, 0, dim(x, 0) + 1)', but got offsets[3] = 6; it must be from 0 to 5");
  offsets = {-2147483647 - 1, 0, 0, 5};
  rejects("within(offsets, 0, dim(x, 0) + 1)', but got offsets[0] = -2147483648; it must be from 0 "
          "to 5");
  offsets = {0, 0, 0, 0};
  lengths = {32, 33};
  rejects("within(lengths, 0, limit)', but got lengths[1] = 33; it must be from 0 to 32");
  lengths = {16, 17};
  rejects("within_first(table, 0, dim(x, 0), lengths, 16)', but got table[1, 1] = -1; it must be "
          "from 0 to 4");
  table = {5, 0, 0, 0};
  rejects("within_first(table, 0, dim(x, 0), lengths, 16)', but got table[0, 0] = 5; it must be "
          "from 0 to 4");
  EXPECT_TRUE(fake().launches.empty());
  EXPECT_TRUE(fake().contexts.empty());
  operation.checkIndices(false);
  EXPECT_OK(run(operation));
  EXPECT_EQ(fake().launches.size(), 1u);
}

TEST_F(IndexChecks, TakeNumbersOf64Bits) {
  BundleWriter writer = indexedBundle();
  KernelSpec &kernel = writer.manifest.kernels[0];
  kernel.arguments[1].type = ElementType::I64;
  Operation operation = createChecking(writer);
  std::vector<int64_t> wide = {0, -7, 2, -7, 2, -7, 5};
  Arguments given = arguments();
  int64_t extents[] = {4}, strides[] = {2};
  given.values[1] = Argument::view(reinterpret_cast<uintptr_t>(wide.data()), ElementType::I64, 1,
                                   extents, strides);
  EXPECT_OK(run(operation, given));
  // In 32 bits, this would be 5.
  wide[6] = (int64_t(1) << 32) + 5;
  EXPECT_FAILURE(run(operation, given), Code::InvalidArgument,
                 "kernel 'indexed' requires 'within(offsets, 0, dim(x, 0) + 1)', but got "
                 "offsets[3] = 4294967301; it must be from 0 to 5");
  wide[4] = -1;
  EXPECT_FAILURE(run(operation, given), Code::InvalidArgument,
                 "kernel 'indexed' requires 'ascending(offsets)', but got offsets[2] = -1 after 2");
}

TEST_F(IndexChecks, ReadNothingButElements) {
  Operation operation = createChecking(indexedBundle());
  // The first column of a wider table, offsets in reverse order, and one length for both rows.
  table = {1, 77, 78, 2, 79, 80};
  std::vector<int32_t> reversed = {5, 77, 2, 78, 0}, length = {1};
  auto withStrides = [](Argument view, std::initializer_list<int64_t> strides) {
    std::copy(strides.begin(), strides.end(), view.strides);
    return view;
  };
  Arguments strided = {
      Argument::dense(0x10000, ElementType::F32, {5, 8}),
      withStrides(Argument::dense(reinterpret_cast<uintptr_t>(&reversed[4]), ElementType::I32, {3}),
                  {-2}),
      withStrides(viewOf(table, {2, 1}), {3, 1}), withStrides(viewOf(length, {2}), {0}),
      Argument::scalar(int32_t(33))};
  EXPECT_OK(run(operation, strided));
  for (const Copy &copy : copies) {
    EXPECT_EQ(copy.bytes, 4u);
    int32_t value;
    std::memcpy(&value, reinterpret_cast<const void *>(copy.from), sizeof(value));
    EXPECT_LT(value, 77);
  }
  reversed[2] = 6;
  EXPECT_FAILURE(run(operation, strided), Code::InvalidArgument,
                 "kernel 'indexed' requires 'ascending(offsets)', but got offsets[2] = 5 after 6");
  // Strides beyond the address space are rejected by the driver.
  fake().failures["cuMemcpyDtoHAsync"] = cuda::ErrorInvalidValue;
  strided.values[1].strides[0] = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(run(operation, strided).code(), Code::Driver);
}

TEST_F(IndexChecks, CopyLargeArraysInPieces) {
  Operation operation = createChecking(indexedBundle());
  constexpr int64_t n = 3 * numeric::mostIndices + 1;
  offsets.assign(n, 5);
  Arguments large = arguments();
  large.values[1] = viewOf(offsets, {n});
  EXPECT_OK(run(operation, large));
  size_t most = 0;
  for (const Copy &copy : copies)
    most = std::max(most, copy.bytes);
  EXPECT_EQ(most, size_t(numeric::mostIndices) * 4);
  offsets.back() = 4;
  EXPECT_FAILURE(run(operation, large), Code::InvalidArgument,
                 "kernel 'indexed' requires 'ascending(offsets)', but got offsets[49152] = 4 after "
                 "5");
}

TEST_F(IndexChecks, HoldForWhatIsAbsentOrEmpty) {
  Operation operation = createChecking(indexedBundle());
  Arguments absent = {Argument::dense(0x10000, ElementType::F32, {5, 8}),
                      Argument::dense(0, ElementType::I32, {0}), Argument::absent(),
                      Argument::absent(), Argument::scalar(int32_t(-1))};
  EXPECT_OK(run(operation, absent));
  EXPECT_TRUE(copies.empty());
  // A table without lengths has no rows that count.
  table = {-1, -1, -1, -1};
  absent.values[2] = viewOf(table, {2, 2});
  EXPECT_OK(run(operation, absent));
  EXPECT_TRUE(copies.empty());
  EXPECT_EQ(fake().launches.size(), 2u);
}

TEST_F(IndexChecks, AreRejectedWhileTheStreamIsCaptured) {
  Operation operation = createChecking(indexedBundle());
  fake().isCapturing = true;
  EXPECT_FAILURE(run(operation), Code::Unsupported,
                 "the indices of kernel 'indexed' cannot be checked while the stream is being "
                 "captured; check a run before the capture, and capture without checking");
  EXPECT_TRUE(fake().launches.empty());
  EXPECT_TRUE(copies.empty());
  // Without elements to check, a capture is possible.
  Operation plain = createChecking(scaleBundle(), "scale");
  Arguments scaled = scaleArguments();
  EXPECT_OK(plain.run(scaled.data(), scaled.size(), 0, 0, streamOf(0)));
  EXPECT_EQ(fake().launches.size(), 1u);
}

TEST_F(IndexChecks, ReportTheDriver) {
  const char *const reading = "cannot read 'offsets' to check the indices of kernel 'indexed'";
  const std::pair<const char *, const char *> injections[] = {
      {"cuStreamIsCapturing", "cannot ask whether the stream is captured"},
      {"cuMemcpyDtoHAsync", reading},
      {"cuStreamSynchronize", reading}};
  for (auto [call, message] : injections) {
    fake() = FakeDriver();
    Operation operation = createChecking(indexedBundle());
    fake().failures[call] = 999;
    EXPECT_FAILURE(run(operation), Code::Driver,
                   std::string(message) + ": " + call + " returned CUDA_ERROR_FAKE (999), as told");
    EXPECT_TRUE(fake().launches.empty());
    EXPECT_TRUE(fake().contexts.empty());
  }
  fake() = FakeDriver();
  driver.cuMemcpyDtoHAsync = nullptr;
  Operation operation = createChecking(indexedBundle());
  EXPECT_FAILURE(run(operation), Code::Unsupported,
                 "the indices of kernel 'indexed' cannot be checked: the driver lacks functions "
                 "that copy arrays; update the driver");
}

TEST_F(IndexChecks, ReportRulesThatHaveNoValue) {
  BundleWriter writer = indexedBundle();
  std::vector<ElementRuleSpec> &rules = writer.manifest.kernels[0].elements;
  rules[1].high = *Expr::call("mod", {Expr::integer(1), Expr::name("limit")});
  rules[3].size = *Expr::call("-", {Expr::name("limit"), Expr::integer(33)});
  Operation operation = createChecking(writer);
  Arguments given = arguments();
  given.values[4] = Argument::scalar(int32_t(0));
  EXPECT_FAILURE(
      run(operation, given), Code::BadBundle,
      "kernel 'indexed' has a constraint 'within(offsets, 0, mod(1, limit))' that cannot "
      "be computed: division by zero in 'mod(1, limit)'");
  offsets = {0, 0, 0, 0};
  EXPECT_FAILURE(run(operation), Code::InvalidArgument,
                 "kernel 'indexed' has a constraint 'within_first(table, 0, dim(x, 0), lengths, "
                 "limit - 33)' whose size is not positive");
  rules[1].high = Expr::flag(true);
  EXPECT_FAILURE(writer.bytes().status(), Code::BadBundle,
                 "'true' of kernel 'indexed' must be of kind int, but got kind flag");
}

TEST_F(IndexChecks, OfAProgramComeFirstAndOfAKernelBeforeItsLaunch) {
  BundleWriter writer = indexedBundle();
  KernelSpec kernel = indexedKernel();
  ProgramSpec program;
  program.name = "steps";
  program.arguments = kernel.arguments;
  program.elements = {kernel.elements[0]};
  formOf(program).workspaces = {{"made", ElementType::I32, {Expr::integer(4)}, 0u}};
  LaunchSpec first, last;
  first.kernels = last.kernels = {0};
  first.arguments = {"x", "offsets", "table", "lengths", "limit"};
  last.arguments = {"x", "made", "table", "lengths", "limit"};
  formOf(program).launches = {first, last};
  writer.manifest.programs = {program};
  Operation operation = createChecking(writer, "steps");
  alignas(256) int32_t workspace[64] = {1, 2, 3, 2};
  auto runProgram = [&] {
    Arguments given = arguments();
    return operation.run(given.data(), given.size(), reinterpret_cast<uintptr_t>(workspace),
                         sizeof(workspace), streamOf(0));
  };
  offsets = {0, 3, 2, 9};
  EXPECT_FAILURE(runProgram(), Code::InvalidArgument,
                 "program 'steps' requires 'ascending(offsets)', but got offsets[2] = 2 after 3");
  EXPECT_TRUE(fake().fills.empty());
  offsets = {0, 2, 3, 9};
  EXPECT_FAILURE(runProgram(), Code::InvalidArgument,
                 "kernel 'indexed' requires 'within(offsets, 0, dim(x, 0) + 1)', but got "
                 "offsets[3] = 9; it must be from 0 to 5");
  EXPECT_TRUE(fake().launches.empty());
  // Values written by an earlier launch are known only after it.
  offsets = {0, 2, 3, 5};
  EXPECT_FAILURE(runProgram(), Code::InvalidArgument,
                 "kernel 'indexed' requires 'ascending(offsets)', but got offsets[3] = 2 after 3");
  EXPECT_EQ(fake().launches.size(), 1u);
  workspace[3] = 3;
  EXPECT_OK(runProgram());
  EXPECT_EQ(fake().launches.size(), 3u);
}

TEST_F(IndexChecks, AreAskedForByTheEnvironment) {
  offsets = {0, 5, 3, 5};
  const std::pair<const char *, bool> values[] = {
      {"1", true}, {"yes", true}, {"0", false}, {"", false}};
  for (auto [value, isWanted] : values) {
    setenv("TILEWRIGHT_CHECK_INDICES", value, 1);
    Operation operation = create(indexedBundle());
    EXPECT_EQ(run(operation).ok(), !isWanted) << value;
    operation.checkIndices(!isWanted);
    EXPECT_EQ(run(operation).ok(), isWanted) << value << ", but told otherwise";
  }
}

/// The C interface on the same driver.
class IndexChecksInC : public IndexChecks {
protected:
  void SetUp() override {
    IndexChecks::SetUp();
    setDriverForTesting(&driver);
  }
  void TearDown() override {
    tilewright_operation_destroy(operation);
    tilewright_attention_forward_destroy(forward);
    tilewright_attention_backward_destroy(backward);
    tilewright_bundle_close(handle);
    setDriverForTesting(nullptr);
    IndexChecks::TearDown();
  }
  void load(const BundleWriter &writer) {
    Result<std::string> bytes = writer.bytes();
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    ASSERT_EQ(tilewright_bundle_load(bytes->data(), bytes->size(), &handle), TILEWRIGHT_OK);
  }

  tilewright_bundle *handle = nullptr;
  tilewright_operation *operation = nullptr;
  tilewright_attention_forward *forward = nullptr;
  tilewright_attention_backward *backward = nullptr;
};

TEST_F(IndexChecksInC, OfOperations) {
  load(indexedBundle());
  ASSERT_EQ(tilewright_operation_create(handle, "indexed", nullptr, 0, &operation), TILEWRIGHT_OK);
  ASSERT_EQ(tilewright_operation_prepare(operation, 0), TILEWRIGHT_OK);
  offsets = {0, 5, 3, 5};
  int64_t xExtents[] = {5, 8}, offsetExtents[] = {4};
  tilewright_view x = {sizeof(x), &x, TILEWRIGHT_F32, 2, xExtents, nullptr};
  tilewright_view view = {sizeof(view), offsets.data(), TILEWRIGHT_I32, 1, offsetExtents, nullptr};
  int32_t limit = 33;
  tilewright_argument list[] = {
      {sizeof(tilewright_argument), "x", &x, nullptr, TILEWRIGHT_F32},
      {sizeof(tilewright_argument), "offsets", &view, nullptr, TILEWRIGHT_F32},
      {sizeof(tilewright_argument), "limit", nullptr, &limit, TILEWRIGHT_I32}};
  auto runList = [&] {
    return tilewright_operation_run(operation, list, 3, nullptr, 0, streamOf(0));
  };
  EXPECT_EQ(runList(), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(tilewright_operation_check_indices(operation, 1), TILEWRIGHT_OK);
  EXPECT_C_FAILURE(
      runList(), TILEWRIGHT_INVALID_ARGUMENT,
      "kernel 'indexed' requires 'ascending(offsets)', but got offsets[2] = 3 after 5");
  EXPECT_EQ(tilewright_operation_check_indices(operation, 0), TILEWRIGHT_OK);
  EXPECT_EQ(runList(), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_C_FAILURE(tilewright_operation_check_indices(nullptr, 1), TILEWRIGHT_INVALID_ARGUMENT,
                   "operation must be a valid pointer, but got null");
  EXPECT_EQ(tilewright_operation_overlap_previous(operation, 1), TILEWRIGHT_OK);
  EXPECT_C_FAILURE(tilewright_operation_overlap_previous(operation, 2), TILEWRIGHT_INVALID_ARGUMENT,
                   "wanted must be 0 or 1, but got 2");
  EXPECT_C_FAILURE(tilewright_operation_overlap_previous(nullptr, 1), TILEWRIGHT_INVALID_ARGUMENT,
                   "operation must be a valid pointer, but got null");
  EXPECT_C_FAILURE(tilewright_attention_overlap_previous(nullptr, 1), TILEWRIGHT_INVALID_ARGUMENT,
                   "plan must be a valid pointer, but got null");
  EXPECT_C_FAILURE(tilewright_attention_decode_overlap_previous(nullptr, 1),
                   TILEWRIGHT_INVALID_ARGUMENT, "plan must be a valid pointer, but got null");
}

TEST_F(IndexChecksInC, OfPlans) {
  // Attention with an optional array of lengths, forward and backward.
  BundleWriter writer = scaleBundle();
  KernelSpec kernel = scaleKernel();
  kernel.name = "attention_forward";
  kernel.entry = "plain";
  kernel.requirements.clear();
  kernel.grid = {Expr::integer(1)};
  kernel.params = {{"D", Expr::integer(64)},
                   {"DV", Expr::integer(64)},
                   {"T", Expr::symbol(Expr::Kind::Type, "bf16")},
                   {"CAUSAL", Expr::symbol(Expr::Kind::Enum, "none")},
                   {"WINDOW", Expr::flag(false)}};
  kernel.arguments.clear();
  for (const char *name : {"q", "k", "v", "o"})
    kernel.arguments.push_back(ArgumentSpec::view(name, ElementType::BF16, {-1, -1, -1, 64}));
  kernel.arguments.push_back(ArgumentSpec::view("lengths", ElementType::I32, {-1}, true));
  kernel.elements = {
      {ElementRule::Within, 4, Expr::integer(0), plusOne(Expr::dim("k", 2)), 0, Expr()}};
  KernelSpec gradient = kernel;
  gradient.name = "attention_backward";
  gradient.params.emplace_back("DETERMINISTIC", Expr::flag(false));
  gradient.params.emplace_back("CAPTURE_GRADIENTS", Expr::flag(false));
  for (const char *name : {"do", "dq", "dk", "dv"})
    gradient.arguments.push_back(ArgumentSpec::view(name, ElementType::BF16, {-1, -1, -1, 64}));
  gradient.arguments.push_back(ArgumentSpec::view("lse", ElementType::F32, {-1, -1, -1}));
  kernel.awaitsLaunch = gradient.awaitsLaunch = true;
  writer.manifest.kernels = {kernel, gradient};
  load(writer);

  int64_t extents[] = {1, 2, 3, 64}, rowExtents[] = {1, 2, 3}, lengthExtents[] = {2};
  tilewright_view x = {sizeof(x), &extents, TILEWRIGHT_BF16, 4, extents, nullptr};
  tilewright_view rows = {sizeof(rows), &extents, TILEWRIGHT_F32, 3, rowExtents, nullptr};
  lengths = {3, 4};
  tilewright_view array = {sizeof(array), lengths.data(), TILEWRIGHT_I32, 1,
                           lengthExtents, nullptr};
  tilewright_argument capture = {sizeof(capture), "lengths", &array, nullptr, TILEWRIGHT_I32};
  const char *const rest = " requires 'within(lengths, 0, dim(k, 2) + 1)', but got lengths[1] = 4; "
                           "it must be from 0 to 3";

  tilewright_attention_forward_desc desc = {};
  desc.struct_size = sizeof(desc);
  desc.type = TILEWRIGHT_BF16;
  desc.head_dim = 64;
  ASSERT_EQ(tilewright_attention_forward_create(handle, &desc, &forward), TILEWRIGHT_OK)
      << tilewright_last_error();
  ASSERT_EQ(tilewright_attention_forward_prepare(forward, 0), TILEWRIGHT_OK);
  tilewright_attention_forward_args args = {};
  args.struct_size = sizeof(args);
  args.q = args.k = args.v = args.o = &x;
  args.window_left = args.window_right = -1;
  args.captures = &capture;
  args.num_captures = 1;
  auto runForward = [&] {
    return tilewright_attention_forward_run(forward, &args, nullptr, 0, streamOf(0));
  };
  // The other flag of a plan.
  for (int wanted : {1, 0}) {
    EXPECT_EQ(tilewright_attention_forward_overlap_previous(forward, wanted), TILEWRIGHT_OK);
    EXPECT_EQ(runForward(), TILEWRIGHT_OK) << tilewright_last_error();
    EXPECT_EQ(fake().launches.back().overlaps, wanted == 1);
  }
  EXPECT_EQ(tilewright_attention_forward_check_indices(forward, 1), TILEWRIGHT_OK);
  EXPECT_C_FAILURE(runForward(), TILEWRIGHT_INVALID_ARGUMENT,
                   ("kernel 'attention_forward'" + std::string(rest)).c_str());
  EXPECT_C_FAILURE(tilewright_attention_forward_check_indices(nullptr, 1),
                   TILEWRIGHT_INVALID_ARGUMENT, "plan must be a valid pointer, but got null");

  tilewright_attention_backward_desc backwardDesc = {};
  backwardDesc.struct_size = sizeof(backwardDesc);
  backwardDesc.type = TILEWRIGHT_BF16;
  backwardDesc.head_dim = 64;
  ASSERT_EQ(tilewright_attention_backward_create(handle, &backwardDesc, &backward), TILEWRIGHT_OK)
      << tilewright_last_error();
  ASSERT_EQ(tilewright_attention_backward_prepare(backward, 0), TILEWRIGHT_OK);
  tilewright_attention_backward_args gradients = {};
  gradients.struct_size = sizeof(gradients);
  gradients.q = gradients.k = gradients.v = gradients.o = gradients.d_o = &x;
  gradients.d_q = gradients.d_k = gradients.d_v = &x;
  gradients.lse = &rows;
  gradients.window_left = gradients.window_right = -1;
  gradients.captures = &capture;
  gradients.num_captures = 1;
  auto runBackward = [&] {
    return tilewright_attention_backward_run(backward, &gradients, nullptr, 0, streamOf(0));
  };
  for (int wanted : {1, 0}) {
    EXPECT_EQ(tilewright_attention_backward_overlap_previous(backward, wanted), TILEWRIGHT_OK);
    EXPECT_EQ(runBackward(), TILEWRIGHT_OK) << tilewright_last_error();
    EXPECT_EQ(fake().launches.back().overlaps, wanted == 1);
  }
  EXPECT_EQ(tilewright_attention_backward_check_indices(backward, 1), TILEWRIGHT_OK);
  EXPECT_C_FAILURE(runBackward(), TILEWRIGHT_INVALID_ARGUMENT,
                   ("kernel 'attention_backward'" + std::string(rest)).c_str());
  lengths = {3, 0};
  EXPECT_EQ(runForward(), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_EQ(runBackward(), TILEWRIGHT_OK) << tilewright_last_error();
}

} // namespace
