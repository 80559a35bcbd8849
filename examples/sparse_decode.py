#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decodes with sparse attention over a cache in pages, end to end: each step appends a key and a value, scores the blocks of
keys, chooses the best, and attends these alone. A chunk of a prompt comes first, whose blocks of queries choose in the same
way. Each result is compared with dense attention under a mask of the chosen blocks.

    PYTHONPATH=python python3 examples/sparse_decode.py [--keys 65536] [--sequences 16] [--blocks 16] [--steps 4]

On a GPU a step of decoding is also timed, as a CUDA graph, beside that of decoding over all keys. Without one, a tiny cache is
read by tilewright-run, which starts a process for each launch. Needs PyTorch."""

import argparse
import sys

import torch

import tilewright

BLOCK = 64  # keys of a block


class BlockSelector:
    """Chooses `count` blocks of the cached keys for each sequence, key head and block of queries, by the products of queries
    with the means of the keys of a block (kernels/block_means.mlir, kernels/block_scores.mlir). The first block, and those of the queries themselves, are
    always among them.

    The means are kept up to date as the cache grows: the keys themselves are read once, when a block becomes complete."""

    def __init__(self, k_pages, block_table, count, group, block=BLOCK, kernel=tilewright.kernel):
        pages, self.rows, heads, dim = k_pages.shape
        room = block_table.shape[1] * self.rows
        self.k_pages, self.block_table, self.count, self.block = k_pages, block_table, min(count, room // block), block
        page_rows = max(size for size in (1, 8, 16, 32, 64, 128) if self.rows % size == 0)
        batch = block_table.shape[0]
        self.means = k_pages.new_zeros(batch, heads, room // block, dim)
        self.update_means = kernel("block_means", D=dim, T=k_pages.dtype, LIST_BLOCK_N=block,
                                              PAGE_ROWS=page_rows)
        self.score = {queries: kernel("block_scores", D=dim, T=k_pages.dtype, GROUP=group,
                                                 LIST_BLOCK_N=block, LIST_BLOCK_M=queries) for queries in (block, 1)}
        # Lists are longer than the number of blocks of a short sequence: numbers of blocks behind its keys are ignored.
        self.counts = torch.full((batch, heads, 1), self.count, dtype=torch.int32, device=k_pages.device)

    def append(self, seq_lens, new_keys):
        """Notes the last `new_keys` keys of each sequence, which seq_lens counts."""
        self.update_means(k_pages=self.k_pages, block_table=self.block_table, seq_lens=seq_lens, means=self.means,
                          new_keys=new_keys)

    def __call__(self, q, seq_lens):
        """The block mask for q [B, Sq, Hq, D], the last queries of each sequence."""
        size = self.block if q.shape[1] > 1 else 1
        query_blocks = -(-q.shape[1] // size)
        scores = torch.empty(*self.means.shape[:2], query_blocks, self.means.shape[2], device=q.device)
        self.score[size](q=q.transpose(1, 2), means=self.means, seq_lens=seq_lens, scores=scores)
        return (self.counts.expand(-1, -1, query_blocks), scores.topk(self.count, sorted=False).indices.int(), (size, self.block))


def dense_reference(q, k, v, lengths, block_mask):
    """O [B, Sq, Hq, DV] in f64, by all keys [B, S, Hkv, D] and a mask."""
    counts, indices, (queries, keys) = block_mask
    group, o = q.shape[2] // k.shape[2], []
    for b, length in enumerate(lengths):
        own = torch.arange(length, device=q.device)
        listed = (indices[b][..., None] == own // keys) & (torch.arange(indices.shape[-1], device=q.device) < counts[b, ..., None])[..., None]
        kept = listed.any(2).repeat_interleave(queries, 1)[:, :q.shape[1]]  # [Hkv, Sq, length]
        kept = kept & (own <= torch.arange(q.shape[1], device=q.device)[:, None] + length - q.shape[1])
        scores = torch.einsum("shgd,khd->hgsk", q[b].double().unflatten(1, (-1, group)), k[b, :length].double()) / q.shape[3] ** 0.5
        weights = scores.masked_fill(~kept[:, None], -torch.inf).softmax(-1)
        o.append(torch.einsum("hgsk,khd->shgd", weights, v[b, :length].double()).flatten(1, 2))
    return torch.stack(o)


def relative_error(o, expected):
    return ((o.double() - expected).norm() / expected.norm()).item()


class Cache:
    """Pages in random order, with room for the lengths and `steps` further keys."""

    def __init__(self, lengths, steps, rows, heads, dim, dtype, device, generator):
        columns = -(-(max(lengths) + steps) // rows)
        self.table = torch.randperm(len(lengths) * columns, generator=generator).view(-1, columns).int().to(device)
        shape = (len(lengths) * columns, rows, heads, dim)
        self.k, self.v = (torch.full(shape, torch.nan, dtype=dtype, device=device) for _ in range(2))
        self.lengths = torch.tensor(lengths, dtype=torch.int32, device=device)
        for b, length in enumerate(lengths):
            at = torch.arange(length)
            for pool in (self.k, self.v):
                pool[self.table[b].long()[at // rows], at % rows] = torch.randn(
                    length, heads, dim, generator=generator).to(device, dtype)

    def keys_and_values(self):
        """In the order of sequences, [B, room, heads, D]; NaN where there are none."""
        return tuple(pool[self.table.long()].flatten(1, 2) for pool in (self.k, self.v))


def run(lengths, chunk, steps, count, heads, key_heads, dim, rows, dtype, device, block=BLOCK, seed=1, kernel=tilewright.kernel):
    """Attends a chunk of queries, then `steps` single ones. Returns the largest relative error, and the cache and the
    selector in their last state."""
    generator = torch.Generator().manual_seed(seed)
    cache = Cache(lengths, steps, rows, key_heads, dim, dtype, device, generator)
    select = BlockSelector(cache.k, cache.table, count, heads // key_heads, block, kernel)
    select.append(cache.lengths, max(lengths))

    def random(queries, n):
        return torch.randn(len(lengths), queries, n, dim, generator=generator).to(device, dtype)

    worst = 0.0
    for queries in [chunk] * (chunk > 0) + [1] * steps:
        q = random(queries, heads)
        if queries == 1:  # the chunk is in the cache already
            lengths_before, cache.lengths = cache.lengths, cache.lengths + 1
            tilewright.append_kv(random(1, key_heads).flatten(0, 1), random(1, key_heads).flatten(0, 1), cache.k, cache.v,
                                 slots_of(cache, lengths_before, rows))
            select.append(cache.lengths, 1)
        mask = select(q, cache.lengths)
        o = tilewright.flash_attn_with_kvcache(q, cache.k, cache.v, cache_seqlens=cache.lengths, block_table=cache.table,
                                               causal=True, block_mask=mask)
        expected = dense_reference(q, *cache.keys_and_values(), cache.lengths.tolist(), mask)
        worst = max(worst, relative_error(o, expected))
    return worst, cache, select


def slots_of(cache, at, rows):
    pages = cache.table.gather(1, (at // rows).long()[:, None])[:, 0]
    return pages * rows + at % rows


def time_graph(call, repeats=20):
    """The time of a call in microseconds, as one of several in a CUDA graph."""
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            call()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    graph.replay()
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1000 / repeats


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    has_gpu = torch.cuda.is_available()
    parser.add_argument("--keys", type=int, default=65536 if has_gpu else 200)
    parser.add_argument("--sequences", type=int, default=16 if has_gpu else 2)
    parser.add_argument("--blocks", type=int, default=16 if has_gpu else 4)
    parser.add_argument("--steps", type=int, default=4)
    options = parser.parse_args()
    if not has_gpu:
        tilewright.interpret()
    sizes = dict(heads=64, key_heads=8, dim=128, rows=64, dtype=torch.bfloat16, device="cuda", block=BLOCK) if has_gpu else \
        dict(heads=8, key_heads=2, dim=16, rows=16, dtype=torch.float32, device="cpu", block=16)
    lengths = [options.keys - 7 * b for b in range(options.sequences)]
    worst, cache, select = run(lengths, chunk=min(32, options.keys // 2), steps=options.steps, count=options.blocks, **sizes)
    print(f"{options.blocks} blocks of {sizes['block']} from {options.keys} keys: relative error {worst:.2g}")
    if worst > (0.01 if has_gpu else 1e-5):
        sys.exit("the results are wrong")
    if has_gpu:
        q = torch.randn(options.sequences, 1, 64, 128, dtype=torch.bfloat16, device="cuda")

        def attend(block_mask=None):
            tilewright.flash_attn_with_kvcache(q, cache.k, cache.v, cache_seqlens=cache.lengths, block_table=cache.table, causal=True,
                                               block_mask=block_mask)

        def sparse():
            select.append(cache.lengths, 1)
            attend(select(q, cache.lengths))
        dense_us, sparse_us = time_graph(attend), time_graph(sparse)
        print(f"all keys {dense_us:.1f} us, chosen blocks {sparse_us:.1f} us, {dense_us / sparse_us:.1f} times")


if __name__ == "__main__":
    main()
