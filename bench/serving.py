#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares attention of new queries of each sequence over a cache of keys and values, on one GPU: decoding, with one query
of each sequence or a few, and chunked prefill; and writing new keys and values to the cache.

    bench/serving.py                                     every case; tilewrightc compiles the kernels
    bench/serving.py --cases "B1 S16k" --sides pages64,cudnn --json serving.json
    bench/serving.py --cases prefill                     the cases of chunked prefill
    bench/serving.py --cases thirteen --sides paged,invariant --ratio paged/invariant
                                                         what the same bits in any batch cost, over 13 cases
    bench/serving.py --bundle D128=decode.twb            bundles that are compiled already; no tilewrightc needed
    bench/serving.py --cases thirteen --against old=../before/kernels --sides old.pages16,pages16 --ratio old.pages16/pages16
                                                         beside other kernels, in one process

Cases: bf16, by name `B<sequences> S<keys>`, 64 query heads on 8 key heads of width 128 if the name has no others, and one
query of each sequence if it has no rows; chunked prefill is `<sequences> x <new rows> on <keys before them>`. Masks are
causal: the last new row attends all keys. Rates count the keys and values that a window keeps. Names that begin with a type
have a cache of that type, with a factor for each sequence and key head. Sides:

    rows       Tilewright, the keys of each sequence in one piece; in prefill those of all sequences one after the other,
               as attention_forward takes them without a cache
    dense      only prefill: Tilewright, the sequences as the elements of a batch
    chunks     only prefill: Tilewright, the keys before the new ones and these by a launch each, and a merge
    pages64    Tilewright, pages of 64 rows in random order, [pages, rows, heads, D]
    pages16    the same with pages of 16 rows
    hnd64      pages of 64 rows, [pages, heads, rows, D]
    rows:2, pages64:4, ...   the same in as many parts of each sequence (SPLITS), whose results have the same bits in any batch
    cudnn      PyTorch's scaled_dot_product_attention by cuDNN, the keys in one piece; only for equal lengths, not in prefill
    paged, invariant   Tilewright, pages of the rows that the case has (64, if its name has no others); invariant in at most as
               many pieces as fill the GPU with one sequence, the multiprocessors divided by the key heads, whatever the batch
    apart.paged, apart.rows, ...   the same, each call after the end of the previous one; the others start early, and wait before
               they access memory (overlap_previous)
    old.paged, old.rows, ...   the same by the kernels that --against old=FOLDER names
    fa4        FlashAttention-4 over pages of 64 rows, also in prefill, if the package flash-attn-4 is installed
    fa3, fa3:16   FlashAttention-3 over pages of 64 or 16 rows, also in prefill, if flash_attn_interface can be imported

A side is first checked against a reference in f64 (‖O - ref‖ at most 0.006 ‖ref‖) with unused rows of the cache NaN on
Tilewright's sides; one that fails is reported and not timed. Each side is then a CUDA graph of many calls over caches that
rotate, so that the L2 holds nothing of them; rounds replay the graphs in turn. The output has medians in microseconds,
interquartile ranges, and the keys and values read in TB/s; for prefill TFLOP/s of the pairs that the mask keeps, 4 D for
each. The reference of prefill is that of rows evenly taken from each sequence.

The cases `append T<new keys>` write to pages, by themselves or (halves, pairs) with rotary embedding of keys and queries;
`append + decode <case>` are a whole step in one graph. They have sides of their own (gpubench/append.py). So do the cases
`cascade <sequences> <shared keys> + <own keys>`, of sequences that share their first keys (gpubench/cascade.py). The cases
`mla H<heads> B<sequences> S<keys>`, `... 2 rows` and `mla bytes ...` are of latent attention (gpubench/mla.py), and those of
`sparse B<sequences> S<keys> <blocks> x 64` of blocks of keys that are chosen (gpubench/sparse.py).
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

