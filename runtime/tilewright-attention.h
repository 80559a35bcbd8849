/* Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * A part of tilewright.h, which includes it: the plainest calls of attention, with structs instead
 * of names. */

#ifndef TILEWRIGHT_RUNTIME_TILEWRIGHT_ATTENTION_H
#define TILEWRIGHT_RUNTIME_TILEWRIGHT_ATTENTION_H

#include "tilewright.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tilewright_attention_forward tilewright_attention_forward;
typedef struct tilewright_attention_backward tilewright_attention_backward;
typedef struct tilewright_attention_decode tilewright_attention_decode;

/* Attention forward. */
typedef struct tilewright_attention_forward_desc {
  size_t struct_size;
  tilewright_type type;
  tilewright_causal causal;
  int64_t head_dim;
  int64_t value_dim; /* 0: head_dim */
  int has_window;
  const char *entry; /* null: attention_forward */
} tilewright_attention_forward_desc;

typedef struct tilewright_attention_forward_args {
  size_t struct_size;
  const tilewright_view *q;   /* [B, Hq, Sq, D] */
  const tilewright_view *k;   /* [B, Hkv, Skv, D] */
  const tilewright_view *v;   /* [B, Hkv, Skv, DV] */
  const tilewright_view *o;   /* [B, Hq, Sq, DV] */
  const tilewright_view *lse; /* [B, Hq, Sq]; nullable */
  float scale;
  int32_t window_left; /* keys, or -1: no limit; required of both unless has_window is set */
  int32_t window_right;
  const tilewright_argument *captures; /* of replaced functions, by name; null if there are none */
  size_t num_captures;
  double exact_scale; /* instead of scale, for entries that take it in f64; 0: scale */
} tilewright_attention_forward_args;

TILEWRIGHT_API tilewright_code tilewright_attention_forward_create(
    const tilewright_bundle *bundle, const tilewright_attention_forward_desc *desc,
    tilewright_attention_forward **plan);
TILEWRIGHT_API void tilewright_attention_forward_destroy(tilewright_attention_forward *plan);
/* Names allowed in args->captures: captures of replaced functions, and other optional arguments
 * of the entry. Returns null after the last. */
TILEWRIGHT_API size_t
tilewright_attention_forward_num_captures(const tilewright_attention_forward *plan);
TILEWRIGHT_API const char *
tilewright_attention_forward_capture_name(const tilewright_attention_forward *plan, size_t index);
TILEWRIGHT_API tilewright_code tilewright_attention_forward_check_support(
    const tilewright_attention_forward *plan, int major, int minor, int shared_bytes);
TILEWRIGHT_API tilewright_code
tilewright_attention_forward_prepare(tilewright_attention_forward *plan, int device);
TILEWRIGHT_API tilewright_code tilewright_attention_forward_workspace_size(
    const tilewright_attention_forward *plan, const tilewright_attention_forward_args *args,
    int device, uint64_t *bytes);
TILEWRIGHT_API tilewright_code
tilewright_attention_forward_check_indices(tilewright_attention_forward *plan, int wanted);
TILEWRIGHT_API tilewright_code
tilewright_attention_forward_overlap_previous(tilewright_attention_forward *plan, int wanted);
TILEWRIGHT_API tilewright_code tilewright_attention_forward_run(
    const tilewright_attention_forward *plan, const tilewright_attention_forward_args *args,
    void *workspace, uint64_t workspace_bytes, void *stream);

/* Attention backward: the gradients of a function of O and LSE with respect to q, k and v. */
typedef struct tilewright_attention_backward_desc {
  size_t struct_size;
  tilewright_type type;
  tilewright_causal causal;
  int64_t head_dim;
  int64_t value_dim; /* 0: head_dim */
  int has_window;
  int deterministic;     /* runs are bitwise equal, at the cost of two more products per pair */
  int capture_gradients; /* captures may include d_x, which receives the gradient of capture x */
  const char *entry;     /* null: attention_backward */
} tilewright_attention_backward_desc;

