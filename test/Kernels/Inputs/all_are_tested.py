# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# all_are_tested.py KERNELS TESTS: each .mlir file in KERNELS must be mentioned by a .test file in TESTS.

import glob
import os
import sys

kernels, tests = sys.argv[1:]
text = "".join(open(path).read() for path in glob.glob(os.path.join(tests, "*.test")))
files = glob.glob(os.path.join(kernels, "**", "*.mlir"), recursive=True)
missing = [f for f in files if "%kernels/" + os.path.relpath(f, kernels) not in text]
if not files or missing:
    sys.exit("no test names: " + (", ".join(missing) or "there are no kernels"))
