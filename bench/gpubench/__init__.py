# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Code shared by the GPU benchmarks. Only the modules device and problems need PyTorch and a GPU."""
