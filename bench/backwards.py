#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times the backwards of tanh attention and of differential attention beside that of attention, on one GPU.

    bench/backwards.py                              all cases
    bench/backwards.py --cases "tanh 64" --seqs 4096,8192
    bench/backwards.py --compile-only FOLDER        only writes bundles, without a GPU
    bench/backwards.py --prebuilt FOLDER --json times.json

Cases: 16,384 tokens, heads for 2048 columns of V, bf16, D 64 and 128 (differential attention: also values twice as
wide), causal or not. Every side is first checked against formulas in f64 on small shapes with odd sizes and groups, and
the deterministic form also for equal bits in four runs. All count the products of a pair that they execute: 2 (3 D + 2
DV) operations, half of them with a causal mask; differential attention twice, one for each softmax. The output has the
rate of each side, and in brackets its quotient with that of attention_backward for the same D and DV: a kernel that
takes the time of its products has 1. Rounds interleave the sides of a case.

Sides: `deterministic`: DETERMINISTIC; `any order`: --sums=unordered. Needs PyTorch and a GPU with roles (sm_90a).
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

from gpubench.places import ROOT, find_library, find_tool

TOKENS, COLUMNS = 16384, 2048
PROGRAMS = {"attention": "attention_backward", "tanh": "tanh_attention_backward",
            "differential": "differential_attention_backward"}
FORMS = {"": [], "deterministic": ["--param=DETERMINISTIC=true"], "any order": ["--sums=unordered"]}
WIDTHS = {"attention": [(64, 64), (128, 128), (64, 128)], "tanh": [(64, 64), (128, 128)],
          "differential": [(64, 64), (128, 128), (64, 128)]}
SMALL = [(2, 4, 2, 300, 700), (1, 2, 2, 1100, 1000), (2, 8, 2, 1024, 1024)]  # B Hq Hkv Sq Skv
LIMITS = {"tanh": 6e-3, "differential": 1e-2}  # of the error of an array, relative to its norm


def list_cases(texts):
    """Yields (name, kernel, form, D, DV, mask). Attention is the base of all others."""
    for kernel, widths in WIDTHS.items():
        for form in FORMS if kernel != "attention" else [""]:
            for dim, v_dim in widths:
                for causal in ("none", "top_left"):
                    name = " ".join(filter(None, [kernel, str(dim), str(v_dim), causal, form]))
                    if kernel == "attention" or not texts or any(text in name for text in texts):
                        yield name, kernel, form, dim, v_dim, causal


def path_of(folder, name):
    return os.path.join(folder, name.replace(" ", "-") + ".twb")


def compile_case(folder, case):
    name, kernel, form, dim, v_dim, causal = case
    program = PROGRAMS[kernel]
    params = {"T": "bf16", "D": dim, "DV": v_dim, "CAUSAL": causal}
    command = [find_tool("tilewrightc"), os.path.join(ROOT, "kernels", program + ".mlir"), "--program", program,
               "--target=sm_90a", "--emit=bundle", "--quiet", "-o", path_of(folder, name), *FORMS[form]]
    subprocess.run(command + [f"--param={key}={value}" for key, value in params.items()], check=True)


