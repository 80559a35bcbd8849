// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calls from XLA, with frames as XLA fills them.

#include "runtime/Argument.h"
#include "runtime/XlaHandler.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>

using namespace tilewright::runtime;

namespace {

/// What a run got.
struct Launch {
  struct Value {
    std::string name;
    std::vector<int64_t> extents, strides;
    void *data = nullptr;
    tilewright_type type;
    uint64_t bits = 0; // of a scalar
  };
  std::vector<Value> values;
  void *workspace, *stream;
  uint64_t workspaceBytes;
};

struct CreatedError {
  std::string message;
  xla::ErrorCode code;
};
CreatedError created;
xla::Error *const anError = reinterpret_cast<xla::Error *>(uintptr_t(0x77));
void *const someStream = reinterpret_cast<void *>(uintptr_t(0x1234));

class XlaCalls : public ::testing::Test {
protected:
  XlaCalls() {
    api.version = {sizeof(xla::ApiVersion), nullptr, 0, 2};
    api.createError = [](xla::ErrorCreateArguments *arguments) {
      created = {arguments->message, arguments->code};
      return anError;
    };
    api.getStream = [](xla::StreamGetArguments *arguments) -> xla::Error * {
      arguments->stream = someStream;
      return nullptr;
    };
    frame.api = &api;
    frame.stage = xla::Execute;
    created = {};
  }

  void add(bool isResult, xla::DataType type, std::vector<int64_t> extents, uintptr_t address) {
    shapes.push_back(std::move(extents));
    buffers.push_back({sizeof(xla::Buffer), nullptr, type, reinterpret_cast<void *>(address),
                       int64_t(shapes.back().size()), shapes.back().data()});
    (isResult ? results : operands).push_back(&buffers.back());
  }

  /// Calls the handler with the buffers that were added and the key.
  bool call(const std::string &key, const char *attribute = "call") {
    std::vector<xla::ValueType> types(operands.size() + results.size(), valueType);
    frame.arguments = {sizeof(xla::Values), nullptr, int64_t(operands.size()), types.data(),
                       operands.data()};
    frame.results = {sizeof(xla::Values), nullptr, int64_t(results.size()), types.data(),
                     results.data()};
    xla::ByteSpan name = {attribute, std::strlen(attribute)}, text = {key.data(), key.size()};
    xla::ByteSpan *names[] = {&name};
    void *texts[] = {&text};
    xla::AttributeType kinds[] = {xla::StringAttribute};
    frame.attributes = {sizeof(xla::Attributes), nullptr, 1, kinds, names, texts};
    return xla::handle(&frame) == nullptr;
  }

  /// A call that records its run and returns `code`.
  xla::Call recording(tilewright_code code = TILEWRIGHT_OK) {
    xla::Call call;
    call.run = [this, code](const tilewright_argument *arguments, size_t numArguments,
                            void *workspace, uint64_t bytes, void *stream) {
      runs.push_back({{}, workspace, stream, bytes});
      for (size_t i = 0; i < numArguments; ++i) {
        Launch::Value value;
        value.name = arguments[i].name;
        if (const tilewright_view *view = arguments[i].view) {
          value.extents.assign(view->extents, view->extents + view->rank);
          value.strides.assign(view->strides, view->strides + view->rank);
          value.data = view->data;
          value.type = view->type;
        } else {
          value.type = arguments[i].scalar_type;
          std::memcpy(&value.bits, arguments[i].scalar, 8);
        }
        runs.back().values.push_back(value);
      }
      return code;
    };
    return call;
  }

