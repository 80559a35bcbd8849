// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Floats converted to integers of both widths, and a scalar.

!x = !tile.view<[?], T>
!t = !tile.tile<[16], T>
tile.kernel @saturate params(T: type) (%x: !x, %n: !tile.view<[?], i32>, %w: !tile.view<[?], i64>, %one: !tile.view<[?], i32>) grid(%g = 1) {
  %t = tile.load %x[0] : !x -> !t
  %n_tile = tile.cast %t saturate : !t -> !tile.tile<[16], i32>
  tile.store %n_tile, %n[0] : !tile.tile<[16], i32>, !tile.view<[?], i32>
  %w_tile = tile.cast %t saturate : !t -> !tile.tile<[16], i64>
  tile.store %w_tile, %w[0] : !tile.tile<[16], i64>, !tile.view<[?], i64>
  %first = tile.at %x[1] : !x
  %number = tile.cast %first saturate : !tile.param<T> -> i32
  %one_tile = tile.full %number : !tile.tile<[1], i32>
  tile.store %one_tile, %one[0] : !tile.tile<[1], i32>, !tile.view<[?], i32>
}
