// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Converts structs of the C interface to arguments, and failures to codes and texts.

#include "runtime/CApiSupport.h"

#include "runtime/CApiTesting.h"

#include <atomic>
#include <charconv>

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::capi;

namespace {

std::atomic<const DriverTable *> testDriver{nullptr};
thread_local std::string lastError;
thread_local bool isTextLost = false;

static_assert(int(Code::Io) == TILEWRIGHT_IO && int(Code::NotPrepared) == TILEWRIGHT_NOT_PREPARED,
              "the codes of Status.h and tilewright.h are the same");
static_assert(int(ElementType::I8) == TILEWRIGHT_I8 && int(ElementType::BF16) == TILEWRIGHT_BF16,
              "the types of ElementType.h and tilewright.h are the same");

} // namespace

tilewright_bundle::tilewright_bundle(std::shared_ptr<const Bundle> given)
    : bundle(std::move(given)) {
  for (const KernelSpec &kernel : bundle->manifest().kernels)
    for (const std::string &remark : kernel.remarks) {
      std::string line = "kernel '" + kernel.name + "' " + remark + "\n";
      if (remarks.find(line) == std::string::npos)
        remarks += line;
    }
}

void tilewright::runtime::setDriverForTesting(const DriverTable *driver) { testDriver = driver; }

const char *tilewright_last_error(void) {
  return isTextLost ? "out of host memory" : lastError.c_str();
}

tilewright_code capi::report(Status status) {
  if (status.ok())
    return TILEWRIGHT_OK;
  isTextLost = false;
  lastError = status.message();
  return tilewright_code(status.code());
}

tilewright_code capi::reportNoMemory() {
  isTextLost = true;
  return TILEWRIGHT_OUT_OF_MEMORY;
}

Status capi::nullPointer(const std::string &what) {
  return Status::failure(what + " must be a valid pointer, but got null");
}

Status capi::tooSmall(size_t size, size_t least, const char *what) {
  return Status::failure("struct_size of " + std::string(what) + " must be at least " +
                         std::to_string(least) + ", but got " + std::to_string(size) +
                         "; set it to sizeof of the struct");
}

Status capi::expectType(const tilewright_type &type, const char *what) {
  if (numberOf(type) < numElementTypes) // a run must not allocate the text
    return Status::success();
  return expectEnum(numberOf(type), numElementTypes - 1, "the element type of " + std::string(what),
                    "tilewright_type");
}

Status capi::expectEnum(unsigned number, unsigned last, const std::string &what, const char *type) {
  if (number > last)
    return Status::failure(what + " must be a " + type + ", a number from 0 to " +
                           std::to_string(last) + ", but got " + std::to_string(int(number)));
  return Status::success();
}

Status capi::expectFlag(int value, const char *what) {
  if (value != 0 && value != 1)
    return Status::failure(std::string(what) + " must be 0 or 1, but got " + std::to_string(value));
  return Status::success();
}

const DriverTable &capi::findDriver(Status &status) {
  static const DriverTable none;
  if (const DriverTable *driver = testDriver.load())
    return *driver;
  Result<const DriverTable *> system = DriverTable::system();
  if (system)
    return **system;
  status = system.status();
  return none;
}

Status capi::toArgument(const tilewright_view *view, const char *what, Argument &argument) {
  if (!view)
    return Status::success();
  if (Status status = expectSize(*view, "tilewright_view"); !status)
    return status;
  if (Status status = expectType(view->type, what); !status)
    return status;
  if (view->rank > maxRank)
    return Status::failure(std::string(what) + " has rank " + std::to_string(view->rank) +
                           "; the limit is 8");
  if (view->rank > 0 && !view->extents)
    return nullPointer("extents of " + std::string(what));
  // In place: an argument is large, and there are many. It was absent, so the other members are
  // zero.
  argument.kind = Argument::Kind::View;
  argument.type = ElementType(view->type);
  argument.rank = uint8_t(view->rank);
  argument.bits = reinterpret_cast<uintptr_t>(view->data);
  int64_t stride = 1; // stride of a dense array
  for (unsigned i = view->rank; i-- > 0;) {
    argument.extents[i] = view->extents[i];
    argument.strides[i] = view->strides ? view->strides[i] : stride;
    if (!view->strides && __builtin_mul_overflow(stride, view->extents[i], &stride))
      return Status::failure(std::string(what) + " must have at most 2^63 elements, but got " +
                             std::to_string(view->extents[i]) + " times " +
                             std::to_string(argument.strides[i]));
  }
  return Status::success();
}

