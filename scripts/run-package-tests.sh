#!/bin/bash
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Runs all tests of the package, which has this file in its root as run-tests.sh. Needs no other installed software.
#
#   ./run-tests.sh [FILTER]      FILTER: a GoogleTest filter. TILEWRIGHT_TEST_TIER=full runs the full tier of tests

cd "$(dirname "$0")" || exit 1
export PATH="$PWD/bin:$PATH"
failed=()
for test in test/*; do
  [ -f "$test" ] || continue # what tests read
  echo "== ${test#test/}"
  "$test" --gtest_brief=1 ${1:+--gtest_filter="$1"} || failed+=("${test#test/}")
done
if nvidia-smi -L >/dev/null 2>&1; then
  echo "== AcceptanceTests on the GPU"
  TILEWRIGHT_TEST_DEVICE=cuda test/AcceptanceTests --gtest_brief=1 ${1:+--gtest_filter="$1"} || failed+=("AcceptanceTests on the GPU")
else
  echo "== AcceptanceTests on the GPU: skipped, there is no GPU"
fi
echo "== tilewright-demo"
bin/tilewright-demo || failed+=(tilewright-demo)
echo "== gpu_attention"
bundles=$(mktemp -d)
for direction in forward backward; do
  bin/tilewrightc kernels/attention_$direction.mlir --param D=64 --param T=f16 --param CAUSAL=top_left --emit=bundle \
    -o "$bundles/$direction.twb"
done
bin/gpu_attention "$bundles/forward.twb" "$bundles/backward.twb" || failed+=(gpu_attention)
rm -rf "$bundles"
if command -v python3 >/dev/null; then
  echo "== python/tests"
  python3 -B python/tests/run.py || failed+=(python)
fi
if [ ${#failed[@]} -ne 0 ]; then
  echo "FAILED: ${failed[*]}"
  exit 1
fi
echo "every test passed"
