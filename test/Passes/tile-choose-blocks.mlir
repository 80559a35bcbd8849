// RUN: rm -rf %t && split-file %s %t
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=weigh params=WIDE=128,T=bf16 target=sm_90a" | FileCheck %s
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=weigh params=WIDE=128,T=bf16 target=sm_90a length=1000" | FileCheck %s --check-prefix=SHORT
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=weigh params=WIDE=128,T=bf16,CAUSAL=true target=sm_90a" | FileCheck %s --check-prefix=MASK
// RUN: sed 's|%behind = .*|%begin = func.call @begin_of(%i) : (i32) -> i32\n  %behind = arith.cmpi sle, %begin, %j : i32|' %t/kernels.mlir > %t/documents.mlir
// RUN: tilewright-opt %t/documents.mlir --tile-choose-blocks="entry=weigh params=WIDE=128,T=bf16,CAUSAL=true target=sm_90a" | FileCheck %s --check-prefix=ASCENDING
// A number of the caller, in a function that the mask calls: it counts where parameters do not fold it.
// RUN: sed '/^tile.program/,$d; s|@keeps(%i: i32, %j: i32)|@keeps(%i: i32, %j: i32, %left: i32)|; s|%behind = .*|%behind = func.call @is_near(%i, %j, %left) : (i32, i32, i32) -> i1|; s|where @keeps(against, block)|where @keeps(against, block, %left : i32)|; s|CAUSAL: flag = false,|CAUSAL: flag = false, NEAR: flag,|; s|%v: !view, %o: !tile.view<.?, WIDE., f32>)|%v: !view, %o: !tile.view<[?, WIDE], f32>, %left: i32)|' %t/kernels.mlir > %t/near.mlir
// RUN: cat %t/is_near.mlir >> %t/near.mlir
// RUN: tilewright-opt %t/near.mlir --tile-choose-blocks="entry=weigh params=WIDE=128,T=bf16,CAUSAL=true,NEAR=false target=sm_90a" | FileCheck %s --check-prefix=FAR
// RUN: tilewright-opt %t/near.mlir --tile-choose-blocks="entry=weigh params=WIDE=128,T=bf16,CAUSAL=true,NEAR=true target=sm_90a" | FileCheck %s --check-prefix=NEAR
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=weigh params=WIDE=128,T=bf16,KEYS=64 target=sm_90a" | FileCheck %s --check-prefix=GIVEN
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=weigh params=WIDE=128,T=bf16,DIVIDED=320 target=sm_90a" | FileCheck %s --check-prefix=DIVISOR
// RUN: not tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=weigh params=WIDE=128,T=bf16,DIVIDED=5 target=sm_90a" 2>&1 | FileCheck %s --check-prefix=NO-DIVISOR
// RUN: not tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=weigh params=WIDE=128,T=bf16,DIVIDED=9000000000 target=sm_90a" 2>&1 | FileCheck %s --check-prefix=NO-MULTIPLE
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=weigh params=WIDE=256,T=f32 target=sm_80" | FileCheck %s --check-prefix=F32
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=weigh params=T=f16" | FileCheck %s --check-prefix=CPU
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=turned params=T=e4m3 target=sm_90a" | FileCheck %s --check-prefix=PRODUCT
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=squares params=W=64 target=sm_80" | FileCheck %s --check-prefix=OTHER
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=squares params=W=64 target=sm_80" 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=squares params=W=128 target=sm_90a" | FileCheck %s --check-prefix=HOPPER
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=squares params=W=64,N=32 target=sm_90a" | FileCheck %s --check-prefix=ONE-GIVEN
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=squares params=W=2048 target=sm_80 shared=101376" 2>&1 | FileCheck %s --check-prefix=ROWS-OF-4096
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=squares params=W=9000000000000000000 target=sm_90a" 2>&1 | FileCheck %s --check-prefix=LONGEST-ROWS
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=squares params=W=64" 2>&1 | FileCheck %s --check-prefix=ON-CPU --implicit-check-not=remark
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=computed params=W=128 target=sm_90a" | FileCheck %s --check-prefix=COMPUTED
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=weigh params=WIDE=128,T=bf16 target=sm_90a by-model" 2>&1 | FileCheck %s --check-prefix=BY-MODEL --implicit-check-not=remark
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=twice params=T=f16 target=sm_80" | FileCheck %s --check-prefix=PROGRAM
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=either params=T=f16,FEW=false target=sm_80" | FileCheck %s --check-prefix=EITHER
// RUN: not tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=either params=T=f16,FEW=true target=sm_80" 2>&1 | FileCheck %s --check-prefix=FEW
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=apart params=T=bf16 target=sm_90a" | FileCheck %s --check-prefix=APART
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=apart params=T=bf16,BOTH=true target=sm_90a" | FileCheck %s --check-prefix=WHOLE
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=apart params=T=bf16 target=sm_90a" --tile-specialize="entry=apart params=T=bf16" | FileCheck %s --check-prefix=HANDED
// RUN: sed 's|^      scf.yield %b_old|      %negated = arith.negf %b_old : !tile.tile<[R, 256], f32>\n      scf.yield %negated|' %t/kernels.mlir > %t/states.mlir
// RUN: tilewright-opt %t/states.mlir --tile-choose-blocks="entry=apart params=T=bf16 target=sm_90a" | FileCheck %s --check-prefix=STATES
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=totals params=T=bf16,W=128 target=sm_80" | FileCheck %s --check-prefix=TOTALS
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=stored params=T=bf16 target=sm_90a" | FileCheck %s --check-prefix=STORED
// RUN: sed 's|tile.load %%p\[%%m, %%n\] : !tile.view<\[?, ?\], T> -> !tile.tile<\[M, N\], T>|tile.cast %%scores : !tile.tile<[M, N], f32> -> !tile.tile<[M, N], T>|' %t/kernels.mlir | tilewright-opt --tile-choose-blocks="entry=stored params=T=bf16 target=sm_90a" | FileCheck %s --check-prefix=COMPUTED-PAIRS
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=totals params=T=bf16,W=128,M=80 target=sm_80" | FileCheck %s --check-prefix=TOTALS-GIVEN
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=plain" | FileCheck %s --check-prefix=PLAIN
// RUN: not tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=weigh params=T=f16,KEYS=17 target=sm_80" 2>&1 | FileCheck %s --check-prefix=UNIT
// RUN: not tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=weigh params=T=f16,ROWS=72 target=sm_90a" 2>&1 | FileCheck %s --check-prefix=BAD-ROWS
// RUN: not tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=weigh params=T=f16,KEYS=264 target=sm_90a" 2>&1 | FileCheck %s --check-prefix=MOST
// RUN: not tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=copy target=sm_80" 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: not tilewright-opt %t/kernels.mlir --tile-specialize="entry=weigh params=T=f16" 2>&1 | FileCheck %s --check-prefix=UNRESOLVED

