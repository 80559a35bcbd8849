// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of architectures. Figures: CUDA C++ Programming Guide, technical specifications by
// compute capability; PTX ISA, release notes and target notes of each instruction.

#include "base/Target/Target.h"

#include <algorithm>

using namespace tilewright;

static constexpr int64_t kilobyte = 1024, megabyte = 1024 * kilobyte;

// A further row is all that the compiler needs of a target whose instructions it knows; one with
// products of another kind needs their lowering, too, and a feature that says so. Only Hopper's
// rates were measured; those of other chips are of the specifications, and on chips with tcgen05,
// which is not used, those of mma.sync are assumed to be half of Hopper's wgmma.
const std::vector<Target> &Target::all() {
  static const std::vector<Target> table = {
      // Code for sm_80 runs on all later chips, too, of which 8.6, 8.9 and 12.0 leave 99 KB to a
      // block.
      {"sm_80", 8, 0, /*isExact=*/false, /*ptxVersion=*/70,
       /*sharedOfBlock=*/163 * kilobyte, /*sharedOfMultiprocessor=*/164 * kilobyte,
       /*leastSharedOfBlock=*/99 * kilobyte,
       /*warpsOfMultiprocessor=*/64, /*blocksOfMultiprocessor=*/32, /*multiprocessors=*/108,
       /*cacheOfTiles=*/16 * megabyte, // of 40, not measured
       /*exponentialsOfClock=*/16, /*operationsOfClock=*/2048,
       /*features=*/{}},
      // GA102: RTX 3090, A40, A10.
      {"sm_86", 8, 6, /*isExact=*/false, /*ptxVersion=*/71,
       /*sharedOfBlock=*/99 * kilobyte, /*sharedOfMultiprocessor=*/100 * kilobyte,
       /*leastSharedOfBlock=*/99 * kilobyte,
       /*warpsOfMultiprocessor=*/48, /*blocksOfMultiprocessor=*/16, /*multiprocessors=*/84,
       /*cacheOfTiles=*/2 * megabyte, // of 6, not measured
       /*exponentialsOfClock=*/16, /*operationsOfClock=*/1024,
       /*features=*/{}},
      // AD102: RTX 4090, L40S, L4. 8-bit floats since PTX 8.4.
      {"sm_89", 8, 9, /*isExact=*/false, /*ptxVersion=*/84,
       /*sharedOfBlock=*/99 * kilobyte, /*sharedOfMultiprocessor=*/100 * kilobyte,
       /*leastSharedOfBlock=*/99 * kilobyte,
       /*warpsOfMultiprocessor=*/48, /*blocksOfMultiprocessor=*/24, /*multiprocessors=*/142,
       /*cacheOfTiles=*/16 * megabyte, // of 48 to 96, not measured
       /*exponentialsOfClock=*/16, /*operationsOfClock=*/1024,
       /*features=*/{Feature::MmaOfBytes}},
      {"sm_90a",
       9,
       0,
       /*isExact=*/true,
       /*ptxVersion=*/86,
       /*sharedOfBlock=*/227 * kilobyte,
       /*sharedOfMultiprocessor=*/228 * kilobyte,
       /*leastSharedOfBlock=*/227 * kilobyte,
       /*warpsOfMultiprocessor=*/64,
       /*blocksOfMultiprocessor=*/32,
       /*multiprocessors=*/132,
       /*cacheOfTiles=*/16 * megabyte, // of 50
       /*exponentialsOfClock=*/16,
       /*operationsOfClock=*/4096,
       /*features=*/
       {Feature::Wgmma, Feature::Tma, Feature::RoleRegisters, Feature::StoreMatrix,
        Feature::MmaOfBytes, Feature::AtomicAddOfBf16, Feature::DependentLaunch}},
      // B200, and B300 with twice the exponentials.
      {"sm_100a",
       10,
       0,
       /*isExact=*/true,
       /*ptxVersion=*/86,
       /*sharedOfBlock=*/227 * kilobyte,
       /*sharedOfMultiprocessor=*/228 * kilobyte,
       /*leastSharedOfBlock=*/227 * kilobyte,
       /*warpsOfMultiprocessor=*/64,
       /*blocksOfMultiprocessor=*/32,
       /*multiprocessors=*/148,
       /*cacheOfTiles=*/32 * megabyte, // of 126, not measured
       /*exponentialsOfClock=*/16,
       /*operationsOfClock=*/2048,
       /*features=*/
       {Feature::Tma, Feature::RoleRegisters, Feature::StoreMatrix, Feature::MmaOfBytes,
        Feature::AtomicAddOfBf16, Feature::DependentLaunch}},
      {"sm_103a",
       10,
       3,
       /*isExact=*/true,
       /*ptxVersion=*/88,
       /*sharedOfBlock=*/227 * kilobyte,
       /*sharedOfMultiprocessor=*/228 * kilobyte,
       /*leastSharedOfBlock=*/227 * kilobyte,
       /*warpsOfMultiprocessor=*/64,
       /*blocksOfMultiprocessor=*/32,
       /*multiprocessors=*/160,
       /*cacheOfTiles=*/32 * megabyte, // of 126, not measured
       /*exponentialsOfClock=*/32,
       /*operationsOfClock=*/2048,
       /*features=*/
       {Feature::Tma, Feature::RoleRegisters, Feature::StoreMatrix, Feature::MmaOfBytes,
        Feature::AtomicAddOfBf16, Feature::DependentLaunch}},
      // RTX 5090, RTX PRO 6000.
      {"sm_120a",
       12,
       0,
       /*isExact=*/true,
       /*ptxVersion=*/87,
       /*sharedOfBlock=*/99 * kilobyte,
       /*sharedOfMultiprocessor=*/100 * kilobyte,
       /*leastSharedOfBlock=*/99 * kilobyte,
       /*warpsOfMultiprocessor=*/48,
       /*blocksOfMultiprocessor=*/24,
       /*multiprocessors=*/188,
       /*cacheOfTiles=*/32 * megabyte, // of 96 to 128, not measured
       /*exponentialsOfClock=*/16,
       /*operationsOfClock=*/1024,
       /*features=*/
       {Feature::Tma, Feature::RoleRegisters, Feature::StoreMatrix, Feature::MmaOfBytes,
        Feature::AtomicAddOfBf16, Feature::DependentLaunch}},
  };
  return table;
}

