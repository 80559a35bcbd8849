#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures the kernels of a layer besides attention, as tilewright.kernel calls them, against other libraries on one GPU.

    bench/layers.py --json layers.json             every case; the compiler compiles the kernels at their first call
    bench/layers.py --cases grouped,delta          the cases whose names contain one of these
    bench/layers.py --prebuild FOLDER              without a GPU: writes the bundles of int4 and delta
    bench/layers.py --prebuilt FOLDER --cases delta,int4       with these, and no compiler

Cases, bf16:

    grouped    the product of tokens sorted by expert, five shapes of models, 16,384 rows in shares at random: torch is its grouped
               product (torch._grouped_mm)
    int4       weights of 4 bits with a scale for 128 rows, few tokens: torch is torch.matmul of bf16 weights
    rms_norm   16,384 rows, with a residual and results of e4m3: torch is the same by torch.compile
    delta      the gated delta rule, forward, heads of 128: fla is the Triton kernels of flash-linear-attention, if installed
    delta_both the same, forward and backward

Sides besides `tilewright` have other parameters (VARIANTS).

A side is first checked against a reference in f32 or f64: its error, |x - ref| / |ref| over the array, must be at most twice that of
the other side, or 0.01. Each side is then a CUDA graph of many calls over arrays that rotate; rounds replay
the graphs in turn. The output has medians in microseconds and the speed over the other side. The exit status is 1 if a side is wrong."""

import argparse
import functools
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

import torch  # noqa: E402

import tilewright  # noqa: E402
from gpubench.graphs import graph_of, time_graphs  # noqa: E402
from gpubench.library import Library, Operation  # noqa: E402
from gpubench.places import ROOT, find_library, find_tool  # noqa: E402

SUBJECT = "tilewright"
ROWS = 16384
ROTATED_BYTES = 400e6
# (experts, K, N): up projections of Mixtral, of DeepSeek-V3 and of Qwen3 on one of several GPUs, of gpt-oss, and of OLMoE.
EXPERTS = {"mixtral": (8, 4096, 14336), "deepseek": (32, 7168, 4096), "qwen3": (64, 2048, 1536), "gpt-oss": (32, 2880, 5760),
           "olmoe": (64, 2048, 2048)}
DELTA_WIDTH = 128
# Kernels whose bundles --prebuild writes: {kernel: (parameters, {side: further ones})}.
VARIANTS = {
    "int4_matmul": ({"T": "bf16"}, {SUBJECT: {}, "rows=16": {"BLOCK_M": 16}, "columns=64": {"BLOCK_N": 64}}),
    "gated_delta_rule": ({"T": "bf16", "D": DELTA_WIDTH}, {SUBJECT: {}, "chunks=32": {"BLOCK_N": 32}, "columns=128": {"BLOCK_V": 128}}),
    "gated_delta_rule_backward": ({"T": "bf16", "D": DELTA_WIDTH}, {SUBJECT: {}, "chunks=32": {"BLOCK_N": 32}}),
}


@functools.cache
def generator():
    return torch.Generator("cuda")


@functools.cache
def library():
    return Library(find_library())


def file_of(folder, kernel, side):
    return os.path.join(folder, f"{kernel}-{side.replace('=', '_')}.twb")


def prebuild(folder):
    os.makedirs(folder, exist_ok=True)
    for kernel, (params, sides) in VARIANTS.items():
        for side, more in sides.items():
            subprocess.run([find_tool(), os.path.join(ROOT, "kernels", kernel + ".mlir"), "--quiet", "--emit=bundle", "--target=sm_90a",
                            "-o", file_of(folder, kernel, side),
                            *(f"--param={name}={value}" for name, value in {**params, **more}.items())], check=True)


def sides_of(kernel, folder, like, scalars=None):
    """{side: function of arguments by name}, which returns {result: tensor}. `like` is a function of these arguments that makes the
    results. With a folder, each side is a bundle of it."""
    params, variants = VARIANTS[kernel]
    return {side: _call(kernel, {**params, **more}, like, scalars or {}, folder and file_of(folder, kernel, side))
            for side, more in variants.items()}


def _call(name, params, like, scalars, path):
    kernel = None if path else tilewright.kernel(name, outputs={}, **params)
    bundle, bound = path and library().open(path), {}

    def call(**arguments):
        key = tuple(x.data_ptr() for x in arguments.values())
        if key not in bound:
            results = like(**arguments)
            values = {**arguments, **results, **scalars}
            if kernel:
                launch = functools.partial(kernel, **values)
            else:
                operation = Operation(library(), bundle, name, params)
                operation.prepare(0)
                launch = operation.bind(values, lambda size: torch.empty(size, dtype=torch.uint8, device="cuda"),
                                        lambda: torch.cuda.current_stream().cuda_stream)
                values["operation"] = operation  # as long as its launch
            bound[key] = results, values, launch
        bound[key][2]()
        return bound[key][0]

    return call


def normal(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, generator=generator(), device="cuda").to(dtype)


def error_of(x, reference):
    return ((x.double() - reference.double()).norm() / reference.double().norm()).item()


class Case:
    """`make` returns arguments, {name: tensor}; `sides` are functions of them, {name: function}, and `reference` another one."""

    def __init__(self, name, make, sides, reference, bytes_of, flops=0):
        self.name, self.make, self.sides, self.reference = name, make, sides, reference
        self.bytes_of, self.flops = bytes_of, flops


def grouped(name):
    experts, depth, columns = EXPERTS[name]
    kernel = tilewright.kernel("grouped_matmul", T=torch.bfloat16)
    weights = normal(experts, depth, columns) * depth**-0.5

    def make():
        cuts = torch.rand(experts - 1, generator=generator(), device="cuda").mul(ROWS).long().sort().values
        ends = torch.cat([cuts, cuts.new_full((1,), ROWS)]).to(torch.int32)
        return {"a": normal(ROWS, depth), "ends": ends}

    def reference(a, ends):
        begins = [0, *ends.tolist()]
        return torch.cat([a[begin:end].float() @ weights[at].float() for at, (begin, end) in enumerate(zip(begins, begins[1:]))])

    return Case(f"grouped {name}", make, {SUBJECT: lambda a, ends: kernel(a=a, b=weights, ends=ends),
                                          "torch": lambda a, ends: torch._grouped_mm(a, weights, offs=ends)},
                reference, 2 * ROWS * depth, 2 * ROWS * depth * columns)


def int4(rows, folder, depth=4096, columns=14336):
    own = sides_of("int4_matmul", folder, lambda a, packed, scales: {"c": a.new_empty(rows, columns)})

    def make():
        digits = torch.randint(0, 16, (depth, columns), generator=generator(), device="cuda", dtype=torch.int32)
        parts = digits.reshape(depth // 512, 8, 64, columns)
        packed = parts[:, 0].clone()
        for at in range(1, 8):
            packed |= parts[:, at] << 4 * at
        scales = normal(depth // 128, columns).abs() * 0.01
        weights = ((digits - 8).float() * scales.float().repeat_interleave(128, 0)).bfloat16()
        return {"a": normal(rows, depth), "packed": packed.reshape(-1, columns), "scales": scales, "weights": weights}

    def side_of(call):
        return lambda a, packed, scales, weights: call(a=a, packed=packed, scales=scales)["c"]

    return Case(f"int4 M {rows}", make, {**{side: side_of(call) for side, call in own.items()},
                                         "torch": lambda a, packed, scales, weights: a @ weights},
                lambda a, packed, scales, weights: a.float() @ weights.float(), depth * columns // 2, 2 * rows * depth * columns)


def rms_norm(width):
    kernel = tilewright.kernel("rms_norm", N=width, T=torch.bfloat16, TY="e4m3", outputs={"sum": "x", "y": "x", "scales": (ROWS,)})
    weight = normal(width)

    def plain(x, residual):
        total = (x.float() + residual.float()).bfloat16()
        y = total.float() * torch.rsqrt(total.float().square().mean(1, keepdim=True) + 1e-6) * weight.float()
        scales = (y.abs().amax(1) / 448).clamp(min=2.0**-126)
        return total, (y / scales[:, None]).clamp(-448, 448).to(torch.float8_e4m3fn), scales

    def ours(x, residual):
        result = kernel(x=x, residual=residual, weight=weight, eps=1e-6)
        return result["y"] if isinstance(result, dict) else result[1]

    compiled = torch.compile(plain)
    return Case(f"rms_norm {width}", lambda: {"x": normal(ROWS, width), "residual": normal(ROWS, width)},
                {SUBJECT: ours, "torch": lambda **x: compiled(**x)[1]}, lambda **x: plain(**x)[1], 7 * ROWS * width)


def delta(batch, rows, folder, both=False, heads=16, width=DELTA_WIDTH):
    """`both`: the forward and the gradients, of which dk is compared."""
    scale = width**-0.5
    forward = sides_of("gated_delta_rule", folder, lambda v, **_: {"o": torch.empty_like(v)}, {"scale": scale})
    backward = sides_of("gated_delta_rule_backward", folder,
                        lambda do, **x: {"d" + name: torch.empty_like(y) for name, y in x.items()}, {"scale": scale})

    def make():
        q, k = (torch.nn.functional.normalize(normal(batch, heads, rows, width, dtype=torch.float32), dim=-1).bfloat16() for _ in range(2))
        g = torch.nn.functional.logsigmoid(normal(batch, heads, rows, dtype=torch.float32) + 3)
        more = {"do": normal(batch, heads, rows, width)} if both else {}
        return {"q": q, "k": k, "v": normal(batch, heads, rows, width), "g": g,
                "beta": torch.sigmoid(normal(batch, heads, rows, dtype=torch.float32)), **more}

    def both_of(side):
        def call(do, **x):
            forward[side](**x)
            return backward[side](do=do, **x)["dk"]
        return call

    if both:
        sides = {side: both_of(side) for side in backward}
    else:
        sides = {side: lambda call=call, **x: call(**x)["o"] for side, call in forward.items()}
    try:
        from fla.ops.gated_delta_rule import chunk_gated_delta_rule
        laid_out = {}

        def fla(**x):
            key = x["q"].data_ptr()
            if key not in laid_out:  # as it takes them: [batch, rows, heads, width]
                laid_out[key] = {name: y.transpose(1, 2).contiguous().requires_grad_(both and name != "do") for name, y in x.items()}
            inputs = dict(laid_out[key])
            do = inputs.pop("do", None)
            with torch.set_grad_enabled(both):
                o = chunk_gated_delta_rule(**inputs, scale=scale)[0]
            if not both:
                return o.transpose(1, 2)
            return torch.autograd.grad(o, list(inputs.values()), do)[list(inputs).index("k")].transpose(1, 2)

        sides["fla"] = fla
    except ImportError as error:
        print(f"fla: {error}")

    def reference(q, k, v, g, beta, do=None):
        state, o = torch.zeros(batch, heads, width, width, device="cuda", dtype=torch.float64), []
        q, k, v, g, beta = (x.double() for x in (q, k, v, g, beta))
        k.requires_grad_(both)
        for at in range(rows):
            row = k[:, :, at, :, None]
            state = state * g[:, :, at, None, None].exp()
            state = state + beta[:, :, at, None, None] * row * (v[:, :, at, None] - (row * state).sum(2, keepdim=True))
            o.append((q[:, :, at, :, None] * state).sum(2) * scale)
        o = torch.stack(o, 2)
        return torch.autograd.grad(o, k, do.double())[0] if both else o

    return Case(f"delta{'_both' * both} B{batch} S{rows}", make, sides, reference if rows <= (1024 if both else 2048) else None,
                (10 if both else 8) * batch * heads * rows * width)


def cases(folder):
    if not folder:
        yield from ((f"grouped {name}", lambda name=name: grouped(name)) for name in EXPERTS)
    yield from ((f"int4 M {rows}", lambda rows=rows: int4(rows, folder)) for rows in (1, 16, 64))
    if not folder:
        yield from ((f"rms_norm {width}", lambda width=width: rms_norm(width)) for width in (2048, 4096, 8192))
    yield from ((f"delta{'_both' * both} B{batch} S{rows}", lambda batch=batch, rows=rows, both=both: delta(batch, rows, folder, both))
                for both in (False, True) for batch, rows in ((1, 1024), (8, 2048), (2, 8192), (1, 32768)))


def measure(case, rounds):
    copies = max(2, min(8, int(ROTATED_BYTES / case.bytes_of) + 1))
    arguments = [case.make() for _ in range(copies)]
    expected = case.reference(**arguments[0]) if case.reference else None
    row, longest = {"case": case.name}, 0.02
    for name, call in case.sides.items():
        if expected is not None:
            row[f"{name} error"] = error_of(call(**arguments[0]), expected)
        for each in arguments:
            call(**each)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call(**arguments[0])
        end.record()
        torch.cuda.synchronize()
        longest = max(longest, begin.elapsed_time(end))
    times = max(copies, min(200, int(6 / longest)))
    graphs = {}
    for name, call in case.sides.items():
        try:
            graphs[name] = graph_of(torch, [lambda at=at, call=call: call(**arguments[at % copies]) for at in range(times)])
        except Exception as error:  # noqa: BLE001
            if name == SUBJECT:
                raise
            print(f"  {case.name:20} {name}: {type(error).__name__}: {str(error).splitlines()[0][:200]}", flush=True)
    row |= {name: found["us"] for name, found in time_graphs(torch, graphs, times, rounds).items()}
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="", help="parts of names, with commas")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", help="write the figures to this file")
    parser.add_argument("--prebuild", metavar="FOLDER", help="write the bundles of int4 and delta, and stop")
    parser.add_argument("--prebuilt", metavar="FOLDER", help="take bundles from here, for these cases only")
    options = parser.parse_args()
    if options.prebuild:
        return prebuild(options.prebuild)
    rows, is_wrong = [], False
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__, flush=True)
    for name, make in cases(options.prebuilt):
        if not any(part in name for part in options.cases.split(",")):
            continue
        generator().manual_seed(1)
        try:
            row = measure(make(), options.rounds)
        except Exception as error:  # noqa: BLE001
            print(f"  {name:18} {type(error).__name__}: {str(error).splitlines()[0][:300]}", flush=True)
            is_wrong = True
            continue
        rows.append(row)
        other = next((side for side in ("torch", "fla") if side in row), None)
        own, limit = row.get(f"{SUBJECT} error"), max(2 * row.get(f"{other} error", 0), 0.01)
        sides = [side for side in row if side != "case" and not side.endswith(" error")]
        wrong = [side for side in sides if not row.get(f"{side} error", 0) <= limit]
        is_wrong |= bool(wrong)
        print(f"  {name:20} " + ", ".join(f"{side} {row[side]:.1f} us" for side in sides)
              + (f", {row[other] / row[SUBJECT]:.2f}" if other else "")
              + (f", errors {own:.2e}" + (f" and {row[f'{other} error']:.2e}" if other else "") if own is not None else "")
              + (f"  WRONG: {', '.join(wrong)}" if wrong else ""), flush=True)
        if options.json:
            with open(options.json, "w") as file:
                json.dump({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}, file, indent=1)
        torch.cuda.empty_cache()
    sys.exit(is_wrong)


if __name__ == "__main__":
    main()
