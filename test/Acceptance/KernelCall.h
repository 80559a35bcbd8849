// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One call of a shipped kernel: compiled (once for each binding of its parameters), with arrays and
// scalars bound by name, run on the device that the environment variable TILEWRIGHT_TEST_DEVICE
// names: cpu (the default), cuda[:N], or compile, which compiles for a GPU and runs on the CPU. Any
// fault fails the running test: diagnostics, and writes between elements or to inputs.
//
// A kernel that does not compile for the GPU fails the running test. Exceptions are the bindings
// that a target refuses: CompiledKernels.cpp lists them with the expected message. There the
// running test is marked as skipped, with the reason, and continues with results of the CPU.
// TILEWRIGHT_TEST_TARGET is the target, sm_80 by default. For sm_90a the bundle also has code for
// sm_80, as bundles of users have: for views that a tensor map cannot describe, or cannot store.
//
// Goldens, the kernels of test/Tgpu that are written by hand, run on the simulator and on a GPU.
// With TILEWRIGHT_TEST_GOLDENS set, calls on a GPU use the golden of the kernel, if there is one,
// with the code for sm_80.

#ifndef TILEWRIGHT_TEST_ACCEPTANCE_KERNELCALL_H
#define TILEWRIGHT_TEST_ACCEPTANCE_KERNELCALL_H

#include "test/Acceptance/StridedArray.h"
#include "test/Reference/Rounding.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tilewright::acceptance {

using Params = std::vector<std::pair<std::string, std::string>>;

ElementType elementType(reference::Type type);
/// The type in which a kernel bound to the type sums, and stores LSE.
ElementType accumulatorType(reference::Type type);

struct RunSettings {
  unsigned threads = 0;      ///< 0: all cores
  bool f64 = false;          ///< --precision=f64
  const char *sums = "auto"; ///< --sums
};

/// Whether calls run on a GPU, which is fast enough for large problems.
bool runsOnGpu();

/// Whether kernels are mapped onto a real or simulated GPU: two kernels may then have different
/// blocks and orders of sums.
bool runsMapped();

class KernelCall {
public:
  /// `file` and `with` are below kernels/, without ".mlir".
  KernelCall(std::string file, Params params, std::vector<std::string> with = {});

  /// Runs the golden for these parameters instead, on the simulator unless a GPU is requested.
  /// False if there is none.
  bool useGolden();

  /// An array that the kernel only reads.
  void input(const std::string &name, ElementType type, std::vector<int64_t> shape,
             const std::vector<double> &values, Layout layout = {});
  /// Integers of 32 bits, or of 64.
  void integers(const std::string &name, std::vector<int64_t> shape,
                const std::vector<int64_t> &values, ElementType type = ElementType::I32);
  /// An array that the kernel writes; poisoned before every run.
  void output(const std::string &name, ElementType type, std::vector<int64_t> shape,
              Layout layout = {});
  void scalar(const std::string &name, double value);
  void integer(const std::string &name, int64_t value);

  /// False after a failure of the test.
  bool run(RunSettings settings = {});
  /// Runs again with another number of threads: all outputs must be bitwise equal.
  bool runTwice(RunSettings settings = {});

  std::vector<double> read(const std::string &name) const { return array(name).read(); }
  std::vector<uint8_t> readBytes(const std::string &name) const { return array(name).readBytes(); }

private:
  bool checkMemory() const;

  struct Bound {
    StridedArray array;
    bool isInput;
    std::vector<uint8_t> given; ///< bytes of an input
  };
  const StridedArray &array(const std::string &name) const;

  std::string file;
  Params params;
  std::vector<std::string> with;
  std::string golden; ///< file of the golden, if used
  std::map<std::string, Bound> arrays;
  std::map<std::string, double> scalars;
  std::map<std::string, int64_t> integerScalars;
};

} // namespace tilewright::acceptance

#endif // TILEWRIGHT_TEST_ACCEPTANCE_KERNELCALL_H
