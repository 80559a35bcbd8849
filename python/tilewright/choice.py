# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which kernel serves a call of attention, and with which parameters. Does not need PyTorch."""

from itertools import product
from typing import NamedTuple, Tuple

from tilewright import checks, places, runtime


class Choice(NamedTuple):
    """A kernel or program and its compile options: attention_KERNEL in kernels/attention_KERNEL.mlir, where KERNEL is
    `kernel`."""
    kernel: str
    dtype: str
    dim: int
    value_dim: int
    causal: str
    window: bool
    modifier: str  # linked files, in the format of checks.modifier_files
    deterministic: bool = False
    captured: bool = False  # whether captures get gradients
    packed: bool = False
    score_gradient: bool = False  # whether the backward writes d_score, the gradient of a bias
    lists: Tuple[int, ...] = ()  # block sizes of queries and keys, if there is a block mask
    cached: bool = False  # whether keys and values are in a cache; only in a forward
    page_rows: int = 0  # how many rows of a page of the cache one copy takes; 0: no pages

    def entry(self):
        return f"attention_{self.kernel}"

    def params(self):
        params = {"D": str(self.dim), "DV": str(self.value_dim), "T": self.dtype, "CAUSAL": self.causal}
        params |= {"WINDOW": str(self.window).lower(), "PACKED": str(self.packed).lower(),
                   "LISTED": str(bool(self.lists)).lower()}
        params |= {name: str(size) for name, size in zip(("LIST_BLOCK_M", "LIST_BLOCK_N"), self.lists)}
        if self.cached:
            params |= {"CACHED": "true", "PAGE_ROWS": str(self.page_rows)}
        if self.kernel == "backward":
            params |= {"DETERMINISTIC": str(self.deterministic).lower(), "CAPTURE_GRADIENTS": str(self.captured).lower(),
                       "SCORE_GRADIENT": str(self.score_gradient).lower()}
        return params

    def files(self):
        """Returns the path of the kernel's file, and a list of the files to link."""
        return f"{places.KERNELS}/{self.entry()}.mlir", checks.modifier_files(self.modifier)

    def create(self, library, bundle):
        if self.kernel == "forward" and not (self.packed or self.lists or self.cached):
            return runtime.AttentionForward(library, bundle, self.dtype, self.dim, self.causal, self.value_dim, self.window)
        if self.kernel == "backward" and not (self.packed or self.score_gradient or self.lists):
            return runtime.AttentionBackward(library, bundle, self.dtype, self.dim, self.causal, self.deterministic,
                                             self.value_dim, self.window, self.captured)
        return runtime.Operation(library, bundle, self.entry(), self.params())


class DecodeChoice(NamedTuple):
    """The same for attention_decode."""
    dtype: str
    dim: int
    value_dim: int
    group: int
    rows: int  # of queries: a power of two, at least as many as there are
    causal: str
    window: bool
    page_rows: int
    splits: int
    modifier: str

    def entry(self):
        return "attention_decode"

    def params(self):
        return {"D": str(self.dim), "DV": str(self.value_dim), "T": self.dtype, "GROUP": str(self.group),
                "ROWS": str(self.rows), "CAUSAL": self.causal, "WINDOW": str(self.window).lower(),
                "PAGE_ROWS": str(self.page_rows), "SPLITS": str(self.splits)}

    def files(self):
        return f"{places.KERNELS}/{self.entry()}.mlir", checks.modifier_files(self.modifier)

    def create(self, library, bundle):
        return runtime.Operation(library, bundle, self.entry(), self.params())


class AppendChoice(NamedTuple):
    """The same for attention_append."""
    dtype: str
    dim: int
    value_dim: int
    places: str
    indices: str = "i32"
    packed: bool = False
    positions: bool = False
    rotary: int = 0
    pairs: bool = False
    q_first: bool = False
    angles: str = ""  # the type of cos and sin, if there are any
    modifier: str = ""

    def entry(self):
        return "attention_append"

    def params(self):
        params = {"D": str(self.dim), "DV": str(self.value_dim), "T": self.dtype, "PLACES": self.places,
                  "INDICES": self.indices, "ROTARY": str(self.rotary), "TR": self.angles or self.dtype}
        flags = {"PACKED": self.packed, "POSITIONS": self.positions, "PAIRS": self.pairs, "Q_FIRST": self.q_first}
        return params | {name: str(value).lower() for name, value in flags.items()}

    def files(self):
        return f"{places.KERNELS}/{self.entry()}.mlir", []

    def create(self, library, bundle):
        return runtime.Operation(library, bundle, self.entry(), self.params())


def common_choices():
    """The choices whose code comes with the wheel."""
    return [Choice(kernel, dtype, dim, dim, causal, False, "") for kernel, dtype, dim, causal in product(
        ("forward", "backward"), ("f16", "bf16"), (64, 128), ("none", "top_left"))]
