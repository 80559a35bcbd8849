// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The cache of bundles: what its keys depend on, and what counts as an entry.

#include "lib/Driver/BundleCache.h"
#include "lib/Driver/Compiler.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace tilewright;

namespace {

constexpr char kernel[] = R"mlir(
tile.link "helpers.mlir"
func.func @f(%x: f32) -> f32 attributes {tile.replaceable} {
  return %x : f32
}
func.func private @g(%x: f32) -> f32
tile.kernel @k params(C: int) (%x: !tile.view<[?], f32>) grid(%i = dim(x, 0)) {
  %t = tile.load %x[%i] : !tile.view<[?], f32> -> !tile.tile<[1], f32>
  %u = tile.map @f(%t) : (!tile.tile<[1], f32>) -> !tile.tile<[1], f32>
  %w = tile.map @g(%u) : (!tile.tile<[1], f32>) -> !tile.tile<[1], f32>
  tile.store %w, %x[%i] : !tile.tile<[1], f32>, !tile.view<[?], f32>
}
)mlir";
constexpr char helpers[] = R"mlir(
func.func @g(%x: f32) -> f32 {
  %c = arith.constant 2.0 : f32
  %y = arith.mulf %x, %c : f32
  return %y : f32
}
)mlir";
constexpr char replacement[] = R"mlir(
func.func @f(%x: f32) -> f32 {
  %y = arith.negf %x : f32
  return %y : f32
}
)mlir";

class BundleCacheTest : public ::testing::Test {
protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/bundle-cache-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root = pattern;
    put("kernel.mlir", kernel);
    put("helpers.mlir", helpers);
    put("f.mlir", replacement);
    setenv("TILEWRIGHT_CACHE_DIR", (root + "/cache").c_str(), 1);
    setenv("TILEWRIGHT_PTXAS", "", 1);
    request.options.source = root + "/kernel.mlir";
    request.options.params = {{"C", "4"}};
    request.targets = {"sm_80"};
  }
  void TearDown() override {
    std::filesystem::remove_all(root);
    setenv("TILEWRIGHT_CACHE_DIR", "", 1);
    unsetenv("TILEWRIGHT_PTXAS");
    unsetenv("TILEWRIGHT_BLOCKS");
  }
  void put(const std::string &name, const std::string &text) const {
    std::ofstream(root + "/" + name) << text;
  }
  std::string key(bool ofShipped = false) const {
    auto made = makeKey(llvm::MemoryBufferRef(source, root + "/" + name), request, ofShipped);
    return made ? BundleCache::nameOf(*made) : "(none)";
  }
  std::string compile(const std::string &shipped = "") {
    diagnostics.clear();
    auto keep = [&](mlir::Diagnostic &diagnostic) { diagnostics += diagnostic.str() + "\n"; };
    llvm::Expected<std::string> made =
        compileOrFindBundle({source, root + "/" + name}, request, shipped, keep);
    return made ? *made : "error: " + llvm::toString(made.takeError());
  }
  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto &file : std::filesystem::directory_iterator(root + "/cache", error))
      names.push_back(file.path().string());
    return names;
  }

  std::string root, source = kernel, name = "kernel.mlir", diagnostics;
  BundleRequest request;
};

TEST_F(BundleCacheTest, AKeyDependsOnAllThatDeterminesTheCode) {
  std::vector<std::string> keys{key()};
  EXPECT_NE(keys.front(), "(none)");
  auto expectNew = [&](const char *what) {
    std::string next = key();
    EXPECT_EQ(std::count(keys.begin(), keys.end(), next), 0) << what;
    keys.push_back(next);
  };
  source += "\n";
  expectNew("text");
  put("helpers.mlir", std::string(helpers) + "\n");
  expectNew("text of a linked file");
  put("helpers.mlir", std::string(helpers) + "tile.link \"more.mlir\"\n");
  expectNew("link of a linked file");
  put("more.mlir", "");
  expectNew("a file that a linked file links");
  request.options.with = {root + "/f.mlir"};
  expectNew("file that replaces functions");
  put("f.mlir", std::string(replacement) + "\n");
  expectNew("its text");
  request.options.params[0].second = "5";
  expectNew("value of a parameter");
  request.options.params.emplace_back("B", "1");
  expectNew("parameter");
  request.options.entry = "k";
  expectNew("entry");
  request.options.fastMath = true;
  expectNew("fast math");
  request.options.keepDebug = true;
  expectNew("prints and assertions");
  request.options.length = 512;
  expectNew("length");
  request.options.shared = 1000;
  expectNew("shared memory");
  request.targets.push_back("sm_90a");
  expectNew("target");
  request.variants.push_back({{"C", "7"}});
  expectNew("variant");
  request.kind = EntryKind::Kernel;
  expectNew("kind of entry");
  request.gpu.warps = 8;
  expectNew("warps");
  request.gpu.schedule = {"stages=1"};
  expectNew("schedule");
  request.gpu.timelineWords = 4096;
  expectNew("timeline");
  request.scope.preferredOnly = true;
  expectNew("forms");
  request.device = DeviceCapability{9, 0};
  expectNew("device");
  request.device = DeviceCapability{9, 1};
  expectNew("another device");
  request.scope.sharedLimit = 1 << 16;
  expectNew("shared memory of the device");
  name = "other.mlir";
  expectNew("name, which the manifest has");
  put("blocks.json", "{}");
  request.options.blocks = root + "/blocks.json";
  expectNew("table of blocks");
  put("blocks.json", "{ }");
  expectNew("text of the table of blocks");
  request.options.blocks.clear();
  setenv("TILEWRIGHT_BLOCKS", (root + "/f.mlir").c_str(), 1);
  expectNew("table of the environment");
  put("ptxas", "#!/bin/sh\n");
  setenv("TILEWRIGHT_PTXAS", (root + "/ptxas").c_str(), 1);
  expectNew("ptxas");
  put("ptxas", "#!/bin/sh\nexit 1\n");
  expectNew("another ptxas");
  std::string shipped = key(/*ofShipped=*/true);
  put("ptxas", "#!/bin/sh\nexit 2; :\n");
  EXPECT_EQ(key(/*ofShipped=*/true), shipped) << "of any ptxas";
}

