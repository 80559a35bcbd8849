/* Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * How an application in C compiles a kernel and gets it ready to run: from the text of a .mlir file
 * to a bundle in memory, and to a plan. It links libtilewright and libtilewright-compiler.
 *
 *   cc compile_attention.c $(pkg-config --cflags --libs tilewright tilewright-compiler)
 *   ./a.out kernels/attention_forward.mlir
 *
 * Exit code: 0 if the plan is ready, or there is no GPU and it says so; else 1. */

#include <stdio.h>
#include <stdlib.h>
#include <tilewright-compiler.h>
#include <tilewright.h>

static void check(tilewright_code code) {
  if (code == TILEWRIGHT_OK)
    return;
  fprintf(stderr, "compile_attention: %s\n", tilewright_last_error());
  exit(1);
}

/* The text of a file, which the caller frees. */
static char *readFile(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  char *text = NULL;
  if (file && fseek(file, 0, SEEK_END) == 0 && (text = malloc((size_t)ftell(file) + 1))) {
    *size = (size_t)ftell(file);
    rewind(file);
    *size = fread(text, 1, *size, file);
  }
  if (!text) {
    fprintf(stderr, "compile_attention: cannot read '%s'\n", path);
    exit(1);
  }
  fclose(file);
  return text;
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "compile_attention: expected the name of a kernel file\n");
    return 1;
  }

  tilewright_compile_param params[] = {{"D", "64"}, {"T", "f16"}, {"CAUSAL", "top_left"}};
  tilewright_compile_request request = {.struct_size = sizeof(request)};
  request.source = readFile(argv[1], &request.source_size);
  request.source_name = argv[1];
  request.params = params;
  request.num_params = 3;
  void *bytes = NULL;
  size_t size = 0;
  if (tilewright_compile(&request, &bytes, &size) != TILEWRIGHT_COMPILE_OK) {
    fprintf(stderr, "compile_attention: %s\n", tilewright_compiler_last_error());
    return 1;
  }
  free((void *)request.source);

  tilewright_bundle *bundle = NULL;
  check(tilewright_bundle_load(bytes, size, &bundle));
  tilewright_compiler_free(bytes);
  tilewright_attention_forward_desc desc = {.struct_size = sizeof(desc)};
  desc.type = TILEWRIGHT_F16;
  desc.causal = TILEWRIGHT_CAUSAL_TOP_LEFT;
  desc.head_dim = 64;
  tilewright_attention_forward *plan = NULL;
  check(tilewright_attention_forward_create(bundle, &desc, &plan));
  tilewright_bundle_close(bundle); /* the plan keeps what it needs */
  check(tilewright_attention_forward_check_support(plan, 8, 0, 0));
  check(tilewright_attention_forward_check_support(plan, 9, 0, 0));
  printf("compile_attention: %zu bytes, with code for compute capability 8.0 and 9.0\n", size);

  tilewright_code prepared = tilewright_attention_forward_prepare(plan, 0);
  if (prepared == TILEWRIGHT_NO_DRIVER) {
    printf("compile_attention: SKIPPED, there is no GPU: %s\n", tilewright_last_error());
  } else {
    check(prepared);
    printf("compile_attention: ready on device 0\n");
  }
  tilewright_attention_forward_destroy(plan);
  return 0;
}
