# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decodes that start before what is in front of them in the stream has ended: kernels, copies, fills, products of PyTorch,
other streams, other decodes. The tests are skipped, with a message, if there is no GPU."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from gpu_inputs import captured  # noqa: E402

import torch  # noqa: E402

import tilewright  # noqa: E402

BATCH, HEADS, KEY_HEADS, WIDTH, ROWS, KEYS = 2, 32, 8, 128, 64, 2048
SIDE = 8192  # the queries are the last of so many rows of so many elements, which take much longer to write


class Steps:
    """Each step writes the queries anew, among many other elements, and attends the cache."""

    def __init__(self):
        torch.manual_seed(1)
        pages = BATCH * KEYS // ROWS
        self.k, self.v, self.k_new, self.v_new = torch.randn(4, pages, ROWS, KEY_HEADS, WIDTH, device="cuda").bfloat16()
        self.table = torch.randperm(pages).view(BATCH, -1).int().cuda()
        self.lengths = torch.tensor([KEYS, KEYS - 77], dtype=torch.int32, device="cuda")
        self.all = torch.zeros(SIDE, SIDE, dtype=torch.bfloat16, device="cuda")
        self.source = torch.randn(SIDE, SIDE, device="cuda").bfloat16()
        self.half = torch.eye(SIDE, dtype=torch.bfloat16, device="cuda") * 0.5
        self.q = self.all.view(-1)[-BATCH * HEADS * WIDTH:].view(BATCH, 1, HEADS, WIDTH)
        self.other = torch.cuda.Stream()

    def attend(self):
        return tilewright.flash_attn_with_kvcache(self.q, self.k, self.v, cache_seqlens=self.lengths, block_table=self.table)

    def on_other_stream(self):
        self.other.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.other):
            self.all.mul_(-0.7)
        self.k.copy_(self.k_new)  # so that two launches are in front of the decode
        torch.cuda.current_stream().wait_stream(self.other)

    def run(self, after):
        """The results; `after` is called behind each piece of work."""
        writers = [lambda: self.all.copy_(self.source), lambda: self.all.add_(self.source.flip(0)), self.all.zero_,
                   lambda: torch.mm(self.source, self.half, out=self.all), self.on_other_stream,
                   lambda: self.v.copy_(self.v_new), lambda: self.lengths.sub_(301), lambda: self.q.copy_(results[-1])]
        results = []
        for write in writers:
            write()
            after()
            results.append(self.attend())
            after()
            self.q.copy_(results[-1])  # while the decode may still read the queries
            after()
            results.append(self.attend())
            after()
        return results


class OverlapTest(unittest.TestCase):
    def setUp(self):
        self.expected = [x.clone() for x in Steps().run(torch.cuda.synchronize)]
        self.assertTrue(all(x.isfinite().all() for x in self.expected))
        self.assertFalse(any(torch.equal(x, y) for x, y in zip(self.expected, self.expected[1:])))

    def assert_expected(self, results):
        torch.cuda.synchronize()
        self.assertEqual([torch.equal(x, y) for x, y in zip(results, self.expected)], [True] * len(self.expected))

    def test_default_stream(self):
        for _ in range(5):
            self.assert_expected(Steps().run(lambda: None))

    def test_a_stream(self):
        stream = torch.cuda.Stream()
        for _ in range(5):
            steps = Steps()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                results = steps.run(lambda: None)
            self.assert_expected(results)

    def test_a_graph(self):
        steps, start = Steps(), Steps()
        graph, results = captured(lambda: steps.run(lambda: None))
        for _ in range(5):
            for name in ("k", "v", "lengths", "all"):
                getattr(steps, name).copy_(getattr(start, name))
            graph.replay()
            self.assert_expected(results)


if __name__ == "__main__":
    unittest.main()