from gpubench.append import APPEND_CASES, ChainCase
from gpubench.cascade import CASCADES
from gpubench.flash_caches import fa3_call, fa4_call
from gpubench.graphs import graph_of, time_graphs
from gpubench.library import Library, Operation
from gpubench.mla import MLA_CASES
from gpubench.places import ROOT, find_library, find_tool
from gpubench.sparse import SPARSE_CASES

KERNELS = os.path.join(ROOT, "kernels")
ROTATED_BYTES = 600e6  # of the caches of a case: more than ten times the L2
ERROR = 0.006
CHECKED_ROWS = 32  # of each sequence in prefill


class Case:
    """`queries` new rows of each sequence, of which row i attends no later key than the queries - i last ones; `window`
    keys before that one, or all; modifiers, names of files in kernels/mods; `room`, keys for which a block table has
    columns, if not those of the longest sequence; and `stored`, the type of the cache, with a factor for each sequence and
    key head if it has 8 bits, or `by_token` for each key and value."""

    def __init__(self, name, lengths, heads=64, key_heads=8, dim=128, queries=1, window=None, modifiers=(), room=0,
                 stored="bf16", value_dim=None, by_token=False, page_rows=64):
        self.page_rows = page_rows
        self.name, self.lengths, self.heads, self.key_heads, self.dim = name, lengths, heads, key_heads, dim
        self.value_dim, self.by_token = value_dim or dim, by_token
        self.queries, self.window, self.modifiers, self.room, self.stored = queries, window, modifiers, room, stored

    @property
    def bytes(self):
        """Of the keys and values that some query attends."""
        most = max(self.lengths) if self.window is None else self.window + self.queries
        columns = self.key_heads * (self.dim + self.value_dim)
        return sum(min(length, most) for length in self.lengths) * columns * (2 if self.stored == "bf16" else 1)

    is_packed = False

    @property
    def is_plain(self):
        return self.queries == 1 and self.window is None and not self.modifiers and self.stored == "bf16"


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
    Case("4 rows B16 S8k", [8192] * 16, queries=4),
    Case("16 rows B16 S8k", [8192] * 16, queries=16),
    Case("tree of 16 B16 S8k", [8192] * 16, queries=16, modifiers=("tree_bits",)),
    Case("softcap B16 S8k", [8192] * 16, modifiers=("softcap",)),
    Case("alibi B16 S8k", [8192] * 16, modifiers=("alibi_aligned",)),
    Case("sinks B16 S8k", [8192] * 16, modifiers=("sink",)),
    Case("B16 S8k of 128k", [8192] * 16, room=131072),
    Case("window B16 S32k", [32768] * 16, window=8191),
    Case("e4m3 B1 S1k", [1024], stored="e4m3"),
    Case("e4m3 B1 S16k", [16384], stored="e4m3"),
    Case("e4m3 B16 S8k", [8192] * 16, stored="e4m3"),
    Case("e4m3 B64 S8k", [8192] * 64, stored="e4m3"),
    Case("e5m2 B64 S8k", [8192] * 64, stored="e5m2"),
    Case("e4m3 4 rows B16 S8k", [8192] * 16, queries=4, stored="e4m3"),
    Case("i8 B16 S8k", [8192] * 16, stored="i8"),
    Case("i8 B64 S8k", [8192] * 64, stored="i8"),
    Case("e4m3 by token B64 S8k", [8192] * 64, stored="e4m3", by_token=True),
    Case("i8 by token B64 S8k", [8192] * 64, stored="i8", by_token=True),
]


