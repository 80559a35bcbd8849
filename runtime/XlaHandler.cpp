// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/XlaHandler.h"
#include "runtime/Argument.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::xla;

namespace {

struct Calls {
  std::shared_mutex mutex;
  std::unordered_map<std::string, std::shared_ptr<const Call>> byKey;
};

/// A failure with the code that XLA reports.
struct Failure {
  ErrorCode code;
  std::string message;
};

struct BufferView {
  tilewright_view view;
  int64_t extents[maxRank], strides[maxRank];
};

} // namespace

static Calls &getCalls() {
  static auto *calls = new Calls; // threads of XLA may outlive the destructors of this library
  return *calls;
}

void xla::registerCall(const std::string &key, Call call) {
  Calls &calls = getCalls();
  auto shared = std::make_shared<const Call>(std::move(call));
  std::unique_lock lock(calls.mutex);
  calls.byKey[key] = std::move(shared);
}

static std::shared_ptr<const Call> findCall(const std::string &key) {
  Calls &calls = getCalls();
  std::shared_lock lock(calls.mutex);
  auto found = calls.byKey.find(key);
  return found == calls.byKey.end() ? nullptr : found->second;
}

static std::optional<tilewright_type> toType(DataType type) {
  switch (type) {
  case Pred:
    return TILEWRIGHT_I1;
  case S32:
    return TILEWRIGHT_I32;
  case S64:
    return TILEWRIGHT_I64;
  case F16:
    return TILEWRIGHT_F16;
  case F32:
    return TILEWRIGHT_F32;
  case F64:
    return TILEWRIGHT_F64;
  case BF16:
    return TILEWRIGHT_BF16;
  case F8E5M2:
    return TILEWRIGHT_E5M2;
  case F8E4M3FN:
    return TILEWRIGHT_E4M3;
  case U32: // only as halves of i64
    break;
  }
  return std::nullopt;
}

/// The view of a buffer that an operand describes.
static bool makeView(const Buffer &buffer, const Call::Operand &operand, BufferView &result,
                     Failure &failure) {
  auto fail = [&](const std::string &text) {
    failure = {InvalidArgument, "the buffer of argument '" + operand.name + "' " + text};
    return false;
  };
  if (buffer.rank < 0 || buffer.rank > int64_t(maxRank))
    return fail("has rank " + std::to_string(buffer.rank) + "; the limit is 8");
  unsigned rank = unsigned(buffer.rank);
  if (!operand.order.empty() && operand.order.size() != rank)
    return fail("has rank " + std::to_string(rank) + ", but the call has an order of " +
                std::to_string(operand.order.size()) + " dimensions");
  int64_t extents[maxRank], strides[maxRank];
  std::copy_n(buffer.extents, rank, extents);
  std::optional<tilewright_type> type = operand.isPairs ? TILEWRIGHT_I64 : toType(buffer.type);
  if (!type)
    return fail("has type " + std::to_string(int(buffer.type)) +
                " of XLA, which no kernel takes; convert it");
  if (operand.isPairs) {
    if (buffer.type != U32 || rank == 0 || extents[rank - 1] % 2 != 0)
      return fail("must have an even number of u32 in a row, the halves of i64, but got " +
                  (buffer.type != U32 ? "type " + std::to_string(int(buffer.type)) + " of XLA"
                   : rank == 0        ? "rank 0"
                                      : std::to_string(extents[rank - 1])));
    extents[rank - 1] /= 2;
  }
  int64_t stride = 1;
  for (unsigned i = rank; i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<int64_t>(extents[i], 1);
  }
  for (unsigned i = 0; i < rank; ++i) {
    unsigned from = operand.order.empty() ? i : operand.order[i];
    if (from >= rank)
      return fail("must have each dimension of the order of the call, but has rank " +
                  std::to_string(rank) + " and no dimension " + std::to_string(from));
    result.extents[i] = extents[from];
    result.strides[i] = strides[from];
  }
  result.view = {sizeof(tilewright_view), buffer.data, *type, rank, result.extents, result.strides};
  return true;
}

static ErrorCode toErrorCode(tilewright_code code) {
  switch (code) {
  case TILEWRIGHT_INVALID_ARGUMENT:
    return InvalidArgument;
  case TILEWRIGHT_UNSUPPORTED:
  case TILEWRIGHT_MISSING_VARIANT:
    return Unimplemented;
  case TILEWRIGHT_NOT_PREPARED:
    return FailedPrecondition;
  case TILEWRIGHT_OUT_OF_MEMORY:
    return ResourceExhausted;
  case TILEWRIGHT_NO_DRIVER:
    return Unavailable;
  default:
    return Internal;
  }
}

