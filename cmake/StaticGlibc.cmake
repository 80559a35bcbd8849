# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# TILEWRIGHT_STATIC: static libraries of a system demand the glibc of this system, here Debian's 2.36. All that the project's
# binaries need of what is newer than 2.34 (RHEL 9; Ubuntu 22.04 has 2.35) are two functions, which base/Glibc provides.
# scripts/check-binaries.py finds a third one.
#
#   tilewright_link_glibc()     after all targets are declared: links base/Glibc into programs and shared libraries

function(_tilewright_link_glibc_below folder)
  get_property(targets DIRECTORY "${folder}" PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(type MATCHES "^(EXECUTABLE|SHARED_LIBRARY|MODULE_LIBRARY)$")
      target_link_libraries(${target} PRIVATE TilewrightGlibc)
    endif()
  endforeach()
  get_property(folders DIRECTORY "${folder}" PROPERTY SUBDIRECTORIES)
  foreach(below IN LISTS folders)
    _tilewright_link_glibc_below("${below}")
  endforeach()
endfunction()

function(tilewright_link_glibc)
  if(TILEWRIGHT_STATIC)
    _tilewright_link_glibc_below("${CMAKE_SOURCE_DIR}")
  endif()
endfunction()
