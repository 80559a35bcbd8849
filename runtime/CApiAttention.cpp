// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The C interface of the plans of attention.

#include "runtime/AttentionDecode.h"
#include "runtime/AttentionViews.h"
#include "runtime/CApiSupport.h"

#include <cstddef>

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::capi;

struct tilewright_attention_forward {
  using Arguments = AttentionForwardArguments;
  static constexpr const auto &views = forward::views;
  static constexpr const char *argsName = "tilewright_attention_forward_args";
  AttentionForward plan;
  Status driver; // why there is no driver; plans can be queried without a GPU
};
struct tilewright_attention_backward {
  using Arguments = AttentionBackwardArguments;
  static constexpr const auto &views = backward::views;
  static constexpr const char *argsName = "tilewright_attention_backward_args";
  AttentionBackward plan;
  Status driver;
};

struct tilewright_attention_decode {
  using Arguments = AttentionDecodeArguments;
  AttentionDecode plan;
  Status driver;
};

namespace {

template <typename Arguments> struct Placed {
  Arguments arguments;
  ArgumentArray captures;
};

/// Fields that are added later must not lie in the first version, where a caller may leave
/// anything.
static_assert(offsetof(tilewright_attention_decode_desc, list_block_n) ==
                      firstSize<tilewright_attention_decode_desc> &&
                  offsetof(tilewright_attention_decode_args, kv_indices) ==
                      firstSize<tilewright_attention_decode_args>,
              "a struct of decoding ends in padding, or its first version has changed");

Status notSupported(const std::string &what, const std::string &value, const std::string &got) {
  return Status::failure(Code::Unsupported, what + " of decoding must be " + value + ", but got " +
                                                got + "; other values are not supported yet");
}

Status expectCausal(const tilewright_causal &causal, const std::string &owner) {
  return expectEnum(numberOf(causal), TILEWRIGHT_CAUSAL_BOTTOM_RIGHT, "the causal mode of " + owner,
                    "tilewright_causal");
}

/// Captures, in the order of the plan's names.
template <typename Handle, typename Args>
Status placeCaptures(const Handle *handle, const Args &args, AttentionArguments &to,
                     ArgumentArray &array) {
  const std::vector<std::string> &captures = handle->plan.captures();
  Argument *placed = array.reset(captures.size());
  to.captures = placed;
  to.numCaptures = captures.size();
  auto nameOf = [](const void *names, size_t i) -> const std::string & {
    return (*static_cast<const std::vector<std::string> *>(names))[i];
  };
  return placeArguments(args.captures, args.num_captures, nameOf, &captures, captures.size(),
                        placed);
}

/// Views, scalars and captures of both directions.
template <typename Handle, typename Args>
Status place(const Handle *handle, const Args &args, Placed<typename Handle::Arguments> &placed) {
  if (Status status = expectSize(args, Handle::argsName); !status)
    return status;
  for (const auto &row : Handle::views)
    if (Status status = toArgument(args.*row.field, row.fieldName, placed.arguments.*row.place);
        !status)
      return status;
  AttentionArguments &to = placed.arguments;
  to.scale = args.scale;
  // A caller of the first version has no such field.
  if (args.struct_size >= offsetof(Args, exact_scale) + sizeof(args.exact_scale) &&
      args.exact_scale != 0)
    to.scale = args.exact_scale;
  to.windowLeft = args.window_left;
  to.windowRight = args.window_right;
  return placeCaptures(handle, args, to, placed.captures);
}

/// Decoding: what is not supported yet has no place in the plan, and is rejected here.
Status place(const tilewright_attention_decode *handle,
             const tilewright_attention_decode_args &args,
             Placed<AttentionDecodeArguments> &placed) {
  if (Status status = expectSize(args, "tilewright_attention_decode_args"); !status)
    return status;
  if (Status status = expectPointer(args.cache, "cache"); !status)
    return status;
  const tilewright_kv_cache &cache = *args.cache;
  if (Status status = expectSize(cache, "tilewright_kv_cache"); !status)
    return status;
  for (auto [view, name] :
       {std::pair(args.cu_seqlens_q, "cu_seqlens_q"),
        std::pair(args.row_positions, "row_positions"), std::pair(args.tree_bits, "tree_bits"),
        std::pair(args.q_scale, "q_scale")})
    if (view)
      return Status::failure(Code::Unsupported, std::string(name) +
                                                    " of decoding must be null, but " +
                                                    "got a view; it is not supported yet");
  if (args.key_first != 0 || args.key_step != 1 || args.key_interleave != 1)
    return notSupported("key_first, key_step, key_interleave", "0, 1, 1",
                        std::to_string(args.key_first) + ", " + std::to_string(args.key_step) +
                            ", " + std::to_string(args.key_interleave));
  AttentionDecodeArguments &to = placed.arguments;
  to.scale = args.exact_scale != 0 ? args.exact_scale : args.scale;
  to.windowLeft = args.window_left;
  to.windowRight = args.window_right;
  const std::tuple<const tilewright_view *, const char *, Argument *> views[] = {
      {args.q, "q", &to.q},
      {args.o, "o", &to.o},
      {args.lse, "lse", &to.lse},
      {cache.k, "k", &to.cache.k},
      {cache.v, "v", &to.cache.v},
      {cache.block_table, "block_table", &to.cache.blockTable},
      {cache.seq_lens, "seq_lens", &to.cache.seqLens},
      {cache.k_scale, "k_scale", &to.cache.kScale},
      {cache.v_scale, "v_scale", &to.cache.vScale}};
  for (auto [view, name, argument] : views)
    if (Status status = toArgument(view, name, *argument); !status)
      return status;
  if (args.struct_size >=
      offsetof(tilewright_attention_decode_args, kv_num_blocks) + sizeof(args.kv_num_blocks)) {
    if (Status status = toArgument(args.kv_indices, "kv_indices", to.kvIndices); !status)
      return status;
    if (Status status = toArgument(args.kv_num_blocks, "kv_num_blocks", to.kvNumBlocks); !status)
      return status;
  }
  return placeCaptures(handle, args, to, placed.captures);
}

Status toDecodeDesc(const tilewright_attention_decode_desc &desc, AttentionDecodeDesc &wanted) {
  if (Status status = expectType(desc.type, "the description of decoding"); !status)
    return status;
  if (Status status = expectType(desc.cache_type, "the cache of the description of decoding");
      !status)
    return status;
  if (Status status = expectCausal(desc.causal, "the description of decoding"); !status)
    return status;
  if (desc.cache_type != desc.type)
    wanted.cacheType = ElementType(desc.cache_type);
  if (Status status = expectFlag(desc.overlap_previous, "overlap_previous"); !status)
    return status;
  for (auto [flag, name] : {std::pair(desc.lengths_are_older, "lengths_are_older"),
                            std::pair(int(desc.spare_sms), "spare_sms")})
    if (flag)
      return notSupported(name, "0", std::to_string(flag));
  wanted.type = ElementType(desc.type);
  wanted.headDim = desc.head_dim;
  wanted.valueDim = desc.value_dim;
  wanted.group = desc.group;
  wanted.maxRows = desc.max_rows ? desc.max_rows : 1;
  wanted.causal = AttentionDesc::Causal(desc.causal);
  wanted.hasWindow = desc.has_window != 0;
  wanted.numSplits = desc.num_splits;
  if (desc.entry)
    wanted.entry = desc.entry;
  if (desc.struct_size >=
      offsetof(tilewright_attention_decode_desc, list_block_n) + sizeof(desc.list_block_n)) {
    wanted.listBlockN = desc.list_block_n;
    wanted.listBlockM = desc.list_block_n ? wanted.maxRows : 0; // all queries of a sequence
  }
  return Status::success();
}

/// The common fields of the descriptions of both directions.
template <typename Desc> Status toDesc(const Desc &desc, AttentionDesc &wanted) {
  if (Status status = expectType(desc.type, "the description of attention"); !status)
    return status;
  if (Status status = expectCausal(desc.causal, "the description of attention"); !status)
    return status;
  wanted.type = ElementType(desc.type);
  wanted.causal = AttentionDesc::Causal(desc.causal);
  wanted.headDim = desc.head_dim;
  wanted.valueDim = desc.value_dim;
  wanted.hasWindow = desc.has_window != 0;
  return Status::success();
}

/// `further` reads the fields of the description that only one direction has.
template <typename Plan, typename Wanted, typename Desc, typename Handle, typename Further>
tilewright_code create(const tilewright_bundle *bundle, const Desc *desc, const char *descName,
                       Handle **handle, const Further &further) {
  return guard([&]() -> Status {
    if (Status status = expectPointers({{"bundle", bundle}, {"desc", desc}, {"plan", handle}});
        !status)
      return status;
    if (Status status = expectSize(*desc, descName); !status)
      return status;
    Wanted wanted;
    if (Status status = toDesc(*desc, wanted); !status)
      return status;
    if (desc->entry)
      wanted.entry = desc->entry;
    further(wanted);
    Status driverStatus;
    const DriverTable &driver = findDriver(driverStatus);
    Result<Plan> created = Plan::create(driver, bundle->bundle, wanted);
    if (!created)
      return created.status();
    *handle = new Handle{std::move(*created), driverStatus};
    return Status::success();
  });
}

template <typename Handle>
tilewright_code checkSupport(const Handle *handle, int major, int minor, int sharedBytes) {
  return guard([&]() -> Status {
    if (Status status = expectPointer(handle, "plan"); !status)
      return status;
    return handle->plan.checkSupport({major, minor, sharedBytes});
  });
}

template <typename Handle> size_t countCaptures(const Handle *handle) {
  return handle ? handle->plan.captures().size() : 0;
}

template <typename Handle> const char *captureName(const Handle *handle, size_t index) {
  return index < countCaptures(handle) ? handle->plan.captures()[index].c_str() : nullptr;
}

template <typename Handle> tilewright_code prepare(Handle *handle, int device) {
  return guard([&]() -> Status {
    if (Status status = expectPointer(handle, "plan"); !status)
      return status;
    return handle->driver.ok() ? handle->plan.prepare(device) : handle->driver;
  });
}

template <typename Handle, typename Args>
tilewright_code workspaceSize(const Handle *handle, const Args *args, int device, uint64_t *bytes) {
  return guard([&]() -> Status {
    if (Status status = expectPointers({{"plan", handle}, {"bytes", bytes}}); !status)
      return status;
    if (Status status = expectPointer(args, "args"); !status)
      return status;
    Placed<typename Handle::Arguments> placed;
    if (Status status = place(handle, *args, placed); !status)
      return status;
    return handle->plan.workspaceSize(placed.arguments, device, *bytes);
  });
}

template <typename Handle, typename Args>
tilewright_code run(const Handle *handle, const Args *args, void *workspace,
                    uint64_t workspaceBytes, void *stream) {
  return guard([&]() -> Status {
    if (Status status = expectPointer(handle, "plan"); !status)
      return status;
    if (!handle->driver.ok())
      return handle->driver;
    if (Status status = expectPointer(args, "args"); !status)
      return status;
    Placed<typename Handle::Arguments> placed;
    if (Status status = place(handle, *args, placed); !status)
      return status;
    return handle->plan.run(placed.arguments, toAddress(workspace), workspaceBytes,
                            toStream(stream));
  });
}

} // namespace

