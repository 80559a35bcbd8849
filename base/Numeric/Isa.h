// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The loops and products are compiled once per instruction set; the best one that the processor has
// is used. Results may differ between instruction sets in the last bits; one machine gives the same
// bits every time.

#ifndef TILEWRIGHT_BASE_NUMERIC_ISA_H
#define TILEWRIGHT_BASE_NUMERIC_ISA_H

#include "base/Support/Status.h"

namespace tilewright::numeric {

enum class Isa { Baseline, Avx2, Avx512 };

/// The instruction set in use. The environment variable TILEWRIGHT_ISA (baseline, avx2, avx512)
/// lowers the first choice.
Isa activeIsa();
/// The reason why TILEWRIGHT_ISA is invalid, if it is set to anything but an instruction set of
/// this processor.
Status checkWantedIsa();
const char *isaName(Isa isa);
bool isSupported(Isa isa);

/// Switches every thread to another instruction set; false if the processor does not support it.
/// For tests and benchmarks: not while loops are running.
bool selectIsa(Isa isa);

} // namespace tilewright::numeric

#endif // TILEWRIGHT_BASE_NUMERIC_ISA_H
