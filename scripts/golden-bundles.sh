#!/bin/bash
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Makes bundles of the handwritten attention forwards in test/Tgpu, to compare their times with the compiler's kernel.
# Each bundle has one entry, for sm_90a, with the name and the parameters of attention_forward.
#
#   scripts/golden-bundles.sh OUT [FOLDER_OF_TOOLS]
#   bench/peers.py --direction forward --against golden=$(ls OUT/*.twb | paste -sd,) \
#     --against golden128=OUT/attention_forward_sm90_d128_n128.twb

set -euo pipefail
cd "$(dirname "$0")/.."
out=$1
tools=${2:-build/bin}

mkdir -p "$out"
for golden in test/Tgpu/attention_forward_sm90_d*.mlir; do
  name=$(basename "$golden" .mlir)
  "$tools/tilewright-opt" "$golden" --tgpu-plan-shared-memory -o "$out/$name.tgpu.mlir"
  "$tools/tilewrightc" "$out/$name.tgpu.mlir" --target=sm_90a --emit=bundle -o "$out/$name.twb"
done