TEST_F(BundleCacheTest, ThereIsNoKeyForWhatCannotBeRead) {
  request.options.with = {root + "/missing.mlir"};
  EXPECT_EQ(key(), "(none)");
  request.options.with = {root}; // a folder
  EXPECT_EQ(key(), "(none)");
  request.options.with.clear();
  request.report = &llvm::nulls(); // a report is not kept
  EXPECT_EQ(key(), "(none)");
}

TEST_F(BundleCacheTest, FindsLinksInAllForms) {
  for (const char *form :
       {"\"tile.link\"() <{file = \"x.mlir\"}> : () -> ()\n", "tile.link // text\n \"x.mlir\"\n"}) {
    source = form;
    put("x.mlir", "one");
    std::string first = key();
    EXPECT_NE(first, "(none)");
    put("x.mlir", "two");
    EXPECT_NE(key(), first) << form;
  }
  source = "tile.link \"\\78.mlir\"\n"; // an escape
  EXPECT_EQ(key(), "(none)");
}

TEST_F(BundleCacheTest, WhatIsEditedMeanwhileIsNotKept) {
  // A script in the place of ptxas edits a file while the compiler runs.
  std::string edited = helpers;
  edited.replace(edited.find("2.0"), 3, "3.0");
  auto compileAndEdit = [&](bool edits) {
    put("helpers.mlir", helpers);
    setenv("TILEWRIGHT_PTXAS", (root + "/ptxas").c_str(), 1);
    put("ptxas", edits ? "#!/bin/sh\ncp " + root + "/other.mlir " + root + "/helpers.mlir\n" +
                             "printf '\\0k\\0k_aligned\\0' > $5\n"
                       : "#!/bin/sh\nprintf '\\0k\\0k_aligned\\0' > $5\n");
    std::filesystem::permissions(root + "/ptxas", std::filesystem::perms::owner_all);
    put("other.mlir", edited);
    EXPECT_EQ(compile().substr(0, 8), "TWBUNDLE") << diagnostics;
    return entries().size();
  };
  EXPECT_EQ(compileAndEdit(true), 0u);
  EXPECT_EQ(compileAndEdit(false), 1u);
}

TEST_F(BundleCacheTest, FindsWhatItCompiled) {
  std::string first = compile();
  ASSERT_EQ(first.substr(0, 8), "TWBUNDLE") << first << diagnostics;
  ASSERT_EQ(entries().size(), 1u);
  // Replaced by another bundle under the same key, so that a hit shows.
  request.options.params[0].second = "5";
  std::string other = compile();
  ASSERT_EQ(entries().size(), 2u);
  EXPECT_NE(first, other);
  request.options.params[0].second = "4";
  auto at = makeKey(llvm::MemoryBufferRef(source, root + "/" + name), request, false);
  ASSERT_TRUE(BundleCache::fromEnvironment().store(*at, other).ok());
  EXPECT_EQ(compile(), other);
  // An edited link is another kernel.
  std::string text = helpers;
  text.replace(text.find("2.0"), 3, "3.0");
  put("helpers.mlir", text);
  std::string edited = compile();
  EXPECT_EQ(edited.substr(0, 8), "TWBUNDLE");
  EXPECT_NE(edited, first);
  EXPECT_EQ(entries().size(), 3u);
}

