// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Errors of tile-specialize that depend on its options.
//
// RUN: not tilewright-opt %s --tile-specialize='entry=mane params=D=8' 2>&1 | FileCheck %s --check-prefix=ENTRY
// ENTRY: error: expected the name of a kernel or program, but got 'mane'; did you mean 'main'?
// RUN: not tilewright-opt %s --tile-specialize='entry=helper params=D=8' 2>&1 | FileCheck %s --check-prefix=NOT-ENTRY
// NOT-ENTRY: error: expected the name of a kernel or program, but got 'helper'; the module has main
//
// RUN: not tilewright-opt %s --tile-specialize='params=D' 2>&1 | FileCheck %s --check-prefix=SYNTAX
// SYNTAX: :[[@LINE+27]]:1: error: expected a binding NAME=VALUE, but got 'D'
// RUN: not tilewright-opt %s --tile-specialize='params=BLOK_M=64,D=8' 2>&1 | FileCheck %s --check-prefix=NAME
// NAME: error: kernel @main has no parameter 'BLOK_M'; did you mean 'BLOCK_M'?
// RUN: not tilewright-opt %s --tile-specialize='params=block_m=64,D=8' 2>&1 | FileCheck %s --check-prefix=CASE
// CASE: error: kernel @main has no parameter 'block_m'; did you mean 'BLOCK_M'?
// RUN: not tilewright-opt %s --tile-specialize='params=ROUNDS=64,D=8' 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: error: kernel @main has no parameter 'ROUNDS'; it has BLOCK_M, D, CAUSAL, WINDOW, T
//
// RUN: not tilewright-opt %s --tile-specialize='params=D=eight' 2>&1 | FileCheck %s --check-prefix=INT
// INT: error: parameter 'D' of kernel @main must be an integer, but got 'eight'
// RUN: not tilewright-opt %s --tile-specialize='params=D=99999999999999999999' 2>&1 | FileCheck %s --check-prefix=LARGE
// LARGE: error: parameter 'D' of kernel @main must be an integer, but got '99999999999999999999'
// RUN: not tilewright-opt %s --tile-specialize='params=D=8,WINDOW=1' 2>&1 | FileCheck %s --check-prefix=FLAG
// FLAG: error: parameter 'WINDOW' of kernel @main must be true or false, but got '1'
// RUN: not tilewright-opt %s --tile-specialize='params=D=8,CAUSAL=topleft' 2>&1 | FileCheck %s --check-prefix=ENUM
// ENUM: error: parameter 'CAUSAL' of kernel @main must be one of "none", "top_left", but got "topleft"
// RUN: not tilewright-opt %s --tile-specialize='params=D=8,T=i32' 2>&1 | FileCheck %s --check-prefix=TYPE
// TYPE: error: parameter 'T' of kernel @main must be one of f64, f32, f16, bf16, e4m3, e5m2, i8, but got 'i32'
// RUN: not tilewright-opt %s --tile-specialize='params=D=8,BLOCK_M=96' 2>&1 | FileCheck %s --check-prefix=ALLOWED
// ALLOWED: error: parameter 'BLOCK_M' of kernel @main must be one of 64, 128, but got 96
// RUN: not tilewright-opt %s --tile-specialize='params=D=8,D=16' 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: error: parameter 'D' of kernel @main must be bound once, but got 'D=16' after 'D=8'
// RUN: not tilewright-opt %s --tile-specialize='params=D=257' 2>&1 | FileCheck %s --check-prefix=REQUIRE
// REQUIRE: error: constraint 'D <= 256' of kernel @main must hold, but got D = 257

func.func @helper() { return }

tile.kernel @main
    params(BLOCK_M: int in [64, 128] = 64, D: int, CAUSAL: enum in ["none", "top_left"] = "none",
           WINDOW: flag = false, T: type = f16)
    require(D <= 256) () grid(%i = 1) {}
