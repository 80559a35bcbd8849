# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The rows of docs/performance.md, which bench/all.py measures: cases of bench/peers.py and of bench/serving.py, each with the
peers that have the feature."""

import dataclasses
import fnmatch
import os

import serving
from gpubench.cases import AttentionCase, MatmulCase, VarlenCase
from gpubench.places import ROOT

AREAS = ["forward", "backward", "packed", "decode", "features"]
LENGTHS = [1024, 4096, 16384]
MASKS = {"none": "full", "top_left": "causal"}
DIRECTIONS = ["forward", "backward"]
FASTEST = ("cudnn", "fa4")  # the fastest peers of plain attention; which one is faster depends on the case


@dataclasses.dataclass(frozen=True)
class Row:
    """One case. `label` is what the table says of it; `direction` tells apart two cases of one line."""
    area: str
    label: str
    case: object
    peers: tuple
    direction: str = "forward"

    @property
    def name(self):
        """The key in the file of figures, and what --rows selects by."""
        return f"decode {self.case.name}" if self.is_serving else self.case.name

    @property
    def is_serving(self):
        return self.area == "decode"

    @property
    def unit(self):
        return "TB/s" if self.is_serving and not isinstance(self.case, serving.Prefill) else "TFLOP/s"

    @property
    def sides(self):
        """Of bench/serving.py: pages in random order, and keys in one piece."""
        return ("rows", "pages64", *self.peers)

    def bundles(self):
        """What the row needs compiled, as Bundles."""
        if not self.is_serving:
            return [Bundle(self.case, 0)]
        return [Bundle(self.case, page_rows) for page_rows in (0, 64)]


@dataclasses.dataclass(frozen=True)
class Bundle:
    case: object
    page_rows: int  # of a case of bench/serving.py

    @property
    def kernel(self):
        if isinstance(self.case, serving.Case):
            return serving.Tilewright.entry(self.case)
        if isinstance(self.case, MatmulCase):
            return "matmul"
        return "attention_backward" if "backward" in self.case.direction else "attention_forward"

    @property
    def mod(self):
        return getattr(self.case, "mod", "")

    @property
    def name(self):
        """Cases with the same code have the same name. For a case of bench/serving.py it is that of its option --bundle."""
        if isinstance(self.case, serving.Case):
            return serving.bundle_names(self.case, self.page_rows, 0)[0]
        return " ".join([self.kernel, *(f"{name}={value}" for name, value in self.case.params().items()),
                         *([self.mod] if self.mod else [])])

    @property
    def file(self):
        return "".join(c if c.isalnum() or c in "-_=" else "_" for c in self.name) + ".twb"

    @property
    def source(self):
        return os.path.join(ROOT, "kernels", self.kernel + ".mlir")


def _of_decode(case):
    """cuDNN, or FlashAttention-4 over pages where cuDNN, through PyTorch, does not have the case."""
    if case.is_plain and len(set(case.lengths)) == 1:
        return ("cudnn",)
    return () if case.modifiers else ("fa4",)


def _features():
    """(label, peers, arguments of an AttentionCase), of which D is 128 and S 4096 if not given."""
    causal, full = {"causal": "top_left"}, {"causal": "none"}
    yield "64 heads of Q on 8, causal", FASTEST, {**causal, "gqa": 8, "hidden": 8192}
    yield "window of 1024 keys, causal, S 16,384", ("fa4",), {**causal, "window": 1024, "seq": 16384}
    yield "softcap, full", ("fa4",), {**full, "mod": "softcap"}
    yield "softcap, causal", ("fa4",), {**causal, "mod": "softcap"}
    yield "ALiBi, causal", ("flex",), {**causal, "mod": "alibi"}
    yield "bias [1, H, S, S], full", ("cudnn",), {**full, "mod": "bias"}
    yield "dropout of 0.1, full", ("cudnn", "flash"), {**full, "mod": "dropout"}
    yield "dropout of 0.1, causal", ("cudnn", "flash"), {**causal, "mod": "dropout"}
    yield "32 documents in 16,384 rows, causal", ("flex",), {**causal, "mod": "spans", "seq": 16384}
    yield "D 96, causal", FASTEST, {**causal, "dim": 96}
    yield "D 192, values of 128 columns, causal", FASTEST, {**causal, "dim": 192, "value_dim": 128}


def rows():
    """All rows, by area."""
    found = [Row(direction, f"D {dim}, {MASKS[mask]}, S {seq:,}", AttentionCase(dim, mask, seq, direction=direction), FASTEST,
                 direction)
             for direction in DIRECTIONS for dim in (64, 128, 256) for mask in MASKS for seq in LENGTHS]
    layouts = {"mixed": "1 to 4096 rows", "32x512": "32 of 512"}
    found += [Row("packed", f"{label}, {MASKS[mask]}",
                  VarlenCase(128, mask, layout, direction={"forward": "varlen", "backward": "varlen_backward"}[direction]),
                  ("fa4",), direction)
              for layout, label in layouts.items() for mask in MASKS for direction in DIRECTIONS]
    for case in serving.CASES + serving.PREFILL:
        found.append(Row("decode", case.name, case, _of_decode(case)))
    for label, peers, arguments in _features():
        found += [Row("features", label, AttentionCase(**{"dim": 128, "seq": 4096, "direction": direction, **arguments}), peers,
                      direction) for direction in DIRECTIONS]
    return found + [Row("features", "matrix product, 8192 cubed", MatmulCase(8192), ("torch",))]


def select(every, parts):
    """The rows whose area or name contains a part (with * and ? as wildcards), as `--cases` of bench/peers.py does, in the order
    of the parts."""
    found = {row.name: row for part in parts for row in every
             if part == row.area or fnmatch.fnmatchcase(f" {row.name} ", f"* {part} *")}
    return list(found.values()) if parts else list(every)
