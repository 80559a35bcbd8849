// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The cases that were tried and passed, for docs/support-matrix.md; and the counts of the accuracy
// reports. With TILEWRIGHT_SUPPORT_MATRIX=FILE, a run of these tests writes both to FILE, which
// scripts/support-matrix.py turns into the table.

#ifndef TILEWRIGHT_TEST_ACCEPTANCE_SUPPORTMATRIX_H
#define TILEWRIGHT_TEST_ACCEPTANCE_SUPPORTMATRIX_H

#include "test/Reference/Accuracy.h"

#include <string>

namespace tilewright::acceptance {

/// A case of the matrix while it is tested. It has passed if, at its end, the running test has
/// neither failed nor been skipped.
class MatrixCase {
public:
  /// `what` is the mask, modifier or variant; `type` that of the operands.
  MatrixCase(std::string kernel, std::string what, reference::Type type);
  ~MatrixCase();
  MatrixCase(const MatrixCase &) = delete;
  MatrixCase &operator=(const MatrixCase &) = delete;

private:
  std::string row;
  int partsBefore;
};

/// "none", "top_left + window", ...: the names of CAUSAL and WINDOW of the problem in the matrix.
std::string maskName(const reference::AttentionProblem &problem);

/// Fails the running test unless the report is ok. Counts its tiles.
void expectOk(const reference::AccuracyReport &report, const std::string &context = "");

} // namespace tilewright::acceptance

#endif // TILEWRIGHT_TEST_ACCEPTANCE_SUPPORTMATRIX_H
