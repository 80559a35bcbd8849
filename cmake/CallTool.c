// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The program of every tool, where libtilewright-compiler.so holds them (cmake/Tools.cpp.in). Not
// part of the library's interface: both come from one build.

int tilewright_compiler_run_tool(int argc, char **argv);

int main(int argc, char **argv) { return tilewright_compiler_run_tool(argc, argv); }
