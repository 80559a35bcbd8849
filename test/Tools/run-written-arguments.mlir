// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A mapped kernel's argument is given with --out or --inout if an operation writes it, and also with --in if none does. The first
// argument that is missing is reported.

// DEFINE: %{run} = %refused tilewright-run %s --device=sim:sm_90a
// DEFINE: %{data} = --in loaded=random@64x64 --out stored=a.npy@64x64 --out added=b.npy@64x64 --out copied=c.npy@64x64

// RUN: %{run} | FileCheck %s --check-prefix=LOADED
// LOADED: error: argument 'loaded' is missing; it is a view {{.*}}; give it with --in, --out or --inout loaded=
// RUN: %{run} --in loaded=random@64x64 | FileCheck %s --check-prefix=STORED
// STORED: error: argument 'stored' is missing; it is a view {{.*}}; give it with --out or --inout stored=
// RUN: %{run} --in loaded=random@64x64 --out stored=a.npy@64x64 | FileCheck %s --check-prefix=ADDED
// ADDED: error: argument 'added' is missing; it is a view {{.*}}; give it with --out or --inout added=
// RUN: %{run} %{data} | FileCheck %s --check-prefix=TURNS
// TURNS: error: argument 'turns' is missing; it is a view {{.*}}; give it with --out or --inout turns=
// RUN: %{run} %{data} --out turns=d.npy@1 | FileCheck %s --check-prefix=REDUCED
// REDUCED: error: argument 'reduced' is missing; it is a view {{.*}}; give it with --out or --inout reduced=
// RUN: %{run} %{data} --out turns=d.npy@1 --out reduced=e.npy@64x64 | FileCheck %s --check-prefix=ENDED
// ENDED: error: argument 'ended' is missing; it is a view {{.*}}; give it with --out or --inout ended=
// RUN: %{run} %{data} --out turns=d.npy@1 --out reduced=e.npy@64x64 --out ended=f.npy@1 | FileCheck %s --check-prefix=AWAITED
// AWAITED: error: argument 'awaited' is missing; it is a view {{.*}}; give it with --in, --out or --inout awaited=
// RUN: %{run} --in loaded=random@64x64 --out stored=a.npy@64x64 --out added=b.npy@64x64 --out turns=d.npy@1 | FileCheck %s --check-prefix=COPIED
// COPIED: error: argument 'copied' is missing; it is a view {{.*}}; give it with --out or --inout copied=

!t = tensor<64x64xf32, #tgpu.wgmma<1>>
!view = !tile.view<[?, ?], f32>
!turns = !tile.view<[?], i32>
!buffer = !tgpu.shared<64x32xf32, b128>
!map = !tgpu.tensor_map<64x32xf32, b128>
tgpu.kernel @writes target "sm_90a" warps 4
    (%loaded: !view, %stored: !view, %added: !view, %turns: !turns, %copied: !view, %reduced: !view, %ended: !turns,
     %awaited: !turns) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %buffer = tgpu.alloc : !buffer
  %copied_map = tgpu.tensor_map %copied : !view -> !map
  %reduced_map = tgpu.tensor_map %reduced : !view -> !map
  tgpu.roles
    role "all" warps 4 {
      %tile = tgpu.load %loaded[0, 0] : !view -> !t
      tgpu.store %tile, %stored[0, 0] : !t, !view
      tgpu.atomic_add %tile, %added[0, 0] in order of %c0 by %turns[0] : !t, !view, !turns
      tgpu.tma_store %buffer, %copied_map[0, 0] : !buffer, !map
      tgpu.await_turn %c0 of %awaited[0] : !turns
      tgpu.tma_reduce_add %buffer, %reduced_map[0, 0] : !buffer, !map
      tgpu.end_turn %c0 of %ended[0] : !turns
    }
}