TEST_F(BundleCacheTest, DamagedEntriesAreReplaced) {
  std::string good = compile();
  ASSERT_EQ(entries().size(), 1u);
  std::string file = entries().front(), whole = *runtime::readFile(file);
  request.options.params[0].second = "5";
  compile();
  std::string otherFile = entries()[entries()[0] == file];
  request.options.params[0].second = "4";
  std::string flipped = whole;
  flipped[flipped.size() - 100] ^= 1;
  for (const std::string &content :
       {std::string(), std::string("TWCACHE1"), whole.substr(0, whole.size() / 2), flipped,
        *runtime::readFile(otherFile)}) { // the last has another key
    ASSERT_TRUE(runtime::writeFileAtomically(file, content).ok());
    EXPECT_EQ(compile(), good);
    EXPECT_EQ(*runtime::readFile(file), whole);
  }
}

TEST_F(BundleCacheTest, ErrorsAreNotKept) {
  source = "tile.kernel @k";
  EXPECT_EQ(compile().substr(0, 6), "error:");
  EXPECT_NE(diagnostics, "");
  EXPECT_TRUE(entries().empty());
  diagnostics.clear();
  EXPECT_EQ(compile().substr(0, 6), "error:"); // and is reported again
  EXPECT_NE(diagnostics, "");
}

TEST_F(BundleCacheTest, AFolderOfBundlesGoesFirst) {
  std::string folder = root + "/shipped";
  auto ignore = [](mlir::Diagnostic &) {};
  llvm::Expected<std::string> made =
      compileShippedBundle({source, root + "/" + name}, request, folder, ignore);
  ASSERT_TRUE(static_cast<bool>(made)) << llvm::toString(made.takeError());
  EXPECT_EQ(compile(folder), *made);
  EXPECT_TRUE(entries().empty()); // it was not compiled here
  request.options.params[0].second = "5";
  EXPECT_NE(compile(folder), *made);
  EXPECT_EQ(entries().size(), 1u);
}

TEST_F(BundleCacheTest, FindsAnEntryThatIsBound) {
  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  auto bind = [&](const char *size) {
    request.options.params[0].second = size;
    return compileBuffer(context, {source, root + "/" + name}, request.options);
  };
  auto module = bind("4"), other = bind("5");
  GpuOptions gpu;
  auto count = [&](mlir::ModuleOp bound) {
    auto bundle = compileOrFindEntry(findEntry(bound), gpu, /*assemble=*/false);
    EXPECT_TRUE(static_cast<bool>(bundle)) << llvm::toString(bundle.takeError());
    return entries().size();
  };
  EXPECT_EQ(count(*module), 1u);
  EXPECT_EQ(count(*module), 1u);
  EXPECT_EQ(count(*other), 2u);
  gpu.warps = 8;
  EXPECT_EQ(count(*module), 3u);
  gpu.timelineWords = 4096; // is not kept
  EXPECT_EQ(count(*module), 3u);
}

TEST_F(BundleCacheTest, WarnsOfAFolderThatOthersMayWrite) {
  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  auto module = compileBuffer(context, {source, root + "/" + name}, request.options);
  std::string warnings;
  mlir::ScopedDiagnosticHandler collect(&context, [&](mlir::Diagnostic &diagnostic) {
    EXPECT_EQ(diagnostic.getSeverity(), mlir::DiagnosticSeverity::Warning);
    warnings += diagnostic.str();
    return mlir::success();
  });
  auto compileEntry = [&] {
    return bool(llvm::cantFail(compileOrFindEntry(findEntry(*module), GpuOptions(), false)));
  };
  std::filesystem::create_directory(root + "/cache");
  std::filesystem::permissions(root + "/cache", std::filesystem::perms(0777));
  EXPECT_TRUE(compileEntry());
  EXPECT_EQ(warnings, "the cache '" + root +
                          "/cache' must be writable by its owner only, but has mode 777; run "
                          "chmod go-w on it; it is not used");
  EXPECT_TRUE(entries().empty());
  warnings.clear();
  std::filesystem::permissions(root + "/cache", std::filesystem::perms(0755));
  EXPECT_TRUE(compileEntry());
  EXPECT_EQ(warnings, "");
  EXPECT_EQ(entries().size(), 1u);
}

TEST_F(BundleCacheTest, ThreadsCompileAtTheSameTime) {
  setenv("TILEWRIGHT_CACHE_DIR", "", 1);
  std::string alone = compile();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      auto ignore = [](mlir::Diagnostic &) {};
      llvm::Expected<std::string> made =
          compileOrFindBundle({source, root + "/" + name}, request, "", ignore);
      ASSERT_TRUE(static_cast<bool>(made));
      EXPECT_EQ(*made, alone);
    });
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace
