# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cases of bench/serving.py that write new keys and values, of 8 heads of width 128 in bf16, to pages of 64 rows."""

import os
import subprocess
import tempfile

from gpubench.graphs import graph_of, time_graphs
from gpubench.library import Operation
from gpubench.places import ROOT, find_tool

KERNELS = os.path.join(ROOT, "kernels")
HEADS, QUERY_HEADS, DIM, ROWS, POSITIONS = 8, 64, 128, 64, 4096


class Program:
    """Calls of attention_append, or of another program, which live as long as this object. `name`: of a bundle that may be
    compiled already."""

    def __init__(self, torch, ours):
        self.torch, self.ours, self.bundles, self.kept = torch, ours, {}, []

    def call(self, params, values, program="attention_append", name=None):
        torch, key = self.torch, f"{program} {params}"
        if name in self.ours.bundles:
            self.bundles[key] = self.ours.bundles[name]
        if key not in self.bundles:
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "append.twb")
                subprocess.run([self.ours.options.tilewrightc or find_tool(), os.path.join(KERNELS, program + ".mlir"), "--quiet",
                                "--emit=bundle", "--target=sm_90a", "-o", path,
                                *(f"--param={name}={value}" for name, value in params.items())], check=True)
                self.bundles[key] = self.ours.library.open(path)
        plan = Operation(self.ours.library, self.bundles[key], program, params)
        plan.prepare(0)
        launch = plan.bind(values, lambda size: torch.empty(size, dtype=torch.uint8, device="cuda"),
                           lambda: torch.cuda.current_stream().cuda_stream)
        self.kept.append((plan, values, launch))
        return launch


def rotate(torch, x, cos, sin, interleaved):
    """In f32, as engines' plain versions do."""
    x, half = x.float(), cos.shape[-1]
    x1, x2 = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    y1, y2 = x1 * cos[:, None] - x2 * sin[:, None], x2 * cos[:, None] + x1 * sin[:, None]
    return (torch.stack((y1, y2), -1).flatten(-2) if interleaved else torch.cat((y1, y2), -1)).bfloat16()


