#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares matrix products of few rows with torch.matmul on one GPU, and what shares of K are worth there.

    bench/matmul.py                                the cases and sides below; tilewrightc compiles the kernel
    bench/matmul.py --prebuild products            without a GPU: writes the bundles of all sides to a folder
    bench/matmul.py --prebuilt products            with a GPU; needs libtilewright.so, no compiler
    bench/matmul.py --bundle old=old.twb           a further side, such as the kernel of another commit

Cases, bf16, row-major, by name M x N x K: 64, 128, 256 and 512 x 4096 x 16384, and 8192 cubed. Sides:

    table      as the compiler chooses
    whole      no shares: an instance for each block of the result
    shares=N   N shares, with the same blocks as `table`, for 2, 3, 4, 6 and 8; not for the square
    static     as `table`, but blocks take tiles in a fixed order, without a role that schedules them
    torch      torch.matmul

A side is first checked against a product in f64 (‖C - ref‖ at most 0.004 ‖ref‖), and Tilewright's must give the same bits
twice. Each side is then a CUDA graph of many calls over operands that rotate, so that the L2 holds nothing of them; rounds
replay the graphs in turn. The output has medians in microseconds, interquartile ranges, TFLOP/s, the launches of `table`,
and the quotients of `table` by `whole` and by `torch`: a speed of at least 1.3 and 0.95 are what shares are to reach for the
cases of few rows, and 0.99 of `whole` for the square. The exit status is 1 if one is missed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

from gpubench.graphs import graph_of, time_graphs
from gpubench.library import Library, Operation
from gpubench.places import ROOT, find_library, find_tool

SHARES = (2, 3, 4, 6, 8)
SIDES = ["table", "whole", "static", *(f"shares={n}" for n in SHARES)]
CASES = [(64, 4096, 16384), (128, 4096, 16384), (256, 4096, 16384), (512, 4096, 16384), (8192, 8192, 8192)]
PARAMS = {"T": "bf16"}
ROTATED_BYTES = 600e6  # more than ten times the L2
ERROR = 0.004
OVER_WHOLE, OVER_TORCH, OF_LARGE = 1.3, 0.95, 0.99


def name_of(case):
    return "x".join(map(str, case))


def is_large(case):
    return case[0] >= 8192


def build(tilewrightc, side, path):
    sums = {"table": "auto", "whole": "shares=1", "static": "auto"}.get(side, side)
    subprocess.run([tilewrightc or find_tool(), os.path.join(ROOT, "kernels", "matmul.mlir"), "--kernel=matmul", "--quiet",
                    "--emit=bundle", "--target=sm_90a", f"--sums={sums}", "-o", path,
                    *(f"--param={name}={value}" for name, value in PARAMS.items()),
                    *(["--schedule=dynamic=0"] if side == "static" else [])], check=True)


def file_of(folder, side):
    return os.path.join(folder, side.replace("=", "_") + ".twb")


class Side:
    """Calls of one bundle. Operations and arrays live as long as this object."""

    def __init__(self, library, path):
        self.bundle, self.library, self.kept = library.open(path), library, []

    def call(self, torch, a, b, c):
        operation = Operation(self.library, self.bundle, "matmul", PARAMS)
        operation.prepare(0)
        values = {"a": a, "b": b, "bias": None, "c": c, "alpha": 1.0}
        launch = operation.bind(values, lambda size: torch.empty(size, dtype=torch.uint8, device="cuda"),
                                lambda: torch.cuda.current_stream().cuda_stream)
        self.kept.append((operation, values, launch))
        return launch

    def describe(self, arrays, device=0, target=None):
        """What a call launches."""
        operation = Operation(self.library, self.bundle, "matmul", PARAMS)
        if target is None:
            operation.prepare(device)
        report = operation.report(operation.pack(arrays), device, target)
        return ", ".join(f"{each.kernel} {'x'.join(map(str, each.grid))}" for each in report.launches)


