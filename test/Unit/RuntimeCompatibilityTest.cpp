// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The guarantees of docs/compatibility.md: this runtime reads bundles of each frozen ABI, gives the
// same answers about those of 0.1 as 0.1, and launches them in the same way; and programs that were
// compiled with the header of 0.1 work (RuntimeCompatibilityTest.c). scripts/freeze-bundles.py
// wrote the bundles.

#include "RuntimeTesting.h"

#include "runtime/CApiTesting.h"
#include "runtime/tilewright.h"

#include <algorithm>
#include <filesystem>

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

extern "C" int tilewrightForwardAs01(void);
extern "C" int tilewrightBackwardAs01(void);
extern "C" int tilewrightOperationAs01(void);

namespace {

/// Tests run in the root of the source tree.
constexpr char folder[] = "test/Unit/Inputs/bundles/";

/// The manifest in a file (Bundle.h), after the header and the sizes of the blobs.
std::string readManifestText(const std::string &file) {
  auto number = [&](size_t at, size_t bytes) {
    uint64_t value = 0;
    std::memcpy(&value, file.data() + at, bytes);
    return value;
  };
  return file.substr(48 + 8 * number(40, 4), number(32, 8));
}

Json &memberOf(Json &json, const std::string &key) {
  for (auto &member : json.members)
    if (member.first == key)
      return member.second;
  ADD_FAILURE() << "no member " << key;
  return json;
}

/// As a manifest of ABI 3, where the launches of a program list the kernels of all its forms.
Json asAbi3(const Manifest &manifest) {
  Json json = manifest.toJson();
  memberOf(json, "abi") = Json::integer(3);
  for (Json &program : memberOf(json, "programs").items) {
    std::vector<Json> forms = memberOf(program, "forms").items;
    Json &launches = memberOf(forms[0], "launches");
    for (size_t form = 1; form < forms.size(); ++form)
      for (size_t i = 0; i < launches.items.size(); ++i) {
        Json &kernels = memberOf(launches.items[i], "kernels");
        for (Json &kernel : memberOf(memberOf(forms[form], "launches").items[i], "kernels").items)
          kernels.items.push_back(kernel);
      }
    Json old = Json::object();
    for (const char *key : {"name", "params", "arguments"})
      old.set(key, memberOf(program, key));
    old.set("workspaces", memberOf(forms[0], "workspaces"));
    old.set("launches", launches);
    for (const char *key : {"when", "elements"})
      old.set(key, memberOf(program, key));
    program = old;
  }
  return json;
}

/// Grid, threads and bytes of shared memory of each launch; grids have one dimension.
using Launches = std::vector<std::array<unsigned, 3>>;

class Compatibility : public RuntimeTest {
protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    setDriverForTesting(&driver);
  }
  void TearDown() override { setDriverForTesting(nullptr); }

  /// Properties of an H200, or an A100.
  void useDevice(int major) {
    fake().major = major;
    fake().smCount = major == 9 ? 132 : 108;
    fake().sharedLimit = major == 9 ? 232448 : 166912;
  }
  Launches launches() {
    Launches result;
    for (const FakeLaunch &launch : fake().launches)
      result.push_back({launch.grid[0], launch.block[0], launch.sharedBytes});
    return result;
  }
};

/// Loads the bundles of an ABI, makes an operation of each entry, and compares manifests, as
/// `write` writes them, with those in the files. Returns the names of the files.
template <typename Write>
std::vector<std::string> loadBundles(const DriverTable &driver, const char *abi, Write write) {
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(std::string(folder) + abi)) {
    SCOPED_TRACE(entry.path().string());
    names.push_back(entry.path().stem());
    Result<std::string> file = readFile(entry.path().string());
    EXPECT_OK(file.status());
    if (!file.ok())
      continue;
    Result<std::shared_ptr<const Bundle>> bundle = Bundle::fromBytes(*file, "frozen");
    EXPECT_OK(bundle.status());
    if (!bundle.ok())
      continue;
    const Manifest &manifest = (*bundle)->manifest();
    EXPECT_EQ(write(manifest), readManifestText(*file));
    for (const KernelSpec &kernel : manifest.kernels)
      EXPECT_OK(Operation::create(driver, *bundle, kernel.name).status());
    for (const ProgramSpec &program : manifest.programs)
      EXPECT_OK(Operation::create(driver, *bundle, program.name).status());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST_F(Compatibility, ManifestsOfAbi3SayWhatTheySaid) {
  std::vector<std::string> names = loadBundles(
      driver, "abi3", [](const Manifest &manifest) { return asAbi3(manifest).write(); });
  EXPECT_EQ(names, (std::vector<std::string>{"attention_backward", "attention_backward_packed",
                                             "attention_forward", "softmax"}));
}

// ABI 5 adds keys that are left out where they are false.
TEST_F(Compatibility, ManifestsOfAbi4SayWhatTheySaid) {
  std::vector<std::string> names = loadBundles(driver, "abi4", [](const Manifest &manifest) {
    Json json = manifest.toJson();
    memberOf(json, "abi") = Json::integer(4);
    return json.write();
  });
  EXPECT_EQ(names, (std::vector<std::string>{"attention_backward", "attention_backward_packed",
                                             "attention_decode", "attention_forward",
                                             "attention_forward_paged",
                                             "differential_attention_backward", "softmax"}));
}

TEST_F(Compatibility, ManifestsOfAbi5SayWhatTheySaid) {
  std::vector<std::string> names = loadBundles(
      driver, "abi5", [](const Manifest &manifest) { return manifest.toJson().write(); });
  EXPECT_EQ(names, (std::vector<std::string>{"attention_backward", "attention_backward_packed",
                                             "attention_decode", "attention_forward",
                                             "attention_forward_paged",
                                             "differential_attention_backward", "softmax"}));
}

TEST_F(Compatibility, OlderCallersRunTheForward) {
  useDevice(9);
  EXPECT_EQ(tilewrightForwardAs01(), 0) << tilewright_last_error();
  EXPECT_EQ(launches(), (Launches{{48, 384, 213472}}));
  EXPECT_EQ(fake().maps.size(), 4u);
  fake() = FakeDriver();
  useDevice(8);
  EXPECT_EQ(tilewrightForwardAs01(), 0) << tilewright_last_error();
  EXPECT_EQ(launches(), (Launches{{48, 128, 49152}}));
  EXPECT_EQ(fake().entries,
            (std::vector<std::string>{"attention_forward_aligned", "attention_forward"}));
}

TEST_F(Compatibility, OlderCallersRunTheBackward) {
  useDevice(8);
  EXPECT_EQ(tilewrightBackwardAs01(), 0) << tilewright_last_error();
  EXPECT_EQ(launches(), (Launches{{1, 128, 0}, {160, 128, 0}, {48, 256, 57856}, {160, 128, 0}}));
}

TEST_F(Compatibility, OlderCallersRunOperations) {
  useDevice(9);
  EXPECT_EQ(tilewrightOperationAs01(), 0) << tilewright_last_error();
  EXPECT_EQ(launches(), (Launches{{352, 128, 0}, {96, 384, 231840}, {88, 128, 0}}));
  EXPECT_EQ(fake().maps.size(), 9u);
}

} // namespace
