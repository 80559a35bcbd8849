# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The cases that are timed, by name: attention over 16,384 tokens, and square matrix products."""

import dataclasses
import fnmatch
import itertools
import random

TOKENS = 16384
hidden = 2048  # heads of Q times their width
SEQUENCES = [512, 1024, 2048, 4096, 8192, 16384]
DIMS = [64, 128, 256]
MASKS = ["none", "top_left"]
PRODUCTS = {"forward": 2, "backward": 5, "both": 7}  # direction name; the problem classes are in problems.PROBLEMS
MODS = ["softcap", "alibi", "bias", "dropout", "sink", "document", "spans"]  # implemented in modifiers.py
DOCUMENTS = ["document", "spans"]  # many documents in one sequence
DROPOUT = 0.1
SOFTCAP = 20.0  # small enough to affect scores of N(0, 1) inputs
NUM_DOCUMENTS = 32  # documents in one sequence of all tokens
equal_documents = False  # for comparison with as many sequences of that length


def document_lengths(tokens=TOKENS):
    """The lengths of random documents, the same in each run, or of documents of equal length."""
    if equal_documents:
        return [tokens // NUM_DOCUMENTS] * NUM_DOCUMENTS
    cuts = sorted(random.Random(1).sample(range(1, tokens), NUM_DOCUMENTS - 1))
    return [end - begin for begin, end in itertools.pairwise([0, *cuts, tokens])]


@dataclasses.dataclass(frozen=True)
class AttentionCase:
    dim: int
    causal: str  # none, top_left
    seq: int
    dtype: str = "bf16"
    direction: str = "forward"
    mod: str = ""  # kernels/mods/*.mlir
    gqa: int = 1  # heads of Q per head of K and V
    window: int = 0  # keys kept to the left of a row and, without a causal mask, to its right; 0: all
    value_dim: int = 0  # width of V; 0: dim
    hidden: int = 0  # heads of Q times their width; 0: that of the module

    operation = "attention"

    @property
    def form(self):
        return self.direction

    @property
    def batch(self):
        return max(1, TOKENS // self.seq)

    @property
    def heads(self):
        return (self.hidden or hidden) // self.dim

    @property
    def kv_heads(self):
        return self.heads // self.gqa

    @property
    def _features(self):
        return [self.causal, *([self.mod] if self.mod else []), *([f"gqa{self.gqa}"] if self.gqa > 1 else []),
                *([f"window{self.window}"] if self.window else []), *([f"hidden{self.hidden}"] if self.hidden else [])]

    @property
    def name(self):
        return " ".join([self.direction, self.dtype, self._width, *self._features, f"S{self.seq}"])

    @property
    def _width(self):
        return f"D{self.dim}" + (f"x{self.value_dim}" if self.value_dim else "")

    @property
    def group(self):
        """The name without the length: cases of one group form one line of a plot."""
        return " ".join([self.direction, self._width, *self._features])

    @property
    def kept_pairs(self):
        """The number of (row, key) pairs that the mask keeps; a causal mask without a window counts as half of all
        pairs."""
        seq, one_side = self.seq, min(self.window, self.seq - 1)
        if self.mod in DOCUMENTS:
            return sum(n * n for n in document_lengths(seq)) / (2 if self.causal != "none" else 1)
        if not self.window:
            return seq * seq / 2 if self.causal != "none" else seq * seq
        beside = one_side * seq - one_side * (one_side + 1) // 2  # on one side of the diagonal
        return seq + (beside if self.causal != "none" else 2 * beside)

    @property
    def flops(self):
        """FLOPs of the products over kept pairs. V enters half of the forward's products, and two of the backward's
        five."""
        of_values = {"forward": 1, "backward": 2, "both": 3}[self.direction]
        widths = (PRODUCTS[self.direction] - of_values) * self.dim + of_values * (self.value_dim or self.dim)
        return 2 * widths * self.batch * self.heads * self.kept_pairs

    def params(self):
        """The parameters as tilewrightc spells them."""
        params = {"D": str(self.dim), "T": self.dtype, "CAUSAL": self.causal}
        if self.value_dim:
            params["DV"] = str(self.value_dim)
        return {**params, "WINDOW": "true"} if self.window else params


# Lengths of packed sequences: a mixture, equal ones to compare with a dense batch, and many short ones.
LENGTHS = {"mixed": (2048, 131, 977, 1500, 4096, 64, 3000, 812, 1, 2500, 640, 615), "8x2048": (2048,) * 8,
           "32x512": (512,) * 32}


@dataclasses.dataclass(frozen=True)
class VarlenCase:
    """A case of kernels/attention_forward.mlir or attention_backward.mlir with PACKED."""
    dim: int
    causal: str
    layout: str  # of LENGTHS
    dtype: str = "bf16"
    direction: str = "varlen"  # or varlen_backward

    operation = "varlen"
    mod = ""
    window = 0

    @property
    def lengths(self):
        return LENGTHS[self.layout]

    @property
    def heads(self):
        return hidden // self.dim

    @property
    def seq(self):
        return max(self.lengths)

    @property
    def name(self):
        return f"{self.direction} {self.dtype} D{self.dim} {self.causal} {self.layout}"

    group = name

    @property
    def form(self):
        return self.direction

    @property
    def flops(self):
        """FLOPs of the products over kept pairs, counted as for dense cases."""
        pairs = sum(length * length for length in self.lengths) / (2 if self.causal != "none" else 1)
        return (10 if self.direction == "varlen_backward" else 4) * self.heads * pairs * self.dim

    def params(self):
        return {"D": str(self.dim), "T": self.dtype, "CAUSAL": self.causal, "PACKED": "true"}


@dataclasses.dataclass(frozen=True)
class MatmulCase:
    size: int
    dtype: str = "bf16"

    operation = form = direction = "matmul"
    mod = ""
    window = 0

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


@dataclasses.dataclass(frozen=True)
class DifferentialCase:
    """A case of kernels/differential_attention.mlir."""
    dim: int
    v_dim: int
    causal: str
    seq: int
    batch: int
    heads: int
    dtype: str = "bf16"

    operation = form = direction = "differential"

    @property
    def name(self):
        return (f"differential {self.dtype} B{self.batch} H{self.heads} D{self.dim} V{self.v_dim} {self.causal} "
                f"S{self.seq}")

    @property
    def flops(self):
        """FLOPs of the four products over kept pairs."""
        pairs = self.seq * self.seq / (2 if self.causal != "none" else 1)
        return 4 * self.batch * self.heads * pairs * (self.dim + self.v_dim)

    def params(self):
        return {"D": str(self.dim), "DV": str(self.v_dim), "T": self.dtype, "CAUSAL": self.causal}


@dataclasses.dataclass(frozen=True)
class LinearCase:
    """A case of kernels/linear_attention.mlir."""
    dim: int
    v_dim: int
    seq: int
    batch: int
    heads: int
    dtype: str = "bf16"

    operation = form = direction = "linear"

    @property
    def name(self):
        return f"linear {self.dtype} B{self.batch} H{self.heads} D{self.dim} V{self.v_dim} S{self.seq}"

    @property
    def flops(self):
        """FLOPs for chunks of 128 rows, half of whose pairs are kept; they do not depend on the kernel's chunk size."""
        row = 4 * self.dim * self.v_dim + 128 * (self.dim + self.v_dim)
        return self.batch * self.heads * self.seq * row

    def params(self):
        return {"D": str(self.dim), "DV": str(self.v_dim), "T": self.dtype}


@dataclasses.dataclass(frozen=True)
class SwigluCase:
    """A case of kernels/swiglu.mlir: the number of tokens, their width `dim`, and the width `v_dim` of the inner
    layer."""
    dim: int
    v_dim: int
    seq: int
    transposed: bool = False  # weights [v_dim, dim]
    dtype: str = "bf16"

    operation = form = direction = "swiglu"

    @property
    def name(self):
        return f"swiglu {self.dtype} M{self.seq} N{self.v_dim} K{self.dim}" + (" transposed" if self.transposed else "")

    @property
    def flops(self):
        """FLOPs of both products."""
        return 4 * self.seq * self.dim * self.v_dim

    def params(self):
        return {"T": self.dtype, "TRANSPOSED": "true" if self.transposed else "false"}


def inner_width(dim):
    """The inner width of a gated MLP with three matrices that has the parameters of an MLP with two matrices and inner
    width 4 dim, as in LLaMA: 11,008 for 4096."""
    return -(-8 * dim // 3 // 256) * 256


CASES = {"attention": AttentionCase, "backward": AttentionCase, "matmul": MatmulCase, "differential": DifferentialCase,
         "linear": LinearCase, "swiglu": SwigluCase}  # by the operation that tune.py times


def attention_cases(dims=None, masks=None, seqs=None, dtype="bf16", direction="forward", mod="", gqa=1, window=0,
                    value_dim=0):
    return [AttentionCase(dim, causal, seq, dtype, direction, mod, gqa, window, value_dim)
            for dim in dims or DIMS for causal in masks or MASKS for seq in seqs or SEQUENCES]


def all_cases(directions=("forward", "matmul"), mods=("",), gqas=(1,), windows=(0,), dims=None, dtype="bf16",
              value_dim=0):
    """The cases of the peer comparison. Cases whose number of heads is not a multiple of the group size are skipped.
    Documents fill one sequence of all tokens, without a window."""
    cases = []
    for direction in directions:
        if direction == "matmul":
            cases.append(MatmulCase(8192, dtype))
        elif direction.startswith("varlen"):
            cases += [VarlenCase(dim, causal, layout, dtype, direction)
                      for dim in dims or DIMS for causal in MASKS for layout in LENGTHS]
        else:
            cases += [case for mod in mods for gqa in gqas for window in windows
                      for case in attention_cases(dims, dtype=dtype, direction=direction, mod=mod, gqa=gqa,
                                                  window=window, value_dim=value_dim)
                      if case.heads % gqa == 0 and (mod not in DOCUMENTS or (case.batch == 1 and not window))]
    return cases


def select(cases, patterns):
    """The cases whose names contain a pattern (with * and ? as wildcards): "D64 top_left", "S4096", "matmul"."""
    if not patterns:
        return list(cases)
    return [case for case in cases if any(fnmatch.fnmatchcase(f" {case.name} ", f"* {p} *") for p in patterns)]