static int getCapability(const Target &target) { return 10 * target.major + target.minor; }

bool Target::runsOn(const Target &other) const {
  return isExact ? name == other.name : getCapability(*this) <= getCapability(other);
}

bool Target::cubinServes(int deviceMajor, int deviceMinor) const {
  return major == deviceMajor && minor <= deviceMinor;
}

const Target *Target::find(std::string_view name) {
  for (const Target &target : all())
    if (target.name == name)
      return &target;
  return nullptr;
}

const Target *Target::forDevice(int major, int minor) {
  const Target *best = nullptr;
  for (const Target &target : all()) {
    bool isSame = target.major == major && target.minor == minor;
    if (isSame && target.isExact)
      return &target;
    if (!target.isExact && getCapability(target) <= 10 * major + minor)
      best = &target;
  }
  return best;
}

template <typename Predicate>
static std::string listNames(std::string_view prefix, Predicate isWanted) {
  std::vector<std::string> names;
  for (const Target &target : Target::all())
    if (isWanted(target))
      names.push_back(std::string(prefix) + std::string(target.name));
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  return text;
}

std::string Target::getNames(std::string_view prefix) {
  return listNames(prefix, [](const Target &) { return true; });
}

std::string Target::getNamesWith(Feature feature) {
  return listNames("", [&](const Target &target) { return target.has(feature); });
}

std::string Target::getNamesWithRoles() {
  return listNames("", [](const Target &target) { return target.hasRoles(); });
}

std::string Target::getRejection(std::string_view name) {
  return "target must be " + getNames() + ", but got '" + std::string(name) + "'";
}

int64_t Target::getMostShared() {
  int64_t most = 0;
  for (const Target &target : all())
    most = std::max(most, target.sharedOfBlock);
  return most;
}

int64_t Target::getMostMultiprocessors() {
  int64_t most = 0;
  for (const Target &target : all())
    most = std::max(most, target.multiprocessors);
  return most;
}

int64_t Target::getLeastShared() {
  int64_t least = all().front().leastSharedOfBlock;
  for (const Target &target : all())
    least = std::min(least, target.leastSharedOfBlock);
  return least;
}
