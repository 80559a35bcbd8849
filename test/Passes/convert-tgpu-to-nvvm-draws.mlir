// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random numbers of 16 bits whose half of a word is a bit of the lane: two lanes draw a block of Philox each, and
// exchange halves. Inputs/run_lanes.py executes the code of each thread and compares all decisions with the definition.
// RUN: tilewright-opt %s --tgpu-plan-shared-memory --convert-tgpu-to-nvvm -o %t
// RUN: FileCheck %s --input-file=%t
// RUN: %python %S/Inputs/run_lanes.py %t | FileCheck %s --check-prefix=LANES
// RUN: tilewright-opt %s --tgpu-plan-shared-memory --convert-tgpu-to-nvvm | sed 's/30258 : i32/30256 : i32/' > %t.wrong
// RUN: not %python %S/Inputs/run_lanes.py %t.wrong 2>&1 | FileCheck %s --check-prefix=WRONG

// LANES: transposed: 16384 decisions, 0 wrong
// LANES: rows_of_three: 12288 decisions, 0 wrong
// LANES: accumulator: 16384 decisions, 0 wrong
// LANES: used_twice: 16384 decisions, 0 wrong
// LANES: half_in_register: 16384 decisions, 0 wrong
// LANES: unknown_start: 16384 decisions, 0 wrong
// LANES: own_key: 16384 decisions, 0 wrong
// WRONG: run_lanes.py: transposed: {{[0-9]+}} of 16384 decisions are wrong

#m = #tgpu.mma<4, 1>
#w = #tgpu.wgmma<1>

func.func private @keep(%key: i32, %query: i32, %head: i32, %seed: i64, %offset: i64, %t: i32) -> i32 {
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c6 = arith.constant 6 : i32
  %c8 = arith.constant 8 : i32
  %not_8 = arith.constant -9 : i32
  %not_15 = arith.constant -16 : i32
  %query_3 = arith.andi %query, %c8 : i32
  %query_others = arith.andi %query, %not_8 : i32
  %key_0 = arith.andi %key, %c1 : i32
  %key_1_2 = arith.andi %key, %c6 : i32
  %key_3 = arith.andi %key, %c8 : i32
  %key_upper = arith.andi %key, %not_15 : i32
  %n_2 = arith.shrui %query_3, %c1 : i32
  %n_1 = arith.shrui %key_3, %c2 : i32
  %n_4_3 = arith.shli %key_1_2, %c2 : i32
  %n_upper = arith.shli %key_upper, %c1 : i32
  %n_1_0 = arith.ori %n_1, %key_0 : i32
  %n_2_0 = arith.ori %n_2, %n_1_0 : i32
  %n_4_0 = arith.ori %n_4_3, %n_2_0 : i32
  %n = arith.ori %n_upper, %n_4_0 : i32
  %bits = tile.random %seed, %offset at (%n, %query_others, %head) bits 16 rounds 7 : i32
  %c16 = arith.constant 16 : i32
  %threshold = arith.shli %t, %c16 : i32
  %dropped = arith.cmpi ult, %bits, %threshold : i32
  %c0 = arith.constant 0 : i32
  %kept = arith.select %dropped, %c0, %c1 : i32
  return %kept : i32
}
func.func private @keep_by_own_key(%key: i32, %query: i32, %head: i32, %seed: i64, %offset: i64, %t: i32) -> i32 {
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c6 = arith.constant 6 : i32
  %c8 = arith.constant 8 : i32
  %not_8 = arith.constant -9 : i32
  %not_15 = arith.constant -16 : i32
  %query_3 = arith.andi %query, %c8 : i32
  %query_others = arith.andi %query, %not_8 : i32
  %key_0 = arith.andi %key, %c1 : i32
  %key_1_2 = arith.andi %key, %c6 : i32
  %key_3 = arith.andi %key, %c8 : i32
  %key_upper = arith.andi %key, %not_15 : i32
  %n_2 = arith.shrui %query_3, %c1 : i32
  %n_1 = arith.shrui %key_3, %c2 : i32
  %n_4_3 = arith.shli %key_1_2, %c2 : i32
  %n_upper = arith.shli %key_upper, %c1 : i32
  %n_1_0 = arith.ori %n_1, %key_0 : i32
  %n_2_0 = arith.ori %n_2, %n_1_0 : i32
  %n_4_0 = arith.ori %n_4_3, %n_2_0 : i32
  %n = arith.ori %n_upper, %n_4_0 : i32
  %row = arith.extui %query : i32 to i64
  %own = arith.addi %seed, %row : i64
  %bits = tile.random %own, %offset at (%n, %query_others, %head) bits 16 rounds 7 : i32
  %c16 = arith.constant 16 : i32
  %threshold = arith.shli %t, %c16 : i32
  %dropped = arith.cmpi ult, %bits, %threshold : i32
  %c0 = arith.constant 0 : i32
  %kept = arith.select %dropped, %c0, %c1 : i32
  return %kept : i32
}
func.func private @keep_transposed(%query: i32, %key: i32, %head: i32, %seed: i64, %offset: i64, %t: i32) -> i32 {
  %kept = func.call @keep(%key, %query, %head, %seed, %offset, %t) : (i32, i32, i32, i64, i64, i32) -> i32
  return %kept : i32
}
func.func private @number(%key: i32, %query: i32, %head: i32, %seed: i64, %offset: i64) -> i32 {
  %bits = tile.random %seed, %offset at (%key, %query, %head) bits 16 rounds 7 : i32
  return %bits : i32
}

