// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The GPU that TILEWRIGHT_TEST_DEVICE names, and the code compiled for it.

#ifndef TILEWRIGHT_TEST_ACCEPTANCE_TESTEDGPU_H
#define TILEWRIGHT_TEST_ACCEPTANCE_TESTEDGPU_H

#include "test/Acceptance/CompiledKernels.h"

#include "lib/Driver/GpuDevice.h"

#include "gtest/gtest.h"

namespace tilewright::acceptance {

/// Whether goldens replace compiled kernels, where they exist.
bool prefersGoldens();

/// The target if TILEWRIGHT_TEST_DEVICE is sim: and a target, else none.
const std::string &simulatedTarget();

/// The GPU that the tests run on, and the code compiled for it.
class TestedGpu : public ::testing::Environment {
public:
  struct Compiled {
    bool isCompiled = false;
    std::optional<GpuOperation> operation;
    std::string rejection; ///< why the target refuses the kernel
    std::string failure;   ///< error of the compiler or the driver
  };

  /// Null if no code is compiled for a GPU. Exits if the requested device is missing, so that no
  /// test passes without it.
  static TestedGpu *get();

  const Compiled &compile(const Binding &binding);

  void countRun() { ++numRuns; }
  void countRejection(const std::string &file, const std::string &reason) {
    ++rejections[file + ": " + reason];
  }

  void TearDown() override;

private:
  static void refuse(const Binding &binding, const std::string &message, Compiled &compiled);
  static TestedGpu *open();

  std::unique_ptr<GpuDevice> device;
  std::vector<std::string> targets; // in order of preference
  std::map<std::string, Compiled> operations;
  std::map<std::string, int> rejections;
  int numRuns = 0;
};

} // namespace tilewright::acceptance

#endif // TILEWRIGHT_TEST_ACCEPTANCE_TESTEDGPU_H
