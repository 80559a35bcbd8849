// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Opening the driver, its versions and errors, and the cache of compiled code.

#include "RuntimeTesting.h"

#include "runtime/Checksum.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

namespace {

class Driver : public RuntimeTest {};

TEST_F(Driver, NeedsItsRequiredFunctions) {
  static int anything;
  int found = 0;
  Result<DriverTable> table = DriverTable::load([&](const char *, int) -> void * {
    ++found;
    return &anything;
  });
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(found, 58);
  int missing = 0;
  for (int absent = 0; absent < found; ++absent) {
    int at = 0;
    std::string symbol;
    Result<DriverTable> partial = DriverTable::load([&](const char *name, int) -> void * {
      if (at++ != absent)
        return &anything;
      symbol = name;
      return nullptr;
    });
    if (partial.ok())
      continue;
    ++missing;
    EXPECT_FAILURE(partial.status(), Code::NoDriver,
                   "the CUDA driver lacks " + symbol + "; 11.2 is the oldest that works");
  }
  EXPECT_EQ(missing, 22) << "the rest is optional";
}

TEST_F(Driver, IsOpenedWhereThereIsOne) {
  Result<const DriverTable *> system = DriverTable::system();
  if (system.ok()) {
    EXPECT_GE(*(*system)->version(), 11020);
    GTEST_SKIP() << "there is a driver: its absence is not tested";
  }
  EXPECT_EQ(system.status().code(), Code::NoDriver);
  if (system.status().driverResult() != 0)
    GTEST_SKIP() << "there is a driver, without a device";
  EXPECT_EQ(system.status().message().find("no CUDA driver: libcuda.so.1 cannot be opened ("), 0u)
      << system.status().message();
}

TEST_F(Driver, MayBeEmpty) {
  const DriverTable none;
  EXPECT_OK(driver.expectFunctions());
  EXPECT_EQ(none.expectFunctions().code(), Code::NoDriver);
  EXPECT_EQ(none.version().status().code(), Code::NoDriver);
  EXPECT_EQ(countDevices(none).status().code(), Code::NoDriver);
  EXPECT_EQ(queryDevice(none, 0).status().code(), Code::NoDriver);
}

TEST_F(Driver, NamesItsErrors) {
  EXPECT_OK(driver.check(cuda::Success, "cuInit", "initialize the driver"));
  EXPECT_FAILURE(driver.check(cuda::ErrorNoDevice, "cuInit", "initialize the driver"),
                 Code::NoDriver,
                 "cannot initialize the driver: cuInit returned CUDA_ERROR_FAKE (100), as told");
  EXPECT_EQ(driver.check(cuda::ErrorUnsupportedPtxVersion, "f", "g").code(), Code::Compile);
  EXPECT_EQ(driver.check(cuda::ErrorNoBinaryForGpu, "f", "g").code(), Code::Compile);
  fake().failures["cuGetErrorName"] = 1;
  fake().failures["cuGetErrorString"] = 1;
  EXPECT_FAILURE(driver.check(77, "cuInit", "initialize the driver"), Code::Driver,
                 "cannot initialize the driver: cuInit returned unknown error (77)");
}

TEST_F(Driver, KnowsVersionsOfPtx) {
  EXPECT_EQ(cudaVersionForPtx(70), 11000);
  EXPECT_EQ(cudaVersionForPtx(80), 12000);
  EXPECT_EQ(cudaVersionForPtx(86), 12070);
  EXPECT_EQ(cudaVersionForPtx(88), 12090);
  EXPECT_EQ(cudaVersionForPtx(99), 13010);
  EXPECT_EQ(cudaVersionText(12040), "12.4");
  EXPECT_EQ(cudaVersionText(11000), "11.0");
}

TEST_F(Driver, DescribesDevices) {
  Result<DeviceInfo> device = queryDevice(driver, 2);
  ASSERT_TRUE(device.ok()) << device.status().message();
  EXPECT_EQ(device->toString(), "device 2 (Fake, compute capability 8.0)");
  EXPECT_EQ(device->smCount, 108);
  EXPECT_EQ(device->sharedLimit, 166912);
  EXPECT_EQ(*countDevices(driver), 3);
}

class Cache : public RuntimeTest {
protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    std::string pattern = ::testing::TempDir() + "/runtime-cache-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root = pattern;
    directory = root + "/a/b";
    setenv("TILEWRIGHT_CACHE_DIR", directory.c_str(), 1);
  }
  void TearDown() override {
    std::filesystem::permissions(root, std::filesystem::perms::owner_all);
    std::filesystem::remove_all(root);
    setenv("TILEWRIGHT_CACHE_DIR", "", 1);
  }
  /// Prepares as a new process would.
  void prepare() {
    fake() = FakeDriver();
    Result<Operation> operation = Operation::create(driver, read(scaleBundle()), "scale");
    ASSERT_TRUE(operation.ok());
    EXPECT_OK(operation->prepare(0));
  }
  std::string file() const { return cache().path(key); }
  CubinCache cache() const { return CubinCache(directory); }
  std::string bytes() const { return *readFile(file()); }
  void put(const std::string &content) {
    std::ofstream(file(), std::ios::binary).write(content.data(), std::streamsize(content.size()));
  }

