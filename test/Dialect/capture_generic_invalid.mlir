// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Captures in the generic form.
// RUN: tilewright-opt %s -verify-diagnostics

// expected-error @+1 {{'tile.capture' op has a malformed 'require' clause; use its custom assembly format}}
"tile.capture"() <{sym_name = "x", type = f32, constraints = [3 : i32]}> : () -> ()
