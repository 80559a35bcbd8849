/* Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * A program that was compiled with the header of 0.1, whose structs may be shorter than those of
 * the library, and with bundles of 0.1. */

#include "Inputs/abi/tilewright-0.1.h"

#define FOLDER "test/Unit/Inputs/bundles/abi3/"

/* The number of the first check that fails, or 0. */
int tilewrightForwardAs01(void);
int tilewrightBackwardAs01(void);
int tilewrightOperationAs01(void);

static tilewright_view view(uintptr_t address, tilewright_type type, uint32_t rank,
                            const int64_t *extents) {
  tilewright_view view = {0};
  view.struct_size = sizeof(view);
  view.data = (void *)address;
  view.type = type;
  view.rank = rank;
  view.extents = extents;
  return view;
}

static tilewright_argument argument(const char *name, const tilewright_view *view) {
  tilewright_argument argument = {0};
  argument.struct_size = sizeof(argument);
  argument.name = name;
  argument.view = view;
  return argument;
}

static tilewright_argument scalar(const char *name, const void *value, tilewright_type type) {
  tilewright_argument scalar = argument(name, NULL);
  scalar.scalar = value;
  scalar.scalar_type = type;
  return scalar;
}

int tilewrightForwardAs01(void) {
  const int64_t extents[4] = {2, 8, 300, 64};
  const float softcap = 30;
  tilewright_view q = view(0x10000, TILEWRIGHT_BF16, 4, extents);
  tilewright_view lse = view(0x20000, TILEWRIGHT_F32, 3, extents);
  tilewright_argument capture = scalar("softcap", &softcap, TILEWRIGHT_F32);
  tilewright_attention_forward_desc desc = {0};
  tilewright_attention_forward_args args = {0};
  tilewright_attention_forward *plan = NULL;
  tilewright_bundle *bundle = NULL;
  uint64_t bytes = 1;

  desc.struct_size = sizeof(desc);
  desc.type = TILEWRIGHT_BF16;
  desc.causal = TILEWRIGHT_CAUSAL_TOP_LEFT;
  desc.head_dim = 64;
  desc.entry = "attention_forward";
  args.struct_size = sizeof(args);
  args.q = args.k = args.v = args.o = &q;
  args.lse = &lse;
  args.scale = 0.125f;
  args.window_left = args.window_right = -1;
  args.captures = &capture;
  args.num_captures = 1;
  if (tilewright_bundle_open(FOLDER "attention_forward.twb", &bundle) != TILEWRIGHT_OK)
    return 1;
  if (tilewright_attention_forward_create(bundle, &desc, &plan) != TILEWRIGHT_OK)
    return 2;
  tilewright_bundle_close(bundle);
  if (tilewright_attention_forward_num_captures(plan) != 1 ||
      tilewright_attention_forward_capture_name(plan, 0)[0] != 's')
    return 3;
  if (tilewright_attention_forward_check_support(plan, 9, 0, 0) != TILEWRIGHT_OK)
    return 4;
  if (tilewright_attention_forward_prepare(plan, 0) != TILEWRIGHT_OK)
    return 5;
  if (tilewright_attention_forward_check_indices(plan, 0) != TILEWRIGHT_OK)
    return 6;
  if (tilewright_attention_forward_workspace_size(plan, &args, 0, &bytes) != TILEWRIGHT_OK ||
      bytes != 0)
    return 7;
  if (tilewright_attention_forward_run(plan, &args, NULL, 0, NULL) != TILEWRIGHT_OK)
    return 8;
  tilewright_attention_forward_destroy(plan);
  return 0;
}

