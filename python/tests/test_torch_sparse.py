# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sparse attention over a cache, end to end: examples/sparse_decode.py, and kernels/block_means.mlir and block_scores.mlir
against the formulas. Runs on the interpreter: needs PyTorch and tilewright-run, but no GPU."""

import importlib.util
import os
import sys
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, FOLDER)
from torch_on_cpu import TorchTest, interpret_module, torch  # noqa: E402

import tilewright  # noqa: E402

EXAMPLE = os.path.join(FOLDER, "..", "..", "examples", "sparse_decode.py")


def setUpModule():
    if not os.path.isfile(EXAMPLE):
        raise unittest.SkipTest(f"there is no {EXAMPLE}")
    interpret_module()


def example():
    spec = importlib.util.spec_from_file_location("sparse_decode", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class SparseTest(TorchTest):
    def test_the_example_agrees_with_dense_attention(self):
        run = example().run
        for lengths, chunk, heads, key_heads, rows, count in (([200, 193], 40, 8, 2, 16, 4), ([5, 30, 17], 3, 3, 1, 7, 9),
                                                              ([63], 0, 4, 4, 16, 2)):
            worst, *_ = run(lengths, chunk, 3, count, heads, key_heads, 16, rows, torch.float32, "cpu", block=16)
            self.assertLess(worst, 1e-5)

    def kernels(self, dtype, group, queries, rows):
        tile_rows = max((size for size in (1, 8, 16, 32, 64, 128) if rows and rows % size == 0), default=0)
        options = dict(D=24, T=dtype, LIST_BLOCK_N=16)
        return (tilewright.kernel("block_means", PAGE_ROWS=tile_rows, **options),
                tilewright.kernel("block_scores", GROUP=group, LIST_BLOCK_M=queries, **options))

    def test_means_and_scores(self):
        lengths, generator = [80, 0, 47, 16], torch.Generator().manual_seed(3)
        seqlens = torch.tensor(lengths, dtype=torch.int32)
        for dtype, group, queries, span, rows in ((torch.float32, 3, 1, 1, 0), (torch.float32, 20, 9, 4, 8),
                                                  (torch.float16, 1, 3, 16, 5)):
            means_of, scores_of = self.kernels(dtype, group, span, rows)
            k = torch.randn(4, 80, 2, 24, generator=generator).to(dtype)
            q = torch.randn(4, 2 * group, queries, 24, generator=generator).to(dtype)
            pages, table = k, None
            if rows:
                table = torch.randperm(64, generator=generator).view(4, 16).int()
                pages = torch.full((64, rows, 2, 24), torch.nan, dtype=dtype)
                for b in range(4):
                    for j in range(lengths[b]):
                        pages[table[b, j // rows], j % rows] = k[b, j]
            means = torch.full((4, 2, 8, 24), torch.nan, dtype=dtype)
            for new in (2**31 - 1, 0, 17):
                before = means.clone()
                given = {} if table is None else {"block_table": table}
                means_of(k_pages=pages, seq_lens=seqlens, means=means, new_keys=new, **given)
                for b, length in enumerate(lengths):
                    for n in range(8):
                        if n < length // 16 and (n + 1) * 16 > length - new:
                            expected = k[b, 16 * n:16 * n + 16].double().mean(0).to(dtype)
                            self.assertTrue(torch.allclose(means[b, :, n], expected, rtol=2e-3, atol=1e-3))
                        else:
                            self.assertTrue(torch.equal(means[b, :, n].nan_to_num(9), before[b, :, n].nan_to_num(9)))
            blocks = -(-queries // span)
            scores = torch.full((4, 2, blocks, 8), torch.nan)
            scores_of(q=q, means=means, seq_lens=seqlens, scores=scores)
            products = torch.einsum("bhgid,bhnd->bhgin", q.double().unflatten(1, (2, group)), means.double()).amax(2)
            for b, length in enumerate(lengths):
                for m in range(blocks):
                    first, last = (length - queries + i for i in (m * span, min((m + 1) * span, queries) - 1))
                    for n in range(8):
                        got, own = scores[b, :, m, n], products[b, :, m * span:(m + 1) * span, n].amax(1)
                        if last < 0 or n > last // 16:
                            self.assertTrue((got == -torch.inf).all())
                        elif n == 0 or n >= max(first, 0) // 16:
                            self.assertTrue((got == torch.inf).all())
                        else:
                            self.assertTrue(torch.allclose(got.double(), own, rtol=1e-3, atol=1e-3))

    def test_rejects(self):
        means_of, scores_of = self.kernels(torch.float32, 2, 1, 0)
        q, means, lengths = torch.zeros(2, 4, 1, 24), torch.zeros(2, 2, 4, 24), torch.zeros(2, dtype=torch.int32)
        for text, of in (("dim", lambda: scores_of(q=q, means=means, seq_lens=lengths, scores=torch.zeros(2, 2, 2, 4))),
                         ("dim", lambda: means_of(k_pages=torch.zeros(2, 80, 2, 24), seq_lens=lengths, means=means, new_keys=1))):
            with self.assertRaisesRegex(Exception, text):
                of()


if __name__ == "__main__":
    unittest.main()
