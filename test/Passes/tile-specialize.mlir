// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Binding of kernels and programs. Errors are in tile-specialize-errors.mlir.
//
// RUN: tilewright-opt %s --tile-specialize='entry=scale params=T=f16' --verify-roundtrip | FileCheck %s --check-prefix=SCALE
// RUN: tilewright-opt %s --tile-specialize='entry=scale params=T=f64,BLOCK=32,MODE=square' | FileCheck %s --check-prefix=SQUARE
// RUN: tilewright-opt %s --tile-specialize='params=T=bf16' --verify-roundtrip | FileCheck %s --check-prefix=PROGRAM
// RUN: tilewright-opt %s --tile-specialize='params=T=bf16' | tilewright-opt --tile-specialize | FileCheck %s --check-prefix=AGAIN
// RUN: tilewright-opt %s --tile-specialize='entry=scale params=T=f16 exact-literals' | tilewright-opt --canonicalize | FileCheck %s --check-prefix=EXACT

// Types, literals, captures and the called functions. A constraint on arguments remains, simplified.
// SCALE:      tile.capture @bias : f16
// SCALE-NEXT: func.func private @offset() -> f32
// SCALE-NEXT:   arith.constant 9.997550e-02 : f16
// SCALE:      func.func @modify(%{{.*}}: f32, %{{.*}}: f16) -> f32
// SCALE:      arith.constant false
// SCALE-NOT:  @unused
// SCALE:      tile.kernel @scale
// SCALE-NEXT:   require(dim(x, 0) <= 8388608)
// SCALE-NEXT:   (%x: !tile.view<[?], f16>, %y: !tile.view<[?, 128], f32>, %n: i32)
// SCALE-NEXT:   grid(%i = ceildiv(dim(x, 0), 128), %j = n, %k = 3) attributes {bindings = {
// SCALE-SAME:     ACC = f32, BLOCK = 128 : i64, FAST = false, MODE = "plain", T = f16, WIDE = 256 : i64
// SCALE:        %[[BLOCK:.*]] = arith.constant 128 : i32
// SCALE-NEXT:   %[[START:.*]] = arith.muli %i, %[[BLOCK]]
// SCALE:        tile.load %x[%[[START]]] : !tile.view<[?], f16> -> tensor<128xf16>
// SCALE:        tile.map @modify(%{{.*}}, %{{.*}}) : (tensor<128xf32>, tensor<128xf16>) -> tensor<128xf32>
// SCALE-NOT:  tile.program

// A literal keeps the precision of f64 until it is bound; a derived default uses the given value.
// EXACT:        %[[TENTH:.*]] = arith.constant 1.000000e-01 : f64
// EXACT:        arith.truncf %[[TENTH]] : f64 to f16
// SQUARE:       arith.constant 1.000000e-01 : f64
// SQUARE:       func.func @modify(%{{.*}}: f64, %{{.*}}: f64) -> f64
// SQUARE-NEXT:    arith.constant true
// SQUARE:       tile.kernel @scale
// SQUARE:       bindings = {ACC = f64, BLOCK = 32 : i64, FAST = false, MODE = "square", T = f64, WIDE = 64 : i64}
// SQUARE:       tile.load %x[%{{.*}}] : !tile.view<[?], f64> -> tensor<32xf64>

// Three launches of one kernel with two sets of values; the launch under FAST is removed with its workspace.
// PROGRAM:      func.func @modify(
// PROGRAM-NEXT:   %false = arith.constant false
// PROGRAM:      func.func @modify_0(
// PROGRAM-NEXT:   arith.constant true
// PROGRAM:      tile.kernel @scale
// PROGRAM:        BLOCK = 128 : i64, FAST = false, MODE = "plain"
// PROGRAM:        tile.map @modify(
// PROGRAM:      tile.kernel @scale_0
// PROGRAM:        BLOCK = 64 : i64, FAST = false, MODE = "square"
// PROGRAM:        tile.map @modify_0(
// PROGRAM:      tile.program @twice
// PROGRAM-NEXT:   (%x: !tile.view<[?], bf16>, %n: i32) attributes {bindings = {FAST = false, T = bf16}} {
// PROGRAM-NEXT:   %[[WIDE:.*]] = tile.workspace [dim(x, 0), 128] fill {{.*}} : !tile.view<[?, 128], f32>
// PROGRAM-NEXT:   %[[NARROW:.*]] = tile.workspace [dim(x, 0), 64] : !tile.view<[?, 64], f32>
// PROGRAM-NEXT:   tile.launch @scale(%x, %[[WIDE]], %n) :
// PROGRAM-NEXT:   tile.launch @scale_0(%x, %[[NARROW]], %n) when (n > 0) :
// PROGRAM-NEXT:   tile.launch @scale(%x, %[[WIDE]], %n) :
// PROGRAM-NEXT: }

