// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Conversions to i8: of integers, whose low bits stay, and of floats, to the nearest. Sums of i8 do not exist.

!numbers = !tile.view<[?], i32>
!floats  = !tile.view<[?], f32>
!bytes   = !tile.view<[?], i8>

tile.kernel @convert params(SUM: flag = false) (%x: !numbers, %y: !floats, %low: !bytes, %near: !bytes) grid(%n = 1) {
  %x_tile = tile.load %x[0] : !numbers -> !tile.tile<[16], i32>
  %y_tile = tile.load %y[0] : !floats -> !tile.tile<[16], f32>
  %low_tile = tile.cast %x_tile : !tile.tile<[16], i32> -> !tile.tile<[16], i8>
  %near_tile = tile.cast %y_tile saturate : !tile.tile<[16], f32> -> !tile.tile<[16], i8>
  %sum = tile.param SUM : i1
  %result = scf.if %sum -> (!tile.tile<[16], i8>) {
    %both = arith.addi %low_tile, %near_tile : !tile.tile<[16], i8>
    scf.yield %both : !tile.tile<[16], i8>
  } else {
    scf.yield %near_tile : !tile.tile<[16], i8>
  }
  tile.store %low_tile, %low[0] : !tile.tile<[16], i8>, !bytes
  tile.store %result, %near[0] : !tile.tile<[16], i8>, !bytes
}
