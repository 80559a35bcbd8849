// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The C interface of attention by one description.

#include "runtime/AttentionPlan.h"
#include "runtime/CApiSupport.h"

#include <cstddef>

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::capi;

struct tilewright_attention {
  AttentionPlan plan;
  Status driver; // why there is no driver; plans can be queried without a GPU
};

namespace {

/// The value of an enumeration whose first is 0.
template <typename To, typename From>
Status toEnum(const From &from, unsigned last, const char *what, const char *type, To &to) {
  if (Status status =
          expectEnum(numberOf(from), last,
                     std::string("the ") + what + " of the description of attention", type);
      !status)
    return status;
  to = To(numberOf(from));
  return Status::success();
}

/// A field that is added later must not lie in the first version, where a caller may leave
/// anything.
static_assert(offsetof(tilewright_attention_desc, leftpad) + sizeof(int) ==
                      firstSize<tilewright_attention_desc> &&
                  offsetof(tilewright_attention_desc, cache_type) ==
                      firstSize<tilewright_attention_desc>,
              "the description of attention ends in padding, or its first version has changed");

/// Whether the caller's version of the description has the type of a cache.
bool hasCacheType(const tilewright_attention_desc &given) {
  return given.struct_size >=
         offsetof(tilewright_attention_desc, cache_type) + sizeof(given.cache_type);
}

Status toDesc(const tilewright_attention_desc *given, AttentionDesc &desc) {
  if (Status status = expectPointer(given, "desc"); !status)
    return status;
  if (Status status = expectSize(*given, "tilewright_attention_desc"); !status)
    return status;
  const char *what = "the description of attention";
  for (const tilewright_type *type : {&given->type, &given->rotary_type})
    if (Status status = expectType(*type, what); !status)
      return status;
  if (Status status = toEnum(given->kind, TILEWRIGHT_ATTENTION_CACHED, "kind",
                             "tilewright_attention_kind", desc.kind);
      !status)
    return status;
  if (Status status = toEnum(given->causal, TILEWRIGHT_CAUSAL_BOTTOM_RIGHT, "causal mode",
                             "tilewright_causal", desc.causal);
      !status)
    return status;
  if (Status status = toEnum(given->places, TILEWRIGHT_PLACES_SEQUENCES, "places",
                             "tilewright_places", desc.places);
      !status)
    return status;
  const std::tuple<int, const char *, bool *> flags[] = {
      {given->has_window, "has_window", &desc.hasWindow},
      {given->packed, "packed", &desc.isPacked},
      {given->cached, "cached", &desc.isCached},
      {given->deterministic, "deterministic", &desc.isDeterministic},
      {given->ordered, "ordered", &desc.isOrdered},
      {given->score_gradient, "score_gradient", &desc.hasScoreGradient},
      {given->capture_gradients, "capture_gradients", &desc.hasCaptureGradients},
      {given->wide_indices, "wide_indices", &desc.hasWideIndices},
      {given->positions, "positions", &desc.hasPositions},
      {given->rotary_pairs, "rotary_pairs", &desc.rotatesPairs},
      {given->rotary_first, "rotary_first", &desc.rotatesFirst},
      {given->leftpad, "leftpad", &desc.hasLeftpad}};
  for (auto [value, name, flag] : flags) {
    if (Status status = expectFlag(value, name); !status)
      return status;
    *flag = value != 0;
  }
  desc.type = ElementType(given->type);
  desc.angleType = ElementType(given->rotary_type);
  if (hasCacheType(*given) && given->cache_type) {
    if (Status status = expectType(*given->cache_type, what); !status)
      return status;
    if (*given->cache_type != given->type)
      desc.cacheType = ElementType(*given->cache_type);
  }
  desc.headDim = given->head_dim;
  desc.valueDim = given->value_dim;
  desc.listBlockM = given->list_block_m;
  desc.listBlockN = given->list_block_n;
  if (given->page_rows)
    desc.pageRows = given->page_rows == TILEWRIGHT_NO_TABLE ? 0 : given->page_rows;
  if (given->page_rows < TILEWRIGHT_NO_TABLE)
    return Status::failure("page_rows must be a number of rows, 0 for any, or "
                           "TILEWRIGHT_NO_TABLE, but got " +
                           std::to_string(given->page_rows));
  desc.group = given->group ? given->group : 1;
  desc.maxRows = given->max_rows ? given->max_rows : 1;
  desc.numSplits = given->num_splits;
  desc.rotary = given->rotary;
  if (given->entry)
    desc.entry = given->entry;
  if (given->num_params)
    if (Status status = expectPointer(given->params, "the list of parameters"); !status)
      return status;
  return toParams(given->params, given->num_params, desc.more);
}

/// A text that follows from a description, kept for the thread.
template <typename Make>
tilewright_code describe(const tilewright_attention_desc *given, const char *name,
                         const char **text, const Make &make) {
  thread_local std::string kept;
  return guard([&]() -> Status {
    if (Status status = expectPointer(text, name); !status)
      return status;
    AttentionDesc desc;
    if (Status status = toDesc(given, desc); !status)
      return status;
    if (Status status = check(desc); !status)
      return status;
    kept = make(desc);
    *text = kept.c_str();
    return Status::success();
  });
}

/// Calls `action` with the arguments in the order of the plan.
template <typename Action>
Status withArguments(const tilewright_attention &handle, const tilewright_argument *arguments,
                     size_t numArguments, const Action &action) {
  PlacedArguments placed;
  if (Status status = placeByName(arguments, numArguments, handle.plan.arguments(), placed);
      !status)
    return status;
  return action(placed);
}

} // namespace

