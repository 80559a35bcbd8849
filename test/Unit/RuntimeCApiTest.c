/* Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * tilewright.h from C: it must compile as C99, and a plan and a kernel must run. */

#include "runtime/tilewright.h"

int tilewrightCheckFromC(const void *bytes, size_t size);

int tilewrightCheckFromC(const void *bytes, size_t size) {
  tilewright_bundle *bundle = NULL;
  tilewright_attention_forward *plan = NULL;
  int64_t extents[4] = {1, 2, 3, 64};
  int64_t strides[4] = {384, 64, 128, 1}; /* [batch, row, head, element] in memory */
  int64_t slope_extents[1] = {2};
  int device_memory = 0;
  tilewright_view view = {0}, slopes = {0};
  tilewright_argument capture = {0};
  tilewright_attention_forward_desc desc = {0};
  tilewright_attention_forward_args args = {0};
  uint64_t workspace = 1;

  view.struct_size = sizeof(view);
  view.data = &device_memory;
  view.type = TILEWRIGHT_BF16;
  view.rank = 4;
  view.extents = extents;
  view.strides = strides;
  slopes.struct_size = sizeof(slopes);
  slopes.data = &device_memory;
  slopes.type = TILEWRIGHT_F32;
  slopes.rank = 1;
  slopes.extents = slope_extents;
  capture.struct_size = sizeof(capture);
  capture.name = "slopes";
  capture.view = &slopes;
  desc.struct_size = sizeof(desc);
  desc.type = TILEWRIGHT_BF16;
  desc.causal = TILEWRIGHT_CAUSAL_TOP_LEFT;
  desc.head_dim = 64;
  args.struct_size = sizeof(args);
  args.window_left = args.window_right = -1;
  args.q = args.k = args.v = args.o = &view;
  args.scale = 0.125f;
  args.captures = &capture;
  args.num_captures = 1;

  if (tilewright_bundle_load(bytes, size, &bundle) != TILEWRIGHT_OK)
    return 1;
  if (tilewright_attention_forward_create(bundle, &desc, &plan) != TILEWRIGHT_OK)
    return 2;
  if (tilewright_attention_forward_check_support(plan, 8, 0, 0) != TILEWRIGHT_OK)
    return 3;
  if (tilewright_attention_forward_prepare(plan, 0) != TILEWRIGHT_OK)
    return 4;
  if (tilewright_attention_forward_workspace_size(plan, &args, 0, &workspace) != TILEWRIGHT_OK)
    return 5;
  if (tilewright_attention_forward_check_indices(plan, 1) != TILEWRIGHT_OK)
    return 7;
  if (tilewright_attention_forward_run(plan, &args, NULL, workspace, NULL) != TILEWRIGHT_OK)
    return 6;
  tilewright_attention_forward_destroy(plan);
  tilewright_bundle_close(bundle);
  return 0;
}

tilewright_code tilewrightRunKernelFromC(const tilewright_bundle *bundle, void *x, void *y,
                                         void *stream);

/* docs/runtime.md shows the body of this function. */
tilewright_code tilewrightRunKernelFromC(const tilewright_bundle *bundle, void *x, void *y,
                                         void *stream) {
  tilewright_param params[] = {{"C", "1024"}, {"T", "f16"}};
  tilewright_operation *operation = NULL;
  tilewright_code code = tilewright_operation_create(bundle, "rms_norm", params, 2, &operation);

  int64_t extents[] = {500, 1024};
  tilewright_view xs = {sizeof(xs), x, TILEWRIGHT_F16, 2, extents, NULL}; /* NULL: row-major */
  tilewright_view ys = {sizeof(ys), y, TILEWRIGHT_F16, 2, extents, NULL};
  float epsilon = 1.0e-5f;
  tilewright_argument arguments[3] = {{0}};
  for (int i = 0; i < 3; ++i)
    arguments[i].struct_size = sizeof(arguments[i]);
  arguments[0].view = &xs;
  arguments[1].view = &ys;
  arguments[2].scalar = &epsilon;
  arguments[2].scalar_type = TILEWRIGHT_F32;

  if (code == TILEWRIGHT_OK)
    code = tilewright_operation_prepare(operation, 0);
  if (code == TILEWRIGHT_OK)
    code = tilewright_operation_run(operation, arguments, 3, NULL, 0, stream);
  tilewright_operation_destroy(operation);
  return code;
}
