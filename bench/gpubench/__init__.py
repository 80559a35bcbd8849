# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the benchmarks on a GPU share. cases, contract, fa4 and report need neither PyTorch nor a GPU; device and problems
need both."""
