// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The C interface: translates structs, and turns every failure into a code and a text.

#include "runtime/CApi.h"

#include "runtime/AttentionForward.h"
#include "runtime/tilewright.h"

#include <atomic>
#include <charconv>
#include <new>

using namespace tilewright;
using namespace tilewright::runtime;

struct tilewright_bundle {
  std::shared_ptr<const Bundle> bundle;
};
struct tilewright_operation {
  Operation operation;
  Status driver; // why there is none: bundles can be asked without a GPU
};
struct tilewright_attention_forward {
  AttentionForward plan;
  Status driver;
};

namespace {

std::atomic<const DriverTable *> testDriver{nullptr};
thread_local std::string lastError;
thread_local bool isTextLost = false;

static_assert(int(Code::Io) == TILEWRIGHT_IO && int(Code::NotPrepared) == TILEWRIGHT_NOT_PREPARED,
              "the codes of Status.h and tilewright.h are the same");
static_assert(int(ElementType::I1) == TILEWRIGHT_I1 && int(ElementType::BF16) == TILEWRIGHT_BF16,
              "the types of ElementType.h and tilewright.h are the same");

tilewright_code report(Status status) {
  if (status.ok())
    return TILEWRIGHT_OK;
  isTextLost = false;
  lastError = status.message();
  return tilewright_code(status.code());
}

/// Calls `action` and keeps exceptions from callers that know none.
template <typename Action> tilewright_code guard(Action action) {
  try {
    return report(action());
  } catch (...) { // all that the runtime can throw is a lack of memory
    isTextLost = true;
    return TILEWRIGHT_OUT_OF_MEMORY;
  }
}

Status invalid(std::string message) {
  return Status::failure(Code::InvalidArgument, std::move(message));
}

Status expectPointer(const void *pointer, const char *what) {
  return pointer ? Status::success() : invalid(std::string(what) + " must not be null");
}

template <typename Struct> Status expectSize(const Struct &value, const char *what) {
  if (value.struct_size < sizeof(Struct))
    return invalid("struct_size of " + std::string(what) + " is " +
                   std::to_string(value.struct_size) + ", less than " +
                   std::to_string(sizeof(Struct)));
  return Status::success();
}

Status expectType(tilewright_type type, const char *what) {
  if (unsigned(type) >= numElementTypes)
    return invalid(std::string(what) + " has the unknown element type " +
                   std::to_string(int(type)));
  return Status::success();
}

/// The machine's driver, or a table without functions and the reason.
const DriverTable &findDriver(Status &status) {
  static const DriverTable none;
  if (const DriverTable *driver = testDriver.load())
    return *driver;
  Expected<const DriverTable *> system = DriverTable::system();
  if (system)
    return **system;
  status = system.status();
  return none;
}

Status toArgument(const tilewright_view *view, const char *what, Argument &argument) {
  if (!view) {
    argument = Argument::absent();
    return Status::success();
  }
  if (Status status = expectSize(*view, "tilewright_view"); !status)
    return status;
  if (Status status = expectType(view->type, what); !status)
    return status;
  if (view->rank > maxRank)
    return invalid(std::string(what) + " has rank " + std::to_string(view->rank) +
                   "; the limit is 8");
  if (view->rank > 0 && !view->extents)
    return invalid(std::string(what) + " has no extents");
  int64_t dense[maxRank] = {}, stride = 1;
  if (!view->strides)
    for (unsigned i = view->rank; i-- > 0;) {
      dense[i] = stride;
      if (__builtin_mul_overflow(stride, view->extents[i], &stride))
        return invalid(std::string(what) + " has more than 2^63 elements");
    }
  argument = Argument::view(reinterpret_cast<uintptr_t>(view->data), ElementType(view->type),
                            view->rank, view->extents, view->strides ? view->strides : dense);
  return Status::success();
}

Status toArgument(const tilewright_argument &given, const char *what, Argument &argument) {
  if (given.view && given.scalar)
    return invalid(std::string(what) + " is both a view and a scalar");
  if (!given.scalar)
    return toArgument(given.view, what, argument);
  if (Status status = expectType(given.scalar_type, what); !status)
    return status;
  argument = Argument::scalar(ElementType(given.scalar_type), given.scalar);
  return Status::success();
}

/// Puts arguments into the places that their names have; `nameOf(i)` is the name of place i. What
/// is not given stays absent. Where callers keep to the order, each name is compared once.
template <typename NameOf>
Status placeArguments(const tilewright_argument *given, size_t numGiven, NameOf nameOf,
                      size_t numPlaces, Argument *placed) {
  if (numGiven > 0) {
    if (Status status = expectPointer(given, "the list of arguments"); !status)
      return status;
    if (Status status = expectSize(*given, "tilewright_argument"); !status)
      return status;
  }
  // A caller of a later version has longer structs, so they lie further apart.
  auto at = [&](size_t i) -> const tilewright_argument & {
    const char *first = reinterpret_cast<const char *>(given);
    return *reinterpret_cast<const tilewright_argument *>(first + i * given->struct_size);
  };
  uint64_t taken = 0;
  static_assert(maxArguments <= 64, "a bit for each argument");
  for (size_t i = 0; i < numGiven; ++i) {
    const tilewright_argument &argument = at(i);
    if (Status status = expectSize(argument, "tilewright_argument"); !status)
      return status;
    size_t place = i;
    const char *name = argument.name;
    if (name && (i >= numPlaces || nameOf(i) != name)) {
      place = 0;
      while (place < numPlaces && nameOf(place) != name)
        ++place;
      if (place == numPlaces)
        return invalid("there is no argument '" + std::string(name) + "'");
    }
    if (place >= numPlaces)
      return invalid("there are " + std::to_string(numPlaces) + " arguments, but got " +
                     std::to_string(numGiven));
    if (taken >> place & 1)
      return invalid("argument '" + nameOf(place) + "' is given twice");
    taken |= uint64_t(1) << place;
    if (Status status = toArgument(argument, nameOf(place).c_str(), placed[place]); !status)
      return status;
  }
  return Status::success();
}

struct PlacedArguments {
  Argument values[maxArguments];
  const Argument *pointers[maxArguments];
};

Status placeArguments(const tilewright_operation *operation, const tilewright_argument *given,
                      size_t numGiven, PlacedArguments &placed) {
  const std::vector<ArgumentSpec> &contract = operation->operation.arguments();
  auto nameOf = [&](size_t i) -> const std::string & { return contract[i].name; };
  for (size_t i = 0; i < contract.size(); ++i)
    placed.pointers[i] = &placed.values[i];
  return placeArguments(given, numGiven, nameOf, contract.size(), placed.values);
}

struct PlacedAttention {
  AttentionForwardArguments arguments;
  Argument captures[maxArguments];
};

Status placeArguments(const tilewright_attention_forward *plan,
                      const tilewright_attention_forward_args *args, PlacedAttention &placed) {
  if (Status status = expectPointer(args, "args"); !status)
    return status;
  if (Status status = expectSize(*args, "tilewright_attention_forward_args"); !status)
    return status;
  AttentionForwardArguments &to = placed.arguments;
  struct Row {
    const tilewright_view *view;
    const char *name;
    Argument &argument;
  };
  for (const Row &row : {Row{args->q, "q", to.q}, Row{args->k, "k", to.k}, Row{args->v, "v", to.v},
                         Row{args->o, "o", to.o}, Row{args->lse, "lse", to.lse}})
    if (Status status = toArgument(row.view, row.name, row.argument); !status)
      return status;
  to.scale = args->scale;
  to.windowLeft = args->window_left;
  to.windowRight = args->window_right;
  const std::vector<std::string> &names = plan->plan.captures();
  auto nameOf = [&](size_t i) -> const std::string & { return names[i]; };
  to.captures = placed.captures;
  to.numCaptures = names.size();
  return placeArguments(args->captures, args->num_captures, nameOf, names.size(), placed.captures);
}

Expr paramValue(const std::string &text) {
  int64_t number;
  const char *end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && rest == end)
    return Expr::integer(number);
  if (text == "true" || text == "false")
    return Expr::flag(text == "true");
  return Expr::symbol(parseElementType(text) ? Expr::Kind::Type : Expr::Kind::Enum, text);
}