  std::string root, directory;
  CubinKey key{checksum(scalePtx, sizeof(scalePtx)), sizeof(scalePtx), 8, 0, 12040};
};

TEST_F(Cache, SavesTheSecondCompilation) {
  prepare();
  EXPECT_EQ(fake().calls["cuLinkComplete"], 1);
  EXPECT_EQ(fake().calls["cuLinkDestroy"], 1);
  EXPECT_EQ(fake().images, std::vector<std::string>{"cubin"});
  EXPECT_EQ(**cache().lookup(key), "cubin");
  prepare();
  EXPECT_EQ(fake().calls["cuLinkCreate"], 0);
  EXPECT_EQ(fake().images, std::vector<std::string>{"cubin"});
}

TEST_F(Cache, CompilesAgainWhatIsDamaged) {
  prepare();
  const std::string good = bytes();
  auto changed = [&](size_t at) {
    std::string other = good;
    other[at] ^= 1;
    return other;
  };
  struct Case {
    std::string content;
    std::string message;
  };
  auto textOf = [](uint64_t number) { return std::to_string(number); };
  auto sumOf = [&](const char *code) { return textOf(checksum(code, std::strlen(code))); };
  const Case cases[] = {
      {"", "number of bytes at least 56, but got 0"},
      {good.substr(0, 55), "number of bytes at least 56, but got 55"},
      {good.substr(0, good.size() - 1), "number of bytes 5, but got 4"},
      {good + "x", "number of bytes 5, but got 6"},
      {changed(good.size() - 1), "checksum " + sumOf("cubin") + ", but got " + sumOf("cubio")},
      {changed(0), "beginning 'TWCUBIN', but got 'UWCUBIN'"},
      {changed(8), "version 1, but got 0"},
      {changed(12), "version of the driver 12040, but got 12041"},
      {changed(16), "checksum of the PTX " + textOf(key.ptxChecksum) + ", but got " +
                        textOf(key.ptxChecksum ^ 1)},
      {changed(24),
       "size of the PTX " + textOf(key.ptxBytes) + ", but got " + textOf(key.ptxBytes ^ 1)},
      {changed(32), "compute capability, times ten, 80, but got 90"}};
  for (const Case &damage : cases) {
    SCOPED_TRACE(damage.message);
    put(damage.content);
    EXPECT_FAILURE(cache().lookup(key).status(), Code::Io,
                   "the cache must hold code with the " + damage.message + " in '" + file() +
                       "'; delete the file");
    prepare();
    EXPECT_EQ(fake().calls["cuLinkComplete"], 1);
    EXPECT_EQ(bytes(), good) << "the file is whole again";
  }
}

TEST_F(Cache, KeepsDriversApart) {
  prepare();
  CubinKey other = key;
  other.driverVersion = 12050;
  EXPECT_NE(cache().path(other), cache().path(key));
  EXPECT_FALSE(cache().lookup(other)->has_value());
}