/// Whether there is an attribute "call"; `key` is its text.
static bool findKey(const CallFrame &frame, std::string &key) {
  for (int64_t i = 0; i < frame.attributes.size; ++i) {
    const ByteSpan &name = *frame.attributes.names[i];
    if (std::string(name.data, name.size) != "call" || frame.attributes.types[i] != StringAttribute)
      continue;
    const auto &text = *static_cast<const ByteSpan *>(frame.attributes.values[i]);
    key.assign(text.data, text.size);
    return true;
  }
  return false;
}

/// Runs the call of a frame. False: with a failure, or with an error of XLA.
static bool execute(const CallFrame &frame, Failure &failure, Error *&ownError) {
  auto fail = [&](ErrorCode code, const std::string &text) {
    failure = {code, text};
    return false;
  };
  std::string key;
  if (!findKey(frame, key))
    return fail(InvalidArgument,
                "a call of Tilewright must have an attribute 'call', a string, but got none");
  std::shared_ptr<const Call> call = findCall(key);
  if (!call)
    return fail(NotFound,
                "the call '" + key +
                    "' must be registered in this process, but is not; trace the function "
                    "in it before it is executed");
  int64_t numOperands = frame.arguments.size, numBuffers = numOperands + frame.results.size;
  int64_t numNamed = numBuffers - int64_t(call->hasWorkspace);
  if (numNamed != int64_t(call->operands.size()))
    return fail(InvalidArgument, "the call '" + key + "' must have " +
                                     std::to_string(call->operands.size()) + " buffers, but got " +
                                     std::to_string(numNamed));

  std::vector<BufferView> views(call->operands.size());
  std::vector<tilewright_argument> arguments;
  arguments.reserve(call->operands.size() + call->scalars.size());
  void *workspace = nullptr;
  uint64_t workspaceBytes = 0;
  for (int64_t i = 0; i < numBuffers; ++i) {
    bool isResult = i >= numOperands;
    const Values &values = isResult ? frame.results : frame.arguments;
    int64_t at = isResult ? i - numOperands : i;
    if (values.types[at] != BufferType)
      return fail(InvalidArgument, "operands and results must be buffers, but got kind " +
                                       std::to_string(int(values.types[at])) + " of XLA at " +
                                       std::to_string(i));
    const auto &buffer = *static_cast<const Buffer *>(values.values[at]);
    if (i == numNamed) {
      workspace = buffer.data;
      workspaceBytes = 1; // elements are bytes
      for (int64_t dim = 0; dim < buffer.rank; ++dim)
        workspaceBytes *= uint64_t(buffer.extents[dim]);
      continue;
    }
    const Call::Operand &operand = call->operands[i];
    if (!makeView(buffer, operand, views[i], failure))
      return false;
    arguments.push_back({sizeof(tilewright_argument), operand.name.c_str(), &views[i].view, nullptr,
                         views[i].view.type});
  }
  for (const Call::Scalar &scalar : call->scalars)
    arguments.push_back(
        {sizeof(tilewright_argument), scalar.name.c_str(), nullptr, &scalar.bits, scalar.type});

  StreamGetArguments stream = {sizeof(StreamGetArguments), nullptr, frame.context, nullptr};
  if ((ownError = frame.api->getStream(&stream)))
    return false;
  tilewright_code code =
      call->run(arguments.data(), arguments.size(), workspace, workspaceBytes, stream.stream);
  return code == TILEWRIGHT_OK || fail(toErrorCode(code), tilewright_last_error());
}

Error *xla::handle(CallFrame *frame) {
  if (frame->extensions && frame->extensions->type == MetadataExtensionType) {
    Metadata &metadata = *reinterpret_cast<MetadataExtension *>(frame->extensions)->metadata;
    metadata.version.major = majorVersion;
    // Of the running XLA: what is used has not changed since version 0.1.
    bool isKnown = frame->api && frame->api->version.major == majorVersion;
    metadata.version.minor = isKnown ? frame->api->version.minor : minorVersion;
    // A run only launches, with the same arguments each time.
    metadata.traits = CommandBufferCompatible;
    return nullptr;
  }
  if (frame->stage != Execute)
    return nullptr;
  Failure failure{Unknown, ""};
  Error *ownError = nullptr;
  try {
    if (execute(*frame, failure, ownError))
      return nullptr;
  } catch (...) { // only if memory is exhausted
    failure = {ResourceExhausted, ""};
  }
  if (ownError)
    return ownError;
  ErrorCreateArguments arguments = {sizeof(ErrorCreateArguments), nullptr, failure.message.c_str(),
                                    failure.code};
  return frame->api->createError(&arguments);
}
