/* Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * The C interface of libtilewright.so: loads bundles of compiled kernels and launches them through
 * the CUDA driver, which it opens at run time.
 *
 * Every function that can fail returns a tilewright_code; tilewright_last_error() then has the
 * text. Set struct_size of each struct to its sizeof. A pointer is nullable only if its comment
 * says so. Strides count elements. A stream is a CUstream (or cudaStream_t), null for the default
 * stream.
 *
 * The context of a call is that of its stream, else the current one, else the primary context that
 * prepare retained. Objects may be used from several threads; an object must not be destroyed while
 * another call uses it. A bundle may be closed once objects have been created from it. */

#ifndef TILEWRIGHT_RUNTIME_TILEWRIGHT_H
#define TILEWRIGHT_RUNTIME_TILEWRIGHT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TILEWRIGHT_API __attribute__((visibility("default")))
#else
#define TILEWRIGHT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tilewright_code {
  TILEWRIGHT_OK = 0,
  TILEWRIGHT_INVALID_ARGUMENT = 1,
  TILEWRIGHT_UNSUPPORTED = 2,
  TILEWRIGHT_MISSING_VARIANT = 3, /* the text has the tilewrightc command to compile it */
  TILEWRIGHT_BAD_BUNDLE = 4,
  TILEWRIGHT_NO_DRIVER = 5,
  TILEWRIGHT_NOT_PREPARED = 6,
  TILEWRIGHT_OUT_OF_MEMORY = 7,
  TILEWRIGHT_DRIVER = 8,
  TILEWRIGHT_COMPILE = 9, /* the text ends with the driver's log */
  TILEWRIGHT_IO = 10
} tilewright_code;

typedef enum tilewright_type {
  TILEWRIGHT_F64 = 0,
  TILEWRIGHT_F32 = 1,
  TILEWRIGHT_F16 = 2,
  TILEWRIGHT_BF16 = 3,
  TILEWRIGHT_E4M3 = 4,
  TILEWRIGHT_E5M2 = 5,
  TILEWRIGHT_I64 = 6,
  TILEWRIGHT_I32 = 7,
  TILEWRIGHT_I1 = 8,
  TILEWRIGHT_I8 = 9
} tilewright_type;

typedef enum tilewright_causal {
  TILEWRIGHT_CAUSAL_NONE = 0,
  TILEWRIGHT_CAUSAL_TOP_LEFT = 1,
  TILEWRIGHT_CAUSAL_BOTTOM_RIGHT = 2
} tilewright_causal;

typedef struct tilewright_bundle tilewright_bundle;
typedef struct tilewright_operation tilewright_operation;
typedef struct tilewright_report tilewright_report;
typedef struct tilewright_attention tilewright_attention;

/* An array in device memory. */
typedef struct tilewright_view {
  size_t struct_size;
  void *data;
  tilewright_type type;
  uint32_t rank; /* at most 8 */
  const int64_t *extents;
  const int64_t *strides; /* null: row-major */
} tilewright_view;

/* An argument: a view, a scalar, or neither if the argument is optional or has a default. */
typedef struct tilewright_argument {
  size_t struct_size;
  const char *name;            /* null: by position */
  const tilewright_view *view; /* nullable */
  const void *scalar;          /* nullable; a value of the type below, in host memory */
  tilewright_type scalar_type; /* f32 and f64 are converted to the type of the argument */
} tilewright_argument;

/* A parameter of a kernel in the syntax of tilewrightc: {"D", "128"}, {"T", "bf16"}. */
typedef struct tilewright_param {
  const char *name;
  const char *value;
} tilewright_param;

/* The text of the last failure of this thread; empty if there was none. */
TILEWRIGHT_API const char *tilewright_last_error(void);

/* Bundles. tilewright_bundle_load copies the bytes. */
TILEWRIGHT_API tilewright_code tilewright_bundle_open(const char *path, tilewright_bundle **bundle);
TILEWRIGHT_API tilewright_code tilewright_bundle_load(const void *bytes, size_t size,
                                                      tilewright_bundle **bundle);
TILEWRIGHT_API void tilewright_bundle_close(tilewright_bundle *bundle);
/* Why kernels are slower than the chip allows, a line for each reason, as the compiler found; "" if
 * there is none. The text lives as long as the bundle. */
TILEWRIGHT_API const char *tilewright_bundle_remarks(const tilewright_bundle *bundle);

