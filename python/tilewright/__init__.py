# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tilewright from Python: compiled attention kernels through the C interface, with ctypes.

    tilewright.torch       attention as an operator of PyTorch; imports torch
    tilewright.compiler    kernels (.mlir) to bundles
    tilewright.runtime     bundles, plans and operations, on arrays of any library

Nothing here is built, and only tilewright.torch needs PyTorch.
"""
