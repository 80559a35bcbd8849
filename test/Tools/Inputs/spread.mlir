// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each instance adds a row to every sum, in order. A tile.spread doubles and rounds each sum after all additions.
//
//   x  [N, 4]  f32     sums  [M, 4]  f32     turns  [M]  i32     y  [M, 4]  f16

tile.kernel @add_and_round params(MORE: int = 0)
    (%x: !tile.view<[?, 4], f32>, %sums: !tile.view<[?, 4], f32>, %turns: !tile.view<[?], i32>,
     %y: !tile.view<[?, 4], f16>)
    grid(%n = dim(x, 0)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %count = tile.dim %sums, 0 : !tile.view<[?, 4], f32>
  %row = tile.load %x[%n, 0] : !tile.view<[?, 4], f32> -> tensor<1x4xf32>
  scf.for %m = %c0 to %count step %c1 : i32 {
    tile.atomic_add %row, %sums[%m, 0] in order of %n by %turns[%m]
        : tensor<1x4xf32>, !tile.view<[?, 4], f32>, !tile.view<[?], i32>
  }
  %all = tile.dim %x, 0 : !tile.view<[?, 4], f32>
  %more = tile.param MORE : i32
  %added = arith.addi %all, %more : i32
  tile.spread %m to %count {
    tile.await %added of %turns[%m] : !tile.view<[?], i32>
    %sum = tile.load %sums[%m, 0] : !tile.view<[?, 4], f32> -> tensor<1x4xf32>
    %twice = arith.addf %sum, %sum : tensor<1x4xf32>
    %rounded = tile.cast %twice : tensor<1x4xf32> -> tensor<1x4xf16>
    tile.store %rounded, %y[%m, 0] : tensor<1x4xf16>, !tile.view<[?, 4], f16>
  }
}

// The same in a program, where sums and turns are workspaces.
tile.program @rows (%x: !tile.view<[?, 4], f32>, %y: !tile.view<[?, 4], f16>) {
  %sums = tile.workspace [dim(y, 0), 4] : !tile.view<[?, 4], f32>
  %turns = tile.workspace [dim(y, 0)] fill 0 : !tile.view<[?], i32>
  tile.launch @add_and_round(%x, %sums, %turns, %y)
      : !tile.view<[?, 4], f32>, !tile.view<[?, 4], f32>, !tile.view<[?], i32>, !tile.view<[?, 4], f16>
}

// The same with products, which has roles on sm_90a: y = sum over n of x w[n], where w [64 * N, 64] has N parts. An
// instance adds to 128 rows at a time.
tile.kernel @add_products (%x: !tile.view<[?, 64], bf16>, %w: !tile.view<[?, 64], bf16>,
                           %sums: !tile.view<[?, 64], f32>, %turns: !tile.view<[?], i32>, %y: !tile.view<[?, 64], bf16>)
    grid(%n = ceildiv(dim(w, 0), 64)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %rows = tile.dim %x, 0 : !tile.view<[?, 64], bf16>
  %blocks = arith.ceildivsi %rows, %c128 : i32
  %k = arith.muli %n, %c64 : i32
  %part = tile.load %w[%k, 0] : !tile.view<[?, 64], bf16> -> tensor<64x64xbf16>
  scf.for %i = %c0 to %blocks step %c1 : i32 {
    %m = arith.muli %i, %c128 : i32
    %left = tile.load %x[%m, 0] : !tile.view<[?, 64], bf16> -> tensor<128x64xbf16>
    %product = tile.dot %left, %part : tensor<128x64xbf16>, tensor<64x64xbf16> -> tensor<128x64xf32>
    tile.atomic_add %product, %sums[%m, 0] in order of %n by %turns[%i]
        : tensor<128x64xf32>, !tile.view<[?, 64], f32>, !tile.view<[?], i32>
  }
  %depth = tile.dim %w, 0 : !tile.view<[?, 64], bf16>
  %added = arith.ceildivsi %depth, %c64 : i32
  tile.spread %i to %blocks {
    %any = arith.cmpi sgt, %added, %c0 : i32
    scf.if %any {
      %m = arith.muli %i, %c128 : i32
      tile.await %added of %turns[%i] : !tile.view<[?], i32>
      %sum = tile.load %sums[%m, 0] : !tile.view<[?, 64], f32> -> tensor<128x64xf32>
      %rounded = tile.cast %sum : tensor<128x64xf32> -> tensor<128x64xbf16>
      tile.store %rounded, %y[%m, 0] : tensor<128x64xbf16>, !tile.view<[?, 64], bf16>
    }
  }
}

tile.program @products (%x: !tile.view<[?, 64], bf16>, %w: !tile.view<[?, 64], bf16>, %y: !tile.view<[?, 64], bf16>) {
  %sums = tile.workspace [dim(x, 0), 64] : !tile.view<[?, 64], f32>
  %turns = tile.workspace [ceildiv(dim(x, 0), 128)] fill 0 : !tile.view<[?], i32>
  tile.launch @add_products(%x, %w, %sums, %turns, %y)
      : !tile.view<[?, 64], bf16>, !tile.view<[?, 64], bf16>, !tile.view<[?, 64], f32>, !tile.view<[?], i32>,
        !tile.view<[?, 64], bf16>
}
