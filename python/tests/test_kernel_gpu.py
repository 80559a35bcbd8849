# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tilewright.kernel on a GPU. The tests are skipped, with a message, if there is no GPU."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None
if not torch.cuda.is_available():
    raise unittest.SkipTest("there is no GPU")

import tilewright  # noqa: E402

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "examples")
if not os.path.isfile(os.path.join(EXAMPLES, "rms_norm_backward.mlir")):
    raise unittest.SkipTest(f"there is no {EXAMPLES}/rms_norm_backward.mlir")


def rms_norm(dtype=torch.float32, columns=512):
    return tilewright.kernel(os.path.join(EXAMPLES, "rms_norm.mlir"), C=columns, T=dtype,
                             backward=os.path.join(EXAMPLES, "rms_norm_backward.mlir"))


def formula(x, epsilon=1e-5):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon)


def make(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator("cuda").manual_seed(1), device="cuda").to(dtype).requires_grad_()


class KernelTest(unittest.TestCase):
    def same(self, got, wanted, unit=1e-6):
        torch.testing.assert_close(got.float(), wanted.float(), rtol=8 * unit, atol=8 * unit)

    def test_results_and_gradients(self):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            norm, x = rms_norm(dtype), make(300, 512, dtype=dtype)
            exact, seed = x.detach().double().requires_grad_(), make(300, 512, dtype=dtype).detach().flip(0)
            y, want = norm(x, epsilon=0.5), formula(exact, 0.5)
            self.same(y, want, torch.finfo(dtype).eps)
            self.same(torch.autograd.grad(y, x, seed)[0], torch.autograd.grad(want, exact, seed.double())[0], torch.finfo(dtype).eps)

    def test_strides_and_alignment(self):
        """Views that the preferred form of a kernel does not take."""
        softmax = tilewright.kernel("row_softmax", T="f16")
        x = make(64, 129, dtype=torch.float16).detach()
        for each in (x, x.T, x[:, 1:], x[::2], x[:, ::2], x[:1].expand(5, 129)):
            self.same(softmax(each, scale=1.0), torch.softmax(each.float(), 1), torch.finfo(torch.float16).eps)

    def test_given_results(self):
        norm, x, y = rms_norm(), make(5, 512).detach(), torch.zeros(7, 512, device="cuda")
        version = y._version
        self.assertIs(norm(x[:3], part := y[2:5]), part)
        self.same(part, formula(x[:3]))
        self.assertTrue((y[:2] == 0).all() and (y[5:] == 0).all())
        self.assertGreater(y._version, version)  # so that autograd notices

    def test_a_program_with_a_workspace(self):
        q, k, v = (make(2, heads, rows, 64).detach() for heads, rows in ((4, 1), (2, 300), (2, 300)))
        decode = tilewright.kernel("attention_decode", D=64, T="f32", GROUP=2, SPLITS=4)
        lengths = torch.full((2,), 300, dtype=torch.int32, device="cuda")
        self.same(decode(q, k.transpose(1, 2), v.transpose(1, 2), seq_lens=lengths, scale=0.125), tilewright.attention(q, k, v), 1e-4)

    def test_streams(self):
        norm, x = rms_norm(), make(20000, 512).detach()
        norm(x)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            y = torch.zeros_like(x)
            for _ in range(20):
                y.copy_(x * 3)
                got = norm(y)
        stream.synchronize()
        self.same(got, formula(x * 3), 1e-6)

    def test_graphs(self):
        """A prepared kernel is captured at its first call; another one says so."""
        columns = 1024 + 16 * (os.getpid() % 8)  # so that no other test has loaded it
        norm, x = rms_norm(columns=columns), make(100, columns)
        seed = make(100, columns).detach()
        graph = torch.cuda.CUDAGraph()
        with self.assertRaisesRegex(RuntimeError, "the first call of kernel 'rms_norm' must not be captured"):
            with torch.cuda.graph(graph):
                norm(x)
        torch.cuda.synchronize()
        norm.prepare()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = norm(x)
            d_x = torch.autograd.grad(y, x, seed)[0]
        with torch.no_grad():
            x.mul_(2).add_(1)
        graph.replay()
        torch.cuda.synchronize()
        self.same(y, formula(x))
        self.same(d_x, torch.autograd.grad(formula(x), x, seed)[0])

    def test_compiled(self):
        norm = rms_norm()
        torch.compiler.reset()
        code = torch.compile(lambda x: norm(x * 2).sin(), fullgraph=True)
        for rows in (100, 101, 77):
            x = make(rows, 512)
            seed = make(rows, 512).detach().flip(0)
            got, want = code(x), formula(x * 2).sin()
            self.same(got, want)
            self.same(torch.autograd.grad(got, x, seed)[0], torch.autograd.grad(want, x, seed)[0], 4e-6)

    def test_rejects(self):
        norm, x = rms_norm(), make(5, 512).detach()
        with self.assertRaisesRegex(ValueError, "x must be on a CUDA device, but got cpu"):
            norm(x.cpu())
        with self.assertRaisesRegex(ValueError, r"'dim\(y, 0\) == dim\(x, 0\)' does not hold, but got"):
            norm(x, torch.empty(4, 512, device="cuda"))


if __name__ == "__main__":
    unittest.main()