/* Kernels and programs by name. Parameters that are not listed may have any value. */
TILEWRIGHT_API tilewright_code tilewright_operation_create(const tilewright_bundle *bundle,
                                                           const char *name,
                                                           const tilewright_param *params,
                                                           size_t num_params,
                                                           tilewright_operation **operation);
TILEWRIGHT_API void tilewright_operation_destroy(tilewright_operation *operation);
TILEWRIGHT_API size_t tilewright_operation_num_arguments(const tilewright_operation *operation);
/* Returns null after the last. */
TILEWRIGHT_API const char *tilewright_operation_argument_name(const tilewright_operation *operation,
                                                              size_t index);
/* Whether there is code for a compute capability and this much shared memory per block (0: any).
 * Needs no GPU. */
TILEWRIGHT_API tilewright_code tilewright_operation_check_support(
    const tilewright_operation *operation, int major, int minor, int shared_bytes);
/* Loads the code on a device. Not during stream capture. */
TILEWRIGHT_API tilewright_code tilewright_operation_prepare(tilewright_operation *operation,
                                                            int device);
/* The bytes that a run needs for these shapes. The device must exist, but need not be prepared;
 * without a driver, any number from 0 to 63 is taken. */
TILEWRIGHT_API tilewright_code tilewright_operation_workspace_size(
    const tilewright_operation *operation, const tilewright_argument *arguments,
    size_t num_arguments, int device, uint64_t *bytes);
/* Whether a run checks the constraints of a kernel or program on the elements of index arrays
 * (offsets, lengths, page tables): 0 or 1. The default is the value of the environment variable
 * TILEWRIGHT_CHECK_INDICES at creation. Such a run waits for the stream, copies these arrays to the
 * host, and reports array, index and value of the first element that breaks a constraint. It cannot
 * be captured. Without the check, results are still defined. */
TILEWRIGHT_API tilewright_code tilewright_operation_check_indices(tilewright_operation *operation,
                                                                  int wanted);
/* Whether a run may start before the previous launch of its stream has ended (programmatic
 * dependent launch): 0 or 1. The default is 1, unless the environment variable
 * TILEWRIGHT_OVERLAP_PREVIOUS is 0 at creation. Its first kernel then waits for the end of that
 * launch before it accesses memory, so nothing changes but time. Those of attention_append,
 * attention_decode, attention_mla_decode and attention_mla_decode_bytes can wait; others start as
 * ever, as do all on GPUs before compute capability 9.0, and with drivers before CUDA 12.3. All
 * kernels of the stream that are launched in this way, also those of other libraries, must wait for
 * the launch before them: if one ends without having waited, set 0 for what follows it. */
TILEWRIGHT_API tilewright_code
tilewright_operation_overlap_previous(tilewright_operation *operation, int wanted);
/* Does not allocate or synchronize and may be captured, unless it checks indices. The workspace
 * is aligned to 256 bytes, and null if none is needed. A scalar that is left out has its default.
 *
 * Elements of a view that is written must not share memory. The exception are the arguments dk and
 * dv, [batch, heads, rows, width], of a backward whose k and v also have a stride of 0 along the
 * heads: these heads count as one, to which the sum of all is written. */
TILEWRIGHT_API tilewright_code tilewright_operation_run(const tilewright_operation *operation,
                                                        const tilewright_argument *arguments,
                                                        size_t num_arguments, void *workspace,
                                                        uint64_t workspace_bytes, void *stream);

/* What a run would launch, from the bundle and the arguments alone. */

/* A device, which need not exist. */
typedef struct tilewright_target {
  size_t struct_size;
  int major; /* compute capability */
  int minor;
  int shared_bytes;    /* of a block at most; 0: any */
  int multiprocessors; /* some kernels divide their work by them */
} tilewright_target;

typedef enum tilewright_determinism {
  TILEWRIGHT_DETERMINISM_UNKNOWN = 0, /* bundles of ABI 3 do not say */
  TILEWRIGHT_DETERMINISM_YES = 1,     /* two runs on the same arguments have the same bits */
  TILEWRIGHT_DETERMINISM_NO = 2       /* floats are added in an order that differs */
} tilewright_determinism;

