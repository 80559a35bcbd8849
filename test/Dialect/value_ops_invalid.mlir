// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Invalid operations on tiles.
// RUN: tilewright-opt %s -split-input-file -verify-diagnostics

// tile.full.
func.func @full_of_vector(%x: f32) {
  // expected-error @+1 {{expected the type of a tile, but got 'vector<4xf32>'}}
  %0 = tile.full %x : vector<4xf32>
}

// -----

func.func @full_of_other_type(%x: f32) {
  // expected-error @+1 {{scalar must be of the type of the elements, 'f16', but got 'f32'}}
  %0 = "tile.full"(%x) : (f32) -> tensor<4xf16>
}

// -----

// tile.iota.
func.func @iota_rank(%n: i32) {
  // expected-error @+1 {{must name one of 1 dimensions, counted from 0, but got 1}}
  %0 = tile.iota %n dim 1 : !tile.tile<[M], i32>
}

// -----

func.func @iota_elements(%n: i32) {
  // expected-error @+1 {{elements of the result must be 'i32', but got 'i64'}}
  %0 = tile.iota %n dim 0 : !tile.tile<[M], i64>
}

// -----

// tile.expand.
func.func @expand_rank(%x: !tile.tile<[M], f32>) {
  // expected-error @+1 {{adds one dimension to rank 1, but its result has rank 3}}
  %0 = tile.expand %x dim 1 : !tile.tile<[M], f32> -> !tile.tile<[M, N, N], f32>
}

// -----

func.func @expand_dimension(%x: !tile.tile<[M], f32>) {
  // expected-error @+1 {{must name one of 2 dimensions, counted from 0, but got 2}}
  %0 = tile.expand %x dim 2 : !tile.tile<[M], f32> -> !tile.tile<[M, N], f32>
}

// -----

func.func @expand_shape(%x: !tile.tile<[M], f32>) {
  // expected-error @+1 {{result must have shape [N, M], but got [N, 64]}}
  %0 = tile.expand %x dim 0 : !tile.tile<[M], f32> -> !tile.tile<[N, 64], f32>
}

// -----

func.func @expand_elements(%x: !tile.tile<[M], f32>) {
  // expected-error @+1 {{elements of the result must be 'f32', but got '!tile.param<T>'}}
  %0 = tile.expand %x dim 0 : !tile.tile<[M], f32> -> !tile.tile<[N, M], T>
}

// -----

// tile.reshape.
func.func @reshape_elements(%x: !tile.tile<[M], f32>) {
  // expected-error @+1 {{elements of the result must be 'f32', but got 'i32'}}
  %0 = tile.reshape %x : !tile.tile<[M], f32> -> !tile.tile<[M], i32>
}

// -----

func.func @reshape_count(%x: tensor<4x6xf32>) {
  // expected-error @+1 {{must keep the number of elements, but got [4, 6] and [5, 5]}}
  %0 = tile.reshape %x : tensor<4x6xf32> -> tensor<5x5xf32>
}

// -----

// tile.transpose.
func.func @transpose_length(%x: !tile.tile<[M, N], f32>) {
  // expected-error @+1 {{needs a permutation of the 2 dimensions, but got [0]}}
  %0 = tile.transpose %x [0] : !tile.tile<[M, N], f32> -> !tile.tile<[M, N], f32>
}

// -----

func.func @transpose_repeated(%x: !tile.tile<[M, N], f32>) {
  // expected-error @+1 {{needs a permutation of the 2 dimensions, but got [1, 1]}}
  %0 = tile.transpose %x [1, 1] : !tile.tile<[M, N], f32> -> !tile.tile<[N, N], f32>
}

// -----

func.func @transpose_range(%x: !tile.tile<[M, N], f32>) {
  // expected-error @+1 {{needs a permutation of the 2 dimensions, but got [9223372036854775807, -1]}}
  %0 = tile.transpose %x [9223372036854775807, -1] : !tile.tile<[M, N], f32> -> !tile.tile<[N, M], f32>
}

// -----

func.func @transpose_shape(%x: !tile.tile<[M, N], f32>) {
  // expected-error @+1 {{result must have shape [N, M], but got [M, N]}}
  %0 = tile.transpose %x [1, 0] : !tile.tile<[M, N], f32> -> !tile.tile<[M, N], f32>
}

// -----

func.func @transpose_elements(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{elements of the result must be 'f32', but got 'f16'}}
  %0 = tile.transpose %x [1, 0] : tensor<4x8xf32> -> tensor<8x4xf16>
}