// Files of rows take precedence, and an invalid file is rejected as a whole.
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=weigh params=WIDE=128,T=bf16 target=sm_90a table=%t/mine.json" | FileCheck %s --check-prefix=MINE
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=weigh params=WIDE=64,T=bf16 target=sm_90a table=%t/mine.json" | FileCheck %s --check-prefix=NOT-MINE
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=weigh params=WIDE=64,T=bf16 target=sm_90a table=%t/narrow.json" | FileCheck %s --check-prefix=NARROW
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=weigh params=WIDE=72,T=bf16 target=sm_90a table=%t/narrow.json" | FileCheck %s --check-prefix=NOT-NARROW
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=weigh params=WIDE=64,T=bf16 target=sm_80 table=%t/large.json" | FileCheck %s --check-prefix=ROOM
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=weigh params=WIDE=64,T=bf16 target=sm_80 table=%t/large.json shared=160000" | FileCheck %s --check-prefix=ROOM
// RUN: tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=weigh params=WIDE=64,T=bf16 target=sm_80 table=%t/large.json shared=101376" | FileCheck %s --check-prefix=NO-ROOM
// RUN: not tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=weigh params=T=bf16 table=%t/key.json" 2>&1 | FileCheck %s --check-prefix=KEY
// RUN: not tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=weigh params=T=bf16 table=%t/unit.json" 2>&1 | FileCheck %s --check-prefix=FILE-UNIT
// RUN: not tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=weigh params=T=bf16 table=%t/mask.json" 2>&1 | FileCheck %s --check-prefix=FILE-MASK
// RUN: not tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=weigh params=T=bf16 table=%t/columns.json" 2>&1 | FileCheck %s --check-prefix=LACKS
// RUN: not tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=weigh params=T=bf16 table=%t/none.json" 2>&1 | FileCheck %s --check-prefix=NO-FILE
// RUN: not tilewright-opt %t/kernels.mlir --tile-choose-blocks="entry=weigh params=T=bf16 table=%t/text.json" 2>&1 | FileCheck %s --check-prefix=TEXT

