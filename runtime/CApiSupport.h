// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shared code of the C interface: converts structs to arguments, and failures to codes.

#ifndef TILEWRIGHT_RUNTIME_CAPISUPPORT_H
#define TILEWRIGHT_RUNTIME_CAPISUPPORT_H

#include "runtime/Operation.h"
#include "runtime/tilewright.h"

struct tilewright_bundle {
  explicit tilewright_bundle(std::shared_ptr<const tilewright::runtime::Bundle> bundle);
  std::shared_ptr<const tilewright::runtime::Bundle> bundle;
  std::string remarks; // those of all kernels
};

namespace tilewright::runtime::capi {

/// Keeps the text of a failure for tilewright_last_error.
tilewright_code report(Status status);
/// The same if there is no memory for a text.
tilewright_code reportNoMemory();

/// Calls `action`; no exception leaves the C interface.
template <typename Action> tilewright_code guard(Action action) {
  try {
    return report(action());
  } catch (...) { // the runtime throws only if memory is exhausted
    return reportNoMemory();
  }
}

Status nullPointer(const std::string &what);
inline Status expectPointer(const void *pointer, const char *what) {
  return pointer ? Status::success() : nullPointer(what);
}
struct NamedPointer {
  const char *name;
  const void *pointer;
};
/// The first pointer that is null is the one in the message.
inline Status expectPointers(std::initializer_list<NamedPointer> pointers) {
  for (const NamedPointer &each : pointers)
    if (!each.pointer)
      return nullPointer(each.name);
  return Status::success();
}
/// The value of a field of an enumeration type: C callers may write any number there, which C++
/// must not read as an enumerator before it is validated.
template <typename Enum> unsigned numberOf(const Enum &value) {
  unsigned number;
  static_assert(sizeof(Enum) == sizeof(number), "enumerators of C are ints");
  std::memcpy(&number, &value, sizeof(number));
  return number;
}
/// `what` of the enumeration `type`, whose values are 0 to `last`.
Status expectEnum(unsigned number, unsigned last, const std::string &what, const char *type);
Status expectType(const tilewright_type &type, const char *what);
Status expectFlag(int value, const char *what);
/// A function that sets a flag of a plan or operation.
template <typename Handle, typename Set>
tilewright_code setFlag(Handle *handle, const char *what, int wanted, Set set) {
  return guard([&]() -> Status {
    if (Status status = expectPointer(handle, what); !status)
      return status;
    if (Status status = expectFlag(wanted, "wanted"); !status)
      return status;
    set(*handle, wanted != 0);
    return Status::success();
  });
}

/// Bytes of a struct in the first version of this ABI. Fields are added after these, and read only
/// where struct_size covers them: a caller may be older than the library (docs/compatibility.md).
template <typename Struct> inline constexpr size_t firstSize = 0;
template <> inline constexpr size_t firstSize<tilewright_view> = 40;
template <> inline constexpr size_t firstSize<tilewright_cache> = 48;
template <> inline constexpr size_t firstSize<tilewright_argument> = 40;
template <> inline constexpr size_t firstSize<tilewright_xla_buffer> = 40;
template <> inline constexpr size_t firstSize<tilewright_xla_call> = 64;
template <> inline constexpr size_t firstSize<tilewright_target> = 24;
template <> inline constexpr size_t firstSize<tilewright_run_info> = 72;
template <> inline constexpr size_t firstSize<tilewright_launch_info> = 96;
template <> inline constexpr size_t firstSize<tilewright_attention_desc> = 184;
template <> inline constexpr size_t firstSize<tilewright_attention_forward_desc> = 48;
template <> inline constexpr size_t firstSize<tilewright_attention_forward_args> = 80;
template <> inline constexpr size_t firstSize<tilewright_attention_backward_desc> = 56;
template <> inline constexpr size_t firstSize<tilewright_attention_backward_args> = 120;
template <> inline constexpr size_t firstSize<tilewright_kv_cache> = 56;
template <> inline constexpr size_t firstSize<tilewright_attention_decode_desc> = 80;
template <> inline constexpr size_t firstSize<tilewright_attention_decode_args> = 120;

/// For a struct that states a size of `size` bytes.
Status tooSmall(size_t size, size_t least, const char *what);
template <typename Struct> Status expectSize(const Struct &value, const char *what) {
  static_assert(firstSize<Struct> > 0 && firstSize<Struct> <= sizeof(Struct));
  return value.struct_size >= firstSize<Struct>
             ? Status::success()
             : tooSmall(value.struct_size, firstSize<Struct>, what);
}

/// Element i of an array. A caller of a later version has longer structs, so their stride is
/// larger.
template <typename Struct> const Struct &elementAt(const Struct *first, size_t i) {
  const char *bytes = reinterpret_cast<const char *>(first);
  return *reinterpret_cast<const Struct *>(bytes + i * first->struct_size);
}

/// The machine's driver, or a table without functions and the reason.
const DriverTable &findDriver(Status &status);

/// `argument` is absent, and remains so if there is no view.
Status toArgument(const tilewright_view *view, const char *what, Argument &argument);

/// Stores arguments at the positions of their names; `nameOf(context, i)` is the name of position
/// i. Arguments that are not given stay absent. If callers keep the order, each name is compared
/// once.
Status placeArguments(const tilewright_argument *given, size_t numGiven,
                      const std::string &(*nameOf)(const void *context, size_t i),
                      const void *context, size_t numPlaces, Argument *placed);

/// Arguments of a call in the order of a contract.
struct PlacedArguments {
  ArgumentArray values;
  const Argument *pointers[maxArguments];
  size_t count;
};
Status placeByName(const tilewright_argument *given, size_t numGiven,
                   const std::vector<ArgumentSpec> &contract, PlacedArguments &placed);

/// Arguments that all have names.
Status toNamedArguments(const tilewright_argument *given, size_t numGiven,
                        std::vector<std::pair<std::string, Argument>> &named);

/// Parameters in the syntax of tilewrightc.
Status toParams(const tilewright_param *given, size_t numGiven, Params &params);

tilewright_report *newReport(RunReport report);

/// For operations and plans of attention, which have the same functions: `report` is that for
/// `device`, or for `target` if it is not null.
template <typename Plan>
Status makeReport(const Plan &plan, const tilewright_argument *arguments, size_t numArguments,
                  int device, const tilewright_target *target, tilewright_report **report) {
  if (Status status = expectPointer(report, "report"); !status)
    return status;
  PlacedArguments placed;
  if (Status status = placeByName(arguments, numArguments, plan.arguments(), placed); !status)
    return status;
  if (target)
    if (Status status = expectSize(*target, "tilewright_target"); !status)
      return status;
  Result<RunReport> made = target
                               ? plan.report(placed.pointers, placed.count,
                                             {target->major, target->minor, target->shared_bytes},
                                             target->multiprocessors)
                               : plan.report(placed.pointers, placed.count, device);
  if (!made)
    return made.status();
  *report = newReport(std::move(*made));
  return Status::success();
}

inline cuda::Stream toStream(void *stream) { return static_cast<cuda::Stream>(stream); }
inline uint64_t toAddress(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer); }

} // namespace tilewright::runtime::capi

#endif // TILEWRIGHT_RUNTIME_CAPISUPPORT_H
