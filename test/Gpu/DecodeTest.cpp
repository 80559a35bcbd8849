// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan of decoding on a GPU: the same bits as its kernel by name, for pages that different code
// serves, and a graph whose lengths change.

#include "test/Gpu/GpuTesting.h"

#include "runtime/AttentionDecode.h"

#include <cstring>

using namespace tilewright;
using namespace tilewright::gputest;

namespace {

class DecodeGpu : public GpuTest {};

TEST_F(DecodeGpu, PlanHasTheBitsOfTheOperation) {
  constexpr int64_t B = 3, heads = 8, keyHeads = 2, D = 64, rows = 16, columns = 5;
  constexpr int64_t pages = B * columns;
  std::string entry;
  std::shared_ptr<const runtime::Bundle> bundle =
      compileBundle("attention_decode",
                    {{"D", "64"}, {"T", "bf16"}, {"GROUP", "4"}, {"PAGE_ROWS", "16"}}, &entry);
  ASSERT_TRUE(bundle);
  Memory q(*device, B * heads * D * 2), k(*device, pages * rows * keyHeads * D * 2),
      v(*device, pages * rows * keyHeads * D * 2), o(*device, B * heads * D * 2),
      lse(*device, B * heads * 4), table(*device, pages * 4), lengths(*device, B * 4);
  q.write(0, normal(B * heads * D, 1));
  k.write(0, normal(pages * rows * keyHeads * D, 2));
  v.write(0, normal(pages * rows * keyHeads * D, 3));
  auto write = [](Memory &memory, const std::vector<int32_t> &values) {
    std::vector<uint8_t> bytes(values.size() * sizeof(int32_t));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    memory.write(0, bytes);
  };
  std::vector<int32_t> order;
  for (int32_t page = 0; page < pages; ++page)
    order.push_back(page * 7 % int32_t(pages));
  write(table, order);

  runtime::AttentionDecodeArguments arguments;
  arguments.q = runtime::Argument::dense(q.address(), type, {B, 1, heads, D});
  arguments.o = runtime::Argument::dense(o.address(), type, {B, 1, heads, D});
  arguments.lse = runtime::Argument::dense(lse.address(), ElementType::F32, {B, heads, 1});
  arguments.cache.k = runtime::Argument::dense(k.address(), type, {pages, rows, keyHeads, D});
  arguments.cache.v = runtime::Argument::dense(v.address(), type, {pages, rows, keyHeads, D});
  arguments.cache.blockTable =
      runtime::Argument::dense(table.address(), ElementType::I32, {B, columns});
  arguments.cache.seqLens = runtime::Argument::dense(lengths.address(), ElementType::I32, {B});
  arguments.scale = 0.125;
  runtime::AttentionDecodeDesc desc;
  desc.type = type;
  desc.headDim = D;
  desc.group = heads / keyHeads;
  Result<runtime::AttentionDecode> plan = runtime::AttentionDecode::create(driver(), bundle, desc);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  Status status = plan->prepare(0);
  ASSERT_TRUE(status.ok()) << status.message();
  uint64_t bytes = 0;
  ASSERT_TRUE(plan->workspaceSize(arguments, 0, bytes).ok());
  Memory workspace(*device, std::max<uint64_t>(bytes, 256));
  cuda::Stream stream = createStream(1);

  Result<runtime::Operation> operation =
      runtime::Operation::create(driver(), bundle, "attention_decode");
  ASSERT_TRUE(operation.ok()) << operation.status().message();
  ASSERT_TRUE(operation->prepare(0).ok());
  runtime::Argument flatQ = runtime::Argument::dense(q.address(), type, {B, heads, 1, D}),
                    flatO = runtime::Argument::dense(o.address(), type, {B, heads, 1, D}),
                    scale = runtime::Argument::scalar(0.125f),
                    open = runtime::Argument::scalar(int32_t(-1));
  std::vector<const runtime::Argument *> byName;
  for (const runtime::ArgumentSpec &spec : operation->arguments())
    byName.push_back(spec.name == "q"             ? &flatQ
                     : spec.name == "k_pages"     ? &arguments.cache.k
                     : spec.name == "v_pages"     ? &arguments.cache.v
                     : spec.name == "o"           ? &flatO
                     : spec.name == "lse"         ? &arguments.lse
                     : spec.name == "block_table" ? &arguments.cache.blockTable
                     : spec.name == "seq_lens"    ? &arguments.cache.seqLens
                     : spec.name == "scale"       ? &scale
                                                  : &open);

  cuda::GraphExec graph =
      capture(stream, [&] { return plan->run(arguments, workspace.address(), bytes, stream); });
  if (!graph)
    return;
  std::vector<std::vector<uint8_t>> results;
  for (const std::vector<int32_t> &given :
       {std::vector<int32_t>{1, 80, 33}, {0, 16, 79}, {17, 0, 80}}) {
    write(lengths, given);
    o.poison();
    lse.poison();
    ASSERT_EQ(driver().cuGraphLaunch(graph, stream), cuda::Success);
    wait(stream);
    std::vector<uint8_t> fromPlan = o.read(0, B * heads * D * 2);
    std::vector<uint8_t> lseFromPlan = lse.read(0, B * heads * 4);
    o.poison();
    lse.poison();
    status = operation->run(byName.data(), byName.size(), workspace.address(), bytes, stream);
    ASSERT_TRUE(status.ok()) << status.message();
    wait(stream);
    EXPECT_EQ(fromPlan, o.read(0, B * heads * D * 2));
    EXPECT_EQ(lseFromPlan, lse.read(0, B * heads * 4));
    results.push_back(fromPlan);
  }
  EXPECT_NE(results[0], results[1]);
  EXPECT_NE(results[1], results[2]);
  driver().cuGraphExecDestroy(graph);
}

} // namespace
