# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the test files that match a pattern: run.py [PATTERN]. Exits with 77 where all of them are skipped, as CTest wants it."""

import os
import sys
import unittest

SKIPPED = 77

if __name__ == "__main__":
    pattern = sys.argv[1] if len(sys.argv) > 1 else "test_*.py"
    tests = unittest.defaultTestLoader.discover(os.path.dirname(os.path.abspath(__file__)), pattern)
    result = unittest.TextTestRunner(verbosity=2).run(tests)
    if not result.wasSuccessful() or (result.testsRun == 0 and not result.skipped):
        sys.exit(1)
    sys.exit(SKIPPED if len(result.skipped) >= result.testsRun else 0)