class Prefill(Case):
    """`queries` new queries of each sequence, packed, whose keys are in the cache behind `before` others."""

    is_packed = True

    def __init__(self, name, sequences, queries, before, heads=32, key_heads=8, dim=128, value_dim=None):
        super().__init__(name, [before + queries] * sequences, heads, key_heads, dim, queries, value_dim=value_dim)
        self.before = before

    @property
    def flops(self):
        pairs = sum(self.queries * length - self.queries * (self.queries - 1) // 2 for length in self.lengths)
        return 2 * (self.dim + self.value_dim) * self.heads * pairs

    @property
    def starts(self):
        return [self.queries * b for b in range(len(self.lengths) + 1)]


PREFILL = [
    Prefill("4 x 2048 on 30k", 4, 2048, 30 * 1024),
    Prefill("16 x 512 on 8k", 16, 512, 8 * 1024),
    Prefill("8 x 128 on 16k", 8, 128, 16 * 1024, heads=64),
    # Multi-head latent attention, whose keys and values an up-projection has made.
    Prefill("mla 4 x 2048 on 6k", 4, 2048, 6 * 1024, heads=128, key_heads=128, dim=192, value_dim=128),
    Prefill("mla 1 x 4096", 1, 4096, 0, heads=128, key_heads=128, dim=192, value_dim=128),
]

# The cases of decoding whose means are compared: those of CASES, and pages of 16 rows.
THIRTEEN = CASES[:12] + [Case("pages of 16 B64 S8k", [8192] * 64, page_rows=16)]

CHAINS = [ChainCase(case) for case in CASES if case.name in ("B1 S1k", "B8 S2k", "B64 S8k")]


class Cache:
    """Keys and values of one copy of a case, in one piece and, on demand, in pages."""

    def __init__(self, torch, case, seed):
        self.torch, self.case = torch, case
        generator = torch.Generator("cuda").manual_seed(seed)
        shape = (len(case.lengths), max(case.lengths), case.key_heads)
        self.k, self.v = (self.rounded(torch.randn((*shape, width), generator=generator, device="cuda", dtype=torch.bfloat16))
                          for width in (case.dim, case.value_dim))
        self.k_descale, self.v_descale = (torch.ones((shape[0], case.key_heads), device="cuda") for _ in range(2))
        if case.stored != "bf16":
            for factors in (self.k_descale, self.v_descale):
                factors.uniform_(0.25, 1, generator=generator).mul_(1 / 32 if case.stored == "i8" else 1)
        shape = (shape[0], case.heads, case.queries, case.dim)
        if isinstance(case, Prefill):  # packed
            shape = (shape[0] * case.queries, case.heads, case.dim)
        self.q = torch.randn(shape, generator=generator, device="cuda", dtype=torch.bfloat16)
        shifts = [length - case.queries for length in case.lengths]
        slopes = (2.0 ** -(1 + torch.arange(case.heads) % 16)).repeat(len(case.lengths), 1)
        self.captures = {
            "softcap": {"softcap": 5.0},
            "alibi_aligned": {"alibi_slopes": slopes.cuda(),
                              "alibi_shift": torch.tensor(shifts, dtype=torch.int32, device="cuda")},
            "tree_bits": {"tree_bits": self.tree_bits(), "tree_begin": torch.tensor(shifts, dtype=torch.int32, device="cuda")},
            "sink": {"sinks": torch.randn(case.heads, generator=generator, device="cuda") + 4},
        }
        for b, length in enumerate(case.lengths):
            self.k[b, length:] = float("nan")
            self.v[b, length:] = float("nan")

    def tree(self):
        """Which new keys a query attends, [queries, queries]: itself and its ancestors in a binary tree."""
        keep = self.torch.eye(self.case.queries, dtype=self.torch.bool)
        for i in range(1, self.case.queries):
            keep[i] |= keep[(i - 1) // 2]
        return keep

    def tree_bits(self):
        torch, words = self.torch, -(-self.case.queries // 32)
        keep = torch.nn.functional.pad(self.tree(), (0, 32 * words - self.case.queries)).view(-1, words, 32)
        return (keep.long() << torch.arange(32)).sum(-1).int().cuda().repeat(len(self.case.lengths), 1, 1)

    def as_stored(self, x):
        """A tensor of the cache, whose values the type of the cache has, in that type."""
        types = {"e4m3": self.torch.float8_e4m3fn, "e5m2": self.torch.float8_e5m2, "i8": self.torch.int8}
        if self.case.stored == "i8":
            x = x.nan_to_num(0)
        return x if self.case.stored == "bf16" else x.to(types[self.case.stored])

    def rounded(self, x):
        if self.case.stored == "i8":
            return (32 * x).round().clamp(-128, 127)
        return self.as_stored(x).to(self.torch.bfloat16)

    def pages(self, rows, heads_outside):
        """Returns pools of keys and of values, and the block table."""
        torch, case = self.torch, self.case
        count = [math.ceil(length / rows) for length in case.lengths]
        order = torch.randperm(sum(count), generator=torch.Generator().manual_seed(1)).cuda()
        table = torch.zeros((len(count), max([*count, case.room // rows])), dtype=torch.int32, device="cuda")
        shape = (sum(count), case.key_heads, rows) if heads_outside else (sum(count), rows, case.key_heads)
        k, v = (torch.full((*shape, width), float("nan"), dtype=torch.bfloat16, device="cuda")
                for width in (case.dim, case.value_dim))
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
        return self.as_stored(views[0]), self.as_stored(views[1]), table

    def factors_of_tokens(self, pages, table):
        """The factors of sequences and key heads as those of each key and value: [pages * rows, key heads]."""
        result = {}
        for name, factors in (("k_scales", self.k_descale), ("v_scales", self.v_descale)):
            each = self.torch.ones(pages.shape[:3], device="cuda")
            for b, length in enumerate(self.case.lengths):
                each[b if table is None else table[b, :math.ceil(length / pages.shape[1])].long()] = factors[b]
            result[name] = each.view(-1, pages.shape[2])
        return result

    def checked_rows(self):
        """The first indices of q that the reference has: all sequences, or rows of packed ones."""
        case, rows = self.case, self.case.queries if isinstance(self.case, Prefill) else 1
        own = [i * (rows - 1) // max(CHECKED_ROWS - 1, 1) for i in range(CHECKED_ROWS)] if rows > 1 else [0]
        return self.torch.tensor([b * rows + i for b in range(len(case.lengths)) for i in own], device="cuda")

    def reference(self):
        if isinstance(self.case, Prefill):
            return self.reference_of_prefill()
        torch, case = self.torch, self.case
        group = case.heads // case.key_heads
        result = torch.empty(*self.q.shape[:-1], case.value_dim, dtype=torch.float64, device="cuda")
        captures = {name: value for modifier in case.modifiers for name, value in self.captures[modifier].items()}
        for b, length in enumerate(case.lengths):
            diagonal = torch.arange(case.queries, device="cuda")[:, None] + length - case.queries
            behind = diagonal - torch.arange(length, device="cuda")
            keep = (behind >= 0) & (behind <= (length if case.window is None else case.window))
            if "tree_bits" in captures:
                keep[:, length - case.queries:] = self.tree().cuda()
            for h in range(case.key_heads):
                heads = slice(h * group, (h + 1) * group)
                keys, values = (x[b, :length, h].double() * factors[b, h].double()
                                for x, factors in ((self.k, self.k_descale), (self.v, self.v_descale)))
                scores = self.q[b, heads].double() @ keys.T / math.sqrt(case.dim)
                if "alibi_slopes" in captures:
                    scores -= captures["alibi_slopes"][b, heads, None, None].double() * behind.abs()
                if "softcap" in captures:
                    scores = captures["softcap"] * torch.tanh(scores / captures["softcap"])
                scores.masked_fill_(~keep, -math.inf)
                if "sinks" in captures:
                    sinks = captures["sinks"][heads, None, None].double().expand(-1, case.queries, 1)
                    scores = torch.cat([scores, sinks], -1)
                result[b, heads] = torch.softmax(scores, -1)[..., :length] @ values
        return result

    def reference_of_prefill(self):
        torch, case = self.torch, self.case
        group, at = case.heads // case.key_heads, self.checked_rows().view(len(case.lengths), -1)
        result = []
        for b, length in enumerate(case.lengths):
            last = length - case.queries + (at[b] - b * case.queries)  # the last key of each row
            masked = torch.arange(length, device="cuda") > last[:, None]
            heads = []
            for h in range(case.heads):
                scores = self.q[at[b], h].double() @ self.k[b, :length, h // group].double().T / math.sqrt(case.dim)
                weights = torch.softmax(scores.masked_fill(masked, -math.inf), -1)
                heads.append(weights @ self.v[b, :length, h // group].double())
            result.append(torch.stack(heads, 1))
        return torch.cat(result)


def bundle_names(case, page_rows, splits):
    """The names under which --bundle gives the code of a case, the most specific one first."""
    if isinstance(case, Prefill):
        names = [f"prefill D{case.dim} P{page_rows}"]  # page rows, or a word for another form
    elif case.is_plain:
        names = [f"D{case.dim} G{case.heads // case.key_heads} P{page_rows}", f"D{case.dim}"]
    else:
        names = [f"{case.name} P{page_rows}"]
    return [f"{names[0]} S{splits}"] if splits else names


def compile_command(tilewrightc, case, page_rows, splits, path, kernels=KERNELS):
    """The command that compiles the code of a case into a bundle."""
    entry = Tilewright.entry(case)
    return [tilewrightc or find_tool(), os.path.join(kernels, entry + ".mlir"),
            f"--{'kernel' if isinstance(case, Prefill) else 'program'}={entry}", "--quiet", "--emit=bundle", "--target=sm_90a",
            "-o", path, *(f"--with={kernels}/mods/{modifier}.mlir" for modifier in case.modifiers),
            *(f"--param={text}" for text in Tilewright.params(case, page_rows, splits, True))]


class Tilewright:
    """Calls of attention_decode, or of attention_forward for prefill. Plans and workspaces live as long as this object."""

    def __init__(self, torch, options):
        self.torch, self.options = torch, options
        self.library = Library(options.library or find_library())
        self.bundles, self.kept, self.against = {}, [], ""
        self.folders = {"": KERNELS} | {f"{name}.": folder for name, _, folder in (text.partition("=") for text in options.against)}
        for item in options.bundle:
            name, _, path = item.partition("=")
            self.bundles[name] = self.library.open(path)

    def bundle(self, case, page_rows, splits):
        names = [self.against + name for name in bundle_names(case, page_rows, splits)]
        for name in names:
            if name in self.bundles:
                return self.bundles[name]
        self.bundles[names[0]] = self.compiled(
            lambda path: compile_command(self.options.tilewrightc, case, page_rows, splits, path, self.folders[self.against]))
        return self.bundles[names[0]]

    def compiled(self, command):
        """The bundle that the command, a function of its path, writes."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "serving.twb")
            subprocess.run(command(path), check=True)
            return self.library.open(path)

    @staticmethod
    def entry(case):
        return "attention_forward" if isinstance(case, Prefill) else "attention_decode"

    @staticmethod
    def params(case, page_rows, splits, as_text=False):
        if isinstance(case, Prefill):
            values = {"D": case.dim, "DV": case.value_dim, "T": "bf16", "CAUSAL": "none" if page_rows == "before" else "bottom_right",
                      "PACKED": str(page_rows != "dense").lower()}
            values |= {"CACHED": "true", "PAGE_ROWS": page_rows} if isinstance(page_rows, int) and page_rows else {}
        else:
            values = {"D": case.dim, "T": "bf16", "GROUP": case.heads // case.key_heads, "PAGE_ROWS": page_rows,
                      "SPLITS": splits} | (
                          {"CACHE": case.stored, "BY_TOKEN": str(case.by_token).lower()} if case.stored != "bf16" else {})
            if case.queries > 1 or case.window is not None:
                causal = "none" if "tree_bits" in case.modifiers else "bottom_right"
                values |= {"ROWS": case.queries, "CAUSAL": causal, "WINDOW": str(case.window is not None).lower()}
        return [f"{name}={value}" for name, value in values.items()] if as_text else values

    def bind(self, bundle, entry, params, values):
        plan = Operation(self.library, bundle, entry, params)
        plan.prepare(0)
        launch = plan.bind(values, lambda size: self.torch.empty(size, dtype=self.torch.uint8, device="cuda"),
                           lambda: self.torch.cuda.current_stream().cuda_stream)
        self.kept.append((plan, values, launch))
        return launch

    def in_one_piece(self, case, cache, out, form, keys=slice(None), lse=None):
        """A call of prefill over some keys of each sequence, in one array: packed, or (dense) with the sequences as a batch.
        `form`: of bundle_names and params."""
        torch, count = self.torch, len(range(*keys.indices(case.lengths[0])))
        values = {"scale": 1 / math.sqrt(case.dim)}
        if form == "dense":
            values |= {name: x.view(len(case.lengths), -1, *x.shape[1:]).transpose(1, 2) for name, x in (("q", cache.q), ("o", out))}
            values |= {name: x.transpose(1, 2) for name, x in (("k", cache.k), ("v", cache.v))}
        else:
            values |= {name: x.transpose(0, 1)[None] for name, x in (("q", cache.q), ("o", out))}
            values |= {name: x[:, keys].flatten(0, 1).transpose(0, 1)[None] for name, x in (("k", cache.k), ("v", cache.v))}
            starts = torch.arange(len(case.lengths) + 1, dtype=torch.int32, device="cuda")
            values |= {"cu_seqlens_q": starts * case.queries, "cu_seqlens_k": starts * count}
        values |= {} if lse is None else {"lse": lse[None]}
        return self.bind(self.bundle(case, form, 0), "attention_forward", self.params(case, form, 0), values)

    def chunks(self, case, cache, out):
        """Queries attend the keys before them, without a mask, and their own chunk; the results are merged."""
        if not case.before:
            return None
        torch, rows = self.torch, cache.q.shape[0]
        parts = torch.empty((2, rows, case.heads, case.value_dim), dtype=torch.bfloat16, device="cuda")
        sums = torch.empty((2, case.heads, rows), device="cuda")
        launches = [self.in_one_piece(case, cache, parts[0], "before", slice(0, case.before), sums[0]),
                    self.in_one_piece(case, cache, parts[1], 0, slice(case.before, None), sums[1])]
        bundle = self.bundles.get("attention_merge")
        params = {"D": case.value_dim, "T": "bf16"}
        if bundle is None:
            bundle = self.bundles["attention_merge"] = self.compiled(
                lambda path: [self.options.tilewrightc or find_tool(), os.path.join(KERNELS, "attention_merge.mlir"), "--quiet",
                              "--emit=bundle", "--target=sm_90a", "-o", path, *(f"--param={n}={x}" for n, x in params.items())])
        launches.append(self.bind(bundle, "attention_merge", params,
                                  {"o_parts": parts.transpose(0, 1), "lse_parts": sums.permute(2, 0, 1), "o": out}))
        return lambda: [launch() for launch in launches] and None

    def call(self, case, cache, out, page_rows, heads_outside=False, pool=None, seq_lens=None, q=None, splits=0):
        torch = self.torch
        if isinstance(case, Prefill) and not page_rows:
            return self.in_one_piece(case, cache, out, 0)
        lengths = torch.tensor(case.lengths, dtype=torch.int32, device="cuda") if seq_lens is None else seq_lens
        values = {"q": cache.q if q is None else q, "o": out, "scale": 1 / math.sqrt(case.dim), "seq_lens": lengths,
                  "window_left": -1 if case.window is None else case.window, "window_right": -1}
        for modifier in case.modifiers:
            values |= cache.captures[modifier]
        k, v = ("k", "v") if isinstance(case, Prefill) else ("k_pages", "v_pages")
        if page_rows:
            values[k], values[v], values["block_table"] = pool or cache.pages(page_rows, heads_outside)
        else:
            values[k], values[v] = cache.as_stored(cache.k), cache.as_stored(cache.v)
        if case.by_token:
            values |= cache.factors_of_tokens(values[k], values.get("block_table"))
        elif case.stored != "bf16":
            values |= {"k_descale": cache.k_descale, "v_descale": cache.v_descale}
        if isinstance(case, Prefill):
            values |= {"q": cache.q.transpose(0, 1)[None], "o": out.transpose(0, 1)[None],
                       "cu_seqlens_q": torch.tensor(case.starts, dtype=torch.int32, device="cuda")}
        return self.bind(self.bundle(case, page_rows, splits), self.entry(case), self.params(case, page_rows, splits), values)


def cudnn_call(torch, case, cache, out):
    if len(set(case.lengths)) > 1 or not case.is_plain:
        return None
    q, k, v = cache.q, cache.k.transpose(1, 2), cache.v.transpose(1, 2)

    def call():
        with torch.nn.attention.sdpa_kernel([torch.nn.attention.SDPBackend.CUDNN_ATTENTION]):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    return call


def side_of(name, torch, ours, case, cache, out):
    form, _, splits = name.partition(":")
    against, point, own = form.partition(".")
    if against == "apart":
        before = len(ours.kept)
        launch = side_of(name.partition(".")[2], torch, ours, case, cache, out)
        if launch and len(ours.kept) == before:
            sys.exit(f"serving.py: side {name} is not Tilewright's, so nothing of it overlaps")
        for plan, *_ in ours.kept[before:]:
            plan.overlap_previous(False)
        return launch
    form, ours.against = (own, f"{against}.") if point else (form, "")
    if ours.against not in ours.folders:
        sys.exit(f"serving.py: side {name} needs --against {against}=FOLDER")
    splits = int(splits or 0)
    if form in ("dense", "chunks"):
        if not isinstance(case, Prefill):
            return None
        return ours.chunks(case, cache, out) if form == "chunks" else ours.in_one_piece(case, cache, out, "dense")
    if form == "rows":
        return ours.call(case, cache, out, 0, splits=splits)
    if form.startswith(("pages", "hnd")):
        return ours.call(case, cache, out, int(form.lstrip("pageshnd")), form.startswith("hnd"), splits=splits)
    if form in ("paged", "invariant"):
        if form == "invariant":
            splits = max(torch.cuda.get_device_properties("cuda").multi_processor_count // case.key_heads, 1)
        return ours.call(case, cache, out, case.page_rows, splits=splits)
    if form == "fa3":
        return fa3_call(torch, case, cache, out, splits or case.page_rows)
    return {"cudnn": cudnn_call, "fa4": fa4_call}[name](torch, case, cache, out)


def print_ratios(results, names):
    """Prints the time of one side divided by that of another in each case that has both, the mean and the extremes."""
    one, _, other = names.partition("/")
    ratios = {case: row[one]["us"] / row[other]["us"] for case, row in results.items() if one in row and other in row}
    if not ratios:
        sys.exit(f"serving.py: no case has both sides of --ratio {names}")
    for case, ratio in ratios.items():
        print(f"{names} {case:24} {ratio:.3f}")
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    print(f"{names} geometric mean of {len(ratios)} cases {mean:.3f}, from {min(ratios.values()):.3f} to {max(ratios.values()):.3f}")


def measure(torch, case, options, ours):
    """Checks, times and prints all sides of a case; returns ({side: {"us", "iqr", "tbs" and "tflops"}}, {side: the reason why
    it was excluded})."""
    is_prefill = isinstance(case, Prefill)
    copies = 2 if is_prefill else max(1, min(40, int(ROTATED_BYTES / case.bytes) + 1))
    caches = [Cache(torch, case, seed) for seed in range(copies)]
    outs = [cache.q.new_empty(*cache.q.shape[:-1], case.value_dim) for cache in caches]
    expected, checked = caches[0].reference(), caches[0].checked_rows()
    repeats = 4 if is_prefill else max(copies, min(200, int(2000 / max(case.bytes / 4.5e6, 3))))
    graphs, kept, excluded = {}, [], {}
    for side in options.sides:
        outs[0].fill_(float("nan"))
        try:
            calls = [side_of(side, torch, ours, case, cache, out) for cache, out in zip(caches, outs)]
            if calls[0] is None:
                continue
            returned = calls[0]()
            got = (outs[0] if returned is None else returned)[checked].double()
            error = ((got - expected).norm() / expected.norm()).item()
            if not error <= ERROR:
                excluded[side] = f"is wrong: relative error {error:.4f}"
                continue
            graphs[side] = graph_of(torch, [calls[i % copies] for i in range(repeats)])
            kept.append(calls)
        except Exception as error:  # a peer that refuses a case
            excluded[side] = f"{type(error).__name__}: {str(error)[:200]}"
    for side, why in excluded.items():
        print(f"{case.name}: {side}: {why}", flush=True)
    result = time_graphs(torch, graphs, repeats, options.rounds)
    for side, row in result.items():
        row["tbs"] = case.bytes / row["us"] / 1e6
        rate = f"{row['tbs']:7.3f} TB/s"
        if is_prefill:
            row["tflops"] = case.flops / row["us"] / 1e6
            rate = f"{row['tflops']:7.1f} TFLOP/s"
        print(f"{case.name:16} {side:10} {row['us']:9.2f} us ± {row['iqr']:5.2f} {rate}", flush=True)
    return result, excluded


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=lambda text: text.split(","), default=[],
                        help="names of cases; prefill for those of chunked prefill, thirteen for those of decoding; default: all")
    parser.add_argument("--sides", type=lambda text: text.split(","), default="rows,pages64,pages16,hnd64,cudnn".split(","))
    parser.add_argument("--bundle", action="append", default=[],
                        help="D<width>[ G<group> P<page rows>]=file.twb; prefill D<width> P<page rows, dense or before>=file.twb; for "
                        "decoding several rows, windows or modifiers <case> P<page rows>=file.twb; <program> H<heads>=file.twb; block_means=file.twb")
    parser.add_argument("--against", action="append", default=[], metavar="NAME=FOLDER",
                        help="other kernels, which sides NAME.paged and so on take; --bundle \"NAME.D128 ...=file.twb\" their code")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--ratio", action="append", default=[], help="ONE/OTHER: also print the time of a side divided by that of another, in each case and in the "
                        "geometric mean")
    parser.add_argument("--json")
    parser.add_argument("--library")
    parser.add_argument("--tilewrightc")
    options = parser.parse_args()
    import torch
    if not torch.cuda.is_available():
        sys.exit("serving.py needs a GPU")
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    ours = Tilewright(torch, options)
    runs = {case.name: lambda case=case: measure(torch, case, options, ours)[0] for case in CASES + THIRTEEN[-1:] + PREFILL}
    runs |= {case.name: lambda case=case: case.measure(torch, options, ours) for case in APPEND_CASES + CASCADES + MLA_CASES + SPARSE_CASES}
    runs |= {case.name: lambda case=case: case.measure(torch, options, ours, Cache) for case in CHAINS}
    groups = {"prefill": PREFILL, "thirteen": THIRTEEN}
    options.cases += [case.name for name, group in groups.items() if name in options.cases for case in group]
    unknown = set(options.cases) - set(runs) - set(groups)
    if unknown:
        sys.exit(f"no case is named {', '.join(sorted(unknown))}; there are {', '.join(runs)}")
    results = {}
    for name, run in runs.items():
        if not options.cases or name in options.cases:
            results[name] = run()
            ours.kept.clear()
            torch.cuda.empty_cache()
    for names in options.ratio:
        print_ratios(results, names)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cases": results}, file, indent=1)


if __name__ == "__main__":
    main()
