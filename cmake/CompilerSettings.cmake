# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Language level, optimization, warnings and ccache, for every target of the project.

set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release or Debug" FORCE)
endif()

# -O2 rather than CMake's -O3: a unit that includes MLIR takes tens of seconds as it is. No debug information, for the
# same reason; configure with -DCMAKE_BUILD_TYPE=Debug where a debugger is needed.
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
if(NOT TILEWRIGHT_ASSERTIONS)
  string(APPEND CMAKE_CXX_FLAGS_RELEASE " -DNDEBUG")
endif()

add_compile_options(-Wall -Wextra -Wno-unused-parameter)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # False positives of GCC 12 inside templates of LLVM and Eigen that are instantiated from our code.
  add_compile_options(-Wno-maybe-uninitialized -Wno-comment $<$<COMPILE_LANGUAGE:CXX>:-Wno-redundant-move>
                      $<$<COMPILE_LANGUAGE:CXX>:-Wno-class-memaccess> -Wno-dangling-pointer
                      -Wno-stringop-overflow -Wno-array-bounds)
else()
  add_compile_options(-Wno-pass-failed) # loops that are marked for the vectorizer of GCC
endif()

# The cache of compiled kernels (lib/Driver/BundleCache.h) tells builds of the compiler apart by it.
add_link_options(LINKER:--build-id=sha1)

# Lets the linker of the self-contained package drop what no tool uses.
add_compile_options(-ffunction-sections -fdata-sections)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
  # Required by ccache if units use a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros
                                  "${CCACHE_PROGRAM}")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
endif()

if((TILEWRIGHT_FUZZERS OR TILEWRIGHT_SANITIZERS) AND NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "TILEWRIGHT_FUZZERS and TILEWRIGHT_SANITIZERS need clang: configure with `cmake --preset sanitized`")
endif()
set(TILEWRIGHT_SHARED_OPTIONS LINKER:--gc-sections)
if(TILEWRIGHT_SANITIZERS)
  # Debian's LLVM, MLIR and GoogleTest are not instrumented, so some checks must be off. vptr: LLVM has no RTTI to compare
  # with. At run time, in scripts/sanitizers.env: poisoning by allocators and annotated containers.
  # -O1: a unit that includes MLIR compiles in two thirds of the time.
  add_compile_options(-fsanitize=${TILEWRIGHT_SANITIZERS} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1 -O1)
  if(TILEWRIGHT_SANITIZERS MATCHES "undefined")
    add_compile_options(-fno-sanitize=vptr)
  endif()
  add_link_options(-fsanitize=${TILEWRIGHT_SANITIZERS})
else()
  # A shared library has all that it calls; but the functions of a sanitizer are in the program.
  list(APPEND TILEWRIGHT_SHARED_OPTIONS LINKER:--no-undefined)
endif()
if(TILEWRIGHT_FUZZERS)
  # Coverage of the project's own code guides the fuzzer.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(TILEWRIGHT_COVERAGE)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "TILEWRIGHT_COVERAGE needs clang: configure with `cmake --preset coverage`")
  endif()
  # Clang counts regions of the source text before it optimizes, so -O1 loses nothing. (gcov needs -O0, since it counts
  # a line that the optimizer united with another as both; the lit tests of kernels take an hour then.)
  add_compile_options(-fprofile-instr-generate -fcoverage-mapping -O1)
  add_link_options(-fprofile-instr-generate)
endif()
