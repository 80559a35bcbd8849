# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The names of FlashAttention 3, and tilewright.paged_decode, on a GPU: in graphs whose lengths, offsets and pages change. The
tests are skipped, with a message, if there is no GPU."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from gpu_inputs import captured  # noqa: E402
from torch_on_cpu import TorchTest, torch  # noqa: E402

import tilewright  # noqa: E402
from test_torch_append import rotate, tables  # noqa: E402
from test_torch_decode import leftpad_reference, normal, paged  # noqa: E402
from test_torch_kvcache3 import chunks_reference  # noqa: E402

TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def int32(*values):
    return torch.tensor(values, dtype=torch.int32, device="cuda")


class GraphTest(TorchTest):
    def test_packed_queries_and_new_keys(self):
        """A graph of packed queries and keys, whose numbers change with the offsets; rows of no sequence stay finite."""
        batch, room, rows, total = 3, 96, 16, 24
        k_all, v_all = normal(batch, room, 2, 64, seed=2).bfloat16(), normal(batch, room, 2, 64, seed=3).bfloat16()
        q, new_k, new_v = normal(total, 8, 64).bfloat16(), normal(total, 2, 64, seed=8).bfloat16(), normal(total, 2, 64, seed=9).bfloat16()
        table = torch.randperm(batch * room // rows, generator=torch.Generator().manual_seed(1)).view(batch, -1)
        cos, sin = tables(room + total, 64)
        starts_q, starts_k, lengths = int32(0, 0, 0, 0), int32(0, 0, 0, 0), int32(0, 0, 0)
        k_cache, v_cache = (torch.empty(batch * room // rows, rows, 2, 64, dtype=torch.bfloat16, device="cuda") for _ in range(2))
        out = torch.zeros(total, 8, 64, dtype=torch.bfloat16, device="cuda")
        arrays = [x.cuda() for x in (q, new_k, new_v, cos, sin)]
        on_gpu = table.int().cuda()
        options = {"rotary_cos": arrays[3], "rotary_sin": arrays[4]}

        def step():
            return tilewright.flash_attn_with_kvcache(arrays[0], k_cache, v_cache, *arrays[1:3], cache_seqlens=lengths, page_table=on_gpu,
                                                      cu_seqlens_q=starts_q, cu_seqlens_k_new=starts_k, max_seqlen_q=total, out=out,
                                                      causal=True, return_softmax_lse=True, **options)
        graph, (o, _) = captured(step)
        self.assertIs(o, out)
        for queries, new, before in (([5, 0, 9], [3, 4, 9], [20, 0, 70]), ([1, 1, 1], [1, 1, 1], [16, 31, 0]), ([0, 24, 0], [0, 20, 4], [7, 8, 9])):
            for x, own in ((starts_q, queries), (starts_k, new)):
                x.copy_(torch.tensor([0, *own]).cumsum(0))
            lengths.copy_(torch.tensor(before))
            for cache, whole in ((k_cache, k_all), (v_cache, v_all)):
                cache[table.flatten().cuda()] = whole.view(-1, rows, 2, 64).cuda()
            out.zero_()
            graph.replay()
            at_q = at_k = 0
            for b, (count, added, length) in enumerate(zip(queries, new, before)):
                k, v = k_all[b].clone(), v_all[b].clone()
                positions = length + torch.arange(max(count, added))
                k[length:length + added] = rotate(new_k[at_k:at_k + added], positions[:added], cos, sin, True)
                v[length:length + added] = new_v[at_k:at_k + added]
                own = rotate(q[at_q:at_q + count], positions[:count], cos, sin, True)
                expected, _ = leftpad_reference(own[None], k[None], v[None], [length + added], [0], causal=True)
                self.assert_same((out[at_q:at_q + count].cpu(), k_cache[table[b].cuda()].flatten(0, 1)[:length + added].cpu()),
                                 (expected[0], k[:length + added]), **TOLERANCE)
                at_q, at_k = at_q + count, at_k + added

    def test_chunks(self):
        """A decode, several queries and a prompt, with chunks that the lengths of a replay end in."""
        k, v = normal(3, 640, 2, 64, seed=2).bfloat16(), normal(3, 640, 2, 64, seed=3).bfloat16()
        (k_pages, table), (v_pages, _) = paged(k, 16), paged(v, 16)
        for queries, chunk in ((1, 128), (3, 200), (150, 64)):
            q, lengths = normal(3, queries, 8, 64).bfloat16(), int32(1, 1, 1)
            *arrays, on_gpu = [x.cuda() for x in (q, k_pages, v_pages, table)]

            def step():
                return tilewright.flash_attn_with_kvcache(*arrays, cache_seqlens=lengths, page_table=on_gpu, causal=True,
                                                          attention_chunk=chunk, return_softmax_lse=True)
            graph, (o, lse) = captured(step)
            for counts in ([640, 129, 0], [256, 257, 500]):
                lengths.copy_(torch.tensor(counts))
                graph.replay()
                expected = chunks_reference(q, k, v, counts, chunk, causal=True)
                self.assert_same((o.cpu(), lse.cpu()), expected, **TOLERANCE)

    def test_lists_of_pages(self):
        """The conversion of lists and a decode are one graph; lists and lengths change."""
        rows, pages = 16, 20
        pool = normal(pages, 2, 2, rows, 64, seed=2).bfloat16()
        q, cache = normal(3, 8, 64).bfloat16(), pool.cuda()
        indptr, indices, last, on_gpu = int32(0, 1, 2, 3), int32(*range(pages)), int32(1, 1, 1), q.cuda()

        def step():
            return tilewright.paged_decode(on_gpu, cache, indptr, indices, last, max_pages=8, kv_layout="HND", num_splits=3)
        graph, o = captured(step)
        for counts, ends in (([8, 0, 5], [16, 0, 3]), ([1, 8, 8], [1, 16, 7]), ([0, 0, 3], [0, 0, 16])):
            order = torch.randperm(pages, generator=torch.Generator().manual_seed(sum(counts)))
            indptr.copy_(torch.tensor([0, *counts]).cumsum(0))
            indices.copy_(order)
            last.copy_(torch.tensor(ends))
            graph.replay()
            first = 0
            for b, (count, end) in enumerate(zip(counts, ends)):
                own = pool[order[first:first + count]].transpose(2, 3).transpose(0, 1).flatten(1, 2)  # [2, keys, Hkv, D]
                length = max(count - 1, 0) * rows + end
                expected, _ = leftpad_reference(q[b][None, None], own[:1], own[1:], [length], [0])
                self.assert_same((o[b].cpu(),), (expected[0, 0],), **TOLERANCE)
                first += count


if __name__ == "__main__":
    unittest.main()
