// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A GPU as a processor, with a library in place of the driver, Inputs/fake-cuda.cpp.

#include "DistributedTesting.h"
#include "RuntimeAttentionBundle.h"
#include "RuntimeTesting.h"

#include "runtime/Distributed/CudaProcessor.h"

#include <dlfcn.h>

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

namespace {

class DistributedCuda : public ::testing::Test {
protected:
  void SetUp() override {
    library = dlopen(besideProgram({"lib/libfake-cuda.so"}).c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_TRUE(library) << dlerror();
    auto loaded = DriverTable::load(
        [&](const char *symbol, int) -> void * { return dlsym(library, symbol); });
    ASSERT_TRUE(loaded.ok()) << loaded.message();
    driver = *loaded;
    reinterpret_cast<void (*)()>(dlsym(library, "fakeCudaReset"))();
  }
  void TearDown() override { unsetenv("FAKE_CUDA_FAIL"); }

  std::string log(int device) const {
    return reinterpret_cast<const char *(*)(int)>(dlsym(library, "fakeCudaLog"))(device);
  }
  std::unique_ptr<Processor> make(CudaProcessorDesc desc = {}) const {
    auto processor = makeCudaProcessor(driver, desc);
    EXPECT_TRUE(processor.ok()) << processor.message();
    return processor ? std::move(*processor) : nullptr;
  }

  void *library = nullptr;
  DriverTable driver;
};

/// A forward of SHARD, as the compiler lists its arguments.
std::shared_ptr<const Bundle> shardBundle() {
  BundleWriter writer;
  writer.addPtx(".version 8.0\n.entry first() .entry last()");
  writer.manifest.source = "kernels/attention_forward.mlir";
  for (bool isContinued : {false, true}) {
    Params params = forwardParams(false, false, false, 0);
    params.emplace_back("SHARD", Expr::flag(true));
    params.emplace_back("CONTINUED", Expr::flag(isContinued));
    std::vector<ArgumentSpec> specs = forwardSpecs({});
    specs.push_back(ArgumentSpec::scalar("first_row", ElementType::I32));
    writer.manifest.kernels.push_back(
        attentionKernel("attention_forward", isContinued ? "last" : "first", 32, params, specs));
  }
  return read(writer);
}

TEST_F(DistributedCuda, QueuesAreStreamsOfTheDevice) {
  CudaProcessorDesc desc;
  desc.device = 2;
  std::unique_ptr<Processor> processor = make(desc);
  ASSERT_TRUE(processor);
  EXPECT_NE(processor->stream(Queue::Compute), processor->stream(Queue::Exchange));
  EXPECT_TRUE(processor->kernelsDelayMessages());
  ASSERT_TRUE(processor->order(Queue::Compute, Queue::Exchange));
  ASSERT_TRUE(processor->order(Queue::Exchange, Queue::Compute));
  processor.reset();
  EXPECT_EQ(log(2), "stream;stream;event;record on 1;wait on 2;record on 2;wait on 1;no event;"
                    "no stream;no stream;");
  // Streams of the caller stay.
  desc.compute = reinterpret_cast<cuda::Stream>(uintptr_t(0x105));
  desc.exchange = reinterpret_cast<cuda::Stream>(uintptr_t(0x106));
  desc.device = 0;
  EXPECT_EQ(make(desc)->stream(Queue::Exchange), desc.exchange);
  EXPECT_EQ(log(0), "event;no event;");
}

TEST_F(DistributedCuda, CopiesRows) {
  std::unique_ptr<Processor> processor = make();
  ASSERT_TRUE(processor);
  auto memory = ProcessorMemory::allocate(*processor, 4096);
  ASSERT_TRUE(memory.ok());
  std::vector<float> numbers(24), got(24);
  for (size_t i = 0; i < 24; ++i)
    numbers[i] = float(i);
  ASSERT_TRUE(processor->upload(memory->get(), numbers.data(), 96));
  // Rows 1 and 2 of each of two heads of three rows, to an array of their own.
  const Argument whole = Argument::dense(memory->get(), ElementType::F32, {1, 2, 3, 4});
  const Argument part = Argument::dense(memory->get() + 1024, ElementType::F32, {1, 2, 2, 4});
  ASSERT_TRUE(copyView(*processor, part, rowsOfView(whole, 1, 3), Queue::Exchange));
  ASSERT_TRUE(processor->download(got.data(), memory->get() + 1024, 64));
  EXPECT_EQ(std::vector<float>(got.begin(), got.begin() + 16),
            (std::vector<float>{4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23}));
  // Heads inside of rows: a copy for each row.
  const int64_t extents[] = {1, 2, 2, 4}, strides[] = {16, 4, 8, 1};
  const Argument inside =
      Argument::view(memory->get() + 2048, ElementType::F32, 4, extents, strides);
  ASSERT_TRUE(copyView(*processor, inside, part, Queue::Compute));
  ASSERT_TRUE(processor->download(got.data(), memory->get() + 2048, 64));
  EXPECT_EQ(std::vector<float>(got.begin(), got.begin() + 16),
            (std::vector<float>{4, 5, 6, 7, 16, 17, 18, 19, 8, 9, 10, 11, 20, 21, 22, 23}));
  // One row, and a pitch that two-dimensional copies do not have.
  ASSERT_TRUE(
      copyView(*processor, rowsOfView(part, 0, 1), rowsOfView(whole, 2, 3), Queue::Exchange));
  ASSERT_TRUE(processor->copyRows(memory->get(), uint64_t(1) << 31, memory->get() + 64, 64, 16, 1,
                                  Queue::Compute));
  ASSERT_TRUE(copyView(*processor, rowsOfView(part, 0, 0), rowsOfView(whole, 0, 0),
                       Queue::Exchange)); // nothing
  EXPECT_EQ(log(0), "stream;stream;event;allocate;upload 96 on 1;copy 2 rows of 32 on 2;"
                    "download 64 on 1;copy 2 rows of 16 on 1;copy 2 rows of 16 on 1;"
                    "download 64 on 1;copy 2 rows of 16 on 2;copy 16 on 1;");
}

TEST_F(DistributedCuda, KernelsOfTheFirstBundleThatHasThem) {
  CudaProcessorDesc desc;
  desc.bundles = {read(featureBundle()), shardBundle()};
  std::unique_ptr<Processor> processor = make(desc);
  ASSERT_TRUE(processor);
  AttentionDesc attention;
  attention.headDim = 64;
  attention.more = {{"SHARD", Expr::flag(true)}, {"CONTINUED", Expr::flag(true)}};
  auto kernel = processor->load(attention);
  ASSERT_TRUE(kernel.ok()) << kernel.message();
  EXPECT_TRUE((*kernel)->takes("first_row"));
  EXPECT_FALSE((*kernel)->takes("softcap"));
  const Argument q = Argument::dense(0x10000, ElementType::BF16, {1, 2, 8, 64});
  NamedArguments arguments = {{"q", q},
                              {"k", q},
                              {"v", q},
                              {"o", q, true},
                              {"scale", Argument::scalar(0.125)},
                              {"first_row", Argument::scalar(int32_t(8))}};
  Status status = (*kernel)->run(arguments);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(log(0), "stream;stream;event;launch on 1;");
  arguments.push_back({"softcap", Argument::scalar(1.0f)});
  EXPECT_EQ((*kernel)->run(arguments).message(),
            "the arguments of the call must be those of attention_forward "
            "D=64,DV=64,T=bf16,CONTINUED=true,SHARD=true, but got 'softcap'");

  attention.headDim = 32;
  EXPECT_EQ(processor->load(attention).status().code(), Code::MissingVariant);
  EXPECT_NE(processor->load("attention_merge", {})
                .message()
                .find("has no kernel or program 'attention_merge'"),
            std::string::npos);
  EXPECT_EQ(make()->load("attention_merge", {}).message(),
            "a bundle must have 'attention_merge', but got no bundle");
}

TEST_F(DistributedCuda, ErrorsOfTheDriver) {
  DriverTable old = driver;
  old.cuStreamWaitEvent = nullptr;
  EXPECT_EQ(makeCudaProcessor(old, {}).message(),
            "the CUDA driver must have functions for memory, streams and events; 11.2 is the "
            "oldest that works");
  EXPECT_EQ(makeCudaProcessor(DriverTable(), {}).status().code(), Code::NoDriver);
  struct Case {
    const char *function, *text;
    std::function<Status(Processor &)> call;
  };
  const Queue compute = Queue::Compute, exchange = Queue::Exchange;
  for (const Case &test : std::vector<Case>{
           {"cuMemAlloc", "cannot allocate 64 bytes: cuMemAlloc returned",
            [](Processor &processor) { return ProcessorMemory::allocate(processor, 64).status(); }},
           {"cuEventRecord", "cannot order two streams: cuEventRecord returned",
            [&](Processor &processor) { return processor.order(compute, exchange); }},
           {"cuStreamWaitEvent", "cannot order two streams: cuStreamWaitEvent returned",
            [&](Processor &processor) { return processor.order(compute, exchange); }},
           {"cuMemcpy2DAsync", "cannot copy rows: cuMemcpy2DAsync returned",
            [&](Processor &processor) { return processor.copyRows(0, 8, 0, 8, 0, 2, compute); }},
           {"cuMemcpyDtoDAsync", "cannot copy rows: cuMemcpyDtoDAsync returned",
            [&](Processor &processor) { return processor.copyRows(0, 8, 0, 8, 0, 1, compute); }},
           {"cuMemcpyHtoDAsync", "cannot copy to the device: cuMemcpyHtoDAsync returned",
            [](Processor &processor) {
              int number = 0;
              return processor.upload(reinterpret_cast<uint64_t>(&number), &number, 4);
            }},
           {"cuMemcpyDtoHAsync", "cannot copy from the device: cuMemcpyDtoHAsync returned",
            [](Processor &processor) {
              int number = 0;
              return processor.download(&number, reinterpret_cast<uint64_t>(&number), 4);
            }}}) {
    unsetenv("FAKE_CUDA_FAIL");
    std::unique_ptr<Processor> processor = make();
    setenv("FAKE_CUDA_FAIL", test.function, 1);
    EXPECT_EQ(test.call(*processor).message().substr(0, std::strlen(test.text)), test.text);
  }
  setenv("FAKE_CUDA_FAIL", "cuStreamCreate", 1);
  EXPECT_EQ(makeCudaProcessor(driver, {})
                .message()
                .find("cannot create a stream: cuStreamCreate returned"),
            0u);
  setenv("FAKE_CUDA_FAIL", "cuEventCreate", 1);
  EXPECT_EQ(makeCudaProcessor(driver, {})
                .message()
                .find("cannot create an event: cuEventCreate returned"),
            0u);
}

} // namespace