//--- is_near.mlir
func.func private @is_near(%i: i32, %j: i32, %left: i32) -> i1 {
  %far = tile.param not(NEAR) : i1
  %behind = arith.cmpi sle, %j, %i : i32
  %first = arith.subi %i, %left : i32
  %inside = arith.cmpi sge, %j, %first : i32
  %near = arith.ori %far, %inside : i1
  %keep = arith.andi %behind, %near : i1
  return %keep : i1
}

//--- kernels.mlir
!q = !tile.tile<[ROWS, WIDE], T>
!k = !tile.tile<[KEYS, WIDE], T>
!s = !tile.tile<[KEYS, ROWS], f32>
!p = !tile.tile<[KEYS, ROWS], T>
!o = !tile.tile<[ROWS, WIDE], f32>
!view = !tile.view<[?, WIDE], T>

tile.capture @begins {tile.ascending} : !tile.view<[?], i32>
func.func private @begin_of(%i: i32) -> i32 {
  %begin = tile.at @begins[%i] : i32
  return %begin : i32
}
func.func private @keeps(%i: i32, %j: i32) -> i1 {
  %any = tile.param not(CAUSAL) : i1
  %behind = arith.cmpi sle, %j, %i : i32
  %keep = arith.ori %behind, %any : i1
  return %keep : i1
}

// Attention without a softmax and with other names, with S transposed.
// CHECK-LABEL: tile.kernel @weigh
// CHECK: ROWS: int = 192, KEYS: int = 64
// CHECK-NOT: <= 1024
// CHECK: blocks = {bits = 16 : i64, by = "the table: sm_90a, up to 16 bits, rows up to 256 bytes", mask = "none", row_bytes = 256 : i64, rows = "ROWS = 192", shorter = [1024], step = "KEYS = 64", structure = "sum (R S) S", target = "sm_90a", without_spills = "ROWS = 192, KEYS = 48"}
// SHORT-LABEL: tile.kernel @weigh
// SHORT: ROWS: int = 128, KEYS: int = 128
// SHORT: require(dim(k, 0) <= 1024, dim(k, 0) >= 0)
// SHORT: by = "the table: sm_90a, up to 16 bits, rows up to 256 bytes, no mask, loops over up to 1024"
// MASK: ROWS: int = 192, KEYS: int = 64
// MASK: by = "the table: sm_90a, up to 16 bits, rows up to 256 bytes", mask = "some"
// FAR: by = "the table: sm_90a, up to 16 bits, rows up to 256 bytes", mask = "some", row_bytes = 256 : i64, rows = "ROWS = 192", shorter = [1024]
// NEAR: by = "the table: sm_90a, up to 16 bits, rows up to 256 bytes, a mask, loops whose length no launch knows", mask = "some"
// ASCENDING: ROWS: int = 128, KEYS: int = 96
// ASCENDING: by = "the table: sm_90a, up to 16 bits, rows up to 256 bytes, a mask of captures that ascend", mask = "ascending"
// GIVEN: ROWS: int = 192, KEYS: int = 64
// GIVEN: step = "KEYS = 64, as given"
// F32: ROWS: int = 32, KEYS: int = 16
// DIVISOR: ROWS: int = 192, KEYS: int = 64
// NO-DIVISOR: error: block KEYS of kernel @weigh must divide 25 and be a multiple of 16 up to 256 on sm_90a, of at most 64, but there is no such number
// NO-MULTIPLE: error: the extent that block KEYS of kernel @weigh must divide cannot be computed: overflow of 64 bits in '9000000000 * 9000000000'
// F32: by = "the table: any structure, gpu, rows up to 1024 bytes"
// CPU: ROWS: int = 128, KEYS: int = 128
// CPU: by = "the table: cpu, rows up to 128 elements"
// MINE: ROWS: int = 64, KEYS: int = 144
// MINE: by = "the file of blocks: sm_90a, rows above 192 and up to 256 bytes"
// NOT-MINE: ROWS: int = 192, KEYS: int = 128
// NARROW: ROWS: int = 64, KEYS: int = 80
// NARROW: by = "the file of blocks: any structure, sm_90a, the shortest rows of 128 bytes"
// NOT-NARROW: by = "the table: sm_90a, {{.*}}, rows up to 160 bytes
// ROOM: ROWS: int = 192, KEYS: int = 192
// ROOM: by = "the file of blocks: any structure, sm_80, at least 160000 bytes of shared memory"
// NO-ROOM: ROWS: int = 128, KEYS: int = 64
// UNIT: error: block KEYS of kernel @weigh is for the step of products and must be a multiple of 16 up to 256 on sm_80, but got 17
// BAD-ROWS: error: block ROWS of kernel @weigh is for the rows of products and must be a multiple of 16 up to 256 on sm_90a, but got 72
// MOST: error: block KEYS of kernel @weigh is for the step of products and must be a multiple of 16 up to 256 on sm_90a, but got 264
// UNRESOLVED: error: the default of parameter 'ROWS' of kernel @weigh cannot be computed: block() is chosen by tile-choose-blocks, which has not run; run that pass first
// KEY: error: file of blocks '{{.*}}key.json': unknown key 'keys' of a row; expected one of structure, target, mask, bits, above, bytes, narrow, elements, length, captures, work, stateless, shared, rows, columns, step
// FILE-UNIT: error: file of blocks '{{.*}}unit.json': step of a row for gpu must be a multiple of 16 up to 256, but got 20
// FILE-MASK: error: file of blocks '{{.*}}mask.json': 'mask' of a row must be any, none, some or ascending, but got 'causal'
// LACKS: error: block ROWS of kernel @weigh is for the rows of products, which the row for 'any structure' does not give; give it a value
// NO-FILE: error: cannot open the file of blocks '{{.*}}none.json'
// TEXT: error: file of blocks '{{.*}}text.json': {{.+}}
tile.kernel @weigh
    params(WIDE: int = 64, T: type, CAUSAL: flag = false, DIVIDED: int = 0, ROWS: int = block(),
           KEYS: int = block_in(DIVIDED * DIVIDED))
    require(dim(k, 0) >= 0)
    (%q: !view, %k: !view, %v: !view, %o: !tile.view<[?, WIDE], f32>)
    grid(%b = ceildiv(dim(q, 0), ROWS)) {
  %c0 = arith.constant 0 : i32
  %rows = tile.param ROWS : i32
  %m = arith.muli %b, %rows : i32
  %keys = tile.dim %k, 0 : !view
  %queries = tile.dim %q, 0 : !view
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !o
  %q_tile = tile.load %q[%m, 0] : !view -> !q
  %sum = tile.for_blocks %n in (%c0 to %keys) against (%m to %queries)
      where @keeps(against, block) keep %keep : !tile.tile<[ROWS, KEYS], i1>
      iter_args(%old = %none : !o) {
    %v_tile = tile.load %v[%n, 0] : !view -> !k
    %k_tile = tile.load %k[%n, 0] : !view -> !k
    %s = tile.dot %k_tile, %q_tile transpose_b : !k, !q -> !s
    %e = math.exp2 %s : !s
    %p = tile.cast %e : !s -> !p
    %new = tile.dot %p, %v_tile, %old transpose_a : !p, !k -> !o
    tile.yield %new : !o
  }
  tile.store %sum, %o[%m, 0] : !o, !tile.view<[?, WIDE], f32>
}

