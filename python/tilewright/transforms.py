# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Detects transforms of PyTorch that the operators do not support. Without a check, forward mode would take the operators
for constants, and give zero."""

import torch
from torch.autograd import forward_ad


def transform_of(x):
    """Returns the name of a transform that x is a tensor of, or None. In code that torch.compile traces, None."""
    if torch.compiler.is_compiling() or not isinstance(x, torch.Tensor):
        return None
    if torch._C._functorch.is_functorch_wrapped_tensor(x):
        return "vmap or another transform of torch.func"
    if getattr(forward_ad, "_current_level", -1) >= 0 and forward_ad.unpack_dual(x).tangent is not None:
        return "forward-mode differentiation"
    return None


def check_transforms(values):
    """Raises NotImplementedError if one of the values, {name: value}, is a tensor of a transform."""
    for name, x in values.items():
        transform = transform_of(x)
        if transform is not None:
            raise NotImplementedError(f"{name} must not be a tensor of {transform}, which attention does not support; use "
                                      "torch.autograd.grad for gradients, or PyTorch's scaled_dot_product_attention")
