#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times the kernels of bench/blocks/, whose structures the table of blocks does not have, with all blocks of a grid.

    bench/blocks.py --json test/Kernels/Inputs/block-times.json
    bench/blocks.py --kernels masked_outer --dims 64 --rows 128,256 --steps 64,128

Every pair of blocks is compiled for sm_90a, checked against PyTorch in f64, and timed, in rounds that interleave all
pairs of one kernel. The file holds the median of each pair in milliseconds, or the reason why it did not run;
test/Kernels/block-model.test compares the choice of the cost model (passes/Blocks/BlockModel.cpp) with it. Needs PyTorch,
an H100 or H200, tilewrightc and ptxas.
"""

import argparse
import concurrent.futures
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

from gpubench.places import ROOT, find_library, find_tool

FOLDER = os.path.join(ROOT, "bench", "blocks")
BATCH, ROWS, LATENT = 16, 4096, 64


def numbers(text):
    return [int(value) for value in text.split(",") if value]


def problems(torch, name, dim, batch, rows, columns, dtype=None):
    """Arguments of a kernel, its results, and a function that computes them in f64."""
    dtype = dtype or torch.bfloat16
    generator = torch.Generator("cuda").manual_seed(7)

    def normal(*shape):
        return torch.randn(shape, device="cuda", generator=generator).to(dtype)

    def unwritten(*shape, kind=dtype):
        return torch.full(shape, math.nan, device="cuda", dtype=kind)

    scale = 1 / math.sqrt(dim)
    if name == "masked_outer":
        a, b, s = normal(batch, rows, dim), normal(batch, columns, dim), unwritten(batch, rows, columns)
        return ({"a": a, "b": b, "s": s, "scale": scale}, {"s": s},
                lambda: {"s": torch.tanh(a.double() @ b.double().mT * scale).tril()})
    if name == "contrastive_rows":
        a, b = normal(batch, rows, dim), normal(batch, columns, dim)
        lse = unwritten(batch, rows, kind=torch.float32)
        return ({"a": a, "b": b, "lse": lse, "scale": scale}, {"lse": lse},
                lambda: {"lse": torch.logsumexp(a.double() @ b.double().mT * scale, -1)})
    if name == "contrastive_gradients":
        a, b = normal(batch, rows, dim), normal(batch, columns, dim)
        row = torch.logsumexp(a.float() @ b.float().mT * scale, -1)
        da, db = unwritten(batch, rows, dim), torch.zeros(batch, columns, dim, device="cuda")

        def reference():
            p = torch.exp(a.double() @ b.double().mT * scale - row.double()[..., None])
            return {"da": p @ b.double(), "db": p.mT @ a.double()}

        return {"a": a, "b": b, "row": row, "da": da, "db": db, "scale": scale}, {"da": da, "db": db}, reference
    if name == "latent_keys":
        q, c, w = normal(batch, rows, dim), normal(batch, columns, LATENT), normal(dim, LATENT)
        o = unwritten(batch, rows, LATENT)

        def reference():
            k = (c.double() @ w.double().mT).to(dtype).double()
            return {"o": torch.tanh(q.double() @ k.mT * scale) @ c.double()}

        return {"q": q, "c": c, "w": w, "o": o, "scale": scale}, {"o": o}, reference
    if name == "three_scores":
        q, r = normal(batch, rows, dim), normal(batch, rows, dim)
        k, p, v = (normal(batch, columns, dim) for _ in range(3))
        o = unwritten(batch, rows, dim)

        def reference():
            s = (q.double() + r.double()) @ k.double().mT + q.double() @ p.double().mT
            return {"o": torch.sigmoid(s * scale) @ v.double()}

        return {"q": q, "r": r, "k": k, "p": p, "v": v, "o": o, "scale": scale}, {"o": o}, reference
    raise ValueError(f"unknown kernel '{name}'")


def judge(results, reference):
    """None if each result is within 2 percent of its reference in the norm, else the reason: a wrong index or a missing
    block is far beyond what bf16 rounds."""
    for name, expected in reference().items():
        found = results[name].double()
        error = ((found - expected).norm() / expected.norm()).item()
        if not error < 0.02:
            return f"wrong {name}: relative error {error:.2g}"
    return None


def compile_pair(options, name, dim, rows, step, folder):
    """The path of a bundle and None, or None and the reason."""
    path = os.path.join(folder, f"{name}-{dim}-{rows}x{step}.twb")
    command = [options.tilewrightc, os.path.join(FOLDER, name + ".mlir"), f"--param=D={dim}", "--param=T=bf16",
               f"--param=BLOCK_M={rows}", f"--param=BLOCK_N={step}", "--target=sm_90a", "--emit=bundle", "-o", path]
    try:
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200)
    except subprocess.TimeoutExpired:
        return None, "compiling took more than 200 s"
    if result.returncode:
        lines = [line for line in result.stdout.splitlines() if "error" in line or "fatal" in line]
        return None, (lines or ["?"])[0][-200:]
    return path, None


def measure(options, name, dim, found):
    """{"128x64": milliseconds or the reason}."""
    import torch
    from gpubench import device, library

    runtime = library.Library(options.library)
    times, sides = {}, {}
    small, small_results, reference = problems(torch, name, dim, 2, 700, 912)
    large, _, _ = problems(torch, name, dim, BATCH, ROWS, ROWS)
    for pair, (path, why) in found.items():
        times[pair] = why
        if why:
            continue
        try:
            kernel = device.BundleKernel(runtime, path, name)
            for key, result in small_results.items():
                result.fill_(0 if key == "db" else math.nan)
            kernel.bind(small)()
            torch.cuda.synchronize()
            times[pair] = judge(small_results, reference)
            if not times[pair]:
                sides[pair] = kernel.bind(large)
        except (device.DeviceError, library.TilewrightError) as error:
            times[pair] = str(error)[:200]
    for pair, samples in device.time_interleaved(sides, options.rounds, time_limit=options.time_limit).items():
        times[pair] = round(statistics.median(samples), 4)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = sorted(file.removesuffix(".mlir") for file in os.listdir(FOLDER) if file.endswith(".mlir"))
    parser.add_argument("--kernels", type=lambda text: text.split(","), default=names)
    parser.add_argument("--dims", type=numbers, default=[64, 128])
    parser.add_argument("--rows", type=numbers, default=[64, 128, 192, 256])
    parser.add_argument("--steps", type=numbers, default=[32, 48, 64, 80, 96, 112, 128, 160, 192, 256])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--time-limit", type=float, default=20, help="seconds of timing for each kernel and width")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--tilewrightc", default=find_tool())
    parser.add_argument("--library", default=find_library())
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    all_times = {}
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        pairs = list(itertools.product(options.kernels, options.dims, options.rows, options.steps))
        jobs = [pool.submit(compile_pair, options, *pair, folder) for pair in pairs]
        for name, dim in itertools.product(options.kernels, options.dims):
            found = {f"{rows}x{step}": job.result() for (kernel, width, rows, step), job in zip(pairs, jobs)
                     if (kernel, width) == (name, dim)}
            times = measure(options, name, dim, found)
            all_times[f"{name} D{dim}"] = times
            timed = sorted((time, pair) for pair, time in times.items() if isinstance(time, float))
            print(f"{name} D{dim}: " + ", ".join(f"{pair} {time:.3f}" for time, pair in timed[:6])
                  + f" ms; {len(times) - len(timed)} of {len(times)} did not run", flush=True)
            if options.json:
                with open(options.json, "w") as file:
                    json.dump({"kernels": all_times}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