def measure(torch, case, options, sides):
    rows, columns, depth = case
    bytes_of = 2 * (rows * depth + depth * columns)
    copies = max(2, min(12, int(ROTATED_BYTES / bytes_of) + 1))
    generator = torch.Generator("cuda").manual_seed(1)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, device="cuda", dtype=torch.bfloat16)

    operands = [(normal(rows, depth), normal(depth, columns)) for _ in range(copies)]
    results = [operands[0][0].new_empty(rows, columns) for _ in range(copies)]
    expected = operands[0][0].double() @ operands[0][1].double()
    repeats = copies * max(1, int(4000 / copies / max(bytes_of / 4.5e6, 2 * rows * columns * depth / 7e8)))
    graphs, excluded, kept = {}, {}, []
    for name, side in sides.items():
        if is_large(case) and name.startswith("shares"):
            continue
        try:
            if side is None:
                calls = [lambda a=a, b=b, c=c: torch.matmul(a, b, out=c) for (a, b), c in zip(operands, results)]
            else:
                calls = [side.call(torch, a, b, c) for (a, b), c in zip(operands, results)]
            got = []
            for _ in range(2):
                results[0].fill_(float("nan"))
                calls[0]()
                got.append(results[0].clone())
            error = ((got[0].double() - expected).norm() / expected.norm()).item()
            if not error <= ERROR:
                excluded[name] = f"is wrong: relative error {error:.5f}"
            elif side is not None and not torch.equal(*got):
                excluded[name] = "gives other bits in a second run"
            else:
                graphs[name] = graph_of(torch, [calls[i % copies] for i in range(repeats)])
                kept.append(calls)
        except Exception as error:
            excluded[name] = f"{type(error).__name__}: {str(error)[:300]}"
    for name, why in excluded.items():
        print(f"{name_of(case)}: {name}: {why}", flush=True)
    times = time_graphs(torch, graphs, repeats, options.rounds)
    for name, row in times.items():
        row["tflops"] = 2 * rows * columns * depth / row["us"] / 1e6
        print(f"{name_of(case):18} {name:10} {row['us']:9.2f} us ± {row['iqr']:5.2f} {row['tflops']:7.1f} TFLOP/s", flush=True)
    a, b = operands[0]
    print(f"{name_of(case):18} launches   "
          + sides["table"].describe({"a": a, "b": b, "c": results[0], "alpha": 1.0}), flush=True)
    for side in sides.values():
        if side is not None:
            side.kept.clear()
    return times, excluded


def judge(case, times):
    """Prints the quotients; false if one is missed."""
    holds = True
    for peer, least in (("whole", OF_LARGE if is_large(case) else OVER_WHOLE), ("torch", OVER_TORCH)):
        if "table" not in times or peer not in times:
            print(f"{name_of(case):18} table / {peer}: not measured")
            holds = False
            continue
        speed = times[peer]["us"] / times["table"]["us"]
        # What a large product has of torch.matmul is not the question here.
        decides = peer == "whole" or not is_large(case)
        is_met = speed >= least
        holds &= is_met or not decides
        print(f"{name_of(case):18} table / {peer}: {speed:.3f}"
              + (f", {'at least' if is_met else 'LESS THAN'} {least}" if decides else ""), flush=True)
    return holds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prebuild", metavar="FOLDER", help="write the bundles of all sides and end")
    parser.add_argument("--prebuilt", metavar="FOLDER", help="read bundles that --prebuild wrote")
    parser.add_argument("--bundle", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--cases", type=lambda text: text.split(","), default=[], help="names; default: all")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json")
    parser.add_argument("--library")
    parser.add_argument("--tilewrightc")
    options = parser.parse_args()
    if options.prebuild:
        os.makedirs(options.prebuild, exist_ok=True)
        for side in SIDES:
            build(options.tilewrightc, side, file_of(options.prebuild, side))
        return
    unknown = set(options.cases) - set(map(name_of, CASES))
    if unknown:
        sys.exit(f"no case is named {', '.join(sorted(unknown))}; there are {', '.join(map(name_of, CASES))}")
    import torch
    if not torch.cuda.is_available():
        sys.exit("matmul.py needs a GPU")
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}", flush=True)
    library = Library(options.library or find_library())
    with tempfile.TemporaryDirectory() as folder:
        if not options.prebuilt:
            for side in SIDES:
                build(options.tilewrightc, side, file_of(folder, side))
        sides = {side: Side(library, file_of(options.prebuilt or folder, side)) for side in SIDES}
    for item in options.bundle:
        name, _, path = item.partition("=")
        sides[name] = Side(library, path)
    sides["torch"] = None
    results, holds = {}, True
    for case in CASES:
        if options.cases and name_of(case) not in options.cases:
            continue
        times, excluded = measure(torch, case, options, sides)
        results[name_of(case)] = {"times": times, "excluded": excluded}
        holds &= judge(case, times)
        torch.cuda.empty_cache()
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cases": results}, file, indent=1)
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
