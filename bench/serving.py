#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares decoding, attention of one new query of each sequence over a cache of keys and values, on one GPU.

    bench/serving.py                                     every case; tilewrightc compiles the kernels
    bench/serving.py --cases "B1 S16k" --sides pages64,cudnn --json serving.json
    bench/serving.py --bundle D128=decode.twb            bundles that are compiled already; no tilewrightc needed

Cases: bf16, by name `B<sequences> S<keys>`, 64 query heads on 8 key heads of width 128 if the name has no others. Sides:

    rows       Tilewright, the keys of each sequence in one piece
    pages64    Tilewright, pages of 64 rows in random order, [pages, rows, heads, D]
    pages16    the same with pages of 16 rows
    hnd64      pages of 64 rows, [pages, heads, rows, D]
    cudnn      PyTorch's scaled_dot_product_attention by cuDNN, the keys in one piece; only for equal lengths
    fa4        FlashAttention-4 over pages of 64 rows, if the package flash-attn-4 is installed

A side is first checked against a reference in f64 (‖O - ref‖ at most 0.006 ‖ref‖) with unused rows of the cache NaN on
Tilewright's sides; one that fails is reported and not timed. Each side is then a CUDA graph of many calls over caches that
rotate, so that the L2 holds nothing of them; rounds replay the graphs in turn. The output has medians in microseconds,
interquartile ranges, and the keys and values read in TB/s.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

from gpubench.library import Library, Operation
from gpubench.places import ROOT, find_library, find_tool

KERNEL = os.path.join(ROOT, "kernels", "attention_decode.mlir")
ROTATED_BYTES = 600e6  # of the caches of a case: more than ten times the L2
ERROR = 0.006


class Case:
    def __init__(self, name, lengths, heads=64, key_heads=8, dim=128):
        self.name, self.lengths, self.heads, self.key_heads, self.dim = name, lengths, heads, key_heads, dim

    @property
    def bytes(self):
        return sum(self.lengths) * self.key_heads * self.dim * 2 * 2


def mixed_lengths():
    """64 lengths from 128 to 16,384, evenly in their logarithm, in an order that does not depend on them."""
    lengths = [int(128 * 128 ** (i / 63)) for i in range(64)]
    return [lengths[i * 37 % 64] for i in range(64)]


CASES = [
    Case("B1 S1k", [1024]),
    Case("B1 S16k", [16384]),
    Case("B8 S2k", [2048] * 8),
    Case("B1 S128k", [131072]),
    Case("B4 S64k", [65536] * 4),
    Case("B16 S8k", [8192] * 16),
    Case("B64 S8k", [8192] * 64),
    Case("64 lengths", mixed_lengths()),
    Case("B128 32/4 S4k", [4096] * 128, 32, 4),
    Case("B16 32/32 S4k", [4096] * 16, 32, 32),
    Case("B32 D64 S8k", [8192] * 32, dim=64),
]


