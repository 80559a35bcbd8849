// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layouts of register tiles, and the enumerations of the `tgpu` dialect.

#ifndef TILEWRIGHT_DIALECT_TGPU_TGPUATTRS_TD
#define TILEWRIGHT_DIALECT_TGPU_TGPUATTRS_TD

include "mlir/IR/EnumAttr.td"
include "dialect/Tgpu/TgpuDialect.td"

class Tgpu_Attr<string name, string attrMnemonic> : AttrDef<Tgpu_Dialect, name> {
  let mnemonic = attrMnemonic;
}
class Tgpu_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::tilewright::tgpu";
  let genSpecializedAttr = 0;
}

def Tgpu_Operand : Tgpu_Enum<"MatrixOperand", "operand of a matrix instruction", [
    I32EnumAttrCase<"A", 0, "a">, I32EnumAttrCase<"B", 1, "b">]>;

def Tgpu_ArriveScope : Tgpu_Enum<"ArriveScope", "which threads make one arrival at a barrier", [
    I32EnumAttrCase<"Thread", 0, "thread">, I32EnumAttrCase<"Warp", 1, "warp">,
    I32EnumAttrCase<"Warpgroup", 2, "warpgroup">, I32EnumAttrCase<"Role", 3, "role">]>;
def Tgpu_Skeleton : Tgpu_Enum<"Skeleton", "how copies and products of a loop are arranged", [
    I32EnumAttrCase<"Synchronous", 0, "synchronous">, I32EnumAttrCase<"Multistage", 1, "multistage">,
    I32EnumAttrCase<"ProducerConsumer", 2, "producer_consumer">]>;

def Tgpu_ArriveScopeAttr : EnumAttr<Tgpu_Dialect, Tgpu_ArriveScope, "arrive_scope">;

def Tgpu_MmaAttr : Tgpu_Attr<"Mma", "mma"> {
  let summary = "accumulator of mma.sync m16n8, repeated over a tile";
  let description = [{
    Warps form a grid of `warps_m` by `warps_n`. An atom is 16 rows by 8 columns:

    ```
              columns 0 1   2 3   4 5   6 7
      row 0       lane 0 | lane 1 | lane 2 | lane 3     registers 0, 1
      row 1       lane 4 | lane 5 | lane 6 | lane 7
      ...
      row 8       lane 0 | lane 1 | lane 2 | lane 3     registers 2, 3
    ```
    Warp w has row wm = w mod warps_m and column wn = w / warps_m of the grid, and holds the atoms whose row is wm
    modulo warps_m and whose column is wn modulo warps_n. Registers go along a row of atoms first.

    Example: `tensor<128x64xf32, #tgpu.mma<4, 1>>`
  }];
  let parameters = (ins "int64_t":$warpsM, "int64_t":$warpsN);
  let assemblyFormat = "`<` $warpsM `,` $warpsN `>`";
  let genVerifyDecl = 1;
}

def Tgpu_WgmmaAttr : Tgpu_Attr<"Wgmma", "wgmma"> {
  let summary = "accumulator of wgmma m64n, its rows shared between warpgroups";
  let description = [{
    A warpgroup holds 64 rows; its warp w holds rows 16 w to 16 w + 15, with lanes and registers as in `#tgpu.mma`.
    Warpgroup g holds the row blocks of 64 whose number is g modulo `warpgroups`. With `row_pairs`, a lane holds rows
    2 i and 2 i + 1 of the 16 of its warp instead of i and i + 8: where operand a is in registers, its rows have any
    order.

    Example: `tensor<128x128xf32, #tgpu.wgmma<2>>`
  }];
  let parameters = (ins "int64_t":$warpgroups, DefaultValuedParameter<"bool", "false">:$rowPairs);
  let assemblyFormat = "`<` $warpgroups (`,` `row_pairs` `=` $rowPairs^)? `>`";
  let genVerifyDecl = 1;
}

def Tgpu_OperandAttr : Tgpu_Attr<"Operand", "operand"> {
  let summary = "operand fragment of the matrix instruction whose accumulator is `parent`";
  let description = [{
    Operand a of a wgmma may lie in registers; its operand b may not.

    Example: `tensor<128x64xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>`
  }];
  let parameters = (ins "::tilewright::tgpu::MatrixOperand":$operand, "::mlir::Attribute":$parent);
  let assemblyFormat = "`<` $operand `,` $parent `>`";
  let genVerifyDecl = 1;
}

def Tgpu_SliceAttr : Tgpu_Attr<"Slice", "slice"> {
  let summary = "layout of the result when dimension `dim` of a tile in layout `parent` is reduced";
  let description = [{
    Every thread that held an element of a row (column) of the parent holds the row's (column's) element.

    Example: `tensor<128xf32, #tgpu.slice<1, #tgpu.mma<4, 1>>>`
  }];
  let parameters = (ins "int64_t":$dim, "::mlir::Attribute":$parent);
  let assemblyFormat = "`<` $dim `,` $parent `>`";
  let genVerifyDecl = 1;
}

def Tgpu_ByThreadAttr : Tgpu_Attr<"ByThread", "by_thread"> {
  let summary = "one element along `dim` for each thread that holds elements of a row (column) of `parent`";
  let description = [{
    Each element is a partial sum: what one thread made of its own elements of a row, not yet combined with those of the
    other threads of that row. The threads of a row are counted by lanes first, then by warps; each warp contributes 4
    along dimension 1, and 8 along dimension 0.

    Example: `tensor<128x4xf32, #tgpu.by_thread<1, #tgpu.wgmma<2>>>`
  }];
  let parameters = (ins "int64_t":$dim, "::mlir::Attribute":$parent);
  let assemblyFormat = "`<` $dim `,` $parent `>`";
  let genVerifyDecl = 1;
}