// C transposed: the rows are B's columns.
// PRODUCT-LABEL: tile.kernel @turned
// PRODUCT: A: int = 256, B: int = 64, C: int = 128
// PRODUCT: columns = "A = 256", mask = "none", row_bytes = 0 : i64, rows = "C = 128", step = "B = 64", structure = "sum S S"
tile.kernel @turned params(T: type, A: int = block(), B: int = block(), C: int = block())
    (%x: !tile.view<[?, ?], T>, %y: !tile.view<[?, ?], T>, %z: !tile.view<[?, ?], f32>)
    grid(%i = ceildiv(dim(x, 0), A), %j = ceildiv(dim(y, 1), C)) {
  %c0 = arith.constant 0 : i32
  %a = tile.param A : i32
  %b = tile.param B : i32
  %c = tile.param C : i32
  %m = arith.muli %i, %a : i32
  %n = arith.muli %j, %c : i32
  %depth = tile.dim %x, 1 : !tile.view<[?, ?], T>
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !tile.tile<[C, A], f32>
  %sum = scf.for %k = %c0 to %depth step %b iter_args(%old = %none) -> (!tile.tile<[C, A], f32>) : i32 {
    %xs = tile.load %x[%m, %k] : !tile.view<[?, ?], T> -> !tile.tile<[A, B], T>
    %ys = tile.load %y[%k, %n] : !tile.view<[?, ?], T> -> !tile.tile<[B, C], T>
    %new = tile.dot %ys, %xs, %old transpose_a transpose_b
        : !tile.tile<[B, C], T>, !tile.tile<[A, B], T> -> !tile.tile<[C, A], f32>
    scf.yield %new : !tile.tile<[C, A], f32>
  }
  tile.store %sum, %z[%n, %m] : !tile.tile<[C, A], f32>, !tile.view<[?, ?], f32>
}

