# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tilewright.append_kv, and new keys of tilewright.flash_attn_with_kvcache, on a GPU beside plain PyTorch. The tests are
skipped, with a message, if there is no GPU."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from gpu_inputs import captured  # noqa: E402
from torch_on_cpu import TorchTest, torch  # noqa: E402

import tilewright  # noqa: E402
import tilewright.append  # noqa: E402, registers the operator
from test_torch_append import pools, rotate, tables  # noqa: E402
from test_torch_decode import normal, reference  # noqa: E402


def on_gpu(*tensors):
    return [x.cuda() for x in tensors]


class AppendTest(TorchTest):
    def check(self, dtype, layout, rows, tokens, heads, width, interleaved=None, columns=64, offset=0):
        """Compares every element of the caches. `offset` moves k, so that its rows are not aligned."""
        pages = -(-2 * tokens // rows) + 1
        k_cache, v_cache = pools(pages, rows, heads, width, width, dtype, layout)
        expected = [x.clone() for x in (k_cache, v_cache)]
        k, v, q = (normal(tokens, heads, width, seed=seed, dtype=dtype) for seed in range(3))
        slots = torch.randperm(pages * rows, generator=torch.Generator().manual_seed(tokens))[:tokens]
        slots[tokens // 2], slots[tokens // 3] = -1, pages * rows
        positions = torch.randint(500, (tokens,), generator=torch.Generator().manual_seed(2))
        options, k_used, q_used = {}, k, None
        if interleaved is not None:
            cos, sin = tables(500, columns)
            k_used, q_used = (rotate(x, positions, cos, sin, interleaved) for x in (k, q))
            cos, sin, positions, q = on_gpu(cos, sin, positions, q)
            options = {"rotary_cos": cos, "rotary_sin": sin, "positions": positions, "q": q, "rotary_interleaved": interleaved}
        kept = (slots >= 0) & (slots < pages * rows)
        for cache, x in zip(expected, (k_used, v)):
            cache[slots[kept] // rows, slots[kept] % rows] = x[kept]
        moved = torch.empty(tokens * heads * width + offset, dtype=dtype, device="cuda")[offset:].view(tokens, heads, width)
        moved.copy_(k)
        given = [self.as_laid(x) for x in (k_cache, v_cache)]
        got = tilewright.append_kv(moved, v.cuda(), *given, slots.cuda(), **options)
        exact = {"rtol": 0, "atol": 0}
        rounded = exact if interleaved is None else {"rtol": 2 * torch.finfo(dtype).eps, "atol": 8 * torch.finfo(dtype).eps}
        self.assert_same((given[0].cpu(),), (expected[0],), **rounded)
        self.assert_same((given[1].cpu(),), (expected[1],), **exact)
        if interleaved is not None:
            self.assert_same((got.cpu(),), (q_used,), **rounded)

    @staticmethod
    def as_laid(x):
        """A copy on the GPU with the strides of x, and gaps where x has them."""
        last = sum((extent - 1) * stride for extent, stride in zip(x.shape, x.stride()))
        copy = torch.zeros(last + 1, dtype=x.dtype, device="cuda").as_strided(x.shape, x.stride())
        copy.copy_(x)
        return copy

    def test_layouts(self):
        for layout in ("NHD", "HND", "interleaved", "fused"):
            for dtype, rows, tokens, heads, width in ((torch.bfloat16, 64, 8192, 8, 128), (torch.float16, 16, 1, 8, 64),
                                                      (torch.float32, 1, 300, 3, 80), (torch.float64, 16, 100, 21, 40)):
                with self.subTest(layout=layout, dtype=dtype):
                    self.check(dtype, layout, rows, tokens, heads, width)

    def test_rotary(self):
        for interleaved in (False, True):
            for dtype, tokens, width, columns in ((torch.bfloat16, 2000, 128, 128), (torch.float16, 64, 80, 32),
                                                  (torch.float32, 33, 64, 64), (torch.float64, 5, 64, 48)):
                with self.subTest(interleaved=interleaved, dtype=dtype):
                    self.check(dtype, "NHD", 16, tokens, 8, width, interleaved, columns)

    def test_rows_that_are_not_aligned(self):
        self.check(torch.bfloat16, "NHD", 16, 70, 4, 128, offset=1)
        self.check(torch.bfloat16, "NHD", 16, 70, 4, 128, interleaved=False, offset=3)

    def test_a_graph_with_other_slots(self):
        k, v = on_gpu(normal(6, 2, 64, dtype=torch.bfloat16), normal(6, 2, 64, seed=2, dtype=torch.bfloat16))
        k_cache, v_cache = torch.zeros(2, 8, 16, 2, 64, dtype=torch.bfloat16, device="cuda")
        slots = torch.arange(6, device="cuda")
        graph, _ = captured(lambda: tilewright.append_kv(k, v, k_cache, v_cache, slots))
        for numbers in ([100, -1, 3, 127, 128, 50], [-1] * 6):
            k_cache.zero_()
            slots.copy_(torch.tensor(numbers))
            k.copy_(k + 1)
            graph.replay()
            expected = torch.zeros_like(k_cache).view(128, 2, 64)
            for n, slot in enumerate(numbers):
                if 0 <= slot < 128:
                    expected[slot] = k[n]
            self.assert_same((k_cache.view(128, 2, 64),), (expected,), rtol=0, atol=0)

    def test_a_step_of_decoding_in_a_graph(self):
        batch, room, rows, steps = 3, 48, 16, 5
        table = torch.randperm(batch * room // rows).view(batch, -1).int().cuda()
        cos, sin = tables(room, 64)
        shape = (batch * room // rows, rows, 2, 64)
        k_cache, v_cache = (torch.full(shape, torch.nan, dtype=torch.bfloat16, device="cuda") for _ in range(2))
        q, k, v = (torch.zeros(batch, 1, heads, 64, dtype=torch.bfloat16, device="cuda") for heads in (8, 2, 2))
        lengths, on_cuda = torch.zeros(batch, dtype=torch.int32, device="cuda"), {}
        on_cuda["rotary_cos"], on_cuda["rotary_sin"] = on_gpu(cos, sin)

        def step():
            return tilewright.flash_attn_with_kvcache(q, k_cache, v_cache, k, v, cache_seqlens=lengths, block_table=table,
                                                      rotary_interleaved=False, **on_cuda)
        graph, o = captured(step)
        k_cache.fill_(torch.nan), v_cache.fill_(torch.nan)
        all_k, all_v = [], []
        for number in range(steps):
            at = torch.full((batch, 1), number)
            new = [normal(batch, 1, heads, 64, seed=3 * number + heads, dtype=torch.bfloat16) for heads in (8, 2, 3)]
            new[2] = new[2][:, :, :2]
            for to, x in zip((q, k, v), new):
                to.copy_(x)
            lengths.fill_(number)
            graph.replay()
            all_k.append(rotate(new[1], at, cos, sin, False)), all_v.append(new[2])
            expected, _ = reference(rotate(new[0], at, cos, sin, False), torch.cat(all_k, 1), torch.cat(all_v, 1),
                                    [number + 1] * batch, 0.125)
            self.assert_same((o.cpu(),), (expected,), rtol=2e-2, atol=2e-2)

    def test_opcheck(self):
        k, cache = torch.randn(3, 2, 32, device="cuda"), torch.zeros(5, 4, 2, 32, device="cuda")
        arguments = (k, k, cache, cache.clone(), torch.arange(3, device="cuda"), *[None] * 7, False, False, *[None] * 4)
        torch.library.opcheck(torch.ops.tilewright.append.default, arguments, test_utils=("test_schema", "test_faketensor"))


if __name__ == "__main__":
    unittest.main()
