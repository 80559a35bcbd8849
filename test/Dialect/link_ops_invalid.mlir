// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names of files that tile.link rejects.
// RUN: tilewright-opt %s -split-input-file -verify-diagnostics

func.func @inner() {
  // expected-error @+1 {{'tile.link' op expects parent op 'builtin.module'}}
  tile.link "lib/functions.mlir"
  return
}

// -----

// expected-error @+1 {{'tile.link' op must name a file relative to this one, but got the absolute path "/etc/hosts.mlir"; move the file to the folder of this one, or below}}
tile.link "/etc/hosts.mlir"

// -----

// expected-error @+1 {{must name a file relative to this one, but got the absolute path "C:hosts.mlir"}}
tile.link "C:hosts.mlir"

// -----

// expected-error @+1 {{must name a file relative to this one, but got the absolute path "//host/x.mlir"}}
tile.link "//host/x.mlir"

// -----

// expected-error @+1 {{'tile.link' op must name a file in the folder of this one or below, but got "../lib/attention.mlir"; move the file there, or name one of the compiler's library, such as "lib/attention.mlir"}}
tile.link "../lib/attention.mlir"

// -----

// expected-error @+1 {{must name a file in the folder of this one or below, but got "lib/../x.mlir"}}
tile.link "lib/../x.mlir"

// -----

// expected-error @+1 {{must name a file in the folder of this one or below, but got "lib\..\x.mlir"; move the file there, or name one of the compiler's library, such as "lib/attention.mlir"}}
tile.link "lib\\..\\x.mlir"

// -----

// expected-error @+1 {{'tile.link' op must name a file, but got a path with a NUL character; leave it out}}
tile.link "x\00.mlir"

// -----

// expected-error @+1 {{'tile.link' op must name a file whose name ends with .mlir, but got "passwd"; rename the file}}
tile.link "passwd"

// -----

// expected-error @+1 {{must name a file whose name ends with .mlir, but got "x.mlir/"; rename the file}}
tile.link "x.mlir/"