tilewright_code tilewright_attention_forward_create(const tilewright_bundle *bundle,
                                                    const tilewright_attention_forward_desc *desc,
                                                    tilewright_attention_forward **plan) {
  return create<AttentionForward, AttentionForwardDesc>(
      bundle, desc, "tilewright_attention_forward_desc", plan, [](AttentionForwardDesc &) {});
}

tilewright_code tilewright_attention_backward_create(const tilewright_bundle *bundle,
                                                     const tilewright_attention_backward_desc *desc,
                                                     tilewright_attention_backward **plan) {
  return create<AttentionBackward, AttentionBackwardDesc>(
      bundle, desc, "tilewright_attention_backward_desc", plan, [=](AttentionBackwardDesc &wanted) {
        wanted.isDeterministic = desc->deterministic != 0;
        wanted.hasCaptureGradients = desc->capture_gradients != 0;
      });
}

tilewright_code tilewright_attention_decode_create(const tilewright_bundle *bundle,
                                                   const tilewright_attention_decode_desc *desc,
                                                   tilewright_attention_decode **plan) {
  return guard([&]() -> Status {
    if (Status status = expectPointers({{"bundle", bundle}, {"desc", desc}, {"plan", plan}});
        !status)
      return status;
    if (Status status = expectSize(*desc, "tilewright_attention_decode_desc"); !status)
      return status;
    AttentionDecodeDesc wanted;
    if (Status status = toDecodeDesc(*desc, wanted); !status)
      return status;
    Status driverStatus;
    const DriverTable &driver = findDriver(driverStatus);
    Result<AttentionDecode> created = AttentionDecode::create(driver, bundle->bundle, wanted);
    if (!created)
      return created.status();
    if (desc->overlap_previous) // 0 is the default, as in every field
      created->overlapPrevious(true);
    *plan = new tilewright_attention_decode{std::move(*created), driverStatus};
    return Status::success();
  });
}

