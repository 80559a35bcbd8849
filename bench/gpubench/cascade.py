# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cases of bench/serving.py for sequences that share their first keys, in pages of 64 rows, 64 query heads on 8 key heads of
width 128 in bf16."""

import math

from gpubench import places  # noqa: F401: makes the package importable
from gpubench.graphs import graph_of, time_graphs

HEADS, KEY_HEADS, DIM, ROWS = 64, 8, 128, 64
ERROR = 0.006


class CascadeCase:
    """One new query of each of `batch` sequences, which share `shared` keys and have `own` more. Sides:

    decode    flash_attn_with_kvcache, the table of each sequence begins with the pages of the shared keys
    copies    the same, each sequence has a copy of the shared keys
    cascade   tilewright.cascade
    shared, own, merge
              its launches by themselves
    """

    def __init__(self, batch, shared, own):
        assert shared % ROWS == 0  # the others begin with a page
        self.batch, self.shared, self.own = batch, shared, own
        self.name = f"cascade B{batch} S{shared // 1024}k + {own // 1024}k"

    @property
    def bytes(self):
        """Of all keys and values, each once."""
        return (self.shared + self.batch * self.own) * KEY_HEADS * DIM * 2 * 2

    def pools(self, torch, seed, copies):
        """Pools of keys and of values with pages in random order; the table of the shared keys, or of each copy of them, and
        that of each sequence's others. Pages that no table has, and rows behind the keys, hold NaN."""
        generator = torch.Generator("cuda").manual_seed(seed)
        shared, own = -(-self.shared // ROWS), -(-self.own // ROWS)
        count = copies * shared + self.batch * own
        order = torch.randperm(count + 3, generator=torch.Generator().manual_seed(seed)).int().cuda()
        pools = [torch.randn((count + 3, ROWS, KEY_HEADS, DIM), generator=generator, device="cuda", dtype=torch.bfloat16)
                 for _ in range(2)]
        first, rest = order[:copies * shared].view(copies, shared), order[copies * shared:count].view(self.batch, own)
        for pool in pools:
            pool[order[count:].long()] = math.nan
            if self.own % ROWS:
                pool[rest[:, -1].long(), self.own % ROWS:] = math.nan
            for copy in first[1:]:
                pool[copy.long()] = pool[first[0].long()]
        return pools, first, rest

    def keys_of(self, pools, first, rest, b):
        """Keys and values of sequence b, in f64."""
        return [pool[table.long()].flatten(0, 1)[:keys].double() for pool in pools
                for table, keys in ((first, self.shared), (rest[b], self.own))]

    def reference(self, torch, q, pools, first, rest):
        group, result = HEADS // KEY_HEADS, torch.empty(q.shape, dtype=torch.float64, device="cuda")
        for b in range(self.batch):
            shared_k, own_k, shared_v, own_v = self.keys_of(pools, first, rest, b)
            k, v = torch.cat((shared_k, own_k)), torch.cat((shared_v, own_v))
            scores = torch.einsum("hgd,jhd->hgj", q[b, 0].double().view(KEY_HEADS, group, DIM), k) / math.sqrt(DIM)
            result[b, 0] = torch.einsum("hgj,jhd->hgd", torch.softmax(scores, -1), v).flatten(0, 1)
        return result

    def sides(self, torch):
        import tilewright
        from tilewright import merge, prefix
        generator = torch.Generator("cuda").manual_seed(1)
        q = torch.randn((self.batch, 1, HEADS, DIM), generator=generator, device="cuda", dtype=torch.bfloat16)
        (k, v), first, rest = self.pools(torch, 1, 1)
        own = torch.full((self.batch,), self.own, dtype=torch.int32, device="cuda")
        number = torch.full((1,), self.shared, dtype=torch.int32, device="cuda")

        def decode(caches, table, lengths):
            return tilewright.flash_attn_with_kvcache(q, *caches, cache_seqlens=lengths, block_table=table, causal=True)

        def cascade():
            return tilewright.cascade(q, k, v, self.shared, shared_table=first[0], block_table=rest, cache_seqlens=own)
        expected = self.reference(torch, q, (k, v), first[0], rest)
        all_keys, table = own + self.shared, torch.cat((first.expand(self.batch, -1), rest), 1)
        sides = {"decode": (lambda: decode((k, v), table, all_keys), expected)}
        free, _ = torch.cuda.mem_get_info()
        if self.batch * self.shared * KEY_HEADS * DIM * 4 < free // 2:
            copies, each, others = self.pools(torch, 1, self.batch)
            of_copies = torch.cat((each, others), 1)
            sides["copies"] = lambda: decode(copies, of_copies, all_keys), self.reference(torch, q, copies, each[0], others)
        parts, sums = (torch.empty((2, self.batch, HEADS, *width), device="cuda") for width in ((DIM,), ()))
        parts = parts.bfloat16()
        o, lse, scale = torch.empty_like(parts[0]), torch.empty_like(sums[0]), 1 / math.sqrt(DIM)

        def shared():
            prefix._attend_shared(q[:, 0], k, v, first[0], number, parts[0], sums[0], {}, scale, "", 0)

        def own_keys():
            prefix._attend_own(q, k, v, rest, own, parts[1][:, None], sums[1][:, None], {}, "bottom_right", scale, "", 0)

        def merged():
            merge.launch_merge(parts.transpose(0, 1), sums.transpose(0, 1), None, None, o, lse)
            return o[:, None]
        return sides | {"cascade": (cascade, expected), "shared": (shared, None), "own": (own_keys, None),
                        "merge": (merged, expected)}

    def measure(self, torch, options, ours):
        import tilewright
        for path in sorted({item.partition("=")[2] for item in options.bundle}):
            tilewright.load_bundle(path)
        graphs, repeats, kept = {}, 8, self.sides(torch)
        for side, (call, expected) in kept.items():
            got = call()  # the merge after the two whose results it takes
            error = 0 if expected is None else ((got.double() - expected).norm() / expected.norm()).item()
            if not error <= ERROR:
                print(f"{self.name}: {side} is wrong: relative error {error:.4f}", flush=True)
                continue
            graphs[side] = graph_of(torch, [call] * repeats)
        result = time_graphs(torch, graphs, repeats, options.rounds)
        for side, row in result.items():
            print(f"{self.name:24} {side:10} {row['us']:9.2f} us ± {row['iqr']:5.2f}", flush=True)
        return result


CASCADES = [CascadeCase(*sizes) for sizes in ((64, 16384, 1024), (16, 16384, 1024), (64, 2048, 1024), (256, 4096, 512))]