// The table has no row for the structure: the cost model chooses, where it applies.
// OTHER-LABEL: tile.kernel @squares
// OTHER: R: int = [[R:[0-9]+]], N: int = [[N:[0-9]+]]
// OTHER: by = "a model, not measured"
// OTHER-SAME: rows = "R = [[R]]", step = "N = [[N]]", structure = "store R S"
// REMARK: kernels.mlir:[[#]]:1: remark: blocks by model, not measured: R = {{[0-9]+}}, N = {{[0-9]+}}; the table of blocks has no row for the structure 'store R S'; measure others and pass them as parameters or by --blocks
// Warpgroups multiply 64 rows each.
// HOPPER: R: int = {{64|128|192|256}}, N: int = {{[0-9]+}})
// HOPPER: by = "a model, not measured"
// ONE-GIVEN: by = "a model, not measured"
// ONE-GIVEN-SAME: step = "N = 32, as given"
// No tile of that width fits into the shared memory of a small chip.
// ROWS-OF-4096-DAG: remark: blocks by general rule, not measured: R = 16, N = 16;
// ROWS-OF-4096-DAG: by = "the table: any structure"
// LONGEST-ROWS: by = "the table: any structure"
// ON-CPU: by = "the table: any structure, cpu, rows up to 128 elements"
// The table, which has a row for this structure, is not asked.
// BY-MODEL: by = "a model, not measured"
tile.kernel @squares params(W: int, R: int = block(), N: int = block())
    (%x: !tile.view<[?, W], f16>, %y: !tile.view<[?, ?], f32>)
    grid(%i = ceildiv(dim(x, 0), R)) {
  %c0 = arith.constant 0 : i32
  %r = tile.param R : i32
  %n = tile.param N : i32
  %m = arith.muli %i, %r : i32
  %all = tile.dim %x, 0 : !tile.view<[?, W], f16>
  %mine = tile.load %x[%m, 0] : !tile.view<[?, W], f16> -> !tile.tile<[R, W], f16>
  scf.for %k = %c0 to %all step %n : i32 {
    %other = tile.load %x[%k, 0] : !tile.view<[?, W], f16> -> !tile.tile<[N, W], f16>
    %s = tile.dot %mine, %other transpose_b
        : !tile.tile<[R, W], f16>, !tile.tile<[N, W], f16> -> !tile.tile<[R, N], f32>
    tile.store %s, %y[%m, %k] : !tile.tile<[R, N], f32>, !tile.view<[?, ?], f32>
  }
}

// The keys of a product are computed from what is streamed: its resident operand has the rows.
// COMPUTED-LABEL: tile.kernel @computed
// COMPUTED: R: int = {{[0-9]+}}, N: int = {{[0-9]+}})
// COMPUTED: structure = "sum ((R S) R) S"
tile.kernel @computed params(W: int, R: int = block(), N: int = block())
    (%x: !tile.view<[?, W], f16>, %w: !tile.view<[W, W], f16>, %y: !tile.view<[?, W], f32>)
    grid(%i = ceildiv(dim(x, 0), R)) {
  %c0 = arith.constant 0 : i32
  %r = tile.param R : i32
  %n = tile.param N : i32
  %m = arith.muli %i, %r : i32
  %all = tile.dim %x, 0 : !tile.view<[?, W], f16>
  %none = tile.constant 0 : !tile.tile<[R, W], f32>
  %matrix = tile.load %w[0, 0] : !tile.view<[W, W], f16> -> !tile.tile<[W, W], f16>
  %mine = tile.load %x[%m, 0] : !tile.view<[?, W], f16> -> !tile.tile<[R, W], f16>
  %sum = scf.for %k = %c0 to %all step %n iter_args(%old = %none) -> (!tile.tile<[R, W], f32>) : i32 {
    %other = tile.load %x[%k, 0] : !tile.view<[?, W], f16> -> !tile.tile<[N, W], f16>
    %turned = tile.dot %other, %matrix : !tile.tile<[N, W], f16>, !tile.tile<[W, W], f16> -> !tile.tile<[N, W], f32>
    %rounded = tile.cast %turned : !tile.tile<[N, W], f32> -> !tile.tile<[N, W], f16>
    %s = tile.dot %mine, %rounded transpose_b
        : !tile.tile<[R, W], f16>, !tile.tile<[N, W], f16> -> !tile.tile<[R, N], f32>
    %p = tile.cast %s : !tile.tile<[R, N], f32> -> !tile.tile<[R, N], f16>
    %new = tile.dot %p, %other, %old : !tile.tile<[R, N], f16>, !tile.tile<[N, W], f16> -> !tile.tile<[R, W], f32>
    scf.yield %new : !tile.tile<[R, W], f32>
  }
  tile.store %sum, %y[%m, 0] : !tile.tile<[R, W], f32>, !tile.view<[?, W], f32>
}