  xla::ValueType valueType = xla::BufferType;
  xla::Api api = {};
  xla::CallFrame frame = {};
  std::deque<std::vector<int64_t>> shapes;
  std::deque<xla::Buffer> buffers;
  std::vector<void *> operands, results;
  std::vector<Launch> runs;
};

TEST_F(XlaCalls, PassBuffersByName) {
  xla::Call call = recording();
  call.operands = {{"q", {0, 2, 1, 3}}, {"seed", {}, true}, {"o", {0, 2, 1, 3}}};
  call.scalars = {{"window", TILEWRIGHT_I32, 7}};
  call.hasWorkspace = true;
  xla::registerCall("PassBuffersByName", call);
  add(false, xla::BF16, {2, 5, 3, 64}, 0x100);
  add(false, xla::U32, {2}, 0x200);
  add(true, xla::BF16, {2, 5, 3, 64}, 0x300);
  add(true, xla::Pred, {1000}, 0x400);
  ASSERT_TRUE(this->call("PassBuffersByName")) << created.message;
  ASSERT_EQ(runs.size(), 1u);
  const Launch &run = runs[0];
  ASSERT_EQ(run.values.size(), 4u);
  EXPECT_EQ(run.values[0].name, "q");
  EXPECT_EQ(run.values[0].type, TILEWRIGHT_BF16);
  EXPECT_EQ(run.values[0].extents, (std::vector<int64_t>{2, 3, 5, 64}));
  EXPECT_EQ(run.values[0].strides, (std::vector<int64_t>{5 * 3 * 64, 64, 3 * 64, 1}));
  EXPECT_EQ(run.values[0].data, reinterpret_cast<void *>(uintptr_t(0x100)));
  EXPECT_EQ(run.values[1].name, "seed");
  EXPECT_EQ(run.values[1].type, TILEWRIGHT_I64);
  EXPECT_EQ(run.values[1].extents, (std::vector<int64_t>{1}));
  EXPECT_EQ(run.values[2].data, reinterpret_cast<void *>(uintptr_t(0x300)));
  EXPECT_EQ(run.values[3].name, "window");
  EXPECT_EQ(run.values[3].bits, 7u);
  EXPECT_EQ(run.workspace, reinterpret_cast<void *>(uintptr_t(0x400)));
  EXPECT_EQ(run.workspaceBytes, 1000u);
  EXPECT_EQ(run.stream, someStream);
}

TEST_F(XlaCalls, AreFoundByTheirLatestRegistration) {
  xla::registerCall("Latest", recording(TILEWRIGHT_DRIVER));
  xla::registerCall("Latest", recording());
  EXPECT_TRUE(call("Latest"));
  EXPECT_EQ(runs.size(), 1u);
}

TEST_F(XlaCalls, AreOnlyExecutedInThatStage) {
  xla::registerCall("Stage", recording());
  for (int stage : {0, 1, 2}) {
    frame.stage = xla::Stage(stage);
    EXPECT_TRUE(call("Stage"));
  }
  EXPECT_TRUE(runs.empty());
}

TEST_F(XlaCalls, SayWhatTheHandlerIs) {
  xla::Metadata metadata = {sizeof(xla::Metadata), {sizeof(xla::ApiVersion), nullptr, -1, -1}, 0};
  xla::MetadataExtension extension = {
      {sizeof(xla::MetadataExtension), xla::MetadataExtensionType, nullptr}, &metadata};
  frame.extensions = &extension.base;
  EXPECT_EQ(xla::handle(&frame), nullptr);
  EXPECT_EQ(metadata.version.major, 0);
  EXPECT_EQ(metadata.version.minor, 2) << "that of the running XLA";
  EXPECT_EQ(metadata.traits, uint32_t(xla::CommandBufferCompatible));
  frame.api = nullptr;
  EXPECT_EQ(xla::handle(&frame), nullptr);
  EXPECT_EQ(metadata.version.minor, xla::minorVersion);
}

TEST_F(XlaCalls, FailWithoutAKey) {
  EXPECT_FALSE(call("x", "other"));
  EXPECT_EQ(created.message,
            "a call of Tilewright must have an attribute 'call', a string, but got none");
  EXPECT_EQ(created.code, xla::InvalidArgument);
  EXPECT_FALSE(call("unknown key"));
  EXPECT_EQ(created.message, "the call 'unknown key' must be registered in this process, but is "
                             "not; trace the function in it before it is executed");
  EXPECT_EQ(created.code, xla::NotFound);
}

TEST_F(XlaCalls, FailForOtherBuffers) {
  xla::Call call = recording();
  call.operands = {{"x", {1, 0}}};
  xla::registerCall("Buffers", call);
  EXPECT_FALSE(this->call("Buffers"));
  EXPECT_EQ(created.message, "the call 'Buffers' must have 1 buffers, but got 0");
  auto expectFailure = [&](xla::DataType type, std::vector<int64_t> extents, const char *text) {
    operands.clear();
    add(false, type, std::move(extents), 0x100);
    EXPECT_FALSE(this->call("Buffers"));
    EXPECT_EQ(created.message, std::string("the buffer of argument 'x' ") + text);
  };
  expectFailure(xla::F32, {2, 3, 4}, "has rank 3, but the call has an order of 2 dimensions");
  expectFailure(xla::F32, std::vector<int64_t>(9, 1), "has rank 9; the limit is 8");
  expectFailure(xla::U32, {2, 3}, "has type 8 of XLA, which no kernel takes; convert it");
  call.operands = {{"x", {0, 5}}};
  xla::registerCall("Buffers", call);
  expectFailure(
      xla::F32, {2, 3},
      "must have each dimension of the order of the call, but has rank 2 and no dimension 5");
  valueType = xla::ValueType(2);
  EXPECT_FALSE(this->call("Buffers"));
  EXPECT_EQ(created.message, "operands and results must be buffers, but got kind 2 of XLA at 0");
  valueType = xla::BufferType;
  call.operands = {{"x", {}, true}};
  xla::registerCall("Buffers", call);
  expectFailure(xla::U32, {3},
                "must have an even number of u32 in a row, the halves of i64, but got 3");
  EXPECT_TRUE(runs.empty());
}

TEST_F(XlaCalls, PassTheCodeOfAFailure) {
  for (auto [code, wanted] : {std::pair{TILEWRIGHT_NOT_PREPARED, xla::FailedPrecondition},
                              {TILEWRIGHT_UNSUPPORTED, xla::Unimplemented},
                              {TILEWRIGHT_INVALID_ARGUMENT, xla::InvalidArgument},
                              {TILEWRIGHT_NO_DRIVER, xla::Unavailable},
                              {TILEWRIGHT_OUT_OF_MEMORY, xla::ResourceExhausted},
                              {TILEWRIGHT_DRIVER, xla::Internal}}) {
    xla::registerCall("Code", recording(code));
    EXPECT_FALSE(call("Code"));
    EXPECT_EQ(created.code, wanted);
  }
}

TEST_F(XlaCalls, PassAnErrorOfTheStream) {
  api.getStream = [](xla::StreamGetArguments *) { return anError; };
  xla::registerCall("Stream", recording());
  EXPECT_FALSE(call("Stream"));
  EXPECT_EQ(created.message, "");
  EXPECT_TRUE(runs.empty());
}

TEST(XlaRegister, ChecksWhatItGets) {
  auto expectFailure = [](const tilewright_xla_call *call, const char *text) {
    EXPECT_EQ(tilewright_xla_register("key", call), TILEWRIGHT_INVALID_ARGUMENT);
    EXPECT_STREQ(tilewright_last_error(), text);
  };
  expectFailure(nullptr, "call must be a valid pointer, but got null");
  tilewright_xla_call call = {};
  call.struct_size = sizeof(call);
  expectFailure(&call, "a call must have either an operation or a plan of attention, but got none");
  call.operation = reinterpret_cast<const tilewright_operation *>(uintptr_t(0x10));
  call.num_buffers = 1;
  expectFailure(&call, "buffers must be a valid pointer, but got null");
  const uint32_t order[] = {0, 0};
  tilewright_xla_buffer buffer = {sizeof(buffer), "x", order, 2, 0};
  call.buffers = &buffer;
  expectFailure(&call, "order of buffer 'x' must have each of its 2 dimensions, of at most 8, "
                       "once, but got 0 twice");
  buffer.order = nullptr;
  tilewright_argument scalar = {sizeof(scalar), "n", nullptr, nullptr, TILEWRIGHT_I32};
  call.scalars = &scalar;
  call.num_scalars = 1;
  expectFailure(&call, "the value of scalar 'n' must be a valid pointer, but got null");
  const int32_t value = 1;
  const tilewright_view view = {sizeof(view), nullptr, TILEWRIGHT_I32, 0, nullptr, nullptr};
  scalar.scalar = &value;
  scalar.view = &view;
  expectFailure(&call, "view of scalar 'n' must be null, but got a view; pass it as a buffer");
}

} // namespace
