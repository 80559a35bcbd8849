// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Constants that differ from element to element.
// RUN: tilewright-opt %s --tile-to-tgpu -verify-diagnostics

!v = !tile.view<[?], f32>
tile.kernel @constant (%x: !v) grid(%i = dim(x, 0)) {
  // expected-error @+1 {{a constant tile must have one value for all elements}}
  %t = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  tile.store %t, %x[%i] : tensor<2xf32>, !v
}
