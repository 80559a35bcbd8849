#!/bin/bash
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds the fuzz targets with clang and runs each of them for a while, beginning from the kernels of the tree.
#
#   scripts/fuzz.sh [SECONDS]

set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}

scripts/install-dependencies.sh fuzz
[ -f build-fuzz/build.ninja ] || cmake --preset fuzz
cmake --build build-fuzz --target fuzzers

seeds=build-fuzz/corpus/seeds
mkdir -p "$seeds" build-fuzz/findings
find kernels test/Dialect test/Passes -name '*.mlir' | while read -r file; do
  cp "$file" "$seeds/${file//\//_}"
done

shopt -s nullglob
fuzzers=(build-fuzz/bin/fuzz/*)
[ ${#fuzzers[@]} -ne 0 ] || { echo "fuzz.sh: no fuzz target was built" >&2; exit 1; }
for fuzzer in "${fuzzers[@]}"; do
  name=$(basename "$fuzzer")
  echo "== $name: $seconds s"
  mkdir -p "build-fuzz/corpus/$name"
  "$fuzzer" -max_total_time="$seconds" -max_len=20000 -timeout=25 -rss_limit_mb=4096 -print_final_stats=1 \
    -artifact_prefix=build-fuzz/findings/ "build-fuzz/corpus/$name" "$seeds" 2>&1 |
    grep -vE '^#[0-9]+[[:space:]]+(NEW|REDUCE)|NEW_FUNC'
done
