# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Inputs on a GPU, gradients, and graphs. Skips the file that imports it, with a message, if there is no GPU."""

import unittest

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None
if not hasattr(torch.library, "custom_op"):
    raise unittest.SkipTest(f"PyTorch {torch.__version__} has no torch.library.custom_op; 2.4 has")
if not torch.cuda.is_available():
    raise unittest.SkipTest("there is no GPU")


def make(*shape, dtype=torch.bfloat16, seed=1):
    generator = torch.Generator("cuda").manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator, device="cuda").to(dtype).requires_grad_()


def qkv(batch=2, heads=4, kv_heads=2, rows=150, keys=203, width=64, value_width=None, dtype=torch.bfloat16):
    return (make(batch, heads, rows, width, dtype=dtype), make(batch, kv_heads, keys, width, dtype=dtype, seed=2),
            make(batch, kv_heads, keys, value_width or width, dtype=dtype, seed=3))


def gradients(call, inputs):
    """Outputs, and gradients for fixed seeds; None for outputs that are left out."""
    outputs = call(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    seeds = [torch.cos(torch.arange(x.numel(), device="cuda").reshape(x.shape) * 0.37).to(x.dtype) for x in outputs]
    return [x.detach() for x in outputs] + list(torch.autograd.grad(outputs, inputs, seeds))


def captured(step):
    """A graph of the step, and the results that each replay writes again. The step runs once before the capture, on a
    stream of its own, as PyTorch demands for steps with a backward: what is done once, such as loading code, must not
    be captured."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = step()
    return graph, results
