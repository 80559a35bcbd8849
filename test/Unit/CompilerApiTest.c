/* Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * A program that was compiled with the header of 0.1, whose structs may be shorter than those of
 * the library. */

#include "Inputs/abi/tilewright-compiler-0.1.h"

void *tilewrightCompileAs01(const char *source, size_t source_size, size_t *size);

void *tilewrightCompileAs01(const char *source, size_t source_size, size_t *size) {
  const char *target = "sm_80";
  tilewright_compile_param param = {"T", "f32"};
  tilewright_compile_request request = {0};
  void *bundle = NULL;
  request.struct_size = sizeof(request);
  request.source = source;
  request.source_size = source_size;
  request.source_name = "row_softmax.mlir";
  request.entry = "row_softmax";
  request.params = &param;
  request.num_params = 1;
  request.targets = &target;
  request.num_targets = 1;
  *size = 0;
  return tilewright_compile(&request, &bundle, size) == TILEWRIGHT_COMPILE_OK ? bundle : NULL;
}
