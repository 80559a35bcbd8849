// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The compiler's table of architectures, with one row for each target (Target.cpp): what a target
// can do and its figures. Passes ask for a feature or a figure; only the tables of blocks and
// strategies (passes/Tile) have rows for names of targets. The limits of the machine that a kernel
// runs on are the driver's, which the runtime queries.

#ifndef TILEWRIGHT_BASE_TARGET_TARGET_H
#define TILEWRIGHT_BASE_TARGET_TARGET_H

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright {

/// Features that not all architectures have.
enum class Feature : unsigned {
  Wgmma,           ///< warpgroup products with operands in shared memory
  Tma,             ///< tensor maps, bulk copies, barriers that count bytes, the proxy fence
  RoleRegisters,   ///< setmaxnreg
  StoreMatrix,     ///< stmatrix
  MmaOfBytes,      ///< mma of 8-bit floats
  AtomicAddOfBf16, ///< without a loop of compare and swap
  DependentLaunch  ///< a launch may start before the previous one has ended, and wait for its end
};

class Target {
public:
  /// A set of features, as the rows of the table write it.
  struct Features {
    Features(std::initializer_list<Feature> list) {
      for (Feature feature : list)
        bits |= 1u << static_cast<unsigned>(feature);
    }
    unsigned bits = 0;
  };

  std::string_view name; ///< sm_80
  int major, minor;      ///< compute capability
  /// Whether its code runs only on this capability; other code also runs on all later ones.
  bool isExact;
  int ptxVersion; ///< the lowest that has all instructions used: 70 for 7.0

  /// Bytes of shared memory that a block may have, and a multiprocessor has, on the first chip of
  /// this name. The system uses the rest, for each block.
  int64_t sharedOfBlock, sharedOfMultiprocessor;
  /// The minimum per block over all chips that run this code.
  int64_t leastSharedOfBlock;
  /// The maximum number of resident warps and blocks of a multiprocessor.
  int64_t warpsOfMultiprocessor, blocksOfMultiprocessor;
  /// Multiprocessors of the largest chip. They affect the order of tiles, not results.
  int64_t multiprocessors;
  /// Bytes of the L2 that what neighbouring tiles share may take: less than half of it, since
  /// results and other data in flight take the rest.
  int64_t cacheOfTiles;
  /// Per clock and multiprocessor: exponentials, and operations of 16-bit products (a multiply and
  /// an addition count as two).
  double exponentialsOfClock, operationsOfClock;
  Features features;

  bool has(Feature feature) const { return features.bits >> static_cast<unsigned>(feature) & 1u; }
  /// Whether kernels can be split into roles that copy by TMA and multiply by wgmma.
  bool hasRoles() const {
    return has(Feature::Wgmma) && has(Feature::Tma) && has(Feature::RoleRegisters);
  }
  /// Whether code for this target runs on what `other` names.
  bool runsOn(const Target &other) const;
  /// Whether a cubin for this target, if its code runs there at all, serves a device.
  bool cubinServes(int deviceMajor, int deviceMinor) const;

  // The same on all of them.
  static constexpr int64_t lanes = 32;       ///< threads per warp
  static constexpr int64_t warpsOfGroup = 4; ///< warps per warpgroup
  static constexpr int64_t threadsOfGroup = lanes * warpsOfGroup;
  static constexpr int64_t warpsOfBlock = 32;       ///< maximum
  static constexpr int64_t registers = 65536;       ///< per multiprocessor, and per block
  static constexpr int64_t registersOfThread = 255; ///< maximum
  static constexpr int64_t registerUnit = 256;      ///< allocation unit of a warp
  static constexpr int64_t systemShared = 1024;     ///< bytes per block that the system reserves
  static constexpr int64_t namedBarriers = 16;      ///< per block; 0 is that of the whole block
  static constexpr int64_t phaseLimit = 1 << 20;    ///< a phase has fewer arrivals and bytes
  static constexpr int64_t mostBoxExtent = 256;     ///< of a tensor map
  /// The operands of setmaxnreg: multiples of the last from the first to the second.
  static constexpr int64_t leastRoleRegisters = 24, mostRoleRegisters = 240, roleRegisterUnit = 8;
  /// Registers per thread with which a block of this many warps is launched. Roles redistribute
  /// them, so the total never increases: 12 warps have 168 per thread.
  static constexpr int64_t getRegistersAtEntry(int64_t warps) {
    int64_t share = registers / (lanes * warps);
    return (share < registersOfThread ? share : registersOfThread) / roleRegisterUnit *
           roleRegisterUnit;
  }

  /// In the order of the table: by capability.
  static const std::vector<Target> &all();
  /// Null: no target has this name.
  static const Target *find(std::string_view name);
  /// The default target for a device: that of exactly its capability, else the latest whose code it
  /// runs. Null: older than all.
  static const Target *forDevice(int major, int minor);
  /// The default: the first of the table, whose code runs everywhere.
  static const Target &getDefault() { return all().front(); }

  /// "sm_80 or sm_90a", each after `prefix`.
  static std::string getNames(std::string_view prefix = "");
  /// The names of those that have the feature.
  static std::string getNamesWith(Feature feature);
  static std::string getNamesWithRoles();
  /// "target must be sm_80 or sm_90a, but got 'sm_75'".
  static std::string getRejection(std::string_view name);

  /// Bytes of shared memory that a block has on some target, and on every chip of every target.
  static int64_t getMostShared();
  /// Multiprocessors of the largest chip of all targets.
  static int64_t getMostMultiprocessors();
  static int64_t getLeastShared();
};

} // namespace tilewright

#endif // TILEWRIGHT_BASE_TARGET_TARGET_H