typedef struct tilewright_run_info {
  size_t struct_size;
  const char *name;   /* of the kernel or program */
  const char *target; /* of its code: "sm_90a" */
  const char *params; /* that all launches have: "D=128,T=bf16" */
  const char *sums;   /* types in which products are summed: "f32"; empty: no products */
  /* A key for caches: calls with equal strings launch the same code in the same way, on one device,
   * with one bundle. It is the signature of a plan, or the name of an operation and the parameters
   * that it was created with, then types, extents, strides and alignment of views, and values of
   * scalars. */
  const char *call;
  tilewright_determinism determinism;
  uint64_t workspace_bytes;
  size_t num_launches;
} tilewright_run_info;

typedef struct tilewright_launch_info {
  size_t struct_size;
  const char *kernel;
  const char *entry; /* symbol of the variant in the code */
  const char *target;
  const char *params; /* with those that the compiler chose: "...,BLOCK_M=128,BLOCK_N=64" */
  const char *sums;
  tilewright_determinism determinism;
  int is_cubin;      /* 0: PTX, which the driver compiles */
  uint32_t grid[3];  /* in thread blocks; if one is 0, nothing is launched */
  uint32_t block[3]; /* in threads */
  uint32_t cluster[3];
  uint32_t shared_bytes; /* of a thread block */
} tilewright_launch_info;

/* For a device that is prepared, or for `target` if that is not null; then no GPU is needed. */
TILEWRIGHT_API tilewright_code tilewright_operation_report(const tilewright_operation *operation,
                                                           const tilewright_argument *arguments,
                                                           size_t num_arguments, int device,
                                                           const tilewright_target *target,
                                                           tilewright_report **report);
/* Strings live as long as the report. */
TILEWRIGHT_API tilewright_code tilewright_report_run(const tilewright_report *report,
                                                     tilewright_run_info *info);
TILEWRIGHT_API tilewright_code tilewright_report_launch(const tilewright_report *report,
                                                        size_t index, tilewright_launch_info *info);
TILEWRIGHT_API void tilewright_report_destroy(tilewright_report *report);

/* A kernel compiled with `tilewrightc --timeline` has an optional argument `timeline`, for
 * attention among the captures: an array of i64 of rank 1 in device memory, which the host clears
 * before the launch, and into which each warpgroup of each role writes the times of its waits,
 * copies, products and stores. Any size is valid: one chunk (4096 elements unless --timeline sets
 * another number), and one per warpgroup of each role of every thread block to be recorded. If the
 * argument is absent, nothing is written. Several launches may write to one array, one after
 * another.
 *
 * This writes a trace for Perfetto (ui.perfetto.dev) from a copy of the array in host memory, which
 * must be aligned to 8 bytes. Needs no GPU. */
TILEWRIGHT_API tilewright_code tilewright_timeline_write(const tilewright_bundle *bundle,
                                                         const void *timeline, size_t bytes,
                                                         const char *path);

/* The cache on disk: machine code that the driver made from PTX, and bundles that the compiler
 * made. See docs/runtime.md, "The cache". */
typedef struct tilewright_cache {
  size_t struct_size;
  const char *folder;   /* empty: the cache is disabled */
  const char *unused;   /* why the folder is not used; null: it is used */
  uint64_t entries;     /* files */
  uint64_t bytes;       /* of all files */
  uint64_t limit_bytes; /* beyond it, entries that were used least recently are removed */
} tilewright_cache;

/* Fills the struct. The strings are valid until the next call in the thread. */
TILEWRIGHT_API tilewright_code tilewright_cache_query(tilewright_cache *cache);
/* Removes all entries, and fills the struct with what is left. */
TILEWRIGHT_API tilewright_code tilewright_cache_clear(tilewright_cache *cache);

/* Attention, by one description for all shipped kernels, kernels/attention_*.mlir. A plan takes the
 * arguments of the kernel by name, as its file describes them: q, k, v, o, lse, scale and so on. A
 * description that is all zero but for its size, type and head_dim is the plainest forward. A field
 * of another kind must be zero. */
typedef enum tilewright_attention_kind {
  TILEWRIGHT_ATTENTION_FORWARD = 0,
  TILEWRIGHT_ATTENTION_BACKWARD = 1,
  TILEWRIGHT_ATTENTION_DECODE = 2,
  TILEWRIGHT_ATTENTION_APPEND = 3,
  /* Over a cache, by a decode or a forward: tilewright_attention_describe chooses, and nothing else
   * takes it. */
  TILEWRIGHT_ATTENTION_CACHED = 4
} tilewright_attention_kind;