// -----

// tile.dot.
func.func @dot_rank(%x: tensor<4x4x4xf32>, %y: tensor<4x4xf32>) {
  // expected-error @+1 {{requires tiles of rank 2, but got ranks 3 and 2}}
  %0 = tile.dot %x, %y : tensor<4x4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
}

// -----

func.func @dot_elements(%x: tensor<4x4xf16>, %y: tensor<4x4xbf16>) {
  // expected-error @+1 {{operands must have the same elements, but got 'f16' and 'bf16'; convert one with tile.cast}}
  %0 = tile.dot %x, %y : tensor<4x4xf16>, tensor<4x4xbf16> -> tensor<4x4xf32>
}

// -----

func.func @dot_integers(%x: tensor<4x4xi32>) {
  // expected-error @+1 {{requires float operands, but got 'i32'}}
  %0 = tile.dot %x, %x : tensor<4x4xi32>, tensor<4x4xi32> -> tensor<4x4xi32>
}

// -----

func.func @dot_inner(%x: !tile.tile<[M, D], T>, %y: !tile.tile<[N, D], T>) {
  // expected-error @+1 {{inner dimensions must agree, but got [D] and [N]; write transpose_b}}
  %0 = tile.dot %x, %y : !tile.tile<[M, D], T>, !tile.tile<[N, D], T> -> !tile.tile<[M, D], f32>
}

// -----

func.func @dot_inner_first(%x: !tile.tile<[D, M], T>, %y: !tile.tile<[D, N], T>) {
  // expected-error @+1 {{inner dimensions must agree, but got [M] and [D]; write transpose_a}}
  %0 = tile.dot %x, %y : !tile.tile<[D, M], T>, !tile.tile<[D, N], T> -> !tile.tile<[M, D], f32>
}

// -----

func.func @dot_inner_transposed(%x: !tile.tile<[M, D], T>, %y: !tile.tile<[D, N], T>) {
  // expected-error @+1 {{inner dimensions must agree, but got [D] and [N]; leave out transpose_b}}
  %0 = tile.dot %x, %y transpose_b : !tile.tile<[M, D], T>, !tile.tile<[D, N], T> -> !tile.tile<[M, D], f32>
}

// -----

func.func @dot_inner_both(%x: !tile.tile<[D, M], T>, %y: !tile.tile<[N, D], T>) {
  // expected-error @+1 {{inner dimensions must agree, but got [M] and [N]; write transpose_a and write transpose_b}}
  %0 = tile.dot %x, %y : !tile.tile<[D, M], T>, !tile.tile<[N, D], T> -> !tile.tile<[M, D], f32>
}

// -----

func.func @dot_inner_none(%x: !tile.tile<[M, D], T>, %y: !tile.tile<[N, K], T>) {
  // expected-error @+1 {{inner dimensions must agree, but got [D] and [N]; give both the same extent}}
  %0 = tile.dot %x, %y : !tile.tile<[M, D], T>, !tile.tile<[N, K], T> -> !tile.tile<[M, D], f32>
}

// -----

func.func @dot_result(%x: !tile.tile<[M, D], T>, %y: !tile.tile<[N, D], T>) {
  // expected-error @+1 {{result must have shape [M, N], but got [N, M]}}
  %0 = tile.dot %x, %y transpose_b : !tile.tile<[M, D], T>, !tile.tile<[N, D], T> -> !tile.tile<[N, M], f32>
}

// -----

func.func @dot_accumulation(%x: tensor<4x4xf16>) {
  // expected-error @+1 {{accumulates products of 'f16' in 'f32', but its result has elements 'f16'; convert it with tile.cast}}
  %0 = tile.dot %x, %x : tensor<4x4xf16>, tensor<4x4xf16> -> tensor<4x4xf16>
}

// -----

func.func @dot_accumulation_of_f64(%x: tensor<4x4xf64>) {
  // expected-error @+1 {{accumulates products of 'f64' in 'f64', but its result has elements 'f32'; convert it with tile.cast}}
  %0 = tile.dot %x, %x : tensor<4x4xf64>, tensor<4x4xf64> -> tensor<4x4xf32>
}

// -----

// Products require floats for any binding of T.
func.func @dot_accumulation_of_parameter(%x: !tile.tile<[4, 4], T>) {
  // expected-error @+1 {{accumulates products of '!tile.param<T>' in 'f32', but its result has elements 'i32'; convert it with tile.cast}}
  %0 = tile.dot %x, %x : !tile.tile<[4, 4], T>, !tile.tile<[4, 4], T> -> !tile.tile<[4, 4], i32>
}