typedef struct tilewright_attention_backward_args {
  size_t struct_size;
  const tilewright_view *q;     /* [B, Hq, Sq, D] */
  const tilewright_view *k;     /* [B, Hkv, Skv, D] */
  const tilewright_view *v;     /* [B, Hkv, Skv, DV] */
  const tilewright_view *o;     /* [B, Hq, Sq, DV], from the forward */
  const tilewright_view *d_o;   /* [B, Hq, Sq, DV] */
  const tilewright_view *lse;   /* [B, Hq, Sq], from the forward */
  const tilewright_view *d_lse; /* [B, Hq, Sq]; nullable: zero */
  const tilewright_view *d_q;   /* shape of q; written entirely */
  const tilewright_view *d_k;   /* if k, v, d_k and d_v have one head of stride 0: the heads' sum */
  const tilewright_view *d_v;
  float scale; /* scalars and captures as in the forward */
  int32_t window_left;
  int32_t window_right;
  const tilewright_argument *captures;
  size_t num_captures;
  double exact_scale;
} tilewright_attention_backward_args;

TILEWRIGHT_API tilewright_code tilewright_attention_backward_create(
    const tilewright_bundle *bundle, const tilewright_attention_backward_desc *desc,
    tilewright_attention_backward **plan);
TILEWRIGHT_API void tilewright_attention_backward_destroy(tilewright_attention_backward *plan);
TILEWRIGHT_API size_t
tilewright_attention_backward_num_captures(const tilewright_attention_backward *plan);
TILEWRIGHT_API const char *
tilewright_attention_backward_capture_name(const tilewright_attention_backward *plan, size_t index);
TILEWRIGHT_API tilewright_code tilewright_attention_backward_check_support(
    const tilewright_attention_backward *plan, int major, int minor, int shared_bytes);
TILEWRIGHT_API tilewright_code
tilewright_attention_backward_prepare(tilewright_attention_backward *plan, int device);
TILEWRIGHT_API tilewright_code tilewright_attention_backward_workspace_size(
    const tilewright_attention_backward *plan, const tilewright_attention_backward_args *args,
    int device, uint64_t *bytes);
TILEWRIGHT_API tilewright_code
tilewright_attention_backward_check_indices(tilewright_attention_backward *plan, int wanted);
TILEWRIGHT_API tilewright_code
tilewright_attention_backward_overlap_previous(tilewright_attention_backward *plan, int wanted);
TILEWRIGHT_API tilewright_code tilewright_attention_backward_run(
    const tilewright_attention_backward *plan, const tilewright_attention_backward_args *args,
    void *workspace, uint64_t workspace_bytes, void *stream);

/* Decoding: attention of new queries of each sequence, the last ones, over a cache of keys and
 * values. Fields that are not supported yet must have the value that their comment names. */

/* Pages of keys and values, or a page for each sequence. The order of dimensions in memory is that
 * of strides. Only the device reads what lengths and table hold. */
typedef struct tilewright_kv_cache {
  size_t struct_size;
  const tilewright_view *k;           /* [pages, rows, Hkv, D] */
  const tilewright_view *v;           /* [pages, rows, Hkv, DV] */
  const tilewright_view *block_table; /* i32 [B, L]; null: sequence b is page b */
  const tilewright_view *seq_lens;    /* i32 [B], with the new keys */
  /* With a cache of 8 bits, factors of what it holds: f32 [B, Hkv], [Hkv] or [1]. Else null. */
  const tilewright_view *k_scale;
  const tilewright_view *v_scale;
} tilewright_kv_cache;