// A thread has 32 elements of 8 blocks, of which it draws 4: 7 rounds of two products, but for the other factors that
// round 1 has in common. Two words of each are passed on.
// CHECK-LABEL: llvm.func @transposed
// CHECK-COUNT-8: llvm.nvvm.shfl.sync.bfly
// CHECK-NOT:     llvm.nvvm.shfl.sync.bfly
tgpu.kernel @transposed target "sm_80" warps 4 (%out: !tile.view<[?, ?], i32>) grid(%i = 4, %j = 4) {
  %seed = arith.constant 81985529216486895 : i64
  %offset = arith.constant 12884901893 : i64
  %t = arith.constant 20000 : i32
  %head = arith.constant 5 : i32
  %c64 = arith.constant 64 : i32
  %n = arith.muli %i, %c64 : i32
  %cols = arith.constant 64 : i32
  %m = arith.muli %j, %cols : i32
  %rows = tile.iota %n dim 0 : tensor<64x64xi32, #m>
  %columns = tile.iota %m dim 1 : tensor<64x64xi32, #m>
  %kept = tile.map @keep(%rows, %columns, %head, %seed, %offset, %t)
      : (tensor<64x64xi32, #m>, tensor<64x64xi32, #m>, i32, i64, i64, i32) -> tensor<64x64xi32, #m>
  tgpu.store %kept, %out[%n, %m] : tensor<64x64xi32, #m>, !tile.view<[?, ?], i32>
}

// 48 columns from a multiple of 48: bits of the column from bit 4 on are known to depend on the register only.
// CHECK-LABEL: llvm.func @rows_of_three
// CHECK-COUNT-6: llvm.nvvm.shfl.sync.bfly
// CHECK-NOT:     llvm.nvvm.shfl.sync.bfly
tgpu.kernel @rows_of_three target "sm_80" warps 4 (%out: !tile.view<[?, ?], i32>) grid(%i = 4, %j = 4) {
  %seed = arith.constant 81985529216486895 : i64
  %offset = arith.constant 12884901893 : i64
  %t = arith.constant 20000 : i32
  %head = arith.constant 5 : i32
  %c64 = arith.constant 64 : i32
  %n = arith.muli %i, %c64 : i32
  %cols = arith.constant 48 : i32
  %m = arith.muli %j, %cols : i32
  %rows = tile.iota %n dim 0 : tensor<64x48xi32, #m>
  %columns = tile.iota %m dim 1 : tensor<64x48xi32, #m>
  %kept = tile.map @keep(%rows, %columns, %head, %seed, %offset, %t)
      : (tensor<64x48xi32, #m>, tensor<64x48xi32, #m>, i32, i64, i64, i32) -> tensor<64x48xi32, #m>
  tgpu.store %kept, %out[%n, %m] : tensor<64x48xi32, #m>, !tile.view<[?, ?], i32>
}

// CHECK-LABEL: llvm.func @accumulator
// CHECK-COUNT-8: llvm.nvvm.shfl.sync.bfly
// CHECK-NOT:     llvm.nvvm.shfl.sync.bfly
tgpu.kernel @accumulator target "sm_90a" warps 4 (%out: !tile.view<[?, ?], i32>) grid(%i = 4, %j = 4) {
  %seed = arith.constant 81985529216486895 : i64
  %offset = arith.constant 12884901893 : i64
  %t = arith.constant 20000 : i32
  %head = arith.constant 5 : i32
  %c64 = arith.constant 64 : i32
  %n = arith.muli %i, %c64 : i32
  %cols = arith.constant 64 : i32
  %m = arith.muli %j, %cols : i32
  %rows = tile.iota %n dim 0 : tensor<64x64xi32, #w>
  %columns = tile.iota %m dim 1 : tensor<64x64xi32, #w>
  %kept = tile.map @keep(%rows, %columns, %head, %seed, %offset, %t)
      : (tensor<64x64xi32, #w>, tensor<64x64xi32, #w>, i32, i64, i64, i32) -> tensor<64x64xi32, #w>
  tgpu.store %kept, %out[%n, %m] : tensor<64x64xi32, #w>, !tile.view<[?, ?], i32>
}

// The second map takes the numbers that the first one drew.
// CHECK-LABEL: llvm.func @used_twice
// CHECK-COUNT-8: llvm.nvvm.shfl.sync.bfly
// CHECK-NOT:     llvm.nvvm.shfl.sync.bfly
tgpu.kernel @used_twice target "sm_80" warps 4 (%out: !tile.view<[?, ?], i32>) grid(%i = 4, %j = 4) {
  %seed = arith.constant 81985529216486895 : i64
  %offset = arith.constant 12884901893 : i64
  %t = arith.constant 20000 : i32
  %head = arith.constant 5 : i32
  %c64 = arith.constant 64 : i32
  %n = arith.muli %i, %c64 : i32
  %cols = arith.constant 64 : i32
  %m = arith.muli %j, %cols : i32
  %rows = tile.iota %n dim 0 : tensor<64x64xi32, #m>
  %columns = tile.iota %m dim 1 : tensor<64x64xi32, #m>
  %kept = tile.map @keep(%rows, %columns, %head, %seed, %offset, %t)
      : (tensor<64x64xi32, #m>, tensor<64x64xi32, #m>, i32, i64, i64, i32) -> tensor<64x64xi32, #m>
  tgpu.store %kept, %out[%n, %m] : tensor<64x64xi32, #m>, !tile.view<[?, ?], i32>
  %less = arith.constant 10000 : i32
  %again = tile.map @keep(%rows, %columns, %head, %seed, %offset, %less)
      : (tensor<64x64xi32, #m>, tensor<64x64xi32, #m>, i32, i64, i64, i32) -> tensor<64x64xi32, #m>
  tgpu.store %again, %out[%n, %m] : tensor<64x64xi32, #m>, !tile.view<[?, ?], i32>
}

// A thread has both halves of each word.
// CHECK-LABEL: llvm.func @half_in_register
// CHECK-NOT:     llvm.nvvm.shfl.sync.bfly
tgpu.kernel @half_in_register target "sm_80" warps 4 (%out: !tile.view<[?, ?], i32>) grid(%i = 4, %j = 4) {
  %seed = arith.constant 81985529216486895 : i64
  %offset = arith.constant 12884901893 : i64
  %t = arith.constant 20000 : i32
  %head = arith.constant 5 : i32
  %c64 = arith.constant 64 : i32
  %n = arith.muli %i, %c64 : i32
  %cols = arith.constant 64 : i32
  %m = arith.muli %j, %cols : i32
  %rows = tile.iota %n dim 0 : tensor<64x64xi32, #m>
  %columns = tile.iota %m dim 1 : tensor<64x64xi32, #m>
  %kept = tile.map @keep_transposed(%rows, %columns, %head, %seed, %offset, %t)
      : (tensor<64x64xi32, #m>, tensor<64x64xi32, #m>, i32, i64, i64, i32) -> tensor<64x64xi32, #m>
  tgpu.store %kept, %out[%n, %m] : tensor<64x64xi32, #m>, !tile.view<[?, ?], i32>
}

// Bit 0 of a key is not known to be a bit of the lane.
// CHECK-LABEL: llvm.func @unknown_start
// CHECK-NOT:     llvm.nvvm.shfl.sync.bfly
tgpu.kernel @unknown_start target "sm_80" warps 4 (%out: !tile.view<[?, ?], i32>) grid(%i = 4, %j = 4) {
  %seed = arith.constant 81985529216486895 : i64
  %offset = arith.constant 12884901893 : i64
  %t = arith.constant 20000 : i32
  %head = arith.constant 5 : i32
  %c64 = arith.constant 64 : i32
  %n = arith.addi %i, %c64 : i32
  %cols = arith.constant 64 : i32
  %m = arith.muli %j, %cols : i32
  %rows = tile.iota %n dim 0 : tensor<64x64xi32, #m>
  %columns = tile.iota %m dim 1 : tensor<64x64xi32, #m>
  %kept = tile.map @keep(%rows, %columns, %head, %seed, %offset, %t)
      : (tensor<64x64xi32, #m>, tensor<64x64xi32, #m>, i32, i64, i64, i32) -> tensor<64x64xi32, #m>
  tgpu.store %kept, %out[%n, %m] : tensor<64x64xi32, #m>, !tile.view<[?, ?], i32>
}

// The key of a number depends on its query.
// CHECK-LABEL: llvm.func @own_key
// CHECK-NOT:     llvm.nvvm.shfl.sync.bfly
tgpu.kernel @own_key target "sm_80" warps 4 (%out: !tile.view<[?, ?], i32>) grid(%i = 4, %j = 4) {
  %seed = arith.constant 81985529216486895 : i64
  %offset = arith.constant 12884901893 : i64
  %t = arith.constant 20000 : i32
  %head = arith.constant 5 : i32
  %c64 = arith.constant 64 : i32
  %n = arith.muli %i, %c64 : i32
  %cols = arith.constant 64 : i32
  %m = arith.muli %j, %cols : i32
  %rows = tile.iota %n dim 0 : tensor<64x64xi32, #m>
  %columns = tile.iota %m dim 1 : tensor<64x64xi32, #m>
  %kept = tile.map @keep_by_own_key(%rows, %columns, %head, %seed, %offset, %t)
      : (tensor<64x64xi32, #m>, tensor<64x64xi32, #m>, i32, i64, i64, i32) -> tensor<64x64xi32, #m>
  tgpu.store %kept, %out[%n, %m] : tensor<64x64xi32, #m>, !tile.view<[?, ?], i32>
}

// The lower half of a result of tile.random is used, too.
// CHECK-LABEL: llvm.func @whole_number
// CHECK-NOT:     llvm.nvvm.shfl.sync.bfly
tgpu.kernel @whole_number target "sm_80" warps 4 (%out: !tile.view<[?, ?], i32>) grid(%i = 4, %j = 4) {
  %seed = arith.constant 81985529216486895 : i64
  %offset = arith.constant 12884901893 : i64
  %t = arith.constant 20000 : i32
  %head = arith.constant 5 : i32
  %c64 = arith.constant 64 : i32
  %n = arith.muli %i, %c64 : i32
  %cols = arith.constant 64 : i32
  %m = arith.muli %j, %cols : i32
  %rows = tile.iota %n dim 0 : tensor<64x64xi32, #m>
  %columns = tile.iota %m dim 1 : tensor<64x64xi32, #m>
  %kept = tile.map @number(%rows, %columns, %head, %seed, %offset)
      : (tensor<64x64xi32, #m>, tensor<64x64xi32, #m>, i32, i64, i64) -> tensor<64x64xi32, #m>
  tgpu.store %kept, %out[%n, %m] : tensor<64x64xi32, #m>, !tile.view<[?, ?], i32>
}
