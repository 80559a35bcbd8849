# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cases of bench/serving.py of multi-head latent attention: bf16, a cache of rows of 576 columns in pages of 64 rows, of which
512 are the value: in bf16, or e4m3 with a factor for each 128 of them."""

import math

from gpubench.append import Program
from gpubench.graphs import graph_of, time_graphs

DIM, VALUE_DIM, ROWS = 576, 512, 64
SPANS, LARGEST = 4, 448  # factors of a row, and the largest e4m3
ERROR = 0.006
CHECKED = 4  # sequences
ROTATED_BYTES = 200e6  # several times the L2


class Copy:
    """Queries, a cache in pages of a random order, and results."""

    def __init__(self, torch, case, seed):
        generator = torch.Generator("cuda").manual_seed(seed)

        def normal(*shape):
            return torch.randn(shape, generator=generator, device="cuda", dtype=torch.bfloat16)
        pages = math.ceil(case.keys / ROWS)
        self.q = normal(case.batch, case.queries, case.heads, DIM)  # as a projection writes them
        self.k = normal(case.batch * pages, ROWS, 1, DIM)
        if case.is_bytes:
            spans = self.k[..., :VALUE_DIM].float().view(-1, SPANS, VALUE_DIM // SPANS)
            self.scales = spans.abs().amax(-1) / LARGEST
            self.bytes = (spans / self.scales[..., None]).to(torch.float8_e4m3fn).view(-1, ROWS, 1, VALUE_DIM)
            self.rope = self.k[..., VALUE_DIM:].contiguous()
            latent = self.bytes.float().view(-1, SPANS, VALUE_DIM // SPANS) * self.scales[..., None]
            self.k = torch.cat((latent.view(-1, ROWS, 1, VALUE_DIM), self.rope.float()), -1)  # what the reference reads
        self.table = torch.randperm(case.batch * pages, device="cuda").int().view(case.batch, pages)
        self.lengths = torch.full((case.batch,), case.keys, dtype=torch.int32, device="cuda")
        self.o = torch.full((case.batch, case.queries, case.heads, VALUE_DIM), math.nan, device="cuda", dtype=torch.bfloat16)
        self.lse = torch.full((case.batch, case.heads, case.queries), math.nan, device="cuda")

    def expected(self, torch, case):
        """O and LSE of the first sequences, in f64."""
        results = [], []
        for b in range(min(case.batch, CHECKED)):
            k = self.k[self.table[b].long()].view(-1, DIM)[:case.keys].double()
            scores = torch.einsum("ihd,jd->hij", self.q[b].double(), k) / math.sqrt(DIM)
            last = case.keys - case.queries + torch.arange(case.queries, device="cuda")
            scores.masked_fill_(torch.arange(case.keys, device="cuda") > last[:, None], -math.inf)
            results[0].append(torch.einsum("hij,jd->ihd", scores.softmax(-1), k[:, :VALUE_DIM]))
            results[1].append(scores.logsumexp(-1))
        return [torch.stack(each) for each in results]


class MlaCase:
    """Sides: `ours`, and for a cache of bf16 `flashmla` if the package flash_mla is installed."""

    def __init__(self, heads, batch, keys, queries=1, is_bytes=False):
        self.heads, self.batch, self.keys, self.queries, self.is_bytes = heads, batch, keys, queries, is_bytes
        self.name = f"mla {'bytes ' if is_bytes else ''}H{heads} B{batch} S{keys // 1024}k" + (
            f" {queries} rows" if queries > 1 else "")

    @property
    def bytes(self):
        of_row = VALUE_DIM + SPANS * 4 + (DIM - VALUE_DIM) * 2 if self.is_bytes else DIM * 2
        return self.batch * self.keys * of_row

    @property
    def flops(self):
        return 2 * self.batch * self.heads * self.queries * self.keys * (DIM + VALUE_DIM)

    def calls(self, torch, program, copy):
        params = {"D": DIM, "DV": VALUE_DIM, "T": "bf16", "GROUP": self.heads, "PAGE_ROWS": ROWS, "CAUSAL": "bottom_right"}
        values = {"q": copy.q.transpose(1, 2), "k_pages": copy.k, "o": copy.o.transpose(1, 2), "lse": copy.lse,
                  "block_table": copy.table, "seq_lens": copy.lengths, "scale": 1 / math.sqrt(DIM)}
        name = "attention_mla_decode" + ("_bytes" if self.is_bytes else "")
        if self.is_bytes:
            values |= {"k_pages": copy.bytes, "rope_pages": copy.rope, "k_scales": copy.scales}
        launch = program.call(params, values, name, f"{name} H{self.heads}")

        def ours():
            launch()
            return copy.o, copy.lse
        sides = {"ours": ours}
        if self.is_bytes:
            return sides
        try:
            from flash_mla import flash_mla_with_kvcache, get_mla_metadata
        except ImportError:
            return sides
        metadata, splits = get_mla_metadata(copy.lengths, self.heads * self.queries, 1)
        sides["flashmla"] = lambda: flash_mla_with_kvcache(copy.q, copy.k, copy.table, copy.lengths, VALUE_DIM, metadata, splits,
                                                           causal=True)
        return sides

    def measure(self, torch, options, ours):
        program, count = Program(torch, ours), max(1, min(16, int(ROTATED_BYTES / self.bytes) + 1))
        copies = [Copy(torch, self, seed) for seed in range(count)]
        calls = [self.calls(torch, program, copy) for copy in copies]
        expected, graphs, repeats = copies[0].expected(torch, self), {}, max(count, 10)
        for side in calls[0]:
            got = [x[:CHECKED].double() for x in calls[0][side]()]
            error = max(((x - y).norm() / y.norm()).item() for x, y in zip(got, expected))
            if not error <= ERROR:
                print(f"{self.name}: {side} is wrong: relative error {error:.4f}", flush=True)
                continue
            graphs[side] = graph_of(torch, [calls[i % count][side] for i in range(repeats)])
        result = time_graphs(torch, graphs, repeats, options.rounds)
        for side, row in result.items():
            row["tbs"], row["tflops"] = self.bytes / row["us"] / 1e6, self.flops / row["us"] / 1e6
            print(f"{self.name:24} {side:10} {row['us']:9.2f} us ± {row['iqr']:5.2f} {row['tbs']:7.3f} TB/s "
                  f"{row['tflops']:7.1f} TFLOP/s", flush=True)
        return result


MLA_CASES = [MlaCase(128, 64, 8192), MlaCase(128, 1, 16384), MlaCase(128, 128, 4096), MlaCase(128, 64, 8192, 2),
             MlaCase(16, 64, 8192), MlaCase(16, 64, 8192, is_bytes=True), MlaCase(128, 64, 8192, is_bytes=True)]
