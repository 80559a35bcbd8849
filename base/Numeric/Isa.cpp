// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses the instruction set.

#include "base/Numeric/Isa.h"
#include "base/Numeric/KernelTable.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

using namespace tilewright::numeric;

namespace tilewright::numeric {

// Defined by the files of Isa/, once per instruction set.
#define TILEWRIGHT_DECLARE_ISA(isa)                                                                \
  namespace isa {                                                                                  \
  void addFloatLoops(KernelTable &table);                                                          \
  void addMathLoops(KernelTable &table);                                                           \
  void addIntegerLoops(KernelTable &table);                                                        \
  void addCompareLoops(KernelTable &table);                                                        \
  void addCastLoops(KernelTable &table);                                                           \
  void addConvertLoops(KernelTable &table);                                                        \
  void addReduceLoops(KernelTable &table);                                                         \
  void addProducts(KernelTable &table);                                                            \
  inline KernelTable makeTable() {                                                                 \
    KernelTable table = {};                                                                        \
    addFloatLoops(table);                                                                          \
    addMathLoops(table);                                                                           \
    addIntegerLoops(table);                                                                        \
    addCompareLoops(table);                                                                        \
    addCastLoops(table);                                                                           \
    addConvertLoops(table);                                                                        \
    addReduceLoops(table);                                                                         \
    addProducts(table);                                                                            \
    return table;                                                                                  \
  }                                                                                                \
  }

TILEWRIGHT_DECLARE_ISA(baseline)
#ifdef TILEWRIGHT_X86_ISAS
TILEWRIGHT_DECLARE_ISA(avx2)
TILEWRIGHT_DECLARE_ISA(avx512)
#endif

} // namespace tilewright::numeric

namespace {

constexpr Isa allIsas[] = {Isa::Baseline, Isa::Avx2, Isa::Avx512};

const KernelTable &tableOf(Isa isa) {
  static const KernelTable baselineTable = baseline::makeTable();
#ifdef TILEWRIGHT_X86_ISAS
  // Filling a table runs code of the instruction set, so only on processors that support it.
  if (isa == Isa::Avx2 && isSupported(isa)) {
    static const KernelTable table = avx2::makeTable();
    return table;
  }
  if (isa == Isa::Avx512 && isSupported(isa)) {
    static const KernelTable table = avx512::makeTable();
    return table;
  }
#endif
  return baselineTable;
}

/// The value of TILEWRIGHT_ISA; nothing if it is not set, or not supported.
std::optional<Isa> wantedIsa() {
  if (const char *wanted = std::getenv("TILEWRIGHT_ISA"))
    for (Isa isa : allIsas)
      if (isSupported(isa) && std::strcmp(wanted, isaName(isa)) == 0)
        return isa;
  return std::nullopt;
}

Isa firstChoice() {
  Isa best = Isa::Baseline;
  for (Isa isa : allIsas)
    if (isSupported(isa))
      best = isa;
  return wantedIsa().value_or(best);
}

struct Choice {
  std::atomic<Isa> isa{firstChoice()};
  std::atomic<const KernelTable *> table{&tableOf(isa)};
};

Choice &choice() {
  static Choice instance;
  return instance;
}

} // namespace

bool tilewright::numeric::isSupported(Isa isa) {
#ifdef TILEWRIGHT_X86_ISAS
  __builtin_cpu_init();
  bool hasAvx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                 __builtin_cpu_supports("f16c");
  if (isa == Isa::Avx2)
    return hasAvx2;
  if (isa == Isa::Avx512)
    return hasAvx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
#endif
  return isa == Isa::Baseline;
}

const char *tilewright::numeric::isaName(Isa isa) {
  switch (isa) {
  case Isa::Baseline:
    return "baseline";
  case Isa::Avx2:
    return "avx2";
  case Isa::Avx512:
    return "avx512";
  }
  return "";
}

tilewright::Status tilewright::numeric::checkWantedIsa() {
  const char *wanted = std::getenv("TILEWRIGHT_ISA");
  if (!wanted || wantedIsa())
    return Status::success();
  std::string names;
  for (Isa isa : allIsas)
    if (isSupported(isa))
      names += (names.empty() ? "" : ", ") + std::string(isaName(isa));
  return Status::failure("TILEWRIGHT_ISA must be unset or an instruction set of this processor (" +
                         names + "), but got '" + wanted + "'");
}

Isa tilewright::numeric::activeIsa() { return choice().isa.load(std::memory_order_relaxed); }

bool tilewright::numeric::selectIsa(Isa isa) {
  if (!isSupported(isa))
    return false;
  choice().table.store(&tableOf(isa), std::memory_order_relaxed);
  choice().isa.store(isa, std::memory_order_relaxed);
  return true;
}

const KernelTable &tilewright::numeric::kernels() {
  return *choice().table.load(std::memory_order_relaxed);
}
