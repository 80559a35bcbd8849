#!/bin/bash
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds the fuzz targets with clang, AddressSanitizer and UndefinedBehaviorSanitizer, and runs each of them for SECONDS.
# The initial inputs are test/Fuzz/corpus, for targets that read .mlir also the kernels and tests of the tree, and the
# inputs of earlier runs, which are kept in build-sanitized/corpus. An input that fails is written to
# build-sanitized/findings.
#
#   scripts/fuzz.sh [SECONDS] [TARGET...]     the default is all targets; `runtime` is those without MLIR

set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
shift || true
runtime=(BundleFuzzer CacheFuzzer CApiFuzzer ExprFuzzer NpyFuzzer TimelineFuzzer)
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  targets=("${runtime[@]}" OptionsFuzzer SpecializeFuzzer TgpuFuzzer)
elif [ "${targets[*]}" = runtime ]; then
  targets=("${runtime[@]}")
fi

scripts/install-dependencies.sh fuzz
. scripts/sanitizers.env
build=build-sanitized
[ -f $build/build.ninja ] || cmake --preset sanitized
cmake --build $build --target "${targets[@]}"

copy_seeds() {
  local to=$1
  shift
  mkdir -p "$to"
  find "$@" -name '*.mlir' | while read -r file; do
    cp "$file" "$to/${file//\//_}"
  done
}
mkdir -p $build/findings
for name in "${targets[@]}"; do
  echo "== $name: $seconds s"
  corpora=("$build/corpus/$name")
  most=20000
  mkdir -p "${corpora[0]}"
  [ ! -d "test/Fuzz/corpus/$name" ] || corpora+=("test/Fuzz/corpus/$name")
  case $name in
    SpecializeFuzzer)
      copy_seeds $build/corpus/tile kernels test/Dialect test/Passes
      corpora+=($build/corpus/tile) ;;
    TgpuFuzzer)
      most=65536
      copy_seeds $build/corpus/tgpu test/Tgpu test/Dialect
      corpora+=($build/corpus/tgpu) ;;
  esac
  "$build/bin/fuzz/$name" -max_total_time="$seconds" -max_len=$most -timeout=25 -rss_limit_mb=4096 -print_final_stats=1 \
    -artifact_prefix=$build/findings/"$name"- "${corpora[@]}" 2>&1 |
    grep -vE '^#[0-9]+[[:space:]]+(NEW|REDUCE)|NEW_FUNC'
done
