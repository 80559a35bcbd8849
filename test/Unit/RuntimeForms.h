// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs of one form.

#ifndef TILEWRIGHT_TEST_UNIT_RUNTIMEFORMS_H
#define TILEWRIGHT_TEST_UNIT_RUNTIMEFORMS_H

#include "runtime/Manifest.h"

namespace tilewright::runtime::testing {

/// The first form of a program, which is made for sm_80 if there is none.
inline FormSpec &formOf(ProgramSpec &program) {
  if (program.forms.empty()) {
    program.forms.emplace_back();
    program.forms[0].target = *Arch::parse("sm_80");
  }
  return program.forms[0];
}

} // namespace tilewright::runtime::testing

#endif // TILEWRIGHT_TEST_UNIT_RUNTIMEFORMS_H