TEST_F(Cache, CompilesAgainWhatTheDriverRejects) {
  prepare();
  // The driver accepts neither the cached nor the linked cubin, then reports the error of the PTX.
  fake() = FakeDriver();
  fake().failures["cuLibraryLoadData"] = cuda::ErrorInvalidPtx;
  Result<Operation> operation = Operation::create(driver, read(scaleBundle()), "scale");
  EXPECT_EQ(operation->prepare(0).code(), Code::Compile);
  EXPECT_EQ(fake().calls["cuLibraryLoadData"], 3);
  EXPECT_EQ(fake().calls["cuLinkComplete"], 1);
}

TEST_F(Cache, IsNotNeeded) {
  // A file in place of the directory.
  directory = root + "/file/cache";
  std::ofstream(root + "/file") << "x";
  setenv("TILEWRIGHT_CACHE_DIR", directory.c_str(), 1);
  EXPECT_FAILURE(cache().store(key, "cubin"), Code::Io,
                 "cannot make the cache '" + directory + "': Not a directory");
  prepare();
  EXPECT_EQ(fake().images, std::vector<std::string>{"cubin"});
  // The cache is disabled.
  setenv("TILEWRIGHT_CACHE_DIR", "", 1);
  prepare();
  EXPECT_EQ(fake().calls["cuLinkCreate"], 0);
  EXPECT_EQ(fake().images, std::vector<std::string>{scalePtx});
}

TEST_F(Cache, MayBeReadOnly) {
  std::filesystem::create_directories(directory);
  // root may write everywhere, so the process becomes another user for the rest of the test.
  struct OtherUser {
    bool isRoot = geteuid() == 0;
    OtherUser() { EXPECT_EQ(isRoot ? seteuid(65534) : 0, 0); }
    ~OtherUser() { EXPECT_EQ(isRoot ? seteuid(0) : 0, 0); }
  };
  for (const std::string &path : {root, root + "/a"})
    ASSERT_EQ(chmod(path.c_str(), 0755), 0);
  ASSERT_EQ(chmod(directory.c_str(), 0555), 0);
  OtherUser user;
  EXPECT_FAILURE(cache().store(key, "cubin"), Code::Io,
                 "cannot create '" + file() + "': Permission denied");
  prepare();
  EXPECT_EQ(fake().images, std::vector<std::string>{"cubin"});
}

TEST_F(Cache, LoadsPtxWhereTheLinkerFails) {
  for (const char *call : {"cuLinkCreate", "cuLinkAddData", "cuLinkComplete"}) {
    fake() = FakeDriver();
    fake().failures[call] = 999;
    Result<Operation> operation = Operation::create(driver, read(scaleBundle()), "scale");
    EXPECT_OK(operation->prepare(0));
    EXPECT_EQ(fake().images, std::vector<std::string>{scalePtx}) << call;
    EXPECT_EQ(fake().calls["cuLinkDestroy"], call == std::string("cuLinkCreate") ? 0 : 1);
    EXPECT_FALSE(std::filesystem::exists(file()));
  }
  driver.cuLinkComplete = nullptr;
  prepare();
  EXPECT_EQ(fake().images, std::vector<std::string>{scalePtx});
}

TEST_F(Cache, IsFoundThroughTheEnvironment) {
  auto directoryOf = [&] {
    std::string path = CubinCache::fromEnvironment().path(key);
    return path.substr(0, path.rfind('/'));
  };
  EXPECT_EQ(directoryOf(), directory);
  unsetenv("TILEWRIGHT_CACHE_DIR");
  setenv("XDG_CACHE_HOME", "/xdg", 1);
  EXPECT_EQ(directoryOf(), "/xdg/tilewright");
  setenv("XDG_CACHE_HOME", "relative",
         1); // the specification requires relative paths to be ignored
  setenv("HOME", "/home/x", 1);
  EXPECT_EQ(directoryOf(), "/home/x/.cache/tilewright");
  unsetenv("HOME");
  unsetenv("XDG_CACHE_HOME");
  EXPECT_FALSE(CubinCache::fromEnvironment().isEnabled());
}

} // namespace
