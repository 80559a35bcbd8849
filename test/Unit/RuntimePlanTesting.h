// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bundles and plans of the C interface on the driver that records calls.

#ifndef TILEWRIGHT_TEST_UNIT_RUNTIMEPLANTESTING_H
#define TILEWRIGHT_TEST_UNIT_RUNTIMEPLANTESTING_H

#include "RuntimeTesting.h"

#include "runtime/CApiTesting.h"
#include "runtime/tilewright.h"

namespace tilewright::runtime::testing {

inline constexpr tilewright_code invalid = TILEWRIGHT_INVALID_ARGUMENT;

/// A bundle that was loaded through the C interface.
class LoadedBundleTest : public RuntimeTest {
protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    setDriverForTesting(&driver);
  }
  void TearDown() override {
    tilewright_bundle_close(bundle);
    setDriverForTesting(nullptr);
  }
  void load(const BundleWriter &writer) {
    tilewright_bundle_close(bundle);
    bundle = nullptr;
    Result<std::string> bytes = writer.bytes();
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    ASSERT_EQ(tilewright_bundle_load(bytes->data(), bytes->size(), &bundle), TILEWRIGHT_OK);
  }
  static tilewright_view viewOf(uintptr_t address, tilewright_type type, uint32_t rank,
                                const int64_t *extents, const int64_t *strides = nullptr) {
    return {
        sizeof(tilewright_view), reinterpret_cast<void *>(address), type, rank, extents, strides};
  }

  tilewright_bundle *bundle = nullptr;
};

/// A plan that the functions of the C interface for one description make.
template <typename Plan, typename Desc, auto createFunction, auto prepareFunction,
          auto destroyFunction>
class PlanTest : public LoadedBundleTest {
protected:
  void TearDown() override {
    destroyFunction(plan);
    LoadedBundleTest::TearDown();
  }
  tilewright_code create() {
    destroyFunction(plan);
    plan = nullptr;
    return createFunction(bundle, &desc, &plan);
  }
  void createPlan() {
    ASSERT_EQ(create(), TILEWRIGHT_OK) << tilewright_last_error();
    ASSERT_EQ(prepareFunction(plan, 0), TILEWRIGHT_OK) << tilewright_last_error();
  }

  Plan *plan = nullptr;
  Desc desc = {};
};

} // namespace tilewright::runtime::testing

#endif // TILEWRIGHT_TEST_UNIT_RUNTIMEPLANTESTING_H
