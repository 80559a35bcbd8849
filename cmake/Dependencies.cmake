# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Finds LLVM/MLIR 22, Eigen and GoogleTest. Everything that uses LLVM or MLIR links one target:
#
#   TilewrightMLIR   include paths, definitions, -fno-rtti -fno-exceptions (as LLVM itself is built), and the libraries:
#                    the shared libMLIR and libLLVM for development, since they link in a second, or the static archives
#                    for the package (TILEWRIGHT_STATIC).

find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
message(STATUS "MLIR ${LLVM_PACKAGE_VERSION} in ${MLIR_DIR}")

list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen) # tablegen(), add_public_tablegen_target()
include(AddLLVM)
include(AddMLIR) # mlir_tablegen()

# Debian's package exports the directory of lit, FileCheck, not and split-file under this name.
set(TILEWRIGHT_LLVM_TOOLS_DIR "${LLVM_TOOLS_BINARY_DIR}")

# lld, where it is installed, takes a fraction of the time of GNU ld. GCC looks for ld.lld in the -B directories first.
find_program(TILEWRIGHT_LLD ld.lld PATHS "${LLVM_TOOLS_BINARY_DIR}" NO_DEFAULT_PATH)
if(TILEWRIGHT_LLD)
  add_link_options(-B${LLVM_TOOLS_BINARY_DIR} -fuse-ld=lld)
endif()

find_package(Eigen3 REQUIRED NO_MODULE)
find_package(GTest REQUIRED)
find_package(Threads REQUIRED)

add_library(TilewrightMLIR INTERFACE)
target_include_directories(TilewrightMLIR SYSTEM INTERFACE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
separate_arguments(TILEWRIGHT_LLVM_DEFINITIONS NATIVE_COMMAND "${LLVM_DEFINITIONS}")
target_compile_options(TilewrightMLIR INTERFACE ${TILEWRIGHT_LLVM_DEFINITIONS} $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti>
                                                -fno-exceptions)
if(TILEWRIGHT_STATIC)
  include(StaticMLIR)
else()
  target_link_libraries(TilewrightMLIR INTERFACE MLIR LLVM)
endif()

# Seen by TableGen and by the compiler alike.
include_directories("${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}")
