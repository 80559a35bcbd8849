// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Type constraints shared by the operations of the `tgpu` dialect.

#ifndef TILEWRIGHT_DIALECT_TGPU_TGPUOPBASE_TD
#define TILEWRIGHT_DIALECT_TGPU_TGPUOPBASE_TD

include "dialect/Tgpu/TgpuTypes.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

/// What operations access. An asynchronous operation has its effects where it is issued.
def Tgpu_SharedMemory : Resource<"::tilewright::tgpu::SharedMemoryResource">;
def Tgpu_GlobalMemory : Resource<"::tilewright::tgpu::GlobalMemoryResource">;
def Tgpu_BarrierState : Resource<"::tilewright::tgpu::BarrierResource">;

defvar Tgpu_ReadsShared = [MemRead<Tgpu_SharedMemory>];
defvar Tgpu_WritesShared = [MemWrite<Tgpu_SharedMemory>];
defvar Tgpu_AccessesShared = [MemRead<Tgpu_SharedMemory>, MemWrite<Tgpu_SharedMemory>];
defvar Tgpu_ReadsGlobal = [MemRead<Tgpu_GlobalMemory>];
defvar Tgpu_WritesGlobal = [MemWrite<Tgpu_GlobalMemory>];
defvar Tgpu_AccessesGlobal = [MemRead<Tgpu_GlobalMemory>, MemWrite<Tgpu_GlobalMemory>];
defvar Tgpu_AccessesBarriers = [MemRead<Tgpu_BarrierState>, MemWrite<Tgpu_BarrierState>];

/// Closing a group of copies, and waiting for it: no access to memory moves across either.
class Tgpu_OrdersMemory : MemoryEffects<!listconcat(Tgpu_AccessesShared, Tgpu_AccessesGlobal)>;
/// Waiting for other threads, and arriving where they wait.
class Tgpu_Synchronizes
    : MemoryEffects<!listconcat(Tgpu_AccessesBarriers, Tgpu_AccessesShared, Tgpu_AccessesGlobal)>;

class Tgpu_Op<string mnemonic, list<Trait> traits = []> : Op<Tgpu_Dialect, mnemonic, traits>;

/// A ranked tensor of static shape whose encoding is a layout that fits the shape.
def Tgpu_RegisterTile : Type<CPred<"::tilewright::tgpu::isRegisterTile($_self)">,
    "a register tile (a tensor with a layout that fits its shape)">;
def Tgpu_Shared : Type<CPred<"::llvm::isa<::tilewright::tgpu::SharedType>($_self)">,
    "a shared buffer">;
def Tgpu_Ring : Type<CPred<"::llvm::isa<::tilewright::tgpu::RingType>($_self)">, "a ring">;
def Tgpu_Barriers : Type<CPred<"::llvm::isa<::tilewright::tgpu::BarriersType>($_self)">, "barriers">;
def Tgpu_Pending : Type<CPred<"::llvm::isa<::tilewright::tgpu::PendingType>($_self)">,
    "a pending tile">;
def Tgpu_TensorMap : Type<CPred<"::llvm::isa<::tilewright::tgpu::TensorMapType>($_self)">,
    "a tensor map">;
def Tgpu_View : Type<CPred<"::llvm::isa<::tilewright::tile::ViewType>($_self)">, "a view">;

#endif // TILEWRIGHT_DIALECT_TGPU_TGPUOPBASE_TD
