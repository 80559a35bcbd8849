# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cases of bench/serving.py of sparse attention: the best blocks of 64 keys of each sequence and key head, chosen by
examples/sparse_decode.py from a cache in pages of 64 rows; 64 query heads on 8 key heads of width 128 in bf16."""

import importlib.util
import math
import os

from gpubench.append import Program
from gpubench.graphs import graph_of, time_graphs
from gpubench.places import ROOT

HEADS, KEY_HEADS, DIM, ROWS, BLOCK = 64, 8, 128, 64, 64
ERROR = 0.006
QUERIES = 6  # sets of queries, which choose different blocks: more than the L2 holds
CHECKED = 4  # sequences at most


def load_example():
    spec = importlib.util.spec_from_file_location("sparse_decode", os.path.join(ROOT, "examples", "sparse_decode.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class SparseCase:
    """One new query of each sequence. Sides:

    dense    flash_attn_with_kvcache over all keys
    sparse   the means of new blocks, scores, the best blocks, and their attention
    select   the first three of these
    attend   the last
    """

    def __init__(self, batch, keys, count):
        self.batch, self.keys, self.count = batch, keys, count
        self.name = f"sparse B{batch} S{keys // 1024}k {count} x {BLOCK}"

    def measure(self, torch, options, ours):
        import tilewright
        for item in options.bundle:
            tilewright.load_bundle(item.partition("=")[2])
        program = Program(torch, ours)

        def kernel(name, **params):
            params = {key: "bf16" if key == "T" else value for key, value in params.items()}
            return lambda **values: program.call(params, values, name, name)()
        example, generator = load_example(), torch.Generator("cuda").manual_seed(1)

        def normal(*shape):
            return torch.randn(shape, generator=generator, device="cuda", dtype=torch.bfloat16)
        columns = math.ceil(self.keys / ROWS)
        table = torch.randperm(self.batch * columns, device="cuda", generator=generator).int().view(self.batch, columns)
        k, v = (normal(self.batch * columns, ROWS, KEY_HEADS, DIM) for _ in range(2))
        lengths = torch.full((self.batch,), self.keys, dtype=torch.int32, device="cuda")
        queries = [normal(self.batch, 1, HEADS, DIM) for _ in range(QUERIES)]
        select = example.BlockSelector(k, table, self.count, HEADS // KEY_HEADS, BLOCK, kernel)
        select.append(lengths, self.keys)
        masks = [select(q, lengths) for q in queries]

        def attend(q, mask=None):
            return tilewright.flash_attn_with_kvcache(q, k, v, cache_seqlens=lengths, block_table=table, causal=True, block_mask=mask)

        def choose(q):
            select.append(lengths, 1)
            return select(q, lengths)
        calls = {"dense": lambda i: attend(queries[i]), "sparse": lambda i: attend(queries[i], choose(queries[i])),
                 "select": lambda i: choose(queries[i]), "attend": lambda i: attend(queries[i], masks[i])}
        first = [pool[table[:CHECKED].long()].flatten(1, 2) for pool in (k, v)]
        mask = (masks[0][0][:CHECKED], masks[0][1][:CHECKED], masks[0][2])
        expected = example.dense_reference(queries[0][:CHECKED], *first, [self.keys] * len(first[0]), mask)
        graphs = {}
        for side, call in calls.items():
            got = call(0)
            error = example.relative_error(got[:CHECKED], expected) if side in ("sparse", "attend") else 0
            if not error <= ERROR:
                print(f"{self.name}: {side} is wrong: relative error {error:.4f}", flush=True)
                continue
            graphs[side] = graph_of(torch, [lambda i=i, call=call: call(i) for i in range(QUERIES)])
        result = time_graphs(torch, graphs, QUERIES, options.rounds)
        for side, row in result.items():
            row["times"] = result["dense"]["us"] / row["us"]
            print(f"{self.name:24} {side:10} {row['us']:9.2f} us ± {row['iqr']:5.2f} {row['times']:6.2f} times dense", flush=True)
        return result


SPARSE_CASES = [SparseCase(16, 65536, 16), SparseCase(1, 131072, 16), SparseCase(64, 8192, 16)]
