# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The components of `cmake --install`, each of which needs only its own targets:
#
#   runtime      libtilewright.so, tilewright*.h, tilewright.pc      Tilewright::runtime
#   compiler     libtilewright-compiler.so with header and .pc file   Tilewright::compiler
#   runtime-cpp  the C++ interface of the runtime, static             Tilewright::runtime-cpp
#   tools        the command-line tools and the kernels
#   package      what `make package` adds: tests, benchmarks, the Python package. Not part of a full installation
#
#   tilewright_install_c_library(COMPONENT TARGET HEADERS DESCRIPTION)
#   tilewright_install_package_config(COMPONENT)
#
# An installation can be moved: CMake's files and the .pc files use relative paths.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(TILEWRIGHT_INSTALL_DATADIR "${CMAKE_INSTALL_DATADIR}/tilewright" CACHE STRING "Where the kernels are installed")
set(TILEWRIGHT_INSTALL_CMAKEDIR "${CMAKE_INSTALL_LIBDIR}/cmake/Tilewright")
# The version of the C interfaces. It changes if a function or a field of a struct is removed; see docs/compatibility.md.
set(TILEWRIGHT_ABI_VERSION 0)

# Tools find libtilewright-compiler.so beside them, and libMLIR.so where it was when they were linked.
file(RELATIVE_PATH TILEWRIGHT_LIB_FROM_BIN "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
set(CMAKE_INSTALL_RPATH "$ORIGIN/${TILEWRIGHT_LIB_FROM_BIN}")
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

# What find_package knows; `tools` and `package` have no targets to find.
set(TILEWRIGHT_FIND_COMPONENTS compiler runtime runtime-cpp)

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/TilewrightConfig.cmake.in"
  "${CMAKE_BINARY_DIR}/cmake/TilewrightConfig.cmake"
  INSTALL_DESTINATION "${TILEWRIGHT_INSTALL_CMAKEDIR}")
# Before 1.0 a minor version may break the C++ interface and the format of bundles.
write_basic_package_version_file("${CMAKE_BINARY_DIR}/cmake/TilewrightConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)

# find_package(Tilewright COMPONENTS component): the targets of the export set of this name.
function(tilewright_install_package_config component)
  if(NOT component IN_LIST TILEWRIGHT_FIND_COMPONENTS)
    message(FATAL_ERROR "TILEWRIGHT_FIND_COMPONENTS must contain '${component}'")
  endif()
  # CMake includes all files whose names begin with this one's and a hyphen: no component's may begin with another's.
  install(EXPORT ${component} NAMESPACE Tilewright:: FILE Tilewright-${component}-targets.cmake
    DESTINATION "${TILEWRIGHT_INSTALL_CMAKEDIR}" COMPONENT ${component})
  install(FILES "${CMAKE_BINARY_DIR}/cmake/TilewrightConfig.cmake"
                "${CMAKE_BINARY_DIR}/cmake/TilewrightConfigVersion.cmake"
    DESTINATION "${TILEWRIGHT_INSTALL_CMAKEDIR}" COMPONENT ${component})
  install(FILES "${CMAKE_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/tilewright" COMPONENT ${component})
endfunction()

# A shared library with one C header; pkg-config knows it by the name of the target.
function(tilewright_install_c_library component target headers description)
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${component}
    VERSION ${PROJECT_VERSION}
    SOVERSION ${TILEWRIGHT_ABI_VERSION}
    PUBLIC_HEADER "${headers}"
    INSTALL_RPATH "$ORIGIN")
  target_include_directories(${target} INTERFACE "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  install(TARGETS ${target} EXPORT ${component}
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT ${component}
    PUBLIC_HEADER DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT ${component})
  set(folder "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
  file(RELATIVE_PATH PREFIX_FROM_FOLDER "/${folder}" "/")
  set(NAME ${target})
  set(DESCRIPTION "${description}")
  configure_file("${CMAKE_SOURCE_DIR}/cmake/library.pc.in" "${CMAKE_BINARY_DIR}/cmake/${target}.pc" @ONLY)
  install(FILES "${CMAKE_BINARY_DIR}/cmake/${target}.pc" DESTINATION "${folder}" COMPONENT ${component})
  tilewright_install_package_config(${component})
endfunction()
