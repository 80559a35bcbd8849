// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts passed cases.

#include "test/Acceptance/SupportMatrix.h"

#include "test/Reference/Cases.h"

#include "gtest/gtest.h"

#include <cstdlib>
#include <fstream>
#include <map>

namespace tilewright::acceptance {

namespace {

struct Counts {
  int64_t passed = 0, tried = 0;
  int64_t unsupported = 0; ///< skipped: not supported by this device
};
struct TileCounts {
  int64_t tiles = 0, needRoundoff = 0, needRoundoffDespiteSlack = 0;
};

/// Writes the device if it is not the CPU; then a line for each row: kernel, mask or variant, type,
/// passed cases, tried cases and, unless the device is the CPU, unsupported cases, which are among
/// those tried; then a line for each type: compared tiles, and tiles that the rule accepts only
/// because of the expected roundoff (Accuracy.h).
class MatrixWriter : public ::testing::Environment {
public:
  void TearDown() override {
    const char *path = std::getenv("TILEWRIGHT_SUPPORT_MATRIX");
    if (!path)
      return;
    std::ofstream os(path);
    os << "tier\t" << (reference::currentTier() == reference::Tier::Full ? "full" : "smoke")
       << '\n';
    const char *device = std::getenv("TILEWRIGHT_TEST_DEVICE");
    bool isCpu = !device || device == std::string("cpu");
    if (!isCpu)
      os << "device\t" << device << '\n';
    for (const auto &[row, counts] : rows) {
      os << "case\t" << row << '\t' << counts.passed << '\t' << counts.tried;
      if (!isCpu)
        os << '\t' << counts.unsupported;
      os << '\n';
    }
    for (const auto &[type, counts] : tiles)
      os << "tiles\t" << type << '\t' << counts.tiles << '\t' << counts.needRoundoff << '\t'
         << counts.needRoundoffDespiteSlack << '\n';
    os.close();
    EXPECT_TRUE(os.good()) << "cannot write " << path;
  }

  std::map<std::string, Counts> rows;
  std::map<std::string, TileCounts> tiles;
};

/// Owned by GoogleTest.
MatrixWriter *const writer =
    static_cast<MatrixWriter *>(::testing::AddGlobalTestEnvironment(new MatrixWriter));

const ::testing::TestResult &currentResult() {
  return *::testing::UnitTest::GetInstance()->current_test_info()->result();
}

} // namespace

MatrixCase::MatrixCase(std::string kernel, std::string what, reference::Type type)
    : row(std::move(kernel) + '\t' + std::move(what) + '\t' + reference::typeName(type)),
      partsBefore(currentResult().total_part_count()) {}

MatrixCase::~MatrixCase() {
  Counts &counts = writer->rows[row];
  const ::testing::TestResult &result = currentResult();
  bool hasFailed = false, isUnsupported = false;
  for (int part = partsBefore; part < result.total_part_count(); ++part) {
    hasFailed |= result.GetTestPartResult(part).failed();
    isUnsupported |= result.GetTestPartResult(part).skipped();
  }
  ++counts.tried;
  counts.passed += !hasFailed && !isUnsupported;
  counts.unsupported += !hasFailed && isUnsupported;
}

std::string maskName(const reference::AttentionProblem &problem) {
  std::string name;
  auto add = [&](const char *part) { name += (name.empty() ? "" : " + ") + std::string(part); };
  if (problem.causal == reference::Causal::TopLeft)
    add("top_left");
  if (problem.causal == reference::Causal::BottomRight)
    add("bottom_right");
  if (problem.window.left >= 0 || problem.window.right >= 0)
    add("window");
  return name.empty() ? "none" : name;
}

void expectOk(const reference::AccuracyReport &report, const std::string &context) {
  EXPECT_TRUE(report.ok) << context << (context.empty() ? "" : ": ") << report.message;
  if (report.numTiles) {
    TileCounts &counts = writer->tiles[reference::typeName(report.type)];
    counts.tiles += report.numTiles;
    counts.needRoundoff += report.numNeedRoundoff;
    counts.needRoundoffDespiteSlack += report.numNeedRoundoffDespiteSlack;
  }
}

} // namespace tilewright::acceptance
