# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# cmake -DGENERATED=dir -DCOMMITTED=dir -P CompareFolders.cmake: fails where a generated file differs from its copy.

file(GLOB files RELATIVE "${GENERATED}" "${GENERATED}/*.md")
foreach(file IN LISTS files)
  execute_process(COMMAND ${CMAKE_COMMAND} -E compare_files --ignore-eol "${GENERATED}/${file}" "${COMMITTED}/${file}"
                  RESULT_VARIABLE different OUTPUT_QUIET ERROR_QUIET)
  if(different)
    message(SEND_ERROR "${COMMITTED}/${file} is not what the .td files say: run `make docs` and commit it")
  endif()
endforeach()