class Problem:
    """Arguments, of N(0, 1), and what the results should be."""

    def __init__(self, torch, kernel, shape, dim, v_dim, causal):
        self.torch, self.kernel, self.causal = torch, kernel, causal
        batch, heads, kv_heads, rows, keys = shape
        maps = 2 if kernel == "differential" else 1
        q, k = self.normal(batch, maps * heads, rows, dim), self.normal(batch, maps * kv_heads, keys, dim)
        v, do = self.normal(batch, kv_heads, keys, v_dim), self.normal(batch, heads, rows, v_dim)
        self.arguments = {"q": q, "k": k, "v": v, "do": do, "dq": torch.empty_like(q), "dk": torch.empty_like(k),
                          "dv": torch.empty_like(v), "scale": dim**-0.5, "window_left": -1, "window_right": -1}
        self.results = ["dq", "dk", "dv"]
        if kernel != "tanh":
            lse = torch.full(q.shape[:3], math.log(keys) + 0.5, device="cuda")  # of the size of what a forward has
            self.arguments.update(o=0.1 * do.flip(2), lse=lse)
        if kernel == "attention":
            self.arguments["dlse"] = None
        if kernel == "differential":
            self.arguments.update({"lambda": torch.rand(heads, device="cuda"), "o2": 0.1 * do.flip(3),
                                   "d_lambda": torch.empty(heads, device="cuda")})
            self.results.append("d_lambda")

    def normal(self, *shape):
        return self.torch.randn(shape, device="cuda", dtype=self.torch.float32).bfloat16()

    def references(self):
        """The results in f64. Sets what a forward would have saved."""
        torch, given = self.torch, self.arguments
        q, k, v, do = (given[name].double() for name in ("q", "k", "v", "do"))
        scale, heads, kv_heads = given["scale"], do.shape[1], v.shape[1]
        keep = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device="cuda")
        keep = keep.tril() if self.causal == "top_left" else keep

        def each(x):
            return x.repeat_interleave(heads // kv_heads, 1)

        def summed(x):
            return x.unflatten(1, (kv_heads, -1)).sum(2)

        if self.kernel == "tanh":
            weights = torch.tanh(scale * q @ each(k).mT)
            ds = (do @ each(v).mT) * (1 - weights**2) * keep
            return scale * ds @ each(k), summed(scale * ds.mT @ q), summed((weights * keep).mT @ do)
        dq, dk, dv, o = torch.zeros_like(q), torch.zeros_like(k), 0, []
        for x in range(2):
            q_x, k_x = q[:, x::2], k[:, x::2]
            scores = (scale * q_x @ each(k_x).mT).masked_fill(~keep, -math.inf)
            lse = scores.logsumexp(-1)
            p = (scores - lse[..., None]).exp()
            o.append(p @ each(v))
            do_x = do if x == 0 else -given["lambda"].double()[:, None, None] * do
            ds = p * (do_x @ each(v).mT - (do_x * o[x]).sum(-1, keepdim=True))
            given["lse"][:, x::2] = lse.float()
            dq[:, x::2], dk[:, x::2] = scale * ds @ each(k_x), summed(scale * ds.mT @ q_x)
            dv = dv + summed(p.mT @ do_x)
        given["o"].copy_(o[0] - given["lambda"].double()[:, None, None] * o[1])
        given["o2"].copy_(o[1])
        return dq, dk, dv, -(do * o[1]).sum((0, 2, 3))


def check(torch, kernel, case):
    """The largest error; exits if it is too large, or bits differ that must not."""
    name, program, form, dim, v_dim, causal = case
    worst = 0.0
    for shape in SMALL:
        problem = Problem(torch, program, shape, dim, v_dim, causal)
        wanted = problem.references()
        call, runs = kernel.bind(problem.arguments), []
        for _ in range(4):
            for result in problem.results:
                problem.arguments[result].fill_(math.nan)
            call()
            runs.append([problem.arguments[result].clone() for result in problem.results])
        errors = [((got.double() - ref).norm() / ref.norm()).item() for got, ref in zip(runs[0], wanted)]
        worst = max(worst, *errors)
        if not all(error < LIMITS[program] for error in errors):
            sys.exit(f"{name} {shape}: relative errors {errors}")
        if form == "deterministic" and not all(torch.equal(a, b) for run in runs[1:] for a, b in zip(run, runs[0])):
            sys.exit(f"{name} {shape}: bits differ between runs")
    return worst


def measure(options, cases, folder):
    import torch
    from gpubench import library
    from gpubench.device import BundleKernel, time_interleaved

    runtime = library.Library(options.library or find_library())
    kernels = {case[0]: BundleKernel(runtime, path_of(folder, case[0]), PROGRAMS[case[1]]) for case in cases}
    for case in cases:
        if case[1] != "attention":
            print(f"{case[0]}: largest relative error {check(torch, kernels[case[0]], case):.1e}", flush=True)
    rows = []
    for causal in ("none", "top_left"):
        for seq in options.seqs:
            for dim, v_dim in WIDTHS["attention"]:
                sides, work = {}, {}
                for name, kernel, _, *own in cases:
                    if own != [dim, v_dim, causal]:
                        continue
                    shape = TOKENS // seq, COLUMNS // v_dim, COLUMNS // v_dim, seq, seq
                    sides[name] = kernels[name].bind(Problem(torch, kernel, shape, dim, v_dim, causal).arguments)
                    maps = 2 if kernel == "differential" else 1
                    work[name] = maps * 2 * (3 * dim + 2 * v_dim) * shape[0] * shape[1] * seq**2
                    work[name] /= 2 if causal != "none" else 1
                if len(sides) < 2:
                    continue
                times = time_interleaved(sides, options.rounds)
                rates = {name: work[name] / statistics.median(times[name]) / 1e9 for name in sides}
                base = rates[f"attention {dim} {v_dim} {causal}"]
                texts = [f"{name} {rate:.0f} ({rate / base:.3f})" for name, rate in rates.items()]
                print(f"S {seq}: " + ", ".join(texts), flush=True)
                rows += [{"side": name, "seq": seq, "tflops": rate, "quotient": rate / base}
                         for name, rate in rates.items()]
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="*", help="only sides whose names contain one of these")
    parser.add_argument("--seqs", type=lambda text: [int(n) for n in text.split(",")],
                        default=[1024, 2048, 4096, 8192])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--list", action="store_true", help="print the names of the sides")
    parser.add_argument("--compile-only", metavar="FOLDER")
    parser.add_argument("--prebuilt", metavar="FOLDER")
    parser.add_argument("--library", help="libtilewright.so")
    parser.add_argument("--json")
    options = parser.parse_args()
    cases = list(list_cases(options.cases))
    if options.list:
        print("\n".join(case[0] for case in cases))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.prebuilt or options.compile_only or temporary
        if not options.prebuilt:
            os.makedirs(folder, exist_ok=True)
            for case in cases:
                compile_case(folder, case)
        if not options.compile_only:
            measure(options, cases, folder)


main()