typedef struct tilewright_attention_decode_desc {
  size_t struct_size;
  tilewright_type type;       /* of q and o */
  tilewright_type cache_type; /* type, or e4m3, e5m2 or i8 */
  tilewright_causal causal;   /* that of the code, also where one query makes none and bottom_right
                                 the same */
  int has_window;             /* tilewrightc compiles this with bottom_right alone */
  int64_t head_dim;
  int64_t value_dim;    /* 0: head_dim */
  int64_t group;        /* query heads that share a key head */
  int64_t max_rows;     /* queries of a sequence at most, 1 to 16, and 128 with those of a group;
                           0: 1. The code is that of ROWS, the next power of two; a run with more
                           queries than max_rows is rejected, also if ROWS has room for them */
  int32_t num_splits;   /* at most so many parts of a sequence; 0: any. Not 0: its result does not
                           depend on other sequences */
  int overlap_previous; /* 0: the default, which is on unless the environment says otherwise; 1: on.
                           Off by tilewright_attention_decode_overlap_previous alone */
  int lengths_are_older; /* 0: not supported yet */
  int32_t spare_sms;     /* 0: not supported yet */
  const char *entry;     /* null: attention_decode */
  int64_t list_block_n;  /* not 0: queries attend listed blocks of so many keys: kv_indices and
                            kv_num_blocks. 16, 32, 64, 128 or 256 */
} tilewright_attention_decode_desc;

typedef struct tilewright_attention_decode_args {
  size_t struct_size;
  const tilewright_view *q;             /* [B, R, Hq, D]; R is at most max_rows */
  const tilewright_view *o;             /* [B, R, Hq, DV] */
  const tilewright_view *lse;           /* [B, Hq, R], natural logarithm; nullable */
  const tilewright_view *cu_seqlens_q;  /* null: not supported yet */
  const tilewright_view *row_positions; /* null: not supported yet */
  const tilewright_view *tree_bits;     /* null: not supported yet */
  const tilewright_view *q_scale;       /* null: not supported yet */
  const tilewright_kv_cache *cache;
  float scale;
  int32_t window_left; /* -1: no limit; both are, unless has_window is set */
  int32_t window_right;
  int32_t key_first;                   /* 0: keys of several devices are not supported yet */
  int32_t key_step;                    /* 1 */
  int32_t key_interleave;              /* 1 */
  const tilewright_argument *captures; /* of functions that other files replaced */
  size_t num_captures;
  double exact_scale; /* instead of scale, for entries that take it in f64; 0: scale */
  /* With list_block_n, else null: i32 [B or 1, Hkv or 1, 1, L], the blocks that the queries of a
   * sequence and of the heads of a group attend, each at most once; and [B or 1, Hkv or 1, 1], how
   * many of the L count. Only the device reads them. */
  const tilewright_view *kv_indices;
  const tilewright_view *kv_num_blocks;
} tilewright_attention_decode_args;

/* A plan has the code of the bundle for all sizes of pages. */
TILEWRIGHT_API tilewright_code tilewright_attention_decode_create(
    const tilewright_bundle *bundle, const tilewright_attention_decode_desc *desc,
    tilewright_attention_decode **plan);
TILEWRIGHT_API void tilewright_attention_decode_destroy(tilewright_attention_decode *plan);
TILEWRIGHT_API size_t
tilewright_attention_decode_num_captures(const tilewright_attention_decode *plan);
TILEWRIGHT_API const char *
tilewright_attention_decode_capture_name(const tilewright_attention_decode *plan, size_t index);
TILEWRIGHT_API tilewright_code tilewright_attention_decode_check_support(
    const tilewright_attention_decode *plan, int major, int minor, int shared_bytes);
TILEWRIGHT_API tilewright_code
tilewright_attention_decode_prepare(tilewright_attention_decode *plan, int device);
/* From extents alone: one call serves all lengths. With other extents, also smaller ones, the
 * number may be larger. */
TILEWRIGHT_API tilewright_code tilewright_attention_decode_workspace_size(
    const tilewright_attention_decode *plan, const tilewright_attention_decode_args *args,
    int device, uint64_t *bytes);
TILEWRIGHT_API tilewright_code
tilewright_attention_decode_check_indices(tilewright_attention_decode *plan, int wanted);
TILEWRIGHT_API tilewright_code
tilewright_attention_decode_overlap_previous(tilewright_attention_decode *plan, int wanted);
TILEWRIGHT_API tilewright_code tilewright_attention_decode_run(
    const tilewright_attention_decode *plan, const tilewright_attention_decode_args *args,
    void *workspace, uint64_t workspace_bytes, void *stream);

#ifdef __cplusplus
}
#endif

#endif /* TILEWRIGHT_RUNTIME_TILEWRIGHT_ATTENTION_H */
