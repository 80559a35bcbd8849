#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times the first call of attention, and its first backward, in a new process each: Tilewright beside FlashAttention-4 and
flex_attention of PyTorch.

    bench/compile_time.py [--rounds N] [--cases plain,capped] [--peers tilewright,fa4,flex,sdpa] [--json FILE]
    bench/compile_time.py --bundle [--rounds N]        without a GPU: tilewrightc --emit=bundle

A process imports PyTorch, makes its inputs, and runs a first kernel of PyTorch, which initializes the device. Then the
clock runs: the import of the library, the call, and a synchronization; then the backward of a scalar loss, and another
one. (A first `o.backward(gradient)` takes PyTorch 2.11 three seconds more, for any tensor: it imports torch._dynamo.)

    shipped    the code came with the package
    cold       it did not, and no process has compiled it before
    next       as cold, in the next process
    no ptxas   as cold, where the machine has no ptxas: the driver assembles the code

Each round runs all of them once; the medians are printed, in seconds. CUDA's own cache is disabled."""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CASES = {"plain": {}, "capped": {"softcap": 30.0, "window": 1024}}
SHAPE = (4, 16, 4096, 128)  # batch, heads, rows, width


def make_call(peer, options):
    """A function of q, k and v, [batch, heads, rows, width], that returns O of causal attention."""
    import torch
    softcap, window = options.get("softcap"), options.get("window")
    if peer == "tilewright":
        sys.path.insert(0, os.environ.get("TILEWRIGHT_PYTHON", os.path.join(ROOT, "python")))
        import tilewright
        left = None if window is None else (window - 1, 0)
        return lambda q, k, v: tilewright.attention(q, k, v, causal=True, softcap=softcap, window=left)
    if peer == "fa4":
        from flash_attn.cute.interface import flash_attn_func
        size = (None, None) if window is None else (window - 1, 0)

        def call(q, k, v):
            o = flash_attn_func(*(x.transpose(1, 2) for x in (q, k, v)), causal=True, softcap=softcap or 0.0, window_size=size)
            return (o[0] if isinstance(o, tuple) else o).transpose(1, 2)
        return call
    if peer == "flex":
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        def mask(b, h, i, j):
            return (j <= i) & (i - j < window) if window else j <= i

        def score(s, b, h, i, j):
            return softcap * torch.tanh(s / softcap)

        def call(q, k, v):
            blocks = torch.compile(create_block_mask)(mask, None, None, q.shape[2], k.shape[2], device="cuda")
            return torch.compile(flex_attention)(q, k, v, score_mod=score if softcap else None, block_mask=blocks)
        return call
    return lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def run_child(peer, case):
    """Returns the seconds of the first forward and of the first backward."""
    import torch
    q, k, v = (torch.randn(SHAPE, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    seed = torch.randn(SHAPE, device="cuda", dtype=torch.bfloat16)
    (seed + 1).sum().item()
    start = time.perf_counter()
    o = make_call(peer, CASES[case])(q, k, v)
    torch.cuda.synchronize()
    forward = time.perf_counter() - start
    start = time.perf_counter()
    (o * seed).sum().backward()
    torch.cuda.synchronize()
    return [forward, time.perf_counter() - start]


def measure(peer, case, environment, caches, limit=120):
    """Runs in a fork, so that PyTorch, which is imported by then, need not be imported again."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        with tempfile.TemporaryDirectory() as inductor, os.fdopen(writing, "w") as pipe:
            os.environ.update({"CUDA_CACHE_DISABLE": "1", "TORCHINDUCTOR_CACHE_DIR": inductor, "TRITON_CACHE_DIR": inductor,
                               "TILEWRIGHT_CACHE_DIR": caches, **environment})
            signal.alarm(limit)
            try:
                pipe.write(json.dumps(run_child(peer, case)))
            except Exception as error:
                pipe.write(json.dumps(f"{type(error).__name__}: {error}".splitlines()[0]))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else f"no result in {limit} s"


def measure_all(case, peers, results):
    def add(name, peer, *arguments):
        if peer in peers:
            run = measure(peer, case, *arguments)
            results.setdefault((case, name), []).append(run)
            print(f"{case} {name}: {run}", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second, \
            tempfile.TemporaryDirectory() as third:
        add("shipped", "tilewright", {}, first)
        add("cold", "tilewright", {"TILEWRIGHT_SHIPPED": ""}, second)
        add("next", "tilewright", {"TILEWRIGHT_SHIPPED": ""}, second)
        without = {"TILEWRIGHT_SHIPPED": "", "TILEWRIGHT_PTXAS": ""}
        add("no ptxas", "tilewright", without, third)
        add("no ptxas, next", "tilewright", without, third)
        add("FA4", "fa4", {}, first)
        add("flex_attention", "flex", {}, first)
        if not CASES[case]:
            add("SDPA", "sdpa", {}, first)


def measure_bundles(rounds):
    tool = os.environ.get("TILEWRIGHTC", os.path.join(ROOT, "build", "bin", "tilewrightc"))
    for kernel in "forward", "backward":
        for targets in ["sm_90a"], ["sm_80"], []:
            seconds = []
            for _ in range(rounds):
                with tempfile.TemporaryDirectory() as folder:
                    start = time.perf_counter()
                    subprocess.run([tool, os.path.join(ROOT, "kernels", f"attention_{kernel}.mlir"), "--param=D=128",
                                    "--param=T=bf16", "--param=CAUSAL=top_left", "--emit=bundle",
                                    "-o", os.path.join(folder, "x.twb"), *(f"--target={target}" for target in targets)],
                                   check=True)
                    seconds.append(time.perf_counter() - start)
            print(f"{kernel:9} {' '.join(targets) or 'both targets':13} {statistics.median(seconds):6.2f} s  "
                  f"({min(seconds):.2f} to {max(seconds):.2f}, {os.cpu_count()} cores)", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", default="plain,capped")
    parser.add_argument("--json")
    parser.add_argument("--bundle", action="store_true")
    parser.add_argument("--peers", default="tilewright,fa4,flex,sdpa")
    options = parser.parse_args()
    if options.bundle:
        measure_bundles(options.rounds)
        return
    import torch
    results = {}
    for _ in range(options.rounds):
        for case in options.cases.split(","):
            measure_all(case, options.peers.split(","), results)
    print(f"{torch.cuda.get_device_name()}, {os.cpu_count()} cores, PyTorch {torch.__version__}, bf16, causal, {SHAPE}")
    print(f"{'':24} {'forward':>8} {'backward':>9}")
    for (case, name), runs in results.items():
        good = [run for run in runs if not isinstance(run, str)]
        figures = "".join(f"{statistics.median(column):9.2f}" for column in zip(*good)) or f" {runs[0]}"
        print(f"{case:8} {name:15}{figures}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump([{"case": case, "what": name, "runs": runs} for (case, name), runs in results.items()], file, indent=1)


if __name__ == "__main__":
    main()