/* How an append finds the row of a new key. */
typedef enum tilewright_places {
  TILEWRIGHT_PLACES_SLOTS = 0,    /* slots */
  TILEWRIGHT_PLACES_TABLE = 1,    /* seq_lens and block_table: behind the keys of the sequence */
  TILEWRIGHT_PLACES_SEQUENCES = 2 /* seq_lens; sequence b is page b */
} tilewright_places;

#define TILEWRIGHT_NO_TABLE (-1) /* for page_rows */

typedef struct tilewright_attention_desc {
  size_t struct_size;
  tilewright_attention_kind kind;
  tilewright_type type; /* of q, k, v and o */
  int64_t head_dim;
  int64_t value_dim; /* 0: head_dim */
  const char *entry; /* null: attention_forward, and so on */
  /* Further parameters of the entry, such as {"BLOCK_M", "64"}. */
  const tilewright_param *params;
  size_t num_params;

  /* Forward, backward, decode. */
  tilewright_causal causal;
  int has_window; /* window_left and window_right, -1 by default, may have other values */
  /* Sequences of different lengths, one after the other, in arrays of batch 1, with cu_seqlens_q,
   * and cu_seqlens_k where there is no cache; of an append, cu_seqlens. A decode leaves out
   * sequences with more queries than max_rows, rounded up to a power of two; a forward with the
   * parameter ABOVE those with at most so many. */
  int packed;
  /* Forward, backward, decode. Not 0: queries attend listed blocks of keys, of this many queries
   * and keys (list_block_n 0: as many): kv_indices and kv_num_blocks. Of a decode, max_rows or more
   * queries, and 16, 32, 64, 128 or 256 keys. */
  int64_t list_block_m;
  int64_t list_block_n;
  /* Forward: keys are in a cache, with seq_lens, and block_table if there are pages. */
  int cached;
  /* Forward that is cached, decode. 0: any size of pages, and no table too, for which the bundle
   * has code; a run takes what copies the most rows at once. Else the rows of a page that one copy
   * takes, which divide those of a page, or TILEWRIGHT_NO_TABLE. */
  int64_t page_rows;
  /* Backward. */
  int deterministic;     /* runs are bitwise equal, at the cost of two more products per pair where
                            sums cannot be in order */
  int ordered;           /* also in order; only bundles of earlier versions have this choice */
  int score_gradient;    /* d_score, the gradient of the scores, for that of a bias */
  int capture_gradients; /* optional d_x, for the gradient of capture x */
  /* Decode. */
  int32_t num_splits; /* at most so many parts of a sequence; 0: any. Not 0: its result does not
                         depend on other sequences */
  int64_t group;      /* query heads that share a key head; 0: 1 */
  int64_t max_rows;   /* queries of a sequence at most, 1 to 16; 0: 1 */
  /* Append. */
  tilewright_places places;
  int wide_indices; /* slots_i64 and positions_i64 instead of slots and positions */
  int positions;    /* of the new keys, for their rotation */
  int64_t rotary;   /* columns that are rotated, by cos and sin */
  /* Only with rotary; without, they make no difference. */
  int rotary_pairs;            /* columns 2 i and 2 i + 1 together, else i and i + rotary / 2 */
  int rotary_first;            /* queries by the position of the first new key of their sequence */
  tilewright_type rotary_type; /* of cos and sin */
  /* Forward that is cached, decode: the first keys of sequences are padding, of which leftpad gives
   * the numbers. */
  int leftpad;
  /* Decode, append, forward that is cached: the type of the cache: e4m3, e5m2 or i8, for which
   * there are k_descale and v_descale, of a forward k_factors and v_factors; null: type. */
  const tilewright_type *cache_type;
} tilewright_attention_desc;

/* Sets what follows from the arguments of a call, by name: type and widths; windows, packed
 * sequences, a cache, padding, and the gradients of scores and captures; page_rows, unless it is
 * set; group, and max_rows unless it is more; places, indices and rotation of an append. Keeps the
 * other fields: kind, causal, list_block_m and so on.
 *
 * With TILEWRIGHT_ATTENTION_CACHED, whose arguments are those of a cached forward, it also chooses
 * the kernel: a decode, whose k and v are k_pages and v_pages, if the queries of the heads that
 * share a key head fit one of its tiles, and share lists of blocks; else a forward, without
 * num_splits, group and max_rows, which only a decode has. */
