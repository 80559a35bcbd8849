// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A call of decoding, as the entry takes it.

#include "runtime/AttentionDecode.h"

using namespace tilewright;
using namespace tilewright::runtime;

static constexpr AttentionField fields[] = {
    {"q", true},          {"k_pages", true},      {"v_pages", true},       {"o", true},
    {"lse", false},       {"block_table", false}, {"seq_lens", true},      {"k_descale", false},
    {"v_descale", false}, {"kv_indices", false},  {"kv_num_blocks", false}};

/// [B, R, Hq, width] as [B, Hq, R, width].
static Status headsFirst(const Argument &given, const char *name, const char *shape, Argument &to) {
  to = given;
  if (given.kind != Argument::Kind::View)
    return Status::success(); // the contract reports it
  if (given.rank != 4)
    return Status::failure(std::string("argument '") + name + "' of decoding must have the shape " +
                           shape + ", but got rank " + std::to_string(given.rank));
  std::swap(to.extents[1], to.extents[2]);
  std::swap(to.strides[1], to.strides[2]);
  return Status::success();
}

/// [Hkv] or [1] as [B, Hkv].
static Argument forEachHead(const Argument &given, int64_t batch, int64_t heads) {
  Argument to = given;
  if (given.kind != Argument::Kind::View || given.rank != 1 ||
      (given.extents[0] != 1 && given.extents[0] != heads))
    return to; // the contract reports it
  to.rank = 2;
  to.extents[0] = batch;
  to.extents[1] = heads;
  to.strides[0] = 0;
  to.strides[1] = given.extents[0] == 1 ? 0 : given.strides[0];
  return to;
}

struct AttentionDecode::Views {
  Status bind(const AttentionDecodeArguments &arguments) {
    if (Status status = headsFirst(arguments.q, "q", "[B, R, Hq, D]", q); !status)
      return status;
    if (Status status = headsFirst(arguments.o, "o", "[B, R, Hq, DV]", o); !status)
      return status;
    const KvCache &cache = arguments.cache;
    int64_t batch = cache.seqLens.rank == 1 ? cache.seqLens.extents[0] : 0,
            heads = cache.k.rank == 4 ? cache.k.extents[2] : 0;
    kScale = forEachHead(cache.kScale, batch, heads);
    vScale = forEachHead(cache.vScale, batch, heads);
    list = {&q,
            &cache.k,
            &cache.v,
            &o,
            &arguments.lse,
            &cache.blockTable,
            &cache.seqLens,
            &kScale,
            &vScale,
            &arguments.kvIndices,
            &arguments.kvNumBlocks};
    return Status::success();
  }
  Argument q, o, kScale, vScale;
  std::array<const Argument *, std::size(fields)> list;
};

Result<AttentionDecode> AttentionDecode::create(const DriverTable &driver,
                                                std::shared_ptr<const Bundle> bundle,
                                                const AttentionDecodeDesc &desc) {
  Result<AttentionFields> plan =
      AttentionFields::create(driver, std::move(bundle), desc, fields, std::size(fields));
  if (!plan)
    return plan.status();
  return AttentionDecode(std::move(*plan));
}

Status AttentionDecode::workspaceSize(const AttentionDecodeArguments &arguments, int device,
                                      uint64_t &bytes) const {
  Views views;
  if (Status status = views.bind(arguments); !status)
    return status;
  return plan.workspaceSize(views.list.data(), arguments, device, bytes);
}

Status AttentionDecode::run(const AttentionDecodeArguments &arguments, uint64_t workspace,
                            uint64_t workspaceBytes, cuda::Stream stream) const {
  Views views;
  if (Status status = views.bind(arguments); !status)
    return status;
  return plan.run(views.list.data(), arguments, workspace, workspaceBytes, stream);
}

Result<RunReport> AttentionDecode::report(const AttentionDecodeArguments &arguments,
                                          const Target &target, int multiprocessors) const {
  Views views;
  if (Status status = views.bind(arguments); !status)
    return status;
  return plan.report(views.list.data(), arguments, target, multiprocessors);
}