def Tgpu_BlockedAttr : Tgpu_Attr<"Blocked", "blocked"> {
  let summary = "consecutive elements of the last dimension in a thread: coalesced global access";
  let description = [{
    A thread holds runs of `vector` elements along the last dimension; `lanes` lanes of a warp are side by side along
    it, and the warp has 32 / lanes rows of lanes. Warps form a grid of `warps_m` by `warps_n`, numbered as in
    `#tgpu.mma`. This pattern repeats over the tile, along the last dimension first; a thread holds the repetitions in
    further registers. If the number of threads along a dimension does not divide its extent, their greatest common
    divisor is the number of threads that share the dimension, and the other threads hold replicas. In rank 1, the rows
    of lanes and of warps hold replicas.

    Example: `tensor<128x64xbf16, #tgpu.blocked<8, lanes 8, warps 4, 1>>`
  }];
  let parameters = (ins "int64_t":$vector, "int64_t":$lanes, "int64_t":$warpsM, "int64_t":$warpsN);
  let assemblyFormat = "`<` $vector `,` `lanes` $lanes `,` `warps` $warpsM `,` $warpsN `>`";
  let genVerifyDecl = 1;
}

def Tgpu_ScheduleAttr : Tgpu_Attr<"Schedule", "schedule"> {
  let summary = "how a loop is to be pipelined";
  let description = [{
    tgpu-plan-schedule writes it on a loop as the discardable attribute `tgpu.schedule`; an author may write it instead.
    The following passes obey it and decide nothing.

    - `skeleton`: `synchronous` leaves the loop as it is; `multistage` fills rings by copies that all warps issue ahead;
      `producer_consumer` moves the copies to a separate role.
    - `stages`: slots of each ring of the loop, so the copies of `stages` - 1 iterations are in flight. In a
      `producer_consumer` loop, the discardable attribute `tgpu.ring_stages` of a `tgpu.copy_async`, an i64 from 1 to
      32, gives its ring another number of slots. tgpu-plan-schedule writes it, or an author; copies that share barriers
      must agree.
    - `in_flight`: asynchronous products that may be unfinished when the next one is issued.
    - `turns`: with 1, the warpgroups of a role take turns: in issuing the products of an iteration, if these overlap
      with other work; or, with `in_flight` = 0, in the work between the products, so that one warpgroup computes while
      the others multiply. With 2, and `in_flight` = 0, a turn lasts from the last product of an iteration until the
      first product of the next one has been issued, so that one warpgroup multiplies while the others compute.

    Example: `#tgpu.schedule<skeleton = multistage, stages = 2>`
  }];
  let parameters = (ins "::tilewright::tgpu::Skeleton":$skeleton, DefaultValuedParameter<"int64_t", "1">:$stages,
                        DefaultValuedParameter<"int64_t", "0">:$in_flight,
                        DefaultValuedParameter<"int64_t", "0">:$turns);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Tgpu_RoleScheduleAttr : Tgpu_Attr<"RoleSchedule", "role_schedule"> {
  let summary = "how a kernel is split into roles";
  let description = [{
    tgpu-plan-schedule writes it on a kernel with a `producer_consumer` loop as the discardable attribute
    `tgpu.role_schedule`; an author may write it instead. tgpu-assign-roles and tgpu-stage-stores obey it.

    - `load_registers`, `compute_registers`: registers that a thread of the role may use.
    - `group`: 0 keeps the grid; otherwise the grid is as large as the machine, and each block processes tile after
      tile. 1 takes tiles in the order of the grid; n > 1 takes n steps of the second id, then one of the first, so that
      tiles that run at the same time share both their operands.
    - `store_buffers`: buffers through which results leave by TMA; with 0, threads store from registers.
    - `tile_stages`: buffers for what is copied once for each tile of the grid; with 2, the next tile's data is copied
      while this tile's is read.
    - `dynamic`: with 1, each block takes its next tile from a counter of the launch; with 0, the number of its next
      tile is greater by the number of blocks.
    - `reduce_stages`: buffers through which accumulators go to a role that adds them to memory; with 0, threads add
      from registers.
    - `scratch_stages`: buffers, used in turn, for what each iteration writes to shared memory for its own products;
      with 2, an iteration needs one barrier instead of two.
    - `compute_roles`: with 2, two roles compute, each with as many warps as the kernel had and some of its results.
    - `late_products`: with 1, and with two scratch buffers, a product of what all warps wrote is issued in the next
      iteration, so that warpgroups need not meet in each iteration (`tgpu-plan-stages`).
    - `load_roles`: with 2, and `dynamic`, a second role makes the copies that a loop needs only for products whose
      results it carries.

    Example: `#tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 16,
    store_buffers = 2>`
  }];
  let parameters = (ins "int64_t":$load_registers, "int64_t":$compute_registers,
                        DefaultValuedParameter<"int64_t", "0">:$group,
                        DefaultValuedParameter<"int64_t", "0">:$store_buffers,
                        DefaultValuedParameter<"int64_t", "0">:$dynamic,
                        DefaultValuedParameter<"int64_t", "1">:$tile_stages,
                        DefaultValuedParameter<"int64_t", "0">:$reduce_stages,
                        DefaultValuedParameter<"int64_t", "1">:$scratch_stages,
                        DefaultValuedParameter<"int64_t", "1">:$compute_roles,
                        DefaultValuedParameter<"int64_t", "0">:$late_products,
                        DefaultValuedParameter<"int64_t", "1">:$load_roles);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

#endif // TILEWRIGHT_DIALECT_TGPU_TGPUATTRS_TD