tilewright_code tilewright_attention_signature(const tilewright_attention_desc *desc,
                                               const char **signature) {
  return describe(desc, "signature", signature,
                  [](const AttentionDesc &each) { return signatureOf(each); });
}

tilewright_code tilewright_attention_params(const tilewright_attention_desc *desc,
                                            const char **params) {
  return describe(desc, "params", params,
                  [](const AttentionDesc &each) { return toVariantText(paramsOf(each)); });
}

tilewright_code tilewright_attention_describe(tilewright_attention_desc *given,
                                              const tilewright_argument *arguments,
                                              size_t num_arguments) {
  return guard([&]() -> Status {
    AttentionDesc desc;
    if (Status status = toDesc(given, desc); !status)
      return status;
    std::vector<std::pair<std::string, Argument>> named;
    if (Status status = toNamedArguments(arguments, num_arguments, named); !status)
      return status;
    if (Status status = complete(desc, named); !status)
      return status;
    if (Status status = check(desc); !status)
      return status;
    given->kind = tilewright_attention_kind(desc.kind);
    given->type = tilewright_type(desc.type);
    given->head_dim = desc.headDim;
    given->value_dim = desc.valueDim;
    given->has_window = desc.hasWindow;
    given->packed = desc.isPacked;
    given->cached = desc.isCached;
    given->page_rows = desc.pageRows ? (*desc.pageRows ? *desc.pageRows : TILEWRIGHT_NO_TABLE) : 0;
    given->score_gradient = desc.hasScoreGradient;
    given->capture_gradients = desc.hasCaptureGradients;
    given->num_splits = int32_t(desc.numSplits);
    given->group = desc.group;
    given->max_rows = desc.maxRows;
    given->places = tilewright_places(desc.places);
    given->wide_indices = desc.hasWideIndices;
    given->positions = desc.hasPositions;
    given->rotary = desc.rotary;
    given->rotary_type = tilewright_type(desc.angleType);
    given->leftpad = desc.hasLeftpad;
    static constexpr tilewright_type ofBytes[] = {TILEWRIGHT_E4M3, TILEWRIGHT_E5M2, TILEWRIGHT_I8};
    if (desc.cacheType && !hasCacheType(*given))
      return Status::failure("struct_size of tilewright_attention_desc must include the field "
                             "cache_type for a cache of another type, but got " +
                             std::to_string(given->struct_size) +
                             "; set it to sizeof of the struct");
    if (hasCacheType(*given))
      given->cache_type = !desc.cacheType                        ? nullptr
                          : *desc.cacheType == ElementType::E5M2 ? &ofBytes[1]
                          : *desc.cacheType == ElementType::I8   ? &ofBytes[2]
                                                                 : &ofBytes[0];
    return Status::success();
  });
}