// A program has the blocks of the kernels that it launches, possibly under other names.
// PROGRAM-LABEL: tile.program @twice
// PROGRAM: M: int = 128, N: int = 64
// PROGRAM: blocks = {{.*}}rows = "M = 128", step = "N = 64", structure = "sum (R S) S"
tile.program @twice params(T: type, WIDE: int = 64, CAUSAL: flag = true, M: int = block(), N: int = block())
    (%q: !view, %o: !tile.view<[?, WIDE], f32>) {
  tile.launch @weigh(%q, %q, %q, %o) with (ROWS = M, KEYS = N)
      : !view, !view, !view, !tile.view<[?, WIDE], f32>
}

// A launch may select between a block and another number by parameters with known values.
// EITHER-LABEL: tile.program @either
// EITHER: M: int = 128, N: int = 64
// EITHER: blocks = {{.*}}rows = "M = 128", step = "N = 64", structure = "sum (R S) S"
// FEW: error: block M of program @either is neither the extent of an operand of a product in a loop nor that of the rows that a kernel loads
tile.program @either params(T: type, FEW: flag, WIDE: int = 64, CAUSAL: flag = true, M: int = block(), N: int = block())
    (%q: !view, %o: !tile.view<[?, WIDE], f32>) {
  tile.launch @weigh(%q, %q, %q, %o) with (ROWS = select(FEW, 16, M), KEYS = select(not(FEW), select(FEW, 16, N), 16))
      : !view, !view, !view, !tile.view<[?, WIDE], f32>
}

// Code that parameters disable does not count, nor does code that only it uses: each launch has its own structure, and
// a program has that of the launch with the most products.
// APART-LABEL: tile.program @apart
// APART: R: int = 128, S: int = 64, R2: int = 128, S2: int = 80
// APART: rows = "R = 128", step = "S = 64", structure = "sum (R S)(R S) S"
// APART: tile.launch @parts
// APART-SAME: structure = "sum (R S)(R S) S"
// APART: tile.launch @parts
// APART-SAME: by = "the table: sm_90a, up to 16 bits, rows above 256 and up to 512 bytes, sums of products only"
// APART-SAME: rows = "R2 = 128", step = "S2 = 80", structure = "sum (R S) S"
// If the second sum is scaled where it is not added to, its tile is a state, for which that row does not hold.
// STATES: R2: int = 128, S2: int = 64
// STATES: by = "the table: sm_90a, up to 16 bits, rows up to 512 bytes", {{.*}}rows = "R2 = 128", step = "S2 = 64"
// WHOLE-LABEL: tile.program @apart
// WHOLE: R: int = 64, S: int = 64, R2: int = 128, S2: int = 80
// WHOLE: tile.launch @parts
// WHOLE-SAME: structure = "sum (R S) S, sum (R S)(R S) S"
// HANDED: tile.program @apart
// HANDED-NOT: tile.launch {{.*}}blocks
// HANDED: tile.kernel @parts
// HANDED: structure = "sum (R S)(R S) S"
// HANDED: tile.kernel @parts_0
// HANDED: structure = "sum (R S) S"
tile.program @apart
    params(T: type, BOTH: flag = false, R: int = block(), S: int = block(), R2: int = block(), S2: int = block())
    (%x: !tile.view<[?, 256], T>, %y: !tile.view<[?, 256], f32>) {
  tile.launch @parts(%x, %y) with (FIRST = BOTH)
      : !tile.view<[?, 256], T>, !tile.view<[?, 256], f32>
  tile.launch @parts(%x, %y) with (FIRST = true, SECOND = false, R = R2, S = S2) when (not(BOTH))
      : !tile.view<[?, 256], T>, !tile.view<[?, 256], f32>
}