/// For all plans: the functions that tilewright.h declares, implemented by the templates
/// above.
#define DEFINE_FUNCTIONS(PLAN)                                                                     \
  void PLAN##_destroy(PLAN *plan) { delete plan; }                                                 \
  size_t PLAN##_num_captures(const PLAN *plan) { return countCaptures(plan); }                     \
  const char *PLAN##_capture_name(const PLAN *plan, size_t index) {                                \
    return captureName(plan, index);                                                               \
  }                                                                                                \
  tilewright_code PLAN##_check_support(const PLAN *plan, int major, int minor, int shared_bytes) { \
    return checkSupport(plan, major, minor, shared_bytes);                                         \
  }                                                                                                \
  tilewright_code PLAN##_prepare(PLAN *plan, int device) { return prepare(plan, device); }         \
  tilewright_code PLAN##_check_indices(PLAN *plan, int wanted) {                                   \
    return setFlag(plan, "plan", wanted,                                                           \
                   [](auto &handle, bool flag) { handle.plan.checkIndices(flag); });               \
  }                                                                                                \
  tilewright_code PLAN##_overlap_previous(PLAN *plan, int wanted) {                                \
    return setFlag(plan, "plan", wanted,                                                           \
                   [](auto &handle, bool flag) { handle.plan.overlapPrevious(flag); });            \
  }                                                                                                \
  tilewright_code PLAN##_workspace_size(const PLAN *plan, const PLAN##_args *args, int device,     \
                                        uint64_t *bytes) {                                         \
    return workspaceSize(plan, args, device, bytes);                                               \
  }                                                                                                \
  tilewright_code PLAN##_run(const PLAN *plan, const PLAN##_args *args, void *workspace,           \
                             uint64_t workspace_bytes, void *stream) {                             \
    return run(plan, args, workspace, workspace_bytes, stream);                                    \
  }
DEFINE_FUNCTIONS(tilewright_attention_forward)
DEFINE_FUNCTIONS(tilewright_attention_backward)
DEFINE_FUNCTIONS(tilewright_attention_decode)
