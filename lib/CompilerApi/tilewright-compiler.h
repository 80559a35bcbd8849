/* Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * The C interface of libtilewright-compiler.so: compiles a kernel or program to a bundle in memory,
 * for tilewright_bundle_load (tilewright.h). An application that loads bundles from files
 * needs only libtilewright.so.
 *
 * Set struct_size of each struct to its sizeof. A pointer is nullable only if its comment says
 * so. All functions may be called from several threads, at the same time.
 *
 * Results are kept in a cache on disk, which processes share: docs/runtime.md, "The cache". */

#ifndef TILEWRIGHT_LIB_COMPILERAPI_TILEWRIGHT_COMPILER_H
#define TILEWRIGHT_LIB_COMPILERAPI_TILEWRIGHT_COMPILER_H

#include <stddef.h>

#if defined(__GNUC__)
#define TILEWRIGHT_COMPILER_API __attribute__((visibility("default")))
#else
#define TILEWRIGHT_COMPILER_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tilewright_compile_code {
  TILEWRIGHT_COMPILE_OK = 0,
  TILEWRIGHT_COMPILE_INVALID_ARGUMENT = 1, /* an invalid call */
  TILEWRIGHT_COMPILE_REFUSED = 2           /* the text has the diagnostics of the compiler */
} tilewright_compile_code;

/* A parameter of the entry in the syntax of tilewrightc: {"D", "128"}, {"T", "bf16"}. */
typedef struct tilewright_compile_param {
  const char *name;
  const char *value;
} tilewright_compile_param;

typedef struct tilewright_compile_request {
  size_t struct_size;
  const char *source; /* the text of a kernel file */
  size_t source_size;
  const char *source_name; /* nullable; its name in diagnostics */
  const char *entry;       /* nullable: the only kernel or program that no program launches */
  const tilewright_compile_param *params; /* nullable */
  size_t num_params;
  const char *const *with; /* nullable; files whose functions and captures replace the source's */
  size_t num_with;
  /* nullable: sm_80, and sm_90a if kernels have roles there. For sm_90a alone, PTX for sm_80 is
   * added for views that no tensor map can describe. */
  const char *const *targets;
  size_t num_targets;
  /* nullable; the file that the source was read from, in whose folder its tile.link may name
   * files. Without it, tile.link can name only files embedded in the compiler. */
  const char *source_file;
  /* The compute capability of the only device for which the code is, such as 9 and 0, and the bytes
   * of shared memory that a block may have there (0: as on any chip of that capability). Without
   * targets, the bundle then has one target, the best of the device. 0: any device. */
  int device_major;
  int device_minor;
  size_t device_shared_bytes;
  /* Not 0: only the preferred form of each kernel, which may need views with aligned addresses and
   * strides. A run with other views fails with TILEWRIGHT_UNSUPPORTED; compile without it then. */
  int preferred_only;
  /* nullable: a folder of tilewright_compile_shipped. What it has is not compiled. */
  const char *shipped_folder;
  /* nullable: the path of a ptxas, for this and later requests, if the compiler finds no other one
   * (docs/runtime.md, "The cache"). */
  const char *assembler;
  /* nullable: how instances add to sums, as the option --sums of the tools, such as "unordered". */
  const char *sums;
  /* Not 0: code executes tile.print and tile.assert, which it otherwise leaves out; slow, for
   * finding faults. A print writes to the standard output stream when the host synchronizes; after
   * a failed assertion, calls of the driver return CUDA_ERROR_ASSERT. */
  int debug_ops;
} tilewright_compile_request;

/* The text of the last failure of this thread; empty if there was none. */
TILEWRIGHT_COMPILER_API const char *tilewright_compiler_last_error(void);

/* Returns the bytes of a bundle, which tilewright_compiler_free releases. */
TILEWRIGHT_COMPILER_API tilewright_compile_code
tilewright_compile(const tilewright_compile_request *request, void **bundle, size_t *size);

/* Compiles, and writes the result to a folder, from which tilewright_compile takes it for the same
 * request if that names the folder. For bundles that come with an application. It needs no ptxas
 * there, nor the one that was used here. */
TILEWRIGHT_COMPILER_API tilewright_compile_code
tilewright_compile_shipped(const tilewright_compile_request *request, const char *folder);

TILEWRIGHT_COMPILER_API void tilewright_compiler_free(void *bundle);

#ifdef __cplusplus
}
#endif

#endif /* TILEWRIGHT_LIB_COMPILERAPI_TILEWRIGHT_COMPILER_H */