class Cache:
    """Keys and values of one copy of a case, in one piece and, on demand, in pages."""

    def __init__(self, torch, case, seed):
        self.torch, self.case = torch, case
        generator = torch.Generator("cuda").manual_seed(seed)
        shape = (len(case.lengths), max(case.lengths), case.key_heads, case.dim)
        self.k = torch.randn(shape, generator=generator, device="cuda", dtype=torch.bfloat16)
        self.v = torch.randn(shape, generator=generator, device="cuda", dtype=torch.bfloat16)
        self.q = torch.randn((shape[0], case.heads, case.dim), generator=generator, device="cuda", dtype=torch.bfloat16)
        for b, length in enumerate(case.lengths):
            self.k[b, length:] = float("nan")
            self.v[b, length:] = float("nan")

    def pages(self, rows, heads_outside):
        """Returns pools of keys and of values, and the block table."""
        torch, case = self.torch, self.case
        count = [math.ceil(length / rows) for length in case.lengths]
        order = torch.randperm(sum(count), generator=torch.Generator().manual_seed(1)).cuda()
        table = torch.zeros((len(count), max(count)), dtype=torch.int32, device="cuda")
        shape = (sum(count), rows, case.key_heads, case.dim)
        if heads_outside:
            shape = (shape[0], shape[2], shape[1], shape[3])
        k, v = (torch.full(shape, float("nan"), dtype=torch.bfloat16, device="cuda") for _ in range(2))
        views = [x.transpose(1, 2) if heads_outside else x for x in (k, v)]
        first = 0
        for b, own in enumerate(count):
            numbers = order[first:first + own]
            table[b, :own] = numbers.int()
            for view, rows_of in zip(views, (self.k[b], self.v[b])):
                padded = torch.full((own * rows, *rows_of.shape[1:]), float("nan"), dtype=torch.bfloat16, device="cuda")
                padded[:case.lengths[b]] = rows_of[:case.lengths[b]]
                view[numbers] = padded.view(own, rows, *rows_of.shape[1:])
            first += own
        return views[0], views[1], table

    def reference(self):
        torch, case = self.torch, self.case
        group = case.heads // case.key_heads
        result = torch.empty(self.q.shape, dtype=torch.float64, device="cuda")
        for b, length in enumerate(case.lengths):
            for h in range(case.key_heads):
                q = self.q[b, h * group:(h + 1) * group].double()
                scores = q @ self.k[b, :length, h].double().T / math.sqrt(case.dim)
                result[b, h * group:(h + 1) * group] = torch.softmax(scores, -1) @ self.v[b, :length, h].double()
        return result


class Tilewright:
    """Calls of attention_decode. Plans and workspaces live as long as this object."""

    def __init__(self, torch, options):
        self.torch, self.options = torch, options
        self.library = Library(options.library or find_library())
        self.bundles, self.kept = {}, []
        for item in options.bundle:
            name, _, path = item.partition("=")
            self.bundles[name] = self.library.open(path)

    def bundle(self, case, page_rows):
        group = case.heads // case.key_heads
        for name in (f"D{case.dim} G{group} P{page_rows}", f"D{case.dim}"):
            if name in self.bundles:
                return self.bundles[name]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "decode.twb")
            subprocess.run([self.options.tilewrightc or find_tool(), KERNEL, "--program=attention_decode", "--quiet",
                            "--emit=bundle", "--target=sm_90a", "-o", path,
                            *(f"--param={text}" for text in self.params(case, page_rows, 0, True))], check=True)
            self.bundles[name] = self.library.open(path)
        return self.bundles[name]

    @staticmethod
    def params(case, page_rows, splits, as_text=False):
        values = {"D": case.dim, "T": "bf16", "GROUP": case.heads // case.key_heads, "PAGE_ROWS": page_rows, "SPLITS": splits}
        return [f"{name}={value}" for name, value in values.items()] if as_text else values

    def call(self, case, cache, out, page_rows, heads_outside=False):
        torch = self.torch
        plan = Operation(self.library, self.bundle(case, page_rows), "attention_decode", self.params(case, page_rows, 0))
        plan.prepare(0)
        values = {"q": cache.q, "o": out, "scale": 1 / math.sqrt(case.dim),
                  "seq_lens": torch.tensor(case.lengths, dtype=torch.int32, device="cuda")}
        if page_rows:
            values["k_pages"], values["v_pages"], values["block_table"] = cache.pages(page_rows, heads_outside)
        else:
            values["k_pages"], values["v_pages"] = cache.k, cache.v
        launch = plan.bind(values, lambda size: torch.empty(size, dtype=torch.uint8, device="cuda"),
                           lambda: torch.cuda.current_stream().cuda_stream)
        self.kept.append((plan, values, launch))
        return launch


def cudnn_call(torch, case, cache, out):
    if len(set(case.lengths)) > 1:
        return None
    q, k, v = cache.q[:, :, None], cache.k.transpose(1, 2), cache.v.transpose(1, 2)

    def call():
        with torch.nn.attention.sdpa_kernel([torch.nn.attention.SDPBackend.CUDNN_ATTENTION]):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)[:, :, 0]
    return call


