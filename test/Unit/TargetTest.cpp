// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of architectures: invariants of every row, and the lookup.

#include "base/Target/Target.h"

#include <gtest/gtest.h>

#include <set>

using namespace tilewright;

TEST(Target, RowsAreConsistent) {
  std::set<std::string_view> names;
  int last = 0;
  for (const Target &target : Target::all()) {
    SCOPED_TRACE(target.name);
    EXPECT_TRUE(names.insert(target.name).second) << "two rows of one name";
    std::string name =
        "sm_" + std::to_string(10 * target.major + target.minor) + (target.isExact ? "a" : "");
    EXPECT_EQ(target.name, name);
    EXPECT_GE(10 * target.major + target.minor, last) << "rows are ordered by capability";
    last = 10 * target.major + target.minor;
    EXPECT_EQ(Target::find(target.name), &target);
    EXPECT_GE(target.ptxVersion, 70);
    EXPECT_EQ(target.sharedOfBlock + Target::systemShared, target.sharedOfMultiprocessor);
    EXPECT_LE(target.leastSharedOfBlock, target.sharedOfBlock);
    EXPECT_LE(target.sharedOfBlock, Target::getMostShared());
    EXPECT_GE(target.leastSharedOfBlock, Target::getLeastShared());
    EXPECT_GE(target.warpsOfMultiprocessor, Target::warpsOfBlock);
    EXPECT_GT(target.blocksOfMultiprocessor, 0);
    EXPECT_GT(target.multiprocessors, 0);
    EXPECT_GT(target.exponentialsOfClock, 0);
    EXPECT_GT(target.operationsOfClock, 0);
    // Targets for exactly one chip may use all of its shared memory.
    if (target.isExact) {
      EXPECT_EQ(target.leastSharedOfBlock, target.sharedOfBlock);
    }
    // Operands of wgmma are copied by TMA, in passes as in kernels.
    if (target.has(Feature::Wgmma)) {
      EXPECT_TRUE(target.hasRoles());
    }
  }
  EXPECT_FALSE(Target::getDefault().isExact) << "the default runs everywhere";
  EXPECT_FALSE(Target::getDefault().hasRoles());
}

TEST(Target, KnowsAmpereAndHopper) {
  const Target *ampere = Target::find("sm_80"), *hopper = Target::find("sm_90a");
  ASSERT_TRUE(ampere && hopper);
  EXPECT_EQ(ampere->sharedOfBlock, 166912);
  EXPECT_EQ(ampere->leastSharedOfBlock, 101376);
  EXPECT_FALSE(ampere->has(Feature::Tma));
  EXPECT_FALSE(ampere->hasRoles());
  EXPECT_EQ(hopper->sharedOfBlock, 232448);
  EXPECT_TRUE(hopper->has(Feature::Wgmma));
  EXPECT_TRUE(hopper->hasRoles());
}

TEST(Target, KnowsChipsWithLittleSharedMemory) {
  for (const char *name : {"sm_86", "sm_89", "sm_120a"}) {
    const Target *target = Target::find(name);
    ASSERT_TRUE(target) << name;
    EXPECT_EQ(target->sharedOfBlock, Target::getLeastShared()) << name;
    EXPECT_FALSE(target->hasRoles()) << name;
  }
}

TEST(Target, KnowsBlackwellWithoutItsProducts) {
  for (const char *name : {"sm_100a", "sm_103a", "sm_120a"}) {
    const Target *target = Target::find(name);
    ASSERT_TRUE(target) << name;
    EXPECT_TRUE(target->has(Feature::Tma)) << name;
    EXPECT_FALSE(target->has(Feature::Wgmma)) << name;
  }
}

TEST(Target, RejectsWithTheListOfKnownOnes) {
  EXPECT_EQ(Target::find("sm_75"), nullptr);
  EXPECT_EQ(Target::find("SM_80"), nullptr);
  EXPECT_EQ(Target::find(""), nullptr);
  EXPECT_EQ(Target::getRejection("sm_75"),
            "target must be sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_103a or sm_120a, but got "
            "'sm_75'");
  EXPECT_EQ(Target::getNames("sim:"), "sim:sm_80, sim:sm_86, sim:sm_89, sim:sm_90a, sim:sm_100a, "
                                      "sim:sm_103a or sim:sm_120a");
  EXPECT_EQ(Target::getNamesWith(Feature::Wgmma), "sm_90a");
}

TEST(Target, ChoosesByDevice) {
  EXPECT_EQ(Target::forDevice(7, 5), nullptr);
  EXPECT_EQ(Target::forDevice(8, 0)->name, "sm_80");
  EXPECT_EQ(Target::forDevice(8, 6)->name, "sm_86");
  EXPECT_EQ(Target::forDevice(8, 7)->name, "sm_86");
  EXPECT_EQ(Target::forDevice(8, 9)->name, "sm_89");
  EXPECT_EQ(Target::forDevice(9, 0)->name, "sm_90a");
  EXPECT_EQ(Target::forDevice(10, 0)->name, "sm_100a");
  EXPECT_EQ(Target::forDevice(12, 0)->name, "sm_120a");
  EXPECT_EQ(Target::forDevice(12, 1)->name, "sm_89") << "code of 12.0a runs on 12.0 alone";
}

TEST(Target, SaysWhereCodeRuns) {
  const Target &ampere = *Target::find("sm_80"), &hopper = *Target::find("sm_90a");
  EXPECT_TRUE(ampere.runsOn(hopper));
  EXPECT_TRUE(hopper.runsOn(hopper));
  EXPECT_FALSE(hopper.runsOn(ampere));
  EXPECT_TRUE(ampere.cubinServes(8, 6));
  EXPECT_FALSE(ampere.cubinServes(9, 0)) << "a cubin serves its major version";
  EXPECT_TRUE(hopper.cubinServes(9, 0));
}