int tilewrightBackwardAs01(void) {
  const int64_t extents[4] = {2, 8, 300, 64}, heads[1] = {8};
  tilewright_view q = view(0x10000, TILEWRIGHT_BF16, 4, extents);
  tilewright_view lse = view(0x20000, TILEWRIGHT_F32, 3, extents);
  tilewright_view slopes = view(0x30000, TILEWRIGHT_F32, 1, heads);
  tilewright_argument captures[2] = {{0}, {0}};
  tilewright_attention_backward_desc desc = {0};
  tilewright_attention_backward_args args = {0};
  tilewright_attention_backward *plan = NULL;
  tilewright_bundle *bundle = NULL;
  uint64_t bytes = 0;

  captures[0] = argument("slopes", &slopes);
  captures[1] = argument("d_slopes", &slopes);
  desc.struct_size = sizeof(desc);
  desc.type = TILEWRIGHT_BF16;
  desc.causal = TILEWRIGHT_CAUSAL_TOP_LEFT;
  desc.head_dim = 64;
  desc.capture_gradients = 1;
  args.struct_size = sizeof(args);
  args.q = args.k = args.v = args.o = args.d_o = args.d_q = args.d_k = args.d_v = &q;
  args.lse = args.d_lse = &lse;
  args.scale = 0.125f;
  args.window_left = args.window_right = -1;
  args.captures = captures;
  args.num_captures = 2;
  if (tilewright_bundle_open(FOLDER "attention_backward.twb", &bundle) != TILEWRIGHT_OK)
    return 1;
  if (tilewright_attention_backward_create(bundle, &desc, &plan) != TILEWRIGHT_OK)
    return 2;
  tilewright_bundle_close(bundle);
  if (tilewright_attention_backward_num_captures(plan) != 2 ||
      tilewright_attention_backward_capture_name(plan, 2))
    return 3;
  if (tilewright_attention_backward_check_support(plan, 8, 0, 0) != TILEWRIGHT_OK)
    return 4;
  if (tilewright_attention_backward_prepare(plan, 0) != TILEWRIGHT_OK)
    return 5;
  if (tilewright_attention_backward_check_indices(plan, 0) != TILEWRIGHT_OK)
    return 6;
  if (tilewright_attention_backward_workspace_size(plan, &args, 0, &bytes) != TILEWRIGHT_OK ||
      bytes == 0)
    return 7;
  if (tilewright_attention_backward_run(plan, &args, (void *)0x1000000, bytes, NULL) !=
      TILEWRIGHT_OK)
    return 8;
  tilewright_attention_backward_destroy(plan);
  return 0;
}

int tilewrightOperationAs01(void) {
  const int64_t rows[4] = {1, 8, 1000, 64}, starts[1] = {5};
  const int32_t open = -1;
  const float scale = 0.125f;
  tilewright_view q = view(0x10000, TILEWRIGHT_BF16, 4, rows);
  tilewright_view lse = view(0x20000, TILEWRIGHT_F32, 3, rows);
  tilewright_view cu_seqlens = view(0x30000, TILEWRIGHT_I32, 1, starts);
  tilewright_param param = {"D", "64"};
  tilewright_argument list[16] = {{0}};
  tilewright_operation *operation = NULL;
  tilewright_bundle *bundle = NULL;
  uint64_t bytes = 0;
  size_t i = 0;

  static const char *const arrays[8] = {"q", "k", "v", "o", "do", "dq", "dk", "dv"};
  for (; i < 8; ++i)
    list[i] = argument(arrays[i], &q);
  list[i++] = argument("lse", &lse);
  list[i++] = argument("cu_seqlens_q", &cu_seqlens);
  list[i++] = argument("cu_seqlens_k", &cu_seqlens);
  list[i++] = scalar("scale", &scale, TILEWRIGHT_F32);
  list[i++] = scalar("window_left", &open, TILEWRIGHT_I32);
  list[i++] = scalar("window_right", &open, TILEWRIGHT_I32);
  if (tilewright_bundle_open(FOLDER "attention_backward_packed.twb", &bundle) != TILEWRIGHT_OK)
    return 1;
  if (tilewright_operation_create(bundle, "attention_backward", &param, 1, &operation) !=
      TILEWRIGHT_OK)
    return 2;
  tilewright_bundle_close(bundle);
  if (tilewright_operation_num_arguments(operation) != 15 ||
      tilewright_operation_argument_name(operation, 15))
    return 3;
  if (tilewright_operation_check_support(operation, 9, 0, 0) != TILEWRIGHT_OK)
    return 4;
  if (tilewright_operation_prepare(operation, 0) != TILEWRIGHT_OK)
    return 5;
  if (tilewright_operation_check_indices(operation, 0) != TILEWRIGHT_OK)
    return 6;
  if (tilewright_operation_workspace_size(operation, list, i, 0, &bytes) != TILEWRIGHT_OK ||
      bytes == 0)
    return 7;
  if (tilewright_operation_run(operation, list, i, (void *)0x1000000, bytes, NULL) != TILEWRIGHT_OK)
    return 8;
  tilewright_operation_destroy(operation);
  if (tilewright_bundle_load("", 0, &bundle) != TILEWRIGHT_BAD_BUNDLE)
    return 9;
  if (tilewright_timeline_write(NULL, NULL, 0, NULL) != TILEWRIGHT_INVALID_ARGUMENT ||
      tilewright_last_error()[0] == 0)
    return 10;
  return 0;
}
