// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plans of attention and their calls, through the C interface.

#ifndef TILEWRIGHT_TEST_UNIT_RUNTIMEATTENTIONTESTING_H
#define TILEWRIGHT_TEST_UNIT_RUNTIMEATTENTIONTESTING_H

#include "RuntimeAttentionBundle.h"
#include "RuntimePlanTesting.h"

#include "runtime/AttentionDecode.h"

namespace tilewright::runtime::testing {

/// Arguments by name, with the storage of their views and scalars.
class Call {
public:
  Call &view(const char *name, tilewright_type type, std::vector<int64_t> extents) {
    remove(name);
    Item &item = add(name);
    item.extents = std::move(extents);
    item.view = {sizeof(item.view),
                 reinterpret_cast<void *>(0x10000 * items.size()),
                 type,
                 uint32_t(item.extents.size()),
                 item.extents.data(),
                 nullptr};
    item.argument.view = &item.view;
    return *this;
  }
  template <typename T> Call &scalar(const char *name, tilewright_type type, T value) {
    remove(name);
    Item &item = add(name);
    std::memcpy(item.scalar, &value, sizeof(value));
    item.argument.scalar = item.scalar;
    item.argument.scalar_type = type;
    return *this;
  }
  Call &remove(const char *name) {
    for (size_t i = 0; i < items.size(); ++i)
      if (!std::strcmp(items[i]->argument.name, name))
        items.erase(items.begin() + long(i));
    return *this;
  }
  const tilewright_argument *data() {
    list.clear();
    for (const auto &item : items)
      list.push_back(item->argument);
    return list.data();
  }
  size_t size() const { return items.size(); }

private:
  struct Item {
    tilewright_argument argument;
    tilewright_view view;
    std::vector<int64_t> extents;
    char scalar[8];
  };
  Item &add(const char *name) {
    items.push_back(std::make_shared<Item>());
    items.back()->argument = {sizeof(tilewright_argument), name, nullptr, nullptr, TILEWRIGHT_F32};
    return *items.back();
  }
  std::vector<std::shared_ptr<Item>> items;
  std::vector<tilewright_argument> list;
};

inline Call forwardCall(int64_t batch = 2, int64_t rows = 300) {
  Call call;
  call.view("q", TILEWRIGHT_BF16, {batch, 8, rows, 64})
      .view("k", TILEWRIGHT_BF16, {batch, 2, 500, 64})
      .view("v", TILEWRIGHT_BF16, {batch, 2, 500, 64})
      .view("o", TILEWRIGHT_BF16, {batch, 8, rows, 64})
      .scalar("scale", TILEWRIGHT_F32, 0.125f);
  return call;
}

/// Of attention_forward with a cache.
inline Call cachedCall(int64_t rows, bool hasTable) {
  Call call = forwardCall(3);
  call.view("k", TILEWRIGHT_BF16, {hasTable ? 9 : 3, rows, 2, 64})
      .view("v", TILEWRIGHT_BF16, {hasTable ? 9 : 3, rows, 2, 64})
      .view("seq_lens", TILEWRIGHT_I32, {3});
  if (hasTable)
    call.view("block_table", TILEWRIGHT_I32, {3, 4});
  return call;
}

class AttentionPlans
    : public PlanTest<tilewright_attention, tilewright_attention_desc, tilewright_attention_create,
                      tilewright_attention_prepare, tilewright_attention_destroy> {
protected:
  void SetUp() override {
    PlanTest::SetUp();
    load(featureBundle());
    desc.struct_size = sizeof(desc);
    desc.type = TILEWRIGHT_BF16;
    desc.head_dim = 64;
  }
  tilewright_code run(Call &call) {
    uint64_t bytes = 0;
    tilewright_code code =
        tilewright_attention_workspace_size(plan, call.data(), call.size(), 0, &bytes);
    return code ? code
                : tilewright_attention_run(plan, call.data(), call.size(),
                                           reinterpret_cast<void *>(0x1000000), bytes, streamOf(0));
  }
  /// The entry that a run launched, which is told by its threads.
  unsigned launched(Call &call) {
    fake().launches.clear();
    EXPECT_EQ(run(call), TILEWRIGHT_OK) << tilewright_last_error();
    return fake().launches.empty() ? 0 : fake().launches[0].block[0];
  }
  std::string names() {
    std::string text;
    for (size_t i = 0; i < tilewright_attention_num_arguments(plan); ++i)
      text += (i ? " " : "") + std::string(tilewright_attention_argument_name(plan, i));
    return text;
  }
  std::string signature() {
    const char *text = nullptr;
    tilewright_code code = tilewright_attention_signature(&desc, &text);
    return code ? tilewright_last_error() : text;
  }
  std::string params() {
    const char *text = nullptr;
    tilewright_code code = tilewright_attention_params(&desc, &text);
    return code ? tilewright_last_error() : text;
  }
};

} // namespace tilewright::runtime::testing

#endif // TILEWRIGHT_TEST_UNIT_RUNTIMEATTENTIONTESTING_H
