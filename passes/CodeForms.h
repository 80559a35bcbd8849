// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which code convert-tgpu-to-nvvm emits for a kernel.

#ifndef TILEWRIGHT_PASSES_CODEFORMS_H
#define TILEWRIGHT_PASSES_CODEFORMS_H

namespace tilewright::tgpu {

/// A kernel may have a second form of code, for aligned views (AlignedViews.h). Of a kernel without
/// one, `Aligned` means the only form.
enum class CodeForms { All, General, Aligned };

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_CODEFORMS_H
