# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shared code of the PyTorch tests on the CPU. Importing it skips the test file if a requirement is missing."""

import os
import sys
import unittest
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None
if not hasattr(torch.library, "custom_op"):
    raise unittest.SkipTest(f"PyTorch {torch.__version__} has no torch.library.custom_op; 2.4 has")

from tilewright import interpreter, places  # noqa: E402


def interpret_module():
    """Call in setUpModule: attention on the CPU runs on the interpreter until the tests of the file are done."""
    if not os.path.exists(places.find_run()):
        raise unittest.SkipTest(f"there is no {places.find_run()}")
    warnings.simplefilter("ignore")
    unittest.addModuleCleanup(interpreter.interpret().__exit__)


def make(*shape, dtype=torch.float64, seed=1):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()


def qkv(batch=2, heads=4, kv_heads=2, rows=5, keys=9, width=8, value_width=6, dtype=torch.float64):
    return (make(batch, heads, rows, width, dtype=dtype), make(batch, kv_heads, keys, width, dtype=dtype, seed=2),
            make(batch, kv_heads, keys, value_width, dtype=dtype, seed=3))


def gradients(call, inputs):
    """Outputs, and gradients of `inputs` for fixed seeds. Infinite outputs have no seed."""
    outputs = call(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    seeds = [torch.cos(torch.arange(x.numel()).reshape(x.shape) * 0.37).to(x.dtype) * (x.detach() > -torch.inf)
             for x in outputs]
    return [x.detach() for x in outputs], torch.autograd.grad(outputs, inputs, seeds)


class TorchTest(unittest.TestCase):
    def assert_same(self, got, expected, **tolerance):
        tolerance = tolerance or {"rtol": 1e-6, "atol": 1e-6}  # scale and some captures are f32
        self.assertEqual(len(got), len(expected))
        for x, y in zip(got, expected):
            torch.testing.assert_close(x, y, check_dtype=False, **tolerance)

    def assert_right(self, ours, wanted, inputs, **tolerance):
        """Asserts that results and gradients equal the reference."""
        for got, expected in zip(gradients(ours, inputs), gradients(wanted, inputs)):
            self.assert_same(got, expected, **tolerance)
