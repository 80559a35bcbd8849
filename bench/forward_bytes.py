#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The forward of 8-bit arrays beside that of bf16, with the launch that transposes V, TFLOP/s of the kept pairs.

    bench/forward_bytes.py                                   compiles and measures
    bench/forward_bytes.py --build bundles                   only compiles, on a machine without a GPU
    bench/forward_bytes.py --prebuilt bundles --library libtilewright.so

32,768 tokens, heads for 2,048 columns. Each side is checked against f64, for 256 rows of one head; P in 8 bits is
most of its error. Sides take turns, graphs of ten calls. The GPU is at its limit of power in the longer cases, and its
clock follows what ran before, so with --alone each side is also timed for that many seconds after it ran alone as long.

Peers: fa3, FlashAttention-3 of 8 bits, if the module flash_attn_interface, from its folder `hopper`, can be imported.
"""

import argparse
import math
import os
import subprocess
import sys

from gpubench.graphs import graph_of, time_graphs
from gpubench.library import Library, Operation
from gpubench.places import ROOT, find_library, find_tool

TYPES, COLUMNS, TOKENS = ("bf16", "e4m3"), 2048, 32768
ERRORS = {"bf16": 0.006, "e4m3": 0.04}
ROWS = 256  # that are checked


def params_of(kind, dim, causal):
    return {"T": kind, "D": dim, "CAUSAL": "top_left" if causal else "none"}


def path_of(folder, params):
    return os.path.join(folder, "forward_" + "_".join(str(value) for value in params.values()) + ".twb")


def compile_bundle(tool, params, path):
    subprocess.run([tool or find_tool(), os.path.join(ROOT, "kernels", "attention_forward.mlir"), "--quiet", "--emit=bundle",
                    "--target=sm_90a", "-o", path, *(f"--param={name}={value}" for name, value in params.items())], check=True)


def expected(torch, values, causal):
    """O of the last rows of one head, in f64."""
    q, k, v = (values[name][0, 0].double() for name in ("q", "k", "v"))
    scores = q[-ROWS:] @ k.T * values["scale"]
    if causal:
        last = torch.arange(len(q) - ROWS, len(q), device="cuda")
        scores.masked_fill_(torch.arange(len(k), device="cuda") > last[:, None], -math.inf)
    return scores.softmax(-1) @ v


def fa3_call(torch, values, causal):
    """A call of FlashAttention-3, or None without it. Its arrays have heads inside of rows."""
    try:
        from flash_attn_interface import flash_attn_func
    except ImportError:
        return None
    q, k, v = (values[name].transpose(1, 2).contiguous() for name in "qkv")
    factors = torch.ones((q.shape[0], q.shape[2]), device="cuda")

    def call():
        o = flash_attn_func(q, k, v, softmax_scale=values["scale"], causal=causal, q_descale=factors, k_descale=factors,
                            v_descale=factors)
        return (o[0] if isinstance(o, tuple) else o).transpose(1, 2)
    return call


def times_alone(torch, graphs, repeats, seconds, times):
    """Microseconds of a call of each side, timed for `seconds` after it ran alone as long. `times` has about as many."""
    found = {}
    for name, graph in graphs.items():
        replays = max(1, int(seconds * 1e6 / (times[name] * repeats)))
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for event in (begin, end):
            for _ in range(replays):
                graph.replay()
            event.record()
        torch.cuda.synchronize()
        found[name] = begin.elapsed_time(end) * 1e3 / (replays * repeats)
    return found


def measure(torch, library, options, dim, seq, causal):
    heads, batch = COLUMNS // dim, max(TOKENS // seq, 1)
    graphs, kept, errors, calls = {}, [], {}, 10

    def add(side, call):
        errors[side] = ((call()[0, 0, -ROWS:].double() - want).norm() / want.norm()).item()
        if not errors[side] <= ERRORS.get(side, ERRORS["e4m3"]):
            sys.exit(f"{side}, D {dim}, S {seq}: relative error {errors[side]:.4f}")
        graphs[side] = graph_of(torch, [call] * calls)

    for kind in TYPES:
        params = params_of(kind, dim, causal)
        generator = torch.Generator("cuda").manual_seed(1)
        stored = torch.float8_e4m3fn if kind == "e4m3" else torch.bfloat16
        values = {name: torch.randn((batch, heads, seq, dim), generator=generator, device="cuda").to(stored) for name in "qkv"}
        values |= {"o": torch.empty((batch, heads, seq, dim), device="cuda", dtype=torch.bfloat16), "scale": 1 / math.sqrt(dim)}
        if kind == "e4m3":
            values |= {f"{name}_descale": torch.ones(1, device="cuda") for name in "qkv"}
        plan = Operation(library, library.open(path_of(options.folder, params)), "attention_forward", params)
        plan.prepare(0)
        launch = plan.bind(values, lambda size: torch.empty(size, dtype=torch.uint8, device="cuda"),
                           lambda: torch.cuda.current_stream().cuda_stream)
        kept.append((plan, values, launch))
        want = expected(torch, values, causal)

        def ours(launch=launch, o=values["o"]):
            launch()
            return o

        add(kind, ours)
        peer = fa3_call(torch, values, causal) if kind == "e4m3" else None
        if peer:
            add("fa3", peer)
    flops = 4 * batch * heads * seq * seq * dim / (2 if causal else 1)

    def text(times):
        speeds = [f" {side} {flops / us / 1e6:.1f}" for side, us in times.items()]
        return ",".join(speeds + [f" e4m3 of {side} {us / times['e4m3']:.3f}" for side, us in times.items() if side != "e4m3"])

    times = {side: row["us"] for side, row in time_graphs(torch, graphs, calls, options.rounds).items()}
    alone = "; alone" + text(times_alone(torch, graphs, calls, options.alone, times)) if options.alone else ""
    print(f"D {dim:<4} S {seq:<6} {'causal' if causal else 'full':7}{text(times)}{alone}; errors"
          + ",".join(f" {side} {error:.2e}" for side, error in errors.items()), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(each) for each in text.split(",")]  # noqa: E731
    parser.add_argument("--dims", type=numbers, default=[64, 128])
    parser.add_argument("--seqs", type=numbers, default=[1024, 8192])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--alone", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--build", metavar="FOLDER")
    parser.add_argument("--prebuilt", metavar="FOLDER")
    parser.add_argument("--library")
    parser.add_argument("--tilewrightc")
    options = parser.parse_args()
    options.folder = options.prebuilt or options.build or os.path.join(ROOT, "build", "forward_bytes")
    os.makedirs(options.folder, exist_ok=True)
    if not options.prebuilt:
        for dim in options.dims:
            for causal in (False, True):
                for kind in TYPES:
                    params = params_of(kind, dim, causal)
                    compile_bundle(options.tilewrightc, params, path_of(options.folder, params))
    if options.build:
        return
    import torch
    if not torch.cuda.is_available():
        sys.exit("forward_bytes.py needs a GPU")
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    library = Library(options.library or find_library())
    for dim in options.dims:
        for seq in options.seqs:
            for causal in (False, True):
                measure(torch, library, options, dim, seq, causal)


if __name__ == "__main__":
    main()
