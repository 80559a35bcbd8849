// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Defaults of scalars: in a bundle, and in runs that leave scalars out.

#include "RuntimeTesting.h"

#include "runtime/CApiTesting.h"
#include "runtime/tilewright.h"

#include <cmath>
#include <limits>

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

namespace {

/// scaleBundle, whose scalars have the defaults 0.25 and -3.
BundleWriter defaultsBundle() {
  BundleWriter writer = scaleBundle();
  std::vector<ArgumentSpec> &arguments = writer.manifest.kernels[0].arguments;
  arguments[3].byDefault = Argument::scalar(0.25f);
  arguments[4].byDefault = Argument::scalar(int32_t(-3));
  return writer;
}

class Defaults : public OperationTest {
protected:
  /// The values of scale and rows that the last launch got.
  std::pair<float, int32_t> scalars() {
    size_t end = fake().layout->params.size();
    const FakeLaunch &launch = fake().launches.back();
    return {paramAt<float>(launch, end - 2), paramAt<int32_t>(launch, end - 1)};
  }
};

/// They used to be "missing".
TEST_F(Defaults, HoldForScalarsThatAreLeftOut) {
  Operation operation = create(defaultsBundle());
  EXPECT_OK(operation.prepare(0));
  Arguments arguments = scaleArguments();
  EXPECT_OK(run(operation, arguments));
  EXPECT_EQ(scalars(), std::pair(0.5f, 7));
  arguments.values[3] = Argument::absent();
  EXPECT_OK(run(operation, arguments));
  EXPECT_EQ(scalars(), std::pair(0.25f, 7));
  arguments.values[4] = Argument::absent();
  EXPECT_OK(run(operation, arguments));
  EXPECT_EQ(scalars(), std::pair(0.25f, -3));
  uint64_t bytes = 1;
  EXPECT_OK(operation.workspaceSize(arguments.data(), arguments.size(), 0, bytes));
  EXPECT_EQ(bytes, 0u);
  // Without a default, a scalar is still required.
  BundleWriter writer = defaultsBundle();
  writer.manifest.kernels[0].arguments[4].byDefault.reset();
  Operation other = create(writer);
  EXPECT_OK(other.prepare(0));
  EXPECT_FAILURE(run(other, arguments), Code::InvalidArgument,
                 "argument 'rows' of kernel 'scale' is missing; it is not an optional argument");
}

/// A condition reads the default as it reads a value.
TEST_F(Defaults, AreReadByConditions) {
  BundleWriter writer = defaultsBundle();
  writer.manifest.kernels[0].conditions = {
      *Expr::call("ge", {Expr::name("rows"), Expr::integer(0)})};
  Operation operation = create(writer);
  EXPECT_OK(operation.prepare(0));
  Arguments arguments = scaleArguments();
  EXPECT_OK(run(operation, arguments));
  arguments.values[4] = Argument::absent();
  EXPECT_FAILURE(
      run(operation, arguments), Code::Unsupported,
      "no variant of kernel 'scale' takes these arguments: its condition 'rows >= 0' does "
      "not hold, but got rows = -3");
}

TEST_F(Defaults, HoldInPrograms) {
  BundleWriter writer = defaultsBundle();
  ProgramSpec program;
  program.name = "twice";
  program.arguments = writer.manifest.kernels[0].arguments;
  LaunchSpec launch;
  launch.kernels = {0};
  launch.arguments = {"x", "y", "bias", "scale", "rows"};
  formOf(program).launches = {launch, launch};
  writer.manifest.programs = {program};
  Operation operation = create(writer, "twice");
  EXPECT_OK(operation.prepare(0));
  Arguments arguments = scaleArguments();
  arguments.values[3] = arguments.values[4] = Argument::absent();
  EXPECT_OK(run(operation, arguments));
  EXPECT_EQ(fake().launches.size(), 2u);
  EXPECT_EQ(scalars(), std::pair(0.25f, -3));
}

TEST_F(Defaults, HoldInC) {
  setDriverForTesting(&driver);
  std::string bytes = *defaultsBundle().bytes();
  bundle = read(defaultsBundle());
  fake().layout = &bundle->manifest().kernels[0].layout;
  tilewright_bundle *loaded = nullptr;
  tilewright_operation *operation = nullptr;
  ASSERT_EQ(tilewright_bundle_load(bytes.data(), bytes.size(), &loaded), TILEWRIGHT_OK);
  ASSERT_EQ(tilewright_operation_create(loaded, "scale", nullptr, 0, &operation), TILEWRIGHT_OK);
  ASSERT_EQ(tilewright_operation_prepare(operation, 0), TILEWRIGHT_OK);
  int64_t extents[] = {300, 64};
  tilewright_view x = {sizeof(x), reinterpret_cast<void *>(0x10000), TILEWRIGHT_BF16, 2, extents,
                       nullptr};
  tilewright_argument list[] = {{sizeof(list[0]), "x", &x, nullptr, TILEWRIGHT_F32},
                                {sizeof(list[0]), "y", &x, nullptr, TILEWRIGHT_F32},
                                {sizeof(list[0]), "rows", nullptr, nullptr, TILEWRIGHT_F32}};
  for (size_t given : {2, 3}) { // left out, or without a value
    EXPECT_EQ(tilewright_operation_run(operation, list, given, nullptr, 0, nullptr), TILEWRIGHT_OK)
        << tilewright_last_error();
    EXPECT_EQ(scalars(), std::pair(0.25f, -3));
  }
  uint64_t size = 1;
  EXPECT_EQ(tilewright_operation_workspace_size(operation, list, 2, 0, &size), TILEWRIGHT_OK);
  tilewright_operation_destroy(operation);
  tilewright_bundle_close(loaded);
  setDriverForTesting(nullptr);
}

/// Through JSON, all values keep their bits.
TEST(DefaultsOfManifests, AreWrittenAndRead) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const Argument values[] = {Argument::scalar(1.0e-5f),
                             Argument::scalar(0.1),
                             Argument::scalar(float(-infinity)),
                             Argument::scalar(infinity),
                             Argument::scalar(-0.0f),
                             Argument::scalar(std::numeric_limits<double>::denorm_min()),
                             realScalar(ElementType::F16, 0.1),
                             realScalar(ElementType::BF16, -3.5),
                             realScalar(ElementType::E4M3, 0.0625),
                             Argument::scalar(int32_t(INT32_MIN)),
                             Argument::scalar(int64_t(1) << 60),
                             Argument::scalar(true),
                             Argument::scalar(false)};
  BundleWriter writer = scaleBundle();
  std::vector<ArgumentSpec> &arguments = writer.manifest.kernels[0].arguments;
  for (const Argument &value : values)
    arguments.push_back(
        ArgumentSpec::scalar("s" + std::to_string(arguments.size()), value.type, value));
  arguments.push_back(ArgumentSpec::scalar("none", ElementType::F32));
  std::shared_ptr<const Bundle> bundle = read(writer);
  const std::vector<ArgumentSpec> &got = bundle->manifest().kernels[0].arguments;
  ASSERT_EQ(got.size(), arguments.size());
  EXPECT_TRUE(haveOneContract(got, arguments));
  for (size_t i = 0; i < std::size(values); ++i) {
    const std::optional<Argument> &value = got[5 + i].byDefault;
    ASSERT_TRUE(value) << i;
    EXPECT_EQ(value->type, values[i].type) << i;
    EXPECT_EQ(value->bits, values[i].bits) << i;
  }
  EXPECT_FALSE(got.back().byDefault);
  // Contracts with different defaults are different.
  arguments[5].byDefault = Argument::scalar(2.0e-5f);
  EXPECT_FALSE(haveOneContract(got, arguments));
  arguments[5].byDefault.reset();
  EXPECT_FALSE(haveOneContract(got, arguments));
  const Argument nan = Argument::scalar(std::numeric_limits<double>::quiet_NaN());
  arguments[6].byDefault = nan;
  EXPECT_TRUE(std::isnan(read(writer)->manifest().kernels[0].arguments[6].byDefault->real()));
}

