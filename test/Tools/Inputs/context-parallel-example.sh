#!/usr/bin/env bash
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# context-parallel-example.sh TILEWRIGHTC KERNELS FOLDER PROGRAM BIN: runs examples/context_parallel.cpp with two and four
# ranks on the CPU device, with tilewright-run of the folder BIN. All results must be right. Then it compiles the bundles
# for GPUs in FOLDER, and runs the program with them, with libraries of BIN/test/lib in place of the driver and NCCL: kernels
# do nothing then, but each launch must have its code and arguments.
set -euo pipefail

tilewrightc=$1 kernels=$2 folder=$3 program=$4 bin=$5
rm -rf "$folder"
mkdir -p "$folder"
cd "$folder"
export TILEWRIGHT_RUN=$bin/tilewright-run

expect() { # TEXT FILE: a line that matches
  if ! grep -Eq "$1" "$2"; then
    echo "no line of $2 matches '$1':"
    cat "$2"
    exit 1
  fi
}
refuse() { # TEXT ARGUMENTS: the program fails with it
  if "$program" "${@:2}" >refused.txt 2>&1; then
    echo "was not refused: ${*:2}"
    exit 1
  fi
  expect "$1" refused.txt
}

for ranks in 2 4; do
  "$program" --check "--ranks=$ranks" --heads=4 --key-heads=2 --type=f16 --steps=3 "--kernels=$kernels" >log.txt
  cat log.txt
  expect "^$ranks ranks on the CPU device: 96 rows, 4 heads on 2, width 16, f16, zigzag\$" log.txt
  expect '^greatest error .* \(4.0e-03 allowed\): ok$' log.txt
done
"$program" --check --rows=33 --order=contiguous --heads=2 --key-heads=1 --steps=1 "--kernels=$kernels" >log.txt
cat log.txt
expect '^2 ranks on the CPU device: 33 rows, 2 heads on 1, width 16, bf16, contiguous$' log.txt
expect '^greatest error .* \(3.0e-02 allowed\): ok$' log.txt

refuse "^context_parallel: unknown option '--row=3'; expected --ranks=" --row=3
refuse "^context_parallel: --rows must be a number of at least 1, but got '0'\$" --rows=0
refuse '^context_parallel: --heads must be a multiple of --key-heads$' --heads=3
refuse "^context_parallel: cannot read 'nowhere/attention_forward.mlir'" --kernels=nowhere
TILEWRIGHT_RUN=/nowhere/tilewright-run refuse \
  "^context_parallel: the CPU device needs the program tilewright-run, but '/nowhere/tilewright-run' cannot be started" \
  "--kernels=$kernels"

compile() {
  "$tilewrightc" "$kernels/$1.mlir" --param D=64 --param T=bf16 --target=sm_90a "${@:3}" --emit=bundle -o "$2"
}
compile attention_forward forward.twb --param CAUSAL=top_left --param SHARD=true --variant CONTINUED=false,TO=bf16 \
  --variant CONTINUED=false,TO=f32 --variant CONTINUED=true,TO=bf16 --variant CONTINUED=true,TO=f32
compile attention_decode decode.twb --param GROUP=4
compile attention_merge merge.twb
mkdir libraries
ln -s "$bin/test/lib/libfake-cuda.so" libraries/libcuda.so.1
export LD_LIBRARY_PATH=$PWD/libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} TILEWRIGHT_NCCL=$bin/test/lib/libfake-nccl.so
for ranks in 2 4; do
  "$program" "--ranks=$ranks" --dim=64 --rows=2000 forward.twb decode.twb merge.twb >log.txt
  expect "^$ranks ranks on GPUs, by NCCL: 2000 rows, 16 heads on 4, width 64, bf16, zigzag\$" log.txt
  expect "^rank $((ranks - 1)): prefill .* launches, .* MB received; a token .* ms\$" log.txt
done
"$program" --ranks=5 forward.twb >log.txt
expect '^context_parallel: SKIPPED, it needs 5 GPUs: there are 4$' log.txt
refuse "^context_parallel: 'forward.twb' has no kernel or program 'attention_decode'" --dim=64 --rows=64 forward.twb
refuse "^context_parallel: 'forward.twb' has no variant of 'attention_forward' for D = 128" --rows=64 forward.twb decode.twb merge.twb
FAKE_CUDA_FAIL=cuLaunchKernel refuse "^context_parallel: cannot launch kernel 'attention_forward'" --dim=64 --rows=64 \
  --timeout=2 forward.twb decode.twb merge.twb
TILEWRIGHT_NCCL=/nowhere/libnccl.so.2 refuse "^context_parallel: no NCCL: '/nowhere/libnccl.so.2' cannot be opened" \
  --dim=64 forward.twb
