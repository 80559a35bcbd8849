# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# TILEWRIGHT_STATIC: links the static archives of MLIR and LLVM, libstdc++, zlib and zstd, so that a tool needs nothing
# but glibc at run time. Included by Dependencies.cmake.
#
# Debian's MLIR archives say that they depend on `LLVM`, the shared library. One process must not hold LLVM twice (both
# copies would register the same command-line options), so that entry is replaced, in every MLIR target, by an interface
# library made of LLVM's archives. A component missing below shows as an undefined symbol at link time.

set(TILEWRIGHT_LLVM_COMPONENTS Support SupportLSP Remarks Core
  # The NVPTX back end, and what optimization and translation pull in.
  NVPTXCodeGen NVPTXDesc NVPTXInfo Passes Target Coverage FrontendOpenMP FrontendOffloading FrontendAtomic IRReader AsmParser
  Linker)
set(TILEWRIGHT_MLIR_ARCHIVES
  # Dialects the project parses, and what their canonicalization needs.
  MLIRArithDialect MLIRArithUtils MLIRArithTransforms MLIRMathDialect MLIRMathTransforms MLIRSCFDialect MLIRSCFTransforms
  MLIRSCFUtils MLIRFuncDialect MLIRFuncInlinerExtension MLIRTensorDialect MLIRDialectUtils
  # Code generation for GPUs.
  MLIRControlFlowDialect MLIRLLVMDialect MLIRNVVMDialect MLIRSCFToControlFlow MLIRArithToLLVM MLIRMathToLLVM
  MLIRControlFlowToLLVM MLIRTargetLLVMIRExport MLIRBuiltinToLLVMIRTranslation MLIRLLVMToLLVMIRTranslation
  MLIRNVVMToLLVMIRTranslation
  # Infrastructure.
  MLIRTransforms MLIRTransformUtils MLIRInferIntRangeCommon MLIRParser MLIRPass MLIRReduce MLIROptLib
  MLIRLspServerLib)

llvm_map_components_to_libnames(TILEWRIGHT_LLVM_ARCHIVES ${TILEWRIGHT_LLVM_COMPONENTS})
add_library(TilewrightStaticLLVM INTERFACE)
target_link_libraries(TilewrightStaticLLVM INTERFACE ${TILEWRIGHT_LLVM_ARCHIVES})

# Rewrites the link interface of an imported target; the arguments are pairs of a regular expression and its replacement.
function(tilewright_relink target)
  if(NOT TARGET ${target})
    return()
  endif()
  get_target_property(libraries ${target} INTERFACE_LINK_LIBRARIES)
  if(NOT libraries)
    return()
  endif()
  set(pairs ${ARGN})
  while(pairs)
    list(POP_FRONT pairs from to)
    list(TRANSFORM libraries REPLACE "${from}" "${to}")
  endwhile()
  set_target_properties(${target} PROPERTIES INTERFACE_LINK_LIBRARIES "${libraries}")
endfunction()

foreach(target IN LISTS MLIR_EXPORTED_TARGETS)
  tilewright_relink(${target} "^LLVM$" TilewrightStaticLLVM "^\\$<LINK_ONLY:LLVM>$" TilewrightStaticLLVM)
endforeach()

find_library(TILEWRIGHT_ZLIB_ARCHIVE libz.a REQUIRED)
find_library(TILEWRIGHT_ZSTD_ARCHIVE libzstd.a REQUIRED)
foreach(target IN LISTS LLVM_AVAILABLE_LIBS)
  tilewright_relink(${target}
    "^ZLIB::ZLIB$" "${TILEWRIGHT_ZLIB_ARCHIVE}"
    "^zstd::libzstd_shared$" "${TILEWRIGHT_ZSTD_ARCHIVE}"
    "^.*/libz3\\.so$" "m") # the SMT solver is never called
endforeach()

target_link_libraries(TilewrightMLIR INTERFACE ${TILEWRIGHT_MLIR_ARCHIVES} TilewrightStaticLLVM)

if(NOT TILEWRIGHT_LLD)
  message(FATAL_ERROR "TILEWRIGHT_STATIC needs lld, since GNU ld takes minutes for these archives: install lld-22")
endif()
add_link_options(-static-libstdc++ -static-libgcc
                 LINKER:--gc-sections,--as-needed,--strip-all)