cuda::Stream toStream(void *stream) { return static_cast<cuda::Stream>(stream); }
uint64_t toAddress(void *pointer) { return reinterpret_cast<uintptr_t>(pointer); }

} // namespace

void tilewright::runtime::setDriverForTesting(const DriverTable *driver) { testDriver = driver; }

const char *tilewright_last_error(void) {
  return isTextLost ? "out of host memory" : lastError.c_str();
}

tilewright_code tilewright_bundle_open(const char *path, tilewright_bundle **bundle) {
  return guard([&]() -> Status {
    if (!path || !bundle)
      return invalid("path and bundle must not be null");
    Expected<std::shared_ptr<const Bundle>> opened = Bundle::open(path);
    if (!opened)
      return opened.status();
    *bundle = new tilewright_bundle{*opened};
    return Status::success();
  });
}

tilewright_code tilewright_bundle_load(const void *bytes, size_t size, tilewright_bundle **bundle) {
  return guard([&]() -> Status {
    if (!bytes || !bundle)
      return invalid("bytes and bundle must not be null");
    Expected<std::shared_ptr<const Bundle>> loaded =
        Bundle::fromBytes(std::string(static_cast<const char *>(bytes), size));
    if (!loaded)
      return loaded.status();
    *bundle = new tilewright_bundle{*loaded};
    return Status::success();
  });
}

