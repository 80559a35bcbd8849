#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains a small GPT with Tilewright's attention and with SDPA's cuDNN, and compares losses and step times.

    bench/training_step.py --json training.json --svg training.svg
    bench/training_step.py --bundle forward.twb --bundle backward.twb --library libtilewright.so     without a compiler

Both models start with the same weights and process the same batches, in alternating steps, under torch.compile and
autocast to bf16. The training text is the source code of Python's standard library, as bytes. Needs a GPU."""

import argparse
import json
import os
import random
import statistics
import sys
import sysconfig
import time

os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

from gpubench import gpt, report  # noqa: E402


def read_text():
    """The bytes of the standard library's modules, in order of their names."""
    folder = sysconfig.get_path("stdlib")
    parts = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py"):
            with open(os.path.join(folder, name), "rb") as file:
                parts.append(file.read())
    return torch.frombuffer(bytearray(b"\n".join(parts)), dtype=torch.uint8)


def by_cudnn(q, k, v):
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])


def by_tilewright(q, k, v):
    from tilewright.torch import attention
    return attention(q, k, v, causal=True)


SIDES = {"tilewright": by_tilewright, "cudnn": by_cudnn}


class Trainer:
    def __init__(self, options, attend):
        torch.manual_seed(1)
        model = gpt.Gpt(options.layers, options.heads, options.kv_heads, options.head_width, options.rows, attend).cuda()
        self.parameters = sum(weight.numel() for weight in model.parameters())
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), fused=True)
        self.loss = torch.compile(model, fullgraph=True)

    def step(self, tokens, targets):
        """One training step; returns the loss (a tensor) and the events before and after the step."""
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = self.loss(tokens, targets)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        end.record()
        return loss.detach(), begin, end


def batches(options):
    text = read_text().cuda()
    draw = random.Random(7)
    for _ in range(options.steps):
        starts = [draw.randrange(len(text) - options.rows - 1) for _ in range(options.batch)]
        rows = torch.stack([text[start : start + options.rows + 1] for start in starts]).long()
        yield rows[:, :-1], rows[:, 1:]


def train(options):
    """Trains all sides; returns {side: {"losses", "step_ms"}} and the number of parameters."""
    trainers = {}
    for side in options.sides.split(","):
        trainers[side] = Trainer(options, SIDES[side])
    records = {side: [] for side in trainers}
    began = time.monotonic()
    for number, (tokens, targets) in enumerate(batches(options)):
        order = list(trainers) if number % 2 == 0 else list(trainers)[::-1]
        for side in order:
            records[side].append(trainers[side].step(tokens, targets))
        if number == 0:
            torch.cuda.synchronize()
            print(f"compiled in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    torch.cuda.synchronize()
    results = {side: {"losses": [float(loss) for loss, _, _ in steps],
                      "step_ms": [begin.elapsed_time(end) for _, begin, end in steps]} for side, steps in records.items()}
    return results, next(iter(trainers.values())).parameters


def summarize(options, results, parameters):
    """A summary in Markdown. The times exclude the first steps, which compile and tune."""
    rows = []
    for side, result in results.items():
        times = report.summarize(result["step_ms"][options.warmup:])
        rows.append([side, f"{times['median_ms']:.2f}", f"{times['q1_ms']:.2f} to {times['q3_ms']:.2f}",
                     f"{statistics.fmean(result['losses'][-10:]):.4f}"])
    lines = [f"{options.layers} layers, {options.heads} heads of {options.head_width}, {options.kv_heads} of keys, "
             f"{parameters / 1e6:.0f} million parameters, {options.batch} x {options.rows} bytes a step, "
             f"{options.steps} steps", "",
             report.markdown_table(["attention", "step, ms", "quartiles", "loss, mean of the last ten"], rows)]
    if set(SIDES) <= set(results):
        ours, theirs = results["tilewright"], results["cudnn"]
        ratio = [b / a for a, b in zip(ours["step_ms"], theirs["step_ms"])][options.warmup:]
        apart = max(abs(a - b) for a, b in zip(ours["losses"], theirs["losses"]))
        lines += ["", f"time of cuDNN over ours, median: {statistics.median(ratio):.4f}; "
                      f"losses differ by at most {apart:.4f}"]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--kv-heads", type=int, default=4)
    parser.add_argument("--head-width", type=int, default=128)
    parser.add_argument("--rows", type=int, default=4096, help="length of a sequence")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--warmup", type=int, default=10, help="first steps, whose times are not counted")
    parser.add_argument("--sides", default=",".join(SIDES), help="one or both of tilewright, cudnn")
    parser.add_argument("--bundle", action="append", default=[],
                        help="a bundle of tilewrightc, to run without a compiler")
    parser.add_argument("--library", help="libtilewright.so")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--svg", metavar="FILE", help="a plot of the losses")
    options = parser.parse_args()
    unknown = set(options.sides.split(",")) - set(SIDES)
    if unknown:
        parser.error(f"--sides takes {', '.join(SIDES)}, but got {', '.join(sorted(unknown))}")
    if not 0 <= options.warmup < options.steps:
        parser.error(f"--warmup must leave steps to time, but got {options.warmup} of {options.steps}")
    if not torch.cuda.is_available():
        sys.exit("error: needs a GPU, and PyTorch with CUDA")
    if options.library:
        os.environ["TILEWRIGHT_LIBRARY"] = options.library
    if options.bundle:
        from tilewright.torch import load_bundle
        for bundle in options.bundle:
            load_bundle(bundle)
    results, parameters = train(options)
    print(summarize(options, results, parameters))
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"options": vars(options), "parameters": parameters, "sides": results}, file)
    if options.svg:
        with open(options.svg, "w") as file:
            file.write(report.svg_curves({side: result["losses"] for side, result in results.items()},
                                         "Loss by step", "step", "cross entropy, nats"))


if __name__ == "__main__":
    main()
