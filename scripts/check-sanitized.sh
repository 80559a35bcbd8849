#!/bin/bash
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Runs tests under sanitizers, built by clang, in the order of their cost:
#
#   native    unit tests of the runtime and of the libraries without MLIR under AddressSanitizer and
#             UndefinedBehaviorSanitizer; then those of them that use threads under ThreadSanitizer. Takes some minutes.
#   all       native; then the unit tests of the interpreter and the simulator under ThreadSanitizer; then unit tests, lit
#             suites and a sixth of the acceptance tests under the first two sanitizers. Not run are tests that run the
#             same code many more times (mutations, the acceptance tests on the simulator), tests of the installation
#             (lit-install), and tests in Python, which cannot load an instrumented library.
#
#   scripts/check-sanitized.sh JOBS [native]

set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${1:-2} only=${2:-all}
scripts/install-dependencies.sh fuzz
. scripts/sanitizers.env

configure() { [ -f "build-$1/build.ninja" ] || cmake --preset "$1"; }
build() { cmake --build "build-$1" --parallel "$jobs" --target "${@:2}"; }
run() { (cd "build-$1" && ctest --output-on-failure --no-tests=error --timeout 3600 "${@:2}"); }

# Tests with threads: RuntimeHotPathTest runs operations in several threads, RuntimeFaultsTest shares a cache between
# threads.
threaded='^(NumericThreadPoolTest|NumericMatMulTest|RuntimeHotPathTest|RuntimeDriverTest|RuntimeFaultsTest)$'

configure sanitized
build sanitized native-tests
run sanitized --parallel "$jobs" -L native
configure thread-sanitized
build thread-sanitized native-tests
run thread-sanitized --parallel "$jobs" -R "$threaded"
[ "$only" = all ] || exit 0

build thread-sanitized InterpreterTests CompilerTests
run thread-sanitized -R '^(InterpreterDeviceTest|InterpreterBlockLoopTest|SimulatorTest)$'
build sanitized all
run sanitized --parallel "$jobs" -E '^lit-|^python-|Mutation|^acceptance-simulated$|^AcceptanceTests$|^support-matrix$'
(export GTEST_TOTAL_SHARDS=6 GTEST_SHARD_INDEX=0 && run sanitized -R '^AcceptanceTests$')
# lit runs its own jobs.
run sanitized -R '^lit-' -E '^lit-install$'