class Copy:
    """New keys and values, queries, a cache of its own, and what the cache must then hold."""

    def __init__(self, torch, tokens, heads_outside, seed):
        generator = torch.Generator("cuda").manual_seed(seed)
        rows = torch.randn((tokens, QUERY_HEADS + 2 * HEADS, DIM), generator=generator, device="cuda", dtype=torch.bfloat16)
        self.q, self.k, self.v = rows.split((QUERY_HEADS, HEADS, HEADS), 1)  # as a projection writes them
        pages = max(2 * tokens // ROWS, 64)
        shape = (pages, HEADS, ROWS, DIM) if heads_outside else (pages, ROWS, HEADS, DIM)
        self.k_cache, self.v_cache = (torch.zeros(shape, dtype=torch.bfloat16, device="cuda") for _ in range(2))
        self.k_pages, self.v_pages = (x.transpose(1, 2) if heads_outside else x for x in (self.k_cache, self.v_cache))
        self.slots = torch.randperm(pages * ROWS, generator=generator, device="cuda")[:tokens].contiguous()
        self.places = self.slots // ROWS, self.slots % ROWS
        self.positions = torch.randint(POSITIONS, (tokens,), generator=generator, device="cuda")
        angles = torch.arange(POSITIONS, device="cuda")[:, None] * 10000.0 ** (-torch.arange(0, DIM, 2, device="cuda") / DIM)
        self.cos, self.sin = angles.cos(), angles.sin()
        self.q_out = torch.zeros((tokens, QUERY_HEADS, DIM), dtype=torch.bfloat16, device="cuda")


class AppendCase:
    """Sides: `ours`; `torch`, which is index_put_ of keys and of values, behind plain PyTorch for a rotation; and `vllm`, its
    reshape_and_cache_flash, if the package is installed and nothing is rotated."""

    def __init__(self, tokens, rotation="", heads_outside=False):
        self.tokens, self.rotation, self.heads_outside = tokens, rotation, heads_outside
        self.name = f"append T{tokens}" + (f" {rotation}" if rotation else "") + (" hnd" if heads_outside else "")

    @property
    def bytes(self):
        heads = 2 * HEADS + (QUERY_HEADS if self.rotation else 0)
        return self.tokens * heads * DIM * 2 * 2  # read and written

    def calls(self, torch, program, copy):
        params = {"D": DIM, "T": "bf16", "INDICES": "i64"}
        values = {"k": copy.k, "v": copy.v, "k_pages": copy.k_pages, "v_pages": copy.v_pages, "slots_i64": copy.slots}
        interleaved = self.rotation == "pairs"
        if self.rotation:
            params |= {"POSITIONS": "true", "ROTARY": DIM, "PAIRS": str(interleaved).lower(), "TR": "f32"}
            values |= {"positions_i64": copy.positions, "cos": copy.cos, "sin": copy.sin, "q": copy.q, "q_out": copy.q_out}

        def plain():
            k = copy.k
            if self.rotation:
                cos, sin = copy.cos[copy.positions], copy.sin[copy.positions]
                k = rotate(torch, copy.k, cos, sin, interleaved)
                copy.q_out.copy_(rotate(torch, copy.q, cos, sin, interleaved))
            copy.k_pages.index_put_(copy.places, k)
            copy.v_pages.index_put_(copy.places, copy.v)

        sides = {"torch": plain, "ours": program.call(params, values)}
        if not self.rotation and not self.heads_outside:
            try:
                from vllm import _custom_ops
            except ImportError:
                return sides
            one = torch.ones((), device="cuda")
            sides["vllm"] = lambda: _custom_ops.reshape_and_cache_flash(copy.k, copy.v, copy.k_cache, copy.v_cache, copy.slots,
                                                                        "auto", one, one)
        return sides

    def measure(self, torch, options, ours):
        program, count = Program(torch, ours), max(2, min(64, int(300e6 / self.bytes) + 1))
        copies = [Copy(torch, self.tokens, self.heads_outside, seed) for seed in range(count)]
        calls = [self.calls(torch, program, copy) for copy in copies]
        graphs, expected, repeats = {}, None, max(count, 100)
        for side in calls[0]:
            first = copies[0]
            results = (first.k_cache, first.v_cache, first.q_out)
            for x in results:
                x.zero_()
            calls[0][side]()
            got = [x.double() for x in results]
            expected = expected or got  # of the first side, PyTorch
            error = max(((x - y).norm() / y.norm().clamp(min=1)).item() for x, y in zip(got, expected))
            if not error <= (1e-3 if self.rotation else 0) or not expected[0].any():
                print(f"{self.name}: {side} is wrong: relative error {error:.4f}", flush=True)
                continue
            graphs[side] = graph_of(torch, [calls[i % count][side] for i in range(repeats)])
        result = time_graphs(torch, graphs, repeats, options.rounds)
        for side, row in result.items():
            row["gbs"] = self.bytes / row["us"] / 1e3
            print(f"{self.name:20} {side:10} {row['us']:9.2f} us ± {row['iqr']:5.2f} {row['gbs']:7.0f} GB/s", flush=True)
        return result


class ChainCase:
    """A step of decoding: append to the sequences of a decode case, and the decode, in one graph. Sides: the `decode` alone,
    `ours` (rotated and appended by one launch, then the decode), `apart` (the same, but neither starts before what is in front
    of it has ended), and `torch` (index_put_ of keys and of values in place of it, not rotated)."""

    def __init__(self, case):
        self.case, self.name = case, f"append + decode {case.name}"

    def measure(self, torch, options, ours, cache_type):
        case, program = self.case, Program(torch, ours)
        count = max(1, min(40, int(600e6 / case.bytes) + 1))
        calls, batch = {"decode": [], "ours": [], "apart": [], "torch": []}, len(case.lengths)
        for seed in range(count):
            cache = cache_type(torch, case, seed)
            k_pages, v_pages, table = cache.pages(ROWS, False)
            lengths = torch.tensor(case.lengths, dtype=torch.int32, device="cuda")
            before, total = lengths - 1, torch.zeros_like(lengths)  # the last key is the new one
            last = before.long()
            page = table.gather(1, (last // ROWS)[:, None])[:, 0].long()
            new_k, new_v = k_pages[page, last % ROWS].clone(), v_pages[page, last % ROWS].clone()
            angles = torch.arange(max(case.lengths), device="cuda")[:, None] * 10000.0 ** (
                -torch.arange(0, case.dim, 2, device="cuda") / case.dim)
            cos, sin = angles.cos(), angles.sin()
            q_out, out = torch.empty_like(cache.q), torch.empty_like(cache.q)
            pool = (k_pages, v_pages, table)
            chains = {}
            for side in ("ours", "apart"):
                append = program.call(
                    {"D": case.dim, "T": "bf16", "PLACES": "table", "ROTARY": case.dim, "TR": "f32"},
                    {"k": new_k, "v": new_v, "k_pages": k_pages, "v_pages": v_pages, "seq_lens": before, "block_table": table,
                     "total_lens": total, "cos": cos, "sin": sin, "q": cache.q[:, :, 0], "q_out": q_out[:, :, 0]})
                decode = ours.call(case, cache, out, ROWS, pool=pool, seq_lens=total, q=q_out)
                for kept in (program.kept, ours.kept):
                    kept[-1][0].overlap_previous(side == "ours")
                chains[side] = lambda append=append, decode=decode: (append(), decode()) and None
            plain = ours.call(case, cache, out, ROWS, pool=pool)

            def torch_chain(k_pages=k_pages, v_pages=v_pages, page=page, row=last % ROWS, k=new_k, v=new_v, plain=plain):
                k_pages.index_put_((page, row), k)
                v_pages.index_put_((page, row), v)
                plain()

            for side, call in (("decode", plain), *chains.items(), ("torch", torch_chain)):
                calls[side].append(call)
            if seed == 0:
                results = []
                for chain in chains.values():
                    graph = graph_of(torch, [chain])  # launches of a graph are close enough to overlap
                    k_pages[page, last % ROWS] = v_pages[page, last % ROWS] = float("nan")
                    for x in (total, q_out):
                        x.zero_()
                    out.fill_(float("nan"))
                    graph.replay()
                    results.append((out.clone(), total.clone()))
                cache.q = rotate(torch, cache.q[:, :, 0], cos[last], sin[last], False)[:, :, None]
                cache.k[torch.arange(batch, device="cuda"), last] = rotate(torch, new_k, cos[last], sin[last], False)
                expected = cache.reference()
                for side, (got, new_lengths) in zip(chains, results):
                    error = ((got.double() - expected).norm() / expected.norm()).item()
                    if not error <= 0.006 or not torch.equal(new_lengths, lengths):
                        print(f"{self.name}: {side} is wrong: relative error {error:.4f}, lengths {new_lengths.tolist()[:4]}", flush=True)
                        return {}
        repeats = max(count, min(200, int(2000 / max(case.bytes / 4.5e6, 3))))
        graphs = {side: graph_of(torch, [own[i % count] for i in range(repeats)]) for side, own in calls.items()}
        result = time_graphs(torch, graphs, repeats, options.rounds)
        for side, row in result.items():
            print(f"{self.name:28} {side:10} {row['us']:9.2f} us ± {row['iqr']:5.2f}", flush=True)
        return result


APPEND_CASES = [AppendCase(tokens, rotation, heads_outside) for tokens in (64, 8192)
                for rotation, heads_outside in (("", False), ("", True), ("halves", False), ("pairs", False))]
