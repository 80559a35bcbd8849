// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two parts of a loop that have no stage in common.
// RUN: tilewright-opt %s --tgpu-expand-stages -split-input-file -verify-diagnostics

tgpu.kernel @count target "sm_90a" warps 8 (%x: i32, %y: i32, %z: i32, %c1: i32, %c2: i32) grid(%b = 1) {
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 4 registers 232 {
      %step = arith.constant 1 : i32
      %first = scf.for %i = %x to %y step %step iter_args(%n = %c1) -> (i32) : i32 {
        %own = arith.muli %i, %c1 {tgpu.place = array<i64: 0, 0>} : i32
        %next = arith.addi %n, %c1 {tgpu.place = array<i64: 1, 1>} : i32
        scf.yield %next : i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
      // expected-error @+1 {{'scf.for' op of stage 1 must equal stage 1 of the loop's first part, but got 2 operations instead of 1}}
      %rest = scf.for %i = %y to %z step %step iter_args(%n = %first) -> (i32) : i32 {
        %own = arith.muli %i, %c2 {tgpu.place = array<i64: 0, 0>} : i32
        %next = arith.addi %n, %c1 {tgpu.place = array<i64: 1, 1>} : i32
        %m = arith.addi %next, %c1 {tgpu.place = array<i64: 1, 2>} : i32
        scf.yield %m : i32
      } {tgpu.general, tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
    }
}

// -----

tgpu.kernel @operation target "sm_90a" warps 8 (%x: i32, %y: i32, %z: i32, %c1: i32, %c2: i32) grid(%b = 1) {
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 4 registers 232 {
      %step = arith.constant 1 : i32
      %first = scf.for %i = %x to %y step %step iter_args(%n = %c1) -> (i32) : i32 {
        %own = arith.muli %i, %c1 {tgpu.place = array<i64: 0, 0>} : i32
        %next = arith.addi %n, %c1 {tgpu.place = array<i64: 1, 1>} : i32
        scf.yield %next : i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
      %rest = scf.for %i = %y to %z step %step iter_args(%n = %first) -> (i32) : i32 {
        %own = arith.muli %i, %c2 {tgpu.place = array<i64: 0, 0>} : i32
        // expected-error @+1 {{'arith.subi' op of stage 1 must equal stage 1 of the loop's first part, but got another operation than its 'arith.addi'}}
        %next = arith.subi %n, %c1 {tgpu.place = array<i64: 1, 1>} : i32
        scf.yield %next : i32
      } {tgpu.general, tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
    }
}

// -----

tgpu.kernel @crossing target "sm_90a" warps 8 (%x: i32, %y: i32, %z: i32, %c1: i32, %c2: i32) grid(%b = 1) {
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 4 registers 232 {
      %step = arith.constant 1 : i32
      %first = scf.for %i = %x to %y step %step iter_args(%n = %c1) -> (i32) : i32 {
        %own = arith.muli %i, %c1 {tgpu.place = array<i64: 0, 0>} : i32
        %next = arith.addi %n, %c1 {tgpu.place = array<i64: 1, 1>} : i32
        scf.yield %next : i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
      // expected-error @+1 {{'scf.for' op of stage 1 must equal stage 1 of the loop's first part, but got 1 values of stage 0 instead of 0}}
      %rest = scf.for %i = %y to %z step %step iter_args(%n = %first) -> (i32) : i32 {
        %own = arith.muli %i, %c2 {tgpu.place = array<i64: 0, 0>} : i32
        %next = arith.addi %n, %own {tgpu.place = array<i64: 1, 1>} : i32
        scf.yield %next : i32
      } {tgpu.general, tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
    }
}

// -----

tgpu.kernel @types target "sm_90a" warps 8 (%x: i32, %y: i32, %z: i32, %c1: i32, %c2: i32) grid(%b = 1) {
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 4 registers 232 {
      %step = arith.constant 1 : i32
      %first = scf.for %i = %x to %y step %step iter_args(%n = %c1) -> (i32) : i32 {
        %own = arith.muli %i, %c1 {tgpu.place = array<i64: 0, 0>} : i32
        %w = arith.extsi %own {tgpu.place = array<i64: 0, 1>} : i32 to i64
        %t = arith.trunci %w {tgpu.place = array<i64: 1, 1>} : i64 to i32
        %next = arith.addi %n, %t {tgpu.place = array<i64: 1, 2>} : i32
        scf.yield %next : i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
      // expected-error @+1 {{'scf.for' op of stage 1 must equal stage 1 of the loop's first part, but got a value of stage 0 of another type}}
      %rest = scf.for %i = %y to %z step %step iter_args(%n = %first) -> (i32) : i32 {
        %own = arith.muli %i, %c1 {tgpu.place = array<i64: 0, 0>} : i32
        %w = arith.index_cast %own {tgpu.place = array<i64: 0, 1>} : i32 to index
        %t = arith.index_cast %w {tgpu.place = array<i64: 1, 1>} : index to i32
        %next = arith.addi %n, %t {tgpu.place = array<i64: 1, 2>} : i32
        scf.yield %next : i32
      } {tgpu.general, tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
    }
}

// -----

tgpu.kernel @yields target "sm_90a" warps 8 (%x: i32, %y: i32, %z: i32, %c1: i32, %c2: i32) grid(%b = 1) {
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 4 registers 232 {
      %step = arith.constant 1 : i32
      %first:2 = scf.for %i = %x to %y step %step iter_args(%n = %c1, %k = %c2) -> (i32, i32) : i32 {
        %own = arith.muli %i, %c1 {tgpu.place = array<i64: 0, 0>} : i32
        %next = arith.addi %n, %c1 {tgpu.place = array<i64: 1, 1>} : i32
        scf.yield %next, %next : i32, i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
      // expected-error @+1 {{'scf.for' op of stage 1 must equal stage 1 of the loop's first part, but got other stages of the yielded values}}
      %rest:2 = scf.for %i = %y to %z step %step iter_args(%n = %first#0, %k = %first#1) -> (i32, i32) : i32 {
        %own = arith.muli %i, %c1 {tgpu.place = array<i64: 0, 0>} : i32
        %next = arith.addi %n, %c1 {tgpu.place = array<i64: 1, 1>} : i32
        scf.yield %next, %own : i32, i32
      } {tgpu.general, tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
    }
}