tile.kernel @parts params(T: type, R: int, S: int, FIRST: flag, SECOND: flag = true)
    (%x: !tile.view<[?, 256], T>, %y: !tile.view<[?, 256], f32>)
    grid(%i = ceildiv(dim(x, 0), R)) {
  %c0 = arith.constant 0 : i32
  %r = tile.param R : i32
  %s = tile.param S : i32
  %first = tile.param FIRST : i1
  %second = tile.param SECOND : i1
  %m = arith.muli %i, %r : i32
  %all = tile.dim %x, 0 : !tile.view<[?, 256], T>
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !tile.tile<[R, 256], f32>
  %mine = tile.load %x[%m, 0] : !tile.view<[?, 256], T> -> !tile.tile<[R, 256], T>
  %a, %b = scf.for %k = %c0 to %all step %s iter_args(%a_old = %none, %b_old = %none)
      -> (!tile.tile<[R, 256], f32>, !tile.tile<[R, 256], f32>) : i32 {
    %other = tile.load %x[%k, 0] : !tile.view<[?, 256], T> -> !tile.tile<[S, 256], T>
    %p = tile.dot %mine, %other transpose_b
        : !tile.tile<[R, 256], T>, !tile.tile<[S, 256], T> -> !tile.tile<[R, S], f32>
    %q = tile.dot %mine, %other transpose_b
        : !tile.tile<[R, 256], T>, !tile.tile<[S, 256], T> -> !tile.tile<[R, S], f32>
    %pq = arith.mulf %p, %q : !tile.tile<[R, S], f32>
    %a_new = scf.if %first -> (!tile.tile<[R, 256], f32>) {
      %rounded = tile.cast %p : !tile.tile<[R, S], f32> -> !tile.tile<[R, S], T>
      %sum = tile.dot %rounded, %other, %a_old
          : !tile.tile<[R, S], T>, !tile.tile<[S, 256], T> -> !tile.tile<[R, 256], f32>
      scf.yield %sum : !tile.tile<[R, 256], f32>
    } else {
      scf.yield %a_old : !tile.tile<[R, 256], f32>
    }
    %b_new = scf.if %second -> (!tile.tile<[R, 256], f32>) {
      %rounded = tile.cast %pq : !tile.tile<[R, S], f32> -> !tile.tile<[R, S], T>
      %sum = tile.dot %rounded, %other, %b_old
          : !tile.tile<[R, S], T>, !tile.tile<[S, 256], T> -> !tile.tile<[R, 256], f32>
      scf.yield %sum : !tile.tile<[R, 256], f32>
    } else {
      scf.yield %b_old : !tile.tile<[R, 256], f32>
    }
    scf.yield %a_new, %b_new : !tile.tile<[R, 256], f32>, !tile.tile<[R, 256], f32>
  }
  %both = arith.addf %a, %b : !tile.tile<[R, 256], f32>
  tile.store %both, %y[%m, 0] : !tile.tile<[R, 256], f32>, !tile.view<[?, 256], f32>
}

// NOTHING: error: block N of kernel @copy is neither the extent of an operand of a product in a loop nor that of the rows that a kernel loads, so it cannot be chosen; give it a default or a value
tile.kernel @copy params(N: int = block()) (%x: !tile.view<[?], f32>) grid(%i = ceildiv(dim(x, 0), N)) {
  %n = tile.param N : i32
  %m = arith.muli %i, %n : i32
  %t = tile.load %x[%m] : !tile.view<[?], f32> -> !tile.tile<[N], f32>
  tile.store %t, %x[%m] : !tile.tile<[N], f32>, !tile.view<[?], f32>
}

// A kernel without products that loads whole rows has a block, which may be an operand of a later one, and of a kernel
// that has products.
// TOTALS-LABEL: tile.program @totals
// TOTALS: M: int = 128, N: int = 128, R: int = 64
// TOTALS: tile.launch @total
// TOTALS-SAME: by = "the table: gpu, up to 16 bits, rows up to 256 bytes", {{.*}}row_bytes = 256 : i64, rows = "R = 64", structure = "rows"
// TOTALS-GIVEN: M: int = 80, N: int = 128, R: int = 16
tile.program @totals
    params(T: type, W: int, M: int = block(), N: int = block(), R: int = block_in(M))
    (%x: !tile.view<[?, W], T>, %o: !tile.view<[?, W], f32>, %y: !tile.view<[?], T>) {
  tile.launch @total(%x, %y) with (M = R) : !tile.view<[?, W], T>, !tile.view<[?], T>
  tile.launch @weigh(%x, %x, %x, %o) with (ROWS = M, KEYS = N, WIDE = W, CAUSAL = false, DIVIDED = 0)
      : !tile.view<[?, W], T>, !tile.view<[?, W], T>, !tile.view<[?, W], T>, !tile.view<[?, W], f32>
}

