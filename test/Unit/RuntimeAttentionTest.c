/* Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * Attention by one description, from C. */

#include "runtime/tilewright.h"

tilewright_code tilewrightRunPackedFromC(const tilewright_bundle *bundle, void *memory,
                                         void *stream);

/* docs/runtime.md shows the body of this function. */
tilewright_code tilewrightRunPackedFromC(const tilewright_bundle *bundle, void *memory,
                                         void *stream) {
  tilewright_attention_desc desc = {0}; /* zero: not used, or the default */
  desc.struct_size = sizeof(desc);
  desc.type = TILEWRIGHT_BF16;
  desc.head_dim = 64;
  desc.packed = 1;
  tilewright_attention *plan = NULL;
  tilewright_code code = tilewright_attention_create(bundle, &desc, &plan);

  /* Three sequences of 300 queries and keys in all, in arrays of batch 1. */
  int64_t rows[] = {1, 8, 300, 64}, offsets[] = {4};
  tilewright_view q = {sizeof(q), memory, TILEWRIGHT_BF16, 4, rows, NULL};
  tilewright_view cu_seqlens = {sizeof(cu_seqlens), memory, TILEWRIGHT_I32, 1, offsets, NULL};
  float scale = 0.125f;
  tilewright_argument arguments[7] = {{0}}; /* in any order; windows are open by default */
  for (int i = 0; i < 7; ++i)
    arguments[i].struct_size = sizeof(arguments[i]);
  arguments[0].name = "q", arguments[0].view = &q;
  arguments[1].name = "k", arguments[1].view = &q;
  arguments[2].name = "v", arguments[2].view = &q;
  arguments[3].name = "o", arguments[3].view = &q;
  arguments[4].name = "cu_seqlens_q", arguments[4].view = &cu_seqlens;
  arguments[5].name = "cu_seqlens_k", arguments[5].view = &cu_seqlens;
  arguments[6].name = "scale", arguments[6].scalar = &scale;
  arguments[6].scalar_type = TILEWRIGHT_F32;

  if (code == TILEWRIGHT_OK)
    code = tilewright_attention_prepare(plan, 0);
  if (code == TILEWRIGHT_OK)
    code = tilewright_attention_run(plan, arguments, 7, NULL, 0, stream);
  tilewright_attention_destroy(plan);
  return code;
}
