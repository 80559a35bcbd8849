#!/bin/bash
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Measures the lines and branches that the tests execute, with clang's source-based coverage: writes a table,
# build-coverage/coverage/table.txt, and pages, build-coverage/coverage/index.html.
#
#   scripts/coverage.sh JOBS            passes, dialects, libraries and runtime, over CTest without the acceptance suites
#                                       and the mutation test
#   scripts/coverage.sh JOBS native     the runtime and the libraries without MLIR, over their unit tests

set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${1:-2} only=${2:-all}
scripts/install-dependencies.sh coverage
build=build-coverage llvm=/usr/lib/llvm-22/bin
[ -f $build/build.ninja ] || cmake --preset coverage

if [ "$only" = native ]; then
  target=native-tests tests=(-L native)
  sources=(runtime base/Expr base/Numeric base/Npy base/Layout base/Target)
else
  # Two suites run the same code many more times, and support-matrix reads the results of one.
  target=all tests=(-E '^(AcceptanceTests|support-matrix|SynchronizationMutationTest)$')
  sources=(runtime base lib passes dialect)
fi
cmake --build $build --parallel "$jobs" --target $target
rm -rf $build/profiles # of an earlier run
# When a process ends, it adds its counts to one of four files, which it locks for that time.
failed=0
LLVM_PROFILE_FILE="$PWD/$build/profiles/%4m.profraw" ctest --test-dir $build --output-on-failure --no-tests=error \
  --parallel "$jobs" --timeout 7200 "${tests[@]}" || failed=1

mkdir -p $build/coverage
$llvm/llvm-profdata merge --sparse -o $build/coverage/profile $build/profiles/*.profraw
binaries=()
while read -r file; do
  binaries+=(-object "$file")
done < <(find $build/bin $build/lib -type f \( -perm -u+x -o -name '*.so*' \) ! -name '*.a' -exec \
  sh -c 'readelf -SW "$1" 2>/dev/null | grep -q __llvm_covmap' _ {} \; -print)
# The first binary is llvm-cov's operand; the arguments after the options are source files.
options=("${binaries[@]:1}" -instr-profile $build/coverage/profile -ignore-filename-regex '/(build-coverage|test)/')
$llvm/llvm-cov show "${options[@]}" -format html -output-dir $build/coverage -show-branches count "${sources[@]}" >/dev/null
$llvm/llvm-cov report "${options[@]}" "${sources[@]}" >$build/coverage/table.txt
cat $build/coverage/table.txt
exit $failed