// Binding a bound kernel changes nothing.
// AGAIN:       tile.kernel @scale_0
// AGAIN:         BLOCK = 64 : i64, FAST = false, MODE = "square"
// AGAIN:       bindings = {FAST = false, T = bf16}
// AGAIN:       when (n > 0)

tile.capture @bias : !tile.param<T>
tile.capture @other : f32

func.func private @offset() -> !tile.param<ACC> {
  %tenth = arith.constant 0.1 : !tile.param<T>
  %bias = tile.at @bias : !tile.param<T>
  %sum = arith.addf %tenth, %bias : !tile.param<T>
  %r = tile.cast %sum : !tile.param<T> -> !tile.param<ACC>
  return %r : !tile.param<ACC>
}
func.func @modify(%x: !tile.param<ACC>, %raw: !tile.param<T>) -> !tile.param<ACC> {
  %square = tile.param MODE == "square" : i1
  %r = scf.if %square -> !tile.param<ACC> {
    %xx = arith.mulf %x, %x : !tile.param<ACC>
    scf.yield %xx : !tile.param<ACC>
  } else {
    %o = func.call @offset() : () -> !tile.param<ACC>
    %xo = arith.addf %x, %o : !tile.param<ACC>
    scf.yield %xo : !tile.param<ACC>
  }
  return %r : !tile.param<ACC>
}
func.func @unused() { return }

tile.kernel @scale
    params(BLOCK: int in [32, 64, 128] = 128, WIDE: int = BLOCK * 2, T: type, ACC: type = accumulator(T),
           MODE: enum in ["plain", "square"] = "plain", FAST: flag = false)
    require(WIDE <= 256, dim(x, 0) <= BLOCK * 65536)
    (%x: !tile.view<[?], T>, %y: !tile.view<[?, BLOCK], ACC>, %n: i32)
    grid(%i = ceildiv(dim(x, 0), BLOCK), %j = select(FAST, 1, n), %k = select(FAST, sm_count(), 3)) {
  %block = tile.param BLOCK : i32
  %start = arith.muli %i, %block : i32
  %t = tile.load %x[%start] : !tile.view<[?], T> -> !tile.tile<[BLOCK], T>
  %a = tile.cast %t : !tile.tile<[BLOCK], T> -> !tile.tile<[BLOCK], ACC>
  %m = tile.map @modify(%a, %t) : (!tile.tile<[BLOCK], ACC>, !tile.tile<[BLOCK], T>) -> !tile.tile<[BLOCK], ACC>
  tile.store %m, %y[%i, 0] : !tile.tile<[BLOCK], ACC>, !tile.view<[?, BLOCK], ACC>
}

tile.program @twice params(T: type, FAST: flag = false) (%x: !tile.view<[?], T>, %n: i32) {
  %wide = tile.workspace [dim(x, 0), 128] fill 0.0 : !tile.view<[?, 128], f32>
  %narrow = tile.workspace [dim(x, 0), 64] : !tile.view<[?, 64], f32>
  %gone = tile.workspace [dim(x, 0), 128] : !tile.view<[?, 128], f32>
  tile.launch @scale(%x, %wide, %n) : !tile.view<[?], T>, !tile.view<[?, 128], f32>, i32
  tile.launch @scale(%x, %narrow, %n) with (BLOCK = 64, MODE = "square") when (and(not(FAST), n > 0))
      : !tile.view<[?], T>, !tile.view<[?, 64], f32>, i32
  tile.launch @scale(%x, %gone, %n) when (FAST) : !tile.view<[?], T>, !tile.view<[?, 128], f32>, i32
  tile.launch @scale(%x, %wide, %n) when (not(FAST)) : !tile.view<[?], T>, !tile.view<[?, 128], f32>, i32
}