static Status toArgument(const tilewright_argument &given, const char *what, Argument &argument) {
  if (given.view && given.scalar)
    return Status::failure(std::string(what) + " must be a view or a scalar, but got both");
  if (!given.scalar)
    return toArgument(given.view, what, argument);
  if (Status status = expectType(given.scalar_type, what); !status)
    return status;
  argument = Argument::scalar(ElementType(given.scalar_type), given.scalar);
  return Status::success();
}

static Status expectList(const tilewright_argument *given, size_t numGiven) {
  if (numGiven == 0)
    return Status::success();
  if (Status status = expectPointer(given, "the list of arguments"); !status)
    return status;
  if (Status status = expectSize(*given, "tilewright_argument"); !status)
    return status;
  constexpr size_t most = 4096, step = alignof(tilewright_argument);
  if (given->struct_size > most || given->struct_size % step != 0)
    return Status::failure("struct_size of tilewright_argument must be a multiple of " +
                           std::to_string(step) + " up to " + std::to_string(most) + ", but got " +
                           std::to_string(given->struct_size));
  return Status::success();
}

Status capi::toNamedArguments(const tilewright_argument *given, size_t numGiven,
                              std::vector<std::pair<std::string, Argument>> &named) {
  if (Status status = expectList(given, numGiven); !status)
    return status;
  for (size_t i = 0; i < numGiven; ++i) {
    const tilewright_argument &argument = elementAt(given, i);
    if (Status status = expectSize(argument, "tilewright_argument"); !status)
      return status;
    if (Status status = expectPointer(argument.name, "the name of an argument"); !status)
      return status;
    named.emplace_back(argument.name, Argument());
    if (Status status = toArgument(argument, argument.name, named.back().second); !status)
      return status;
  }
  return Status::success();
}

Status capi::placeByName(const tilewright_argument *given, size_t numGiven,
                         const std::vector<ArgumentSpec> &contract, PlacedArguments &placed) {
  auto nameOf = [](const void *specs, size_t i) -> const std::string & {
    return (*static_cast<const std::vector<ArgumentSpec> *>(specs))[i].name;
  };
  placed.count = contract.size();
  Argument *values = placed.values.reset(placed.count);
  for (size_t i = 0; i < placed.count; ++i)
    placed.pointers[i] = &values[i];
  return placeArguments(given, numGiven, nameOf, &contract, placed.count, values);
}

static Expr paramValue(const std::string &text) {
  int64_t number;
  const char *end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && rest == end)
    return Expr::integer(number);
  if (text == "true" || text == "false")
    return Expr::flag(text == "true");
  return Expr::symbol(parseElementType(text) ? Expr::Kind::Type : Expr::Kind::Enum, text);
}

Status capi::toParams(const tilewright_param *given, size_t numGiven, Params &params) {
  for (size_t i = 0; i < numGiven; ++i) {
    if (!given[i].name)
      return nullPointer("the name of a parameter");
    if (!given[i].value)
      return nullPointer("the value of parameter '" + std::string(given[i].name) + "'");
    params.emplace_back(given[i].name, paramValue(given[i].value));
  }
  return Status::success();
}

Status capi::placeArguments(const tilewright_argument *given, size_t numGiven,
                            const std::string &(*nameOf)(const void *context, size_t i),
                            const void *context, size_t numPlaces, Argument *placed) {
  if (Status status = expectList(given, numGiven); !status)
    return status;
  uint64_t taken = 0;
  static_assert(maxArguments <= 64, "a bit for each argument");
  for (size_t i = 0; i < numGiven; ++i) {
    const tilewright_argument &argument = elementAt(given, i);
    if (Status status = expectSize(argument, "tilewright_argument"); !status)
      return status;
    size_t place = i;
    const char *name = argument.name;
    if (name && (i >= numPlaces || nameOf(context, i) != name)) {
      place = 0;
      while (place < numPlaces && nameOf(context, place) != name)
        ++place;
      if (place == numPlaces) {
        std::string names;
        for (size_t known = 0; known < numPlaces; ++known)
          names += (known ? ", " : "") + nameOf(context, known);
        return Status::failure(
            "there is no argument '" + std::string(name) + "'; " +
            (names.empty() ? "none is given by name" : "the names are: " + names));
      }
    }
    if (place >= numPlaces)
      return Status::failure("expected " + std::to_string(numPlaces) + " arguments, but got " +
                             std::to_string(numGiven));
    if (taken >> place & 1)
      return Status::failure("each argument must be given once, but got '" +
                             nameOf(context, place) + "' twice");
    taken |= uint64_t(1) << place;
    if (Status status = toArgument(argument, nameOf(context, place).c_str(), placed[place]);
        !status)
      return status;
  }
  return Status::success();
}
