// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --tile-overlap-launches=target=sm_90a | FileCheck %s
// RUN: tilewright-opt %s --tile-overlap-launches=target=sm_80 | FileCheck %s --check-prefix=NONE
// RUN: tilewright-opt %s --tile-overlap-launches=target=cpu | FileCheck %s --check-prefix=NONE
// RUN: tilewrightc %s --program=three --target=sm_90a --emit=tgpu | FileCheck %s --check-prefix=MAPPED
// RUN: tilewrightc %s --program=three --target=sm_90a --emit=bundle -o %t.twb
// RUN: grep -ao '"abi":.*' %t.twb | FileCheck %s --check-prefix=BUNDLE
// RUN: tilewrightc %s --program=three --target=sm_90a --emit=ptx -o %t.ptx
// RUN: tilewrightc %s --program=three --target=sm_90a --emit=bundle --code %t.ptx -o %t.twb
// RUN: grep -ao '"abi":.*' %t.twb | FileCheck %s --check-prefix=BUNDLE
// RUN: sed 's/griddepcontrol.wait;/griddepcontrol.launch_dependents;/' %t.ptx > %t.without.ptx
// RUN: tilewrightc %s --program=three --target=sm_90a --emit=bundle --code %t.without.ptx -o %t.twb
// RUN: grep -ao '"abi":.*' %t.twb | FileCheck %s --check-prefix=WITHOUT

// Marks of an author, for runs that follow each other. Other targets have none.
// RUN: tilewrightc %kernels/attention_append.mlir --param D=64 --param T=f16 --target=sm_90a --emit=tgpu | FileCheck %s --check-prefix=APPEND
// RUN: tilewrightc %kernels/attention_append.mlir --param D=64 --param T=f16 --target=sm_80 --emit=tgpu | FileCheck %s --check-prefix=NONE
// RUN: tilewrightc %kernels/attention_decode.mlir --param D=64 --param T=f16 --target=sm_90a --emit=tgpu | FileCheck %s --check-prefix=DECODE
// RUN: tilewrightc %kernels/attention_decode.mlir --param D=64 --param T=f16 --target=sm_80 --emit=tgpu | FileCheck %s --check-prefix=NONE
// APPEND: tgpu.kernel @attention_append
// APPEND: tgpu.allows_run, tgpu.awaits_launch
// DECODE: tgpu.kernel @attention_decode_part
// DECODE: tgpu.allows_launch, tgpu.awaits_launch
// DECODE: tgpu.kernel @attention_decode_merge
// DECODE: tgpu.allows_run, tgpu.awaits_launch

// NONE-NOT: s_launch
// NONE-NOT: allows_run

// The first launch follows none, the last precedes none. One with a condition may be left out: the launch after it then
// waits for the one before it.
// CHECK: tile.kernel @first
// CHECK: attributes {tgpu.allows_launch}
// CHECK: tile.kernel @middle
// CHECK: attributes {tgpu.allows_launch, tgpu.awaits_launch}
// CHECK: tile.kernel @last
// CHECK: attributes {tgpu.allows_run, tgpu.awaits_launch}
// CHECK: tile.kernel @alone
// CHECK-NOT: attributes
// One that is the last of a program and the first of another has all.
// CHECK: tile.kernel @shared
// CHECK: attributes {tgpu.allows_launch, tgpu.allows_run, tgpu.awaits_launch}
// MAPPED: tgpu.kernel @first
// MAPPED: tgpu.allows_launch}
// MAPPED: tgpu.kernel @middle
// MAPPED: tgpu.allows_launch, tgpu.awaits_launch}
// MAPPED: tgpu.kernel @last
// MAPPED: attributes {shared_bytes = 0 : i64, tgpu.allows_run, tgpu.awaits_launch}
// BUNDLE: "abi":5
// BUNDLE-SAME: "name":"first"
// BUNDLE-NOT:  "awaits_launch"
// BUNDLE-SAME: "allows_launch":true{{.*}}"name":"middle"{{.*}}"awaits_launch":true,"allows_launch":true
// BUNDLE-SAME: "name":"last"{{.*}}"awaits_launch":true
// BUNDLE-NOT:  "allows_launch"

// Given code that does not wait for the previous launch never overlaps with it.
// WITHOUT: "abi":5
// WITHOUT-NOT: "awaits_launch":true
tile.kernel @first (%x: !tile.view<[?], f32>) grid(%i = dim(x, 0)) {
  %a = tile.load %x[%i] : !tile.view<[?], f32> -> tensor<1xf32>
  tile.store %a, %x[%i] : tensor<1xf32>, !tile.view<[?], f32>
}
tile.kernel @middle (%x: !tile.view<[?], f32>) grid(%i = dim(x, 0)) {
  %a = tile.load %x[%i] : !tile.view<[?], f32> -> tensor<1xf32>
  tile.store %a, %x[%i] : tensor<1xf32>, !tile.view<[?], f32>
}
tile.kernel @last (%x: !tile.view<[?], f32>) grid(%i = dim(x, 0)) {
  %a = tile.load %x[%i] : !tile.view<[?], f32> -> tensor<1xf32>
  tile.store %a, %x[%i] : tensor<1xf32>, !tile.view<[?], f32>
}
tile.kernel @alone (%x: !tile.view<[?], f32>) grid(%i = dim(x, 0)) {
  %a = tile.load %x[%i] : !tile.view<[?], f32> -> tensor<1xf32>
  tile.store %a, %x[%i] : tensor<1xf32>, !tile.view<[?], f32>
}
tile.kernel @shared (%x: !tile.view<[?], f32>) grid(%i = dim(x, 0)) {
  %a = tile.load %x[%i] : !tile.view<[?], f32> -> tensor<1xf32>
  tile.store %a, %x[%i] : tensor<1xf32>, !tile.view<[?], f32>
}
tile.program @ends_with_it (%x: !tile.view<[?], f32>) {
  tile.launch @first(%x) : !tile.view<[?], f32>
  tile.launch @shared(%x) : !tile.view<[?], f32>
}
tile.program @begins_with_it (%x: !tile.view<[?], f32>) {
  tile.launch @shared(%x) : !tile.view<[?], f32>
  tile.launch @last(%x) : !tile.view<[?], f32>
}
tile.program @three (%x: !tile.view<[?], f32>) {
  tile.launch @first(%x) : !tile.view<[?], f32>
  tile.launch @middle(%x) when (dim(x, 0) > 4) : !tile.view<[?], f32>
  tile.launch @last(%x) : !tile.view<[?], f32>
}
tile.program @one (%x: !tile.view<[?], f32>) {
  tile.launch @alone(%x) : !tile.view<[?], f32>
}