// -----

func.func @dot_accumulator(%x: tensor<4x4xf32>, %acc: tensor<4x4xf64>) {
  // expected-error @+1 {{accumulator must be of the type of the result, 'tensor<4x4xf32>', but got 'tensor<4x4xf64>'}}
  %0 = "tile.dot"(%x, %x, %acc) : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf64>) -> tensor<4x4xf32>
}

// -----

func.func @dot_precision(%x: tensor<4x4xf16>) {
  // expected-error @+1 {{precision tf32 is for f32 operands, but got 'f16'}}
  %0 = tile.dot %x, %x precision tf32 : tensor<4x4xf16>, tensor<4x4xf16> -> tensor<4x4xf32>
}

// -----

func.func @dot_interleaved(%x: tensor<4x24xf32>) {
  // expected-error @+1 {{'interleaved' requires an inner dimension that is a multiple of 16, but got 24}}
  %0 = tile.dot %x, %x transpose_b interleaved : tensor<4x24xf32>, tensor<4x24xf32> -> tensor<4x4xf32>
}

// -----

// tile.reduce.
func.func @reduce_dimension(%x: !tile.tile<[M], f32>) {
  // expected-error @+1 {{must name one of 1 dimensions, counted from 0, but got -1}}
  %0 = tile.reduce add %x dim -1 : !tile.tile<[M], f32> -> !tile.tile<[], f32>
}

// -----

func.func @reduce_shape(%x: !tile.tile<[M, N], f32>) {
  // expected-error @+1 {{result must have shape [M], but got [N]}}
  %0 = tile.reduce add %x dim 1 : !tile.tile<[M, N], f32> -> !tile.tile<[N], f32>
}

// -----

func.func @reduce_elements(%x: !tile.tile<[M, N], f32>) {
  // expected-error @+1 {{elements of the result must be 'f32', but got 'f64'}}
  %0 = tile.reduce add %x dim 1 : !tile.tile<[M, N], f32> -> !tile.tile<[M], f64>
}

// -----

func.func @reduce_floats(%x: !tile.tile<[M], T>) {
  // expected-error @+1 {{and requires integers, but got '!tile.param<T>'}}
  %0 = tile.reduce and %x dim 0 : !tile.tile<[M], T> -> !tile.tile<[], T>
}

// -----

func.func @reduce_flags(%x: !tile.tile<[M], i1>) {
  // expected-error @+1 {{max does not support i1; use and, or, or convert with tile.cast}}
  %0 = tile.reduce max %x dim 0 : !tile.tile<[M], i1> -> !tile.tile<[], i1>
}

// -----

func.func @reduce_kind(%x: !tile.tile<[M], i1>) {
  // expected-error @+1 {{the kind of a reduction must be add, mul, max, min, and or or, but got 'xor'}}
  %0 = tile.reduce xor %x dim 0 : !tile.tile<[M], i1> -> !tile.tile<[], i1>
}

// -----