TEST(DefaultsOfManifests, AreRejectedIfTheyAreNoValues) {
  const std::string text = defaultsBundle().manifest.toJson().write();
  struct Case {
    const char *value, *message;
  };
  auto parse = [&](const char *of, const std::string &value) {
    std::string changed = text;
    std::string before = std::string("\"default\":") + of;
    size_t at = changed.find(before);
    EXPECT_NE(at, std::string::npos) << text;
    changed.replace(at, before.size(), "\"default\":" + value);
    Result<Json> json = Json::parse(changed);
    EXPECT_TRUE(json.ok()) << json.status().message();
    Result<Manifest> manifest = Manifest::fromJson(*json);
    return manifest ? Status::success() : manifest.status();
  };
  EXPECT_OK(parse("0.25", "1"));
  EXPECT_OK(parse("-3", "2147483647"));
  for (const Case &wrong : std::initializer_list<Case>{
           {"true", "the default of argument 'scale' must be a value of f32, but got 'true'"},
           {"\"much\"",
            "the default of argument 'scale' must be a value of f32, but got '\"much\"'"},
           {"[1]", "the default of argument 'scale' must be a value of f32, but got '[1]'"}})
    EXPECT_FAILURE(parse("0.25", wrong.value), Code::BadBundle, wrong.message);
  for (const Case &wrong : std::initializer_list<Case>{
           {"2147483648",
            "the default of argument 'rows' must be a value of i32, but got '2147483648'"},
           {"0.5", "the default of argument 'rows' must be a value of i32, but got '0.5'"}})
    EXPECT_FAILURE(parse("-3", wrong.value), Code::BadBundle, wrong.message);
  BundleWriter writer = scaleBundle();
  writer.manifest.kernels[0].arguments[0].byDefault = Argument::scalar(1.0f);
  EXPECT_FAILURE(writer.bytes().status(), Code::BadBundle,
                 "argument 'x' of kernel 'scale' must be a scalar to have a default, but got a "
                 "view; make it optional instead");
  writer = scaleBundle();
  writer.manifest.kernels[0].arguments[3].byDefault = Argument::scalar(int32_t(1));
  EXPECT_FAILURE(
      writer.bytes().status(), Code::BadBundle,
      "the default of argument 'scale' of kernel 'scale' must be a scalar of f32, but got "
      "one of i32");
}

/// Callers need not know in which float type a kernel takes a scalar; C++ used to reject the other.
TEST_F(Defaults, FloatsAreConverted) {
  Operation operation = create(defaultsBundle());
  EXPECT_OK(operation.prepare(0));
  Arguments arguments = scaleArguments();
  arguments.values[3] = Argument::scalar(0.125);
  EXPECT_OK(run(operation, arguments));
  EXPECT_EQ(scalars(), std::pair(0.125f, 7));
  BundleWriter writer = scaleBundle();
  writer.manifest.kernels[0].arguments[3].type = ElementType::F64;
  Operation wide = create(writer);
  EXPECT_OK(wide.prepare(0));
  arguments.values[3] = Argument::scalar(0.125f);
  EXPECT_OK(run(wide, arguments));
  EXPECT_EQ(paramAt<double>(fake().launches.back(), fake().layout->params.size() - 2), 0.125);
}

} // namespace
