// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A role that copies pages reads their numbers before it waits for the slot, where the acquire and the copy are in one
// block: few numbers, which K and V read each, and many, which they share.
//
// RUN: tilewrightc %kernels/attention_decode.mlir --param D=128 --param T=bf16 --param GROUP=8 --param PAGE_ROWS=64 --target=sm_90a --emit=ptx | FileCheck %s --check-prefix=FEW
// RUN: tilewrightc %kernels/attention_decode.mlir --param D=128 --param T=bf16 --param GROUP=8 --param PAGE_ROWS=16 --target=sm_90a --emit=ptx | FileCheck %s --check-prefix=MANY
// RUN: tilewrightc %kernels/attention_decode.mlir --param D=128 --param T=bf16 --param GROUP=8 --target=sm_90a --emit=ptx | FileCheck %s --check-prefix=NONE
//
// The length of the sequence, then K, queries, V.
// FEW-LABEL: .entry attention_decode_part(
// FEW-COUNT-3: ld.global.b32
// FEW-NOT:     {{ld\.global|cp\.async}}
// FEW:         mbarrier.try_wait
// FEW-NOT:     ld.global
// FEW-COUNT-4: cp.async.bulk.tensor.5d
// FEW-NOT:     ld.global
// FEW-COUNT-2: cp.async.bulk.tensor.4d
// FEW-COUNT-2: ld.global.b32
// FEW-NOT:     {{ld\.global|cp\.async}}
// FEW:         mbarrier.try_wait
// FEW-NOT:     ld.global
// FEW-COUNT-4: cp.async.bulk.tensor.5d
// FEW-NOT:     ld.global
// FEW-LABEL:   .entry attention_decode_merge(
//
// Eight numbers by two vectors, or one by one.
// MANY-LABEL:   .entry attention_decode_part(
// MANY:         ld.global.b32
// MANY-COUNT-2: ld.global.v4
// MANY-NOT:     cp.async
// MANY:         mbarrier.try_wait
// MANY:         cp.async.bulk.tensor.5d
// MANY-LABEL:   .entry attention_decode_merge(
//
// Without pages, only the length is read.
// NONE-LABEL: .entry attention_decode_part(
// NONE:       ld.global.b32
// NONE-NOT:   ld.global
// NONE-LABEL: .entry attention_decode_merge(