tilewright_code tilewright_attention_create(const tilewright_bundle *bundle,
                                            const tilewright_attention_desc *desc,
                                            tilewright_attention **plan) {
  return guard([&]() -> Status {
    if (Status status = expectPointers({{"bundle", bundle}, {"desc", desc}, {"plan", plan}});
        !status)
      return status;
    AttentionDesc wanted;
    if (Status status = toDesc(desc, wanted); !status)
      return status;
    Status driverStatus;
    const DriverTable &driver = findDriver(driverStatus);
    Result<AttentionPlan> created = AttentionPlan::create(driver, bundle->bundle, wanted);
    if (!created)
      return created.status();
    *plan = new tilewright_attention{std::move(*created), driverStatus};
    return Status::success();
  });
}

void tilewright_attention_destroy(tilewright_attention *plan) { delete plan; }

size_t tilewright_attention_num_arguments(const tilewright_attention *plan) {
  return plan ? plan->plan.arguments().size() : 0;
}

const char *tilewright_attention_argument_name(const tilewright_attention *plan, size_t index) {
  return index < tilewright_attention_num_arguments(plan)
             ? plan->plan.arguments()[index].name.c_str()
             : nullptr;
}

tilewright_code tilewright_attention_check_support(const tilewright_attention *plan, int major,
                                                   int minor, int shared_bytes) {
  return guard([&]() -> Status {
    if (Status status = expectPointer(plan, "plan"); !status)
      return status;
    return plan->plan.checkSupport({major, minor, shared_bytes});
  });
}

tilewright_code tilewright_attention_prepare(tilewright_attention *plan, int device) {
  return guard([&]() -> Status {
    if (Status status = expectPointer(plan, "plan"); !status)
      return status;
    return plan->driver.ok() ? plan->plan.prepare(device) : plan->driver;
  });
}

tilewright_code tilewright_attention_check_indices(tilewright_attention *plan, int wanted) {
  return setFlag(plan, "plan", wanted,
                 [](auto &handle, bool flag) { handle.plan.checkIndices(flag); });
}

tilewright_code tilewright_attention_overlap_previous(tilewright_attention *plan, int wanted) {
  return setFlag(plan, "plan", wanted,
                 [](auto &handle, bool flag) { handle.plan.overlapPrevious(flag); });
}

tilewright_code tilewright_attention_workspace_size(const tilewright_attention *plan,
                                                    const tilewright_argument *arguments,
                                                    size_t num_arguments, int device,
                                                    uint64_t *bytes) {
  return guard([&]() -> Status {
    if (Status status = expectPointers({{"plan", plan}, {"bytes", bytes}}); !status)
      return status;
    return withArguments(*plan, arguments, num_arguments, [&](const PlacedArguments &placed) {
      return plan->plan.workspaceSize(placed.pointers, placed.count, device, *bytes);
    });
  });
}

tilewright_code tilewright_attention_run(const tilewright_attention *plan,
                                         const tilewright_argument *arguments, size_t num_arguments,
                                         void *workspace, uint64_t workspace_bytes, void *stream) {
  return guard([&]() -> Status {
    if (Status status = expectPointer(plan, "plan"); !status)
      return status;
    if (!plan->driver.ok())
      return plan->driver;
    return withArguments(*plan, arguments, num_arguments, [&](const PlacedArguments &placed) {
      return plan->plan.run(placed.pointers, placed.count, toAddress(workspace), workspace_bytes,
                            toStream(stream));
    });
  });
}

tilewright_code tilewright_attention_report(const tilewright_attention *plan,
                                            const tilewright_argument *arguments,
                                            size_t num_arguments, int device,
                                            const tilewright_target *target,
                                            tilewright_report **report) {
  return guard([&]() -> Status {
    if (Status status = expectPointer(plan, "plan"); !status)
      return status;
    return makeReport(plan->plan, arguments, num_arguments, device, target, report);
  });
}