void tilewright_bundle_close(tilewright_bundle *bundle) { delete bundle; }

tilewright_code tilewright_operation_create(const tilewright_bundle *bundle, const char *name,
                                            const tilewright_param *params, size_t num_params,
                                            tilewright_operation **operation) {
  return guard([&]() -> Status {
    if (!bundle || !name || !operation || (num_params && !params))
      return invalid("bundle, name, params and operation must not be null");
    Params wanted;
    for (size_t i = 0; i < num_params; ++i) {
      if (!params[i].name || !params[i].value)
        return invalid("name and value of a parameter must not be null");
      wanted.emplace_back(params[i].name, paramValue(params[i].value));
    }
    Status driverStatus;
    const DriverTable &driver = findDriver(driverStatus);
    Expected<Operation> created = Operation::create(driver, bundle->bundle, name, wanted);
    if (!created)
      return created.status();
    *operation = new tilewright_operation{std::move(*created), driverStatus};
    return Status::success();
  });
}

void tilewright_operation_destroy(tilewright_operation *operation) { delete operation; }

size_t tilewright_operation_num_arguments(const tilewright_operation *operation) {
  return operation ? operation->operation.arguments().size() : 0;
}

const char *tilewright_operation_argument_name(const tilewright_operation *operation,
                                               size_t index) {
  return index < tilewright_operation_num_arguments(operation)
             ? operation->operation.arguments()[index].name.c_str()
             : nullptr;
}

tilewright_code tilewright_operation_check_support(const tilewright_operation *operation, int major,
                                                   int minor, int shared_bytes) {
  return guard([&]() -> Status {
    if (Status status = expectPointer(operation, "operation"); !status)
      return status;
    return operation->operation.checkSupport({major, minor, shared_bytes});
  });
}

tilewright_code tilewright_operation_prepare(tilewright_operation *operation, int device) {
  return guard([&]() -> Status {
    if (Status status = expectPointer(operation, "operation"); !status)
      return status;
    return operation->driver.ok() ? operation->operation.prepare(device) : operation->driver;
  });
}

tilewright_code tilewright_operation_workspace_size(const tilewright_operation *operation,
                                                    const tilewright_argument *arguments,
                                                    size_t num_arguments, int device,
                                                    uint64_t *bytes) {
  return guard([&]() -> Status {
    if (!operation || !bytes)
      return invalid("operation and bytes must not be null");
    PlacedArguments placed;
    if (Status status = placeArguments(operation, arguments, num_arguments, placed); !status)
      return status;
    return operation->operation.workspaceSize(
        placed.pointers, operation->operation.arguments().size(), device, *bytes);
  });
}