def fa4_call(torch, case, cache, out):
    from flash_attn.cute.interface import flash_attn_varlen_func
    k, v, table = cache.pages(64, False)
    k, v = k.nan_to_num(0), v.nan_to_num(0)
    lengths = torch.tensor(case.lengths, dtype=torch.int32, device="cuda")
    starts = torch.arange(len(case.lengths) + 1, dtype=torch.int32, device="cuda")

    def call():
        result = flash_attn_varlen_func(cache.q, k, v, cu_seqlens_q=starts, seqused_k=lengths, page_table=table,
                                        max_seqlen_q=1, causal=True)
        return result[0] if isinstance(result, tuple) else result
    return call


def side_of(name, torch, ours, case, cache, out):
    if name == "rows":
        return ours.call(case, cache, out, 0)
    if name.startswith(("pages", "hnd")):
        return ours.call(case, cache, out, int(name.lstrip("pageshnd")), name.startswith("hnd"))
    return {"cudnn": cudnn_call, "fa4": fa4_call}[name](torch, case, cache, out)


def graph_of(torch, calls):
    """A graph of the calls; its caller keeps what they use."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for call in calls[:4]:
            call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for call in calls:
                call()
    return graph


def measure(torch, case, options, ours):
    copies = max(1, min(40, int(ROTATED_BYTES / case.bytes) + 1))
    caches = [Cache(torch, case, seed) for seed in range(copies)]
    outs = [torch.empty_like(cache.q) for cache in caches]
    expected = caches[0].reference()
    repeats = max(copies, min(200, int(2000 / max(case.bytes / 4.5e6, 3))))
    graphs, kept, result = {}, [], {}
    for side in options.sides:
        outs[0].fill_(float("nan"))
        try:
            calls = [side_of(side, torch, ours, case, cache, out) for cache, out in zip(caches, outs)]
            if calls[0] is None:
                continue
            returned = calls[0]()
            got = (outs[0] if returned is None else returned).double()
            error = ((got - expected).norm() / expected.norm()).item()
            if not error <= ERROR:
                print(f"{case.name}: {side} is wrong: relative error {error:.4f}", flush=True)
                continue
            graphs[side] = graph_of(torch, [calls[i % copies] for i in range(repeats)])
            kept.append(calls)
        except Exception as error:  # a peer that refuses a case
            print(f"{case.name}: {side}: {type(error).__name__}: {str(error)[:200]}", flush=True)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = {side: [] for side in graphs}
    for number in range(options.rounds + 1):
        for side, graph in graphs.items():
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            if number:
                times[side].append(begin.elapsed_time(end) * 1000 / repeats)
    for side, values in times.items():
        quartiles = statistics.quantiles(values, n=4)
        result[side] = {"us": statistics.median(values), "iqr": quartiles[2] - quartiles[0],
                        "tbs": case.bytes / statistics.median(values) / 1e6}
        row = result[side]
        print(f"{case.name:14} {side:10} {row['us']:9.2f} us ± {row['iqr']:5.2f} {row['tbs']:7.3f} TB/s", flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=lambda text: text.split(","), default=[], help="names of cases; default: all")
    parser.add_argument("--sides", type=lambda text: text.split(","), default="rows,pages64,pages16,hnd64,cudnn".split(","))
    parser.add_argument("--bundle", action="append", default=[], help="D<width>[ G<group> P<page rows>]=file.twb")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json")
    parser.add_argument("--library")
    parser.add_argument("--tilewrightc")
    options = parser.parse_args()
    import torch
    if not torch.cuda.is_available():
        sys.exit("serving.py needs a GPU")
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    ours = Tilewright(torch, options)
    unknown = set(options.cases) - {case.name for case in CASES}
    if unknown:
        sys.exit(f"no case is named {', '.join(sorted(unknown))}; there are {', '.join(case.name for case in CASES)}")
    results = {}
    for case in CASES:
        if not options.cases or case.name in options.cases:
            results[case.name] = measure(torch, case, options, ours)
            ours.kept.clear()
            torch.cuda.empty_cache()
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cases": results}, file, indent=1)


if __name__ == "__main__":
    main()
