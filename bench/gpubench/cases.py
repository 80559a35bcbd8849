# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The cases that are timed, by name: attention over 16,384 tokens with hidden size 2048, and square matrix products."""

import dataclasses
import fnmatch

TOKENS = 16384
HIDDEN = 2048
SEQUENCES = [512, 1024, 2048, 4096, 8192, 16384]
DIMS = [64, 128, 256]
MASKS = ["none", "top_left"]
PRODUCTS = {"forward": 2, "backward": 5, "both": 7}  # of a direction; its forms are in problems.PROBLEMS
MODS = ["softcap", "alibi"]  # what they compute is in modifiers.py


@dataclasses.dataclass(frozen=True)
class AttentionCase:
    dim: int
    causal: str  # none, top_left
    seq: int
    dtype: str = "bf16"
    direction: str = "forward"
    mod: str = ""  # kernels/mods/*.mlir

    operation = "attention"

    @property
    def form(self):
        return self.direction

    @property
    def batch(self):
        return max(1, TOKENS // self.seq)

    @property
    def heads(self):
        return HIDDEN // self.dim

    @property
    def name(self):
        return " ".join([self.direction, self.dtype, f"D{self.dim}", self.causal, *([self.mod] if self.mod else []),
                         f"S{self.seq}"])

    @property
    def group(self):
        """Cases that differ in the length alone: one line of a plot."""
        return " ".join([self.direction, f"D{self.dim}", self.causal, *([self.mod] if self.mod else [])])

    @property
    def flops(self):
        """Of the products over kept pairs; a causal mask keeps half of them."""
        full = 2 * PRODUCTS[self.direction] * self.batch * self.heads * self.seq * self.seq * self.dim
        return full / 2 if self.causal != "none" else full

    def params(self):
        """As tilewrightc spells them."""
        return {"D": str(self.dim), "T": self.dtype, "CAUSAL": self.causal}


@dataclasses.dataclass(frozen=True)
class MatmulCase:
    size: int
    dtype: str = "bf16"

    operation = form = direction = "matmul"
    mod = ""

    @property
    def name(self):
        return f"matmul {self.dtype} {self.size}"

    group = "matmul"

    @property
    def seq(self):
        return self.size

    @property
    def flops(self):
        return 2 * self.size**3

    def params(self):
        return {"T": self.dtype}


def attention_cases(dims=None, masks=None, seqs=None, dtype="bf16", direction="forward", mod=""):
    return [AttentionCase(dim, causal, seq, dtype, direction, mod)
            for dim in dims or DIMS for causal in masks or MASKS for seq in seqs or SEQUENCES]


def all_cases(directions=("forward", "matmul"), mods=("",)):
    """The case list of the peer comparison."""
    cases = []
    for direction in directions:
        if direction == "matmul":
            cases.append(MatmulCase(8192))
        else:
            cases += [case for mod in mods for case in attention_cases(direction=direction, mod=mod)]
    return cases


def select(cases, patterns):
    """The cases of which a pattern, with * and ?, is a part of the name: "D64 top_left", "S4096", "matmul"."""
    if not patterns:
        return list(cases)
    return [case for case in cases if any(fnmatch.fnmatchcase(f" {case.name} ", f"* {p} *") for p in patterns)]