TILEWRIGHT_API tilewright_code tilewright_attention_describe(tilewright_attention_desc *desc,
                                                             const tilewright_argument *arguments,
                                                             size_t num_arguments);

/* "attention_forward D=64,DV=64,T=bf16,CAUSAL=top_left": the entry, widths and type, the parameters
 * of what is not off, and further ones by name. Equal for equal descriptions, however these state
 * defaults, and the same in later versions: a key for caches of plans. Linked files are not part of
 * it. Valid until the next call in the thread. */
TILEWRIGHT_API tilewright_code tilewright_attention_signature(const tilewright_attention_desc *desc,
                                                              const char **signature);
/* All parameters, as tilewrightc --variant and tilewright-compiler.h take them: "D=64,DV=64,...".
 * Valid until the next call in the thread. */
TILEWRIGHT_API tilewright_code tilewright_attention_params(const tilewright_attention_desc *desc,
                                                           const char **params);

TILEWRIGHT_API tilewright_code tilewright_attention_create(const tilewright_bundle *bundle,
                                                           const tilewright_attention_desc *desc,
                                                           tilewright_attention **plan);
TILEWRIGHT_API void tilewright_attention_destroy(tilewright_attention *plan);
/* Captures come last. Returns null after the last. */
TILEWRIGHT_API size_t tilewright_attention_num_arguments(const tilewright_attention *plan);
TILEWRIGHT_API const char *tilewright_attention_argument_name(const tilewright_attention *plan,
                                                              size_t index);
/* The other functions are those of operations. */
TILEWRIGHT_API tilewright_code tilewright_attention_check_support(const tilewright_attention *plan,
                                                                  int major, int minor,
                                                                  int shared_bytes);
TILEWRIGHT_API tilewright_code tilewright_attention_prepare(tilewright_attention *plan, int device);
TILEWRIGHT_API tilewright_code tilewright_attention_workspace_size(
    const tilewright_attention *plan, const tilewright_argument *arguments, size_t num_arguments,
    int device, uint64_t *bytes);
TILEWRIGHT_API tilewright_code tilewright_attention_check_indices(tilewright_attention *plan,
                                                                  int wanted);
TILEWRIGHT_API tilewright_code tilewright_attention_overlap_previous(tilewright_attention *plan,
                                                                     int wanted);
TILEWRIGHT_API tilewright_code tilewright_attention_run(const tilewright_attention *plan,
                                                        const tilewright_argument *arguments,
                                                        size_t num_arguments, void *workspace,
                                                        uint64_t workspace_bytes, void *stream);
TILEWRIGHT_API tilewright_code tilewright_attention_report(const tilewright_attention *plan,
                                                           const tilewright_argument *arguments,
                                                           size_t num_arguments, int device,
                                                           const tilewright_target *target,
                                                           tilewright_report **report);

/* Calls from XLA, and so from JAX, by its foreign function interface: tilewright_xla_handler is an
 * XLA_FFI_Handler of the platform CUDA. A custom call has a string attribute "call", the key of a
 * registered call, which says what its buffers are. */

/* A buffer of a custom call, which is row-major. */
typedef struct tilewright_xla_buffer {
  size_t struct_size;
  const char *name;      /* of the argument */
  const uint32_t *order; /* nullable; dimension i of the argument is order[i] of the buffer */
  size_t rank;           /* of `order` */
  int is_pairs;          /* 0 or 1: elements of i64 are pairs of u32 along the last dimension */
} tilewright_xla_buffer;

typedef struct tilewright_xla_call {
  size_t struct_size;
  const tilewright_operation *operation; /* either, prepared; lives as long as calls execute */
  const tilewright_attention *attention;
  const tilewright_xla_buffer *buffers; /* operands, then results */
  size_t num_buffers;
  const tilewright_argument *scalars; /* copied */
  size_t num_scalars;
  int has_workspace; /* 0 or 1: one more result, of at least tilewright_*_workspace_size bytes */
} tilewright_xla_call;

/* Calls that execute later find it by its key; an earlier one of this key is replaced. */
TILEWRIGHT_API tilewright_code tilewright_xla_register(const char *key,
                                                       const tilewright_xla_call *call);
TILEWRIGHT_API void *tilewright_xla_handler(void *call_frame);

#ifdef __cplusplus
}
#endif

#include "tilewright-attention.h" /* calls of attention with structs instead of names */

#endif /* TILEWRIGHT_RUNTIME_TILEWRIGHT_H */
