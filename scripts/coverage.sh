#!/bin/bash
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Which lines and branches the tests run, by gcov and gcovr: a table, and pages in build-coverage/coverage.
#
#   scripts/coverage.sh JOBS            passes, dialects, libraries and runtime, over CTest without the acceptance suites
#   scripts/coverage.sh JOBS native     the runtime and the libraries without MLIR, over their unit tests

set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${1:-2} only=${2:-all}
scripts/install-dependencies.sh coverage
build=build-coverage
[ -f $build/build.ninja ] || cmake --preset coverage

if [ "$only" = native ]; then
  target=native-tests tests=(-L native)
  filters=(--filter runtime/ --filter lib/Numeric/ --filter lib/Npy/ --filter lib/Layout/ --filter lib/Target/)
else
  target=all tests=(-E '^AcceptanceTests$')
  filters=(--filter runtime/ --filter lib/ --filter passes/ --filter dialect/)
fi
cmake --build $build --parallel "$jobs" --target $target
find $build -name '*.gcda' -delete # of an earlier run
(cd $build && ctest --output-on-failure --no-tests=error --parallel "$jobs" --timeout 7200 "${tests[@]}")
mkdir -p $build/coverage
# Branches that exceptions take, and those that the compiler adds, are no decisions of the code.
gcovr --root . "${filters[@]}" --exclude 'build.*/' --exclude-throw-branches --exclude-unreachable-branches \
  --html-details $build/coverage/index.html --txt $build/coverage/table.txt $build
cat $build/coverage/table.txt
gcovr --root . "${filters[@]}" --exclude 'build.*/' --exclude-throw-branches --exclude-unreachable-branches \
  --branches $build | tail -n 3