tile.kernel @total params(T: type, W: int, M: int) (%x: !tile.view<[?, W], T>, %y: !tile.view<[?], T>)
    grid(%i = ceildiv(dim(x, 0), M)) {
  %rows = tile.param M : i32
  %m = arith.muli %i, %rows : i32
  %t = tile.load %x[%m, 0] : !tile.view<[?, W], T> -> !tile.tile<[M, W], T>
  %sum = tile.reduce add %t dim 1 : !tile.tile<[M, W], T> -> !tile.tile<[M], T>
  tile.store %sum, %y[%m] : !tile.tile<[M], T>, !tile.view<[?], T>
}

// A loop that loads a tile of rows by steps has rows of its own.
// STORED-LABEL: tile.kernel @stored
// STORED: M: int = 64, N: int = 128
// STORED: by = "the table: gpu, up to 16 bits, rows up to 128 bytes, captured tiles, sums of products only", {{.*}}structure = "sum (R S) S"
// COMPUTED-PAIRS: M: int = 192, N: int = 128
// COMPUTED-PAIRS: by = "the table: sm_90a, up to 16 bits, rows up to 128 bytes", {{.*}}structure = "sum (R S) S"
tile.kernel @stored params(T: type, M: int = block(), N: int = block())
    (%x: !tile.view<[?, 64], T>, %p: !tile.view<[?, ?], T>, %y: !tile.view<[?, 64], f32>) grid(%i = ceildiv(dim(x, 0), M)) {
  %c0 = arith.constant 0 : i32
  %rows = tile.param M : i32
  %step = tile.param N : i32
  %m = arith.muli %i, %rows : i32
  %all = tile.dim %x, 0 : !tile.view<[?, 64], T>
  %none = tile.constant 0 : !tile.tile<[M, 64], f32>
  %own = tile.load %x[%m, 0] : !tile.view<[?, 64], T> -> !tile.tile<[M, 64], T>
  %sum = scf.for %n = %c0 to %all step %step iter_args(%old = %none) -> (!tile.tile<[M, 64], f32>) : i32 {
    %other = tile.load %x[%n, 0] : !tile.view<[?, 64], T> -> !tile.tile<[N, 64], T>
    %scores = tile.dot %own, %other transpose_b : !tile.tile<[M, 64], T>, !tile.tile<[N, 64], T> -> !tile.tile<[M, N], f32>
    %stored = tile.load %p[%m, %n] : !tile.view<[?, ?], T> -> !tile.tile<[M, N], T>
    %stored_acc = tile.cast %stored : !tile.tile<[M, N], T> -> !tile.tile<[M, N], f32>
    %both = arith.mulf %scores, %stored_acc : !tile.tile<[M, N], f32>
    %rounded = tile.cast %both : !tile.tile<[M, N], f32> -> !tile.tile<[M, N], T>
    %new = tile.dot %rounded, %other, %old
        : !tile.tile<[M, N], T>, !tile.tile<[N, 64], T> -> !tile.tile<[M, 64], f32>
    scf.yield %new : !tile.tile<[M, 64], f32>
  }
  tile.store %sum, %y[%m, 0] : !tile.tile<[M, 64], f32>, !tile.view<[?, 64], f32>
}

// PLAIN: tile.kernel @plain
// PLAIN: params(N: int = 8)
// PLAIN-NOT: blocks =
tile.kernel @plain params(N: int = 8) (%x: !tile.view<[?], f32>) grid(%i = 1) {
}

//--- mine.json
[{"structure": "sum (R S) S", "target": "sm_90a", "above": 192, "bytes": 256, "rows": 64, "step": 144}]
//--- narrow.json
[{"target": "sm_90a", "narrow": 128, "rows": 64, "step": 80}]
//--- large.json
[{"target": "sm_80", "shared": 160000, "rows": 192, "step": 192}]
//--- key.json
[{"target": "gpu", "keys": 64}]
//--- unit.json
[{"target": "gpu", "rows": 64, "step": 20}]
//--- mask.json
[{"mask": "causal", "rows": 64}]
//--- columns.json
[{"columns": 64}]
//--- text.json
{"rows": 64}
