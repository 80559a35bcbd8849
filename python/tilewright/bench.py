# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""python -m tilewright bench: the speed of attention on this machine's GPU, beside what is installed.

Cases, in bf16: forward and backward over 16,384 tokens with hidden size 2048 (B = 16384 / S, H = 2048 / D), full and causal;
and decoding, one query of each sequence over its cache, 64 heads on 8 of width 128. Sides: tilewright, by the functions of
this package; cudnn and flash, PyTorch's scaled_dot_product_attention with that backend; and flash_attn, if that package is
installed. A side is first checked against the formula, and not timed if it is wrong. Each round then calls all sides in
turn: a forward or a backward with an L2 that is overwritten, a decode as a CUDA graph of many calls over caches that
rotate. The figures are medians, of TFLOP/s (4 B H S S D for a forward, 10 for a backward, a causal mask halves them) or, for
decoding, of TB/s of keys and values. bench/peers.py and bench/serving.py in the source tree have more cases.
"""

import argparse
import fnmatch
import json
import math
import sys
from typing import NamedTuple

from tilewright import reports, timing

SUBJECT = "tilewright"
PEERS = ("cudnn", "flash", "flash_attn")
TOKENS, HIDDEN = 16384, 2048
ERROR = 0.02  # of a result, relative to its norm: bf16 has 0.004
ROTATED_BYTES = 600e6  # of caches, more than ten times the L2
NO_GPU = 3  # exit status


class Case(NamedTuple):
    """One line of the table."""
    direction: str  # forward, backward, decode
    dim: int
    causal: bool
    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int

    @property
    def name(self):
        if self.direction == "decode":
            return f"decode D{self.dim} B{self.batch} S{self.keys}"
        return f"{self.direction} D{self.dim} {'causal' if self.causal else 'full'} S{self.keys}"

    @property
    def group(self):
        """The name without the length: one panel of a plot."""
        return f"{self.name.rpartition(' ')[0]}, {'TB/s' if self.direction == 'decode' else 'TFLOP/s'}"

    @property
    def work(self):
        """FLOPs, or for decoding the bytes of keys and values; over milliseconds and 1e9 that is TFLOP/s or TB/s."""
        if self.direction == "decode":
            return 2 * 2 * self.batch * self.kv_heads * self.keys * self.dim
        pairs = self.queries * self.keys / (2 if self.causal else 1)
        return {"forward": 4, "backward": 10}[self.direction] * self.batch * self.heads * pairs * self.dim


def all_cases(dims=(64, 128), lengths=(1024, 4096, 16384)):
    """The cases, in the order of the table."""
    cases = [Case(direction, dim, causal, TOKENS // length, HIDDEN // dim, HIDDEN // dim, length, length)
             for direction in ("forward", "backward") for dim in dims for causal in (False, True) for length in lengths]
    return cases + [Case("decode", 128, True, batch, 64, 8, 1, length) for batch, length in ((1, 16384), (16, 8192), (64, 8192))]


def tensors(case, device, dtype, copies=1):
    """`copies` times q, k and v [B, heads, rows, D] of N(0, 1)."""
    import torch
    generator = torch.Generator(device).manual_seed(1)

    def make(heads, rows):  # as projections leave them, with the heads of a row side by side
        x = torch.randn(case.batch, rows, heads, case.dim, generator=generator, device=device).to(dtype)
        return x.transpose(1, 2)

    return [(make(case.heads, case.queries), make(case.kv_heads, case.keys), make(case.kv_heads, case.keys)) for _ in range(copies)]


def reference(case, q, k, v):
    """The attention of the first head of the first sequence in f32, [rows, D], in blocks of rows."""
    import torch
    q, k, v = (x[0, 0].float() for x in (q, k, v))
    rows = []
    for start in range(0, q.shape[0], 1024):
        scores = q[start:start + 1024] @ k.mT / math.sqrt(case.dim)
        if case.causal:
            last = torch.arange(start, start + scores.shape[0], device=q.device)[:, None] + case.keys - case.queries
            scores = scores.masked_fill(torch.arange(case.keys, device=q.device) > last, -math.inf)
        rows.append(torch.softmax(scores, -1) @ v)
    return torch.cat(rows)


def wrong(name, got, wanted):
    """Raises ValueError if a result differs from that of the formula."""
    error = ((got.float() - wanted).norm() / wanted.norm()).item()
    if not error <= ERROR:
        raise ValueError(f"{name} is wrong: relative error {error:.3g}")


def _sdpa(backend, case):
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel
    kind = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION, "math": SDPBackend.MATH}[backend]
    more = {"enable_gqa": True} if case.heads != case.kv_heads else {}

    def call(q, k, v):
        with sdpa_kernel(kind):
            return F.scaled_dot_product_attention(q, k, v, is_causal=case.causal and case.queries > 1, **more)

    return call


def _flash_attn(case):
    import flash_attn

    def call(q, k, v):
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        if case.direction == "decode":
            return flash_attn.flash_attn_with_kvcache(q, k, v, cache_seqlens=case.keys, causal=True).transpose(1, 2)
        return flash_attn.flash_attn_func(q, k, v, causal=case.causal).transpose(1, 2)

    return call


def _tilewright(case):
    import tilewright

    def decode(q, k, v):
        return tilewright.flash_attn_with_kvcache(*(x.transpose(1, 2) for x in (q, k, v)), causal=True).transpose(1, 2)

    return decode if case.direction == "decode" else lambda q, k, v: tilewright.attention(q, k, v, causal=case.causal)


def side_of(name, case):
    """The function of q, k and v that a side is. Raises ImportError if its package is not installed."""
    return _tilewright(case) if name == SUBJECT else _flash_attn(case) if name == "flash_attn" else _sdpa(name, case)


def calls_of(case, name, inputs):
    """The calls to time, one for each copy of the inputs, after the first has been checked against the formula."""
    import torch
    side = side_of(name, case)
    if case.direction != "backward":
        with torch.no_grad():
            wrong("O", side(*inputs[0])[0, 0], reference(case, *inputs[0]))
        return [lambda x=x: side(*x) for x in inputs]
    leaves = [x.detach().requires_grad_() for x in inputs[0]]
    o = side(*leaves)
    seed = torch.cos(torch.arange(o[0, 0].numel(), device=o.device).reshape(o[0, 0].shape) * 0.37).to(o.dtype).expand(o.shape)
    seed = seed.contiguous()
    exact = [x[:1, :1].detach().requires_grad_() for x in inputs[0]]
    wanted = torch.autograd.grad(reference(case, *exact), exact, seed[0, 0].float())
    for which, x, y in zip(("dQ", "dK", "dV"), torch.autograd.grad(o, leaves, seed, retain_graph=True), wanted):
        wrong(which, x[0, 0], y[0, 0].float())
    return [lambda: torch.autograd.grad(o, leaves, seed, retain_graph=True)]


def measure(case, sides, rounds, device="cuda", dtype=None, time_sides=None):
    """Times the sides of a case in turn; returns ({side: summary}, {side: why it was not timed}). `time_sides` takes the
    calls, {side: [calls]}, and returns {side: summary}; by default it times them on the GPU."""
    import torch
    copies = 1
    if case.direction == "decode" and device == "cuda":
        copies = max(1, min(40, int(ROTATED_BYTES / case.work) + 1))
    inputs = tensors(case, device, dtype or torch.bfloat16, copies)
    calls, absent = {}, {}
    for name in sides:
        try:
            with torch.set_grad_enabled(case.direction == "backward"):
                calls[name] = calls_of(case, name, inputs)
        except ImportError:
            absent[name] = "not installed"
        except Exception as error:  # what a peer says to a case that it does not have
            absent[name] = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:160]}"
    found = (time_sides or (lambda calls: time_on_gpu(case, calls, rounds)))(calls) if calls else {}
    for summary in found.values():
        summary["tflops"] = reports.tflops(case.work, summary["median_ms"])
    return found, absent


def time_on_gpu(case, calls, rounds):
    """{side: summary} of {side: [calls]}, which take turns."""
    import torch
    if case.direction != "decode":
        with torch.set_grad_enabled(case.direction == "backward"):
            times = timing.time_interleaved({name: each[0] for name, each in calls.items()}, rounds)
        return {name: reports.summarize(values) for name, values in times.items()}
    found = {}
    with torch.no_grad():
        copies = len(next(iter(calls.values())))
        repeats = max(copies, min(200, int(2000 / max(case.work / 4.5e6, 3))))
        graphs = {name: timing.graph_of(torch, [each[i % copies] for i in range(repeats)]) for name, each in calls.items()}
        for name, row in timing.time_graphs(torch, graphs, repeats, rounds).items():
            median, half = row["us"] / 1e3, row["iqr"] / 2e3
            found[name] = {"median_ms": median, "q1_ms": median - half, "q3_ms": median + half, "rounds": rounds}
    return found


def table(cases, results, absent):
    """The text of all results: {case name: {side: summary}}, and {case name: {side: why not}}."""
    sides = [SUBJECT, *(peer for peer in PEERS if any(peer in times for times in results.values()))]
    rows = [reports.speed_row(case.name, results[case.name], sides, SUBJECT, digits=2 if case.direction == "decode" else 0)
            for case in cases if results.get(case.name)]
    text = ["TFLOP/s, for decode TB/s; in brackets the interquartile range, or the speed of tilewright over that of the peer", "",
            reports.markdown_table(["case", *sides], rows)]
    for direction in ("forward", "backward", "decode"):
        names = [case.name for case in cases if case.direction == direction]
        ratios = reports.ratios({name: results[name] for name in names if results.get(name)}, SUBJECT)
        if ratios:
            text += ["", f"Speed of tilewright over that of the peer, {direction}", "", reports.markdown_table(
                ["peer", "cases", "geometric mean", "least", "where"], reports.summary_rows(ratios))]
    reasons = {}
    for name, sides_of_case in absent.items():
        for side, why in sides_of_case.items():
            reasons.setdefault((side, why), []).append(name)
    if reasons:
        text.append("")
    for (side, why), names in reasons.items():
        text.append(f"- {side}: {why}" + ("" if len(names) == len(cases) else f" ({', '.join(names)})"))
    return "\n".join(text)


def plot(cases, results, title):
    """An SVG with a panel for each kind of case, by length; for decoding, by length, too, with a panel for each batch."""
    groups = {}
    for case in cases:
        for side, summary in results.get(case.name, {}).items():
            groups.setdefault(case.group, {}).setdefault(side, []).append((case.keys, summary["tflops"]))
    return reports.svg_plot(groups, title)


def _numbers(text):
    if not all(word.isdigit() and int(word) for word in text.split(",")):
        raise argparse.ArgumentTypeError(f"expected N,... but got '{text}'")
    return [int(word) for word in text.split(",")]


def _parse(arguments):
    parser = argparse.ArgumentParser(prog="python -m tilewright bench", description=__doc__.partition("\n")[2].strip(),
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dims", type=_numbers, default=[64, 128], metavar="N,...", help="widths of a head; default 64,128")
    parser.add_argument("--lengths", type=_numbers, default=[1024, 4096, 16384], metavar="N,...",
                        help="rows of a sequence; default 1024,4096,16384")
    parser.add_argument("--cases", nargs="*", metavar="PART", help="only cases whose name contains a PART; * and ? are wildcards")
    parser.add_argument("--rounds", type=int, default=20, help="rounds; default 20, and fewer are too few for a claim")
    parser.add_argument("--plot", metavar="FILE.svg", help="write a plot; needs no other package")
    parser.add_argument("--json", metavar="FILE", help="write the medians and quartiles")
    options = parser.parse_args(arguments)
    if options.rounds < 2:
        parser.error(f"--rounds: expected at least 2, but got {options.rounds}")
    for option, given, most in (("--dims", options.dims, 512), ("--lengths", options.lengths, TOKENS)):
        if max(given) > most:
            parser.error(f"{option}: expected at most {most}, but got {max(given)}")
    if options.plot and not options.plot.endswith(".svg"):
        parser.error(f"--plot: expected the name of an .svg file, but got '{options.plot}'; other formats are not written")
    cases = all_cases(options.dims, options.lengths)
    options.selected = [case for case in cases if not options.cases or any(
        fnmatch.fnmatchcase(f" {case.name} ", f"* {part} *") for part in options.cases)]
    if not options.selected:
        parser.error(f"--cases selects nothing of {', '.join(case.name for case in cases)}")
    return options


def no_gpu():
    """Why there is nothing to measure, or None."""
    try:
        import torch
    except ImportError as error:
        return f"PyTorch cannot be imported ({error})"
    if not torch.cuda.is_available():
        return "there is no GPU that PyTorch can use"
    if torch.cuda.get_device_capability() < (8, 0):
        return f"{torch.cuda.get_device_name()} has compute capability {'.'.join(map(str, torch.cuda.get_device_capability()))}, but " \
               "8.0 is needed"
    return None


def main(arguments):
    """Measures, and prints the table. Returns the exit status: 0, or 1 if tilewright could not be timed in a case, or NO_GPU;
    2 is that of wrong arguments."""
    options = _parse(arguments)
    why = no_gpu()
    if why:
        print(f"tilewright bench: {why}, so that there is nothing to measure; python -m tilewright doctor says more", file=sys.stderr)
        return NO_GPU
    import torch
    gpu = torch.cuda.get_device_name()
    print(f"{gpu}, PyTorch {torch.__version__}, bf16, medians of {options.rounds} rounds in turn")
    results, absent = {}, {}
    for case in options.selected:
        results[case.name], absent[case.name] = measure(case, (SUBJECT, *PEERS), options.rounds)
        speeds = ", ".join(f"{side} {summary['tflops']:.3g}" for side, summary in results[case.name].items())
        print(f"{case.name}: {speeds or 'nothing could be timed'}", file=sys.stderr, flush=True)
        torch.cuda.empty_cache()
    print("\n" + table(options.selected, results, absent))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"gpu": gpu, "torch": torch.__version__, "rounds": options.rounds, "cases": results, "absent": absent}, file,
                      indent=1)
    if options.plot:
        with open(options.plot, "w", encoding="utf-8") as file:
            file.write(plot(options.selected, results, f"Attention on {gpu}, bf16, by sequence length"))
        print(f"\nThe plot is in {options.plot}")
    return 0 if all(SUBJECT in times for times in results.values()) else 1