tilewright_code tilewright_operation_run(const tilewright_operation *operation,
                                         const tilewright_argument *arguments, size_t num_arguments,
                                         void *workspace, uint64_t workspace_bytes, void *stream) {
  return guard([&]() -> Status {
    if (Status status = expectPointer(operation, "operation"); !status)
      return status;
    if (!operation->driver.ok())
      return operation->driver;
    PlacedArguments placed;
    if (Status status = placeArguments(operation, arguments, num_arguments, placed); !status)
      return status;
    return operation->operation.run(placed.pointers, operation->operation.arguments().size(),
                                    toAddress(workspace), workspace_bytes, toStream(stream));
  });
}

tilewright_code tilewright_attention_forward_create(const tilewright_bundle *bundle,
                                                    const tilewright_attention_forward_desc *desc,
                                                    tilewright_attention_forward **plan) {
  return guard([&]() -> Status {
    if (!bundle || !desc || !plan)
      return invalid("bundle, desc and plan must not be null");
    if (Status status = expectSize(*desc, "tilewright_attention_forward_desc"); !status)
      return status;
    if (Status status = expectType(desc->type, "the description of attention"); !status)
      return status;
    if (unsigned(desc->causal) > TILEWRIGHT_CAUSAL_BOTTOM_RIGHT)
      return invalid("the description of attention has the unknown causal mode " +
                     std::to_string(int(desc->causal)));
    AttentionForwardDesc wanted;
    wanted.type = ElementType(desc->type);
    wanted.causal = AttentionForwardDesc::Causal(desc->causal);
    wanted.headDim = desc->head_dim;
    wanted.valueDim = desc->value_dim;
    wanted.hasWindow = desc->has_window != 0;
    if (desc->entry)
      wanted.entry = desc->entry;
    Status driverStatus;
    const DriverTable &driver = findDriver(driverStatus);
    Expected<AttentionForward> created = AttentionForward::create(driver, bundle->bundle, wanted);
    if (!created)
      return created.status();
    *plan = new tilewright_attention_forward{std::move(*created), driverStatus};
    return Status::success();
  });
}

void tilewright_attention_forward_destroy(tilewright_attention_forward *plan) { delete plan; }

tilewright_code tilewright_attention_forward_check_support(const tilewright_attention_forward *plan,
                                                           int major, int minor, int shared_bytes) {
  return guard([&]() -> Status {
    if (Status status = expectPointer(plan, "plan"); !status)
      return status;
    return plan->plan.checkSupport({major, minor, shared_bytes});
  });
}

tilewright_code tilewright_attention_forward_prepare(tilewright_attention_forward *plan,
                                                     int device) {
  return guard([&]() -> Status {
    if (Status status = expectPointer(plan, "plan"); !status)
      return status;
    return plan->driver.ok() ? plan->plan.prepare(device) : plan->driver;
  });
}

tilewright_code
tilewright_attention_forward_workspace_size(const tilewright_attention_forward *plan,
                                            const tilewright_attention_forward_args *args,
                                            int device, uint64_t *bytes) {
  return guard([&]() -> Status {
    if (!plan || !bytes)
      return invalid("plan and bytes must not be null");
    PlacedAttention placed;
    if (Status status = placeArguments(plan, args, placed); !status)
      return status;
    return plan->plan.workspaceSize(placed.arguments, device, *bytes);
  });
}

tilewright_code tilewright_attention_forward_run(const tilewright_attention_forward *plan,
                                                 const tilewright_attention_forward_args *args,
                                                 void *workspace, uint64_t workspace_bytes,
                                                 void *stream) {
  return guard([&]() -> Status {
    if (Status status = expectPointer(plan, "plan"); !status)
      return status;
    if (!plan->driver.ok())
      return plan->driver;
    PlacedAttention placed;
    if (Status status = placeArguments(plan, args, placed); !status)
      return status;
    return plan->plan.run(placed.arguments, toAddress(workspace), workspace_bytes,
                          toStream(stream));
  });
}
