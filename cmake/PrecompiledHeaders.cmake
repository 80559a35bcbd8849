# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# TilewrightPrecompiledMLIR: the headers of LLVM and MLIR that most units include, compiled once. A unit spends five of
# its seven seconds in them otherwise. Headers of the project are left out, so that editing a .td file does not make
# the precompiled header again. tilewright_precompile(TARGET) lets a target use it.
#
# A unit must still include what it uses: -DTILEWRIGHT_PRECOMPILED_HEADERS=OFF builds without.

option(TILEWRIGHT_PRECOMPILED_HEADERS "Compile the headers of LLVM and MLIR once" ON)

if(TILEWRIGHT_PRECOMPILED_HEADERS)
  # CMake wants a source beside a precompiled header; file(GENERATE) leaves a file alone that has not changed.
  file(GENERATE OUTPUT "${CMAKE_BINARY_DIR}/PrecompiledMLIR.cpp" CONTENT "")
  add_library(TilewrightPrecompiledMLIR STATIC "${CMAKE_BINARY_DIR}/PrecompiledMLIR.cpp")
  target_link_libraries(TilewrightPrecompiledMLIR PRIVATE TilewrightMLIR)
  target_precompile_headers(TilewrightPrecompiledMLIR PRIVATE
    <mlir/Bytecode/BytecodeOpInterface.h>
    <mlir/Dialect/Arith/IR/Arith.h>
    <mlir/Dialect/Func/IR/FuncOps.h>
    <mlir/Dialect/Math/IR/Math.h>
    <mlir/Dialect/SCF/IR/SCF.h>
    <mlir/IR/IRMapping.h>
    <mlir/IR/ImplicitLocOpBuilder.h>
    <mlir/IR/Matchers.h>
    <mlir/IR/PatternMatch.h>
    <mlir/Interfaces/LoopLikeInterface.h>
    <mlir/Parser/Parser.h>
    <mlir/Pass/PassManager.h>
    <llvm/ADT/MapVector.h>
    <llvm/ADT/SetVector.h>
    <llvm/ADT/StringExtras.h>
    <llvm/ADT/StringMap.h>
    <llvm/ADT/TypeSwitch.h>
    <llvm/Support/Error.h>
    <map>
    <optional>
    <random>
    <set>)
endif()

function(tilewright_precompile name)
  if(NOT TILEWRIGHT_PRECOMPILED_HEADERS)
    return()
  endif()
  # A precompiled header serves units with the same flags only; CMake gives a program -fPIE where a library has -fPIC.
  target_compile_options(${name} PRIVATE -fPIC)
  target_precompile_headers(${name} REUSE_FROM TilewrightPrecompiledMLIR)
endfunction()
