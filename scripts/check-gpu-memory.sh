#!/bin/bash
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Runs tests of a cache on a GPU under compute-sanitizer of the CUDA toolkit:
#
#   memcheck   GpuTests, with leaks, and AcceptanceTests with the code of each target
#   racecheck  AcceptanceTests with the code for sm_80, whose copies and barriers are those of threads. Accesses to shared
#              memory by copies of the Hopper kind are ordered in ways that the tool may not follow; the simulator checks
#              these (acceptance-simulated)
#
#   scripts/check-gpu-memory.sh BIN/TEST [FILTER]
#
# BIN/TEST is the folder of the binaries, build/bin/test; FILTER a GoogleTest filter, by default '*Decode*:*Cached*'.
# $TARGETS are the targets, by default "sm_80 sm_90a", $COMPUTE_SANITIZER the command. Without a GPU tests are skipped, so
# that the script fails: it requires that each run passes a test.

set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { sed -n 's/^# \?//; 4,15p' "$0"; exit 2; }
tests=$1 filter=${2:-*Decode*:*Cached*} targets=${TARGETS:-sm_80 sm_90a} sanitizer=${COMPUTE_SANITIZER:-compute-sanitizer}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# check NAME COMMAND...: runs the command; it must succeed and have passed tests.
check() {
  local name=$1 passed
  shift
  echo "== $name"
  if ! "$@" > "$log" 2>&1; then
    tail -n 60 "$log"
    echo "check-gpu-memory: $name failed" >&2
    exit 1
  fi
  passed=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) tests*\..*/\1/p' "$log" | tail -n 1)
  if [ "${passed:-0}" = 0 ]; then
    tail -n 20 "$log"
    echo "check-gpu-memory: $name has passed no test: there must be a GPU, and the filter must match tests" >&2
    exit 1
  fi
  grep -E '^=+ (ERROR|RACECHECK|LEAK) SUMMARY' "$log" || true
  echo "$passed tests passed"
}

export TILEWRIGHT_TEST_DEVICE=cuda
check "memcheck, GpuTests" "$sanitizer" --tool memcheck --leak-check full --error-exitcode 1 \
    "$tests/GpuTests" "--gtest_filter=$filter"
for target in $targets; do
  check "memcheck, $target" env "TILEWRIGHT_TEST_TARGET=$target" "$sanitizer" --tool memcheck --error-exitcode 1 \
      "$tests/AcceptanceTests" "--gtest_filter=$filter"
done
check "racecheck, sm_80" env TILEWRIGHT_TEST_TARGET=sm_80 "$sanitizer" --tool racecheck --racecheck-report all --error-exitcode 1 \
    "$tests/AcceptanceTests" "--gtest_filter=$filter"
echo "check-gpu-memory: no errors"