// tile.map.
func.func @map_unknown(%x: tensor<4xf32>) {
  // expected-error @+1 {{must apply a function of this module, but got @f; define it, or link the file that does}}
  %0 = tile.map @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

tile.capture @f : f32
func.func @map_capture(%x: tensor<4xf32>) {
  // expected-error @+1 {{must apply a function of this module, but got @f; define it, or link the file that does}}
  %0 = tile.map @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func private @f(f32, i32) -> f32
func.func @map_number(%x: tensor<4xf32>) {
  // expected-error @+1 {{must pass 2 operands to @f, but got 1}}
  %0 = tile.map @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func private @f(f32, i32) -> f32
func.func @map_operand(%x: tensor<4xf32>) {
  // expected-error @+1 {{operand 1 of @f is 'i32', but got elements of 'f32'}}
  %0 = tile.map @f(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func private @f(f32) -> f32
func.func @map_result(%x: tensor<4xf32>) {
  // expected-error @+1 {{needs @f to return one 'i1', but it is '(f32) -> f32'}}
  %0 = tile.map @f(%x) : (tensor<4xf32>) -> tensor<4xi1>
  return
}

// -----

func.func private @f(f32) -> (f32, f32)
func.func @map_results(%x: tensor<4xf32>) {
  // expected-error @+1 {{needs @f to return one 'f32', but it is '(f32) -> (f32, f32)'}}
  %0 = tile.map @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @map_shapes(%x: !tile.tile<[M, N], f32>, %y: !tile.tile<[N, M], f32>) {
  // expected-error @+1 {{tiles must have one shape, [M, N], but got [N, M]}}
  %0 = tile.map @f(%x, %y) : (!tile.tile<[M, N], f32>, !tile.tile<[N, M], f32>) -> !tile.tile<[M, N], f32>
}

// -----

func.func @map_scalars(%x: f32) {
  // expected-error @+1 {{needs a tile among its operands; use tile.full of func.call for scalars}}
  %0 = tile.map @f(%x) : (f32) -> tensor<4xf32>
}

// -----

// tile.select.
func.func @select_condition(%c: tensor<4xi32>, %x: tensor<4xf32>) {
  // expected-error @+1 {{condition must be i1, but got elements of 'i32'}}
  %0 = tile.select %c, %x, %x : tensor<4xi32>, tensor<4xf32>
}

// -----

func.func @select_shape(%c: !tile.tile<[N], i1>, %x: !tile.tile<[M], f32>) {
  // expected-error @+1 {{condition must have the shape of the values, [M], but got [N]}}
  %0 = tile.select %c, %x, %x : !tile.tile<[N], i1>, !tile.tile<[M], f32>
}

// -----

func.func @select_scalars_by_tile(%c: !tile.tile<[N], i1>, %x: f32) {
  // expected-error @+1 {{condition must have the shape of the values, [], but got [N]}}
  %0 = tile.select %c, %x, %x : !tile.tile<[N], i1>, f32
}

// -----

func.func @select_values(%c: i1, %x: f32, %y: f16) {
  // expected-error @+1 {{values must be of the type of the result, 'f32', but got 'f32' and 'f16'}}
  %0 = "tile.select"(%c, %x, %y) : (i1, f32, f16) -> f32
}

// -----

// tile.cast.
func.func @cast_shape(%x: !tile.tile<[M], f32>) {
  // expected-error @+1 {{must keep the shape, but got '!tile.tile<[M], f32>' and '!tile.tile<[N], f16>'}}
  %0 = tile.cast %x : !tile.tile<[M], f32> -> !tile.tile<[N], f16>
}

// -----

func.func @cast_reassoc(%x: !tile.tile<[M], f32>) {
  // expected-error @+1 {{'reassoc' requires a conversion of integers to floats, but got '!tile.tile<[M], f32>' and '!tile.tile<[M], f16>'}}
  %0 = tile.cast %x reassoc : !tile.tile<[M], f32> -> !tile.tile<[M], f16>
  return
}

// -----

func.func @cast_saturate(%x: !tile.tile<[M], f32>) {
  // expected-error @+1 {{'saturate' requires a conversion of floats to floats, i8, i32 or i64, but got '!tile.tile<[M], f32>' and '!tile.tile<[M], i1>'}}
  %0 = tile.cast %x saturate : !tile.tile<[M], f32> -> !tile.tile<[M], i1>
  return
}

// -----

// A tile of rank 0 is not a scalar.
func.func @cast_to_scalar(%x: tensor<f32>) {
  // expected-error @+1 {{must keep the shape, but got 'tensor<f32>' and 'f16'}}
  %0 = tile.cast %x : tensor<f32> -> f16
}

// -----

// tile.random.
func.func @random_types(%seed: i64, %x: i32, %y: tensor<4xi32>) {
  // expected-error @+1 {{counters must be of the type of the result, 'i32', but got 'i32', 'i32' and 'tensor<4xi32>'}}
  %0 = "tile.random"(%seed, %seed, %x, %x, %y) : (i64, i64, i32, i32, tensor<4xi32>) -> i32
}

// -----

func.func @random_elements(%seed: i64, %x: i64) {
  // expected-error @+1 {{counters and bits must be i32, but got 'i64'}}
  %0 = tile.random %seed, %seed at (%x, %x, %x) : i64
}

// -----

func.func @random_bits(%seed: i64, %x: i32) {
  // expected-error @+1 {{numbers must have 8, 16 or 32 bits, but got 64}}
  %0 = tile.random %seed, %seed at (%x, %x, %x) bits 64 : i32
}

// -----

func.func @random_rounds(%seed: i64, %x: i32) {
  // expected-error @+1 {{a block must have 7 to 16 rounds, but got 6}}
  %0 = tile.random %seed, %seed at (%x, %x, %x) rounds 6 : i32
}

// -----

// tile.constant.
func.func @literal_of_integers() {
  // expected-error @+1 {{of 'i32' must have an integer, but got 1.500000e+00}}
  %0 = tile.constant 1.5 : tensor<4xi32>
}

// -----

func.func @literal_too_large() {
  // expected-error @+1 {{must have an integer that fits in 'i32', but got 4294967296}}
  %0 = tile.constant 4294967296 : i32
}

// -----

func.func @literal_flag() {
  // expected-error @+1 {{must have an integer that fits in 'i1', but got -1}}
  %0 = tile.constant -1 : i1
}

// -----

func.func @literal_generic() {
  // expected-error @+1 {{of 'f32' must have a float, but got 1 : i64; write 1.0}}
  %0 = "tile.constant"() {value = 1 : i64} : () -> f32
}

// -----

func.func @literal_word() {
  // expected-error @+1 {{expected floating point literal}}
  %0 = tile.constant infinity : f32
}

// -----

// tile.slice.
func.func @slice_dim(%x: tensor<4x8xf32>, %i: i32) {
  // expected-error @+1 {{must name one of 2 dimensions, counted from 0, but got 2}}
  %0 = tile.slice %x dim 2 from %i : tensor<4x8xf32> -> tensor<4x8xf32>
}

// -----

func.func @slice_rank(%x: tensor<4x8xf32>, %i: i32) {
  // expected-error @+1 {{must keep the rank, 2, but its result has rank 1}}
  %0 = tile.slice %x dim 0 from %i : tensor<4x8xf32> -> tensor<8xf32>
}

// -----

func.func @slice_shape(%x: !tile.tile<[M, N], T>, %i: i32) {
  // expected-error @+1 {{result must have shape [H, N], but got [H, M]}}
  %0 = tile.slice %x dim 0 from %i : !tile.tile<[M, N], T> -> !tile.tile<[H, M], T>
}

// -----

func.func @slice_elements(%x: tensor<4x8xf32>, %i: i32) {
  // expected-error @+1 {{elements of the result must be 'f32', but got 'f16'}}
  %0 = tile.slice %x dim 0 from %i : tensor<4x8xf32> -> tensor<4x8xf16>
}

// -----

func.func @slice_fill(%x: tensor<4x8xf32>, %i: i32) {
  // expected-error @+1 {{fill must be of the type of the elements, 'f32', but got 'i32'}}
  %0 = "tile.slice"(%x, %i, %i) {dim = 0 : i64} : (tensor<4x8xf32>, i32, i32) -> tensor<4x8xf32>
}

// -----

// tile.scan.
func.func @scan_kind(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{the kind of a reduction must be add, mul, max, min, and or or, but got 'mean'}}
  %0 = tile.scan mean %x dim 0 : tensor<4x8xf32>
}

// -----

func.func @scan_dim(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{must name one of 2 dimensions, counted from 0, but got 2}}
  %0 = tile.scan add %x dim 2 : tensor<4x8xf32>
}

// -----

func.func @scan_floats(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{and requires integers, but got 'f32'}}
  %0 = tile.scan and %x dim 0 : tensor<4x8xf32>
}

// -----

func.func @scan_flags(%x: tensor<8xi1>) {
  // expected-error @+1 {{add does not support i1; use and, or, or convert with tile.cast}}
  %0 = tile.scan add %x dim 0 : tensor<8xi1>
}

// -----

func.func @scan_types(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{failed to verify that all of {source, result} have same type}}
  %0 = "tile.scan"(%x) {dim = 0 : i64, kind = #tile<reduce_kind add>} : (tensor<4x8xf32>) -> tensor<4x8xf16>
}

// -----

// Result types that cannot be inferred.
func.func @inferred_dim(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{the operation must name dimensions of its operand, so that the result type can be inferred, but got 'tensor<4x8xf32>'}}
  %0 = tile.reduce add %x dim 2 : tensor<4x8xf32>
}

// -----

func.func @inferred_permutation(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{the operation must name dimensions of its operand, so that the result type can be inferred, but got 'tensor<4x8xf32>'}}
  %0 = tile.transpose %x [0] : tensor<4x8xf32>
}

// -----

func.func @inferred_layout(%x: tensor<32x32xf32, #tgpu.blocked<1, lanes 32, warps 1, 1>>) {
  // expected-error @+1 {{the type of the result must be written, but got only 'tensor<32x32xf32, #tgpu.blocked<1, lanes 32, warps 1, 1>>'}}
  %0 = tile.reduce add %x dim 1 : tensor<32x32xf32, #tgpu.blocked<1, lanes 32, warps 1, 1>>
}
