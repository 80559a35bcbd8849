# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# lit configuration of test/Dialect, test/Tgpu, test/Passes, test/Kernels, test/Tools, test/Bench, test/Docs and
# test/Install.
#
# In RUN lines:
#   %kernels       the kernels folder          %root      the root of the source tree
#   %python        a Python 3 with NumPy       %t         a temporary path of this test
# Features: `full` if TILEWRIGHT_TEST_TIER=full; `ptxas` and `gpu` if the machine has one; `loadable` if Python can load the
# libraries of this build, which it cannot if they are built with a sanitizer.

import os
import shutil

import lit.formats

config.name = "Tilewright"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "Unit", "Reference", "Fuzz"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.tilewright_test_dir

# ptxas: the machine's, or else the one that install-ptxas.sh fetched.
build = os.path.dirname(config.tilewright_test_dir)
config.environment["PATH"] = os.pathsep.join(
    [config.tilewright_tools_dir, config.llvm_tools_dir, config.environment["PATH"]]
    + [os.path.join(build, "ptxas"), "/usr/local/cuda/bin"]
)
# The library that the Python package loads: that of this build tree, regardless of its name.
config.environment["TILEWRIGHT_LIBRARY"] = os.path.join(build, "lib", "libtilewright.so")
config.environment["FILECHECK_OPTS"] = "--enable-var-scope --dump-input-filter=all"

tier = os.environ.get("TILEWRIGHT_TEST_TIER", "smoke")
config.environment["TILEWRIGHT_TEST_TIER"] = tier
config.environment["TILEWRIGHT_CACHE_DIR"] = ""  # a test must not take what another compiler made
if tier == "full":
    config.available_features.add("full")

if shutil.which("ptxas", path=config.environment["PATH"]):
    config.available_features.add("ptxas")

if os.path.exists("/dev/nvidia0"):
    config.available_features.add("gpu")

if not config.sanitizers:
    config.available_features.add("loadable")

config.substitutions.append(("%kernels", os.path.join(config.tilewright_source_dir, "kernels")))
config.substitutions.append(("%root", config.tilewright_source_dir))
config.substitutions.append(("%python", config.python))
