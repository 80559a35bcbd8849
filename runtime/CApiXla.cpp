// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The C interface of calls from XLA.

#include "base/Numeric/ElementType.h"
#include "runtime/CApiSupport.h"
#include "runtime/XlaHandler.h"

#include <cstring>

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::capi;

static Status toOperand(const tilewright_xla_buffer &given, xla::Call::Operand &operand) {
  if (Status status = expectSize(given, "tilewright_xla_buffer"); !status)
    return status;
  if (Status status = expectPointer(given.name, "name of a buffer"); !status)
    return status;
  if (Status status = expectFlag(given.is_pairs, "is_pairs"); !status)
    return status;
  operand.name = given.name;
  operand.isPairs = given.is_pairs != 0;
  if (given.order)
    operand.order.assign(given.order, given.order + given.rank);
  uint64_t seen = 0;
  for (unsigned dim : operand.order) {
    if (dim >= operand.order.size() || operand.order.size() > maxRank || (seen >> dim & 1))
      return Status::failure("order of buffer '" + operand.name + "' must have each of its " +
                             std::to_string(operand.order.size()) + " dimensions, of at most 8, " +
                             "once, but got " + std::to_string(dim) +
                             (dim < operand.order.size() && (seen >> dim & 1) ? " twice" : ""));
    seen |= uint64_t(1) << dim;
  }
  return Status::success();
}

static Status toScalar(const tilewright_argument &given, xla::Call::Scalar &scalar) {
  if (Status status = expectSize(given, "tilewright_argument"); !status)
    return status;
  if (Status status = expectPointer(given.name, "the name of a scalar"); !status)
    return status;
  if (!given.scalar)
    return nullPointer("the value of scalar '" + std::string(given.name) + "'");
  if (given.view)
    return Status::failure("view of scalar '" + std::string(given.name) +
                           "' must be null, but got a view; pass it as a buffer");
  if (Status status = expectType(given.scalar_type, given.name); !status)
    return status;
  scalar = {given.name, given.scalar_type, 0};
  std::memcpy(&scalar.bits, given.scalar, byteWidth(ElementType(given.scalar_type)));
  return Status::success();
}

tilewright_code tilewright_xla_register(const char *key, const tilewright_xla_call *call) {
  return guard([&]() -> Status {
    if (Status status = expectPointers({{"key", key}, {"call", call}}); !status)
      return status;
    if (Status status = expectSize(*call, "tilewright_xla_call"); !status)
      return status;
    if (!call->operation == !call->attention)
      return Status::failure(std::string("a call must have either an operation or a plan of "
                                         "attention, but got ") +
                             (call->operation ? "both" : "none"));
    if (call->num_buffers && !call->buffers)
      return nullPointer("buffers");
    if (call->num_scalars && !call->scalars)
      return nullPointer("scalars");
    if (Status status = expectFlag(call->has_workspace, "has_workspace"); !status)
      return status;
    xla::Call result;
    result.hasWorkspace = call->has_workspace != 0;
    result.operands.resize(call->num_buffers);
    for (size_t i = 0; i < call->num_buffers; ++i)
      if (Status status = toOperand(elementAt(call->buffers, i), result.operands[i]); !status)
        return status;
    result.scalars.resize(call->num_scalars);
    for (size_t i = 0; i < call->num_scalars; ++i)
      if (Status status = toScalar(elementAt(call->scalars, i), result.scalars[i]); !status)
        return status;
    result.run = [operation = call->operation, attention = call->attention](
                     const tilewright_argument *arguments, size_t numArguments, void *workspace,
                     uint64_t workspaceBytes, void *stream) {
      return operation ? tilewright_operation_run(operation, arguments, numArguments, workspace,
                                                  workspaceBytes, stream)
                       : tilewright_attention_run(attention, arguments, numArguments, workspace,
                                                  workspaceBytes, stream);
    };
    xla::registerCall(key, std::move(result));
    return Status::success();
  });
}

void *tilewright_xla_handler(void *call_frame) {
  return xla::handle(static_cast<xla::CallFrame *>(call_frame));
}
